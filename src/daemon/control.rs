//! The control loop: one thread that owns planner and books, takes in what lanes report, starts what is due, and answers who
//! asks. It waits for messages and for time, never for a disk.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tokio::sync::oneshot;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Error;
use super::budget::Purse;
use super::inbox::{Inbox, Outbox};
use super::target::Target;
use super::work::{Desk, Tasks, Work};
use crate::clock::{self, Tick};
use crate::config::{Plan, TargetPlan};
use crate::io::Inflight;
use crate::probe::heartbeat::Heartbeat;
use crate::probe::{Method, Probe, State};
use crate::record::{self, Book, ProbePlan, Snapshot};
use crate::schedule::budget::BUDGET;
use crate::schedule::{
    CommitSpec, Context, DEVICE_BUSY, LaneId, Planner, ReadSpec, Report, Spec, TaskId, When, reader, writer,
};
use crate::sys;
use crate::target::Roots;

/// From this age on an operation is overdue: its target counts as down and stalled, and its claim on the device is forfeited.
const OVERDUE: Duration = Duration::from_secs(10);
/// How often ages are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Why slots are skipped.
const SKIP_REASONS: &[&str] = &[
    DEVICE_BUSY,
    BUDGET,
    State::LayingOut.label(),
    State::NoSpace.label(),
    State::ReadOnly.label(),
    State::Gone.label(),
    State::Permission.label(),
    State::Unsupported.label(),
];

/// Something for the control thread.
pub(super) enum Message {
    /// A lane of a target has finished a job.
    Report { target: usize, writes: bool, report: Report },
    /// Something was left for an impatient control thread.
    Wake,
    /// Somebody wants to see everything.
    Snapshot(oneshot::Sender<Arc<Snapshot>>),
    /// Somebody asks whether the first results are in; why not, if not.
    Ready(oneshot::Sender<Result<(), String>>),
    /// Start nothing more, and tell when nothing is out.
    Drain(oneshot::Sender<()>),
}

pub(super) struct Control {
    planner: Planner,
    book: Book,
    purse: Purse,
    targets: Vec<Target>,
    works: HashMap<TaskId, (usize, Work)>,
    /// By target: what the writing and the reading lane do now.
    out: Vec<[Option<TaskId>; 2]>,
    /// Good runs that are to be entered, in the order in which they came. All at once, once a second, costs a third of what they
    /// cost one by one on a CPU whose caches have lost us.
    to_enter: Vec<(usize, Work, Report)>,
    /// When all ages were last looked at.
    looked: Tick,
    /// When the last slice of a layout began, by disk.
    slices: HashMap<String, Tick>,
    draining: bool,
    drained: Option<oneshot::Sender<()>>,
}

impl Control {
    /// Starts every target's lanes; the first look at each target is due at once.
    pub(super) fn new(
        plan: &Plan,
        heart: &Arc<Heartbeat>,
        roots: &Arc<Roots>,
        messages: &Outbox,
    ) -> Result<Self, Error> {
        let now = clock::now();
        let epoch = clock::wall().saturating_sub(Duration::from_nanos(now.nanos()));
        let mut control = Self {
            planner: Planner::new(epoch, OVERDUE),
            book: Book::new(),
            purse: Purse::default(),
            targets: Vec::new(),
            works: HashMap::new(),
            out: Vec::new(),
            to_enter: Vec::new(),
            looked: now,
            slices: HashMap::new(),
            draining: false,
            drained: None,
        };
        let host = sys::hostname_hash();
        for target in &plan.targets {
            let context = Context {
                spec: Arc::new(spec(target)),
                inflight: Arc::new(Inflight::default()),
                heart: Arc::clone(heart),
                roots: Arc::clone(roots),
                seed: xxh3_64_with_seed(target.name.as_bytes(), host),
            };
            control.add(target, context, messages, now)?;
        }
        Ok(control)
    }

