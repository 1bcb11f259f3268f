//! What the threads of a cell share, and what each of them does from beginning to end.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Access, Stream, Way};
use super::committer::Committer;
use super::content::Inspection;
use super::course::{Course, Leg};
use super::crew::Meeting;
use super::extent::{Claims, Cursor, Extent};
use super::keeper::{Keeper, Line};
use super::parts::{Duty, Part, block_of};
use super::tally::{Recorder, Tally};
use crate::clock::{self, Tick};
use crate::io::{self, Durability, Inflight, Source, Wait, Wish};
use crate::probe::{Cost, Method, Stage, Trouble};
use crate::sys::{Errno, File, Memory, SchedWait};

/// What the threads of a cell share.
#[derive(Debug)]
pub(super) struct Work {
    /// What is measured, for people.
    pub(super) name: String,
    /// Its streams, each with its block size.
    pub(super) streams: Vec<Stream>,
    /// Threads that share its work.
    pub(super) jobs: u16,
    /// What makes commits durable.
    pub(super) method: Option<Method>,
    /// When it is warm, and over.
    pub(super) course: Arc<Course>,
    /// One for each stream of the pattern.
    pub(super) tallies: Vec<Tally>,
    /// Where they begin.
    pub(super) meeting: Meeting,
    /// The file or device.
    pub(super) source: Source,
    /// What of it is worked on.
    pub(super) extent: Extent,
    /// The file's number; `None`: somebody's device.
    pub(super) file: Option<u64>,
    /// Where buffers come from.
    pub(super) memory: Memory,
    /// Which engine is wanted.
    pub(super) engine: Wish,
    /// What is out, for whoever looks.
    pub(super) inflight: Arc<Inflight>,
    /// Blocks that are being written, for each stream that writes.
    pub(super) claims: Vec<Option<Arc<Claims>>>,
}

/// What became of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct PartEnd {
    /// What it cost.
    pub(super) cost: Cost,
    /// What its looks at the content found.
    pub(super) inspection: Inspection,
    /// Its window's ends; `None` where nothing was recorded.
    pub(super) window: Option<(Tick, Tick)>,
    /// How long it ran, how long of that on a CPU, and how long it waited for one.
    pub(super) ran: Duration,
    /// On a CPU.
    pub(super) cpu: Duration,
    /// Ready to run, but not running.
    pub(super) waited: Duration,
}

/// A committer's file, open, and how it is committed to.
#[derive(Debug)]
pub(super) struct CommitFile {
    /// The file.
    pub(super) file: File,
    /// Its number.
    pub(super) number: u64,
    /// Bytes.
    pub(super) size: u64,
}

/// How a method makes a write durable.
pub(super) fn durability(method: Option<Method>) -> Durability {
    match method.unwrap_or(Method::Fdatasync) {
        Method::Fdatasync => Durability::Fdatasync,
        Method::Fsync => Durability::Fsync,
        Method::ODsync => Durability::WriteThrough,
    }
}

