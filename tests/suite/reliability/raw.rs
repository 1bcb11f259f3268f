//! Block devices: reads only, and known by who they are, not by what they are called.

use super::case::{Acted, Case};
use super::room::Room;
use super::sign::Sign::{Error, GoesOn, NewDisks, Skipped, State};
use super::table::Scenario;
use crate::lab::{self, Loop};
use crate::targets::READS;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const SIZE: u64 = 8 << 20;

/// Disks, and a name for them as in `/dev/disk/by-path`.
struct Named {
    link: PathBuf,
    first: Loop,
    second: Option<Loop>,
}

fn point(link: &Path, device: &Path) {
    let new = link.with_extension("new");
    symlink(device, &new).unwrap();
    fs::rename(new, link).unwrap();
}

fn named(room: &Room, name: &str, first: Loop, second: Option<Loop>) -> Acted<Named> {
    let link = room.corner(name).join("disk");
    symlink(first.device(), &link).unwrap();
    let path = link.clone();
    Acted::on(Named { link, first, second }, &path, READS)
}

/// The first disk fails, and by the time that it is looked at anew another has its name.
fn exchanged(room: &Room, name: &str, sectors: [u32; 2]) -> Box<dyn Case> {
    let [first, second] = sectors.map(|sector| room.device(SIZE, sector));
    named(room, name, first, Some(second))
        .struck(|disks, _| {
            fs::remove_file(&disks.link).unwrap();
            disks.first.truncate_backing(0);
        })
        .lifted(|disks, _| point(&disks.link, disks.second.as_ref().unwrap().device()))
        .boxed()
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "device_shrinks",
        kind: "a device that is smaller than it was",
        made: "a loop device's backing file is cut to 0 bytes, and is long again later",
        seen: &[State("gone"), Error("read", "read", "EIO"), Skipped("read", "gone")],
        recovers: "found at the next look",
        after: &[NewDisks(0)],
        make: |room| {
            let disk = room.device(SIZE, 512);
            let path = disk.device().to_owned();
            Acted::on(disk, &path, READS)
                .struck(|disk, _| disk.truncate_backing(0))
                .lifted(|disk, _| disk.truncate_backing(SIZE))
                .boxed()
        },
    },
    Scenario {
        name: "device_resized",
        kind: "a device that is smaller than it was",
        made: "a loop device is made smaller (`losetup -c`) under the running daemon",
        seen: &[Error("read", "read", "EIO")],
        recovers: "by itself: its new size is found at the next look",
        after: &[NewDisks(0), GoesOn("read")],
        make: |room| {
            let disk = room.device(SIZE, 512);
            let path = disk.device().to_owned();
            Acted::on(disk, &path, READS)
                .struck(|disk, _| {
                    disk.truncate_backing(SIZE / 2);
                    lab::run("losetup", &["--set-capacity".as_ref(), disk.device().as_os_str()]);
                })
                .boxed()
        },
    },
    Scenario {
        name: "device_exchanged",
        kind: "another disk under an old name",
        made: "a link as in /dev/disk/by-path: the disk fails, its link goes, and comes back to another disk",
        seen: &[State("gone"), Error("read", "read", "EIO"), Error("read", "open", "ENOENT")],
        recovers: "the other disk is measured, with windows that begin anew",
        after: &[NewDisks(1)],
        make: |room| exchanged(room, "device_exchanged", [512, 512]),
    },
    Scenario {
        name: "sectors_4096_to_512",
        kind: "a disk of another sector size",
        made: "the same with a disk of 4096-byte sectors before, and of 512 after",
        seen: &[State("gone")],
        recovers: "the other disk is measured",
        after: &[NewDisks(1)],
        make: |room| exchanged(room, "sectors_4096_to_512", [4096, 512]),
    },
    Scenario {
        name: "device_renamed",
        kind: "a disk back under another name",
        made: "a loop device fails, is detached and attached anew: the link leads to it under its new name",
        seen: &[State("gone"), Error("read", "open", "ENOENT")],
        recovers: "it is the same disk by what it is, so nothing begins anew",
        after: &[NewDisks(0)],
        make: |room| {
            named(room, "device_renamed", room.device(SIZE, 512), None)
                .struck(|disks, _| {
                    fs::remove_file(&disks.link).unwrap();
                    disks.first.truncate_backing(0);
                })
                .lifted(|disks, _| {
                    disks.first.truncate_backing(SIZE);
                    let old = disks.first.device().to_owned();
                    disks.first.detach();
                    // Somebody else takes the old name.
                    let other = Loop::new(SIZE);
                    disks.first.attach_again();
                    assert_ne!(disks.first.device(), old);
                    point(&disks.link, disks.first.device());
                    disks.second = Some(other);
                })
                .boxed()
        },
    },
    Scenario {
        name: "device_read_only",
        kind: "a device that takes no writes",
        made: "`blockdev --setro`",
        seen: &[State("ready"), GoesOn("read")],
        recovers: "no harm: a block device is never written to",
        after: &[],
        make: |room| {
            let disk = room.device(SIZE, 512);
            let path = disk.device().to_owned();
            Acted::on(disk, &path, READS)
                .struck(|disk, _| disk.set_read_only(true))
                .lifted(|disk, _| disk.set_read_only(false))
                .boxed()
        },
    },
    Scenario {
        name: "node_missing",
        kind: "path that is missing",
        made: "the path below /dev/disk/by-path does not exist, and comes later",
        seen: &[State("gone"), Error("read", "open", "ENOENT"), Skipped("read", "gone")],
        recovers: "when it is there",
        after: &[],
        make: |room| {
            let late = named(room, "node_missing", room.device(SIZE, 512), None);
            fs::remove_file(room.corner("node_missing").join("disk")).unwrap();
            late.ill().lifted(|disks, _| point(&disks.link, disks.first.device())).boxed()
        },
    },
];