    fn add(
        &mut self,
        plan: &TargetPlan,
        context: Context,
        messages: &Outbox,
        now: Tick,
    ) -> Result<(), Error> {
        let at = self.targets.len();
        let report = |writes| {
            let messages = messages.clone();
            move |report: Report| {
                let good_run = matches!(&report, Report::Ran(outcome) if outcome.result.is_ok());
                let message = Message::Report { target: at, writes, report };
                if good_run {
                    messages.leave(message);
                } else {
                    // A control thread that is gone needs no reports.
                    let _ = messages.send(message);
                }
            }
        };
        let lanes = (
            writer::spawn(context.clone(), report(true)).map_err(|e| Error::Start("a writing lane", e))?,
            reader::spawn(context.clone(), report(false)).map_err(|e| Error::Start("a reading lane", e))?,
        );
        let tasks: Tasks = Work::ALL.map(|work| {
            let seed = context.seed.wrapping_add(work as u64);
            let task = self.planner.add(LaneId(at * 2 + usize::from(!work.writes())), seed);
            self.works.insert(task, (at, work));
            task
        });
        self.planner.set(tasks[Work::Prepare as usize], When::At(now), now);
        let books = books(plan, &context.inflight);
        let id = self.book.add_target(books.clone());
        self.purse.add(id, plan);
        self.targets.push(Target::new(id, books, lanes, tasks));
        self.out.push([None, None]);
        Ok(())
    }

