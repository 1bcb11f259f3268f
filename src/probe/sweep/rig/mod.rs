//! The rig: what is open for a sweep, and how one cell after the other is run on it.

mod again;
mod bursts;
mod carry;
mod committer;
mod content;
mod course;
mod crew;
mod extent;
mod fit;
mod keeper;
mod parts;
mod series;
mod sum;
mod tally;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::files::{self, Files};
use super::{Cell, CellReport, CellResult, Left, Limits, Place, Stream, SweepGround, SweepReady, Watch, Way};
use crate::clock;
use crate::io::{self, EngineKind, Inflight, Op, Source, Wait, Wish};
use crate::probe::content::BLOCK;
use crate::probe::head::Head;
use crate::probe::heartbeat::Heartbeat;
use crate::probe::layout::Role;
use crate::probe::seat::Seat;
use crate::probe::{Cost, Fault, Finding, Method, Stage, Trouble, Verdict, truth};
use crate::sys::{Device, Dir, Direct, Errno, Memory, Pool};
use again::{Again, Reads};
use course::Course;
use crew::{Crew, Meeting};
use extent::{Claims, Extent};
use parts::Part;
use tally::Tally;
use work::{CommitFile, PartEnd, Work};

/// What registered buffers may take of the locked memory that the user's processes have: a sweep has it for itself.
const PART_OF_LOCKED: u64 = 2;

/// What surrounds a sweep.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Which engine is wanted.
    pub engine: Wish,
    /// What is out, for whoever looks.
    pub inflight: Arc<Inflight>,
    /// Whether we ran.
    pub heart: Arc<Heartbeat>,
    /// Makes offsets and content.
    pub seed: u64,
}

/// A place that is open for a sweep. It belongs to the thread that runs the cells.
#[derive(Debug)]
pub struct Rig {
    around: Surroundings,
    watch: Arc<Watch>,
    pool: Pool,
    crew: Crew,
    source: Source,
    direct: Direct,
    engine: EngineKind,
    extent: Extent,
    file: Option<u64>,
    block: u32,
    /// Where the file is to lie; `None` for a device.
    seat: Option<Seat>,
    files: Option<Files>,
    findings: Vec<Finding>,
    /// Whether a cache below the file system was looked for, and what showed one.
    looked_below: bool,
    host_cached: Option<String>,
    random: fastrand::Rng,
}

/// What is opened, before it is known how it is used.
struct Opened {
    source: Source,
    direct: Direct,
    size: u64,
    head: Option<Head>,
    seat: Option<Seat>,
    files: Option<Files>,
    random: fastrand::Rng,
}

/// What one run of a cell's parts came to.
struct Run {
    cell: Cell,
    work: Arc<Work>,
    ends: Vec<PartEnd>,
}

impl Rig {
    /// Opens the ground of a sweep; `device` is the path of the block device where that is swept. `device_reads` is asked how many reads
    /// the disk has seen. What the opening cost goes into `cost`.
    pub fn open(
        ground: &SweepGround,
        device: &Path,
        around: Surroundings,
        device_reads: &mut dyn FnMut() -> Option<u64>,
        cost: &mut Cost,
    ) -> Result<(Self, SweepReady), Trouble> {
        let random = fastrand::Rng::with_seed(around.seed ^ clock::now().nanos().rotate_left(29));
        let mut opened = match &ground.place {
            Place::File { home, head } => open_file(ground, (home, *head), &around, random, cost)?,
            Place::Device => open_device(device, random)?,
        };
        let headed = opened.head.is_some();
        let size = ground.file_size.map_or(opened.size, |wish| wish.get().min(opened.size));
        let extent = Extent { size, headed };
        if extent.blocks(BLOCK as u32) == 0 {
            let message = format!("{size} bytes are too few to be swept: a block has {BLOCK}");
            return Err(Trouble::unsupported(Stage::Open, Errno::ENODATA, message));
        }
        let findings = opened.check(extent, device_reads, cost);
        let Opened { source, direct, head, seat, files, random, .. } = opened;
        let fail = |e| Trouble::io(Stage::Open, "cannot get ready for the sweep", e);
        let wish = if direct == Direct::No { Wish::Threads } else { around.engine };
        let first = io::open(source.duplicate().map_err(fail)?, 1, BLOCK as u32, wish, Wait::Sleep);
        let first = first.map_err(fail)?;
        let (engine, reason) = (first.engine.kind(), first.reason);
        let block = least_block(&source, direct);
        let rig = Self {
            around: Surroundings { engine: wish, ..around },
            watch: Arc::clone(&ground.watch),
            pool: Pool::new(ground.memory.get()),
            crew: Crew::default(),
            source,
            direct,
            engine,
            extent,
            file: head.map(|head| head.file),
            block,
            seat,
            files,
            findings,
            looked_below: false,
            host_cached: None,
            random,
        };
        Ok((rig, SweepReady { file_size: size, engine, reason, direct, block }))
    }

