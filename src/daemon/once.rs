//! Every probe of one target a number of times, one after the other, for a person who waits. The lanes are those of the
//! daemon, so that a disk which hangs holds a lane, and we can say since when.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::control::spec;
use super::start_ticker;
use crate::clock::{self, Tick};
use crate::config::TargetPlan;
use crate::io::{Inflight, Op};
use crate::probe::heartbeat::Heartbeat;
use crate::probe::layout::{self, Head, Role};
use crate::probe::{Finding, Outcome, Probe, Trouble};
use crate::schedule::reader::{self, OpenedReads};
use crate::schedule::writer::{self, FileState, Prepared};
use crate::schedule::{Context, Job, Lane, Report};
use crate::sys::{self, Errno};
use crate::target::{Roots, Target};

/// How often what is out and the signals are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the lanes may take to let go of what they hold.
const RELEASE: Duration = Duration::from_secs(2);

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Once {
    /// Where and how.
    pub plan: TargetPlan,
    /// Runs of each probe.
    pub rounds: u32,
    /// Rest before each run, so that its first operation is a first one.
    pub pause: Duration,
    /// How long one step may be out.
    pub patience: Duration,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes of a probe file are written, of so many.
    LayingOut(Role, u64, u64),
    /// So many runs of each probe are done.
    Measuring(u32),
}

/// Why it ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// This has not come back: an operation, if one is out, and for how long.
    Hung(Option<Op>, Duration),
    /// A signal said so.
    Interrupted,
    /// Nothing could be measured.
    Failed(Trouble),
    /// A lane panicked with this message.
    Panicked(String),
    /// A thread or signal handler could not be had.
    Start(Errno),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Ended {
    /// The target; `None` when it was not even looked at.
    pub target: Option<Target>,
    /// Our directory on it; `None` on a block device.
    pub home: Option<PathBuf>,
    /// How reads were done; `None` when there were none.
    pub opened: Option<OpenedReads>,
    /// Runs of the commit probe, in their order.
    pub commits: Vec<Outcome>,
    /// Runs of the read probe, in their order.
    pub reads: Vec<Outcome>,
    /// Probe files that were begun to be laid out.
    pub laid: Vec<Role>,
    /// Why it ended early, if it did.
    pub halt: Option<Halt>,
    /// Whether the lanes are gone, and with them every open file and the lock.
    pub released: bool,
}

/// Looks at the target, lays out what is missing, and runs each probe. `tell` hears what is being done.
pub fn once(wish: &Once, tell: &mut dyn FnMut(Step)) -> Ended {
    let mut ended = Ended::default();
    let mut lanes = match Lanes::start(wish) {
        Ok(lanes) => lanes,
        Err(errno) => return Ended { halt: Some(Halt::Start(errno)), released: true, ..ended },
    };
    ended.halt = all(wish, &mut lanes, &mut ended, tell).err();
    ended.released = lanes.release();
    ended
}

fn all(wish: &Once, lanes: &mut Lanes, ended: &mut Ended, tell: &mut dyn FnMut(Step)) -> Result<(), Halt> {
    let prepared = match lanes.ask(Job::Prepare)? {
        Report::Prepared(prepared) => *prepared,
        other => return Err(failed(other)),
    };
    (ended.target, ended.home) = (Some(prepared.target.clone()), prepared.home.clone());
    let mut found = Vec::new();
    let [commits, reads] = files(&prepared, lanes, ended, &mut found, tell)?;
    let wants_reads = wish.plan.read.is_some() && (prepared.home.is_none() || reads.is_some());
    let reading = wants_reads && open(prepared.home, reads, lanes, ended)?;
    let rounds = measure(wish, [commits.is_some(), reading], lanes, ended, tell);
    let opened = ended.opened.iter().flat_map(|o| &o.findings).map(|f| (Probe::Read, f.clone()));
    found.extend(opened.collect::<Vec<_>>());
    for (probe, finding) in found {
        let runs = if probe == Probe::Commit { &mut ended.commits } else { &mut ended.reads };
        if let Some(run) = runs.first_mut() {
            run.findings.push(finding);
        }
    }
    rounds
}

