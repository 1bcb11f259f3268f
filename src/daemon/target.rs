//! One target's course: found, laid out, probed, in trouble, found again. Plain state; what it wants done it tells the
//! planner, what it learnt it tells the books.

mod again;
mod change;
mod known;
mod lines;
mod pause;
mod state;
mod swept;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::facts::{Opened, facts};
use super::seats::Pair;
use super::watch::Watch;
use super::work::{Desk, Fell, Tasks, Work};
use crate::clock::Tick;
use crate::config::TargetPlan;
use crate::persist::Known;
use crate::probe::layout::{self, Head, Role};
use crate::probe::{Failure, Outcome, Probe, Spent, State, Trouble};
use crate::record::{self, TargetId};
use crate::schedule::reader::OpenedReads;
use crate::schedule::writer::{FileState, Prepared};
use crate::schedule::{Direction, Job, LaneId, Planner, Report, Spec, TaskId, When};
use crate::target;
use lines::Lines;
use pause::Course;
pub(super) use pause::PAUSED;

/// Bytes of a commit file that are laid out as fast as the disk takes them.
const UNHINDERED: u64 = 64 << 20;
/// The first wait before what failed is tried again; it doubles up to the longest.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The same for layouts that failed.
const LAY_AGAIN: Duration = Duration::from_secs(2);
const LONGEST_LAY_AGAIN: Duration = Duration::from_secs(3600);
/// How often a target that is well is looked at anew: a directory may be removed, a mount hidden, a setting changed.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// A target and where it is in its course.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) id: TargetId,
    pub(super) config: TargetPlan,
    pub(super) plan: record::Plan,
    pub(super) lanes: Pair,
    pub(super) tasks: Tasks,
    spec: Arc<Spec>,
    /// What the lanes are to go by and were not told yet.
    unsaid: [Option<Arc<Spec>>; 2],
    /// What the lane does was asked for by another spec.
    stale: [bool; 2],
    /// What is stale of the commits is of another kind than what is measured now.
    other_commits: bool,
    watch: Watch,
    intervals: [Option<Duration>; 2],
    found: Option<target::Target>,
    opened: Option<Opened>,
    home: Option<PathBuf>,
    read_head: Option<Head>,
    to_lay: VecDeque<Role>,
    devices: Vec<String>,
    slice_began: Tick,
    /// Bytes of the present layout that are written.
    laid: u64,
    whole: Option<Trouble>,
    parts: [Option<Trouble>; 2],
    /// What the reading lane has open.
    reading: Option<(PathBuf, Head)>,
    /// The read file was laid out anew because its extents were not written; once is enough to tell a file system that always says so.
    relaid: bool,
    /// When a layout that failed may begin again, by probe, and how often it failed.
    lay_after: [Option<Tick>; 2],
    lay_failures: [u32; 2],
    /// Failures since the last success, of the whole and of each probe.
    failures: [u32; 3],
    shown: Option<State>,
    /// What each probe does while there is no pause.
    courses: [Course; 2],
    pause_ends: Option<Tick>,
    known: Known,
    /// Whether something changed that is to outlive a restart.
    to_keep: bool,
    /// What the log says, and how much more it may.
    said: Option<State>,
    said_no_ring: bool,
    lines: Lines,
    seed: u64,
}

impl Target {
    pub(super) fn new(
        id: TargetId,
        config: TargetPlan,
        spec: Arc<Spec>,
        plan: record::Plan,
        lanes: Pair,
        tasks: Tasks,
        seed: u64,
    ) -> Self {
        let interval = |probe| plan.probes.iter().find(|p| p.probe == probe).map(|p| p.interval);
        Self {
            name: plan.name.clone(),
            id,
            config,
            intervals: [interval(Probe::Commit), interval(Probe::Read)],
            plan,
            lanes,
            tasks,
            unsaid: [Some(Arc::clone(&spec)), Some(Arc::clone(&spec))],
            spec,
            stale: [false; 2],
            other_commits: false,
            watch: Watch::default(),
            found: None,
            opened: None,
            home: None,
            read_head: None,
            to_lay: VecDeque::new(),
            devices: Vec::new(),
            slice_began: Tick::default(),
            laid: 0,
            whole: None,
            parts: [None, None],
            reading: None,
            relaid: false,
            lay_after: [None; 2],
            lay_failures: [0; 2],
            failures: [0; 3],
            shown: None,
            courses: [Course::Idle; 2],
            pause_ends: None,
            known: Known::default(),
            to_keep: false,
            said: None,
            said_no_ring: false,
            lines: Lines::new(),
            seed,
        }
    }

