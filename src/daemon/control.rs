//! The control loop: one thread that owns planner and books, takes in what lanes report, starts what is due, and answers who
//! asks. It waits for messages and for time, never for a disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tokio::sync::oneshot;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Error;
use super::budget::Purse;
use super::discovery::Sighting;
use super::inbox::{Inbox, Outbox};
use super::keep::Keeper;
use super::reload::Changes;
use super::sampler::{Sampling, Seen};
use super::seats::{Key, Seats};
use super::sweeping::Sweeps;
use super::target::{PAUSED, Target};
use super::wanted::Wanted;
use super::work::{Desk, Work};
use crate::clock::{self, Tick};
use crate::config::{Plan, TargetPlan};
use crate::expose::OwnCounters;
use crate::http::{Command, NoTarget};
use crate::io::Inflight;
use crate::probe::commit::COMMITS;
use crate::probe::heartbeat::Heartbeat;
use crate::probe::read::SINGLES;
use crate::probe::{Method, Probe, Spent, State};
use crate::record::{self, Book, ProbePlan, Snapshot};
use crate::schedule::budget::BUDGET;
use crate::schedule::sweep::SWEEP;
use crate::schedule::{
    CommitSpec, DEVICE_BUSY, Decision, Direction, LaneId, Planner, ReadSpec, Report, Spec, Start, TaskId,
    When,
};
use crate::sys;
use crate::target::Roots;
use crate::units::{Bytes, Span};

/// How long a run may hold a disk whatever comes of it. An operation that is stalled forfeits the disk before.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// How often ages are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often the thresholds are learned anew.
const LEARN: Duration = Duration::from_secs(60);

/// Why slots are skipped.
const SKIP_REASONS: &[&str] = &[
    DEVICE_BUSY,
    PAUSED,
    BUDGET,
    SWEEP,
    State::LayingOut.label(),
    State::NoSpace.label(),
    State::ReadOnly.label(),
    State::Gone.label(),
    State::Permission.label(),
    State::Unsupported.label(),
];

/// Something for the control thread.
pub(super) enum Message {
    /// A lane has finished a job.
    Report { lane: LaneId, report: Report, spent: Spent },
    /// Something was left for an impatient control thread.
    Wake,
    /// Somebody wants to see everything.
    Snapshot(oneshot::Sender<Arc<Snapshot>>),
    /// Somebody asks whether the first results are in; why not, if not.
    Ready(oneshot::Sender<Result<(), String>>),
    /// Somebody asks for something to be done.
    Command(Command, oneshot::Sender<Result<(), NoTarget>>),
    /// What was looked for is there, for the plan of this number.
    Discovered(u64, Vec<Sighting>),
    /// Go by this plan from now on.
    Reload(Box<Plan>, oneshot::Sender<Result<Changes, String>>),
    /// Start nothing more, and tell when nothing is out.
    Drain(oneshot::Sender<()>),
}

pub(super) struct Control {
    pub(super) planner: Planner,
    pub(super) book: Book,
    pub(super) keeper: Keeper,
    pub(super) purse: Purse,
    pub(super) sampling: Sampling,
    /// What the sampler saw last.
    pub(super) seen: Arc<Seen>,
    pub(super) sweeps: Sweeps,
    /// How many sweeps the sampler looks at.
    pub(super) watched: usize,
    /// For the buffers of all sweeps.
    pub(super) memory: Bytes,
    pub(super) targets: BTreeMap<Key, Target>,
    pub(super) next_key: u64,
    pub(super) works: HashMap<TaskId, (Key, Work)>,
    pub(super) seats: Seats,
    pub(super) wanted: Wanted,
    /// Good runs that are to be entered, in the order in which they came. All at once, once a second, costs a third of what they
    /// cost one by one on a CPU whose caches have lost us.
    to_enter: Vec<(Key, Work, Report, Spent)>,
    /// When all ages were last looked at, and the thresholds learned.
    looked: Tick,
    learned: Tick,
    /// When the last slice of a layout began, by disk.
    slices: HashMap<String, Tick>,
    host: u64,
    pub(super) draining: bool,
    drained: Option<oneshot::Sender<()>>,
}

