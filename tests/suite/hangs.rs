//! Disks that hang: seen while they hang, felt by nobody else, and over when they are over.

use crate::lab::{Daemon, FuseDisk, Need, Op, Running, eventually_within, lacks};
use crate::targets::{COMMITS, await_runs, config};
use crate::watch::{PATIENCE, Seen, all_measured, seen_when, small_ext4, target};
use rustix::process::Signal;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

const NEEDS: &[Need] = &[Need::Root, Need::Fuse, Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze")];
/// An operation that is out for so long puts its target into the state `stalled` and no longer keeps others from the disk.
const OVERDUE: f64 = 10.0;

#[test]
fn a_hung_disk_is_seen_while_it_hangs_and_nobody_else_feels_it() {
    if lacks(NEEDS) {
        return;
    }
    let (stuck, frozen, good) = (FuseDisk::new(), small_ext4(), small_ext4());
    let config = format!(
        "targets:\n{}{}{}",
        target("stuck", stuck.path(), "200ms", "200ms"),
        target("frozen", frozen.path(), "200ms", "200ms"),
        target("good", good.path(), "200ms", "200ms")
    );
    let daemon = Daemon::new().config(&config).start();
    let before = all_measured(&daemon, &["stuck", "frozen", "good"], &["commit", "read"]);
    let size = footprint(&daemon);

    let (hang, ice) = (stuck.hang(&Op::ALL), frozen.freeze());
    let hung = watched_while_it_hangs(&daemon);
    let during = Seen::of(&daemon);
    for (name, op) in [("stuck", "write"), ("stuck", "read"), ("frozen", "write")] {
        let age = during.age(name, op) + if op == "write" { during.age(name, "sync") } else { 0.0 };
        assert!(age > OVERDUE && age < hung + 2.0, "{name} {op}: {age} s after {hung} s");
    }
    for name in ["stuck", "frozen"] {
        assert_eq!(during.up(name), Some(0.0), "{name}");
        assert!(during.is_in(name, "stalled"), "{name}");
    }
    assert_eq!(during.up("good"), Some(1.0));
    for (probe, least) in [("commit", 0.5), ("read", 0.5)] {
        let runs = during.probe("runs", "good", probe) - before.probe("runs", "good", probe);
        assert!(runs > hung / 0.2 * least, "good {probe}: {runs} runs in {hung} s");
    }
    // A run out on a disk keeps the other probe from it, until it is overdue; then reads go on beside the frozen write.
    seen_when(&daemon, "reads of the frozen file system go on", |seen| {
        seen.samples("frozen", "read") > during.samples("frozen", "read") + 32.0
    });
    assert_eq!(footprint(&daemon), size, "threads and descriptors");

    drop((hang, ice));
    let recovered = seen_when(&daemon, "both are well again", |seen| {
        ["stuck", "frozen"].iter().all(|name| {
            let back = seen.probe("runs", name, "commit") > during.probe("runs", name, "commit") + 1.0;
            back && seen.up(name) == Some(1.0) && seen.is_in(name, "ready")
        })
    });
    for name in ["stuck", "frozen"] {
        assert_eq!(recovered.longer_than(name, "commit", OVERDUE), 1.0, "{name}: one long commit");
        let missed = recovered.probe("missed", name, "commit") - before.probe("missed", name, "commit");
        assert!(missed > hung / 0.2 * 0.8, "{name}: {missed} slots missed in {hung} s");
    }
    // Where the burst at depth hung, no sample did: only its IOPS are measured.
    assert!(recovered.longer_than("stuck", "read", OVERDUE) <= 1.0);
    assert_eq!(recovered.longer_than("frozen", "read", OVERDUE), 0.0);
    nothing_is_caught_up(&daemon);
    assert_eq!(footprint(&daemon), size, "threads and descriptors after all");
}

#[test]
fn a_hang_of_what_a_commit_needs_to_read_first_is_seen() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let keys = COMMITS.replace("interval: 200ms", "interval: 200ms, profile: etcd");
    let daemon = Daemon::new().config(&config(&[("stuck", disk.path(), &keys)])).start();
    await_runs(&daemon, "stuck", "commit", 2.0);
    let read = [("target", "stuck"), ("probe", "commit"), ("op", "read")];
    let fetched = |seen: &crate::lab::Metrics| seen.sum("diskcanary_probe_operations_total", &read);
    assert!(fetched(&daemon.scrape()) >= 2.0, "nothing is cached there, and what is fetched is counted");
    let hang = disk.hang(&[Op::Read]);
    seen_when(&daemon, "the read shows as the commit's age", |seen| seen.age("stuck", "write") > 2.0);
    drop(hang);
    await_runs(&daemon, "stuck", "commit", 2.0);
}

