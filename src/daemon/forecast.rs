//! How many series a target will have, found by keeping its books for an hour that is made up: what is counted is what a
//! scrape would bring, whatever the table of metrics holds by then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::control::books;
use super::facts::facts;
use crate::clock::Tick;
use crate::config::TargetPlan;
use crate::device::{Sampler, Texts, View};
use crate::expose;
use crate::io::{EngineKind, Inflight};
use crate::probe::commit::COMMITS;
use crate::probe::content::BLOCK;
use crate::probe::read::{DEPTH, SINGLES};
use crate::probe::sweep::{
    Cell, CellResult, Environment, Latency, Operation, Regime, SCHEMA_VERSION, Shape, StreamResult, Subject,
    Sweep, Way,
};
use crate::probe::{
    Burst, CommitSample, Fault, Finding, Outcome, PerCommit, Phase, Probe, ReadSample, State, Verdict,
};
use crate::record::{Book, EngineChoice, Last, Plan, Results, SweepView};
use crate::schedule::budget::Budgets;
use crate::schedule::sweep::Ending;
use crate::stats;
use crate::target::{Kind, Target};

/// The longest window: after it, every series is there that good runs bring.
const HOUR: Duration = Duration::from_secs(3600);

/// The series of a target that was found, after an hour of good runs. Each kind of error that ever happens adds one.
/// Those of its disks are among them, also where another target has the same disks.
pub fn series(plan: &TargetPlan, found: &Target) -> usize {
    let mut books = books(plan, &Arc::new(Inflight::default()));
    let files = found.kind == Kind::Directory;
    books.probes.retain(|p| files || p.probe != Probe::Commit);
    let mut book = Book::new();
    let without = expose::series(&book.snapshot(Tick::default()), Tick::default());
    let id = book.add_target(books.clone());
    let mut facts = facts(found, None);
    if books.probes.iter().any(|p| p.probe == Probe::Read) {
        facts.engine = Some(EngineChoice { kind: EngineKind::Threads, reason: String::new() });
    }
    book.set_facts(id, facts);
    let devices = book.devices();
    book.set_context(Arc::new(looked_at(&devices)));
    book.set_state(id, State::Ready);
    let mut budgets = Budgets::new();
    budgets.place(0, &[String::new()], plan.limits(None, !files), Tick::default());
    if let Some(levels) = budgets.levels(0, Tick::default()) {
        book.set_budget(id, levels);
    }
    let end = Tick::default() + HOUR + HOUR;
    for planned in &books.probes {
        if files {
            book.set_layout(id, planned.probe, 1, 1);
        }
        let first = run(planned.probe, &books, files, end);
        for ago in (0..).map(|n| planned.interval.saturating_mul(n)).take_while(|ago| *ago < HOUR) {
            let at = end - ago;
            let outcome = Outcome { started: at, planned: at, finished: at, ..first.clone() };
            book.enter(id, &outcome, at, HOUR);
        }
    }
    expose::series(&book.snapshot(end), end) - without
}

/// The series more that a target has after its first sweep that ran every cell of its preset. Each reason not to believe a cell adds
/// one.
pub fn sweep_series(plan: &TargetPlan, device: bool) -> usize {
    let Some(sweep) = &plan.sweep else { return 0 };
    let mut book = Book::new();
    let id = book.add_target(Plan::new("a", "/", Arc::new(Inflight::default())));
    let without = expose::series(&book.snapshot(Tick::default()), Tick::default());
    let ladders = sweep.cells(device).ladders;
    let cells = ladders.iter().flat_map(|ladder| ladder.cells.iter().map(|of| cell(of, ladder.limits.time)));
    let made_up = Sweep {
        schema_version: SCHEMA_VERSION,
        target: Subject::default(),
        environment: Environment::default(),
        started: String::new(),
        seconds: 1.0,
        preset: None,
        product: None,
        cells: cells.collect(),
        skipped: Vec::new(),
        stopped: None,
    };
    let last = Some(Last { began: HOUR, ended: Some((HOUR, Ending::Complete)) });
    let results = Some(Results { sweep: Arc::new(made_up), ended: HOUR });
    let view = SweepView { results, last, next: Some(HOUR), left: Some([1.0; 2]), ..SweepView::default() };
    book.set_sweeps(id, Some(view));
    expose::series(&book.snapshot(Tick::default()), Tick::default()) - without
}