impl Work {
    /// One part from beginning to end, on its own thread, which has this `seat`.
    pub(super) fn run(&self, part: &Part, commit: Option<CommitFile>, seat: usize, seed: u64) -> PartEnd {
        let invitation = self.meeting.invite();
        let mut random = fastrand::Rng::with_seed(seed);
        let inflight = self.inflight.seat(seat);
        let made: Result<Running<'_>, Errno> = match (&part.duty, commit) {
            (Duty::Commit { stream }, Some(file)) => {
                self.committer(*stream, file, inflight, &mut random).map(Running::Commits)
            }
            _ => self.keeper(part, inflight, &mut random).map(Running::Keeps),
        };
        let mut running = match made {
            Ok(running) => running,
            Err(e) => {
                let doing = format_args!("cannot get ready for {}", self.name);
                self.course.fail(Trouble::io(Stage::Open, doing, e));
                return PartEnd::default();
            }
        };
        if !invitation.meet() {
            return PartEnd::default();
        }
        let (mut wait, cpu, began) = (SchedWait::open(), clock::thread_cpu(), clock::now());
        wait.since_last();
        self.course.start(began);
        running.run(&part.duty);
        let mut end = running.end();
        end.ran = clock::now().since(began);
        end.cpu = clock::thread_cpu().saturating_sub(cpu);
        end.waited = wait.since_last().map_or(Duration::ZERO, Duration::from_nanos);
        end
    }

    fn committer<'a>(
        &'a self,
        stream: usize,
        commit: CommitFile,
        inflight: &'a Inflight,
        random: &mut fastrand::Rng,
    ) -> Result<Committer<'a>, Errno> {
        let block = block_of(&self.streams[stream]);
        let extent = Extent { size: commit.size, headed: true };
        Ok(Committer {
            file: commit.file,
            how: durability(self.method),
            buffer: self.memory.pool.buffer(block as usize)?,
            cursor: Cursor::new(extent, block, Access::Random, 0.0, None, random.fork()),
            recorder: Recorder::new(&self.tallies[stream]),
            course: Arc::clone(&self.course),
            leg: Leg::new(Arc::clone(&self.course), 1, true),
            inflight,
            inspection: Inspection::new(Some(commit.number), true),
            random: random.fork(),
            cost: Cost::default(),
        })
    }

    fn keeper<'a>(
        &'a self,
        part: &Part,
        inflight: &'a Inflight,
        random: &mut fastrand::Rng,
    ) -> Result<Keeper<'a>, Errno> {
        let (slots, block) = (part.slots(&self.streams), part.block(&self.streams));
        let source = self.source.duplicate()?;
        let opened = io::open_within(source, slots, block, self.engine, Wait::Sleep, &self.memory)?;
        let lines = part.streams().into_iter().map(|at| self.line(part, at, random)).collect();
        let leg = Leg::new(Arc::clone(&self.course), part.depth(), counts(part));
        let written = self.streams.iter().any(|stream| stream.way != Way::Read);
        Ok(Keeper::new(
            opened.engine,
            part.depth(),
            lines,
            Inspection::new(self.file, written),
            (Arc::clone(&self.course), leg),
            inflight,
            random.fork(),
        ))
    }

    fn line<'a>(&'a self, part: &Part, at: usize, random: &mut fastrand::Rng) -> Line<'a> {
        let stream = self.streams[at];
        let block = block_of(&stream);
        let percent = match &part.duty {
            Duty::Keep { shares, .. } => shares.iter().find(|(s, _)| *s == at).map_or(100, |(_, p)| *p),
            _ => 100,
        };
        // Jobs begin apart from each other, and writes apart from reads.
        let jobs = f64::from(self.jobs.max(1));
        let apart = if stream.way == Way::Write { 0.5 } else { 0.0 };
        let begin = ((f64::from(part.job) + apart) / jobs).fract();
        let claims = self.claims[at].clone();
        let cursor = Cursor::new(self.extent, block, stream.access, begin, claims, random.fork());
        Line { way: stream.way, block, percent, cursor, recorder: Recorder::new(&self.tallies[at]) }
    }
}

/// Whether the cell is warm when this part is: bursts come when they come, and what is offered is offered.
pub(super) fn counts(part: &Part) -> bool {
    !matches!(part.duty, Duty::Bursts { .. } | Duty::Offer { .. })
}

#[derive(Debug)]
enum Running<'a> {
    Keeps(Keeper<'a>),
    Commits(Committer<'a>),
}

impl Running<'_> {
    fn run(&mut self, duty: &Duty) {
        match (self, duty) {
            (Self::Keeps(keeper), Duty::Bursts { every_ms, .. }) => {
                keeper.burst(Duration::from_millis(u64::from(*every_ms)));
            }
            (Self::Keeps(keeper), Duty::Offer { per_thousand_seconds, .. }) => {
                keeper.offer(*per_thousand_seconds);
            }
            (Self::Keeps(keeper), _) => keeper.keep(),
            (Self::Commits(committer), _) => committer.run(),
        }
    }

    fn end(self) -> PartEnd {
        let (cost, inspection, window) = match self {
            Self::Keeps(keeper) => keeper.end(),
            Self::Commits(committer) => (committer.cost, committer.inspection, committer.leg.window()),
        };
        PartEnd { cost, inspection, window, ..PartEnd::default() }
    }
}
