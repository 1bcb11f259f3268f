//! Whether an open probe file still lies in its place: not removed, replaced, cut short, nor hidden by a mount. An open file
//! goes on working when its name is gone, and would be measured for as long as nobody looks.

use std::path::PathBuf;

use super::{Stage, Trouble};
use crate::sys::{self, Errno, File, FileStat};

/// An open file's place.
#[derive(Debug)]
pub struct Seat {
    at: PathBuf,
    stat: FileStat,
}

impl Seat {
    /// The place of `file`, which was opened at `at`; no part of that path may be a link.
    pub fn of(file: &File, at: PathBuf) -> Result<Self, Errno> {
        Ok(Self { stat: file.stat()?, at })
    }

    /// One system call. `EBADMSG`: another file lies there, or this one has another size; any other error is what the kernel said of
    /// the path.
    pub fn check(&self) -> Result<(), Trouble> {
        let at = self.at.display();
        let fail = |e| Trouble::io(Stage::Open, format_args!("{at} is not in its place"), e);
        let there = sys::stat(&self.at).map_err(fail)?;
        let why = if there.identity() != self.stat.identity() {
            "it was replaced".to_owned()
        } else if there.size != self.stat.size {
            format!("it has {} bytes, not {}", there.size, self.stat.size)
        } else {
            return Ok(());
        };
        let doing = format_args!("{at} is not the file that is open: {why}");
        Err(Trouble::io(Stage::Open, doing, Errno::EBADMSG))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test changes files from outside")]
mod tests {
    use super::*;
    use crate::sys::{Dir, Direct};
    use std::fs;

    #[test]
    fn what_happens_to_the_file_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("f");
        fs::write(&path, "twelve bytes").unwrap();
        let dir = Dir::open(path.parent().unwrap()).unwrap();
        let seat = Seat::of(&dir.open_file("f", Direct::No).unwrap(), path.clone()).unwrap();
        let errno = || seat.check().map_err(|trouble| trouble.failure.errno);
        assert_eq!(errno(), Ok(()));
        fs::write(&path, "longer than twelve bytes").unwrap();
        assert_eq!(errno(), Err(Errno::EBADMSG));
        fs::write(&path, "twelve bytes").unwrap();
        assert_eq!(errno(), Ok(()));
        fs::rename(&path, path.with_extension("away")).unwrap();
        assert_eq!(errno(), Err(Errno::ENOENT));
        fs::write(&path, "twelve bytes").unwrap();
        assert_eq!(errno(), Err(Errno::EBADMSG));
        let why = seat.check().unwrap_err().failure.message;
        assert!(why.contains("it was replaced"), "{why}");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(path.with_extension("away"), &path).unwrap();
        assert_eq!(errno(), Err(Errno::EBADMSG), "a link to it is not it");
    }
}
