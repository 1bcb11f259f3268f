//! What a target's probes are expected to cost its disk, what they may cost, and the intervals that follow from what the disk
//! promises.

use crate::schedule::budget::{Kind, Limit, Limits, Toll};
use crate::schedule::share::{Pace, Promise, Want, paces};
use crate::schedule::toll::{self, Commits};
use crate::units::{Bytes, Span};

use super::{CommitPlan, TargetPlan};

/// What a target may write and read in a day at its disk, where its file says nothing.
pub const A_DAY: Bytes = Bytes::gib(2);
/// How many requests a second it may make there.
pub const OPERATIONS: u32 = 20;

/// From commits to commits where the file says nothing.
pub(super) const COMMIT_INTERVAL: Span = Span::seconds(2);
/// From reads to reads.
pub(super) const READ_INTERVAL: Span = Span::seconds(30);

/// An interval that somebody asked for may cost more than the defaults allow: so many times what it is expected to cost.
pub(super) const ROOM: f64 = 2.0;

/// What the file says that all probes on a disk may cost, at the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetPlan {
    /// Bytes that may be written in a day.
    pub write_per_day: Option<Bytes>,
    /// Bytes that may be read in a day.
    pub read_per_day: Option<Bytes>,
    /// Requests in a second, over half an hour.
    pub operations_per_second: Option<u32>,
    /// Bytes that sweeps may write in a day.
    pub sweep_write_per_day: Option<Bytes>,
    /// Bytes that sweeps may read in a day.
    pub sweep_read_per_day: Option<Bytes>,
}

impl BudgetPlan {
    /// What the file says of one kind: bytes a day, or requests a second.
    fn written(&self, kind: Kind) -> Option<f64> {
        match kind {
            Kind::Write => self.write_per_day.map(|bytes| bytes.get() as f64),
            Kind::Read => self.read_per_day.map(|bytes| bytes.get() as f64),
            Kind::Operations => self.operations_per_second.map(f64::from),
        }
    }
}

impl CommitPlan {
    /// What its cost is reckoned by.
    pub fn commits(&self) -> Commits {
        Commits { row: self.profile.row(), method: self.method, interval: self.interval.get() }
    }
}

impl TargetPlan {
    /// What its runs are expected to cost in a second, on this file system; a block device has no commits.
    pub fn needs(&self, file_system: Option<&str>, device: bool) -> Toll {
        let each = |run: Toll, interval: Span| run.times(1.0 / interval.get().as_secs_f64());
        let commits = self.commit.as_ref().filter(|_| !device);
        let commits = commits.map(|c| each(c.commits().expected(file_system), c.interval));
        let reads = self.read.as_ref().map(|r| each(toll::reads(), r.interval));
        commits.unwrap_or_default().and(reads.unwrap_or_default())
    }

    /// What its runs may cost: as the file says, else the defaults, or more where the file asks for an interval that needs more.
    pub fn limits(&self, file_system: Option<&str>, device: bool) -> Limits {
        let needs = self.needs(file_system, device);
        let asked_for = self.commit.as_ref().is_some_and(|c| c.interval_asked_for)
            || self.read.as_ref().is_some_and(|r| r.interval_asked_for);
        Kind::ALL.map(|kind| {
            let given = match kind {
                Kind::Write | Kind::Read => A_DAY.get() as f64,
                Kind::Operations => f64::from(OPERATIONS),
            };
            let needed = kind.in_units(needs.of(kind)) * ROOM;
            let default = if asked_for { given.max(needed) } else { given };
            self.budget.written(kind).map_or(Limit::Default(default), Limit::Written)
        })
    }

    /// Requests that its probes make in a second, each run taken as one that stands alone; that is what a disk's share is reckoned
    /// by.
    pub fn requests(&self, file_system: Option<&str>, device: bool) -> f64 {
        let each = |run: Toll, interval: Span| run.operations / interval.get().as_secs_f64();
        let commits = self.commit.as_ref().filter(|_| !device);
        let commits = commits.map(|c| each(c.commits().alone(file_system), c.interval));
        let reads = self.read.as_ref().map(|r| each(toll::reads(), r.interval));
        commits.unwrap_or_default() + reads.unwrap_or_default()
    }
}

fn promise(baseline_iops: u32) -> Promise {
    Promise { iops: Some(f64::from(baseline_iops)), ..Promise::default() }
}

/// Stretches the intervals that nobody asked for until both probes keep their share of what the disk promises; `false` when they
/// cannot at any interval that says something.
pub(super) fn stretch(plan: &mut TargetPlan) -> bool {
    let Some(baseline) = plan.baseline_iops else { return true };
    let commit = plan.commit.as_ref().map(|c| Want {
        interval: c.interval.get(),
        asked_for: c.interval_asked_for,
        run: c.commits().alone(None),
    });
    let read = plan.read.as_ref().map(|r| Want {
        interval: r.interval.get(),
        asked_for: r.interval_asked_for,
        run: toll::reads(),
    });
    let [commit, read] = paces(&promise(baseline), commit, read);
    if let (Some(plan), Some(Pace::Each(interval))) = (&mut plan.commit, commit) {
        plan.interval = Span::from(interval);
    }
    if let (Some(plan), Some(Pace::Each(interval))) = (&mut plan.read, read) {
        plan.interval = Span::from(interval);
    }
    ![commit, read].iter().any(|pace| matches!(pace, Some(Pace::Off(_))))
}
