//! The books themselves.

use std::sync::Arc;
use std::time::Duration;

use super::context::Surroundings;
use super::facts::{Facts, Plan};
use super::stall::Thresholds;
use super::view::{BurstView, Check, Ever, ProbeView, SeriesView, Snapshot, TargetView, Timed, WINDOWS};
use crate::clock::Tick;
use crate::probe::{Cost, Failure, Finding, Invalid, Outcome, Phase, Probe, State};
use crate::schedule::budget::{Kind, Level};
use crate::stats::{Buckets, Histogram, Windows};

/// A target in the books. Never used again after its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(u64);

/// Counters, histograms and windows of all targets. What is told about a target that was removed is ignored: its lane
/// may be a moment behind.
#[derive(Debug, Default)]
pub struct Book {
    next: u64,
    entries: Vec<Entry>,
    pub(super) surroundings: Surroundings,
}

#[derive(Debug)]
struct Entry {
    id: TargetId,
    view: TargetView,
    /// Beside `view.series`, in the same order.
    windows: Vec<Windows>,
    /// The same, for what a page shows since the start.
    ever: Vec<Option<Histogram<u32>>>,
    /// Probes that are in no snapshot.
    off: Vec<Probe>,
    /// What the last snapshot saw, while it is still true.
    published: Option<Arc<TargetView>>,
}

impl Book {
    /// Without targets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a target's books, every counter and histogram at 0.
    pub fn add_target(&mut self, plan: Plan) -> TargetId {
        let id = TargetId(self.next);
        self.next += 1;
        self.entries.push(Entry::new(id, plan));
        id
    }

    /// Closes a target's books: it is in no later snapshot.
    pub fn remove_target(&mut self, id: TargetId) {
        self.entries.retain(|entry| entry.id != id);
        self.surroundings.devices = None;
    }

    /// What a lane found out. Another disk than before (both identities known and different) is counted, and the windows
    /// begin anew; histograms and counters go on.
    pub fn set_facts(&mut self, id: TargetId, mut facts: Facts) {
        let Some(entry) = self.touch(id) else { return };
        // A device named twice would be a series written twice, which makes Prometheus refuse the whole scrape.
        facts.leaves.sort();
        facts.leaves.dedup();
        facts.settings.sort_by(|a, b| a.device.cmp(&b.device));
        facts.settings.dedup_by(|a, b| a.device == b.device);
        let (old, new) = (&entry.view.facts.identity, &facts.identity);
        // A lane that looks while the disk is away knows no identity; that must not hide the change that follows.
        let identity = if new.is_empty() { old.clone() } else { new.clone() };
        if !old.is_empty() && *old != identity {
            entry.begin_anew();
        }
        entry.view.facts = Arc::new(Facts { identity, ..facts });
        self.surroundings.devices = None;
    }

    /// What the target can do now.
    pub fn set_state(&mut self, id: TargetId, state: State) {
        let Some(entry) = self.touch(id) else { return };
        entry.view.state = Some(state);
    }

    /// Whether a probe of the plan is off, because it cannot be there (a block device has no commits): it is in no snapshot. What was
    /// counted for it stays in the books.
    pub fn set_off(&mut self, id: TargetId, probe: Probe, off: bool) {
        let Some(entry) = self.touch(id) else { return };
        entry.off.retain(|p| *p != probe);
        if off {
            entry.off.push(probe);
        }
    }

