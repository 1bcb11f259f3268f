//! One target's sweeps: their course, the one that is under way, and what is shown of them. Plain state; who drives it is in
//! `sweeps`.

use std::sync::Arc;
use std::time::Duration;

use super::seats::Key;
use super::standstill::Standstill;
use crate::clock::Tick;
use crate::config::{SweepPlan, TargetPlan};
use crate::device::{Conditions, View};
use crate::probe::Cost;
use crate::probe::sweep::{
    Cell, CellReport, Collector, Demand, Ladder, Left, Limits, Plan, Promise, Sweep, SweepGround, SweepReady,
    Watch,
};
use crate::record::{LEFT_OUT, Last, Results, SweepView, partial};
use crate::schedule::allowance::Bill;
use crate::schedule::guard;
use crate::schedule::others::{Done, Others, Ours};
use crate::schedule::sweep::{Course, Ending, Settings};
use crate::schedule::{Job, LaneId, Spec, TaskId};
use crate::sys;
use crate::target;
use crate::units::Bytes;

/// Where others are at work, a cell keeps no more than this outstanding.
const LIGHT: u32 = 8;

/// A target's sweeps.
pub(super) struct Sweeping {
    pub(super) plan: SweepPlan,
    pub(super) course: Course,
    /// The sweeping lane and its task, from the first sweep on.
    pub(super) seat: Option<(LaneId, TaskId)>,
    pub(super) now: Option<Now>,
    /// What the lane goes by.
    pub(super) told: Option<Arc<Spec>>,
    /// The lane is out, or is to close, for a sweep that is over.
    pub(super) closing: bool,
    /// The lane does not answer, and holds nothing any more.
    pub(super) stuck: bool,
    /// Whether its lane gets anywhere.
    pub(super) standstill: Standstill,
    /// What of the pool is taken for its buffers.
    pub(super) memory: Bytes,
    /// Since when the target is swept no more, with something yet to be given back.
    pub(super) leaving: Option<Tick>,
    /// What the guard knows of its disk.
    pub(super) others: Others,
    /// What our latency probes and its sweeps have done on its disk.
    pub(super) ours: Ours,
    /// What of the sweep under way is in that.
    accounted: (u64, u64),
    pub(super) results: Option<Results>,
    pub(super) last: Option<Last>,
    pub(super) endings: [u64; Ending::ALL.len()],
    pub(super) passed: Vec<(&'static str, u64)>,
    pub(super) cost: Cost,
}

/// A sweep that is under way.
pub(super) struct Now {
    pub(super) watch: Arc<Watch>,
    collector: Collector,
    /// The next cell, as long as it was not given to the lane.
    next: Option<(Cell, Limits)>,
    /// The cell that runs, and since when.
    pub(super) cell: Option<(Cell, Tick)>,
    pub(super) began: Tick,
    pub(super) began_wall: Duration,
    pub(super) ready: Option<SweepReady>,
    /// What the lane is to do next.
    pub(super) job: Option<Job>,
}

impl Sweeping {
    pub(super) fn new(plan: &SweepPlan, seed: u64) -> Self {
        Self {
            plan: plan.clone(),
            course: Course::new(settings(plan, seed)),
            seat: None,
            now: None,
            told: None,
            closing: false,
            stuck: false,
            standstill: Standstill::default(),
            memory: Bytes::new(0),
            leaving: None,
            others: Others::default(),
            ours: Ours::default(),
            accounted: (0, 0),
            results: None,
            last: None,
            endings: [0; Ending::ALL.len()],
            passed: Vec::new(),
            cost: Cost::default(),
        }
    }

    /// Goes by another plan from now on.
    pub(super) fn set(&mut self, plan: &SweepPlan, seed: u64) {
        self.course.set(settings(plan, seed));
        self.plan = plan.clone();
    }

    /// The most that its next sweep takes of the pool: what its largest cell needs, and some more for what is aligned and kept beside.
    pub(super) fn needs(&self, pool: Bytes) -> Bytes {
        let cells = self.plan.cells(false).ladders;
        let cell = |cell: &Cell| {
            let streams =
                cell.pattern.streams().iter().map(|s| u64::from(s.block_size.unwrap_or(cell.block_size)));
            streams.max().unwrap_or(0) * u64::from(cell.outstanding() + 8)
        };
        let largest = cells.iter().flat_map(|ladder| &ladder.cells).map(cell).max().unwrap_or(0);
        Bytes::new(largest.min(pool.get()))
    }

