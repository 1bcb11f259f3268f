//! The books themselves.

use std::sync::Arc;
use std::time::Duration;

use super::context::Surroundings;
use super::entry::{Entry, add, bump, count_failure, judge};
use super::facts::{Facts, Plan};
use super::stall::Thresholds;
use super::sweep::SweepView;
use super::view::{BurstView, Snapshot};
use crate::clock::Tick;
use crate::probe::{Cost, Failure, Finding, Outcome, Probe, State};
use crate::schedule::budget::{Kind, Level};

/// A target in the books. Never used again after its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(u64);

/// What of the commits' series begins anew with another plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// They are commits as before.
    Nothing,
    /// The same profile is made durable in another way: histograms go on, windows hold the new ones alone.
    Windows,
    /// Another profile, which is another series.
    Series,
}

/// Counters, histograms and windows of all targets. What is told about a target that was removed is ignored: its lane
/// may be a moment behind.
#[derive(Debug, Default)]
pub struct Book {
    next: u64,
    entries: Vec<Entry>,
    pub(super) surroundings: Surroundings,
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
        let known = self.entries.iter().find(|entry| entry.id == id);
        // Told each second: what has not changed must not have the target's view made anew for the next scrape.
        if known.is_some_and(|entry| entry.view.budget == Some(levels)) {
            return;
        }
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
            let learned = entry.learned();
            if learned != entry.view.thresholds {
                (entry.view.thresholds, entry.published) = (learned, None);
            }
        }
    }

    /// The target is to be probed in another way from now on. Counters go on, and so do the series of what is measured as before.
    pub fn replan(&mut self, id: TargetId, plan: Plan, commits: Renewed) {
        let Some(at) = self.entries.iter().position(|entry| entry.id == id) else { return };
        let old = std::mem::replace(&mut self.entries[at], Entry::new(id, plan));
        self.entries[at].take_over(old, commits);
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

    pub(super) fn sweeps(&self, id: TargetId) -> Option<&SweepView> {
        self.entries.iter().find(|entry| entry.id == id)?.view.sweeps.as_ref()
    }

    /// The target's entry, to be changed.
    pub(super) fn touch(&mut self, id: TargetId) -> Option<&mut Entry> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id)?;
        entry.published = None;
        Some(entry)
    }
}
