//! From a device number and the mounts to the disks: the part that needs no look at the target itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Roots;
use super::device::{self, BlockDevice};
use super::mounts::{self, Mount};
use crate::sys;

/// How many overlays may lie on each other before we stop looking.
const DEEPEST: usize = 8;

/// What was found; every part of it may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) mount: Option<Mount>,
    pub(super) device: Option<BlockDevice>,
    pub(super) leaves: Vec<BlockDevice>,
    pub(super) memory_only: Option<String>,
}

/// A directory without links in its path, on the device `number` (its `st_dev`): by the number first, then by
/// what its mount says, since btrfs, overlay and others have numbers that belong to no device.
pub(super) fn directory(number: (u32, u32), path: &Path, mounts: &[Mount], roots: &Roots) -> Mapped {
    let mount = mounts::find(mounts, path).filter(|mount| agree(mount.device, number));
    let by_number = device::by_number(number, roots);
    let devices = match (by_number, mount) {
        (Some(dir), _) => vec![dir],
        (None, Some(mount)) => devices_of(mount, mounts, roots, DEEPEST),
        (None, None) => Vec::new(),
    };
    let memory_only = mount.and_then(|mount| memory(mount, mounts, DEEPEST));
    Mapped { mount: mount.cloned(), memory_only, ..found(&devices, roots) }
}

/// Two numbers of real devices must be the same; anonymous ones (major 0) may differ between a mount and what
/// lies on it. Where they do not agree, the path changed hands between our two looks, and the mount is unknown.
fn agree(mount: (u32, u32), number: (u32, u32)) -> bool {
    mount == number || mount.0 == 0 || number.0 == 0
}

/// A block device by its own number.
pub(super) fn block_device(number: (u32, u32), roots: &Roots) -> Mapped {
    found(&Vec::from_iter(device::by_number(number, roots)), roots)
}

fn found(devices: &[PathBuf], roots: &Roots) -> Mapped {
    let leaves: BTreeSet<PathBuf> = devices.iter().flat_map(|dir| device::leaves(dir, roots)).collect();
    let mut leaves: Vec<BlockDevice> = leaves.iter().filter_map(|dir| BlockDevice::at(dir, roots)).collect();
    leaves.sort_by(|a, b| a.name.cmp(&b.name));
    let device = devices.first().and_then(|dir| BlockDevice::at(dir, roots));
    Mapped { device, leaves, ..Mapped::default() }
}

/// The sysfs directories of the devices that hold a mounted file system, the one it was mounted by first.
fn devices_of(mount: &Mount, mounts: &[Mount], roots: &Roots, depth: usize) -> Vec<PathBuf> {
    if let Some(dir) = device::by_number(mount.device, roots) {
        return vec![dir];
    }
    if mount.fstype == "overlay" {
        let upper = upper_mount(mount, mounts).zip(depth.checked_sub(1));
        return upper.map(|(upper, depth)| devices_of(upper, mounts, roots, depth)).unwrap_or_default();
    }
    let mut devices = Vec::from_iter(source_device(&mount.source, roots));
    if let ("btrfs", [first]) = (mount.fstype.as_str(), devices.as_slice()) {
        let mut others = btrfs_members(first, roots);
        others.retain(|dir| dir != first);
        devices.extend(others);
    }
    devices
}

/// As [`devices_of`], from the mount, sysfs and device nodes alone: of an overlay nothing is found, and a device with a number
/// is not looked for by the name that it had, which may be another's by now.
pub(super) fn devices_of_mount(mount: &Mount, roots: &Roots) -> Vec<PathBuf> {
    match (mount.device.0, mount.fstype.as_str()) {
        (_, "overlay") => Vec::new(),
        (0, _) => devices_of(mount, &[], roots, 0),
        _ => device::by_number(mount.device, roots).into_iter().collect(),
    }
}

/// The sysfs directory of the block device that a path in `/dev` names, links followed.
pub(super) fn node(path: &Path, roots: &Roots) -> Option<PathBuf> {
    source_device(path.to_str()?, roots)
}

/// The mount that takes an overlay's writes. Inside a container the directory that the option names is another
/// one, or none; and a relative one was meant from where its mounter stood.
fn upper_mount<'a>(overlay: &Mount, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let upper = Path::new(overlay.option("upperdir")?);
    let upper = upper.is_absolute().then(|| sys::resolve_links(upper).ok())??;
    mounts::find(mounts, &upper).filter(|mount| mount.id != overlay.id)
}

/// The device that a mount's source names: by the node behind it, else by its name.
fn source_device(source: &str, roots: &Roots) -> Option<PathBuf> {
    let below = Path::new(source).strip_prefix("/dev").ok()?;
    let node = roots.dev.join(below);
    let real = sys::resolve_links(&node).unwrap_or(node);
    match sys::metadata(&real) {
        Ok(about) if about.kind == sys::Kind::BlockDevice => device::by_number(about.is, roots),
        _ => device::by_name(real.file_name()?.to_str()?, roots),
    }
}

/// All devices of the btrfs file system that one of them belongs to.
fn btrfs_members(dir: &Path, roots: &Roots) -> Vec<PathBuf> {
    let (list, Some(name)) = (roots.sys.join("fs/btrfs"), dir.file_name()) else { return Vec::new() };
    sys::entries(&list)
        .unwrap_or_default()
        .iter()
        .map(|id| list.join(id).join("devices"))
        .find(|devices| sys::metadata(&devices.join(name)).is_ok())
        .map(|devices| device::children(&devices))
        .unwrap_or_default()
}

/// Why a mounted file system is no disk, in a sentence.
fn memory(mount: &Mount, mounts: &[Mount], depth: usize) -> Option<String> {
    let point = mount.point.display();
    match mount.fstype.as_str() {
        kind @ ("tmpfs" | "ramfs" | "devtmpfs" | "rootfs" | "hugetlbfs") => {
            Some(format!("{point} is {kind}, a file system in memory: there is no disk to measure"))
        }
        kind @ ("proc" | "sysfs" | "cgroup" | "cgroup2" | "debugfs" | "tracefs" | "devpts" | "securityfs"
        | "bpf") => Some(format!(
            "{point} is {kind}, which the kernel makes up as it is read: there is no disk to measure"
        )),
        "overlay" => {
            let below = memory(upper_mount(mount, mounts)?, mounts, depth.checked_sub(1)?)?;
            Some(format!("{point} is an overlay that writes to memory: {below}"))
        }
        _ => None,
    }
}
