//! A lane: one long-lived OS thread that does what may never return, for one place and direction. Jobs go in, reports come
//! out; nobody waits for it, joins it or replaces it. A panic in it is caught, counted, and its worker made anew; so is it when
//! the lane is told to do something else from now on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use super::reader::OpenedReads;
use super::writer::Prepared;
use crate::clock::{self, Tick};
use crate::io::{Inflight, Op, Wait, Wish};
use crate::probe::heartbeat::Heartbeat;
use crate::probe::layout::{Head, Role};
use crate::probe::sweep::{CarryReport, Cell, CellReport, Limits, Offer, SweepGround, SweepReady};
use crate::probe::{Finding, Method, Outcome, Profile, Spent, Trouble};
use crate::sys;
use crate::target::Roots;
use crate::units::Bytes;

/// Enough for the deepest call of a lane (measured: under 40 KiB in an unoptimised build); untouched pages cost nothing.
const STACK: usize = 256 << 10;

/// What is to be probed at a target, as resolved by the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// A directory or a block device.
    pub path: PathBuf,
    /// Where the probe files go instead of below `path`.
    pub probe_dir: Option<PathBuf>,
    /// Which engine reads.
    pub engine: Wish,
    /// The commit probe, when it is on.
    pub commit: Option<CommitSpec>,
    /// The read probe, when it is on.
    pub read: Option<ReadSpec>,
    /// Space that must stay free; `None`: the default of the layout.
    pub reserve: Option<Bytes>,
}

/// How commits are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitSpec {
    /// Whose commits.
    pub profile: Profile,
    /// What makes them durable.
    pub method: Method,
    /// Size of the commit file.
    pub file_size: Bytes,
}

/// How reads are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSpec {
    /// How a completion is waited for.
    pub wait: Wait,
    /// Size of the read file.
    pub file_size: Bytes,
}

/// What the lanes of a target share with the rest of the daemon.
#[derive(Clone, Debug)]
pub struct Context {
    /// What is to be probed.
    pub spec: Arc<Spec>,
    /// What is out, for whoever looks.
    pub inflight: Arc<Inflight>,
    /// Whether we ran.
    pub heart: Arc<Heartbeat>,
    /// Where the kernel's trees are.
    pub roots: Arc<Roots>,
    /// Makes offsets and content.
    pub seed: u64,
}

/// Something for a lane to do.
#[derive(Clone, Debug)]
pub enum Job {
    /// Writer: look at the target, open or make our directory, look at the probe files.
    Prepare {
        /// Where the target's file system was mounted when it was last found.
        was: Option<Mounted>,
    },
    /// Writer: write the next slice of this probe file.
    Layout(Role),
    /// Writer: one run of commits.
    Commit {
        /// The instant that was drawn.
        planned: Tick,
    },
    /// Reader: open the read file of the directory.
    OpenFile {
        /// Our directory.
        home: PathBuf,
        /// The file's head.
        head: Head,
    },
    /// Reader: open the block device that the path is.
    OpenDevice,
    /// Any: let go of what is open. The sweeping one removes what it laid out.
    Close,
    /// Reader: one run of reads.
    Read {
        /// The instant that was drawn.
        planned: Tick,
    },
    /// Sweeper: open the place, lay out a larger file there if one is wished for.
    OpenSweep(Box<SweepGround>),
    /// Sweeper: measure a cell.
    Cell {
        /// Which.
        cell: Cell,
        /// When it ends.
        limits: Limits,
        /// A mean latency above which it is cut short.
        ceiling: Option<Duration>,
    },
    /// Sweeper: offer a load.
    Carry {
        /// Its parts.
        offers: Vec<Offer>,
        /// For how long.
        limits: Limits,
        /// The p99 that each part is to keep.
        p99: Duration,
    },
}

/// Where a file system was mounted, and what it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounted {
    /// The mount point.
    pub point: PathBuf,
    /// What was mounted, for people.
    pub source: String,
}

/// What came of a job.
#[derive(Debug)]
pub enum Report {
    /// The target was looked at.
    Prepared(Box<Prepared>),
    /// A slice was written.
    Laying {
        /// Of which file.
        role: Role,
        /// Bytes so far.
        done: u64,
        /// Of how many.
        total: u64,
    },
    /// A probe file is complete.
    Laid {
        /// Which.
        role: Role,
        /// Its head.
        head: Head,
        /// Whether its extents are written.
        finding: Finding,
    },
    /// Reads can begin.
    Opened(Box<OpenedReads>),
    /// Nothing is open any more.
    Closed,
    /// A run came back, good or not.
    Ran(Box<Outcome>),
    /// Cells can be run.
    SweepReady(Box<SweepReady>),
    /// A cell came back, measured or not.
    Cell(Box<CellReport>),
    /// A load was offered, or not.
    Carried(Box<CarryReport>),
    /// The job failed before there was a run.
    Failed(Trouble),
    /// The lane's worker panicked, with this message.
    Panicked(String),
}

/// Does a lane's jobs. Made and used on the lane's own thread.
pub(super) trait Worker {
    /// One job from start to end.
    fn work(&mut self, job: Job) -> Report;

    /// What its jobs cost beside their runs since this was last asked, however they ended.
    fn take_spent(&mut self) -> Spent;
}

/// A job, and what the lane is to be from now on if that has changed.
#[derive(Clone, Debug)]
struct Order {
    spec: Option<Arc<Spec>>,
    job: Job,
}

/// Which of a target's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The one that writes, and finds.
    Write,
    /// The one that reads.
    Read,
    /// The one that sweeps, there from the first sweep on.
    Sweep,
}