/// The probe files that are complete in the end. One that cannot be had is a failed run of its probe.
fn files(
    prepared: &Prepared,
    lanes: &mut Lanes,
    ended: &mut Ended,
    found: &mut Vec<(Probe, Finding)>,
    tell: &mut dyn FnMut(Step),
) -> Result<[Option<Head>; 2], Halt> {
    let mut heads = [None, None];
    let each =
        [(Role::Commits, Probe::Commit, &prepared.commits), (Role::Reads, Probe::Read, &prepared.reads)];
    for (head, (role, probe, state)) in heads.iter_mut().zip(each) {
        let laid = match state {
            None => continue,
            Some(FileState::Ready(ready)) => Ok(*ready),
            Some(FileState::Trouble(trouble)) => Err(trouble.clone()),
            Some(FileState::Lay) => {
                ended.laid.push(role);
                lay(role, lanes, tell)?.map(|(head, finding)| {
                    found.push((probe, finding));
                    head
                })
            }
        };
        match laid {
            Ok(ready) => *head = Some(ready),
            Err(trouble) => fail(probe, trouble, ended),
        }
    }
    Ok(heads)
}

fn lay(
    role: Role,
    lanes: &mut Lanes,
    tell: &mut dyn FnMut(Step),
) -> Result<Result<(Head, Finding), Trouble>, Halt> {
    loop {
        let began = clock::now();
        match lanes.ask(Job::Layout(role))? {
            Report::Laying { done, total, .. } => tell(Step::LayingOut(role, done, total)),
            Report::Laid { head, finding, .. } => return Ok(Ok((head, finding))),
            Report::Failed(trouble) => return Ok(Err(trouble)),
            other => return Err(failed(other)),
        }
        if role == Role::Reads {
            lanes.rest(layout::pace(layout::RATE).saturating_sub(clock::now().since(began)))?;
        }
    }
}

/// Whether reads can begin.
fn open(
    home: Option<PathBuf>,
    head: Option<Head>,
    lanes: &mut Lanes,
    ended: &mut Ended,
) -> Result<bool, Halt> {
    let job = match (home, head) {
        (Some(home), Some(head)) => Job::OpenFile { home, head },
        _ => Job::OpenDevice,
    };
    match lanes.ask(job)? {
        Report::Opened(opened) => ended.opened = Some(*opened),
        Report::Failed(trouble) => fail(Probe::Read, trouble, ended),
        other => return Err(failed(other)),
    }
    Ok(ended.opened.is_some())
}

/// A probe that failed is not run again: what it said is what there is to say.
fn measure(
    wish: &Once,
    mut on: [bool; 2],
    lanes: &mut Lanes,
    ended: &mut Ended,
    tell: &mut dyn FnMut(Step),
) -> Result<(), Halt> {
    for round in 0..wish.rounds {
        tell(Step::Measuring(round));
        for probe in Probe::ALL.iter().copied() {
            if !on[probe as usize] {
                continue;
            }
            lanes.rest(wish.pause)?;
            let planned = clock::now();
            let commits = probe == Probe::Commit;
            match lanes.ask(if commits { Job::Commit { planned } } else { Job::Read { planned } })? {
                Report::Ran(outcome) => {
                    on[probe as usize] = outcome.result.is_ok();
                    if commits { &mut ended.commits } else { &mut ended.reads }.push(*outcome);
                }
                Report::Failed(trouble) => {
                    on[probe as usize] = false;
                    fail(probe, trouble, ended);
                }
                other => return Err(failed(other)),
            }
        }
    }
    Ok(())
}

fn fail(probe: Probe, trouble: Trouble, ended: &mut Ended) {
    let now = clock::now();
    let mut run = Outcome::begin(probe, now, now);
    run.result = Err(trouble.failure);
    if probe == Probe::Commit { &mut ended.commits } else { &mut ended.reads }.push(run);
}

