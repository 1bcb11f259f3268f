//! Disks that do not answer, wholly or for one kind of operation, and disks that are throttled.

use super::case::{Acted, Case};
use super::room::Room;
use super::sign::Sign::{Age, Error, GoesOn, Longer, Missed, State};
use super::table::Scenario;
use crate::lab::{self, Blkio, Direction, FuseDisk, Hang, Op};
use crate::targets::{BOTH, COMMITS, READS};
use std::thread;
use std::time::Duration;

type Hanging = (FuseDisk, Option<Hang>);

fn hanging(room: &Room, keys: &'static str, strike: fn(&mut Hanging, u32)) -> Box<dyn Case> {
    let disk = room.fuse();
    let path = disk.path().to_owned();
    Acted::on((disk, None), &path, keys)
        .struck(strike)
        .lifted(|(disk, hang), _| {
            Op::ALL.iter().for_each(|op| disk.heal(*op));
            *hang = None;
        })
        .boxed()
}

/// A write fails once and sets off a new look, which hangs.
fn hangs_at_the_look(at: &mut Hanging, op: Op) {
    at.1 = Some(at.0.hang(&[op]));
    at.0.fail(Op::Write, libc::EIO, 1);
}

/// A sync fails, so that the file is removed and laid out anew, which hangs.
fn hangs_at_the_layout(at: &mut Hanging, op: Op) {
    at.1 = Some(at.0.hang(&[op]));
    at.0.fail(Op::Sync, libc::EIO, 1);
}

fn frozen(room: &Room) -> Box<dyn Case> {
    let disk = room.ext4();
    let path = disk.path().to_owned();
    Acted::on(disk, &path, BOTH)
        .struck(|disk, _| std::mem::forget(disk.freeze()))
        .lifted(|disk, _| disk.thaw())
        .boxed()
}

fn throttled(room: &Room) -> Box<dyn Case> {
    let disk = room.ext4();
    let path = disk.path().to_owned();
    Acted::on((disk, Blkio::new()), &path, BOTH)
        .struck(|(disk, group), pid| {
            group.limit(disk.disk().number(), Direction::Read, 10);
            group.limit(disk.disk().number(), Direction::Write, 10);
            group.take(pid);
        })
        .lifted(|(disk, group), _| {
            group.limit(disk.disk().number(), Direction::Read, 0);
            group.limit(disk.disk().number(), Direction::Write, 0);
        })
        .boxed()
}

