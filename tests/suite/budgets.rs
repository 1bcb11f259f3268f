//! Budgets on a real disk: what the kernel counts there stays below the limit, what is skipped is said, and probes go on.

use crate::lab::{Daemon, Need, lacks};
use crate::watch::{Seen, seen_when, small_ext4};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const MIB: f64 = 1_048_576.0;
/// Half an hour's share of 48 MiB is one MiB.
const A_DAY: f64 = 48.0 * MIB;
const AT_ONCE: f64 = MIB;
/// 46 of 48 half hours' shares.
const EACH_SECOND: f64 = 46.0 * MIB / 86_400.0;
/// Three commits of 4 KiB and what ext4's journal writes for them, when they stand alone.
const A_RUN: f64 = 36.0 * 1024.0;

fn remaining(seen: &Seen, kind: &str) -> f64 {
    let labels = [("target", "tight"), ("kind", kind)];
    seen.0.value("diskcanary_budget_remaining_ratio", &labels).expect("a budget")
}

fn skipped(seen: &Seen, probe: &str) -> f64 {
    let labels = [("target", "tight"), ("probe", probe), ("reason", "budget")];
    seen.0.value("diskcanary_probe_skipped_total", &labels).expect("the reason is there from the start")
}

#[test]
fn a_budget_holds_by_the_kernels_own_counter_and_is_said_once() {
    if lacks(&[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = small_ext4();
    let config = format!(
        "targets:\n  - name: tight\n    path: {}\n    commit: {{interval: 100ms, file_size: 4MiB}}\n    read: {{enabled: false}}\n    \
         budget: {{write_per_day: {}MiB}}\n",
        disk.path().display(),
        A_DAY / MIB,
    );
    let daemon = Daemon::new().config(&config).start();
    seen_when(&daemon, "commits run", |seen| seen.probe("runs", "tight", "commit") >= 1.0);
    // The layout counts apart, and its last pages are on the disk soon after it.
    let written = || disk.disk().counters()[6] as f64 * 512.0;
    let (first, began) = (written(), Instant::now());
    let spent = seen_when(&daemon, "the budget is spent", |seen| skipped(seen, "commit") >= 5.0);
    assert_eq!(remaining(&spent, "write"), 0.0);
    assert!(remaining(&spent, "read") > 0.9, "nothing was read");
    assert!(spent.probe("runs", "tight", "commit") >= 40.0, "a bucket full of runs");

    // Spread over the day, not stopped: the next runs come as the bucket refills.
    let wait = Duration::from_secs(if crate::lab::full() { 600 } else { 75 });
    std::thread::sleep(wait);
    let after = Seen::of(&daemon);
    let runs = after.probe("runs", "tight", "commit") - spent.probe("runs", "tight", "commit");
    let (moved, seconds) = (written() - first, began.elapsed().as_secs_f64());
    assert!(runs >= 1.0, "probes go on");
    assert!(runs <= EACH_SECOND * seconds / (12.0 * 1024.0) + 1.0, "{runs} runs in {seconds} s");
    let most = AT_ONCE + EACH_SECOND * seconds + A_RUN;
    // What the file system still owed from its making and the layout is not ours to count: one journal's commit.
    assert!(moved <= most + 64.0 * 1024.0, "{moved} bytes in {seconds} s, of {most}");
    assert!(moved >= AT_ONCE * 0.8, "the budget is used: {moved}");
    assert!(skipped(&after, "commit") > skipped(&spent, "commit"), "slots pass, and say why");
    assert_eq!(after.up("tight"), Some(1.0), "a probe that spares the disk is not down");
    let log = daemon.stderr();
    assert_eq!(log.matches("budget is spent").count(), 1, "{log}");
}

/// What was spent stays spent: a daemon that is started again and again must not write more than one that runs.
#[test]
fn a_restart_does_not_fill_the_budget() {
    if lacks(&[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = small_ext4();
    let config = format!(
        "targets:\n  - name: tight\n    path: {}\n    commit: {{interval: 100ms, file_size: 4MiB}}\n    read: {{enabled: false}}\n    \
         budget: {{write_per_day: {}MiB}}\n",
        disk.path().display(),
        A_DAY / MIB,
    );
    let mut first = Daemon::new().config(&config).start();
    seen_when(&first, "the budget is spent", |seen| skipped(seen, "commit") >= 1.0);
    first.signal(Signal::TERM);
    first.ended_within(Duration::from_secs(30)).expect("it ends");
    let state = first.directory().join("state");
    let second = Daemon::new().config(&config).with(|command| {
        command.env("STATE_DIRECTORY", &state);
    });
    let second = second.start();
    let seen = seen_when(&second, "slots are skipped again", |seen| skipped(seen, "commit") >= 5.0);
    let runs = seen.probe("runs", "tight", "commit");
    assert!(runs <= 8.0, "{runs} runs after the restart, of the 40 and more that a full bucket gives");
}

#[test]
fn who_asks_for_an_interval_gets_it_without_a_budget() {
    if lacks(&[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = small_ext4();
    let config = format!("targets:\n{}", crate::watch::target("tight", disk.path(), "100ms", "100ms"));
    let daemon = Daemon::new().config(&config).start();
    // Twenty runs would take a tenth of what the default holds.
    let seen = seen_when(&daemon, "reads run", |seen| seen.probe("runs", "tight", "read") >= 20.0);
    assert_eq!((skipped(&seen, "read"), skipped(&seen, "commit")), (0.0, 0.0));
    assert!(remaining(&seen, "read") > 0.98, "{}", remaining(&seen, "read"));
}