/// The way to a lane's thread.
#[derive(Debug)]
pub struct Lane {
    orders: SyncSender<Order>,
}

impl Lane {
    /// `make` makes the lane's worker, on its thread.
    pub(super) fn spawn<W: Worker>(
        direction: Direction,
        context: Context,
        make: impl Fn(&Context) -> W + Send + 'static,
        report: impl Fn(Report, Spent) + Send + 'static,
    ) -> Result<Self, sys::Errno> {
        let (orders, inbox) = sync_channel(1);
        thread::Builder::new().stack_size(STACK).spawn(move || {
            sys::name_thread(direction.label());
            serve(direction, context, &inbox, &make, &report);
        })?;
        Ok(Self { orders })
    }

    /// Hands a job over without waiting; `false` when the lane has one already or its thread is gone. With a `spec` the lane lets
    /// go of all that it holds and goes by that from now on.
    pub fn give(&self, spec: Option<Arc<Spec>>, job: Job) -> bool {
        let given = self.orders.try_send(Order { spec, job });
        !matches!(given, Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }
}

impl Direction {
    /// As part of a thread's name.
    const fn label(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Sweep => "sweep",
        }
    }

    fn opening(self, inflight: &Inflight) {
        match self {
            Self::Write => inflight.begin(Op::Open, clock::now()),
            Self::Read => inflight.begin_open_by_reader(clock::now()),
            Self::Sweep => inflight.seat(0).begin(Op::Open, clock::now()),
        }
    }

    fn opened(self, inflight: &Inflight) {
        match self {
            Self::Write => inflight.end(Op::Open),
            Self::Read => inflight.end_open_by_reader(),
            Self::Sweep => inflight.seat(0).end(Op::Open),
        }
    }
}

fn serve<W: Worker>(
    direction: Direction,
    mut context: Context,
    inbox: &Receiver<Order>,
    make: &dyn Fn(&Context) -> W,
    report: &dyn Fn(Report, Spent),
) {
    let mut worker = make(&context);
    while let Ok(Order { spec, job }) = inbox.recv() {
        if let Some(spec) = spec {
            // Closing files may wait for the disk as well as opening them.
            direction.opening(&context.inflight);
            drop(worker);
            direction.opened(&context.inflight);
            context.spec = spec;
            worker = make(&context);
        }
        // The worker is thrown away after a panic, so nothing half-done of it is seen again.
        let done = catch_unwind(AssertUnwindSafe(|| worker.work(job)));
        let spent = worker.take_spent();
        match done {
            Ok(done) => report(done, spent),
            Err(panic) => {
                worker = make(&context);
                report(Report::Panicked(message(&*panic)), spent);
            }
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Cost;
    use std::sync::mpsc::channel;

    struct Fragile(u32);

    impl Worker for Fragile {
        fn work(&mut self, _: Job) -> Report {
            self.0 += 1;
            assert!(self.0 < 2, "the second job of a worker");
            Report::Laying { role: Role::Reads, done: 0, total: 0 }
        }

        fn take_spent(&mut self) -> Spent {
            Spent { reads: Cost { reads: self.0.into(), ..Cost::default() }, ..Spent::default() }
        }
    }

    fn lane<W: Worker>(
        make: impl Fn(&Context) -> W + Send + 'static,
        report: impl Fn(Report, Spent) + Send + 'static,
    ) -> Lane {
        let context = Context {
            spec: Arc::new(spec("/first")),
            inflight: Arc::default(),
            heart: Arc::new(Heartbeat::new(Tick::default())),
            roots: Arc::default(),
            seed: 0,
        };
        Lane::spawn(Direction::Write, context, make, report).unwrap()
    }

    fn spec(path: &str) -> Spec {
        let (probe_dir, commit, read, reserve) = (None, None, None, None);
        Spec { path: path.into(), probe_dir, engine: Wish::Auto, commit, read, reserve }
    }

    /// Fails with the path that it was made for.
    struct Named(PathBuf);

    impl Worker for Named {
        fn work(&mut self, _: Job) -> Report {
            Report::Panicked(self.0.display().to_string())
        }

        fn take_spent(&mut self) -> Spent {
            Spent::default()
        }
    }

    #[test]
    fn a_new_spec_makes_a_new_worker_before_the_job() {
        let (tell, told) = channel();
        let lane = lane(|context| Named(context.spec.path.clone()), move |r, _| drop(tell.send(r)));
        let mut seen = Vec::new();
        for new in [None, Some(Arc::new(spec("/second"))), None] {
            assert!(lane.give(new, Job::Prepare { was: None }));
            match told.recv_timeout(Duration::from_secs(20)).unwrap() {
                Report::Panicked(path) => seen.push(path),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, ["/first", "/second", "/second"]);
    }

    #[test]
    fn a_panic_is_told_and_the_lane_goes_on_with_a_new_worker() {
        let (tell, told) = channel();
        let lane = lane(|_| Fragile(0), move |r, spent| drop(tell.send((r, spent.reads.reads))));
        let (mut seen, mut spent) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            assert!(lane.give(None, Job::Prepare { was: None }));
            let (report, cost) = told.recv_timeout(Duration::from_secs(20)).unwrap();
            seen.push(report);
            spent.push(cost);
        }
        assert!(matches!(seen[0], Report::Laying { .. }));
        assert!(matches!(&seen[1], Report::Panicked(m) if m.contains("second job")));
        assert!(matches!(seen[2], Report::Laying { .. }));
        assert_eq!(spent, [1, 2, 1], "what was spent before the panic is told too");
    }
}
