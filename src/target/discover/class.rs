//! What kind of disk a block device is, by its driver and its attributes in sysfs.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::Roots;
use super::super::device::text;
use super::super::mounts;
use crate::sys;

/// A kind of disk that is picked only where somebody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusual {
    /// A file that pretends to be a disk.
    Loop,
    /// Compressed memory.
    Zram,
    /// Memory.
    Ram,
    /// CD, DVD and the like.
    Optical,
    /// A network file system, or a block device that a driver of this machine brings over the network (nbd, rbd, aoe).
    Network,
}

impl Unusual {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Loop, Self::Zram, Self::Ram, Self::Optical, Self::Network];

    /// As the config has it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Zram => "zram",
            Self::Ram => "ram",
            Self::Optical => "optical",
            Self::Network => "network",
        }
    }

    /// Why it is not picked, and how to have it picked.
    pub(super) fn reason(self) -> String {
        let is = match self {
            Self::Loop => "a loop device",
            Self::Zram => "compressed memory",
            Self::Ram => "memory",
            Self::Optical => "optical",
            Self::Network => "over the network",
        };
        format!("{is}; `include: [{}]` asks for it", self.label())
    }
}

/// Whether the kind of file system has its disks on other machines.
pub fn is_network(fstype: &str) -> bool {
    matches!(fstype, "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "lustre" | "beegfs" | "gpfs")
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Disk,
    Unusual(Unusual),
    /// Nothing that could be probed: why.
    Never(&'static str),
}

/// The drivers of block devices by major number.
pub(super) struct Drivers(BTreeMap<u32, String>);

impl Drivers {
    pub(super) fn read(roots: &Roots) -> Self {
        let list = sys::read_text(&roots.proc.join("devices")).unwrap_or_default();
        let blocks = list.lines().skip_while(|line| *line != "Block devices:").skip(1);
        Self(blocks.filter_map(|line| line.trim().split_once(' ')).filter_map(driver).collect())
    }

    /// What a whole disk is, by its sysfs directory.
    pub(super) fn class(&self, disk: &Path) -> Class {
        let major = text(&disk.join("dev")).and_then(|t| mounts::number(&t)).map(|(major, _)| major);
        let driver = major.and_then(|major| self.0.get(&major)).map_or("", String::as_str);
        // SCSI's own numbers of device types: write-once, CD and optical memory.
        let optical = matches!(text(&disk.join("device/type")).as_deref(), Some("4" | "5" | "7"));
        let has = |attribute: &str| sys::metadata(&disk.join(attribute)).is_ok();
        match driver {
            "loop" => Class::Unusual(Unusual::Loop),
            "zram" => Class::Unusual(Unusual::Zram),
            "ramdisk" => Class::Unusual(Unusual::Ram),
            "sr" | "pktcdvd" => Class::Unusual(Unusual::Optical),
            "nbd" | "rbd" | "aoe" => Class::Unusual(Unusual::Network),
            "fd" => Class::Never("a floppy disk"),
            "mtdblock" => Class::Never("bare flash memory"),
            // Where the list cannot be had, as in some sandboxes.
            _ if has("loop/backing_file") => Class::Unusual(Unusual::Loop),
            _ if has("mm_stat") => Class::Unusual(Unusual::Zram),
            _ if optical => Class::Unusual(Unusual::Optical),
            _ => Class::Disk,
        }
    }
}

fn driver((major, name): (&str, &str)) -> Option<(u32, String)> {
    Some((major.parse().ok()?, name.trim().to_owned()))
}