    /// How much of a probe's file is written, in bytes.
    pub fn set_layout(&mut self, id: TargetId, probe: Probe, done: u64, total: u64) {
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            p.layout = Some((done, total));
        }
    }

    /// What was spent for a probe beside its runs. An [`Outcome`] brings its own cost.
    pub fn add_cost(&mut self, id: TargetId, probe: Probe, cost: &Cost) {
        if *cost == Cost::default() {
            return;
        }
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            add(&mut p.cost, cost);
        }
    }

    /// What is left of the budgets of the target's disks.
    pub fn set_budget(&mut self, id: TargetId, levels: [Level; Kind::ALL.len()]) {
        let Some(entry) = self.touch(id) else { return };
        entry.view.budget = Some(levels);
    }

    /// A failure outside of a run, such as a layout's. It counts as a failed run's would in the errors, and holds until a good run.
    pub fn fail(&mut self, id: TargetId, probe: Probe, failure: &Failure) {
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            count_failure(p, failure);
        }
    }

    /// A truth check that was made outside of a run, such as when a file was opened.
    pub fn find(&mut self, id: TargetId, probe: Probe, finding: &Finding) {
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            judge(&mut p.checks, finding);
        }
    }

    /// Slots that passed while the run before was still out.
    pub fn missed(&mut self, id: TargetId, probe: Probe, slots: u64) {
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            p.missed += slots;
        }
    }

    /// Operations of a probe passed their threshold.
    pub fn timed_out(&mut self, id: TargetId, probe: Probe, operations: u64) {
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            p.timeouts += operations;
        }
    }

    /// Operations of a probe were out for this much longer beyond their threshold.
    pub fn stalled_for(&mut self, id: TargetId, probe: Probe, time: Duration) {
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            p.stalled_for += time;
        }
    }

    /// From which age on an operation of the target is stalled; learned anew by [`Book::learn`].
    pub fn thresholds(&self, id: TargetId) -> Thresholds {
        let entry = self.entries.iter().find(|entry| entry.id == id);
        entry.map_or(Thresholds::new(None), |entry| entry.view.thresholds)
    }

    /// Learns all thresholds from what the last hour holds.
    pub fn learn(&mut self, now: Tick) {
        for entry in &mut self.entries {
            entry.summarize(now);
            let learned = Thresholds::learned(entry.view.plan.stall_threshold, &entry.view.series);
            if learned != entry.view.thresholds {
                (entry.view.thresholds, entry.published) = (learned, None);
            }
        }
    }

    /// The target is to be probed in another way from now on. Counters go on, and so do the series of what is measured as before;
    /// with `commits_anew` those of commits begin anew.
    pub fn replan(&mut self, id: TargetId, plan: Plan, commits_anew: bool) {
        let Some(at) = self.entries.iter().position(|entry| entry.id == id) else { return };
        let old = std::mem::replace(&mut self.entries[at], Entry::new(id, plan));
        self.entries[at].take_over(old, commits_anew);
    }

    /// The targets of later snapshots are in this order; what is not named comes last.
    pub fn arrange(&mut self, order: &[TargetId]) {
        let place = |id| order.iter().position(|o| *o == id).unwrap_or(order.len());
        self.entries.sort_by_key(|entry| place(entry.id));
    }

    /// Slots that were not used on purpose.
    pub fn skipped(&mut self, id: TargetId, probe: Probe, reason: &'static str, slots: u64) {
        let Some(entry) = self.touch(id) else { return };
        if let Some(p) = entry.probe(probe) {
            bump(&mut p.skipped, |r| *r == reason, reason, slots);
        }
    }

    /// The target is paused until then, or not any more.
    pub fn set_paused(&mut self, id: TargetId, until: Option<Tick>) {
        let Some(entry) = self.touch(id) else { return };
        entry.view.paused = until;
    }

    /// The probe files that were there before were not there any more.
    pub fn files_lost(&mut self, id: TargetId) {
        let Some(entry) = self.touch(id) else { return };
        entry.view.files_lost += 1;
    }

    /// A lane of the target panicked and was caught.
    pub fn lane_panicked(&mut self, id: TargetId) {
        let Some(entry) = self.touch(id) else { return };
        entry.view.lane_panics += 1;
    }

    /// A run came back. `now` is when it is entered and `wall` the wall-clock time since 1970 of that instant.
    pub fn enter(&mut self, id: TargetId, outcome: &Outcome, now: Tick, wall: Duration) {
        let Some(entry) = self.touch(id) else { return };
        if entry.probe(outcome.probe).is_none() {
            return;
        }
        entry.samples(outcome);
        if outcome.probe == Probe::Read {
            entry.view.burst = outcome.burst.map(|burst| BurstView { burst, at: outcome.finished });
        }
        entry.view.per_commit = outcome.per_commit.or(entry.view.per_commit);
        let Some(p) = entry.probe(outcome.probe) else { return };
        p.lateness.record(outcome.started.nanos_since(outcome.planned));
        p.retries += outcome.retries;
        add(&mut p.cost, &outcome.cost);
        for (reason, n) in &outcome.invalid {
            bump(&mut p.invalid, |r| r == reason, *reason, *n);
        }
        outcome.findings.iter().for_each(|finding| judge(&mut p.checks, finding));
        match &outcome.result {
            Ok(()) => {
                p.good += 1;
                p.failure = None;
                p.last_success = Some(wall.saturating_sub(now.since(outcome.finished)));
            }
            Err(failure) => {
                p.bad += 1;
                count_failure(p, failure);
            }
        }
    }

    /// Everything as it is at `now`. Windows forget by time alone, so one is due every second even when nothing comes in.
    /// Targets that have not changed since the last one are shared with it.
    pub fn snapshot(&mut self, now: Tick) -> Arc<Snapshot> {
        let targets = self.entries.iter_mut().map(|entry| entry.publish(now)).collect();
        let context = Arc::clone(&self.surroundings.view);
        Arc::new(Snapshot { taken: now, version: env!("CARGO_PKG_VERSION"), targets, context })
    }

    pub(super) fn facts(&self) -> impl Iterator<Item = &Facts> {
        self.entries.iter().map(|entry| &*entry.view.facts)
    }

    /// The target's entry, to be changed.
    fn touch(&mut self, id: TargetId) -> Option<&mut Entry> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id)?;
        entry.published = None;
        Some(entry)
    }
}