    /// A sweep begins: the lane is to open `ground`'s place.
    pub(super) fn begin(
        &mut self,
        ground: SweepGround,
        device: bool,
        baseline: Option<u32>,
        now: Tick,
        wall: Duration,
    ) {
        let promise = promise(baseline);
        self.last = Some(Last { began: wall, ended: None });
        self.accounted = (0, 0);
        self.memory = ground.memory;
        self.now = Some(Now {
            watch: Arc::clone(&ground.watch),
            collector: Collector::new(self.plan.cells(device), promise),
            next: None,
            cell: None,
            began: now,
            began_wall: wall,
            ready: None,
            job: Some(Job::OpenSweep(Box::new(ground))),
        });
    }

    /// What the next part of it may cost at most: before it begins all of it, then the next cell.
    pub(super) fn bill(&mut self, device: bool) -> Bill {
        let ceiling = Some(self.plan.ceiling.get());
        let demand = match &mut self.now {
            None => self.plan.cells(device).demand(crate::config::ASSUMED),
            Some(now) => now.peek().map_or_else(Demand::default, |(cell, limits)| {
                let ladders = vec![Ladder { cells: vec![cell], limits, rest_warm_up: None }];
                let plan = Plan { preset: None, ladders, rounds: 1, plateau: false, ceiling };
                plan.demand(crate::config::ASSUMED)
            }),
        };
        Bill { written: demand.written_bytes as f64, read: demand.read_bytes as f64 }
    }

    /// Whether there is something to ask: it is under way, or due.
    pub(super) fn is_due(&self, wall: Duration) -> bool {
        self.course.is_on() || self.course.next().is_some_and(|at| at <= wall)
    }

    /// What is known of others' use of its disk.
    pub(super) fn conditions(&self, view: &View, read_only: bool, now: Tick) -> Conditions {
        let load = self.others.load(now);
        let peak = self.results.as_ref().and_then(|results| peak(&results.sweep));
        Conditions {
            workload_iops: load.map(|load| load.iops),
            queue_depth: load.map(|load| load.queue_depth),
            peak_iops: peak,
            // Those who wait for I/O while a sweep runs are ours.
            io_pressure: view.host.io.some.filter(|_| !self.course.is_on()),
            read_only,
            credits_low: None,
        }
    }

    /// What the guard says.
    pub(super) fn verdict(
        &self,
        view: &View,
        read_only: bool,
        baseline: Option<u32>,
        now: Tick,
    ) -> guard::Verdict {
        let conditions = self.conditions(view, read_only, now);
        guard::judge(&conditions, baseline.map(f64::from), &self.plan.guard)
    }

    /// The disk's counters at `at`, when the sweep under way had `moved` so many operations and bytes, of which each byte is so many at the
    /// disk.
    pub(super) fn see(&mut self, at: Tick, disk: Done, moved: Option<(u64, u64)>, amplification: f64) {
        self.account(moved, amplification);
        self.others.see(at, disk, self.ours);
    }

    /// Adds what the sweep under way has done since the last time to ours.
    pub(super) fn account(&mut self, moved: Option<(u64, u64)>, amplification: f64) {
        let Some((operations, bytes)) = moved else { return };
        self.ours.operations += operations.saturating_sub(self.accounted.0);
        self.ours.bytes += bytes.saturating_sub(self.accounted.1) as f64 * amplification;
        self.accounted = (self.accounted.0.max(operations), self.accounted.1.max(bytes));
    }

    /// What is shown of it.
    pub(super) fn view(&self, left: Option<[f64; 2]>) -> SweepView {
        SweepView {
            results: self.results.clone(),
            running: self.course.is_on(),
            next: self.course.next(),
            waiting: self.course.why(),
            last: self.last,
            endings: self.endings,
            passed: self.passed.clone(),
            left,
            cost: self.cost,
            cells_left: self.now.as_ref().map_or(0, |now| now.collector.left()),
        }
    }

