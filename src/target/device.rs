//! Block devices as sysfs shows them: whole disks, partitions, and what a stacked device stands on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::identity::Identity;
use super::settings::Settings;
use super::{Roots, counters, mounts};
use crate::sys;

/// How deep devices may be stacked on each other before we stop looking.
const DEEPEST: usize = 16;

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name: `sda1`, `dm-0`, `cciss/c0d0`.
    pub name: String,
    /// (major, minor); (0, 0) for a hidden path of a multipath device, which has no node.
    pub number: (u32, u32),
    /// The whole disk, when this is a partition.
    pub partition_of: Option<String>,
    /// The multipath device, when this is one of its hidden paths.
    pub path_of: Option<String>,
    /// Which disk it is.
    pub identity: Identity,
    /// How the kernel drives it.
    pub settings: Settings,
}

impl BlockDevice {
    /// What all views of one disk have in common for as long as it is attached: the multipath device of a hidden
    /// path, the whole disk of a partition, else its own name.
    pub fn key(&self) -> &str {
        self.path_of.as_ref().or(self.partition_of.as_ref()).unwrap_or(&self.name)
    }

    pub(super) fn at(dir: &Path, roots: &Roots) -> Option<Self> {
        let name = name_of(dir)?;
        let whole = whole_disk(dir);
        let hidden = flag(&dir.join("hidden"));
        Some(Self {
            number: text(&dir.join("dev")).and_then(|t| mounts::number(&t)).unwrap_or((0, 0)),
            partition_of: (whole != dir).then(|| name_of(&whole)).flatten(),
            path_of: if hidden { head_of(&name) } else { None },
            identity: Identity::read(&name, &whole, roots),
            settings: Settings::read(dir, &whole),
            name,
        })
    }
}

/// A trimmed text of sysfs; `None` when it is not there or says nothing.
pub(super) fn text(path: &Path) -> Option<String> {
    let text = sys::read_text(path).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn flag(path: &Path) -> bool {
    text(path).as_deref() == Some("1")
}

/// The sysfs directory of a device number.
pub(super) fn by_number((major, minor): (u32, u32), roots: &Roots) -> Option<PathBuf> {
    sys::resolve_links(&roots.sys.join(format!("dev/block/{major}:{minor}"))).ok()
}

/// The sysfs directory of a device's name.
pub(super) fn by_name(name: &str, roots: &Roots) -> Option<PathBuf> {
    let name = name.replace('/', "!");
    ["class/block", "block"]
        .iter()
        .find_map(|list| sys::resolve_links(&roots.sys.join(list).join(&name)).ok())
}

/// [`BlockDevice::key`] of a whole disk, without a look at all else that it is.
pub(super) fn key_of(disk: &Path) -> Option<String> {
    let name = name_of(disk)?;
    let head = if flag(&disk.join("hidden")) { head_of(&name) } else { None };
    Some(head.unwrap_or(name))
}

/// A name with a slash (`cciss/c0d0`) is a directory with a `!` in sysfs.
fn name_of(dir: &Path) -> Option<String> {
    Some(dir.file_name()?.to_str()?.replace('!', "/"))
}

/// The directory of the disk that a partition is part of. The attribute decides, never the name: `xvda1` may
/// be a whole disk.
pub(super) fn whole_disk(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(disk) if text(&dir.join("partition")).is_some() => disk.to_owned(),
        _ => dir.to_owned(),
    }
}

/// The sysfs directories of the whole disks that a device stands on.
pub(super) fn leaves(dir: &Path, roots: &Roots) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    descend(dir, roots, DEEPEST, &mut found);
    found
}

fn descend(dir: &Path, roots: &Roots, depth: usize, found: &mut BTreeSet<PathBuf>) {
    let whole = whole_disk(dir);
    let below: Vec<PathBuf> = children(&whole.join("slaves"));
    match depth.checked_sub(1) {
        Some(depth) if !below.is_empty() => {
            for slave in below {
                descend(&slave, roots, depth, found);
            }
        }
        _ => found.extend(counting(whole, roots)),
    }
}

pub(super) fn children(list: &Path) -> Vec<PathBuf> {
    let names = sys::entries(list).unwrap_or_default();
    names.iter().filter_map(|name| sys::resolve_links(&list.join(name)).ok()).collect()
}

/// Where the operations of a disk are counted: older kernels leave an NVMe multipath device at zero and count
/// on its hidden paths alone.
fn counting(disk: PathBuf, roots: &Roots) -> Vec<PathBuf> {
    let counts =
        |dir: &PathBuf| counters::at(dir).is_ok_and(|c| c.reads.operations + c.writes.operations > 0);
    let paths = hidden_paths(&disk, roots);
    if !paths.is_empty() && !counts(&disk) && paths.iter().any(counts) { paths } else { vec![disk] }
}

fn hidden_paths(head: &Path, roots: &Roots) -> Vec<PathBuf> {
    let Some(name) = name_of(head).filter(|name| name.starts_with("nvme")) else { return Vec::new() };
    let listed = children(&head.join("multipath"));
    let candidates = if listed.is_empty() { children(&roots.sys.join("block")) } else { listed };
    let of_head = |dir: &PathBuf| name_of(dir).and_then(|n| head_of(&n)).as_ref() == Some(&name);
    candidates.into_iter().filter(|dir| of_head(dir) && flag(&dir.join("hidden"))).collect()
}

/// `nvme0c3n1` (subsystem 0, controller 3, namespace 1) is a path of `nvme0n1`.
fn head_of(path: &str) -> Option<String> {
    let (subsystem, rest) = path.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    [subsystem, controller, namespace]
        .iter()
        .all(|part| digits(part))
        .then(|| format!("nvme{subsystem}n{namespace}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_path_names_its_head() {
        assert_eq!(head_of("nvme0c3n1").as_deref(), Some("nvme0n1"));
        for other in ["nvme0n1", "nvme0n1p1", "nvmecn", "sda", "nvme0c3n1p1"] {
            assert_eq!(head_of(other), None, "{other}");
        }
    }
}
