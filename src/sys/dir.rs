//! Directories of ours, and the files in them. No link is followed below the directory that was opened.

use std::fs::DirBuilder;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, fstat, fstatfs, fsync, lstat, mkdirat, open, openat, renameat,
    statat, unlinkat,
};

use super::{Direct, Errno, File, FileStat};

/// An open directory.
#[derive(Debug)]
pub struct Dir(OwnedFd);

/// What stands under a name, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

/// Space on a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// What we may still use.
    pub available: u64,
    /// The kernel's magic number of the file system's kind.
    pub magic: u64,
}

impl Space {
    /// Whether the file system keeps its files in memory (tmpfs, ramfs).
    pub fn is_memory(&self) -> bool {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        [TMPFS, RAMFS].contains(&self.magic)
    }
}

impl Dir {
    /// Opens a directory by a path whose links were resolved before.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(open(path, flags, Mode::empty())?))
    }

    /// Opens the directory `name` below this one; a link there is `ELOOP` or `ENOTDIR`.
    pub fn subdirectory(&self, name: &str) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes the directory `name` (mode 0700) and makes its entry durable; `EEXIST` when anything stands there.
    pub fn make_directory(&self, name: &str) -> Result<(), Errno> {
        mkdirat(&self.0, name, Mode::RWXU)?;
        Ok(fsync(&self.0)?)
    }

    /// What stands under `name`, or `ENOENT`.
    pub fn kind(&self, name: &str) -> Result<EntryKind, Errno> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Other,
        })
    }

    /// Identity and size of what stands under `name`, links not followed, or `ENOENT`.
    pub fn stat(&self, name: &str) -> Result<FileStat, Errno> {
        Ok(FileStat::from(statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Creates the regular file `name` (mode 0600), which must not exist, for reading and writing.
    pub fn create_file(&self, name: &str, direct: Direct) -> Result<File, Errno> {
        self.create(name, direct, Mode::RUSR | Mode::WUSR)
    }

    /// As [`Dir::create_file`], for others to read too where the process' mask lets them: what people ask for, not what we work on.
    pub fn create_file_for_people(&self, name: &str) -> Result<File, Errno> {
        self.create(name, Direct::No, Mode::from_raw_mode(0o666))
    }

    fn create(&self, name: &str, direct: Direct, mode: Mode) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.0, name, flags | direct.flag(), mode)?;
        Ok(File::from_fd(fd))
    }

    /// Opens the regular file `name` for reading only.
    pub fn open_file(&self, name: &str, direct: Direct) -> Result<File, Errno> {
        self.reopen_regular(name, OFlags::RDONLY | direct.flag())
    }

    /// Opens the regular file `name` for reading and writing.
    pub fn open_file_for_writing(&self, name: &str, direct: Direct) -> Result<File, Errno> {
        self.reopen_regular(name, OFlags::RDWR | direct.flag())
    }

    /// As [`Dir::open_file_for_writing`], every write durable before it returns (`O_DSYNC`).
    pub fn open_file_for_synchronous_writing(&self, name: &str, direct: Direct) -> Result<File, Errno> {
        // Under this name rustix has O_SYNC, which makes a change of the file's times durable with each write.
        let durable = OFlags::from_bits_retain(libc::O_DSYNC.cast_unsigned());
        self.reopen_regular(name, OFlags::RDWR | durable | direct.flag())
    }

    /// Pins the inode without opening it, makes sure that it is a regular file, then opens that inode: a
    /// device node that somebody puts under our name is never opened for writing, not even for a moment.
    fn reopen_regular(&self, name: &str, flags: OFlags) -> Result<File, Errno> {
        let pinned = openat(&self.0, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let kind = FileType::from_raw_mode(fstat(&pinned)?.st_mode);
        match kind {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(Errno::ELOOP),
            FileType::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let path = format!("/proc/self/fd/{}", pinned.as_raw_fd());
        Ok(File::from_fd(open(path, flags | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Removes the file `name`.
    pub fn remove_file(&self, name: &str) -> Result<(), Errno> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes the empty directory `name`.
    pub fn remove_directory(&self, name: &str) -> Result<(), Errno> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Renames a file inside this directory, replacing what stood there.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// The names in this directory, without `.` and `..`, sorted.
    pub fn names(&self) -> Result<Vec<String>, Errno> {
        let listing = self.subdirectory(".")?;
        let mut room = Vec::with_capacity(8192);
        let mut entries = RawDir::new(&listing.0, room.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Makes the directory's entries durable.
    pub fn sync(&self) -> Result<(), Errno> {
        Ok(fsync(&self.0)?)
    }

    /// Space on the file system that holds this directory.
    pub fn space(&self) -> Result<Space, Errno> {
        let s = fstatfs(&self.0)?;
        let unit = u64::try_from(if s.f_frsize > 0 { s.f_frsize } else { s.f_bsize }).unwrap_or(4096);
        Ok(Space {
            total: s.f_blocks.saturating_mul(unit),
            available: s.f_bavail.saturating_mul(unit),
            magic: s.f_type as u64 & 0xffff_ffff,
        })
    }

    /// User id of the directory's owner.
    pub fn owner(&self) -> Result<u32, Errno> {
        Ok(fstat(self.0.as_fd())?.st_uid)
    }

    /// Device and inode of this directory: its identity, whatever its path.
    pub fn identity(&self) -> Result<(u64, u64), Errno> {
        let stat = fstat(self.0.as_fd())?;
        Ok((stat.st_dev, stat.st_ino))
    }
}

/// Identity and size of what stands at `path`, a link at its end not followed.
pub fn stat(path: &Path) -> Result<FileStat, Errno> {
    Ok(FileStat::from(lstat(path)?))
}

/// Makes a directory and those above it that are missing, each 0755 or, where the umask says so, less.
pub fn make_directories(path: &Path) -> Result<(), Errno> {
    Ok(DirBuilder::new().recursive(true).mode(0o755).create(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_devices_are_not_opened_for_writing() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(&folder.path().canonicalize().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.path().join("link")).unwrap();
        assert_eq!(dir.open_file_for_writing("link", Direct::No).unwrap_err(), Errno::ELOOP);
        dir.make_directory("d").unwrap();
        assert_eq!(dir.open_file_for_writing("d", Direct::No).unwrap_err(), Errno::EISDIR);
        assert_eq!(dir.open_file("none", Direct::No).unwrap_err(), Errno::ENOENT);
        dir.create_file("f", Direct::No).unwrap();
        assert_eq!(dir.create_file("f", Direct::No).unwrap_err(), Errno::EEXIST);
        assert_eq!(dir.names().unwrap(), ["d", "f", "link"]);
        assert_eq!(dir.kind("link"), Ok(EntryKind::Link));
        dir.rename("f", "g").unwrap();
        dir.remove_file("g").unwrap();
        dir.remove_directory("d").unwrap();
        assert!(dir.space().unwrap().total > 0);
    }
}