impl Control {
    /// Starts every target's lanes; the first look at each target is due at once.
    pub(super) fn new(
        plan: &Plan,
        heart: &Arc<Heartbeat>,
        roots: &Arc<Roots>,
        messages: &Outbox,
        keeper: Keeper,
        own: &OwnCounters,
    ) -> Result<Self, Error> {
        let now = clock::now();
        let epoch = clock::wall().saturating_sub(Duration::from_nanos(now.nanos()));
        let mut control = Self {
            planner: Planner::new(epoch, LEASE),
            book: Book::new(),
            keeper,
            purse: Purse::default(),
            sampling: Sampling::start(roots)?,
            seen: Arc::default(),
            sweeps: Sweeps::new(),
            watched: 0,
            memory: plan.memory,
            targets: BTreeMap::new(),
            next_key: 0,
            works: HashMap::new(),
            seats: Seats::new(heart, roots, messages),
            wanted: Wanted::new(plan, roots, messages, own)?,
            to_enter: Vec::new(),
            looked: now,
            learned: now,
            slices: HashMap::new(),
            host: sys::hostname_hash(),
            draining: false,
            drained: None,
        };
        if let Some(left) = control.keeper.budgets() {
            control.purse.restore(left, now, clock::wall());
        }
        if let Some(spent) = control.keeper.sweep_budgets() {
            control.purse.restore_sweeps(spent);
        }
        plan.targets.iter().try_for_each(|target| control.add(target))?;
        Ok(control)
    }