fn failed(report: Report) -> Halt {
    match report {
        Report::Failed(trouble) => Halt::Failed(trouble),
        Report::Panicked(message) => Halt::Panicked(message),
        other => Halt::Panicked(format!("the lane answered something else: {other:?}")),
    }
}

/// Both lanes of the target, one job out at a time.
struct Lanes {
    writer: Lane,
    reader: Lane,
    reports: Receiver<Report>,
    inflight: Arc<Inflight>,
    patience: Duration,
    told_to_end: Arc<AtomicBool>,
}

impl Lanes {
    fn start(wish: &Once) -> Result<Self, Errno> {
        let told_to_end = watch_signals()?;
        let heart = Arc::new(Heartbeat::new(clock::now()));
        start_ticker(Arc::clone(&heart), || (), || ()).map_err(|_| Errno::EAGAIN)?;
        let context = Context {
            spec: Arc::new(spec(&wish.plan)),
            inflight: Arc::new(Inflight::default()),
            heart,
            roots: Arc::new(Roots::default()),
            seed: sys::hostname_hash(),
        };
        let (sender, reports) = channel();
        let report = || {
            let sender = sender.clone();
            // Whoever asked may have given up; then nobody needs the answer.
            move |report, _| drop(sender.send(report))
        };
        Ok(Self {
            writer: writer::spawn(context.clone(), report())?,
            reader: reader::spawn(context.clone(), report())?,
            reports,
            inflight: context.inflight,
            patience: wish.patience,
            told_to_end,
        })
    }

    fn ask(&mut self, job: Job) -> Result<Report, Halt> {
        let reads = matches!(job, Job::OpenFile { .. } | Job::OpenDevice | Job::Read { .. });
        let lane = if reads { &self.reader } else { &self.writer };
        let given = clock::now();
        if !lane.give(None, job) {
            return Err(Halt::Panicked("the lane takes no job".to_owned()));
        }
        loop {
            match self.reports.recv_timeout(LOOK) {
                Ok(Report::Panicked(message)) => return Err(Halt::Panicked(message)),
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Halt::Panicked("the lane is gone".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => self.look(given)?,
            }
        }
    }

    fn look(&self, given: Tick) -> Result<(), Halt> {
        if self.told_to_end.load(Relaxed) {
            return Err(Halt::Interrupted);
        }
        let now = clock::now();
        let out = now.since(given);
        if out < self.patience {
            return Ok(());
        }
        let ages = Op::ALL.map(|op| (op, self.inflight.age(op, now)));
        let oldest = ages.into_iter().filter(|(_, age)| !age.is_zero()).max_by_key(|(_, age)| *age);
        Err(oldest.map_or(Halt::Hung(None, out), |(op, age)| Halt::Hung(Some(op), age)))
    }

    /// Sleeps, but not past a signal.
    fn rest(&self, span: Duration) -> Result<(), Halt> {
        let end = clock::now() + span;
        loop {
            if self.told_to_end.load(Relaxed) {
                return Err(Halt::Interrupted);
            }
            let left = end.since(clock::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Lets the lanes end; whether they did, which one that is stuck does not.
    fn release(self) -> bool {
        let Self { writer, reader, reports, .. } = self;
        drop((writer, reader));
        let end = clock::now() + RELEASE;
        loop {
            match reports.recv_timeout(end.since(clock::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

/// A flag that is set when a signal tells us to end.
fn watch_signals() -> Result<Arc<AtomicBool>, Errno> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut term, mut int, mut hup) = {
        let _inside = runtime.enter();
        let on = |kind| signal(kind).map_err(Errno::from);
        (on(SignalKind::terminate())?, on(SignalKind::interrupt())?, on(SignalKind::hangup())?)
    };
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    let watch = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
                _ = hup.recv() => {}
            }
        });
        tell.store(true, Relaxed);
    };
    thread::Builder::new().name("signals".into()).stack_size(256 << 10).spawn(watch)?;
    Ok(told)
}
