//! SIGHUP: another plan under way, without a gap in what stays and without waiting for what is stuck.

use crate::lab::{Daemon, FuseDisk, Metrics, Need, Op, Running, eventually, lacks};
use crate::targets::{COMMITS, READS, await_runs, config};
use crate::watch::{Seen, seen_when};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;

const GOOD: &str = "diskcanary_config_last_reload_successful";

/// Another config, by SIGHUP; returns when it is said to be in force.
pub(crate) fn reload(daemon: &Running, yaml: &str) {
    fs::write(daemon.directory().join("diskcanary.yaml"), yaml).unwrap();
    let said = |daemon: &Running| daemon.stderr().matches("reloaded").count();
    let before = said(daemon);
    daemon.signal(Signal::HUP);
    eventually("the reload is told", || said(daemon) > before);
}

/// Every sample of a counter or histogram that is below what it was; of targets that are in both.
fn gone_down(before: &Metrics, after: &Metrics, targets: &[&str]) -> Vec<String> {
    let of_these = |series: &str| targets.iter().any(|t| series.contains(&format!("target=\"{t}\"")));
    falls(&before.text, &after.text, of_these)
}

/// The same of the series that are `wanted`, from one text to another.
pub(crate) fn falls(before: &str, after: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let counts = |text: &str| -> BTreeMap<String, f64> {
        let counted =
            |name: &str| name.ends_with("_total") || name.ends_with("_count") || name.contains("_bucket");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        pairs
            .filter(|(series, _)| counted(series.split('{').next().unwrap_or_default()))
            .filter(|(series, _)| wanted(series))
            .map(|(series, value)| (series.to_owned(), value.parse().unwrap()))
            .collect()
    };
    let after = counts(after);
    let down = |(series, was): (String, f64)| match after.get(&series) {
        Some(is) if *is >= was => None,
        is => Some(format!("{series}: {was} → {is:?}")),
    };
    counts(before).into_iter().filter_map(down).collect()
}

#[test]
fn what_stays_goes_on_what_goes_leaves_and_a_bad_file_changes_nothing() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let [a, b, c] = [FuseDisk::new(), FuseDisk::new(), FuseDisk::new()];
    let daemon = Daemon::new().config(&config(&[("a", a.path(), COMMITS), ("b", b.path(), COMMITS)])).start();
    await_runs(&daemon, "a", "commit", 3.0);
    await_runs(&daemon, "b", "commit", 3.0);
    let first = Seen::of(&daemon);
    assert_eq!(first.0.value(GOOD, &[]), Some(1.0));

    reload(&daemon, "targets:\n  - {name: a, path: /tmp, iodedepth: 3}\n");
    let bad = Seen::of(&daemon);
    assert_eq!(bad.0.value(GOOD, &[]), Some(0.0));
    let log = daemon.stderr();
    assert!(log.contains("diskcanary.yaml:2") && log.contains("iodedepth"), "file, line and word:\n{log}");
    await_runs(&daemon, "b", "commit", 3.0);

    // `a` as it was, `b` gone, `c` new.
    reload(&daemon, &config(&[("a", a.path(), COMMITS), ("c", c.path(), COMMITS)]));
    await_runs(&daemon, "c", "commit", 3.0);
    await_runs(&daemon, "a", "commit", 3.0);
    let second = Seen::of(&daemon);
    assert_eq!(second.0.value(GOOD, &[]), Some(1.0));
    assert!(!second.0.text.contains("target=\"b\""), "its series are gone");
    assert_eq!(gone_down(&first.0, &second.0, &["a"]), [""; 0]);
    let missed = |seen: &Seen| seen.probe("missed", "a", "commit") + seen.probe("skipped", "a", "commit");
    assert_eq!(missed(&first), missed(&second), "no slot of `a` is lost to the reload");

    // `a` at another pace and with reads besides: its commits go on in the same series.
    let slower = COMMITS
        .replace("200ms", "300ms")
        .replace("read: {enabled: false}", "read: {interval: 300ms, file_size: 64MiB}");
    reload(&daemon, &config(&[("a", a.path(), &slower), ("c", c.path(), COMMITS)]));
    await_runs(&daemon, "a", "read", 2.0);
    await_runs(&daemon, "a", "commit", 2.0);
    let third = Seen::of(&daemon);
    assert_eq!(gone_down(&second.0, &third.0, &["a", "c"]), [""; 0]);
    assert_eq!(
        third.0.value("diskcanary_probe_interval_seconds", &[("target", "a"), ("probe", "commit")]),
        Some(0.3)
    );

    // Another profile is another series; the runs go on counting.
    let etcd =
        slower.replace("interval: 300ms, file_size: 4MiB", "interval: 300ms, file_size: 4MiB, profile: etcd");
    assert_ne!(slower, etcd);
    reload(&daemon, &config(&[("a", a.path(), &etcd), ("c", c.path(), COMMITS)]));
    await_runs(&daemon, "a", "commit", 2.0);
    let fourth = Seen::of(&daemon);
    assert!(!fourth.0.text.contains("target=\"a\",profile=\"overwrite\""), "{}", fourth.0.text);
    assert!(fourth.probe("runs", "a", "commit") > third.probe("runs", "a", "commit"));
    assert_eq!(fourth.probe("errors", "a", "commit"), 0.0, "{}", daemon.stderr());
}

