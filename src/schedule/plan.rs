//! The planner: slots, lanes and claims, without a thread or a clock.
//!
//! Time is cut into slots of a task's interval; each holds one run, at an instant drawn uniformly from a generator that is
//! seeded by host, target, probe and slot: no beat with cron or checkpoints, and the same again after a restart. A task
//! whose lane or device is taken waits, at most to the end of its slot; then the slot is counted as not used, and nothing
//! is ever caught up. A slot that others' use of the device took makes the next one due from its beginning: bad luck does not
//! last.
//!
//! Most calls find nothing or one thing due, on a CPU whose caches have lost us: the instants lie together, apart from what
//! else a task has.

use std::time::Duration;

use crate::clock::Tick;

/// A task of the planner. Never used again after [`Planner::remove`] while a run of it is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(usize);

/// A lane: does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub usize);

/// When a task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Not now.
    Never,
    /// Once, at or after this instant.
    At(Tick),
    /// Once in each slot of this length.
    Every(Duration),
}

/// What to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Which task; its lane is busy with it until [`Planner::finished`].
    pub task: TaskId,
    /// The instant that was drawn.
    pub planned: Tick,
}

/// What [`Planner::decide`] decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Start these now.
    pub start: Vec<Start>,
    /// Slots that ended unused because the task's own lane was still out, or because nobody asked in time.
    pub missed: Vec<(TaskId, u64)>,
    /// Slots that ended unused on purpose, and why.
    pub skipped: Vec<(TaskId, &'static str, u64)>,
    /// Something is due and waits for its lane or its devices.
    pub waiting: bool,
    /// Ask again at this instant at the latest; `None`: when something has finished or changed.
    pub wake: Option<Tick>,
}

/// Why a slot was skipped when another target's probe had the device.
pub const DEVICE_BUSY: &str = "device_busy";

/// The instant of a task that is not due.
const NEVER: Tick = Tick::from_nanos(u64::MAX);

#[derive(Debug)]
struct Task {
    lane: LaneId,
    /// Numbers of names in [`Planner::devices`].
    devices: Vec<usize>,
    seed: u64,
    when: When,
    /// The slot of its instant.
    slot: u64,
    hold: Option<&'static str>,
    /// Removed; its number is free again as soon as its run is back.
    gone: bool,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    device: usize,
    task: TaskId,
    until: Tick,
}

/// A device that is held for a task alone, also while no run of it is out.
#[derive(Clone, Copy, Debug)]
struct Hold {
    device: usize,
    task: TaskId,
    reason: &'static str,
}

/// Decides what runs.
#[derive(Debug)]
pub struct Planner {
    /// Wall-clock time at tick 0: slots are numbered from 1970, so that a restart finds the same ones.
    epoch: Duration,
    /// How long a device is claimed for one run; what takes longer forfeits it.
    lease: Duration,
    /// By task: its next instant.
    due: Vec<Tick>,
    tasks: Vec<Task>,
    free: Vec<TaskId>,
    /// What is out.
    running: Vec<(LaneId, TaskId)>,
    claims: Vec<Claim>,
    holds: Vec<Hold>,
    devices: Vec<String>,
}

impl Planner {
    /// A planner without tasks. `epoch` is the wall-clock time at tick 0, `lease` how long a run may hold its devices.
    pub fn new(epoch: Duration, lease: Duration) -> Self {
        let (due, tasks, free, running) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (claims, holds, devices) = (Vec::new(), Vec::new(), Vec::new());
        Self { epoch, lease, due, tasks, free, running, claims, holds, devices }
    }

    /// A new task that is not due yet. `seed` makes its instants; it should hold host, target and probe.
    pub fn add(&mut self, lane: LaneId, seed: u64) -> TaskId {
        let devices = Vec::new();
        let task = Task { lane, devices, seed, when: When::Never, slot: 0, hold: None, gone: false };
        if let Some(id) = self.free.pop() {
            (self.tasks[id.0], self.due[id.0]) = (task, NEVER);
            return id;
        }
        self.tasks.push(task);
        self.due.push(NEVER);
        TaskId(self.tasks.len() - 1)
    }

    /// Takes a task away. What is out of it keeps its lane until it is back and its devices until the lease ends.
    pub fn remove(&mut self, id: TaskId) {
        self.set(id, When::Never, Tick::default());
        self.release(id);
        let Some(task) = self.tasks.get_mut(id.0).filter(|task| !task.gone) else { return };
        task.gone = true;
        if !self.is_out(id) {
            self.free.push(id);
        }
    }

    /// The devices that a run of the task needs for itself.
    pub fn set_devices(&mut self, id: TaskId, devices: &[String]) {
        let numbers = devices.iter().map(|name| self.device(name)).collect();
        if let Some(task) = self.tasks.get_mut(id.0) {
            task.devices = numbers;
        }
    }