impl Entry {
    fn new(id: TargetId, plan: Plan) -> Self {
        let mut series = Vec::new();
        for planned in &plan.probes {
            let timed: &[Timed] = match planned.probe {
                Probe::Commit if plan.sync_apart => &[Timed::Commit, Timed::Write, Timed::Sync],
                Probe::Commit => &[Timed::Commit, Timed::Write],
                Probe::Read => &[Timed::Read],
            };
            series.extend(timed.iter().flat_map(|t| Phase::ALL.iter().map(|p| SeriesView::new(*t, *p))));
        }
        let lengths = WINDOWS.map(|(_, length)| length);
        let windows = series.iter().map(|_| Windows::new(&lengths)).collect();
        let whole = |timed| matches!(timed, Timed::Commit | Timed::Read);
        let ever = series.iter().map(|s| whole(s.timed).then(Histogram::coarse)).collect();
        let probes =
            plan.probes.iter().map(|p| ProbeView::new(p.probe, p.interval, plan.skip_reasons)).collect();
        let stall_threshold = plan.stall_threshold;
        let view = TargetView {
            plan: Arc::new(plan),
            facts: Arc::default(),
            state: None,
            series,
            probes,
            burst: None,
            per_commit: None,
            budget: None,
            device_changes: 0,
            files_lost: 0,
            paused: None,
            lane_panics: 0,
            thresholds: Thresholds::new(stall_threshold),
        };
        Self { id, view, windows, ever, off: Vec::new(), published: None }
    }

    fn probe(&mut self, probe: Probe) -> Option<&mut ProbeView> {
        self.view.probes.iter_mut().find(|p| p.probe == probe)
    }

    fn samples(&mut self, outcome: &Outcome) {
        let at = outcome.finished;
        self.corrected(outcome);
        for sample in &outcome.commits {
            self.sample(Timed::Commit, sample.phase, at, sample.commit);
            self.sample(Timed::Write, sample.phase, at, sample.write);
            if let Some(sync) = sample.sync {
                self.sample(Timed::Sync, sample.phase, at, sync);
            }
        }
        for sample in &outcome.reads {
            self.sample(Timed::Read, sample.phase, at, sample.nanos);
        }
    }

    fn corrected(&mut self, outcome: &Outcome) {
        let planned = self.view.plan.probes.iter().find(|p| p.probe == outcome.probe);
        let every = planned.map_or(0, |p| p.interval.as_nanos() as u64 / u64::from(p.operations.max(1)));
        let Some(p) = self.probe(outcome.probe) else { return };
        let commits = outcome.commits.iter().map(|sample| sample.commit);
        let reads = outcome.reads.iter().map(|sample| sample.nanos);
        commits.chain(reads).for_each(|nanos| p.corrected.record_corrected(nanos, every));
    }

    fn sample(&mut self, timed: Timed, phase: Phase, at: Tick, nanos: u64) {
        let found = self.view.series.iter().position(|s| s.timed == timed && s.phase == phase);
        let Some(found) = found else { return };
        let series = &mut self.view.series[found];
        series.buckets.record(nanos);
        series.newest = series.newest.max(Some(at));
        self.windows[found].record(at, nanos);
        if let Some(ever) = &mut self.ever[found] {
            ever.record(nanos);
        }
    }

