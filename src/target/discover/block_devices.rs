//! Block devices that nobody uses through a file system: whole ones, at the top of their stack, each physical disk once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::device::{self, BlockDevice, flag, text};
use super::super::{Kind, Roots, map};
use super::class::{Class, Drivers};
use super::{Discovery, Found, Look, leaf_keys, mounted};
use crate::sys;

pub(super) fn pick(look: &Look<'_>, into: &mut Discovery) {
    let drivers = Drivers::read(look.roots);
    let in_use = Uses { mounted: mounted(look.mounts, look.roots), swap: swap(look.roots) };
    let mut covered: BTreeMap<String, String> = BTreeMap::new();
    for place in &look.taken {
        cover(&mut covered, &place.leaves, &format!("the target `{}`", place.name.escape_debug()));
    }
    for found in &into.found {
        cover(&mut covered, &found.leaves, &found.path.display().to_string());
    }
    let mut disks: Vec<(PathBuf, BlockDevice)> = device::children(&look.roots.sys.join("block"))
        .into_iter()
        .filter(|dir| !flag(&dir.join("hidden")))
        .filter_map(|dir| BlockDevice::at(&dir, look.roots).map(|device| (dir, device)))
        .collect();
    // What was found before keeps its place before others on the same disk.
    disks.sort_by_key(|(_, device)| {
        (!look.was_found(&node(device, look.roots), device.number), device.name.clone())
    });
    for (dir, device) in disks {
        let leaves = leaf_keys(std::slice::from_ref(&dir), look.roots);
        let path = node(&device, look.roots);
        match refusal(look, &drivers, &in_use, &dir, &device).or_else(|| by_another(&covered, &leaves)) {
            Some(why) if why.is_empty() => {}
            Some(why) => into.leave_out(device.name, why),
            None if sys::metadata(&path).is_err() => {
                into.leave_out(device.name, format!("there is no {}", path.display()));
            }
            None => {
                cover(&mut covered, &leaves, &path.display().to_string());
                into.found.push(Found { path, kind: Kind::BlockDevice, number: device.number, leaves });
            }
        }
    }
}

/// Devices that are in use, by their sysfs directories.
struct Uses {
    mounted: BTreeMap<PathBuf, PathBuf>,
    swap: BTreeSet<PathBuf>,
}

fn swap(roots: &Roots) -> BTreeSet<PathBuf> {
    let list = sys::read_text(&roots.proc.join("swaps")).unwrap_or_default();
    list.lines().filter_map(|line| map::node(Path::new(line.split_whitespace().next()?), roots)).collect()
}

/// Why a device is not picked; `None` when it is, empty where it is not worth a word.
fn refusal(
    look: &Look<'_>,
    drivers: &Drivers,
    uses: &Uses,
    dir: &Path,
    device: &BlockDevice,
) -> Option<String> {
    let empty = device.settings.size.is_none_or(|size| size.get() == 0);
    let class = device::leaves(dir, look.roots)
        .iter()
        .map(|disk| drivers.class(disk))
        .find(|class| *class != Class::Disk);
    match class {
        Some(Class::Unusual(_)) if empty => return Some(String::new()),
        Some(Class::Unusual(unusual)) if !look.asked_for(unusual) => return Some(unusual.reason()),
        Some(Class::Never(why)) => return Some(why.to_owned()),
        _ if empty => return Some("no medium in it, or not set up".to_owned()),
        _ => {}
    }
    let mut parts = vec![dir.to_owned()];
    parts.extend(partitions(dir));
    parts.iter().find_map(|part| {
        let name = part.file_name().unwrap_or_default().to_string_lossy().replace('!', "/");
        let it = if part == dir { String::new() } else { format!("{name} is ") };
        let holder = sys::entries(&part.join("holders")).unwrap_or_default().into_iter().next();
        match (uses.mounted.get(part), uses.swap.contains(part), holder) {
            (Some(point), ..) => Some(format!("{it}mounted at {}", point.display())),
            (_, true, _) => Some(format!("{it}swap space")),
            (.., Some(holder)) => Some(format!("{it}part of {}", holder.to_string_lossy())),
            _ => None,
        }
    })
}

fn partitions(disk: &Path) -> Vec<PathBuf> {
    let below = sys::entries(disk).unwrap_or_default();
    let dirs = below.iter().map(|name| disk.join(name));
    dirs.filter(|dir| text(&dir.join("partition")).is_some()).collect()
}

/// The node by the name that lasts longest: what the disk says of itself, the mapped name, the kernel's.
fn node(device: &BlockDevice, roots: &Roots) -> PathBuf {
    match (&device.identity.by_id, &device.identity.mapped_name) {
        (_, Some(name)) => roots.dev.join("mapper").join(name),
        (Some(name), None) => roots.dev.join("disk/by-id").join(name),
        (None, None) => roots.dev.join(&device.name),
    }
}

fn cover(covered: &mut BTreeMap<String, String>, leaves: &[String], by: &str) {
    for leaf in leaves {
        covered.entry(leaf.clone()).or_insert_with(|| by.to_owned());
    }
}

fn by_another(covered: &BTreeMap<String, String>, leaves: &[String]) -> Option<String> {
    leaves.iter().find_map(|leaf| covered.get(leaf)).map(|by| format!("on the same disk as {by}"))
}