    /// What is out of the task has taken too long: its devices are free for others.
    pub fn forfeit(&mut self, id: TaskId) {
        self.claims.retain(|claim| claim.task != id);
        self.release(id);
    }

    /// Holds the task's devices for it alone from now on, also between its runs: slots of others that pass meanwhile are counted under
    /// `reason`. What is out there comes back first. `false` where another task holds one of them.
    pub fn seize(&mut self, id: TaskId, reason: &'static str) -> bool {
        let Some(task) = self.tasks.get(id.0) else { return false };
        if self.holder(id).is_some() {
            return false;
        }
        self.holds.retain(|hold| hold.task != id);
        self.holds.extend(task.devices.iter().map(|device| Hold { device: *device, task: id, reason }));
        true
    }

    /// Nothing is held for the task any more.
    pub fn release(&mut self, id: TaskId) {
        self.holds.retain(|hold| hold.task != id);
    }

    /// Why another task holds one of the task's devices, if one does.
    pub fn holder(&self, id: TaskId) -> Option<&'static str> {
        let devices = &self.tasks.get(id.0)?.devices;
        let others = self.holds.iter().filter(|hold| hold.task != id);
        others.filter(|hold| devices.contains(&hold.device)).map(|hold| hold.reason).next()
    }

    /// Why one of these devices is held, if one is, by a task other than `but`.
    pub fn holder_of(&self, devices: &[String], but: Option<TaskId>) -> Option<&'static str> {
        let others = self.holds.iter().filter(|hold| Some(hold.task) != but);
        let named = |hold: &&Hold| devices.iter().any(|name| *name == self.devices[hold.device]);
        others.filter(named).map(|hold| hold.reason).next()
    }

    /// When the task is due from now on. The slot that is going on gets an instant in what is left of it. Setting what is
    /// set already changes nothing.
    pub fn set(&mut self, id: TaskId, when: When, now: Tick) {
        let epoch = self.epoch;
        let Some(task) = self.tasks.get_mut(id.0).filter(|task| !task.gone) else { return };
        if task.when == when && matches!(when, When::Every(_) | When::Never) {
            return;
        }
        task.when = when;
        self.due[id.0] = match when {
            When::Never => NEVER,
            When::At(at) => at,
            When::Every(interval) => {
                task.slot = slot_of(now, interval, epoch);
                let drawn = task.instant(task.slot, interval, epoch);
                if drawn >= now {
                    drawn
                } else {
                    now + (end_of(task.slot, interval, epoch).since(now)).mul_f64(task.part(task.slot))
                }
            }
        };
    }

    /// While there is a reason to hold it, a task's slots pass unused and are counted under that reason.
    pub fn hold(&mut self, id: TaskId, reason: Option<&'static str>) {
        if let Some(task) = self.tasks.get_mut(id.0) {
            task.hold = reason;
        }
    }

    /// Another length of slot for a task that has slots; its next instant is drawn anew.
    pub fn set_interval(&mut self, id: TaskId, interval: Duration, now: Tick) {
        if self.tasks.get(id.0).is_some_and(|task| matches!(task.when, When::Every(_))) {
            self.set(id, When::Every(interval), now);
        }
    }

    /// Whether the task is held.
    pub fn is_held(&self, id: TaskId) -> bool {
        self.tasks.get(id.0).is_some_and(|task| task.hold.is_some())
    }

    /// The task's next instant.
    pub fn next(&self, id: TaskId) -> Option<Tick> {
        self.due.get(id.0).copied().filter(|at| *at != NEVER)
    }

    /// A run came back: its lane and its devices are free.
    pub fn finished(&mut self, id: TaskId) {
        let was_out = self.is_out(id);
        self.running.retain(|(_, task)| *task != id);
        self.claims.retain(|claim| claim.task != id);
        if was_out && self.tasks[id.0].gone {
            self.free.push(id);
        }
    }

    /// What is to start at `now`, and which slots have passed unused since the last call.
    pub fn decide(&mut self, now: Tick) -> Decision {
        let mut decision = Decision::default();
        self.claims.retain(|claim| claim.until > now);
        let mut due: Vec<(Tick, TaskId)> = Vec::new();
        for at in 0..self.due.len() {
            if self.due[at] <= now {
                self.pass_slots(TaskId(at), now, &mut decision);
            }
            if self.due[at] <= now && self.tasks[at].hold.is_none() {
                due.push((self.due[at], TaskId(at)));
            }
        }
        due.sort();
        for (planned, id) in due {
            if self.start(id, now) {
                decision.start.push(Start { task: id, planned });
            }
        }
        decision.waiting = (0..self.due.len()).any(|at| self.due[at] <= now && self.tasks[at].hold.is_none());
        decision.wake = self.wake(now);
        decision
    }

    /// Takes lane and devices, if all are free.
    fn start(&mut self, id: TaskId, now: Tick) -> bool {
        if self.lane_is_out(id) || self.device_is_taken(id) {
            return false;
        }
        let until = now + self.lease;
        let task = &mut self.tasks[id.0];
        self.running.push((task.lane, id));
        self.claims.extend(task.devices.iter().map(|device| Claim { device: *device, task: id, until }));
        self.due[id.0] = match task.when {
            When::Every(interval) => {
                task.slot += 1;
                task.instant(task.slot, interval, self.epoch)
            }
            When::At(_) | When::Never => NEVER,
        };
        if let When::At(_) = task.when {
            task.when = When::Never;
        }
        true
    }

    /// Counts the slots that ended before `now` with the task's run still due, and goes on with the slot of `now`.
    fn pass_slots(&mut self, id: TaskId, now: Tick, decision: &mut Decision) {
        let (out, taken, holder) = (self.lane_is_out(id), self.device_is_taken(id), self.holder(id));
        let task = &mut self.tasks[id.0];
        let When::Every(interval) = task.when else { return };
        let current = slot_of(now, interval, self.epoch);
        // A held slot is given up at its instant, any other only at its end.
        let passed =
            if task.hold.is_some() { current + 1 - task.slot } else { current.saturating_sub(task.slot) };
        // An instant just before the slot's end is as good as any: a timer's delay does not lose it.
        let just_late = passed == 1 && !out && !taken && now.since(self.due[id.0]) <= interval / 10;
        if passed == 0 || (just_late && task.hold.is_none()) {
            return;
        }
        task.slot += passed;
        self.due[id.0] = task.instant(task.slot, interval, self.epoch);
        match task.hold.or(holder.filter(|_| !out)) {
            Some(reason) => decision.skipped.push((id, reason, passed)),
            None if !out && taken => {
                decision.skipped.push((id, DEVICE_BUSY, passed));
                self.due[id.0] = start_of(task.slot, interval, self.epoch);
            }
            None => decision.missed.push((id, passed)),
        }
    }

    /// The next instant or, for what is due and waits, the end of its slot or of the claim that it waits for.
    fn wake(&self, now: Tick) -> Option<Tick> {
        let mut first = NEVER;
        let mut waiting = false;
        for (at, due) in self.due.iter().enumerate() {
            if *due > now {
                first = first.min(*due);
                continue;
            }
            waiting = true;
            let task = &self.tasks[at];
            if let When::Every(interval) = task.when {
                let end = end_of(task.slot, interval, self.epoch);
                first = if end > now { first.min(end) } else { first };
            }
        }
        let claims = self.claims.iter().filter(|_| waiting).map(|claim| claim.until);
        claims.chain([first]).min().filter(|at| *at != NEVER)
    }

    fn is_out(&self, id: TaskId) -> bool {
        self.running.iter().any(|(_, task)| *task == id)
    }

    fn lane_is_out(&self, id: TaskId) -> bool {
        self.running.iter().any(|(lane, _)| *lane == self.tasks[id.0].lane)
    }

    fn device_is_taken(&self, id: TaskId) -> bool {
        self.holder(id).is_some()
            || self.claims.iter().any(|claim| self.tasks[id.0].devices.contains(&claim.device))
    }

    fn device(&mut self, name: &str) -> usize {
        self.devices.iter().position(|known| known == name).unwrap_or_else(|| {
            self.devices.push(name.to_owned());
            self.devices.len() - 1
        })
    }
}

impl Task {
    fn instant(&self, slot: u64, interval: Duration, epoch: Duration) -> Tick {
        start_of(slot, interval, epoch) + interval.mul_f64(self.part(slot))
    }

    /// Where in the slot, from 0 to just below 1.
    fn part(&self, slot: u64) -> f64 {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..].copy_from_slice(&slot.to_le_bytes());
        (xxhash_rust::xxh3::xxh3_64(&key) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn slot_of(now: Tick, interval: Duration, epoch: Duration) -> u64 {
    let since = u128::from(now.nanos()) + epoch.as_nanos();
    u64::try_from(since / interval.as_nanos().max(1)).unwrap_or(u64::MAX)
}

fn start_of(slot: u64, interval: Duration, epoch: Duration) -> Tick {
    let nanos = (u128::from(slot) * interval.as_nanos()).saturating_sub(epoch.as_nanos());
    Tick::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn end_of(slot: u64, interval: Duration, epoch: Duration) -> Tick {
    start_of(slot.saturating_add(1), interval, epoch)
}

#[cfg(test)]
mod tests;