    /// Goes on with another entry's counts and samples, as far as this one has a place for them.
    fn take_over(&mut self, old: Self, commits_anew: bool) {
        let Self { view: was, windows, ever, off, .. } = old;
        let kept = was.series.into_iter().zip(windows).zip(ever);
        for ((series, windows), ever) in
            kept.filter(|((s, _), _)| !(commits_anew && s.timed.probe() == Probe::Commit))
        {
            let same = |s: &SeriesView| s.timed == series.timed && s.phase == series.phase;
            if let Some(at) = self.view.series.iter().position(same) {
                (self.view.series[at], self.windows[at], self.ever[at]) = (series, windows, ever);
            }
        }
        for p in was.probes {
            if let Some(mine) = self.probe(p.probe) {
                *mine = ProbeView { interval: mine.interval, ..p };
            }
        }
        (self.view.facts, self.view.state, self.view.burst) = (was.facts, was.state, was.burst);
        self.view.per_commit = was.per_commit.filter(|_| !commits_anew);
        (self.view.device_changes, self.view.lane_panics) = (was.device_changes, was.lane_panics);
        (self.view.files_lost, self.view.paused) = (was.files_lost, was.paused);
        if self.view.plan.stall_threshold == was.plan.stall_threshold {
            self.view.thresholds = was.thresholds;
        }
        self.off = off;
    }

    fn begin_anew(&mut self) {
        self.view.device_changes += 1;
        self.view.burst = None;
        self.view.per_commit = None;
        self.windows.iter_mut().for_each(Windows::clear);
        self.view.probes.iter_mut().for_each(|p| p.checks.clear());
    }

    fn summarize(&mut self, now: Tick) {
        for (series, windows) in self.view.series.iter_mut().zip(&mut self.windows) {
            windows.expire(now);
            series.windows = std::array::from_fn(|i| windows.summary(i));
        }
    }

    fn publish(&mut self, now: Tick) -> Arc<TargetView> {
        for windows in &mut self.windows {
            if windows.expire(now) {
                self.published = None;
            }
        }
        if let Some(published) = &self.published {
            return Arc::clone(published);
        }
        self.summarize(now);
        for (series, ever) in self.view.series.iter_mut().zip(&self.ever) {
            series.ever = ever.as_ref().and_then(since_start);
        }
        let mut view = self.view.clone();
        view.probes.retain(|p| !self.off.contains(&p.probe));
        view.series.retain(|s| !self.off.contains(&s.timed.probe()));
        let view = Arc::new(view);
        self.published = Some(Arc::clone(&view));
        view
    }
}

fn since_start(all: &Histogram<u32>) -> Option<Ever> {
    let p999 = all.quantile(0.999).filter(|_| all.count() >= 1000);
    Some(Ever { p50: all.quantile(0.5)?, p999, max: all.max()? })
}

impl SeriesView {
    pub(super) fn new(timed: Timed, phase: Phase) -> Self {
        Self {
            timed,
            phase,
            buckets: Buckets::latency(),
            windows: [None; WINDOWS.len()],
            newest: None,
            ever: None,
        }
    }
}

impl ProbeView {
    fn new(probe: Probe, interval: Duration, skip_reasons: &'static [&'static str]) -> Self {
        Self {
            probe,
            interval,
            good: 0,
            bad: 0,
            failure: None,
            errors: Vec::new(),
            timeouts: 0,
            stalled_for: Duration::ZERO,
            corrected: Buckets::latency(),
            missed: 0,
            skipped: skip_reasons.iter().map(|reason| (*reason, 0)).collect(),
            lateness: Buckets::lateness(),
            invalid: Invalid::ALL.iter().map(|reason| (*reason, 0)).collect(),
            retries: 0,
            cost: Cost::default(),
            last_success: None,
            checks: Vec::new(),
            layout: None,
        }
    }
}

fn add(total: &mut Cost, cost: &Cost) {
    total.reads += cost.reads;
    total.read_bytes += cost.read_bytes;
    total.writes += cost.writes;
    total.written_bytes += cost.written_bytes;
    total.syncs += cost.syncs;
}

fn bump<K>(counters: &mut Vec<(K, u64)>, is: impl Fn(&K) -> bool, key: K, n: u64) {
    match counters.iter_mut().find(|(k, _)| is(k)) {
        Some((_, count)) => *count += n,
        None => counters.push((key, n)),
    }
}

fn count_failure(p: &mut ProbeView, failure: &Failure) {
    let same = |e: &&mut (_, _, u64)| e.0 == failure.stage && e.1 == failure.errno;
    match p.errors.iter_mut().find(same) {
        Some((_, _, count)) => *count += 1,
        None => p.errors.push((failure.stage, failure.errno, 1)),
    }
    p.failure = Some(Arc::new(failure.clone()));
}

fn judge(checks: &mut Vec<Check>, finding: &Finding) {
    let check =
        Check { fault: finding.fault, verdict: finding.verdict, evidence: finding.evidence.as_str().into() };
    match checks.iter_mut().find(|c| c.fault == finding.fault) {
        Some(known) => *known = check,
        None => checks.push(check),
    }
}
