//! Small texts of `/proc` and `/sys` (or of a fixture tree that stands in for them), and looks at paths
//! that are not ours: nothing here can write.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::Errno;

/// The longest text that is read: far above any file of `/proc` or `/sys` that we read.
const LONGEST: u64 = 4 << 20;

/// Reads a small text file, at most 4 MiB of it. Bytes that are not UTF-8 become `�`.
pub fn read_text(path: &Path) -> Result<String, Errno> {
    Ok(String::from_utf8_lossy(&read_bytes(path)?).into_owned())
}

/// Reads a small binary file, at most 4 MiB of it.
#[allow(clippy::disallowed_methods, reason = "this is the door")]
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file of at most `limit` bytes to its end; `None` when it is larger.
#[allow(clippy::disallowed_methods, reason = "this is the door")]
pub fn read_bounded(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// At most `limit` names of a directory, in the order in which it holds them: a bounded look into a directory
/// that may have millions.
pub fn some_entries(path: &Path, limit: usize) -> Result<Vec<OsString>, Errno> {
    fs::read_dir(path)?.take(limit).map(|entry| Ok(entry?.file_name())).collect()
}

/// The names in a directory, sorted.
pub fn entries(path: &Path) -> Result<Vec<OsString>, Errno> {
    let mut names =
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>, Errno>>()?;
    names.sort();
    Ok(names)
}

/// What a link points to, unresolved.
pub fn read_link(path: &Path) -> Result<PathBuf, Errno> {
    Ok(fs::read_link(path)?)
}

/// The path without links, `.` and `..`; every part of it must exist.
pub fn resolve_links(path: &Path) -> Result<PathBuf, Errno> {
    Ok(fs::canonicalize(path)?)
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
    /// A character device, socket, pipe or anything else.
    Other,
}

/// What `stat` says of a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// The device that holds it (`st_dev`), as (major, minor).
    pub on: (u32, u32),
    /// The device that it is (`st_rdev`), as (major, minor); (0, 0) for files.
    pub is: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner's user id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Looks at a path without opening it.
pub fn metadata(path: &Path) -> Result<Metadata, Errno> {
    let m = fs::metadata(path)?;
    let kind = match m.file_type() {
        t if t.is_dir() => Kind::Directory,
        t if t.is_file() => Kind::File,
        t if t.is_block_device() => Kind::BlockDevice,
        _ => Kind::Other,
    };
    let split = |dev: u64| (libc::major(dev), libc::minor(dev));
    Ok(Metadata {
        kind,
        on: split(m.dev()),
        is: split(m.rdev()),
        inode: m.ino(),
        mode: m.mode() & 0o7777,
        uid: m.uid(),
        gid: m.gid(),
    })
}
