//! Each commit profile does what its row says: seen from outside, by strace and by the disk.

use std::collections::BTreeSet;

use diskcanary::probe::{Method, Profile};

use crate::lab::{Daemon, FileSystem, Loop, Mounted, Need, lacks};

#[allow(unreachable_pub, reason = "a bench uses it too")]
#[path = "profiles/observe.rs"]
mod observe;
#[allow(dead_code, unreachable_pub, reason = "the page is made elsewhere")]
#[path = "../../benches/support/profiles.rs"]
mod raw;

use raw::Seen;

const RUNS: f64 = 6.0;

#[test]
fn each_profile_writes_syncs_and_reaches_the_disk_as_its_row_says() {
    let tools = [Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("strace")];
    if lacks(&[&[Need::Root, Need::Tracefs][..], &tools].concat()) {
        return;
    }
    // Of so small a disk mkfs would make blocks of 1 KiB.
    let disk = |profile: &Profile| {
        (*profile, Mounted::on(FileSystem::Ext4, Loop::new(192 << 20), &["-b", "4096"], ""))
    };
    let disks: Vec<_> = Profile::ALL.iter().map(disk).collect();
    let daemon = Daemon::new().config(&observe::config(&disks, ", interval: 100ms, file_size: 4MiB")).start();
    observe::ready(&daemon, disks.len());
    let all = observe::observe(&daemon, "ext4", &disks, RUNS);
    for (seen, profile) in all.iter().zip(Profile::ALL) {
        calls_are_those_of_the_row(seen, *profile);
        requests_carry_each_commit(seen, *profile);
    }
    let told_apart: BTreeSet<_> =
        all.iter().map(|s| (&s.sizes, &s.sync, s.direct, s.dsync, s.multiple_of)).collect();
    assert_eq!(told_apart.len(), Profile::ALL.len(), "two profiles look the same: {all:#?}");
}

fn calls_are_those_of_the_row(seen: &Seen, profile: Profile) {
    let row = profile.row();
    assert!(seen.commits as f64 >= 3.0 * (RUNS - 1.0), "{seen:?}");
    assert_eq!(seen.sizes, [u64::from(row.block_size)], "{seen:?}");
    assert_eq!(seen.multiple_of % u64::from(row.alignment), 0, "{seen:?}");
    let sync = match row.method {
        Method::Fdatasync => "fdatasync",
        Method::Fsync => "fsync",
        Method::ODsync => "none",
    };
    assert_eq!(seen.sync, sync, "{seen:?}");
    assert_eq!((seen.direct, seen.dsync), (row.direct, row.method == Method::ODsync), "{seen:?}");
    assert!(!seen.full_sync, "{seen:?}");
    if observe::appends(profile) {
        // A write past the end of the file's 4 MiB begins at its start again.
        assert!(seen.follow + 2 >= seen.commits, "{seen:?}");
    } else {
        assert!(seen.follow * 4 < seen.commits, "{seen:?}");
    }
}

/// A loop device has a cache to be flushed and knows no forced write, so each commit is a write and a flush at least.
fn requests_carry_each_commit(seen: &Seen, profile: Profile) {
    assert!(seen.writes() >= 0.95 && seen.flushes() >= 0.95, "{seen:?}");
    // Whole pages reach the disk, whatever was written.
    let least = u64::from(profile.row().block_size).next_multiple_of(4096) as f64;
    assert!(seen.bytes() >= least * 0.95, "{seen:?}");
}