    /// Runs a cell. When it is asked to stop, what was measured till then is the result.
    pub fn run(&mut self, cell: Cell, limits: Limits, ceiling: Option<Duration>) -> CellReport {
        let mut cost = Cost::default();
        let outcome = self.try_run(&cell, limits, ceiling, &mut cost);
        CellReport { cell, outcome, cost }
    }

    /// The file or device.
    pub fn source(&self) -> &Source {
        &self.source
    }

    fn try_run(
        &mut self,
        cell: &Cell,
        limits: Limits,
        ceiling: Option<Duration>,
        cost: &mut Cost,
    ) -> Result<CellResult, Left> {
        self.watch.begin();
        let parts = parts::parts(cell);
        let fits = || self.fits(cell, &parts);
        self.own().during(Op::Open, clock::now(), fits).map_err(Left::Skipped)?;
        let files = self.committers(&parts, cost).map_err(Left::Failed)?;
        let quiet = if cell.pattern.loaded() {
            let judged: Vec<Part> = quiet_parts(cell, &parts);
            Some(self.measure(cell, &judged, &files, limits.quiet(), ceiling, cost)?)
        } else {
            None
        };
        self.stopped_early(cell)?;
        let below = self.look_below(cell, cost);
        let run = self.measure(cell, &parts, &files, limits, ceiling, cost)?;
        self.stopped_early_without(&run, cell)?;
        if let Some(again) = below.filter(|_| self.watch.stopped().is_none()) {
            self.host_cached = again.end(&mut self.reads(cost));
        }
        self.settle(cell.pattern.writes(), cost).map_err(Left::Failed)?;
        Ok(sum::sum(self, &run, quiet.as_ref()))
    }

    /// Before the first cell that only reads, where reads reach a device: what is to be read again after it.
    fn look_below(&mut self, cell: &Cell, cost: &mut Cost) -> Option<Again> {
        let reach = self.direct == Direct::Yes
            && [Fault::Cached, Fault::Unwritten].iter().all(|fault| self.holds(*fault).is_none());
        if self.looked_below || cell.pattern.writes() || !reach {
            return None;
        }
        self.looked_below = true;
        let mut random = self.random.fork();
        Again::begin(&mut self.reads(cost), &mut random)
    }

    fn reads<'a>(&'a self, cost: &'a mut Cost) -> Reads<'a> {
        Reads { source: &self.source, extent: self.extent, inflight: self.own(), cost }
    }

    /// Runs some parts of a cell.
    fn measure(
        &mut self,
        cell: &Cell,
        parts: &[Part],
        files: &[(String, Head)],
        limits: Limits,
        ceiling: Option<Duration>,
        cost: &mut Cost,
    ) -> Result<Run, Left> {
        let fail = |e| Left::Failed(Trouble::io(Stage::Open, format_args!("cannot get ready for {cell}"), e));
        let work = Arc::new(self.work(cell, parts, limits, ceiling).map_err(fail)?);
        let mut tasks: Vec<Box<dyn FnOnce() -> PartEnd + Send>> = Vec::new();
        let mut files = files.iter();
        for (number, part) in parts.iter().enumerate() {
            let commits = matches!(part.duty, parts::Duty::Commit { .. });
            let file = match files.next().filter(|_| commits) {
                Some((name, head)) => {
                    let open = || self.open_committer(cell, name, *head);
                    Some(self.own().during(Op::Open, clock::now(), open).map_err(Left::Failed)?)
                }
                None => None,
            };
            let (work, part, seed) = (Arc::clone(&work), part.clone(), self.random.u64(..));
            tasks.push(Box::new(move || work.run(&part, file, number, seed)));
        }
        let ends = self.crew.run(tasks).map_err(fail)?;
        ends.iter().for_each(|end| add(cost, end.cost));
        match work.course.trouble() {
            Some(trouble) => Err(Left::Failed(trouble)),
            None => Ok(Run { cell: *cell, work, ends }),
        }
    }