/// Scrapes until the hang is overdue for long: each is answered at once, and what is out grows older from one to the next. Returns
/// how long that was, in seconds.
fn watched_while_it_hangs(daemon: &Running) -> f64 {
    let began = Instant::now();
    let mut ages: Vec<Ages> = Vec::new();
    while began.elapsed().as_secs_f64() < OVERDUE + 5.0 {
        let asked = Instant::now();
        let seen = Seen::of(daemon);
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(1), "a scrape took {took:?} while a disk hung");
        ages.push(Ages::of(&seen));
        std::thread::sleep(Duration::from_millis(200));
    }
    // The first looks may have come before the next run of each probe.
    for pair in ages[ages.len() / 4..].windows(2) {
        assert!(pair[1].stuck_write > pair[0].stuck_write, "{ages:?}");
        assert!(pair[1].stuck_read > pair[0].stuck_read, "{ages:?}");
        assert!(pair[1].frozen_write > pair[0].frozen_write, "{ages:?}");
    }
    began.elapsed().as_secs_f64()
}

#[derive(Debug)]
struct Ages {
    stuck_write: f64,
    stuck_read: f64,
    frozen_write: f64,
}

impl Ages {
    fn of(seen: &Seen) -> Self {
        let commit = |name| seen.age(name, "write") + seen.age(name, "sync");
        Self {
            stuck_write: commit("stuck"),
            stuck_read: seen.age("stuck", "read"),
            frozen_write: commit("frozen"),
        }
    }
}

/// Threads and descriptors, as the kernel lists them: the least of several looks, since a scrape's connection comes and goes.
fn footprint(daemon: &Running) -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", daemon.pid())).unwrap().count();
    let looks = (0..20).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        (count("task"), count("fd"))
    });
    looks.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).unwrap()
}

/// After the hang each probe runs at most once in each slot.
fn nothing_is_caught_up(daemon: &Running) {
    let (first, began) = (Seen::of(daemon), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let second = Seen::of(daemon);
    let slots = began.elapsed().as_secs_f64() / 0.2;
    for name in ["stuck", "frozen", "good"] {
        for probe in ["commit", "read"] {
            let runs = second.probe("runs", name, probe) - first.probe("runs", name, probe);
            assert!(runs <= slots + 2.0, "{name} {probe}: {runs} runs in {slots} slots");
        }
    }
}

/// The kernel keeps a process while one of its threads waits for a frozen file system, or for a FUSE server that has its
/// request: SIGKILL does not reach it there. What can be had at once is the port; the process ends when the disk answers.
#[test]
fn a_daemon_that_its_disks_hold_ends_its_work_and_gives_the_port_to_the_next() {
    if lacks(NEEDS) {
        return;
    }
    let (stuck, frozen) = (FuseDisk::new(), small_ext4());
    let config = format!(
        "targets:\n{}{}",
        target("stuck", stuck.path(), "100ms", "100ms"),
        target("frozen", frozen.path(), "100ms", "100ms")
    );
    let mut daemon = Daemon::new().config(&config).start();
    all_measured(&daemon, &["stuck", "frozen"], &["commit", "read"]);
    let (hang, ice) = (stuck.hang(&Op::ALL), frozen.freeze());
    seen_when(&daemon, "a write hangs at each", |seen| {
        Ages::of(seen).stuck_write > 0.5 && Ages::of(seen).frozen_write > 0.5
    });
    daemon.signal(Signal::TERM);
    eventually_within(Duration::from_secs(15), "it says that it ends, after 5 s of grace", || {
        daemon.stderr().contains("ended with operations still out")
    });
    let port = daemon.address().port();
    eventually_within(Duration::from_secs(5), "the port is free", || {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
    });
    drop((hang, ice));
    let status = daemon.ended_within(PATIENCE).expect("it ends when its disks answer");
    assert_eq!(status.code(), Some(0), "{}", daemon.stderr());
}
