use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::clock::Tick;
use crate::io::{Inflight, Op};
use crate::probe::{
    Burst, CommitSample, Cost, Failure, Fault, Finding, Invalid, Outcome, PerCommit, Phase, Probe,
    ReadSample, Stage, State, Verdict,
};
use crate::sys::Errno;

fn at(seconds: u64) -> Tick {
    Tick::from_nanos(1_000_000_000 * (1000 + seconds))
}

fn wall(seconds: u64) -> Duration {
    Duration::from_secs(1_700_000_000 + seconds)
}

fn plan() -> Plan {
    let on = |probe, seconds| ProbePlan { probe, interval: Duration::from_secs(seconds), operations: 3 };
    let probes = vec![on(Probe::Commit, 2), on(Probe::Read, 30)];
    Plan {
        probes,
        skip_reasons: &["busy"],
        ..Plan::new("pgdata", "/var/lib/postgresql", Arc::new(Inflight::default()))
    }
}

fn good(probe: Probe, second: u64) -> Outcome {
    let mut outcome = Outcome::begin(probe, at(second), at(second) + Duration::from_millis(3));
    outcome.finished = at(second) + Duration::from_millis(10);
    let phases = [Phase::First, Phase::Warm, Phase::Warm];
    match probe {
        Probe::Commit => {
            outcome.commits =
                phases.map(|phase| CommitSample { phase, write: 20, sync: Some(400), commit: 425 }).into();
            outcome.cost = Cost { writes: 3, written_bytes: 12_288, syncs: 3, ..Cost::default() };
        }
        Probe::Read => {
            outcome.reads = phases.map(|phase| ReadSample { phase, nanos: 90_000 }).into();
            outcome.burst = Some(Burst { block_size: 4096, depth: 4, iops: 31_000.0 });
            outcome.cost = Cost { reads: 64, read_bytes: 64 * 4096, ..Cost::default() };
        }
    }
    outcome
}

fn failed(probe: Probe, second: u64, errno: Errno) -> Outcome {
    let mut outcome = Outcome::begin(probe, at(second), at(second));
    outcome.finished = at(second);
    outcome.result = Err(Failure { stage: Stage::Sync, errno, message: "it failed".into() });
    outcome
}

struct One {
    book: Book,
    id: TargetId,
}

impl One {
    fn new() -> Self {
        let mut book = Book::new();
        let id = book.add_target(plan());
        Self { book, id }
    }

    fn enter(&mut self, outcome: &Outcome) {
        self.book.enter(self.id, outcome, outcome.finished, wall(0));
    }

    fn view(&mut self, second: u64) -> Arc<TargetView> {
        Arc::clone(&self.book.snapshot(at(second)).targets[0])
    }
}

#[test]
fn a_run_lands_where_it_belongs() {
    let mut one = One::new();
    one.enter(&good(Probe::Commit, 0));
    one.enter(&good(Probe::Read, 0));
    let view = one.view(1);
    let count = |timed, phase| view.series(timed, phase).unwrap().buckets.count();
    assert_eq!((count(Timed::Commit, Phase::First), count(Timed::Commit, Phase::Warm)), (1, 2));
    assert_eq!((count(Timed::Write, Phase::Warm), count(Timed::Sync, Phase::Warm)), (2, 2));
    assert_eq!((count(Timed::Read, Phase::First), count(Timed::Read, Phase::Warm)), (1, 2));
    assert_eq!(view.series(Timed::Sync, Phase::Warm).unwrap().buckets.sum(), 800);
    let commit = view.probe(Probe::Commit).unwrap();
    assert_eq!((commit.good, commit.bad, commit.cost.written_bytes), (1, 0, 12_288));
    assert_eq!(commit.lateness.sum(), 3_000_000);
    assert_eq!(commit.last_success, Some(wall(0)));
    assert_eq!(view.burst(at(1)).unwrap().iops, 31_000.0);
    assert_eq!(view.burst(at(91)), None, "older than three intervals");
}

#[test]
fn the_last_success_is_when_the_run_ended_not_when_it_was_entered() {
    let mut one = One::new();
    let outcome = good(Probe::Commit, 0);
    one.book.enter(one.id, &outcome, outcome.finished + Duration::from_secs(5), wall(105));
    assert_eq!(one.view(6).probe(Probe::Commit).unwrap().last_success, Some(wall(100)));
}

#[test]
fn without_a_sync_apart_there_is_no_sync_series() {
    let mut book = Book::new();
    book.add_target(Plan { sync_apart: false, ..plan() });
    let snapshot = book.snapshot(at(0));
    assert!(snapshot.targets[0].series(Timed::Sync, Phase::First).is_none());
    assert!(snapshot.targets[0].series(Timed::Commit, Phase::First).is_some());
}