/// A cell of this length as the rig brings it: each stream apart, a commit whole and in its parts.
fn cell(cell: &Cell, time: Duration) -> CellResult {
    let latency = Latency { count: 1000, p99: Some(1), p999: Some(1), ..Latency::default() };
    let (mut streams, mut latencies) = (BTreeMap::new(), BTreeMap::new());
    for stream in cell.pattern.streams() {
        let ops: &[Operation] = match stream.way {
            Way::Read => &[Operation::Read],
            Way::Write => &[Operation::Write],
            Way::Commit => &[Operation::Commit, Operation::Sync, Operation::Write],
        };
        streams.insert(ops[0], StreamResult::default());
        latencies.extend(ops.iter().map(|op| (*op, latency)));
    }
    let stats: BTreeMap<String, f64> = ["mean", "p50", "p99"].map(|stat| (stat.to_owned(), 1.0)).into();
    let loaded = cell.pattern.loaded().then(|| latencies.keys().map(|op| (*op, stats.clone())).collect());
    CellResult {
        pattern: cell.pattern,
        block_size: cell.block_size,
        depth: cell.depth,
        jobs: cell.jobs,
        method: cell.method,
        seconds: 1.0,
        warm_up_seconds: 1.0,
        operations: 1,
        iops: 1.0,
        bytes_per_second: 1.0,
        latency_ns: latencies,
        streams,
        achieved_depth: 1.0,
        file_size: 1,
        stopped: None,
        rounds: None,
        quiet: None,
        loaded_ratio: loaded,
        series: None,
        spans: BTreeMap::new(),
        shape: Shape { decline: stats::tells_of_steadiness(time).then_some(0.0), ..Shape::default() },
        regime: Regime::Baseline,
        promised_iops: None,
        delivered_ratio: None,
        faults: Vec::new(),
        evidence: BTreeMap::new(),
        histogram: BTreeMap::new(),
    }
}

/// What the sampler sees of these devices where the kernel counts all kinds of operation.
fn looked_at(devices: &[Arc<str>]) -> View {
    let lines: Vec<String> = devices.iter().map(|name| format!("0 0 {name}{}\n", " 0".repeat(17))).collect();
    let (text, mut sampler) = (lines.concat(), Sampler::new());
    sampler.watch(devices);
    let mut look = |second| {
        let texts = Texts { diskstats: Some(&text), ..Texts::default() };
        sampler.sample(Tick::default() + Duration::from_secs(second), &texts, |_| None)
    };
    look(0);
    View { taken: None, ..look(1) }
}

/// A good run, with every check that is ever made.
fn run(probe: Probe, books: &Plan, files: bool, at: Tick) -> Outcome {
    let mut run = Outcome::begin(probe, at, at);
    let phases = |n: u64| (0..n).map(|i| if i == 0 { Phase::First } else { Phase::Warm });
    let checks: &[Fault] = match probe {
        Probe::Commit => {
            let sync = books.sync_apart.then_some(1);
            run.commits = phases(COMMITS as u64)
                .map(|phase| CommitSample { phase, write: 1, sync, commit: 2 })
                .collect();
            run.per_commit = Some(PerCommit { writes: 1.0, flushes: 1.0, bytes: 1.0 });
            &[Fault::Unwritten, Fault::Unflushed]
        }
        Probe::Read => {
            run.reads = phases(SINGLES).map(|phase| ReadSample { phase, nanos: 1 }).collect();
            run.burst = Some(Burst { block_size: BLOCK as u32, depth: DEPTH, iops: 1.0 });
            if files {
                &[Fault::Unwritten, Fault::Cached, Fault::Corruption]
            } else {
                &[Fault::Cached, Fault::Zeros]
            }
        }
    };
    let fine = |fault: &Fault| Finding { fault: *fault, verdict: Verdict::Fine, evidence: String::new() };
    run.findings = checks.iter().map(fine).collect();
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sweep::Preset;
    use crate::target::{Roots, resolve};
    use crate::units::Span;

    #[test]
    fn the_series_of_a_sweep_are_bounded() {
        let of = |preset: Preset, device| {
            let text = format!("targets: [{{name: a, path: /a, sweep: {{preset: {preset}}}}}]");
            sweep_series(&crate::config::Plan::parse("f.yml", &text, &[]).unwrap().targets[0], device)
        };
        let all: Vec<_> = Preset::ALL.iter().map(|preset| (preset.label(), of(*preset, false))).collect();
        assert!(all.iter().all(|(_, n)| *n <= 900), "{all:?}");
        assert!(
            of(Preset::Nightly, false) <= 550 && of(Preset::Nightly, true) < of(Preset::Nightly, false),
            "{all:?}"
        );
        assert_eq!(sweep_series(&TargetPlan::at("a", "/a".into()), false), 0);
    }

    #[test]
    fn what_is_off_has_no_series_and_more_samples_have_more_quantiles() {
        let folder = tempfile::tempdir().unwrap();
        let found = resolve(folder.path(), &Roots::default()).unwrap();
        let whole = TargetPlan::at("a", folder.path().to_owned());
        let commits = TargetPlan { read: None, ..whole.clone() };
        let reads = TargetPlan { commit: None, ..whole.clone() };
        let [all, commits, reads] = [&whole, &commits, &reads].map(|plan| series(plan, &found));
        assert!(commits < all && reads < commits, "{all} {commits} {reads}");
        let mut seldom = whole.clone();
        seldom.commit.as_mut().unwrap().interval = Span::seconds(30 * 60);
        let rare = series(&seldom, &found);
        // Six distributions, two windows each that hold nothing most of the time: nine series each.
        assert!(rare < all, "{rare} {all}");
        let mapped = found.leaves.len() + usize::from(found.device.iter().any(|d| !found.leaves.contains(d)));
        let nowhere = Target { device: None, leaves: Vec::new(), ..found.clone() };
        // Fifteen counters and peaks of each device, and per disk the series that joins and the one that tells its settings.
        assert_eq!(all - series(&whole, &nowhere), mapped * 15 + found.leaves.len() * 2);
        let device = Target { kind: Kind::BlockDevice, mount: None, ..found.clone() };
        assert!(series(&whole, &device) < reads + 3);
    }
}
