//! Who pays for what: each target's runs, charged to the disks that it was found on. A slot for which there is nothing left is
//! skipped; the log says once that a budget is spent, and once that there is enough again.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::seats::Key;
use super::work::Work;
use crate::clock::Tick;
use crate::config::{CommitPlan, TargetPlan};
use crate::probe::{Cost, Outcome, Probe};
use crate::record::{Book, TargetId};
use crate::schedule::allowance::{self, Allowance, Bill};
use crate::schedule::budget::{Budgets, Kind, State, Toll, Verdict};
use crate::schedule::toll::{self, Commits};
use crate::schedule::{Report, TaskId};
use crate::target::{self, Kind as TargetKind};

/// The budgets, and what is needed to charge each target.
#[derive(Debug, Default)]
pub(super) struct Purse {
    budgets: Budgets,
    sweeps: Allowance,
    payers: BTreeMap<Key, Payer>,
    /// Who pays for what was still out when its target was taken away.
    late: HashMap<TaskId, Payer>,
}

#[derive(Clone, Debug)]
struct Payer {
    plan: TargetPlan,
    /// How commits were made last; they may be off since, with one still out.
    commits: Option<Commits>,
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
        let payer = Payer {
            plan: plan.clone(),
            commits: plan.commit.as_ref().map(CommitPlan::commits),
            file_system: None,
            device: false,
            disks: Vec::new(),
            last: None,
        };
        self.payers.insert(key, payer);
    }

    /// The target goes by another plan.
    pub(super) fn change(&mut self, key: Key, plan: &TargetPlan, now: Tick) {
        if let Some(payer) = self.payers.get_mut(&key) {
            payer.plan = plan.clone();
            payer.commits = plan.commit.as_ref().map(CommitPlan::commits).or(payer.commits);
            payer.take_place(key, &mut self.budgets, &mut self.sweeps, now);
        }
    }

    /// The target pays no more, except for what is `out`; what its disks owe stays owed.
    pub(super) fn remove(&mut self, key: Key, out: impl Iterator<Item = TaskId>, now: Tick) {
        if let Some(payer) = self.payers.remove(&key) {
            self.late.extend(out.map(|task| (task, payer.clone())));
        }
        self.budgets.leave(key.0, now);
        self.sweeps.leave(key.0);
    }

    /// The target pays for what is out of this task, whoever it belongs to when it is back.
    pub(super) fn owe(&mut self, key: Key, task: TaskId) {
        if let Some(payer) = self.payers.get(&key) {
            self.late.insert(task, payer.clone());
        }
    }

    /// Takes in a report on what was out for a target that is gone.
    pub(super) fn charge_late(&mut self, task: TaskId, report: &Report, now: Tick, wall: Duration) {
        let Some(mut payer) = self.late.remove(&task) else { return };
        match report {
            Report::Ran(outcome) => {
                let toll = payer.toll(outcome);
                self.budgets.spend_on(&payer.disks, &toll, now);
            }
            Report::Cell(cell) => {
                let bill = payer.bill(&cell.cost, cell.cell.pattern.commits());
                self.sweeps.spend_on(&payer.disks, bill, wall);
            }
            _ => {}
        }
    }

    /// Takes in what a report says of the target's place, or of what a run has cost, which is returned.
    pub(super) fn charge(&mut self, key: Key, report: &Report, now: Tick) -> Option<Toll> {
        let payer = self.payers.get_mut(&key)?;
        match report {
            Report::Prepared(prepared) => {
                payer.found(&prepared.target);
                payer.take_place(key, &mut self.budgets, &mut self.sweeps, now);
                None
            }
            Report::Ran(outcome) => {
                let toll = payer.toll(outcome);
                self.budgets.spend(key.0, &toll, now);
                Some(toll)
            }
            _ => None,
        }
    }

    /// Whether sweeps of the target may cost so much more; `wall` is time since 1970.
    pub(super) fn allows(&self, key: Key, bill: Bill, wall: Duration) -> bool {
        self.sweeps.allows(key.0, bill, wall)
    }

    /// A sweep's cell has cost so much as issued; it is charged as it reached the disk. Of a pattern that commits, a file system's journal
    /// is written too. Returned is what was charged.
    pub(super) fn charge_sweep(&mut self, key: Key, cost: &Cost, commits: bool, wall: Duration) -> Bill {
        let Some(payer) = self.payers.get(&key) else { return Bill::default() };
        let bill = payer.bill(cost, commits);
        self.sweeps.spend(key.0, bill, wall);
        bill
    }

    /// The parts of what sweeps may write and read in a day that are left.
    pub(super) fn sweeps_left(&self, key: Key, wall: Duration) -> Option<[f64; 2]> {
        self.sweeps.left(key.0, wall)
    }

    /// What sweeps have spent, to outlive a restart.
    pub(super) fn sweep_state(&mut self, wall: Duration) -> allowance::State {
        self.sweeps.state(wall)
    }

    /// Takes up what an earlier daemon's sweeps have spent.
    pub(super) fn restore_sweeps(&mut self, state: allowance::State) {
        self.sweeps.restore(state);
    }

    /// Whether this work may start. Only runs of probes are paid for.
    pub(super) fn may_run(&mut self, key: Key, work: Work, now: Tick) -> bool {
        let kinds: &[Kind] = match work {
            Work::Commit => &[Kind::Write, Kind::Operations],
            Work::Read => &[Kind::Read, Kind::Operations],
            Work::Prepare | Work::Layout | Work::Open | Work::Sweep => return true,
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

    fn take_place(&self, key: Key, budgets: &mut Budgets, sweeps: &mut Allowance, now: Tick) {
        if !self.disks.is_empty() {
            sweeps.place(key.0, &self.disks, self.plan.sweep_limits(self.device));
            let limits = self.plan.limits(self.file_system.as_deref(), self.device);
            budgets.place(key.0, &self.disks, limits, now);
        }
    }

    fn bill(&self, cost: &Cost, commits: bool) -> Bill {
        let written = cost.written_bytes as f64 * toll::amplification(self.file_system.as_deref(), commits);
        Bill { written, read: cost.read_bytes as f64 }
    }

    fn toll(&mut self, outcome: &Outcome) -> Toll {
        let commits = self.commits.filter(|_| outcome.probe == Probe::Commit);
        let Some(commits) = commits else { return toll::issued(outcome) };
        let since = self.last.map(|last| outcome.finished.since(last));
        self.last = Some(outcome.finished);
        commits.charged(outcome, self.file_system.as_deref(), since, self.disks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Plan;
    use crate::probe::PerCommit;
    use crate::probe::sweep::{Cell, CellReport, Left, Pattern};
    use crate::schedule::{LaneId, Planner};

    const KEY: Key = Key(7);

    fn plan(commit: &str) -> TargetPlan {
        Plan::parse("f.yml", &format!("targets: [{{name: a, path: /srv/a{commit}}}]"), &[])
            .unwrap()
            .targets
            .remove(0)
    }

    /// A target that lies on `sda`, and its budgets.
    fn purse(now: Tick) -> Purse {
        let mut purse = Purse::default();
        purse.add(KEY, &plan(", budget: {write_per_day: 1MiB}"));
        if let Some(payer) = purse.payers.get_mut(&KEY) {
            payer.disks = vec!["sda".into()];
            payer.take_place(KEY, &mut purse.budgets, &mut purse.sweeps, now);
        }
        purse
    }

    /// Three commits, each of which wrote a page: 28 KiB with what the journal writes later.
    fn ran() -> Report {
        let begin = Outcome::begin(Probe::Commit, Tick::default(), Tick::default());
        let cost = Cost { writes: 3, written_bytes: 12_288, syncs: 3, ..Cost::default() };
        let per_commit = Some(PerCommit { writes: 2.0, flushes: 1.0, bytes: 4096.0 });
        Report::Ran(Box::new(Outcome { cost, per_commit, ..begin }))
    }

    #[test]
    fn commits_that_are_off_since_are_charged_as_commits() {
        let now = Tick::default();
        let mut purse = purse(now);
        assert!(purse.may_run(KEY, Work::Commit, now));
        purse.change(KEY, &plan(", commit: {enabled: false}, budget: {write_per_day: 1MiB}"), now);
        purse.charge(KEY, &ran(), now);
        assert!(!purse.may_run(KEY, Work::Commit, now), "more than half an hour's share of 1 MiB");
    }

    #[test]
    fn what_is_out_for_a_target_that_is_gone_is_charged_once_to_its_disk() {
        let now = Tick::default();
        let mut purse = purse(now);
        let mut planner = Planner::new(Duration::ZERO, Duration::from_secs(60));
        let task = planner.add(LaneId(0), 1);
        purse.remove(KEY, [task].into_iter(), now);
        let level = |purse: &mut Purse| {
            let limits = plan(", budget: {write_per_day: 1MiB}").limits(None, false);
            purse.budgets.place(9, &["sda".into()], limits, now);
            purse.budgets.levels(9, now).unwrap()[Kind::Write as usize].ratio(now)
        };
        assert_eq!(level(&mut purse), 1.0);
        purse.charge_late(task, &ran(), now, Duration::ZERO);
        assert_eq!((level(&mut purse), purse.late.len()), (0.0, 0));
    }

    #[test]
    fn a_cell_that_is_out_for_sweeps_that_are_no_more_is_charged_to_its_disk() {
        let (now, wall) = (Tick::default(), Duration::from_secs(1_800_000_000));
        let mut purse = purse(now);
        let mut planner = Planner::new(Duration::ZERO, Duration::from_secs(60));
        let task = planner.add(LaneId(0), 1);
        purse.owe(KEY, task);
        purse.remove(KEY, [].into_iter(), now);
        let limits = plan(", budget: {sweep_write_per_day: 1MiB}").sweep_limits(false);
        purse.sweeps.place(9, &["sda".into()], limits);
        assert_eq!(purse.sweeps.left(9, wall).unwrap()[0], 1.0);
        let cell = Cell { pattern: Pattern::RandWrite, block_size: 4096, depth: 1, jobs: 1, method: None };
        let outcome = Err(Left::Skipped(cell.skipped("interrupt", "stopped")));
        let cost = Cost { writes: 128, written_bytes: 1 << 19, ..Cost::default() };
        let report = Report::Cell(Box::new(CellReport { cell, outcome, cost }));
        purse.charge_late(task, &report, now, wall);
        let left = purse.sweeps.left(9, wall).unwrap()[0];
        assert!(left > 0.0 && left <= 0.5, "{left}");
        purse.charge_late(task, &report, now, wall);
        assert_eq!(purse.sweeps.left(9, wall).unwrap()[0], left, "once");
    }
}