    /// Until nobody can send a message any more.
    pub(super) fn run(mut self, inbox: &Inbox) {
        loop {
            self.take_what_is_left(inbox);
            let look = self.looked + LOOK;
            let (wake, waiting) = self.start_what_is_due();
            let wake = wake.map_or(look, |wake| wake.min(look));
            match inbox.wait(waiting, wake.since(clock::now())) {
                Ok(message) => {
                    self.take_what_is_left(inbox);
                    self.take(message);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Not at each wake-up: most are for a run, and every target is looked at here.
            if clock::now() >= look {
                self.look_at_ages();
            }
        }
    }

    /// Good runs free their lane and disk at once; the books can wait.
    fn take_what_is_left(&mut self, inbox: &Inbox) {
        while let Some(message) = inbox.left() {
            if let Message::Report { target, writes, report } = message
                && let Some(work) = self.back(target, writes, &report)
            {
                self.to_enter.push((target, work, report));
            }
        }
    }

    /// A lane has done its job: which it was. What it cost is charged at once.
    fn back(&mut self, target: usize, writes: bool, report: &Report) -> Option<Work> {
        let task = self.out[target][usize::from(!writes)].take()?;
        self.planner.finished(task);
        self.purse.charge(self.targets[target].id, report, clock::now());
        self.works.get(&task).map(|(_, work)| *work)
    }

    fn enter_all(&mut self) {
        for (target, work, report) in std::mem::take(&mut self.to_enter) {
            self.enter(target, work, report);
        }
    }

    fn enter(&mut self, at: usize, work: Work, report: Report) {
        self.with(at, |target, desk| target.report(work, report, desk));
        self.purse.tell(self.targets[at].id, &mut self.book, clock::now());
    }

    fn take(&mut self, message: Message) {
        self.enter_all();
        match message {
            Message::Wake => {}
            Message::Report { target, writes, report } => {
                if let Some(work) = self.back(target, writes, &report) {
                    self.enter(target, work, report);
                }
            }
            Message::Snapshot(tell) => {
                self.look_at_ages();
                // Whoever asked may be gone; that is no loss.
                let _ = tell.send(self.book.snapshot(clock::now()));
            }
            Message::Ready(tell) => {
                let missing = self.targets.iter().find_map(Target::not_ready);
                let _ = tell.send(missing.map_or(Ok(()), Err));
            }
            Message::Drain(tell) => (self.draining, self.drained) = (true, Some(tell)),
        }
    }

    /// When to ask again at the latest, and whether something waits for a lane to be done.
    fn start_what_is_due(&mut self) -> (Option<Tick>, bool) {
        if self.draining {
            if self.out.iter().flatten().all(Option::is_none) {
                let _ = self.drained.take().map(|tell| tell.send(()));
            }
            return (None, true);
        }
        let now = clock::now();
        let decision = self.planner.decide(now);
        for (task, slots) in decision.missed {
            self.count(task, |book, id, probe| book.missed(id, probe, slots));
        }
        for (task, reason, slots) in decision.skipped {
            self.count(task, |book, id, probe| book.skipped(id, probe, reason, slots));
        }
        let mut gave_back = false;
        for start in decision.start {
            let Some(&(at, work)) = self.works.get(&start.task) else { continue };
            if !self.purse.may_run(self.targets[at].id, work, now) {
                self.count(start.task, |book, id, probe| book.skipped(id, probe, BUDGET, 1));
                self.planner.finished(start.task);
                gave_back = true;
                continue;
            }
            let target = &mut self.targets[at];
            if let Some(later) =
                (work == Work::Layout).then(|| target.slice_later(&mut self.slices, now)).flatten()
            {
                self.planner.finished(start.task);
                self.planner.set(start.task, When::At(later), now);
                // What it had claimed for a moment may be wanted by others that were due.
                gave_back = true;
                continue;
            }
            let job = target.job(work, start.planned, now);
            let lane = if work.writes() { &target.writer } else { &target.reader };
            if job.is_some_and(|job| lane.give(None, job)) {
                self.out[at][usize::from(!work.writes())] = Some(start.task);
            } else {
                self.planner.finished(start.task);
                gave_back = true;
            }
        }
        (if gave_back { Some(now) } else { decision.wake }, decision.waiting)
    }

    fn count(&mut self, task: TaskId, count: impl FnOnce(&mut Book, record::TargetId, Probe)) {
        let Some((at, work)) = self.works.get(&task) else { return };
        let probe = match work {
            Work::Commit => Probe::Commit,
            Work::Read => Probe::Read,
            Work::Prepare | Work::Layout | Work::Open => return,
        };
        count(&mut self.book, self.targets[*at].id, probe);
    }

    fn look_at_ages(&mut self) {
        self.enter_all();
        self.looked = clock::now();
        for at in 0..self.targets.len() {
            self.with(at, Target::show);
        }
    }

    fn with(&mut self, at: usize, act: impl FnOnce(&mut Target, &mut Desk<'_>)) {
        let mut desk =
            Desk { planner: &mut self.planner, book: &mut self.book, now: clock::now(), wall: clock::wall() };
        act(&mut self.targets[at], &mut desk);
    }
}

pub(super) fn spec(plan: &TargetPlan) -> Spec {
    Spec {
        path: plan.path.clone(),
        probe_dir: plan.probe_dir.clone(),
        engine: plan.engine,
        commit: plan.commit.as_ref().map(|c| CommitSpec {
            profile: c.profile,
            method: c.method,
            file_size: c.file_size,
        }),
        read: plan.read.as_ref().map(|r| ReadSpec { wait: r.wait, file_size: r.file_size }),
        reserve: plan.reserve,
    }
}

pub(super) fn books(plan: &TargetPlan, inflight: &Arc<Inflight>) -> record::Plan {
    let commit = plan.commit.as_ref().map(|c| ProbePlan { probe: Probe::Commit, interval: c.interval.get() });
    let read = plan.read.as_ref().map(|r| ProbePlan { probe: Probe::Read, interval: r.interval.get() });
    record::Plan {
        labels: plan.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        profile: plan.commit.as_ref().map(|c| c.profile.label().to_owned()).unwrap_or_default(),
        sync_apart: plan.commit.as_ref().is_none_or(|c| c.method != Method::ODsync),
        probes: commit.into_iter().chain(read).collect(),
        overdue: OVERDUE,
        skip_reasons: SKIP_REASONS,
        ..record::Plan::new(plan.name.clone(), plan.path.display().to_string(), Arc::clone(inflight))
    }
}
