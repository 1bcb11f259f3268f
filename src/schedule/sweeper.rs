//! The lane that sweeps: runs one cell after the other on what is open for a sweep. Its threads are those of the lane: where a disk
//! hangs, the lane waits for them, and nobody waits for the lane.

use super::lane::{Context, Direction, Job, Lane, Report, Worker};
use super::totals::{self, Totals};
use super::writer::unresolved;
use crate::clock;
use crate::io::{Durability, Op};
use crate::probe::sweep::{
    Cell, CellReport, CellResult, Limits, Pattern, Rig, Surroundings, SweepFault, SweepGround, SweepReady,
    Way,
};
use crate::probe::truth::Underneath;
use crate::probe::{Method, Spent, Stage, Trouble, Verdict};
use crate::sys::Errno;
use crate::target::{self, Target};
use std::time::Duration;

/// The sweeping lane of a target.
pub fn spawn(context: Context, report: impl Fn(Report, Spent) + Send + 'static) -> Result<Lane, Errno> {
    Lane::spawn(Direction::Sweep, context, |context| Sweeper::new(context.clone()), report)
}

struct Sweeper {
    context: Context,
    open: Option<Open>,
    spent: Spent,
}

struct Open {
    rig: Rig,
    target: Target,
    totals: Totals,
}

impl Worker for Sweeper {
    fn work(&mut self, job: Job) -> Report {
        match job {
            Job::OpenSweep(ground) => match self.opening(|lane| lane.open(&ground)) {
                Ok(ready) => Report::SweepReady(Box::new(ready)),
                Err(trouble) => Report::Failed(trouble),
            },
            Job::Cell { cell, limits, ceiling } => match &mut self.open {
                Some(open) => Report::Cell(Box::new(open.run(cell, limits, ceiling))),
                None => Report::Failed(closed()),
            },
            Job::Carry { offers, limits, p99 } => match &mut self.open {
                Some(open) => Report::Carried(Box::new(open.rig.carry(&offers, limits, p99))),
                None => Report::Failed(closed()),
            },
            Job::Close => {
                self.opening(|lane| lane.open = None);
                Report::Closed
            }
            Job::Prepare { .. }
            | Job::Layout(_)
            | Job::Commit { .. }
            | Job::OpenFile { .. }
            | Job::OpenDevice
            | Job::Read { .. } => Report::Failed(closed()),
        }
    }

    fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }
}

impl Sweeper {
    fn new(context: Context) -> Self {
        Self { context, open: None, spent: Spent::default() }
    }

    fn opening<T>(&mut self, open: impl FnOnce(&mut Self) -> T) -> T {
        let inflight = std::sync::Arc::clone(&self.context.inflight);
        inflight.seat(0).during(Op::Open, clock::now(), || open(self))
    }

    fn open(&mut self, ground: &SweepGround) -> Result<SweepReady, Trouble> {
        self.open = None;
        let context = &self.context;
        let target =
            target::resolve(&context.spec.path, &context.roots).map_err(|error| unresolved(&error))?;
        let mut totals = Totals::of(&target, &context.roots);
        let around = Surroundings {
            engine: context.spec.engine,
            inflight: std::sync::Arc::clone(&context.inflight),
            heart: std::sync::Arc::clone(&context.heart),
            seed: context.seed,
        };
        let mut reads = || totals.read().map(|total| total.reads);
        let (rig, ready) = Rig::open(ground, &target.path, around, &mut reads, &mut self.spent.reads)?;
        self.open = Some(Open { rig, target, totals });
        Ok(ready)
    }
}

impl Open {
    fn run(&mut self, cell: Cell, limits: Limits, ceiling: Option<Duration>) -> CellReport {
        let mut under = totals::underneath(&self.target);
        under.before = self.totals.read();
        let mut report = self.rig.run(cell, limits, ceiling);
        under.after = self.totals.read();
        if let Ok(result) = &mut report.outcome {
            judge(cell, &under, result);
        }
        report
    }
}

/// What only the devices can tell.
fn judge(cell: Cell, under: &Underneath, result: &mut CellResult) {
    let writes = cell.pattern.streams().iter().any(|stream| stream.way == Way::Write);
    if writes && under.volatile_cache == Some(true) {
        let why =
            "writes were counted when they were in the device's volatile cache: a loss of power loses them";
        result.fault(SweepFault::VolatileCache, why);
    }
    // Beside other writers the counters of the device say nothing of commits.
    if cell.pattern == Pattern::Commit {
        let how = match cell.method {
            Some(Method::Fsync) => Durability::Fsync,
            Some(Method::ODsync) => Durability::WriteThrough,
            Some(Method::Fdatasync) | None => Durability::Fdatasync,
        };
        let commits = usize::try_from(result.operations).unwrap_or(usize::MAX);
        let finding = under.unflushed(commits, how).filter(|finding| finding.verdict == Verdict::Holds);
        if let Some(finding) = finding {
            result.fault(SweepFault::Unflushed, finding.evidence);
        }
    }
}

/// A job that does not fit what the lane holds; opening again mends it.
fn closed() -> Trouble {
    Trouble::io(Stage::Open, "the lane has no sweep open", Errno::EBADFD)
}
