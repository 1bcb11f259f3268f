//! Disks that answer at once, and wrong: every error that file systems and networks give, and too few bytes.

use super::case::{Acted, Case};
use super::room::Room;
use super::sign::Sign::{Error, Fault, GoesOn, Invalid, Missed, Skipped, State};
use super::table::Scenario;
use crate::lab::{FuseDisk, Op};
use crate::targets::{COMMITS, READS};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn on_fuse(room: &Room, keys: &'static str, strike: fn(&mut FuseDisk, u32)) -> Acted<FuseDisk> {
    let disk = room.fuse();
    let path = disk.path().to_owned();
    Acted::on(disk, &path, keys).struck(strike).lifted(|disk, _| Op::ALL.iter().for_each(|op| disk.heal(*op)))
}

fn commits(room: &Room, strike: fn(&mut FuseDisk, u32)) -> Box<dyn Case> {
    on_fuse(room, COMMITS, strike).boxed()
}

fn reads(room: &Room, strike: fn(&mut FuseDisk, u32)) -> Box<dyn Case> {
    on_fuse(room, READS, strike).boxed()
}

/// Turns a bit in every second block from `first` on: twice is as before.
fn flip(file: &Path, first: u64, blocks: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    for block in (first..first + blocks).step_by(2) {
        let (at, mut byte) = (block * 4096 + 2000, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
}

const LOOK_AGAIN: &str = "found at the next look";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "eio_on_write",
        kind: "error of the medium",
        made: "FUSE: every write answers EIO",
        seen: &[State("gone"), Error("commit", "write", "EIO"), Skipped("commit", "gone")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::EIO, 1)),
    },
    Scenario {
        name: "eio_on_fsync",
        kind: "error of the medium",
        made: "FUSE: every fsync answers EIO",
        seen: &[State("gone"), Error("commit", "sync", "EIO"), Error("commit", "layout", "EIO")],
        recovers: "the file is not trusted any more: it is laid out anew",
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Sync, libc::EIO, 1)),
    },
    Scenario {
        name: "eio_on_read",
        kind: "error of the medium",
        made: "FUSE: every read answers EIO",
        seen: &[State("gone"), Error("read", "read", "EIO"), Skipped("read", "gone")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| reads(room, |d, _| d.fail(Op::Read, libc::EIO, 1)),
    },
    Scenario {
        name: "eio_on_open",
        kind: "error of the medium",
        made: "FUSE: every write, and then every open, answers EIO",
        seen: &[State("gone"), Error("commit", "open", "EIO")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| {
            commits(room, |d, _| {
                d.fail(Op::Open, libc::EIO, 1);
                d.fail(Op::Write, libc::EIO, 1);
            })
        },
    },
    Scenario {
        name: "eio_now_and_then",
        kind: "error that comes and goes",
        made: "FUSE: every 20th write answers EIO",
        seen: &[Error("commit", "write", "EIO"), State("gone"), GoesOn("commit")],
        recovers: "by itself, again and again",
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::EIO, 20)),
    },
    Scenario {
        name: "enospc_on_write",
        kind: "no room",
        made: "FUSE: every write answers ENOSPC, though the space reported is free (thin provisioning)",
        seen: &[State("no_space"), Error("commit", "write", "ENOSPC"), Skipped("commit", "no_space")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::ENOSPC, 1)),
    },
    Scenario {
        name: "edquot_on_write",
        kind: "quota",
        made: "FUSE: every write answers EDQUOT",
        seen: &[State("no_space"), Error("commit", "write", "EDQUOT")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::EDQUOT, 1)),
    },
    Scenario {
        name: "edquot_at_the_start",
        kind: "quota",
        made: "FUSE: every write answers EDQUOT before anything of ours is there",
        seen: &[State("no_space"), Error("commit", "open", "EDQUOT"), Skipped("commit", "no_space")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| {
            let disk = on_fuse(room, COMMITS, |_, _| {});
            disk.ill_by(|d| d.fail(Op::Write, libc::EDQUOT, 1)).boxed()
        },
    },
    Scenario {
        name: "erofs_on_write",
        kind: "read-only",
        made: "FUSE: every write answers EROFS",
        seen: &[State("read_only"), Error("commit", "write", "EROFS"), Skipped("commit", "read_only")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::EROFS, 1)),
    },
    Scenario {
        name: "estale_everywhere",
        kind: "stale handle",
        made: "FUSE: everything answers ESTALE",
        seen: &[State("gone"), Error("commit", "write", "ESTALE"), Error("commit", "open", "ESTALE")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| Op::ALL.iter().for_each(|op| d.fail(*op, libc::ESTALE, 1))),
    },
    Scenario {
        name: "etimedout_on_read",
        kind: "network",
        made: "FUSE: every read answers ETIMEDOUT",
        seen: &[State("gone"), Error("read", "read", "ETIMEDOUT")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| reads(room, |d, _| d.fail(Op::Read, libc::ETIMEDOUT, 1)),
    },
    Scenario {
        name: "eremoteio_on_write",
        kind: "network",
        made: "FUSE: every write answers EREMOTEIO",
        seen: &[State("gone"), Error("commit", "write", "EREMOTEIO")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::EREMOTEIO, 1)),
    },
    Scenario {
        name: "econnreset_on_fsync",
        kind: "network",
        made: "FUSE: every fsync answers ECONNRESET",
        seen: &[State("gone"), Error("commit", "sync", "ECONNRESET")],
        recovers: "the file is laid out anew",
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Sync, libc::ECONNRESET, 1)),
    },
    Scenario {
        name: "eagain_on_write",
        kind: "asked to try again, for ever",
        made: "FUSE: every write answers EAGAIN",
        seen: &[State("gone"), Error("commit", "write", "EAGAIN")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::EAGAIN, 1)),
    },
    Scenario {
        name: "eagain_on_read",
        kind: "asked to try again, for ever",
        made: "FUSE: every read answers EAGAIN",
        seen: &[State("gone"), Error("read", "read", "EAGAIN")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| reads(room, |d, _| d.fail(Op::Read, libc::EAGAIN, 1)),
    },
    Scenario {
        name: "eintr_on_read",
        kind: "asked to try again, for ever",
        made: "FUSE: every read answers EINTR",
        seen: &[State("gone"), Error("read", "read", "EINTR")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| reads(room, |d, _| d.fail(Op::Read, libc::EINTR, 1)),
    },
    Scenario {
        name: "einval_on_write",
        kind: "operation not taken any more",
        made: "FUSE: every write answers EINVAL, as after a change of alignment",
        seen: &[State("gone"), Error("commit", "write", "EINVAL")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.fail(Op::Write, libc::EINVAL, 1)),
    },
    Scenario {
        name: "short_write",
        kind: "too few bytes",
        made: "FUSE: every write takes 512 bytes of 4096",
        seen: &[State("gone"), Invalid("commit", "short_io"), Error("commit", "write", "EIO")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| commits(room, |d, _| d.shorten(Op::Write, 512, 1)),
    },
    Scenario {
        name: "short_read",
        kind: "too few bytes",
        made: "FUSE: every read brings 512 bytes of 4096",
        seen: &[State("gone"), Invalid("read", "short_io"), Error("read", "read", "EIO")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| reads(room, |d, _| d.shorten(Op::Read, 512, 1)),
    },
    Scenario {
        name: "empty_read",
        kind: "too few bytes",
        made: "FUSE: every read brings 0 bytes, as beyond the end",
        seen: &[State("gone"), Invalid("read", "short_io")],
        recovers: LOOK_AGAIN,
        after: &[],
        make: |room| reads(room, |d, _| d.shorten(Op::Read, 0, 1)),
    },
    Scenario {
        name: "wrong_bytes",
        kind: "corruption",
        made: "a bit is turned in every second block of the read file, behind FUSE",
        seen: &[Fault("read", "corruption"), Invalid("read", "corruption"), GoesOn("read")],
        recovers: "the next run that finds the right bytes clears it",
        after: &[],
        make: |room| {
            let flip_all = |d: &mut FuseDisk, _| {
                let file = d.backing().join(".diskcanary/reads");
                let blocks = fs::metadata(&file).unwrap().len() / 4096;
                flip(&file, 2, blocks - 2);
            };
            on_fuse(room, READS, flip_all)
                .lifted(flip_all)
                .judged(|_, patient| assert!(!Fault("read", "corruption").shows(patient)))
                .boxed()
        },
    },
    Scenario {
        name: "broken_head",
        kind: "corruption",
        made: "a bit is turned in the head of the commit file; a failed write has it read again",
        seen: &[Error("commit", "write", "EIO"), State("gone")],
        recovers: "a head that is broken is known as ours, and the file is laid out anew",
        after: &[GoesOn("commit")],
        make: |room| {
            commits(room, |d, _| {
                flip(&d.backing().join(".diskcanary/commits"), 0, 1);
                d.fail(Op::Write, libc::EIO, 1);
            })
        },
    },
    Scenario {
        name: "slow",
        kind: "slow",
        made: "FUSE: every fsync takes 500 ms",
        seen: &[super::sign::Sign::Longer("sync", 0.5), Missed("commit", 5), State("ready")],
        recovers: "nothing was wrong but the time, which is in the histogram",
        after: &[],
        make: |room| commits(room, |d, _| d.delay(Op::Sync, std::time::Duration::from_millis(500))),
    },
];