const ANSWERS: &str = "when it answers, with the whole time as one sample";
const LOOKED_AT: &str = "when it answers";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "write_hangs",
        kind: "hang of one operation",
        made: "FUSE: no write is answered",
        seen: &[Age("write"), State("stalled"), Missed("commit", 10)],
        recovers: ANSWERS,
        after: &[Longer("write", 5.0)],
        make: |room| hanging(room, COMMITS, |at, _| at.1 = Some(at.0.hang(&[Op::Write]))),
    },
    Scenario {
        name: "fsync_hangs",
        kind: "hang of one operation",
        made: "FUSE: no fsync is answered",
        seen: &[Age("sync"), State("stalled"), Missed("commit", 10)],
        recovers: ANSWERS,
        after: &[Longer("sync", 5.0)],
        make: |room| hanging(room, COMMITS, |at, _| at.1 = Some(at.0.hang(&[Op::Sync]))),
    },
    Scenario {
        name: "read_hangs",
        kind: "hang of one operation",
        made: "FUSE: no read is answered",
        seen: &[Age("read"), State("stalled"), Missed("read", 10)],
        recovers: LOOKED_AT,
        after: &[],
        make: |room| hanging(room, READS, |at, _| at.1 = Some(at.0.hang(&[Op::Read]))),
    },
    Scenario {
        name: "open_hangs",
        kind: "hang of one operation",
        made: "FUSE: writes fail with EIO, and no open is answered",
        seen: &[Error("commit", "write", "EIO"), Age("open"), State("stalled")],
        recovers: LOOKED_AT,
        after: &[],
        make: |room| hanging(room, COMMITS, |at, _| hangs_at_the_look(at, Op::Open)),
    },
    Scenario {
        name: "statfs_hangs",
        kind: "hang of one operation",
        made: "FUSE: writes fail with EIO, and no statfs is answered",
        seen: &[Error("commit", "write", "EIO"), Age("open"), State("stalled")],
        recovers: LOOKED_AT,
        after: &[],
        make: |room| hanging(room, COMMITS, |at, _| hangs_at_the_look(at, Op::Statfs)),
    },
    Scenario {
        name: "getattr_hangs",
        kind: "hang of one operation",
        made: "FUSE: writes fail with EIO, and no lookup and no getattr is answered",
        seen: &[Age("open"), State("stalled")],
        recovers: LOOKED_AT,
        after: &[],
        make: |room| hanging(room, COMMITS, |at, _| hangs_at_the_look(at, Op::Lookup)),
    },
    Scenario {
        name: "unlink_hangs",
        kind: "hang of one operation",
        made: "FUSE: fsyncs fail with EIO, and no unlink is answered",
        seen: &[Error("commit", "sync", "EIO"), Age("layout"), State("gone")],
        recovers: LOOKED_AT,
        after: &[],
        make: |room| hanging(room, COMMITS, |at, _| hangs_at_the_layout(at, Op::Remove)),
    },
    Scenario {
        name: "create_hangs",
        kind: "hang of one operation",
        made: "FUSE: fsyncs fail with EIO, and no create is answered",
        seen: &[Error("commit", "sync", "EIO"), Age("layout"), State("gone")],
        recovers: LOOKED_AT,
        after: &[],
        make: |room| hanging(room, COMMITS, |at, _| hangs_at_the_layout(at, Op::Create)),
    },
    Scenario {
        name: "everything_hangs",
        kind: "hang of everything",
        made: "FUSE: the server gets SIGSTOP",
        seen: &[Age("write"), Age("read"), State("stalled"), Missed("commit", 10), Missed("read", 10)],
        recovers: ANSWERS,
        after: &[Longer("commit", 5.0)],
        make: |room| {
            let disk = room.fuse_server();
            let path = disk.path().to_owned();
            Acted::on(disk, &path, BOTH).struck(|d, _| d.stop()).lifted(|d, _| d.go_on()).boxed()
        },
    },
    Scenario {
        name: "server_killed",
        kind: "the file system's server is gone",
        made: "FUSE: the server gets SIGKILL; later another mounts the same files there",
        seen: &[State("gone"), Error("commit", "open", "ENOTCONN")],
        recovers: LOOKED_AT,
        after: &[],
        make: |room| {
            let disk = room.fuse_server();
            let path = disk.path().to_owned();
            Acted::on(disk, &path, BOTH).struck(|d, _| d.kill()).lifted(|d, _| d.start_again()).boxed()
        },
    },
    Scenario {
        name: "frozen",
        kind: "freeze",
        made: "ext4 on a loop device, `fsfreeze -f`",
        seen: &[State("stalled"), Missed("commit", 10), GoesOn("read")],
        recovers: "at the thaw, with the whole time as one sample",
        after: &[Longer("commit", 5.0)],
        make: frozen,
    },
    Scenario {
        name: "throttled",
        kind: "throttled",
        made: "ext4 on a loop device, blkio cgroup",
        seen: &[Missed("commit", 5), Longer("commit", 0.1)],
        recovers: "when the limit is lifted; it was slow and never wrong",
        after: &[],
        make: throttled,
    },
    Scenario {
        name: "fsync_of_12_s",
        kind: "one operation that takes long and then works",
        made: "FUSE: an fsync is answered after 12 s; commits are due each 100 ms",
        seen: &[Age("sync"), Missed("commit", 110)],
        recovers: ANSWERS,
        after: &[Longer("sync", 10.0)],
        make: |room| {
            let disk = room.fuse();
            let path = disk.path().to_owned();
            const KEYS: &str = "commit: {interval: 100ms, file_size: 4MiB}, read: {enabled: false}";
            Acted::on((disk, None), &path, KEYS)
                .struck(|(disk, hang): &mut (FuseDisk, Option<thread::JoinHandle<()>>), _| {
                    let stuck = disk.hang(&[Op::Sync]);
                    *hang = Some(thread::spawn(move || {
                        thread::sleep(Duration::from_secs(12));
                        drop(stuck);
                    }));
                })
                .lifted(|(_, hang), _| hang.take().unwrap().join().unwrap())
                .judged(|_, patient| {
                    // 12 s are 120 slots: one is begun before, and what follows the thaw is in time.
                    let missed = patient.more("probe_missed_total", &[("probe", "commit")]);
                    // In ten minutes a busy machine misses some of its own.
                    let most = if lab::full() { 150.0 } else { 121.0 };
                    assert!(missed >= 118.0 && missed <= most, "{missed} slots missed");
                    assert_eq!(patient.longer_than("sync", 10.0), 1.0);
                })
                .boxed()
        },
    },
];
