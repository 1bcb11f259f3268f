//! The lanes of one target for a person who waits: one job out at a time, looked at while it is out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::control::spec;
use super::once::Halt;
use super::start_ticker;
use crate::clock;
use crate::config::TargetPlan;
use crate::io::{Inflight, Op};
use crate::probe::heartbeat::Heartbeat;
use crate::schedule::{Context, Job, Lane, Report, reader, sweeper, writer};
use crate::sys::{self, Errno};
use crate::target::Roots;

/// How often what is out and the signals are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the lanes may take to let go of what they hold.
const RELEASE: Duration = Duration::from_secs(2);

/// The lanes of the target, one job out at a time.
pub(super) struct Lanes {
    writer: Lane,
    reader: Lane,
    /// There when the target is swept.
    sweeper: Option<Lane>,
    reports: Receiver<Report>,
    inflight: Arc<Inflight>,
    patience: Duration,
    told_to_end: Arc<AtomicU32>,
}

impl Lanes {
    pub(super) fn start(plan: &TargetPlan, patience: Duration, sweeps: bool) -> Result<Self, Errno> {
        let told_to_end = watch_signals()?;
        let heart = Arc::new(Heartbeat::new(clock::now()));
        start_ticker(Arc::clone(&heart), || (), || ()).map_err(|_| Errno::EAGAIN)?;
        let context = Context {
            spec: Arc::new(spec(plan)),
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
            sweeper: sweeps.then(|| sweeper::spawn(context.clone(), report())).transpose()?,
            reports,
            inflight: context.inflight,
            patience,
            told_to_end,
        })
    }

    /// Hands a job to its lane and waits for what comes of it, but not past a signal or the patience.
    pub(super) fn ask(&mut self, job: Job) -> Result<Report, Halt> {
        self.ask_while(job, &mut |lanes, out| lanes.look(out))
    }

    /// The same; `look` is asked all the while, with how long the job has been out, whether to wait on.
    pub(super) fn ask_while(
        &mut self,
        job: Job,
        look: &mut dyn FnMut(&Self, Duration) -> Result<(), Halt>,
    ) -> Result<Report, Halt> {
        let lane = match job {
            Job::OpenFile { .. } | Job::OpenDevice | Job::Read { .. } => Some(&self.reader),
            Job::OpenSweep(_) | Job::Cell { .. } => self.sweeper.as_ref(),
            _ => Some(&self.writer),
        };
        self.wait(lane, job, look)
    }

    /// Has the sweeping lane let go of all, and remove what it laid out.
    pub(super) fn close_sweep(&self) -> Result<Report, Halt> {
        self.wait(self.sweeper.as_ref(), Job::Close, &mut |lanes, out| {
            if out < lanes.patience { Ok(()) } else { Err(Halt::Hung(None, out)) }
        })
    }

    fn wait(
        &self,
        lane: Option<&Lane>,
        job: Job,
        look: &mut dyn FnMut(&Self, Duration) -> Result<(), Halt>,
    ) -> Result<Report, Halt> {
        let given = clock::now();
        let Some(lane) = lane else { return Err(Halt::Panicked("there is no such lane".to_owned())) };
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
                Err(RecvTimeoutError::Timeout) => look(self, clock::now().since(given))?,
            }
        }
    }

    fn look(&self, out: Duration) -> Result<(), Halt> {
        if self.signals() > 0 {
            return Err(Halt::Interrupted);
        }
        match out < self.patience {
            true => Ok(()),
            false => Err(self.oldest().map_or(Halt::Hung(None, out), |(op, age)| Halt::Hung(Some(op), age))),
        }
    }

    /// How many signals have told us to end.
    pub(super) fn signals(&self) -> u32 {
        self.told_to_end.load(Relaxed)
    }

    /// What has been out longest, and for how long.
    pub(super) fn oldest(&self) -> Option<(Op, Duration)> {
        self.oldest_but(None)
    }

    /// The same of all operations but those of one kind.
    pub(super) fn oldest_but(&self, spared: Option<Op>) -> Option<(Op, Duration)> {
        let now = clock::now();
        let ages =
            Op::ALL.into_iter().filter(|op| Some(*op) != spared).map(|op| (op, self.inflight.age(op, now)));
        ages.filter(|(_, age)| !age.is_zero()).max_by_key(|(_, age)| *age)
    }

    /// What is out.
    pub(super) fn inflight(&self) -> &Inflight {
        &self.inflight
    }

    /// Sleeps, but not past a signal.
    pub(super) fn rest(&self, span: Duration) -> Result<(), Halt> {
        let end = clock::now() + span;
        loop {
            if self.signals() > 0 {
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
    pub(super) fn release(self) -> bool {
        let Self { writer, reader, sweeper, reports, .. } = self;
        drop((writer, reader, sweeper));
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

/// Counts the signals that tell us to end.
fn watch_signals() -> Result<Arc<AtomicU32>, Errno> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut term, mut int, mut hup) = {
        let _inside = runtime.enter();
        let on = |kind| signal(kind).map_err(Errno::from);
        (on(SignalKind::terminate())?, on(SignalKind::interrupt())?, on(SignalKind::hangup())?)
    };
    let told = Arc::new(AtomicU32::new(0));
    let tell = Arc::clone(&told);
    let watch = move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = int.recv() => {}
                    _ = hup.recv() => {}
                }
                tell.fetch_add(1, Relaxed);
            }
        });
    };
    thread::Builder::new().name("signals".into()).stack_size(256 << 10).spawn(watch)?;
    Ok(told)
}