    /// Makes a target's instants and content.
    pub(super) fn seed(&self, name: &str) -> u64 {
        seed(name, self.host)
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
                self.look();
            }
        }
    }

    /// Good runs free their lane and disk at once; the books can wait.
    fn take_what_is_left(&mut self, inbox: &Inbox) {
        while let Some(message) = inbox.left() {
            if let Message::Report { lane, report, spent } = message
                && let Some((key, work)) = self.back(lane, &report)
            {
                self.to_enter.push((key, work, report, spent));
            }
        }
    }

    /// A lane has done its job: for which target, and which it was; `None` when that target was taken away meanwhile. What it has
    /// cost is charged at once.
    fn back(&mut self, lane: LaneId, report: &Report) -> Option<(Key, Work)> {
        let (_, task) = self.seats.back(lane)?;
        self.planner.finished(task);
        let Some((key, work)) = self.works.get(&task).copied() else {
            self.purse.charge_late(task, report, clock::now(), clock::wall());
            return None;
        };
        if let Some(toll) = self.purse.charge(key, report, clock::now()) {
            self.account(key, toll.operations, toll.write + toll.read);
        }
        Some((key, work))
    }

    fn enter_all(&mut self) {
        for (key, work, report, spent) in std::mem::take(&mut self.to_enter) {
            self.with(key, |target, desk| target.report(work, report, &spent, desk));
        }
    }

    fn take(&mut self, message: Message) {
        self.enter_all();
        match message {
            Message::Wake => {}
            Message::Report { lane, report, spent } => match self.back(lane, &report) {
                Some((key, Work::Sweep)) => self.sweep_report(key, report, &spent),
                Some((key, work)) => {
                    self.with(key, |target, desk| target.report(work, report, &spent, desk));
                }
                None => {}
            },
            // Whoever asked may be gone; that is no loss.
            Message::Snapshot(tell) => {
                self.look();
                let _ = tell.send(self.book.snapshot(clock::now()));
            }
            Message::Ready(tell) => {
                let missing = self.targets.values().find_map(Target::not_ready);
                let missing = missing.or_else(|| self.wanted.not_ready());
                let _ = tell.send(missing.map_or(Ok(()), Err));
            }
            Message::Command(command, tell) => {
                let _ = tell.send(self.command(&command));
            }
            Message::Reload(plan, tell) => {
                let _ = tell.send(self.reload(&plan));
            }
            Message::Discovered(number, found) => self.discovered(number, &found),
            Message::Drain(tell) => {
                self.keeper.save(&self.targets, &mut self.purse, clock::now(), clock::wall());
                (self.draining, self.drained) = (true, Some(tell));
                self.stop_sweeps();
            }
        }
    }

    /// Does what somebody asks for.
    fn command(&mut self, command: &Command) -> Result<(), NoTarget> {
        let (Command::Pause { target, .. } | Command::Resume { target }) = command;
        let known = self.targets.iter().find(|(_, t)| t.name == *target).map(|(key, _)| *key);
        let key = known.ok_or_else(|| NoTarget(self.targets.values().map(|t| t.name.clone()).collect()))?;
        self.with(key, |target, desk| match command {
            Command::Pause { length, .. } => target.pause(*length, desk),
            Command::Resume { .. } => target.resume(desk),
        });
        if let Command::Resume { target } = command {
            self.keeper.resumed(target);
        }
        self.keeper.look(&mut self.targets, &mut self.purse, clock::now(), clock::wall());
        Ok(())
    }

    /// When to ask again at the latest, and whether something waits for a lane to be done.
    fn start_what_is_due(&mut self) -> (Option<Tick>, bool) {
        if self.draining {
            if !self.seats.any_out()
                && let Some(tell) = self.drained.take()
            {
                // A sweep that was stopped has something to keep.
                self.keeper.save(&self.targets, &mut self.purse, clock::now(), clock::wall());
                let _ = tell.send(());
            }
            return (None, true);
        }
        let now = clock::now();
        let Decision { start, missed, skipped, waiting, wake } = self.planner.decide(now);
        for (task, slots) in missed {
            self.count(task, |book, id, probe| book.missed(id, probe, slots));
        }
        for (task, reason, slots) in skipped {
            self.count(task, |book, id, probe| book.skipped(id, probe, reason, slots));
        }
        let mut gave_back = false;
        for start in start {
            if !self.start(start, now) {
                self.planner.finished(start.task);
                gave_back = true;
            }
        }
        // What was claimed for a moment and given back may be wanted by others that were due.
        (if gave_back { Some(now) } else { wake }, waiting)
    }

    /// Gives a job to its lane; `false` when there is nothing to do now.
    fn start(&mut self, start: Start, now: Tick) -> bool {
        let Some(&(key, work)) = self.works.get(&start.task) else { return false };
        if work == Work::Sweep {
            return self.start_sweep(key, start);
        }
        if !self.purse.may_run(key, work, now) {
            self.count(start.task, |book, id, probe| book.skipped(id, probe, BUDGET, 1));
            return false;
        }
        let Some(target) = self.targets.get_mut(&key) else { return false };
        if let Some(later) =
            (work == Work::Layout).then(|| target.slice_later(&mut self.slices, now)).flatten()
        {
            self.planner.set(start.task, When::At(later), now);
            return false;
        }
        let Some(job) = target.job(work, start.planned, now) else { return false };
        let (lane, spec) = target.lane(work);
        let given = self.seats.give(lane, spec, job, start.task);
        if given {
            target.given(work);
        }
        given
    }

    fn count(&mut self, task: TaskId, count: impl FnOnce(&mut Book, record::TargetId, Probe)) {
        let Some((key, work)) = self.works.get(&task) else { return };
        let probe = match work {
            Work::Commit => Probe::Commit,
            Work::Read => Probe::Read,
            Work::Prepare | Work::Layout | Work::Open | Work::Sweep => return,
        };
        if let Some(target) = self.targets.get(key) {
            count(&mut self.book, target.id, probe);
        }
    }

    /// Looks at what is out everywhere, and lets what is stalled forfeit its disk.
    fn look(&mut self) {
        self.enter_all();
        let now = clock::now();
        // When we were stopped ourselves, ages tell about us; what is still out at the next look is judged then.
        let judge = now.since(self.looked) < 3 * LOOK;
        self.looked = now;
        if now.since(self.learned) >= LEARN {
            self.learned = now;
            self.book.learn(now);
        }
        for key in self.targets.keys().copied().collect::<Vec<_>>() {
            let forfeited = self.with(key, |target, desk| {
                let forfeited = if judge { target.watch(desk) } else { Vec::new() };
                target.show(desk);
                forfeited
            });
            let forfeited = forfeited.unwrap_or_default();
            for direction in forfeited {
                if direction == Direction::Sweep {
                    self.sweep_stalled(key);
                    continue;
                }
                let task = self.targets.get(&key).and_then(|t| self.seats.out(t.lanes[direction as usize]));
                task.into_iter().for_each(|task| self.planner.forfeit(task));
            }
            // Whoever shares a disk sees what others have left of it.
            if let Some(target) = self.targets.get(&key) {
                self.purse.tell(key, target.id, &mut self.book, now);
            }
        }
        self.take_up_late();
        self.keeper.look(&mut self.targets, &mut self.purse, now, clock::wall());
        let seen = self.sampling.exchange(&mut self.book);
        self.look_at_sweeps(&seen);
    }

    pub(super) fn with<T>(
        &mut self,
        key: Key,
        act: impl FnOnce(&mut Target, &mut Desk<'_>) -> T,
    ) -> Option<T> {
        let target = self.targets.get_mut(&key)?;
        let mut desk =
            Desk { planner: &mut self.planner, book: &mut self.book, now: clock::now(), wall: clock::wall() };
        Some(act(target, &mut desk))
    }
}

/// Makes a target's instants and content, on the host of this number.
pub(super) fn seed(name: &str, host: u64) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), host)
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
    let commit = plan.commit.as_ref().map(|c| ProbePlan {
        probe: Probe::Commit,
        interval: c.interval.get(),
        operations: COMMITS as u32,
    });
    let read = plan.read.as_ref().map(|r| ProbePlan {
        probe: Probe::Read,
        interval: r.interval.get(),
        operations: SINGLES as u32,
    });
    record::Plan {
        labels: plan.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        profile: plan.commit.as_ref().map(|c| c.profile.label().to_owned()).unwrap_or_default(),
        sync_apart: plan.commit.as_ref().is_none_or(|c| c.method != Method::ODsync),
        probes: commit.into_iter().chain(read).collect(),
        stall_threshold: plan.stall_threshold.map(Span::get),
        skip_reasons: SKIP_REASONS,
        ..record::Plan::new(plan.name.clone(), plan.path.display().to_string(), Arc::clone(inflight))
    }
}
