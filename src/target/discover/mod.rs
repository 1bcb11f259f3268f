//! Disks that nobody named: mounted file systems and block devices, picked by their type and by what sysfs says of
//! them, never by their names.
//!
//! mountinfo, procfs, sysfs and the nodes in `/dev` tell all of it. What is mounted is not looked at, so that a disk or a
//! server that hangs cannot hold this up; see [`file_systems`] for the one exception.

mod block_devices;
mod class;
mod file_systems;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::device;
use super::map;
use super::mounts::{self, Mount};
use super::{Kind, Roots};
use crate::sys::{self, Errno};

pub use class::{Unusual, is_network};

/// A kind of local file system that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// `ext4`.
    Ext4,
    /// `xfs`.
    Xfs,
    /// `btrfs`.
    Btrfs,
    /// `ext3`, where the kernel still calls it so.
    Ext3,
    /// `ext2`.
    Ext2,
    /// `f2fs`.
    F2fs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::Ext4, Self::Xfs, Self::Btrfs, Self::Ext3, Self::Ext2, Self::F2fs];
    /// Those that are looked for unless others are named.
    pub const USUAL: &'static [Self] = &[Self::Ext4, Self::Xfs, Self::Btrfs];

    /// As mountinfo has it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Ext3 => "ext3",
            Self::Ext2 => "ext2",
            Self::F2fs => "f2fs",
        }
    }
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Mounted file systems of these kinds; none when empty.
    pub file_systems: Vec<FileSystem>,
    /// Whole block devices that nothing is mounted on and nothing else holds.
    pub block_devices: bool,
    /// Kinds of disk that are otherwise never picked.
    pub include: Vec<Unusual>,
}

/// A place that a target of the config has, by its path as it is written: links in it are not followed.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The target's name.
    pub name: &'a str,
    /// The target's path, absolute.
    pub path: &'a Path,
    /// It was not there at the look before: it takes its place from what was found too. Later it does not, since where its own mount
    /// is gone, its path lies in another file system.
    pub new: bool,
}

/// A disk that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The mount point, or the device's node by the name that lasts longest.
    pub path: PathBuf,
    /// Which of the two.
    pub kind: Kind,
    /// (major, minor) of the file system, anonymous (major 0) for some, or of the device.
    pub number: (u32, u32),
    /// Keys of the whole disks below it, sorted; empty where none is known.
    pub leaves: Vec<String>,
}

/// What was not picked, and why not, in few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// A mount point, a device's name, or several.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// What one look found, in the order of paths; what was found before comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// To be probed.
    pub found: Vec<Found>,
    /// Not to be probed.
    pub left_out: Vec<LeftOut>,
}

/// Looks once. What was found `before` stays as long as it is there, even read-only or with its disk torn out: that is when it
/// is worth watching; but not where it is not asked for any more, or a new target takes its place. An error is a mountinfo that cannot be read or holds nothing: it must not look as if all disks were gone.
pub fn discover(
    wishes: &Wishes,
    taken: &[Taken<'_>],
    before: &[Found],
    roots: &Roots,
) -> Result<Discovery, Errno> {
    let text = sys::read_text(&roots.proc.join("self/mountinfo"))?;
    let mounts = mounts::parse(&text);
    if mounts.is_empty() {
        return Err(Errno::ENODATA);
    }
    let look = Look {
        wishes,
        before,
        roots,
        taken: taken.iter().map(|t| of(t, &mounts, roots)).collect(),
        mounts: &mounts,
    };
    let mut discovery = Discovery::default();
    file_systems::pick(&look, &mut discovery);
    if wishes.block_devices {
        block_devices::pick(&look, &mut discovery);
    }
    discovery.found.sort_by_key(|found| (!look.was_found(&found.path, found.number), found.path.clone()));
    discovery.left_out.sort_by(|a, b| a.what.cmp(&b.what));
    Ok(discovery)
}

/// What a look goes by.
struct Look<'a> {
    wishes: &'a Wishes,
    before: &'a [Found],
    roots: &'a Roots,
    taken: Vec<Place<'a>>,
    mounts: &'a [Mount],
}

/// Where a target of the config lies.
struct Place<'a> {
    name: &'a str,
    new: bool,
    /// The file system of a directory.
    file_system: Option<(u32, u32)>,
    leaves: Vec<String>,
}

impl Look<'_> {
    fn was_found(&self, path: &Path, number: (u32, u32)) -> bool {
        self.before.iter().any(|found| found.path == path && found.number == number)
    }

    fn asked_for(&self, unusual: Unusual) -> bool {
        self.wishes.include.contains(&unusual)
    }
}

impl Discovery {
    fn leave_out(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), why: why.into() });
    }
}

fn of<'a>(taken: &Taken<'a>, mounts: &[Mount], roots: &Roots) -> Place<'a> {
    let (file_system, devices) = match map::node(taken.path, roots) {
        Some(device) => (None, vec![device]),
        None => match mounts::find(mounts, taken.path) {
            Some(mount) => (Some(mount.device), map::devices_of_mount(mount, roots)),
            None => (None, Vec::new()),
        },
    };
    Place { name: taken.name, new: taken.new, file_system, leaves: leaf_keys(&devices, roots) }
}

/// Keys of the whole disks that devices, by their sysfs directories, stand on.
fn leaf_keys(devices: &[PathBuf], roots: &Roots) -> Vec<String> {
    let leaves = devices.iter().flat_map(|dir| device::leaves(dir, roots));
    let mut keys: Vec<String> = leaves.filter_map(|leaf| device::key_of(&leaf)).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The first mount of each file system that lies on a block device, by the device's sysfs directory; a file system that
/// spans several has them all here.
fn mounted(mounts: &[Mount], roots: &Roots) -> BTreeMap<PathBuf, PathBuf> {
    let mut firsts = BTreeMap::new();
    for mount in mounts {
        firsts.entry(mount.device).or_insert(mount);
    }
    let mut devices = BTreeMap::new();
    for mount in firsts.values() {
        for device in map::devices_of_mount(mount, roots) {
            devices.entry(device).or_insert_with(|| mount.point.clone());
        }
    }
    devices
}

#[cfg(test)]
mod tests;