    /// Counts the slots that passed unused since the last time, and tells of them.
    pub(super) fn count_passed(&mut self, name: &str) {
        for (reason, n) in self.course.take_passed() {
            tracing::warn!(name, reason, sweeps = n, "a planned sweep did not take place");
            match self.passed.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, all)) => *all += n,
                None => self.passed.push((reason, n)),
            }
        }
    }

    /// What a sweep found takes the place of what was known: a complete one always, one that was stopped only where no complete one is
    /// known, and only when it has something. Whether it did.
    pub(super) fn keep(&mut self, sweep: &Sweep, wall: Duration) -> bool {
        let known = self.results.as_ref().is_some_and(|known| !known.is_partial());
        let better = !sweep.cells.is_empty() && (!partial(sweep) || !known);
        if better {
            self.results = Some(results(Sweep::clone(sweep), wall));
        }
        better
    }
}

impl Now {
    fn peek(&mut self) -> Option<(Cell, Limits)> {
        if self.next.is_none() && self.cell.is_none() {
            self.next = self.collector.next();
        }
        self.next
    }

    /// The next cell becomes the lane's job; where only light ones may run, those that are not are left out. `false`: there is none left.
    pub(super) fn take_cell(&mut self, light: bool, ceiling: Duration, now: Tick) -> bool {
        while let Some((cell, limits)) = self.peek() {
            self.next = None;
            if light && cell.outstanding() > LIGHT {
                let why = "not run: others were at work on the disk, so that only light cells were";
                self.leave_out(cell, LEFT_OUT, why);
                continue;
            }
            self.cell = Some((cell, now));
            self.job = Some(Job::Cell { cell, limits, ceiling: Some(ceiling) });
            return true;
        }
        false
    }

    fn leave_out(&mut self, cell: Cell, reason: &str, why: &str) {
        let outcome = Err(Left::Skipped(cell.skipped(reason, why)));
        self.collector.done(CellReport { cell, outcome, cost: Cost::default() });
    }

    /// All cells that have not run are left out for this reason.
    pub(super) fn leave_out_the_rest(&mut self, reason: &str, why: &str) {
        if let Some((cell, _)) = self.cell.take() {
            self.leave_out(cell, reason, why);
        }
        while let Some((cell, _)) = self.peek() {
            self.next = None;
            self.leave_out(cell, reason, why);
        }
    }

    /// The lane has its job.
    pub(super) fn started(&mut self, now: Tick) {
        if let Some((_, since)) = &mut self.cell {
            *since = now;
        }
    }

    /// Takes in the cell that is back: how long it ran.
    pub(super) fn done(&mut self, report: CellReport, now: Tick) -> Option<Duration> {
        let (_, began) = self.cell.take()?;
        self.collector.done(report);
        Some(now.since(began))
    }

    pub(super) fn finish(self) -> Collector {
        self.collector
    }
}

fn settings(plan: &SweepPlan, seed: u64) -> Settings {
    // The part of the spread that this host and target are later by.
    let part = (xxhash_rust::xxh3::xxh3_64(&seed.to_le_bytes()) >> 11) as f64 / (1u64 << 53) as f64;
    let later = Duration::from_secs(plan.spread.get().mul_f64(part).as_secs());
    Settings { calendar: plan.calendar.clone(), later, rest: plan.rest }
}

/// When the sweeps of this target are next on this host, after this time since 1970: at most `n`, each of which may be later when others
/// need the disk. And how much later than its schedule that is.
pub fn next_sweeps(target: &TargetPlan, after: Duration, n: usize) -> (Vec<Duration>, Duration) {
    let Some(plan) = &target.sweep else { return (Vec::new(), Duration::ZERO) };
    let settings = settings(plan, super::control::seed(&target.name, sys::hostname_hash()));
    let next = |after: Duration| {
        Some(settings.calendar.as_ref()?.next(after.saturating_sub(settings.later))? + settings.later)
    };
    (std::iter::successors(next(after), |last| next(*last)).take(n).collect(), settings.later)
}

