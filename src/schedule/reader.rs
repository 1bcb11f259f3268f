//! The lane that reads: owns an engine on the read file or on a block device. A frozen file system does not stop it.

use std::path::Path;
use std::time::Duration;

use super::lane::{Context, Direction, Job, Lane, Report, Worker};
use super::totals::Totals;
use super::writer::unresolved;
use crate::clock::{self, Tick};
use crate::io::{self, EngineKind, Op, Reason, Source, Wait, Wish};
use crate::probe::content::BLOCK;
use crate::probe::layout::{Head, Role};
use crate::probe::read::{Expect, ReadProbe, SLOTS};
use crate::probe::seat::Seat;
use crate::probe::{Cost, Fault, Finding, Spent, Stage, Trouble, Verdict, truth};
use crate::sys::{Device, Dir, Direct, Errno};
use crate::target::{self, Target};

/// From one truth check of the file to the next.
const CHECK_EVERY: Duration = Duration::from_secs(600);

/// The lane is ready to read.
#[derive(Debug)]
pub struct OpenedReads {
    /// The target, resolved.
    pub target: Target,
    /// The engine in use.
    pub engine: EngineKind,
    /// Why this one.
    pub reason: Reason,
    /// Whether direct I/O is asked for.
    pub direct: Direct,
    /// What the truth checks of an open file found.
    pub findings: Vec<Finding>,
}

impl OpenedReads {
    /// Why this engine, as metric label: [`Reason::label`], or `buffered` where direct I/O is refused: a ring would hand reads
    /// through the page cache to a worker of the kernel.
    pub fn reason_label(&self) -> &'static str {
        if self.direct == Direct::No && self.reason == Reason::Asked {
            "buffered"
        } else {
            self.reason.label()
        }
    }

    /// Whether parts of the read file were never written.
    pub fn unwritten(&self) -> bool {
        self.findings.iter().any(|f| f.fault == Fault::Unwritten && f.verdict == Verdict::Holds)
    }

    /// Whether reads bypass the kernel's cache: `true`, `false` where it refuses direct I/O, `bypassed` where it takes
    /// direct I/O and serves its cache all the same.
    pub fn direct_label(&self) -> &'static str {
        let holds = |f: &Finding| f.fault == Fault::Cached && f.verdict == Verdict::Holds;
        match self.direct {
            Direct::No => "false",
            Direct::Yes if self.findings.iter().any(holds) => "bypassed",
            Direct::Yes => "true",
        }
    }
}

/// The reading lane of a target.
pub fn spawn(context: Context, report: impl Fn(Report, Spent) + Send + 'static) -> Result<Lane, Errno> {
    Lane::spawn(Direction::Read, context, |context| Reader::new(context.clone()), report)
}

struct Reader {
    context: Context,
    random: fastrand::Rng,
    open: Option<Open>,
    spent: Spent,
}

struct Open {
    probe: ReadProbe,
    /// For the checks; the engine has its own handle.
    source: Source,
    expect: Expect,
    direct: Direct,
    target: Target,
    next_check: Tick,
    /// Where the file is to lie; `None` for a block device.
    seat: Option<Seat>,
}

impl Worker for Reader {
    fn work(&mut self, job: Job) -> Report {
        match job {
            Job::OpenFile { home, head } => self.opened(|lane| lane.open_file(&home, head)),
            Job::OpenDevice => self.opened(Self::open_device),
            Job::Read { planned } => self.read(planned),
            Job::Close => {
                self.context.inflight.begin_open_by_reader(clock::now());
                self.open = None;
                self.context.inflight.end_open_by_reader();
                Report::Closed
            }
            Job::Prepare { .. }
            | Job::Layout(_)
            | Job::Commit { .. }
            | Job::OpenSweep(_)
            | Job::Cell { .. }
            | Job::Carry { .. } => Report::Failed(closed()),
        }
    }

    fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }
}

impl Reader {
    fn new(context: Context) -> Self {
        let random = fastrand::Rng::with_seed(context.seed.rotate_left(17) ^ clock::now().nanos());
        Self { context, random, open: None, spent: Spent::default() }
    }

    fn opened(&mut self, open: impl FnOnce(&mut Self) -> Result<OpenedReads, Trouble>) -> Report {
        self.context.inflight.begin_open_by_reader(clock::now());
        self.open = None;
        let opened = open(self);
        self.context.inflight.end_open_by_reader();
        match opened {
            Ok(opened) => Report::Opened(Box::new(opened)),
            Err(trouble) => Report::Failed(trouble),
        }
    }

