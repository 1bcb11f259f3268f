//! One target's part of the books: what its series, windows and counters hold.

use std::sync::Arc;
use std::time::Duration;

use super::book::{Renewed, TargetId};
use super::facts::Plan;
use super::stall::Thresholds;
use super::view::{Check, Ever, ProbeView, SeriesView, TargetView, Timed, WINDOWS};
use crate::clock::Tick;
use crate::probe::{Cost, Failure, Finding, Invalid, Outcome, Phase, Probe};
use crate::stats::{Buckets, Histogram, Windows};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: TargetId,
    pub(super) view: TargetView,
    /// Beside `view.series`, in the same order.
    pub(super) windows: Vec<Windows>,
    /// The same, for what a page shows since the start.
    pub(super) ever: Vec<Option<Histogram<u32>>>,
    /// Probes that are in no snapshot.
    pub(super) off: Vec<Probe>,
    /// What the last snapshot saw, while it is still true.
    pub(super) published: Option<Arc<TargetView>>,
}

impl Entry {
    pub(super) fn new(id: TargetId, plan: Plan) -> Self {
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
            sweeps: None,
        };
        Self { id, view, windows, ever, off: Vec::new(), published: None }
    }

    /// The thresholds by what the windows hold, for what is done with the target now.
    pub(super) fn learned(&self) -> Thresholds {
        let learned = Thresholds::learned(self.view.plan.stall_threshold, &self.view.series);
        if self.view.sweeps.as_ref().is_some_and(|sweeps| sweeps.running) {
            learned.patient()
        } else {
            learned
        }
    }

    pub(super) fn probe(&mut self, probe: Probe) -> Option<&mut ProbeView> {
        self.view.probes.iter_mut().find(|p| p.probe == probe)
    }

    pub(super) fn samples(&mut self, outcome: &Outcome) {
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
    pub(super) fn take_over(&mut self, old: Self, commits: Renewed) {
        let Self { view: was, windows, ever, off, .. } = old;
        let kept = was.series.into_iter().zip(windows).zip(ever);
        for ((series, mut windows), ever) in kept {
            match commits {
                Renewed::Series if series.timed.probe() == Probe::Commit => continue,
                Renewed::Windows if series.timed.probe() == Probe::Commit => windows.clear(),
                _ => {}
            }
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
        self.view.per_commit = was.per_commit.filter(|_| commits == Renewed::Nothing);
        (self.view.device_changes, self.view.lane_panics) = (was.device_changes, was.lane_panics);
        (self.view.files_lost, self.view.paused, self.view.budget) = (was.files_lost, was.paused, was.budget);
        if self.view.plan.stall_threshold == was.plan.stall_threshold {
            self.view.thresholds = was.thresholds;
        }
        self.off = off;
    }

    pub(super) fn begin_anew(&mut self) {
        self.view.device_changes += 1;
        self.view.burst = None;
        self.view.per_commit = None;
        self.windows.iter_mut().for_each(Windows::clear);
        self.view.probes.iter_mut().for_each(|p| p.checks.clear());
    }

    pub(super) fn summarize(&mut self, now: Tick) {
        for (series, windows) in self.view.series.iter_mut().zip(&mut self.windows) {
            windows.expire(now);
            series.windows = std::array::from_fn(|i| windows.summary(i));
        }
    }

    pub(super) fn publish(&mut self, now: Tick) -> Arc<TargetView> {
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

pub(super) fn add(total: &mut Cost, cost: &Cost) {
    total.reads += cost.reads;
    total.read_bytes += cost.read_bytes;
    total.writes += cost.writes;
    total.written_bytes += cost.written_bytes;
    total.syncs += cost.syncs;
}

pub(super) fn bump<K>(counters: &mut Vec<(K, u64)>, is: impl Fn(&K) -> bool, key: K, n: u64) {
    match counters.iter_mut().find(|(k, _)| is(k)) {
        Some((_, count)) => *count += n,
        None => counters.push((key, n)),
    }
}

pub(super) fn count_failure(p: &mut ProbeView, failure: &Failure) {
    let same = |e: &&mut (_, _, u64)| e.0 == failure.stage && e.1 == failure.errno;
    match p.errors.iter_mut().find(same) {
        Some((_, _, count)) => *count += 1,
        None => p.errors.push((failure.stage, failure.errno, 1)),
    }
    p.failure = Some(Arc::new(failure.clone()));
}

pub(super) fn judge(checks: &mut Vec<Check>, finding: &Finding) {
    let check =
        Check { fault: finding.fault, verdict: finding.verdict, evidence: finding.evidence.as_str().into() };
    match checks.iter_mut().find(|c| c.fault == finding.fault) {
        Some(known) => *known = check,
        None => checks.push(check),
    }
}