    /// Whether something changed that is to be kept, since the last call.
    pub(super) fn take_to_keep(&mut self) -> bool {
        std::mem::take(&mut self.to_keep)
    }

    /// Whether it lies in the file system of this (major, minor), as far as its lane has found out.
    pub(super) fn lies_in(&self, file_system: (u32, u32)) -> bool {
        self.found
            .as_ref()
            .and_then(|found| found.mount.as_ref())
            .is_some_and(|mount| mount.device == file_system)
    }

    /// What is due first: a look, and with reads off, the end of reads.
    pub(super) fn begin(&self, planner: &mut Planner, now: Tick) {
        planner.set(self.task(Work::Prepare), When::At(now), now);
        if self.intervals[Probe::Read as usize].is_none() {
            planner.set(self.task(Work::Open), When::At(now), now);
        }
    }

    pub(super) fn task(&self, work: Work) -> TaskId {
        self.tasks[work as usize]
    }

    /// The lane that does this work, and what it must be told first.
    pub(super) fn lane(&self, work: Work) -> (LaneId, Option<Arc<Spec>>) {
        let direction = work.direction() as usize;
        (self.lanes[direction], self.unsaid[direction].clone())
    }

    /// A job was given to the lane that does this work.
    pub(super) fn given(&mut self, work: Work) {
        self.unsaid[work.direction() as usize] = None;
    }

    /// The job that a task asks for now; `None` when there is nothing to do any more.
    pub(super) fn job(&mut self, work: Work, planned: Tick, now: Tick) -> Option<Job> {
        Some(match work {
            Work::Prepare | Work::Open if self.pause_ends.is_some() => Job::Close,
            Work::Prepare => Job::Prepare { was: self.mounted() },
            Work::Layout => {
                self.slice_began = now;
                Job::Layout(*self.to_lay.front()?)
            }
            Work::Commit => Job::Commit { planned },
            Work::Read => Job::Read { planned },
            // A lane that did read keeps what it has open until it is told; that would hold on to a file system that is gone.
            Work::Open if self.intervals[Probe::Read as usize].is_none() || self.whole.is_some() => {
                Job::Close
            }
            Work::Open => match (&self.home, self.read_head) {
                (Some(home), head) => Job::OpenFile { home: home.clone(), head: head? },
                (None, _) => Job::OpenDevice,
            },
            // Not a target's own.
            Work::Sweep => return None,
        })
    }