    fn open_file(&mut self, home: &Path, head: Head) -> Result<OpenedReads, Trouble> {
        let name = Role::Reads.file_name();
        let fail = |e| Trouble::io(Stage::Open, format_args!("cannot open {}", home.join(name).display()), e);
        let dir = Dir::open(home).map_err(fail)?;
        let open = |direct| dir.open_file(name, direct).map(|file| (file, direct));
        let (file, direct) = match open(Direct::Yes) {
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => open(Direct::No),
            other => other,
        }
        .map_err(fail)?;
        head.confirm(&file, &home.join(name), &mut self.spent.reads)?;
        let seat = Seat::of(&file, home.join(name)).map_err(fail)?;
        let target = self.resolve()?;
        let opened = self.start(target, Source::File(file), direct, Expect::File(head), fail)?;
        if let Some(open) = &mut self.open {
            open.seat = Some(seat);
        }
        Ok(opened)
    }

    fn open_device(&mut self) -> Result<OpenedReads, Trouble> {
        let target = self.resolve()?;
        let path = &target.path;
        let fail = |e| unresolved(&target::Error::of(path, e));
        let open = |direct| Device::open(path, direct).map(|device| (device, direct));
        let (device, direct) = match open(Direct::Yes) {
            Err(Errno::EINVAL) => open(Direct::No),
            other => other,
        }
        .map_err(fail)?;
        let blocks = device.size().map_err(fail)? / BLOCK as u64;
        if blocks == 0 {
            let message = format!("{} is smaller than one block of {BLOCK} bytes", path.display());
            return Err(Trouble::unsupported(Stage::Open, Errno::ENODATA, message));
        }
        let target_again = target.clone();
        self.start(target_again, Source::Device(device), direct, Expect::Device { blocks }, fail)
    }

    fn resolve(&self) -> Result<Target, Trouble> {
        target::resolve(&self.context.spec.path, &self.context.roots).map_err(|e| unresolved(&e))
    }

    fn start(
        &mut self,
        target: Target,
        source: Source,
        direct: Direct,
        expect: Expect,
        fail: impl Fn(Errno) -> Trouble,
    ) -> Result<OpenedReads, Trouble> {
        let spec = &self.context.spec;
        let wait = spec.read.map_or(Wait::Sleep, |read| read.wait);
        // A read through the page cache waits in a worker of the kernel when it goes through a ring.
        let wish = if direct == Direct::No { Wish::Threads } else { spec.engine };
        let own = source.duplicate().map_err(&fail)?;
        let opened = io::open(own, SLOTS, BLOCK as u32, wish, wait).map_err(&fail)?;
        let probe = ReadProbe::new(opened.engine, expect, self.random.fork());
        let engine = probe.engine();
        let next_check = clock::now() + CHECK_EVERY;
        let open = Open { probe, source, expect, direct, target: target.clone(), next_check, seat: None };
        let findings = open.check(&self.context, &mut self.random, &mut self.spent.reads);
        self.open = Some(open);
        Ok(OpenedReads { target, engine, reason: opened.reason, direct, findings })
    }

    fn read(&mut self, planned: Tick) -> Report {
        let Some(open) = &mut self.open else { return Report::Failed(closed()) };
        if let (Direct::No, Source::File(file)) = (open.direct, &open.source) {
            // The best that can be done where direct I/O is refused: the blocks are not in our cache when we ask.
            let _ = file.drop_cached();
        }
        let mut outcome = open.probe.run(planned, clock::now(), &self.context.inflight, &self.context.heart);
        outcome.finished = clock::now();
        if let (Ok(()), Some(seat)) = (&outcome.result, &open.seat) {
            self.context.inflight.begin_open_by_reader(clock::now());
            outcome.result = seat.check().map_err(|trouble| trouble.failure);
            self.context.inflight.end_open_by_reader();
        }
        if outcome.result.is_err() {
            self.open = None;
        } else if outcome.finished >= open.next_check {
            open.next_check = outcome.finished + CHECK_EVERY;
            self.context.inflight.begin(Op::Read, clock::now());
            let findings = open.check(&self.context, &mut self.random, &mut outcome.cost);
            outcome.findings.extend(findings);
            self.context.inflight.end(Op::Read);
        }
        Report::Ran(Box::new(outcome))
    }
}

impl Open {
    /// The checks that are too dear for every run.
    fn check(&self, context: &Context, random: &mut fastrand::Rng, cost: &mut Cost) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Source::File(file) = &self.source {
            findings.push(truth::unwritten(file.extents()));
        }
        if self.direct == Direct::Yes {
            let blocks = match self.expect {
                Expect::File(head) => head.blocks(),
                Expect::Device { blocks } => blocks,
            };
            let mut totals = Totals::of(&self.target, &context.roots);
            let mut reads = || totals.read().map(|total| total.reads);
            findings.push(truth::cached(&self.source, blocks, random, &mut reads, cost));
        }
        findings
    }
}

/// A job that does not fit what the lane holds; opening again mends it.
fn closed() -> Trouble {
    Trouble::io(Stage::Open, "the lane has nothing open", Errno::EBADFD)
}
