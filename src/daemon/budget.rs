//! Who pays for what: each target's runs, charged to the disks that it was found on. A slot for which there is nothing left is
//! skipped; the log says once that a budget is spent, and once that there is enough again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::work::Work;
use crate::clock::Tick;
use crate::config::TargetPlan;
use crate::probe::{Outcome, Probe};
use crate::record::{Book, TargetId};
use crate::schedule::budget::{Budgets, Kind, State, Verdict};
use crate::schedule::{Report, toll};
use crate::target::{self, Kind as TargetKind};

/// The budgets, and what is needed to charge each target.
#[derive(Debug, Default)]
pub(super) struct Purse {
    budgets: Budgets,
    payers: BTreeMap<TargetId, Payer>,
    next: u64,
}

#[derive(Debug)]
struct Payer {
    number: u64,
    plan: TargetPlan,
    file_system: Option<String>,
    disks: usize,
    /// When its last commits were done.
    last: Option<Tick>,
}

impl Purse {
    /// A target that pays from now on; it is free until it is known where it lies.
    pub(super) fn add(&mut self, id: TargetId, plan: &TargetPlan) {
        let number = self.next;
        self.next += 1;
        let payer = Payer { number, plan: plan.clone(), file_system: None, disks: 1, last: None };
        self.payers.insert(id, payer);
    }

    /// The target pays no more; what its disks owe stays owed.
    #[expect(dead_code, reason = "called once targets can be removed while the daemon runs")]
    pub(super) fn remove(&mut self, id: TargetId, now: Tick) {
        if let Some(payer) = self.payers.remove(&id) {
            self.budgets.leave(payer.number, now);
        }
    }

    /// Takes in what a report says of the target's place, or of what a run has cost.
    pub(super) fn charge(&mut self, id: TargetId, report: &Report, now: Tick) {
        let Some(payer) = self.payers.get_mut(&id) else { return };
        match report {
            Report::Prepared(prepared) => payer.take_place(&prepared.target, &mut self.budgets, now),
            Report::Ran(outcome) => {
                let toll = payer.toll(outcome);
                self.budgets.spend(payer.number, &toll, now);
            }
            _ => {}
        }
    }

    /// Whether this work may start. Only runs of probes are paid for.
    pub(super) fn may_run(&mut self, id: TargetId, work: Work, now: Tick) -> bool {
        let kinds: &[Kind] = match work {
            Work::Commit => &[Kind::Write, Kind::Operations],
            Work::Read => &[Kind::Read, Kind::Operations],
            Work::Prepare | Work::Layout | Work::Open => return true,
        };
        let Some(payer) = self.payers.get(&id) else { return true };
        let verdict = self.budgets.may_run(payer.number, kinds, now);
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
    pub(super) fn tell(&self, id: TargetId, book: &mut Book, now: Tick) {
        let levels = self.payers.get(&id).and_then(|payer| self.budgets.levels(payer.number, now));
        if let Some(levels) = levels {
            book.set_budget(id, levels);
        }
    }

    /// What is to outlive a restart.
    #[expect(dead_code, reason = "called once there is a place where state is kept")]
    pub(super) fn state(&mut self, now: Tick, wall: Duration) -> State {
        self.budgets.state(now, wall)
    }

    /// Takes up what an earlier daemon left; before any target is found.
    #[expect(dead_code, reason = "called once there is a place where state is kept")]
    pub(super) fn restore(&mut self, state: State, now: Tick, wall: Duration) {
        self.budgets.restore(state, now, wall);
    }
}

impl Payer {
    fn take_place(&mut self, found: &target::Target, budgets: &mut Budgets, now: Tick) {
        self.file_system = found.file_system().map(str::to_owned);
        let mut disks = found.leaf_keys();
        self.disks = disks.len().max(1);
        if disks.is_empty() {
            // No disk that we can see: it is a disk of its own.
            disks.push(format!("target {}", self.plan.name));
        }
        let device = found.kind == TargetKind::BlockDevice;
        budgets.place(self.number, &disks, self.plan.limits(self.file_system.as_deref(), device), now);
    }

    fn toll(&mut self, outcome: &Outcome) -> crate::schedule::budget::Toll {
        match (outcome.probe, &self.plan.commit) {
            (Probe::Commit, Some(commit)) => {
                let since = self.last.map(|last| outcome.finished.since(last));
                self.last = Some(outcome.finished);
                commit.commits().charged(outcome, self.file_system.as_deref(), since, self.disks)
            }
            _ => toll::charged_reads(outcome),
        }
    }
}