    /// Takes in what came of the job that `work` asked for.
    pub(super) fn report(&mut self, work: Work, report: Report, spent: &Spent, desk: &mut Desk<'_>) {
        desk.book.add_cost(self.id, Probe::Commit, &spent.commits);
        desk.book.add_cost(self.id, Probe::Read, &spent.reads);
        let stale = std::mem::take(&mut self.stale[work.direction() as usize]);
        // A panic is one whoever asked.
        if stale && !matches!(report, Report::Panicked(_)) {
            self.came_too_late(&report, desk);
            return;
        }
        match report {
            Report::Prepared(prepared) => self.prepared(*prepared, desk),
            Report::Laying { role, done, total } => {
                desk.book.set_layout(self.id, probe_of(role), done, total);
                self.laid = done;
                self.next_slice(desk);
            }
            Report::Laid { role, head, finding } => {
                desk.book.set_layout(self.id, probe_of(role), head.size, head.size);
                desk.book.find(self.id, probe_of(role), &finding);
                self.laid(role, head, desk);
            }
            Report::Opened(opened) => self.opened(&opened, desk),
            // Those of a sweeping lane are no part of a target's own course.
            Report::Closed | Report::SweepReady(_) | Report::Cell(_) | Report::Carried(_) => {}
            Report::Ran(outcome) => self.ran(&outcome, desk),
            Report::Failed(trouble) => self.failed(work, trouble, desk),
            Report::Panicked(message) => {
                tracing::error!(name = self.name, message, "a lane panicked; it goes on with a new worker");
                desk.book.lane_panicked(self.id);
                // Its worker has nothing open any more.
                for probe in
                    Probe::ALL.iter().filter(|probe| work_of(**probe).direction() == work.direction())
                {
                    self.hold(*probe, State::Gone, desk);
                }
                if work.direction() == Direction::Write {
                    self.plan.inflight.clear_writer();
                } else {
                    self.plan.inflight.clear_reader();
                    self.reads_closed();
                }
                self.try_again(Fell::Whole, desk);
            }
        }
        self.show(desk);
    }

    fn prepared(&mut self, prepared: Prepared, desk: &mut Desk<'_>) {
        (self.whole, self.failures[Fell::Whole as usize]) = (None, 0);
        self.to_lay.clear();
        self.took_place(&prepared, desk);
        self.recognise(&prepared, desk);
        (self.home, self.read_head) = (prepared.home, None);
        self.found = Some(prepared.target);
        self.tell_facts(desk);
        self.look_again(desk.now + LOOK_AGAIN, desk);
        if self.home.is_none() {
            if self.opened.is_none() || self.parts[Probe::Read as usize].is_some() {
                desk.planner.set(self.task(Work::Open), When::At(desk.now), desk.now);
            } else {
                self.go(Probe::Read, desk);
            }
            return;
        }
        for (role, state) in [(Role::Commits, prepared.commits), (Role::Reads, prepared.reads)] {
            match state {
                None => {}
                Some(FileState::Ready(head)) => self.file_ready(role, head, desk),
                Some(FileState::Lay) => self.lay_when_it_may(role, desk),
                Some(FileState::Trouble(trouble)) => {
                    self.part_failed(probe_of(role), trouble, desk);
                    self.try_again(Fell::of(probe_of(role)), desk);
                }
            }
        }
    }

    /// After a layout that failed late (a quota, a bad block) the next one waits, longer each time: it would write as much again.
    fn lay_when_it_may(&mut self, role: Role, desk: &mut Desk<'_>) {
        match self.lay_after[probe_of(role) as usize].filter(|at| *at > desk.now) {
            Some(at) => self.look_again(at, desk),
            None => self.lay(role, desk),
        }
    }

    /// What depends on the place: one probe at a time on a disk, and a block device has no commits.
    fn took_place(&mut self, prepared: &Prepared, desk: &mut Desk<'_>) {
        if let Some(note) = prepared.note.as_ref().filter(|_| self.home != prepared.home) {
            tracing::info!(name = self.name, "{note}");
        }
        let devices = prepared.target.leaf_keys();
        if devices != self.devices {
            // What the reader has open may be the disk that was here before.
            self.reads_closed();
        }
        self.devices = devices;
        for work in [Work::Layout, Work::Commit, Work::Read] {
            desk.planner.set_devices(self.task(work), &self.devices);
        }
        let asked = |probe| self.plan.probes.iter().find(|p| p.probe == probe).map(|p| p.interval);
        self.intervals = [asked(Probe::Commit).filter(|_| prepared.home.is_some()), asked(Probe::Read)];
        desk.book.set_off(self.id, Probe::Commit, prepared.home.is_none());
        if prepared.home.is_none() {
            desk.planner.set(self.task(Work::Commit), When::Never, desk.now);
        }
    }

