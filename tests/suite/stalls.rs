//! Stalls: judged while the operation is out, counted once, settled when it is back.

use crate::lab::{Daemon, FuseDisk, Need, Op, lacks};
use crate::targets::{COMMITS, await_runs, config};
use crate::watch::{Seen, seen_when, small_ext4};
use std::time::{Duration, Instant};

const STALLED: f64 = 1.0;

fn stalls(seen: &Seen, target: &str) -> (f64, f64) {
    let of = |family: &str| {
        let labels = [("target", target), ("probe", "commit")];
        seen.0.value(&format!("diskcanary_{family}_total"), &labels).unwrap()
    };
    (of("probe_timeouts"), of("stall_seconds"))
}

fn corrected(seen: &Seen, target: &str) -> f64 {
    let labels = [("target", target), ("op", "commit")];
    seen.0.histogram("diskcanary_corrected_duration_seconds", &labels).unwrap().count
}

/// A dozen seconds at 100 ms: one long sample, one timeout, about 119 slots missed, one run at most when it is over, and a corrected series that
/// counts what a client would have felt who commits three times in each interval.
#[test]
fn one_long_operation_is_one_timeout_one_sample_and_many_missed_slots() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (stuck, good) = (FuseDisk::new(), FuseDisk::new());
    let keys = COMMITS.replace("interval: 200ms", "interval: 100ms") + ", stall_threshold: 1s";
    let daemon = Daemon::new()
        .config(&config(&[("stuck", stuck.path(), &keys), ("good", good.path(), &keys)]))
        .start();
    for name in ["stuck", "good"] {
        await_runs(&daemon, name, "commit", 3.0);
    }
    let before = Seen::of(&daemon);
    let threshold = [("target", "stuck"), ("op", "sync")];
    assert_eq!(before.0.value("diskcanary_stall_threshold_seconds", &threshold), Some(STALLED));
    assert_eq!(stalls(&before, "stuck"), (0.0, 0.0));

    let (hang, began) = (stuck.hang(&[Op::Sync]), Instant::now());
    let out = seen_when(&daemon, "the stall is counted while the operation is out", |seen| {
        stalls(seen, "stuck").0 > 0.0
    });
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "within the threshold and a look, on a busy machine too"
    );
    assert!(
        out.age("stuck", "sync") >= STALLED && out.is_in("stuck", "stalled") && out.up("stuck") == Some(0.0)
    );
    let later = seen_when(&daemon, "its time goes on", |seen| stalls(seen, "stuck").1 > 9.0);
    assert_eq!(stalls(&later, "stuck").0, 1.0, "once");
    assert_eq!(
        later.samples("stuck", "commit"),
        out.samples("stuck", "commit"),
        "runs are counted at completion"
    );
    std::thread::sleep(Duration::from_secs(12).saturating_sub(began.elapsed()));
    drop(hang);
    let held = began.elapsed().as_secs_f64();

    let after = seen_when(&daemon, "it is well again", |seen| {
        seen.up("stuck") == Some(1.0)
            && seen.is_in("stuck", "ready")
            && seen.samples("stuck", "commit") > later.samples("stuck", "commit") + 3.0
    });
    settled(&before, &after, held);
    assert_eq!(stalls(&after, "good"), (0.0, 0.0));
    let log = daemon.stderr();
    assert_eq!(log.matches("state=stalled").count(), 1, "one line says so:\n{log}");
}

/// What the books say of an operation that was out for so many seconds.
fn settled(before: &Seen, after: &Seen, held: f64) {
    let (timeouts, seconds) = stalls(after, "stuck");
    assert_eq!(timeouts, 1.0);
    let long = after.histogram("stuck", "sync").sum - before.histogram("stuck", "sync").sum;
    assert!(
        (held - 1.5..held + 2.0).contains(&long),
        "the whole time is in one sample: {long} s of {held} s"
    );
    assert_eq!(after.longer_than("stuck", "sync", 10.0), 1.0);
    assert!((seconds - (long - STALLED)).abs() < 0.5, "{seconds} s beyond {STALLED} s of {long} s");
    let missed = after.probe("missed", "stuck", "commit") - before.probe("missed", "stuck", "commit");
    assert!((held / 0.1 - 15.0..held / 0.1 + 5.0).contains(&missed), "{missed} slots missed in {held} s");
    let more = corrected(after, "stuck") - after.samples("stuck", "commit");
    let expected = held / (0.1 / 3.0);
    assert!(
        (expected * 0.85..expected * 1.15).contains(&more),
        "{more} corrected samples more, about {expected} expected"
    );
}

/// The reads of a disk wait for the commit that holds it no longer than the threshold.
#[test]
fn a_stalled_commit_forfeits_the_disk_to_the_reads() {
    if lacks(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze")]) {
        return;
    }
    let stuck = small_ext4();
    let keys = "commit: {interval: 200ms, file_size: 4MiB}, read: {interval: 200ms, file_size: 64MiB}, stall_threshold: 2s";
    let daemon = Daemon::new().config(&config(&[("stuck", stuck.path(), keys)])).start();
    await_runs(&daemon, "stuck", "commit", 2.0);
    await_runs(&daemon, "stuck", "read", 2.0);
    let ice = stuck.freeze();
    let out = |seen: &Seen| seen.age("stuck", "write") + seen.age("stuck", "sync");
    let paused = seen_when(&daemon, "a commit is out", |seen| out(seen) > 0.5);
    let reads = seen_when(&daemon, "reads go on", |seen| {
        seen.samples("stuck", "read") >= paused.samples("stuck", "read") + 48.0
    });
    assert!(reads.is_in("stuck", "stalled") && out(&reads) > 2.0, "beside the commit that is still out");
    drop(ice);
    seen_when(&daemon, "all is well", |seen| seen.up("stuck") == Some(1.0));
}
