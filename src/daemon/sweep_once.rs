//! One sweep of one target, for a person who waits. The lanes are those of the daemon; what was measured is kept however it ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::about::about;
use super::lanes::Lanes;
use super::once::{Halt, failed, lay};
use super::standstill::Standstill;
use crate::clock;
use crate::config::TargetPlan;
use crate::io::Op;
use crate::probe::Trouble;
use crate::probe::layout::Role;
use crate::probe::sweep::{
    Cell, CellReport, Collector, Left, Limits, Place, Plan, Progress, Promise, Stopped, Sweep, SweepGround,
    SweepReady, WarmUp, Watch,
};
use crate::schedule::writer::{FileState, Prepared};
use crate::schedule::{Job, Report};
use crate::target::Target;
use crate::units::Bytes;

/// How long a cell may take to come to its end once it was told to.
const GRACE: Duration = Duration::from_secs(10);

/// Bytes a second that any disk writes a file at.
const SLOW: u64 = 8 << 20;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct SweepOnce {
    /// Where, with the read file that is laid out where none is.
    pub target: TargetPlan,
    /// Which cells.
    pub plan: Plan,
    /// What the product promises.
    pub promise: Promise,
    /// How many bytes are worked on; `None`: all of the read file, or of the device.
    pub file_size: Option<Bytes>,
    /// What the buffers of a cell may take together.
    pub memory: Bytes,
    /// How long one operation may be out.
    pub patience: Duration,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SweepStep {
    /// So many bytes of the read file are written, of so many.
    LayingOut(u64, u64),
    /// The place is opened, and a larger file laid out where that was asked for.
    Opening,
    /// A cell runs: which one, how long so far and how long at most, how far it is, and how many cells may still come.
    Running {
        /// Which.
        cell: Cell,
        /// For how long.
        out: Duration,
        /// For how long at most.
        most: Duration,
        /// How far.
        progress: Progress,
        /// How many may come after it.
        left: usize,
        /// The oldest operation that is out, when that is long.
        oldest: Option<(Op, Duration)>,
    },
}

/// What was found.
#[derive(Debug, Default)]
pub struct Swept {
    /// The target; `None` when it was not even looked at.
    pub target: Option<Target>,
    /// Our directory on it; `None` on a block device.
    pub home: Option<PathBuf>,
    /// What was opened; `None` when it was not.
    pub ready: Option<SweepReady>,
    /// What was measured; `None` when no cell was begun.
    pub sweep: Option<Sweep>,
    /// Probe files that were begun to be laid out.
    pub laid: Vec<Role>,
    /// Why it ended early, if it did.
    pub halt: Option<Halt>,
    /// Whether the lanes are gone, and with them every open file and the lock.
    pub released: bool,
}

/// Looks at the target, lays out what is missing, and runs cell after cell. `tell` hears what is being done.
pub fn sweep_once(wish: &SweepOnce, tell: &mut dyn FnMut(SweepStep)) -> Swept {
    let mut swept = Swept::default();
    let mut lanes = match Lanes::start(&wish.target, wish.patience, true) {
        Ok(lanes) => lanes,
        Err(errno) => return Swept { halt: Some(Halt::Start(errno)), released: true, ..swept },
    };
    let (began, start) = (clock::wall(), clock::now());
    let watch = Arc::new(Watch::default());
    let opened = open(wish, &watch, &mut lanes, &mut swept, tell);
    let mut collector = Collector::new(wish.plan.clone(), wish.promise);
    swept.halt = opened.and_then(|()| cells(&mut lanes, &mut collector, &watch, wish, tell)).err();
    if swept.ready.is_some() {
        let seconds = clock::now().since(start).as_secs_f64();
        let path = wish.target.path.display().to_string();
        let about = about(&path, swept.target.as_ref(), swept.ready.as_ref(), began, seconds);
        let stopped = swept.halt.as_ref().map(why);
        swept.sweep = Some(collector.finish(about, stopped));
        // A lane that hangs is not asked to clean up.
        if !matches!(swept.halt, Some(Halt::Hung(..))) && lanes.signals() < 2 {
            swept.halt = swept.halt.take().or(lanes.close_sweep().err());
        }
    }
    swept.released = lanes.release();
    swept
}

fn why(halt: &Halt) -> Stopped {
    match halt {
        Halt::Interrupted => Stopped::Interrupt,
        _ => Stopped::Error,
    }
}

fn open(
    wish: &SweepOnce,
    watch: &Arc<Watch>,
    lanes: &mut Lanes,
    swept: &mut Swept,
    tell: &mut dyn FnMut(SweepStep),
) -> Result<(), Halt> {
    let prepared = match lanes.ask(Job::Prepare { was: None })? {
        Report::Prepared(prepared) => *prepared,
        other => return Err(failed(other)),
    };
    (swept.target, swept.home) = (Some(prepared.target.clone()), prepared.home.clone());
    let place = place(prepared, lanes, swept, tell)?;
    tell(SweepStep::Opening);
    let ground =
        SweepGround { place, file_size: wish.file_size, memory: wish.memory, watch: Arc::clone(watch) };
    // A large file takes as long to write as it takes; only an operation that does not come back is a reason to give up.
    let seconds = wish.file_size.map_or(0, |size| size.get() / SLOW);
    let patience = wish.patience + Duration::from_secs(seconds);
    let opened = lanes.ask_while(Job::OpenSweep(Box::new(ground)), &mut |lanes, out| {
        tell(SweepStep::Opening);
        watchful(lanes, watch, wish.patience, Some(Op::Open))?;
        if out < patience { Ok(()) } else { Err(Halt::Hung(Some(Op::Open), out)) }
    })?;
    match opened {
        Report::SweepReady(ready) => swept.ready = Some(*ready),
        other => return Err(failed(other)),
    }
    Ok(())
}

fn place(
    prepared: Prepared,
    lanes: &mut Lanes,
    swept: &mut Swept,
    tell: &mut dyn FnMut(SweepStep),
) -> Result<Place, Halt> {
    let Some(home) = prepared.home else { return Ok(Place::Device) };
    let head = match prepared.reads {
        Some(FileState::Ready(head)) => head,
        Some(FileState::Trouble(trouble)) => return Err(Halt::Failed(trouble)),
        Some(FileState::Lay) | None => {
            swept.laid.push(Role::Reads);
            let laid = lay(Role::Reads, lanes, &mut |step| {
                if let super::Step::LayingOut(_, done, total) = step {
                    tell(SweepStep::LayingOut(done, total));
                }
            })?;
            laid.map_err(Halt::Failed)?.0
        }
    };
    Ok(Place::File { home, head })
}

/// One after the other, until all are done, somebody ends it, or the disk fails.
fn cells(
    lanes: &mut Lanes,
    collector: &mut Collector,
    watch: &Arc<Watch>,
    wish: &SweepOnce,
    tell: &mut dyn FnMut(SweepStep),
) -> Result<(), Halt> {
    while let Some((cell, limits)) = collector.next() {
        let report = run(lanes, cell, limits, collector.left(), watch, wish, tell)?;
        let trouble = trouble_of(&report);
        collector.done(report);
        if let Some(trouble) = trouble {
            return Err(Halt::Failed(trouble));
        }
        if watch.stopped().is_some() || lanes.signals() > 0 {
            return Err(Halt::Interrupted);
        }
    }
    Ok(())
}

fn trouble_of(report: &CellReport) -> Option<Trouble> {
    match &report.outcome {
        Err(Left::Failed(trouble)) => Some(trouble.clone()),
        _ => None,
    }
}

fn run(
    lanes: &mut Lanes,
    cell: Cell,
    limits: Limits,
    left: usize,
    watch: &Arc<Watch>,
    wish: &SweepOnce,
    tell: &mut dyn FnMut(SweepStep),
) -> Result<CellReport, Halt> {
    let most = limits.time + if let WarmUp::Time(time) = limits.warm_up { time } else { Duration::ZERO };
    let job = Job::Cell { cell, limits, ceiling: wish.plan.ceiling };
    let (mut asked_to_end, mut standstill) = (None, Standstill::default());
    let report = lanes.ask_while(job, &mut |lanes, out| {
        let oldest = lanes.oldest().filter(|(_, age)| *age > Duration::from_secs(1));
        tell(SweepStep::Running { cell, out, most, progress: watch.progress(), left, oldest });
        watchful(lanes, watch, wish.patience, None)?;
        // Whatever it is that hangs, it may be nothing that shows.
        let still = standstill.look(lanes.inflight(), watch.moved(), clock::now());
        if still > wish.patience + GRACE {
            return Err(Halt::Hung(None, still));
        }
        // A cell that was told to end has only what is out to wait for.
        let since = watch.stopped().map(|_| *asked_to_end.get_or_insert(out));
        match since {
            Some(since) if out.saturating_sub(since) > GRACE => Err(Halt::Interrupted),
            _ => Ok(()),
        }
    })?;
    match report {
        Report::Cell(report) => Ok(*report),
        other => Err(failed(other)),
    }
}

/// The first signal ends the cell that runs, with what it has; the second ends all at once. What is out for too long is given up, except
/// for what is `spared`.
fn watchful(lanes: &Lanes, watch: &Watch, patience: Duration, spared: Option<Op>) -> Result<(), Halt> {
    match lanes.signals() {
        0 => {}
        1 => watch.stop(Stopped::Interrupt),
        _ => return Err(Halt::Interrupted),
    }
    match lanes.oldest_but(spared) {
        Some((op, age)) if age > patience => Err(Halt::Hung(Some(op), age)),
        _ => Ok(()),
    }
}