    fn file_ready(&mut self, role: Role, head: Head, desk: &mut Desk<'_>) {
        match role {
            Role::Commits => self.go(Probe::Commit, desk),
            Role::Reads => {
                self.read_head = Some(head);
                let wanted = self.home.clone().map(|home| (home, head));
                if self.reading.is_some() && self.reading == wanted {
                    self.parts[Probe::Read as usize] = None;
                    self.go(Probe::Read, desk);
                    return;
                }
                desk.planner.set(self.task(Work::Open), When::At(desk.now), desk.now);
            }
        }
    }

    fn next_slice(&mut self, desk: &mut Desk<'_>) {
        if !self.to_lay.is_empty() {
            let at = (self.slice_began + self.pace()).max(desk.now);
            desk.planner.set(self.task(Work::Layout), When::At(at), desk.now);
        }
    }

    /// From the begin of one slice to that of the next. A commit file of the default size is written without a rest, so that
    /// commits move within seconds.
    fn pace(&self) -> Duration {
        let quick = self.to_lay.front() == Some(&Role::Commits) && self.laid < UNHINDERED;
        if quick { Duration::ZERO } else { layout::pace(layout::RATE) }
    }

    /// When this target's next slice may begin so that all targets together keep the rate on each of its disks; `None`: now.
    /// `slices` holds when the last slice on each disk began, and is brought up to date.
    pub(super) fn slice_later(&self, slices: &mut HashMap<String, Tick>, now: Tick) -> Option<Tick> {
        let last = self.devices.iter().filter_map(|device| slices.get(device)).max();
        if let Some(at) = last.map(|last| *last + self.pace()).filter(|at| *at > now) {
            return Some(at);
        }
        slices.extend(self.devices.iter().map(|device| (device.clone(), now)));
        None
    }

    fn laid(&mut self, role: Role, head: Head, desk: &mut Desk<'_>) {
        self.to_lay.retain(|r| *r != role);
        self.laid = 0;
        self.know_file(role, &head);
        (self.lay_after[probe_of(role) as usize], self.lay_failures[probe_of(role) as usize]) = (None, 0);
        self.file_ready(role, head, desk);
        self.next_slice(desk);
    }

    fn opened(&mut self, opened: &OpenedReads, desk: &mut Desk<'_>) {
        if let (crate::io::Reason::NoRing(_), false) =
            (opened.reason, std::mem::replace(&mut self.said_no_ring, true))
        {
            tracing::warn!(name = self.name, engine = %opened.engine, reason = %opened.reason, "reads go without a ring");
        }
        self.found = Some(opened.target.clone());
        self.opened = Some(Opened::from(opened));
        self.tell_facts(desk);
        for finding in &opened.findings {
            desk.book.find(self.id, Probe::Read, finding);
        }
        self.reading = self.home.clone().zip(self.read_head);
        if opened.unwritten() && self.home.is_some() && !self.relaid {
            tracing::warn!(
                name = self.name,
                "parts of the read file were never written; it is laid out anew"
            );
            self.relaid = true;
            self.lay(Role::Reads, desk);
            return;
        }
        self.parts[Probe::Read as usize] = None;
        self.go(Probe::Read, desk);
    }

    /// Lays a file out, whatever is there.
    fn lay(&mut self, role: Role, desk: &mut Desk<'_>) {
        self.hold(probe_of(role), State::LayingOut, desk);
        if role == Role::Reads {
            (self.reading, self.read_head) = (None, None);
        }
        if !self.to_lay.contains(&role) {
            self.to_lay.push_back(role);
        }
        desk.planner.set(self.task(Work::Layout), When::At(desk.now), desk.now);
    }

    fn ran(&mut self, outcome: &Outcome, desk: &mut Desk<'_>) {
        let left = self.watch.ran(outcome, &desk.book.thresholds(self.id));
        self.count_stalls(&left, desk);
        desk.book.enter(self.id, outcome, desk.now, desk.wall);
        match &outcome.result {
            Ok(()) => {
                self.parts[outcome.probe as usize] = None;
                self.failures[Fell::of(outcome.probe) as usize] = 0;
            }
            Err(failure) => {
                let trouble = trouble_of(failure);
                self.stop(outcome.probe, trouble, desk);
                if outcome.probe == Probe::Read {
                    self.reads_closed();
                }
                self.try_again(Fell::of(outcome.probe), desk);
            }
        }
    }