    fn work(
        &self,
        cell: &Cell,
        parts: &[Part],
        limits: Limits,
        ceiling: Option<Duration>,
    ) -> Result<Work, Errno> {
        let course = self.course(parts, limits, ceiling);
        let named = (cell.to_string(), cell.jobs, cell.method);
        self.work_of(named, parts::streams(cell), (parts.len(), course), limits)
    }

    fn course(&self, parts: &[Part], limits: Limits, ceiling: Option<Duration>) -> Course {
        let counting = parts.iter().filter(|part| work::counts(part)).count();
        let cold = u32::try_from(counting).unwrap_or(u32::MAX);
        Course::new(limits, ceiling, Arc::clone(&self.watch), cold)
    }

    fn work_of(
        &self,
        (name, jobs, method): (String, u16, Option<Method>),
        streams: Vec<Stream>,
        (parts, course): (usize, Course),
        limits: Limits,
    ) -> Result<Work, Errno> {
        let claims = streams.iter().map(|stream| {
            let writes = stream.way == Way::Write;
            writes.then(|| Arc::new(Claims::new(self.extent.blocks(parts::block_of(stream)))))
        });
        Ok(Work {
            name,
            jobs,
            method,
            course: Arc::new(course),
            tallies: streams.iter().map(|_| Tally::new(limits.time)).collect(),
            meeting: Meeting::of(parts),
            source: self.source.duplicate()?,
            extent: self.extent,
            file: self.file,
            memory: Memory { pool: self.pool.clone(), part_of_locked: PART_OF_LOCKED },
            engine: self.around.engine,
            inflight: Arc::clone(&self.around.inflight),
            claims: claims.collect(),
            streams,
        })
    }

    fn committers(&mut self, parts: &[Part], cost: &mut Cost) -> Result<Vec<(String, Head)>, Trouble> {
        let count = parts.iter().filter(|part| matches!(part.duty, parts::Duty::Commit { .. })).count();
        let Some(files) = &mut self.files else { return Ok(Vec::new()) };
        if count == 0 {
            files.dismiss(self.around.inflight.seat(0));
        }
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        files.committers(count, &self.watch, self.around.inflight.seat(0), cost)
    }

    fn open_committer(&self, cell: &Cell, name: &str, head: Head) -> Result<CommitFile, Trouble> {
        let at = self.files.as_ref().map(|files| files.at(name)).unwrap_or_default();
        let fail = |e| Trouble::io(Stage::Open, format_args!("cannot open {}", at.display()), e);
        let dir = self.files.as_ref().map(Files::dir).ok_or(Errno::EBADF).map_err(fail)?;
        let through = work::durability(cell.method) == io::Durability::WriteThrough;
        let open = |direct| match through {
            true => dir.open_file_for_synchronous_writing(name, direct),
            false => dir.open_file_for_writing(name, direct),
        };
        let file = open(self.direct).map_err(fail)?;
        head.confirm(&file, &at, &mut Cost::default())?;
        Ok(CommitFile { file, number: head.file, size: head.size })
    }

    /// What a cell left in the disk's cache must not fall into the time of the next; and the file must still be in its place.
    fn settle(&self, written: bool, cost: &mut Cost) -> Result<(), Trouble> {
        let mut settled = Ok(());
        if let (true, Source::File(file)) = (written, &self.source) {
            let synced = self.own().during(Op::Sync, clock::now(), || cost.sync(file.fdatasync()));
            settled =
                synced.map_err(|e| Trouble::io(Stage::Sync, "what was written was not made durable", e));
        }
        let seated = || self.seat.as_ref().map_or(Ok(()), Seat::check);
        settled.and(self.own().during(Op::Open, clock::now(), seated))
    }

    /// What is out on the lane itself, beside the latency probes that may have something out at the same time.
    fn own(&self) -> &Inflight {
        self.around.inflight.seat(0)
    }

    /// Nothing was measured yet, and somebody asks to stop.
    fn stopped_early(&self, cell: &Cell) -> Result<(), Left> {
        let Some(why) = self.watch.stopped() else { return Ok(()) };
        let message = format!("stopped before it was measured: {why}");
        Err(Left::Skipped(cell.skipped(why.label(), message)))
    }

