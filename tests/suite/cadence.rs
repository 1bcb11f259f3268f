//! Every slot is accounted for, and the kernel counts the reads that we count.

use crate::lab::{Daemon, Loop, LoopOptions, Need, Running, Scratch, eventually_within, lacks};
use crate::watch::{PATIENCE, Seen, all_measured, small_ext4, target};
use std::time::{Duration, Instant};

/// A scrape while the device is at rest, with the kernel's count of reads at that moment: no read came back before, during
/// or just after the scrape that is not in it.
pub(crate) fn quiet(raw: &Loop, daemon: &Running) -> (u64, Seen) {
    let mut found = None;
    eventually_within(PATIENCE, "a moment without reads", || {
        let before = raw.reads();
        // A run that has come back is in the books a moment later.
        std::thread::sleep(Duration::from_millis(10));
        let seen = Seen::of(daemon);
        let age = seen.age("raw", "read");
        let calm = raw.reads() == before && age == 0.0;
        found = calm.then_some((before, seen));
        calm
    });
    found.unwrap()
}

#[test]
fn slots_run_missed_and_skipped_are_all_that_passed_and_the_kernel_agrees() {
    if lacks(&[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let raw = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(64 << 20) });
    let (disk, scratch) = (small_ext4(), Scratch::new());
    let config = format!(
        "targets:\n{}{}{}",
        target("raw", raw.device(), "100ms", "100ms"),
        target("ext4", disk.path(), "100ms", "200ms"),
        target("host", scratch.path(), "200ms", "150ms"),
    );
    let daemon = Daemon::new().config(&config).start();
    all_measured(&daemon, &["ext4", "host"], &["commit", "read"]);
    all_measured(&daemon, &["raw"], &["read"]);

    let (reads_before, before) = quiet(&raw, &daemon);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(if crate::lab::full() { 60 } else { 15 }));
    let (reads, after) = quiet(&raw, &daemon);
    let elapsed = began.elapsed().as_secs_f64();

    let ours = |seen: &Seen| seen.probe("operations", "raw", "read");
    assert_eq!((reads - reads_before) as f64, ours(&after) - ours(&before), "kernel against ours");
    // The looks at the opening are in both; one of them is meant to be refused, and moves nothing.
    let bytes = after.probe("bytes", "raw", "read") - before.probe("bytes", "raw", "read");
    assert_eq!((ours(&after) - ours(&before)) * 4096.0, bytes);
    for (name, probe, interval) in [
        ("raw", "read", 0.1),
        ("ext4", "commit", 0.1),
        ("ext4", "read", 0.2),
        ("host", "commit", 0.2),
        ("host", "read", 0.15),
    ] {
        let slots = after.slots(name, probe) - before.slots(name, probe);
        // One slot may be begun at either end; a scrape takes a little time.
        let expected = elapsed / interval;
        assert!((slots - expected).abs() <= 2.5, "{name} {probe}: {slots} slots in {expected}");
        let lateness =
            after.0.histogram("diskcanary_probe_lateness_seconds", &[("target", name), ("probe", probe)]);
        let lateness = lateness.unwrap();
        let runs = after.probe("runs", name, probe);
        assert_eq!(lateness.count, runs, "{name} {probe}: each run has its lateness");
        assert!(lateness.sum >= 0.0 && lateness.sum <= runs * interval * 2.0, "{name} {probe}: {lateness:?}");
        assert_eq!(after.probe("errors", name, probe), 0.0, "{name} {probe}\n{}", daemon.stderr());
        assert!(runs > 10.0, "{name} {probe}");
    }
    assert_eq!(after.samples("raw", "commit"), 0.0, "a block device has no commits");
}