    /// A job failed before there was a run: of the layout in progress, of opening the reads, or of all.
    fn failed(&mut self, work: Work, trouble: Trouble, desk: &mut Desk<'_>) {
        match (work, self.to_lay.front().copied()) {
            (Work::Layout, Some(role)) => {
                self.to_lay.pop_front();
                self.layout_failed(role, desk);
                self.part_failed(probe_of(role), trouble, desk);
                self.next_slice(desk);
                self.try_again(Fell::of(probe_of(role)), desk);
            }
            (Work::Commit, _) => {
                self.part_failed(Probe::Commit, trouble, desk);
                self.try_again(Fell::Commit, desk);
            }
            (Work::Open | Work::Read, _) => {
                self.reads_closed();
                self.part_failed(Probe::Read, trouble, desk);
                self.try_again(Fell::Read, desk);
            }
            _ => {
                for probe in Probe::ALL {
                    if self.intervals[*probe as usize].is_some() {
                        desk.book.fail(self.id, *probe, &trouble.failure);
                    }
                    self.hold(*probe, trouble.state, desk);
                }
                self.reads_closed();
                self.whole = Some(trouble);
                desk.planner.set(self.task(Work::Open), When::At(desk.now), desk.now);
                self.try_again(Fell::Whole, desk);
            }
        }
    }

    fn part_failed(&mut self, probe: Probe, trouble: Trouble, desk: &mut Desk<'_>) {
        desk.book.fail(self.id, probe, &trouble.failure);
        self.stop(probe, trouble, desk);
    }

    fn stop(&mut self, probe: Probe, trouble: Trouble, desk: &mut Desk<'_>) {
        self.hold(probe, trouble.state, desk);
        self.parts[probe as usize] = Some(trouble);
    }

    /// The reading lane has nothing open, or not the right thing: the next look has it open anew.
    fn reads_closed(&mut self) {
        (self.reading, self.opened) = (None, None);
    }

    fn layout_failed(&mut self, role: Role, desk: &mut Desk<'_>) {
        let probe = probe_of(role);
        let failures = &mut self.lay_failures[probe as usize];
        let wait = again::wait(LAY_AGAIN, LONGEST_LAY_AGAIN, *failures, self.seed);
        *failures = failures.saturating_add(1);
        self.laid = 0;
        self.lay_after[probe as usize] = Some(desk.now + wait);
        desk.book.set_layout(self.id, probe, 0, 0);
    }

    /// Looks at the target anew after a while that grows with each failure of the same part.
    fn try_again(&mut self, fell: Fell, desk: &mut Desk<'_>) {
        let failures = &mut self.failures[fell as usize];
        let wait = again::wait(RETRY, LONGEST_RETRY, *failures, self.seed);
        *failures = failures.saturating_add(1);
        self.look_again(desk.now + wait, desk);
    }

    /// Looks at the target anew at `at`, or before if that is planned.
    fn look_again(&self, at: Tick, desk: &mut Desk<'_>) {
        let task = self.task(Work::Prepare);
        let at = desk.planner.next(task).map_or(at, |planned| planned.min(at));
        desk.planner.set(task, When::At(at), desk.now);
    }

    fn tell_facts(&self, desk: &mut Desk<'_>) {
        if let Some(found) = &self.found {
            desk.book.set_facts(self.id, facts(found, self.opened.as_ref()));
        }
    }
}

fn probe_of(role: Role) -> Probe {
    match role {
        Role::Commits => Probe::Commit,
        Role::Reads => Probe::Read,
    }
}

fn work_of(probe: Probe) -> Work {
    match probe {
        Probe::Commit => Work::Commit,
        Probe::Read => Work::Read,
    }
}

fn trouble_of(failure: &Failure) -> Trouble {
    Trouble { state: crate::probe::state_after(failure.errno), failure: failure.clone() }
}