    fn stopped_early_without(&self, run: &Run, cell: &Cell) -> Result<(), Left> {
        let nothing = run.ends.iter().all(|end| end.window.is_none());
        if nothing { self.stopped_early(cell) } else { Ok(()) }
    }

    fn holds(&self, fault: Fault) -> Option<&str> {
        let holds = |finding: &&Finding| finding.fault == fault && finding.verdict == Verdict::Holds;
        self.findings.iter().find(holds).map(|finding| finding.evidence.as_str())
    }
}

impl Opened {
    /// Whether what is read comes from the disk at all.
    fn check(
        &mut self,
        extent: Extent,
        device_reads: &mut dyn FnMut() -> Option<u64>,
        cost: &mut Cost,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Source::File(file) = &self.source {
            findings.push(truth::unwritten(file.extents()));
        }
        if self.direct == Direct::Yes {
            let blocks = extent.blocks(BLOCK as u32);
            findings.push(truth::cached(&self.source, blocks, &mut self.random, device_reads, cost));
        }
        findings
    }
}

fn open_file(
    ground: &SweepGround,
    (home, head): (&Path, Head),
    around: &Surroundings,
    mut random: fastrand::Rng,
    cost: &mut Cost,
) -> Result<Opened, Trouble> {
    let fail_at = |at: &Path, e| Trouble::io(Stage::Open, format_args!("cannot open {}", at.display()), e);
    let dir = || Dir::open(home).map_err(|e| fail_at(home, e));
    let mut files = Files::open(dir()?, home, random.fork(), cost)?;
    let (name, head) = match ground.file_size.map(crate::units::Bytes::get).filter(|wish| *wish > head.size) {
        Some(wish) => {
            let size = wish / BLOCK as u64 * BLOCK as u64;
            (files::LARGE, files.large(size, &ground.watch, around.inflight.seat(0), cost)?)
        }
        None => (Role::Reads.file_name(), head),
    };
    let at = home.join(name);
    let fail = |e| fail_at(&at, e);
    let dir = dir()?;
    let (file, direct) = match dir.open_file_for_writing(name, Direct::Yes) {
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => (dir.open_file_for_writing(name, Direct::No), Direct::No),
        other => (other, Direct::Yes),
    };
    let file = file.map_err(fail)?;
    head.confirm(&file, &at, cost)?;
    let seat = Some(Seat::of(&file, at.clone()).map_err(fail)?);
    let (size, head, files) = (head.size, Some(head), Some(files));
    Ok(Opened { source: Source::File(file), direct, size, head, seat, files, random })
}

fn open_device(path: &Path, random: fastrand::Rng) -> Result<Opened, Trouble> {
    let fail = |e| Trouble::io(Stage::Open, format_args!("cannot open {}", path.display()), e);
    let (device, direct) = match Device::open(path, Direct::Yes) {
        Err(Errno::EINVAL) => (Device::open(path, Direct::No), Direct::No),
        other => (other, Direct::Yes),
    };
    let device = device.map_err(fail)?;
    let size = device.size().map_err(fail)?;
    let (head, seat, files) = (None, None, None);
    Ok(Opened { source: Source::Device(device), direct, size, head, seat, files, random })
}

/// The least block that the disk takes.
fn least_block(source: &Source, direct: Direct) -> u32 {
    let said = match source {
        Source::File(file) => file.direct_alignment(),
        Source::Device(device) => device.direct_alignment(),
    };
    match direct {
        Direct::Yes => said.map_or(512, |said| said.offset.max(512)),
        Direct::No => 1,
    }
}

/// The stream that is judged, alone, and of committers one.
fn quiet_parts(cell: &Cell, parts: &[Part]) -> Vec<Part> {
    let judged = parts.iter().filter(|part| part.streams() == [0]);
    let take = if cell.pattern.commits() { 1 } else { usize::MAX };
    judged.take(take).cloned().collect()
}

fn add(sum: &mut Cost, other: Cost) {
    sum.reads += other.reads;
    sum.read_bytes += other.read_bytes;
    sum.writes += other.writes;
    sum.written_bytes += other.written_bytes;
    sum.syncs += other.syncs;
}