#[test]
fn windows_run_empty_by_time_alone() {
    let mut one = One::new();
    one.enter(&good(Probe::Commit, 0));
    let held = |view: &TargetView, window, second| {
        view.series(Timed::Commit, Phase::Warm).unwrap().window(window, at(second)).is_some()
    };
    let early = one.view(1);
    assert!(held(&early, 0, 1) && held(&early, 2, 1));
    // A reader of an old snapshot is not told old numbers as the last minute's.
    assert!(!held(&early, 0, 61) && held(&early, 1, 61));
    let late = one.view(3602);
    assert!(late.series(Timed::Commit, Phase::Warm).unwrap().windows.iter().all(Option::is_none));
    assert_eq!(late.series(Timed::Commit, Phase::Warm).unwrap().buckets.count(), 2);
}

#[test]
fn what_has_not_changed_is_shared() {
    let mut one = One::new();
    let (first, second) = (one.view(0), one.view(1));
    assert!(Arc::ptr_eq(&first, &second));
    one.book.missed(one.id, Probe::Read, 2);
    let third = one.view(1);
    assert_eq!((second.probes[1].missed, third.probes[1].missed), (0, 2));
}

#[test]
fn up_is_unknown_then_true_then_follows_the_last_runs() {
    let mut one = One::new();
    assert_eq!(one.view(0).up(at(0)), None);
    one.enter(&good(Probe::Commit, 0));
    assert_eq!(one.view(0).up(at(0)), Some(true), "the read probe had no run yet");
    one.enter(&failed(Probe::Read, 1, Errno::EIO));
    assert_eq!(one.view(1).up(at(1)), Some(false));
    one.enter(&good(Probe::Read, 2));
    assert_eq!(one.view(2).up(at(2)), Some(true));
    one.enter(&failed(Probe::Commit, 3, Errno::EIO));
    one.book.set_layout(one.id, Probe::Commit, 10, 100);
    assert_eq!(one.view(3).up(at(3)), Some(true), "it is being laid out anew");
    one.book.set_layout(one.id, Probe::Commit, 100, 100);
    assert_eq!(one.view(3).up(at(3)), Some(false), "and has not been good since");
}

#[test]
fn a_state_that_cannot_be_probed_is_down() {
    for (state, up) in [
        (State::Ready, None),
        (State::LayingOut, None),
        (State::Gone, Some(false)),
        (State::Permission, Some(false)),
        (State::Unsupported, Some(false)),
        (State::ReadOnly, Some(false)),
        (State::NoSpace, Some(false)),
    ] {
        let mut one = One::new();
        one.book.set_state(one.id, state);
        assert_eq!(one.view(0).up(at(0)), up, "{state}");
    }
    let mut one = One::new();
    one.book.set_state(one.id, State::NoSpace);
    one.enter(&good(Probe::Commit, 0));
    let no_room = Failure { stage: Stage::Layout, errno: Errno::ENOSPC, message: String::new() };
    one.book.fail(one.id, Probe::Read, &no_room);
    assert_eq!(one.view(0).up(at(0)), Some(true), "commits still run");
    one.book.fail(one.id, Probe::Commit, &no_room);
    assert_eq!(one.view(0).up(at(0)), Some(false), "nothing runs");
}

#[test]
fn a_stalled_operation_is_down_without_anybody_telling_the_book() {
    let mut one = One::new();
    one.enter(&good(Probe::Commit, 0));
    let view = one.view(0);
    view.inflight().begin(Op::Sync, at(5));
    assert_eq!(view.up(at(15)), Some(true));
    assert_eq!(view.up(at(16)), Some(false));
    view.inflight().end(Op::Sync);
    view.inflight().begin(Op::Layout, at(5));
    assert_eq!(view.up(at(65)), Some(true), "a slice of a layout may take its time");
    assert_eq!(view.up(at(66)), Some(false));
}

#[test]
fn another_disk_begins_new_windows_and_keeps_the_counters() {
    let mut one = One::new();
    let facts = |identity: &str| Facts { identity: identity.into(), ..Facts::default() };
    one.book.set_facts(one.id, facts("serial-1"));
    one.enter(&good(Probe::Commit, 0));
    one.book.set_facts(one.id, facts("serial-1"));
    one.book.set_facts(one.id, facts(""));
    assert_eq!(one.view(1).device_changes, 0);
    one.book.set_facts(one.id, facts("serial-2"));
    let view = one.view(1);
    let series = view.series(Timed::Commit, Phase::Warm).unwrap();
    assert_eq!((view.device_changes, series.buckets.count()), (1, 2));
    assert!(series.windows.iter().all(Option::is_none));
}

#[test]
fn what_comes_for_a_removed_target_is_let_go() {
    let mut one = One::new();
    one.book.remove_target(one.id);
    one.enter(&good(Probe::Commit, 0));
    one.book.set_state(one.id, State::Ready);
    assert!(one.book.snapshot(at(1)).targets.is_empty());
    assert_ne!(one.book.add_target(plan()), one.id);
}