/// A renamed target finds the lanes of the old one: no second pair, no fight for the lock.
#[test]
fn five_hundred_reloads_leave_nothing_behind() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let [a, b] = [FuseDisk::new(), FuseDisk::new()];
    let plan = |n: u32| {
        let (renamed, reads) = (format!("b{}", n % 3), if n.is_multiple_of(2) { COMMITS } else { READS });
        config(&[("a", a.path(), COMMITS), (&renamed, b.path(), reads)])
    };
    let daemon = Daemon::new().config(&plan(0)).start();
    await_runs(&daemon, "a", "commit", 2.0);
    await_runs(&daemon, "b0", "commit", 2.0);
    for n in 1..=20 {
        reload(&daemon, &plan(n));
    }
    await_runs(&daemon, "a", "commit", 2.0);
    let (before, size) = (Seen::of(&daemon), footprint(&daemon));
    for n in 21..500 {
        reload(&daemon, &plan(n));
    }
    // An even one, and one that is as it was.
    reload(&daemon, &plan(498));
    await_runs(&daemon, "b0", "commit", 2.0);
    let (after, now) = (Seen::of(&daemon), footprint(&daemon));
    assert_eq!(gone_down(&before.0, &after.0, &["a"]), [""; 0]);
    assert_eq!((now.threads, now.descriptors), (size.threads, size.descriptors), "threads and descriptors");
    assert!(now.kib < size.kib + 4096, "resident memory: {} KiB, then {} KiB", size.kib, now.kib);
    let missed = after.probe("missed", "a", "commit") - before.probe("missed", "a", "commit");
    let runs = after.probe("runs", "a", "commit") - before.probe("runs", "a", "commit");
    assert!(missed <= runs / 10.0, "{missed} slots of `a` missed beside {runs} runs");
}

/// While its operation is out a target is taken away and comes back, several times: the lane that is stuck is found again, and what comes
/// back late counts for nobody who did not ask for it.
#[test]
fn a_target_that_is_taken_away_while_its_disk_hangs_finds_its_lane_again() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let [stuck, good] = [FuseDisk::new(), FuseDisk::new()];
    let (both, alone) = (
        config(&[("stuck", stuck.path(), COMMITS), ("good", good.path(), COMMITS)]),
        config(&[("good", good.path(), COMMITS)]),
    );
    let daemon = Daemon::new().config(&both).start();
    await_runs(&daemon, "stuck", "commit", 2.0);
    await_runs(&daemon, "good", "commit", 2.0);
    let (before, size) = (Seen::of(&daemon), footprint(&daemon));
    let hang = stuck.hang(&[Op::Write, Op::Sync]);
    seen_when(&daemon, "an operation is out", |seen| {
        seen.age("stuck", "write") + seen.age("stuck", "sync") > 0.5
    });
    for _ in 0..10 {
        reload(&daemon, &alone);
        assert!(!daemon.scrape().text.contains("target=\"stuck\""));
        reload(&daemon, &both);
    }
    let again = Seen::of(&daemon);
    assert!(
        again.age("stuck", "write") + again.age("stuck", "sync") > 0.5,
        "what is out shows under the target that is back"
    );
    assert_eq!(again.samples("stuck", "commit"), 0.0);
    let threads = footprint(&daemon).threads;
    assert!(
        threads <= size.threads,
        "no second lane beside the one that is stuck: {threads}, {}",
        size.threads
    );
    let served = stuck.count(Op::Sync).operations;
    drop(hang);
    await_runs(&daemon, "stuck", "commit", 3.0);
    let after = Seen::of(&daemon);
    assert_eq!(after.probe("errors", "stuck", "commit"), 0.0, "{}", daemon.stderr());
    assert_eq!(
        after.longer_than("stuck", "commit", 1.0),
        0.0,
        "the old lane's late completion is nobody's sample"
    );
    assert!(stuck.count(Op::Sync).operations > served);
    assert_eq!(gone_down(&before.0, &after.0, &["good"]), [""; 0]);
    assert_eq!(footprint(&daemon).threads, size.threads);
}

#[derive(Debug)]
pub(crate) struct Footprint {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    kib: u64,
}

/// The least of several looks: a scrape's connection comes and goes, and so does a lane that ends.
pub(crate) fn footprint(daemon: &Running) -> Footprint {
    let list = |what: &str| fs::read_dir(format!("/proc/{}/{what}", daemon.pid())).unwrap();
    // The kernel's own workers of a ring come and go as it likes.
    let is_ours = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| !name.starts_with("iou-"))
    };
    let looks = (0..40).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        (list("task").flatten().filter(is_ours).count(), list("fd").count())
    });
    let (threads, descriptors) = looks.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    Footprint { threads, descriptors, kib: kib.split_whitespace().next().unwrap().parse().unwrap() }
}
