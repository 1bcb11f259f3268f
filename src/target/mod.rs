//! What is being probed, where its disk is, and where our files may go.
//!
//! A path is resolved to a mount, a block device and the whole disks below it, from mountinfo and sysfs. A
//! mapping that is not found is `None` and stops nothing: a probe works without knowing its disk's name.
//! Everything is read below [`Roots`], so that a tree of plain files can stand in for a machine.

mod counters;
mod device;
mod discover;
mod error;
mod identity;
mod map;
mod marks;
mod mounts;
mod place;
mod settings;

use std::path::{Path, PathBuf};

pub use counters::{CounterFile, Counters, Done, parse as parse_counters};
pub use device::BlockDevice;
pub use discover::{Discovery, FileSystem, Found, LeftOut, Taken, Unusual, Wishes, discover, is_network};
pub use error::{Error, ErrorKind};
pub use identity::Identity;
pub use mounts::Mount;
pub use place::{Place, Refusal, place};
pub use settings::Settings;

use crate::sys;

/// Where the kernel's trees are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// procfs, `/proc`.
    pub proc: PathBuf,
    /// sysfs, `/sys`.
    pub sys: PathBuf,
    /// Device nodes, `/dev`.
    pub dev: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), dev: "/dev".into() }
    }
}

/// What a target's path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory: commits and reads, on files of ours.
    Directory,
    /// A block device: reads only.
    BlockDevice,
}

/// A path that can be probed, and what is known of the disk behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path as it was given.
    pub given: PathBuf,
    /// The path without links.
    pub path: PathBuf,
    /// Directory or block device.
    pub kind: Kind,
    /// The mount that holds the directory; `None` for a block device, or where mountinfo does not tell.
    pub mount: Option<Mount>,
    /// The device itself, or the one that holds the file system (the first, when it spans several); `None`
    /// where there is none (network file systems) or where it is not found.
    pub device: Option<BlockDevice>,
    /// The whole disks below `device`, those whose counters count: below dm, md and partitions, and the hidden
    /// paths of an NVMe multipath device that counts nothing itself. Sorted by name.
    pub leaves: Vec<BlockDevice>,
    /// Why this is no disk but memory, in a sentence for people; such a target must not be probed.
    pub memory_only: Option<String>,
}

impl Target {
    /// What two targets on one disk have in common: the keys of their leaves, sorted, each once. Empty when no
    /// disk is known.
    pub fn leaf_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.leaves.iter().map(|leaf| leaf.key().to_owned()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Opens a block device for reading, and closes it again, to see whether we may; a directory is left alone.
    /// This can wait as long as the device does: it belongs on a lane, or into a command that may hang.
    pub fn try_open(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Directory => Ok(()),
            Kind::BlockDevice => sys::Device::open(&self.path, sys::Direct::No)
                .map(drop)
                .map_err(|errno| Error::of(&self.path, errno)),
        }
    }

    /// The kind of file system that holds the directory.
    pub fn file_system(&self) -> Option<&str> {
        self.mount.as_ref().map(|mount| mount.fstype.as_str())
    }
}

/// Resolves a path to what is probed there. Links are followed; nothing is opened and nothing is created.
/// What is neither a directory nor a block device, is not there, or may not be looked at is an [`Error`].
pub fn resolve(path: &Path, roots: &Roots) -> Result<Target, Error> {
    let real = sys::resolve_links(path).map_err(|errno| Error::of(path, errno))?;
    let about = sys::metadata(&real).map_err(|errno| Error::of(&real, errno))?;
    let mapped = match about.kind {
        sys::Kind::Directory => map::directory(about.on, &real, &mounts::read(roots), roots),
        sys::Kind::BlockDevice => map::block_device(about.is, roots),
        sys::Kind::File => return Err(Error::wrong_kind(path, "a regular file")),
        sys::Kind::Other => return Err(Error::wrong_kind(path, "a character device, pipe or socket")),
    };
    Ok(Target {
        given: path.to_owned(),
        path: real,
        kind: if about.kind == sys::Kind::Directory { Kind::Directory } else { Kind::BlockDevice },
        mount: mapped.mount,
        device: mapped.device,
        leaves: mapped.leaves,
        memory_only: mapped.memory_only,
    })
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
