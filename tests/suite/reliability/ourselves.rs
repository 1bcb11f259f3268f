//! Faults of the daemon itself: it is stopped, starved, short of descriptors, or nobody reads its log.

use super::NEEDS;
use super::room::Room;
use super::table::Own;
use super::watch::{HEALTHY, Healthy, Watch};
use crate::lab::{self, Cpu, Daemon, Freezer, Need, Op, Running};
use crate::logging::with_piped_log;
use crate::targets::{self, COMMITS};
use crate::watch::{Seen, seen_when};
use rustix::process::Signal;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) const SCENARIOS: &[Own] = &[
    Own {
        name: "stopped_by_a_signal",
        kind: "the daemon is stopped",
        made: "SIGSTOP for 5 s (with `--full` 30 s), then SIGCONT",
        seen: "every slot is accounted for, those of the stop as missed or skipped; nothing is caught up: a probe that is due each second runs at \
               most once in the first; no sample of the stop is in a histogram",
        recovers: "at once",
    },
    Own {
        name: "frozen_by_a_cgroup",
        kind: "the daemon is stopped",
        made: "cgroup freezer, for 5 s (with `--full` 30 s)",
        seen: "the same",
        recovers: "at once",
    },
    Own {
        name: "starved_of_cpu",
        kind: "the daemon gets no CPU",
        made: "cgroup with 2 ms of CPU in each 100 ms, for 10 s",
        seen: "every slot is accounted for; samples that waited for a CPU are counted as `starved`; scrapes are answered, late",
        recovers: "at once when the limit is lifted",
    },
    Own {
        name: "descriptors_used_up",
        kind: "no more file descriptors: EMFILE",
        made: "RLIMIT_NOFILE of the running daemon set to what it has open and two more; then a target's directory, which was missing, comes",
        seen: "the healthy targets keep their rate and scrapes are answered; the new one cannot be opened and counts `EMFILE`",
        recovers: "when the limit is raised",
    },
    Own {
        name: "log_that_nobody_reads",
        kind: "a log sink that takes no more",
        made: "standard error is a pipe of 4 KiB that nobody reads; a disk fails every second",
        seen: "the healthy targets keep their rate, scrapes are answered",
        recovers: "lines that found no room are counted in `diskcanary_log_lines_dropped_total`",
    },
];

const PULSE: &str = "pulse";

fn picked(name: &str) -> bool {
    let picked = std::env::var("DISKCANARY_SCENARIO").ok();
    picked.is_none_or(|picked| picked == name) && !lab::lacks(NEEDS)
}

fn well(daemon: &Running, also: &[&str]) {
    seen_when(daemon, "all are measured", |seen| {
        HEALTHY.iter().chain(also).all(|t| seen.probe("runs", t, "commit") >= 3.0 && seen.is_in(t, "ready"))
    });
}

/// Waits until a second of the wall clock, by which slots are counted, has just begun.
fn await_full_second() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    thread::sleep(Duration::from_millis(1020) - Duration::from_nanos(since.subsec_nanos().into()));
}

/// The healthy targets, and one that is due each second.
fn stands_still(stop: impl FnOnce(&Running), go_on: impl FnOnce(&Running)) {
    lab::we_are_first_on_the_cpu();
    let room = Room::new(false);
    let (healthy, pulse) = (Healthy::new(&room), room.ext4());
    let keys = "commit: {interval: 1s, file_size: 4MiB}, read: {interval: 1s, file_size: 64MiB}";
    let yaml = targets::config(&[(PULSE, pulse.path(), keys)]) + &healthy.config();
    let daemon = Daemon::new().config(&yaml).with(|c| _ = lab::first_on_the_cpu(c)).start();
    well(&daemon, &[PULSE]);

    let (before, began) = (Seen::of(&daemon), Instant::now());
    stop(&daemon);
    thread::sleep(Duration::from_secs(if lab::full() { 30 } else { 5 }));
    await_full_second();
    let (stopped, woken) = (began.elapsed(), Instant::now());
    go_on(&daemon);
    thread::sleep(Duration::from_millis(850).saturating_sub(woken.elapsed()));
    let second = Seen::of(&daemon);
    for probe in ["commit", "read"] {
        // One run may have been out, or done and not yet in the books, when it was stopped.
        let runs = second.probe("runs", PULSE, probe) - before.probe("runs", PULSE, probe);
        assert!(runs <= 2.0, "{probe}: {runs} runs of a probe that is due each second");
    }
    thread::sleep(Duration::from_secs(3));
    let (after, took) = (Seen::of(&daemon), began.elapsed());
    for target in HEALTHY {
        for probe in ["commit", "read"] {
            let more = |what| after.probe(what, target, probe) - before.probe(what, target, probe);
            let slots = after.slots(target, probe) - before.slots(target, probe);
            let expected = took.as_secs_f64() / 0.1;
            assert!((slots - expected).abs() <= 3.0, "{target} {probe}: {slots} slots counted in {expected}");
            // Where a run of the other probe was out, its slots say that the device was busy.
            let unused = more("missed") + more("skipped");
            assert!(unused >= stopped.as_secs_f64() / 0.1 - 4.0, "{target} {probe}: {unused} slots unused");
        }
        for op in ["commit", "read"] {
            let long = after.longer_than(target, op, 2.0);
            assert_eq!(long, 0.0, "{target} {op}: our own stop is in the histogram");
        }
    }
    targets::assert_sound(&daemon);
}

#[test]
fn stopped_by_a_signal() {
    if picked("stopped_by_a_signal") {
        stands_still(|daemon| daemon.signal(Signal::STOP), |daemon| daemon.signal(Signal::CONT));
    }
}

