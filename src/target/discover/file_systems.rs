//! Mounted file systems: each of them once, at the mount that an operator would name.
//!
//! Mounts that show a part of a file system may be single files (a container's `/etc/hosts`), which mountinfo does not tell.
//! So of those, and only where nothing on the way to them is remote, it is asked what they are; the kernel answers that from
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::mounts::{self, Mount};
use super::super::{Kind, device, map};
use super::class::{Class, Drivers};
use super::{Discovery, FileSystem, Found, Look, Place, Unusual, is_network, leaf_keys};
use crate::sys;

/// How many paths are named before the rest is a number.
const NAMED: usize = 3;

pub(super) fn pick(look: &Look<'_>, into: &mut Discovery) {
    let mut by_file_system: BTreeMap<(u32, u32), Vec<&Mount>> = BTreeMap::new();
    for mount in look.mounts {
        by_file_system.entry(mount.device).or_default().push(mount);
    }
    let drivers = Drivers::read(look.roots);
    let (mut diskless, mut kinds) = (0, BTreeSet::new());
    for mounts in by_file_system.values_mut() {
        if is_diskless(mounts[0]) {
            diskless += mounts.len();
            kinds.insert(mounts[0].fstype.as_str());
        } else {
            one(look, &drivers, mounts, into);
        }
    }
    if diskless > 0 {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        into.leave_out(format!("{diskless} mounts of {}", kinds.join(", ")), "no disk of their own");
    }
}

/// Without a device of its own, and no kind of file system that has its disks elsewhere.
fn is_diskless(mount: &Mount) -> bool {
    let local = FileSystem::ALL.iter().any(|kind| kind.label() == mount.fstype);
    mount.device.0 == 0 && !local && !is_network(&mount.fstype) && !mount.source.starts_with("/dev/")
}

fn one(look: &Look<'_>, drivers: &Drivers, mounts: &mut [&Mount], into: &mut Discovery) {
    mounts.sort_by_key(|mount| rank(look, mount));
    let chosen = mounts.iter().position(|mount| is_usable(look, mount));
    let Some(chosen) = chosen else {
        let why = if mounts.iter().all(|m| is_hidden(look, m)) {
            "hidden by other mounts"
        } else {
            "no directory that can be named"
        };
        return into.leave_out(named(mounts), why);
    };
    mounts.swap(0, chosen);
    let (chosen, others) = (mounts[0], &mounts[1..]);
    let point = chosen.point.display().to_string();
    if let Some(why) = refusal(look, drivers, chosen) {
        return into.leave_out(named(mounts), why);
    }
    if !others.is_empty() {
        into.leave_out(named(others), format!("what is at {point} too"));
    }
    into.found.push(Found {
        path: chosen.point.clone(),
        kind: Kind::Directory,
        number: chosen.device,
        leaves: leaf_keys(&map::devices_of_mount(chosen, look.roots), look.roots),
    });
}

/// Less is better: the one that was found before, then those that can be written, show the whole, and have the shortest path.
fn rank<'a>(look: &Look<'_>, mount: &'a Mount) -> (bool, bool, bool, usize, usize, &'a Path) {
    (
        !look.was_found(&mount.point, mount.device),
        mount.read_only(),
        is_part(mount),
        mount.point.components().count(),
        mount.point.as_os_str().len(),
        &mount.point,
    )
}

/// Whether only a part of the file system is mounted there; on btrfs, where that is the custom, each is as good as another.
fn is_part(mount: &Mount) -> bool {
    mount.root != Path::new("/") && mount.fstype != FileSystem::Btrfs.label()
}

fn is_hidden(look: &Look<'_>, mount: &Mount) -> bool {
    mounts::find(look.mounts, &mount.point).is_none_or(|on_top| on_top.id != mount.id)
}

fn is_usable(look: &Look<'_>, mount: &Mount) -> bool {
    // A path that is not UTF-8 can be named in no label and no file.
    let utf8 = !mount.point.to_string_lossy().contains(char::REPLACEMENT_CHARACTER);
    utf8 && !is_hidden(look, mount) && !(is_part(mount) && is_file(look, mount))
}

fn is_file(look: &Look<'_>, mount: &Mount) -> bool {
    let ids: BTreeMap<u32, &Mount> = look.mounts.iter().map(|m| (m.id, m)).collect();
    let mut at = mount;
    // A path through mounts is never longer than there are mounts.
    for _ in 0..look.mounts.len() {
        if is_network(&at.fstype) || at.fstype.starts_with("fuse") {
            return false;
        }
        match ids.get(&at.parent) {
            Some(above) if above.id != at.id => at = above,
            _ => break,
        }
    }
    sys::metadata(&mount.point).is_ok_and(|about| about.kind != sys::Kind::Directory)
}

/// Why a file system is not picked; `None` when it is.
fn refusal(look: &Look<'_>, drivers: &Drivers, mount: &Mount) -> Option<String> {
    let kind = mount.fstype.as_str();
    if is_network(kind) && !look.asked_for(Unusual::Network) {
        return Some(format!("{kind} is {}", Unusual::Network.reason()));
    }
    if !is_network(kind) && !look.wishes.file_systems.iter().any(|wished| wished.label() == kind) {
        return Some(format!("{kind} is not asked for"));
    }
    let was_found = look.was_found(&mount.point, mount.device);
    let takes = |place: &&Place<'_>| place.file_system == Some(mount.device) && (place.new || !was_found);
    if let Some(other) = look.taken.iter().find(takes) {
        return Some(format!("probed by the target `{}`", other.name.escape_debug()));
    }
    let devices = map::devices_of_mount(mount, look.roots);
    let class = devices.iter().flat_map(|dir| device::leaves(dir, look.roots)).find_map(|disk| match drivers
        .class(&disk)
    {
        Class::Unusual(unusual) if !look.asked_for(unusual) => Some(unusual.reason()),
        Class::Never(why) => Some(why.to_owned()),
        Class::Disk | Class::Unusual(_) => None,
    });
    if class.is_some() || was_found {
        return class;
    }
    if mount.read_only() {
        return Some("mounted read-only".to_owned());
    }
    let unknown = devices.is_empty() && !is_network(kind);
    unknown.then(|| "its device is not in sysfs, so what it is cannot be told".to_owned())
}

/// The first few by name.
fn named(mounts: &[&Mount]) -> String {
    let names: Vec<String> =
        mounts.iter().take(NAMED).map(|mount| mount.point.display().to_string()).collect();
    match mounts.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
