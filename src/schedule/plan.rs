//! The planner: slots, lanes and claims, without a thread or a clock.
//!
//! Time is cut into slots of a task's interval; each holds one run, at an instant drawn uniformly from a generator that is
//! seeded by host, target, probe and slot: no beat with cron or checkpoints, and the same again after a restart. A task
//! whose lane or device is taken waits, at most to the end of its slot; then the slot is counted as not used, and nothing
//! is ever caught up.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Tick;

/// A task of the planner.
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

#[derive(Debug)]
struct Task {
    lane: LaneId,
    devices: Vec<String>,
    seed: u64,
    when: When,
    /// The next run: slot and instant.
    next: Option<(u64, Tick)>,
    hold: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    task: TaskId,
    until: Tick,
}

/// Decides what runs.
#[derive(Debug)]
pub struct Planner {
    /// Wall-clock time at tick 0: slots are numbered from 1970, so that a restart finds the same ones.
    epoch: Duration,
    /// How long a device is claimed for one run; what takes longer forfeits it.
    lease: Duration,
    tasks: BTreeMap<TaskId, Task>,
    lanes: BTreeMap<LaneId, TaskId>,
    claims: BTreeMap<String, Claim>,
    ids: usize,
}

impl Planner {
    /// A planner without tasks. `epoch` is the wall-clock time at tick 0, `lease` how long a run may hold its devices.
    pub fn new(epoch: Duration, lease: Duration) -> Self {
        let (tasks, lanes, claims) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { epoch, lease, tasks, lanes, claims, ids: 0 }
    }

    /// A new task that is not due yet. `seed` makes its instants; it should hold host, target and probe.
    pub fn add(&mut self, lane: LaneId, seed: u64) -> TaskId {
        let id = TaskId(self.ids);
        self.ids += 1;
        let task = Task { lane, devices: Vec::new(), seed, when: When::Never, next: None, hold: None };
        self.tasks.insert(id, task);
        id
    }

    /// The devices that a run of the task needs for itself.
    pub fn set_devices(&mut self, id: TaskId, devices: &[String]) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.devices = devices.to_vec();
        }
    }

    /// When the task is due from now on. The slot that is going on gets an instant in what is left of it. Setting what is
    /// set already changes nothing.
    pub fn set(&mut self, id: TaskId, when: When, now: Tick) {
        let epoch = self.epoch;
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if task.when == when && matches!(when, When::Every(_) | When::Never) {
            return;
        }
        task.when = when;
        task.next = match when {
            When::Never => None,
            When::At(at) => Some((0, at)),
            When::Every(interval) => {
                let slot = slot_of(now, interval, epoch);
                let drawn = task.instant(slot, interval, epoch);
                let at = if drawn >= now {
                    drawn
                } else {
                    now + (end_of(slot, interval, epoch).since(now)).mul_f64(task.part(slot))
                };
                Some((slot, at))
            }
        };
    }

    /// While there is a reason to hold it, a task's slots pass unused and are counted under that reason.
    pub fn hold(&mut self, id: TaskId, reason: Option<&'static str>) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.hold = reason;
        }
    }

    /// Whether the task is held.
    pub fn is_held(&self, id: TaskId) -> bool {
        self.tasks.get(&id).is_some_and(|task| task.hold.is_some())
    }

    /// The task's next instant.
    pub fn next(&self, id: TaskId) -> Option<Tick> {
        self.tasks.get(&id)?.next.map(|(_, at)| at)
    }

    /// A run came back: its lane and its devices are free.
    pub fn finished(&mut self, id: TaskId) {
        self.lanes.retain(|_, task| *task != id);
        self.claims.retain(|_, claim| claim.task != id);
    }

    /// What is to start at `now`, and which slots have passed unused since the last call.
    pub fn decide(&mut self, now: Tick) -> Decision {
        let mut decision = Decision::default();
        self.claims.retain(|_, claim| claim.until > now);
        self.pass_slots(now, &mut decision);
        let mut due: Vec<(Tick, TaskId)> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.hold.is_none())
            .filter_map(|(id, task)| task.next.filter(|(_, at)| *at <= now).map(|(_, at)| (at, *id)))
            .collect();
        due.sort();
        for (planned, id) in due {
            if self.start(id, now) {
                decision.start.push(Start { task: id, planned });
            }
        }
        let due = |task: &Task| task.hold.is_none() && task.next.is_some_and(|(_, at)| at <= now);
        decision.waiting = self.tasks.values().any(due);
        decision.wake = self.wake(now);
        decision
    }

    /// Takes lane and devices, if all are free.
    fn start(&mut self, id: TaskId, now: Tick) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        if self.lanes.contains_key(&task.lane) || task.devices.iter().any(|d| self.claims.contains_key(d)) {
            return false;
        }
        self.lanes.insert(task.lane, id);
        for device in &task.devices {
            self.claims.insert(device.clone(), Claim { task: id, until: now + self.lease });
        }
        task.next = match (task.when, task.next) {
            (When::Every(interval), Some((slot, _))) => {
                Some((slot + 1, task.instant(slot + 1, interval, self.epoch)))
            }
            _ => None,
        };
        if let When::At(_) = task.when {
            task.when = When::Never;
        }
        true
    }

    /// Counts the slots that ended before `now` with their run still due, and goes on with the slot of `now`.
    fn pass_slots(&mut self, now: Tick, decision: &mut Decision) {
        for (id, task) in &mut self.tasks {
            let (When::Every(interval), Some((slot, at))) = (task.when, task.next) else { continue };
            if at > now {
                continue;
            }
            let current = slot_of(now, interval, self.epoch);
            // A held slot is given up at its instant, any other only at its end.
            let passed = if task.hold.is_some() { current + 1 - slot } else { current.saturating_sub(slot) };
            let blocked = self.lanes.contains_key(&task.lane)
                || task.devices.iter().any(|device| self.claims.contains_key(device));
            // An instant just before the slot's end is as good as any: a timer's delay does not lose it.
            let just_late = passed == 1 && !blocked && now.since(at) <= interval / 10;
            if passed == 0 || (just_late && task.hold.is_none()) {
                continue;
            }
            match task.hold {
                Some(reason) => decision.skipped.push((*id, reason, passed)),
                None if self.lanes.contains_key(&task.lane) => decision.missed.push((*id, passed)),
                None if task.devices.iter().any(|d| self.claims.contains_key(d)) => {
                    decision.skipped.push((*id, DEVICE_BUSY, passed));
                }
                None => decision.missed.push((*id, passed)),
            }
            task.next = Some((slot + passed, task.instant(slot + passed, interval, self.epoch)));
        }
    }

    /// The next instant or, for what is due and waits, the end of its slot or of the claim that it waits for.
    fn wake(&self, now: Tick) -> Option<Tick> {
        let claims = self.claims.values().map(|claim| claim.until);
        let waiting = self.tasks.values().any(|t| t.next.is_some_and(|(_, at)| at <= now));
        let tasks = self.tasks.values().filter_map(|task| match (task.when, task.next?) {
            (_, (_, at)) if at > now => Some(at),
            (When::Every(interval), (slot, _)) => {
                Some(end_of(slot, interval, self.epoch)).filter(|end| *end > now)
            }
            _ => None,
        });
        let first = tasks.min();
        if waiting { first.into_iter().chain(claims).min() } else { first }
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
