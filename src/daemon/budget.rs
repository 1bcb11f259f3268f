//! Who pays for what: each target's runs, charged to the disks that it was found on. A slot for which there is nothing left is
//! skipped; the log says once that a budget is spent, and once that there is enough again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::seats::Key;
use super::work::Work;
use crate::clock::Tick;
use crate::config::TargetPlan;
use crate::probe::{Outcome, Probe};
use crate::record::{Book, TargetId};
use crate::schedule::budget::{Budgets, Kind, State, Toll, Verdict};
use crate::schedule::{Report, toll};
use crate::target::{self, Kind as TargetKind};

/// The budgets, and what is needed to charge each target.
#[derive(Debug, Default)]
pub(super) struct Purse {
    budgets: Budgets,
    payers: BTreeMap<Key, Payer>,
}

#[derive(Debug)]
struct Payer {
    plan: TargetPlan,
    file_system: Option<String>,
    /// A block device, where nothing is written.
    device: bool,
    /// Where it lies; none until that is known.
    disks: Vec<String>,
    /// When its last commits were done.
    last: Option<Tick>,
}

impl Purse {
    /// A target that pays from now on; it is free until it is known where it lies.
    pub(super) fn add(&mut self, key: Key, plan: &TargetPlan) {
        let payer =
            Payer { plan: plan.clone(), file_system: None, device: false, disks: Vec::new(), last: None };
        self.payers.insert(key, payer);
    }

    /// The target goes by another plan.
    pub(super) fn change(&mut self, key: Key, plan: &TargetPlan, now: Tick) {
        if let Some(payer) = self.payers.get_mut(&key) {
            payer.plan = plan.clone();
            payer.take_place(key, &mut self.budgets, now);
        }
    }

    /// The target pays no more; what its disks owe stays owed.
    pub(super) fn remove(&mut self, key: Key, now: Tick) {
        self.payers.remove(&key);
        self.budgets.leave(key.0, now);
    }

    /// Takes in what a report says of the target's place, or of what a run has cost.
    pub(super) fn charge(&mut self, key: Key, report: &Report, now: Tick) {
        let Some(payer) = self.payers.get_mut(&key) else { return };
        match report {
            Report::Prepared(prepared) => {
                payer.found(&prepared.target);
                payer.take_place(key, &mut self.budgets, now);
            }
            Report::Ran(outcome) => {
                let toll = payer.toll(outcome);
                self.budgets.spend(key.0, &toll, now);
            }
            _ => {}
        }
    }

    /// Whether this work may start. Only runs of probes are paid for.
    pub(super) fn may_run(&mut self, key: Key, work: Work, now: Tick) -> bool {
        let kinds: &[Kind] = match work {
            Work::Commit => &[Kind::Write, Kind::Operations],
            Work::Read => &[Kind::Read, Kind::Operations],
            Work::Prepare | Work::Layout | Work::Open => return true,
        };
        let Some(payer) = self.payers.get(&key) else { return true };
        let verdict = self.budgets.may_run(key.0, kinds, now);
        for turn in self.budgets.turns() {
            let (device, kind) = (turn.device.as_str(), turn.kind.label());
            if turn.spent {
                tracing::warn!(
                    device,
                    kind,
                    name = payer.plan.name,
                    "the disk's budget is spent: runs are skipped, as many as it takes to keep the limit of the day"
                );
            } else {
                tracing::info!(device, kind, "the disk's budget is half full again: every run goes");
            }
        }
        verdict == Verdict::Run
    }

    /// Tells the books what is left.
    pub(super) fn tell(&self, key: Key, id: TargetId, book: &mut Book, now: Tick) {
        if let Some(levels) = self.budgets.levels(key.0, now) {
            book.set_budget(id, levels);
        }
    }

    /// What is to outlive a restart.
    pub(super) fn state(&mut self, now: Tick, wall: Duration) -> State {
        self.budgets.state(now, wall)
    }

    /// Takes up what an earlier daemon left; before any target is found.
    pub(super) fn restore(&mut self, state: State, now: Tick, wall: Duration) {
        self.budgets.restore(state, now, wall);
    }
}

impl Payer {
    fn found(&mut self, found: &target::Target) {
        self.file_system = found.file_system().map(str::to_owned);
        self.device = found.kind == TargetKind::BlockDevice;
        self.disks = found.leaf_keys();
        if self.disks.is_empty() {
            // No disk that we can see: it is a disk of its own.
            self.disks.push(format!("target {}", self.plan.name));
        }
    }

    fn take_place(&self, key: Key, budgets: &mut Budgets, now: Tick) {
        if !self.disks.is_empty() {
            let limits = self.plan.limits(self.file_system.as_deref(), self.device);
            budgets.place(key.0, &self.disks, limits, now);
        }
    }

    fn toll(&mut self, outcome: &Outcome) -> Toll {
        match (outcome.probe, &self.plan.commit) {
            (Probe::Commit, Some(commit)) => {
                let since = self.last.map(|last| outcome.finished.since(last));
                self.last = Some(outcome.finished);
                commit.commits().charged(outcome, self.file_system.as_deref(), since, self.disks.len())
            }
            _ => toll::charged_reads(outcome),
        }
    }
}