#[test]
fn verdicts_stay_until_the_next_check() {
    let mut one = One::new();
    let mut outcome = good(Probe::Commit, 0);
    let finding = |verdict| Finding { fault: Fault::Unflushed, verdict, evidence: "no flush seen".into() };
    outcome.findings = vec![finding(Verdict::Holds)];
    one.enter(&outcome);
    one.enter(&good(Probe::Commit, 2));
    assert_eq!(one.view(3).probes[0].checks[0].verdict, Verdict::Holds);
    outcome.findings = vec![finding(Verdict::Fine)];
    one.enter(&outcome);
    let view = one.view(5);
    assert_eq!((view.probes[0].checks.len(), view.probes[0].checks[0].verdict), (1, Verdict::Fine));
}

/// Whatever can be told to the book.
fn anything() -> impl Strategy<Value = (Outcome, u64, Option<Errno>)> {
    let errno = proptest::option::of(prop_oneof![Just(Errno::EIO), (1i32..5000).prop_map(Errno::from_raw)]);
    let sample = (any::<u64>(), 0u32..64).prop_map(|(v, shift)| v >> shift);
    let samples = proptest::collection::vec(sample, 0..6);
    (any::<bool>(), samples, errno, 0u64..400, any::<[u8; 4]>()).prop_map(
        |(commit, samples, errno, step, n)| {
            let mut outcome = good(if commit { Probe::Commit } else { Probe::Read }, 0);
            let phase = Phase::Warm;
            outcome.commits.extend(samples.iter().filter(|_| commit).map(|nanos| CommitSample {
                phase,
                write: *nanos,
                sync: Some(*nanos),
                commit: *nanos,
            }));
            outcome
                .reads
                .extend(samples.iter().filter(|_| !commit).map(|nanos| ReadSample { phase, nanos: *nanos }));
            outcome.invalid.push((Invalid::Starved, n[0].into()));
            outcome.retries = n[1].into();
            outcome.per_commit = Some(PerCommit { writes: f64::from(n[2]), flushes: 1.0, bytes: 4096.0 });
            (outcome, step, errno)
        },
    )
}

fn counters(view: &TargetView) -> Vec<u64> {
    let mut all = vec![view.device_changes, view.lane_panics];
    for series in &view.series {
        all.extend(series.buckets.cumulative());
        all.push(series.buckets.count());
    }
    for p in &view.probes {
        all.extend([p.good, p.bad, p.missed, p.retries, p.cost.reads, p.cost.writes, p.cost.syncs]);
        all.extend(p.lateness.cumulative());
        all.extend(p.skipped.iter().map(|(_, n)| *n).chain(p.invalid.iter().map(|(_, n)| *n)));
        all.push(p.errors.iter().map(|(_, _, n)| *n).sum());
    }
    all
}

proptest! {
    #[test]
    fn counters_never_go_down_and_books_agree(events in proptest::collection::vec(anything(), 1..40)) {
        let mut one = One::new();
        let (mut second, mut before) = (0, counters(&one.view(0)));
        for (outcome, step, errno) in events {
            second += step;
            let shift = Duration::from_secs(second);
            let outcome = Outcome {
                planned: outcome.planned + shift,
                started: outcome.started + shift,
                finished: outcome.finished + shift,
                result: errno.map_or(Ok(()), |errno| Err(Failure { stage: Stage::Read, errno, message: String::new() })),
                ..outcome
            };
            one.enter(&outcome);
            one.book.skipped(one.id, outcome.probe, "busy", 1);
            let view = one.view(second);
            let after = counters(&view);
            prop_assert_eq!(after.len(), before.len());
            prop_assert!(after.iter().zip(&before).all(|(a, b)| a >= b));
            for series in &view.series {
                prop_assert_eq!(series.buckets.cumulative().last(), Some(series.buckets.count()));
                for held in series.windows.iter().flatten() {
                    prop_assert!(u64::from(held.count) <= series.buckets.count());
                    prop_assert!(held.mean.is_finite() && held.stddev.is_finite());
                    prop_assert!(held.min as f64 <= held.mean * 1.000_001 && held.mean <= held.max as f64 * 1.000_001);
                }
            }
            before = after;
        }
    }
}

#[test]
fn the_devices_of_all_targets_are_one_list_that_stays_the_same() {
    let mut book = Book::new();
    assert!(book.devices().is_empty());
    let [a, b, _none] = ["a", "b", "c"].map(|name| book.add_target(Plan::new(name, "/", Arc::default())));
    let facts = |device: &str, leaves: &[&str]| Facts {
        device: device.into(),
        leaves: leaves.iter().map(ToString::to_string).collect(),
        ..Facts::default()
    };
    book.set_facts(a, facts("dm-0", &["sdb", "sda"]));
    book.set_facts(b, facts("sda1", &["sda"]));
    let list = book.devices();
    assert_eq!(list.iter().map(|name| &**name).collect::<Vec<_>>(), ["dm-0", "sda", "sda1", "sdb"]);
    assert!(Arc::ptr_eq(&list, &book.devices()));
    book.remove_target(a);
    assert_eq!(book.devices().iter().map(|name| &**name).collect::<Vec<_>>(), ["sda", "sda1"]);
}
