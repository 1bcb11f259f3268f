//! Where results go: files that are there whole or not at all, and are known to be writable before the sweep begins.

use std::path::{Path, PathBuf};

use crate::sys::{Dir, Errno};

/// A file for a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResultFile {
    path: PathBuf,
    dir: PathBuf,
    name: String,
}

impl ResultFile {
    /// Tries whether it can be written; what is there is left as it is.
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        let named = path.file_name().and_then(|name| name.to_str());
        let name = named.ok_or_else(|| format!("{}: it names no file", path.display()))?.to_owned();
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        let file = Self { path: path.to_owned(), dir, name };
        let open =
            Dir::open(&file.dir).map_err(|errno| file.fault("its directory cannot be opened", errno))?;
        // A device node or pipe would be replaced by a file.
        if let Ok(true) = open.kind(&file.name).map(|kind| kind != crate::sys::EntryKind::File) {
            return Err(format!("{}: there is something that is no regular file", file.path.display()));
        }
        let new = file.new_name();
        open.create_file_for_people(&new)
            .and_then(|_| open.remove_file(&new))
            .map_err(|errno| file.fault("it cannot be written", errno))?;
        Ok(file)
    }

    /// Writes it beside, makes it durable, and puts it in its place.
    pub(super) fn write(&self, text: &str) -> Result<(), String> {
        let new = self.new_name();
        let write = || -> Result<(), Errno> {
            let dir = Dir::open(&self.dir)?;
            let file = dir.create_file_for_people(&new)?;
            let written = all(&file, text.as_bytes()).and_then(|()| file.fsync());
            let placed = written.and_then(|()| dir.rename(&new, &self.name));
            if placed.is_err() {
                // What is half there helps nobody.
                let _ = dir.remove_file(&new);
            }
            placed
        };
        write().map_err(|errno| self.fault("it cannot be written", errno))
    }

    fn new_name(&self) -> String {
        format!(".{}.{}.new", self.name, std::process::id())
    }

    fn fault(&self, what: &str, errno: Errno) -> String {
        format!("{}: {what}: {errno}", self.path.display())
    }
}

fn all(file: &crate::sys::File, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], done as u64)? {
            0 => return Err(Errno::EIO),
            n => done += n,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test looks at what was written")]
    fn it_is_whole_or_not_there() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("a.json");
        let file = ResultFile::new(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a trial leaves nothing");
        file.write("one").unwrap();
        file.write("two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        // What the process' mask leaves to others is what any new file here has.
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        let usual = folder.path().join("usual");
        std::fs::write(&usual, "").unwrap();
        assert_eq!(mode(&path), mode(&usual));
        let missing = ResultFile::new(&folder.path().join("none/a.json")).unwrap_err();
        assert!(missing.contains("its directory cannot be opened"), "{missing}");
        assert!(ResultFile::new(folder.path()).unwrap_err().contains("no regular file"));
        assert!(ResultFile::new(Path::new("/")).is_err());
    }
}