#[test]
fn frozen_by_a_cgroup() {
    if picked("frozen_by_a_cgroup") {
        let freezer = Freezer::new();
        let freeze = |daemon: &Running| {
            freezer.take(daemon.pid());
            freezer.freeze();
        };
        stands_still(freeze, |_| freezer.thaw());
    }
}

#[test]
fn starved_of_cpu() {
    if !picked("starved_of_cpu") || lab::lacks(&[Need::Cgroup("cpu")]) {
        return;
    }
    let room = Room::new(false);
    let healthy = Healthy::new(&room);
    let group = Cpu::new();
    let daemon = Daemon::new().config(&format!("targets:\n{}", healthy.config())).start();
    well(&daemon, &[]);
    group.take(daemon.pid());
    let (before, began) = (Seen::of(&daemon), Instant::now());
    group.quota(Some(Duration::from_millis(2)));
    thread::sleep(Duration::from_secs(10));
    group.quota(None);
    let (after, took) = (Seen::of(&daemon), began.elapsed());
    let starved = |seen: &Seen| HEALTHY.iter().map(|t| seen.invalid(t, "read", "starved")).sum::<f64>();
    assert!(starved(&after) > starved(&before), "nothing was starved");
    for target in HEALTHY {
        for probe in ["commit", "read"] {
            let slots = after.slots(target, probe) - before.slots(target, probe);
            let expected = took.as_secs_f64() / 0.1;
            assert!((slots - expected).abs() <= 4.0, "{target} {probe}: {slots} slots counted in {expected}");
        }
    }
    well_again(&daemon, &after);
}

fn well_again(daemon: &Running, since: &Seen) {
    seen_when(daemon, "all is well again", |seen| {
        HEALTHY.iter().all(|t| {
            seen.probe("runs", t, "commit") >= since.probe("runs", t, "commit") + 10.0
                && seen.up(t) == Some(1.0)
                && seen.is_in(t, "ready")
        })
    });
    targets::assert_sound(daemon);
}

fn limit_descriptors(daemon: &Running, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: 4096 };
    let pid = libc::pid_t::try_from(daemon.pid()).unwrap();
    // SAFETY: a valid limit to read, and no place for the old one.
    let done = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn descriptors_used_up() {
    if !picked("descriptors_used_up") {
        return;
    }
    lab::we_are_first_on_the_cpu();
    let room = Room::new(false);
    let (healthy, late) = (Healthy::new(&room), room.fuse());
    let path = late.path().join("late");
    let yaml = targets::config(&[("late", &path, COMMITS)]) + &healthy.config();
    let daemon = Daemon::new().config(&yaml).with(|c| _ = lab::first_on_the_cpu(c)).start();
    well(&daemon, &[]);
    // What looks at the machine once a second has opened its files.
    thread::sleep(Duration::from_secs(3));
    let watch = Watch::start(&healthy, daemon.address());
    limit_descriptors(&daemon, first_free(&daemon) + 2);
    std::fs::create_dir(&path).unwrap();
    seen_when(&daemon, "EMFILE is counted", |seen| seen.errors("late", "commit", "open", "EMFILE") >= 1.0);
    thread::sleep(Duration::from_secs(10));
    assert!(Seen::of(&daemon).is_in("late", "gone"));
    limit_descriptors(&daemon, 4096);
    seen_when(&daemon, "it is well", |seen| {
        seen.is_in("late", "ready") && seen.probe("runs", "late", "commit") >= 3.0
    });
    watch.end();
    targets::assert_sound(&daemon);
}

/// The lowest number that is no descriptor for longer than a moment.
fn first_free(daemon: &Running) -> u64 {
    let numbers = || {
        let all = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().flatten();
        all.filter_map(|fd| fd.file_name().to_str()?.parse().ok())
            .collect::<std::collections::BTreeSet<u64>>()
    };
    let looks = (0..20).map(|_| {
        thread::sleep(Duration::from_millis(7));
        numbers()
    });
    let lasting = looks.reduce(|a, b| a.intersection(&b).copied().collect()).unwrap();
    (0..).find(|n| !lasting.contains(n)).unwrap()
}

#[test]
fn log_that_nobody_reads() {
    if !picked("log_that_nobody_reads") {
        return;
    }
    lab::we_are_first_on_the_cpu();
    let room = Room::new(false);
    let (healthy, sick) = (Healthy::new(&room), room.fuse());
    let missing: Vec<_> =
        (0..64).map(|n| (format!("missing_{n}"), format!("/nonexistent/disk-{n}"))).collect();
    let mut all: Vec<_> =
        missing.iter().map(|(name, path)| (name.as_str(), path.as_ref(), COMMITS)).collect();
    all.push(("sick", sick.path(), COMMITS));
    let yaml = targets::config(&all) + &healthy.config();
    let daemon = Daemon::new().config(&yaml).with(|c| _ = lab::first_on_the_cpu(c));
    let (daemon, log) = with_piped_log(daemon.argument("--log.level=debug"));
    well(&daemon, &["sick"]);
    let watch = Watch::start(&healthy, daemon.address());
    sick.fail(Op::Write, libc::EIO, 10);
    let failed = seen_when(&daemon, "it fails and recovers", |seen| {
        seen.errors("sick", "commit", "write", "EIO") >= 3.0
    });
    thread::sleep(Duration::from_secs(8));
    sick.heal(Op::Write);
    well_again(&daemon, &failed);
    watch.end();
    drop(log);
}
