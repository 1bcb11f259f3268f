//! The daemon itself is stopped: what that looks like must not be taken for a slow disk.

use crate::lab::{Daemon, Freezer, FuseDisk, Need, Op, Running, lacks};
use crate::watch::{Seen, all_measured, seen_when, target};
use rustix::process::Signal;
use std::time::Duration;

const STOPPED: Duration = Duration::from_secs(3);

#[test]
fn a_sample_during_which_we_were_stopped_is_not_the_disks() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    a_sample_is_ours(|daemon| {
        daemon.signal(Signal::STOP);
        std::thread::sleep(STOPPED);
        daemon.signal(Signal::CONT);
    });
}

#[test]
fn a_sample_during_which_we_were_frozen_is_not_the_disks() {
    if lacks(&[Need::Root, Need::Fuse, Need::Cgroup("freezer")]) {
        return;
    }
    let freezer = Freezer::new();
    a_sample_is_ours(|daemon| {
        freezer.take(daemon.pid());
        freezer.freeze();
        std::thread::sleep(STOPPED);
        freezer.thaw();
    });
}

/// The disk takes 100 ms for a sync, so that one is out for most of the time, and is out when `stop` begins.
fn a_sample_is_ours(stop: impl Fn(&Running)) {
    let disk = FuseDisk::new();
    let config = format!("targets:\n{}", target("slow", disk.path(), "400ms", "400ms"));
    let daemon = Daemon::new().config(&config).start();
    all_measured(&daemon, &["slow"], &["commit", "read"]);
    disk.delay(Op::Sync, Duration::from_millis(100));
    disk.delay(Op::Read, Duration::from_millis(10));
    let starved = |seen: &Seen| seen.invalid("slow", "commit", "starved");
    // Between our look and the stop the sync may have come back after all; then there is nothing to see.
    for _ in 0..5 {
        let before = seen_when(&daemon, "a sync is out", |seen| {
            let age = seen.age("slow", "sync");
            age > 0.0 && age < 0.05
        });
        stop(&daemon);
        let after = seen_when(&daemon, "runs go on", |seen| {
            seen.probe("runs", "slow", "commit") >= before.probe("runs", "slow", "commit") + 3.0
        });
        for op in ["commit", "write", "sync", "read"] {
            assert_eq!(after.longer_than("slow", op, 2.0), 0.0, "{op}: our own stop is in the histogram");
        }
        // 3 s are 7.5 slots; one is begun before, one after.
        for probe in ["commit", "read"] {
            let missed = after.probe("missed", "slow", probe) - before.probe("missed", "slow", probe);
            assert!(missed >= 5.0, "{probe}: {missed} slots missed");
        }
        if starved(&after) > starved(&before) {
            return;
        }
    }
    panic!("in five stops no sample was counted as starved\n{}", daemon.stderr());
}