/// What is held in memory of a sweep: all but what only its file is for.
pub(super) fn results(mut sweep: Sweep, ended: Duration) -> Results {
    for cell in &mut sweep.cells {
        (cell.series, cell.histogram, cell.spans) = Default::default();
    }
    Results { sweep: Arc::new(sweep), ended }
}

/// What is known of the product: what it does for ever, not what it does on credit.
fn promise(baseline: Option<u32>) -> Promise {
    Promise { iops: baseline.map(f64::from), may_burst: true, ..Promise::default() }
}

/// The most operations a second that a sweep found at any depth. What a cache did would be a licence to disturb the disk.
fn peak(sweep: &Sweep) -> Option<f64> {
    let cells = sweep.cells.iter().filter(|cell| !cell.pattern.loaded() && cell.shows_the_disk());
    cells.map(|cell| cell.iops).filter(|iops| iops.is_finite()).reduce(f64::max)
}

/// The device whose counters tell of others: the disk, where there is one; of several, what lies on them.
pub(super) fn witness(found: &target::Target) -> Option<&str> {
    match found.leaves.as_slice() {
        [] => None,
        [one] => Some(&one.name),
        _ => found.device.as_ref().map(|device| device.name.as_str()),
    }
}

/// What the kernel has counted of a device, in the words of the guard.
pub(super) fn done(view: &View, device: &str) -> Option<(Tick, Done)> {
    let disk = view.disk(device)?;
    let (reads, writes) = (&disk.done.reads, &disk.done.writes);
    let done = Done {
        operations: reads.operations + writes.operations,
        bytes: reads.bytes + writes.bytes,
        weighted: Duration::from_nanos(disk.done.weighted_nanos),
    };
    Some((view.taken?, done))
}

/// Sweeps of targets, by key.
pub(super) type Sweeps = std::collections::BTreeMap<Key, Sweeping>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sweep::fixture::ran;
    use crate::probe::sweep::{About, Pattern, SweepFault, WarmUp};

    fn cell(depth: u16) -> Cell {
        Cell { pattern: Pattern::RandRead, block_size: 4096, depth, jobs: 1, method: None }
    }

    /// A sweep of a ladder that came to so many operations a second, held against what a daemon knows.
    fn swept(baseline: Option<u32>, iops: &[f64]) -> Sweep {
        let cells: Vec<_> = (0..).map(|step| cell(1 << step)).take(iops.len()).collect();
        let warm_up = WarmUp::Completions(2);
        let limits = Limits { time: Duration::from_secs(5), operations: None, bytes: None, warm_up };
        let ladders = vec![Ladder { cells, limits, rest_warm_up: None }];
        let plan = Plan { preset: None, ladders, rounds: 1, plateau: false, ceiling: None };
        let mut collector = Collector::new(plan, promise(baseline));
        for iops in iops {
            let (cell, _) = collector.next().unwrap();
            collector.done(CellReport { cell, outcome: Ok(ran(cell, *iops)), cost: Cost::default() });
        }
        collector.finish(About::default(), None)
    }

    #[test]
    fn what_a_disk_does_on_credit_is_no_fault() {
        let sweep = swept(Some(300), &[2_000.0, 3_000.0]);
        assert!(sweep.cells.iter().all(|cell| cell.faults.is_empty()), "{:?}", sweep.cells[1].evidence);
        assert_eq!((sweep.cells[1].promised_iops, sweep.cells[1].delivered_ratio), (Some(300.0), Some(10.0)));
    }

    #[test]
    fn what_is_not_the_disk_is_no_measure_of_others_load() {
        let mut sweep = swept(None, &[1_000.0, 2_000.0, 80_000.0]);
        assert_eq!(peak(&sweep), Some(80_000.0));
        for fault in SweepFault::ALL {
            sweep.cells[2].faults = vec![*fault];
            let expected = if fault.hides_the_disk() { 2_000.0 } else { 80_000.0 };
            assert_eq!(peak(&sweep), Some(expected), "{fault}");
        }
        sweep.cells.iter_mut().for_each(|cell| cell.faults = vec![SweepFault::Cached]);
        assert_eq!(peak(&sweep), None, "then the promise, or what is configured, is the measure");
    }
}
