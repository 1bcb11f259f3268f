//! Texts of the kernel that are read again and again: the file stays open, and each read begins at its start.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::Errno;

/// The first buffer; an attribute of sysfs is never longer than a page.
const PAGE: usize = 4096;
/// The longest text that is read: far above any file of `/proc` that we read.
const LONGEST: usize = 4 << 20;

/// A small text file of `/proc` or `/sys` (or of a fixture tree). It is opened at the first read, and anew when a read fails:
/// the device that it told about may have gone, and another one come in its place.
#[derive(Debug)]
pub struct Reread {
    path: PathBuf,
    /// The kernel gives all of it to one read.
    at_once: bool,
    file: Option<fs::File>,
    bytes: Vec<u8>,
}

impl Reread {
    /// A file of any length, read in as many calls as it takes, up to 4 MiB.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), at_once: false, file: None, bytes: Vec::new() }
    }

    /// An attribute of sysfs, or another text that the kernel gives to one read: at most a page, and a single system call.
    pub fn attribute(path: impl Into<PathBuf>) -> Self {
        Self { at_once: true, ..Self::file(path) }
    }

    /// What it says now; bytes that are not UTF-8 become `�`. `ENOENT` when it is not there.
    #[allow(clippy::disallowed_methods, reason = "this is the door")]
    pub fn read(&mut self) -> Result<Cow<'_, str>, Errno> {
        let known = self.file.take().and_then(|file| Some((self.fill(&file).ok()?, file)));
        let (length, file) = match known {
            Some(good) => good,
            None => {
                let file = fs::File::open(&self.path)?;
                (self.fill(&file)?, file)
            }
        };
        self.file = Some(file);
        Ok(String::from_utf8_lossy(&self.bytes[..length]))
    }

    /// How many bytes came.
    fn fill(&mut self, file: &fs::File) -> Result<usize, Errno> {
        let mut length = 0;
        loop {
            if self.bytes.len() < length + PAGE {
                self.bytes.resize(length + 2 * PAGE, 0);
            }
            let got = file.read_at(&mut self.bytes[length..], length as u64)?;
            length += got;
            if got == 0 || self.at_once || length >= LONGEST {
                return Ok(length.min(LONGEST));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a fixture")]
mod tests {
    use super::*;

    #[test]
    fn says_what_the_file_says_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let mut text = Reread::file(&path);
        assert_eq!(text.read().unwrap_err(), Errno::ENOENT);
        let long = "7 ".repeat(20_000);
        for content in ["one\n", long.as_str(), "", "two"] {
            fs::write(&path, content).unwrap();
            assert_eq!(text.read().unwrap(), content);
        }
    }

    #[test]
    fn kernel_files_are_read_whole_each_time() {
        for (path, mut text) in [
            ("/proc/stat", Reread::file("/proc/stat")),
            ("/proc/cpuinfo", Reread::file("/proc/cpuinfo")),
            (
                "/sys/kernel/mm/transparent_hugepage/enabled",
                Reread::attribute("/sys/kernel/mm/transparent_hugepage/enabled"),
            ),
        ] {
            let Ok(whole) = fs::read_to_string(path) else { continue };
            for _ in 0..3 {
                let now = text.read().unwrap();
                assert_eq!(now.lines().count(), whole.lines().count(), "{path}");
                assert_eq!(
                    now.lines().next(),
                    whole.lines().next().filter(|_| path != "/proc/stat").or(now.lines().next())
                );
            }
        }
    }

    #[test]
    fn a_reader_that_fails_is_opened_anew() {
        // A read of another's memory at address 0 fails; the path then leads somewhere else.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap();
        let mut text = Reread::file(&path);
        assert_eq!(text.read().unwrap_err(), Errno::EIO);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "here").unwrap();
        assert_eq!(text.read().unwrap(), "here");
    }
}
