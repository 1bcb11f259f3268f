//! The registry of lanes. It outlives the plan: when a target is taken away while an operation of it is out, its lane stays here
//! until that is back, and a target that comes to the same place finds it, instead of a second lane beside a first that is stuck.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Error;
use super::control::Message;
use super::inbox::Outbox;
use crate::io::Inflight;
use crate::probe::Spent;
use crate::probe::heartbeat::Heartbeat;
use crate::schedule::{Context, Direction, Job, Lane, LaneId, Report, Spec, TaskId, reader, sweeper, writer};
use crate::target::Roots;

/// A target of the control thread. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u64);

/// Where a lane works: the paths as configured. Two names of one directory make two lanes; the lock in the directory keeps them
/// apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    path: PathBuf,
    probe_dir: Option<PathBuf>,
}

impl Place {
    pub(super) fn of(spec: &Spec) -> Self {
        Self { path: spec.path.clone(), probe_dir: spec.probe_dir.clone() }
    }
}

/// A target's two lanes, by [`Direction`].
pub(super) type Pair = [LaneId; 2];

struct Seat {
    lane: Lane,
    direction: Direction,
    place: Place,
    inflight: Arc<Inflight>,
    owner: Option<Key>,
    /// What the lane does now.
    out: Option<TaskId>,
}

/// All lanes.
pub(super) struct Seats {
    seats: BTreeMap<LaneId, Seat>,
    next: usize,
    heart: Arc<Heartbeat>,
    pub(super) roots: Arc<Roots>,
    messages: Outbox,
}

impl Seats {
    pub(super) fn new(heart: &Arc<Heartbeat>, roots: &Arc<Roots>, messages: &Outbox) -> Self {
        let (heart, roots, messages) = (Arc::clone(heart), Arc::clone(roots), messages.clone());
        Self { seats: BTreeMap::new(), next: 0, heart, roots, messages }
    }

    /// Lanes for a target: those that work at its place and belong to nobody, else new ones. What they are to do must be told them
    /// with their first job.
    pub(super) fn take(
        &mut self,
        owner: Key,
        spec: &Arc<Spec>,
        seed: u64,
    ) -> Result<(Pair, Arc<Inflight>), Error> {
        let place = Place::of(spec);
        let free = |direction| {
            let here = |s: &&Seat| s.owner.is_none() && s.place == place && s.direction == direction;
            self.seats.iter().find(|(_, seat)| here(seat)).map(|(id, seat)| (*id, Arc::clone(&seat.inflight)))
        };
        let found = [free(Direction::Write), free(Direction::Read)];
        // Lanes of one place have always shared it, also with a sweeping one that is yet to be left alone.
        let alone = |s: &Seat| {
            s.owner.is_none_or(|o| {
                !self.seats.values().any(|w| w.owner == Some(o) && w.direction == Direction::Write)
            })
        };
        let sweeper = |s: &&Seat| s.place == place && s.direction == Direction::Sweep && alone(s);
        let sweeper = self.seats.values().find(sweeper).map(|seat| Arc::clone(&seat.inflight));
        let known = found.iter().flatten().map(|(_, inflight)| Arc::clone(inflight)).next().or(sweeper);
        let inflight = known.unwrap_or_default();
        let [write, read] = found.map(|found| found.map(|(id, _)| id));
        let mut lane = |found, direction| self.taken_or_new(found, direction, owner, spec, &inflight, seed);
        let pair = lane(write, Direction::Write).and_then(|w| Ok([w, lane(read, Direction::Read)?]));
        if pair.is_err() {
            self.leave(owner);
            self.tidy();
        }
        Ok((pair?, inflight))
    }

    /// The sweeping lane for a target that has the others: the one that works at its place and belongs to nobody, else a new one.
    pub(super) fn take_sweeper(&mut self, owner: Key, spec: &Arc<Spec>, seed: u64) -> Result<LaneId, Error> {
        let place = Place::of(spec);
        let here = |s: &&Seat| s.owner.is_none() && s.place == place && s.direction == Direction::Sweep;
        let found = self.seats.iter().find(|(_, seat)| here(seat)).map(|(id, _)| *id);
        let others = self.seats.values().find(|seat| seat.owner == Some(owner));
        let inflight = others.map(|seat| Arc::clone(&seat.inflight)).unwrap_or_default();
        self.taken_or_new(found, Direction::Sweep, owner, spec, &inflight, seed)
    }

    /// This lane belongs to nobody from now on.
    pub(super) fn leave_lane(&mut self, id: LaneId) {
        self.seats.get_mut(&id).into_iter().for_each(|seat| seat.owner = None);
        self.tidy();
    }

    fn taken_or_new(
        &mut self,
        found: Option<LaneId>,
        direction: Direction,
        owner: Key,
        spec: &Arc<Spec>,
        inflight: &Arc<Inflight>,
        seed: u64,
    ) -> Result<LaneId, Error> {
        if let Some(id) = found {
            if let Some(seat) = self.seats.get_mut(&id) {
                seat.owner = Some(owner);
            }
            return Ok(id);
        }
        let id = LaneId(self.next);
        let context = Context {
            spec: Arc::clone(spec),
            inflight: Arc::clone(inflight),
            heart: Arc::clone(&self.heart),
            roots: Arc::clone(&self.roots),
            seed,
        };
        let report = report_to(id, self.messages.clone());
        let (what, lane) = match direction {
            Direction::Write => ("a writing lane", writer::spawn(context, report)),
            Direction::Read => ("a reading lane", reader::spawn(context, report)),
            Direction::Sweep => ("a sweeping lane", sweeper::spawn(context, report)),
        };
        let lane = lane.map_err(|e| Error::Start(what, e))?;
        let (place, inflight) = (Place::of(spec), Arc::clone(inflight));
        self.seats.insert(id, Seat { lane, direction, place, inflight, owner: Some(owner), out: None });
        self.next += 1;
        Ok(id)
    }

    /// The target's own lanes belong to nobody from now on; its sweeping one stays until it is left alone.
    pub(super) fn leave(&mut self, owner: Key) {
        let its =
            self.seats.values_mut().filter(|s| s.owner == Some(owner) && s.direction != Direction::Sweep);
        its.for_each(|seat| seat.owner = None);
    }

    /// Ends the lanes that belong to nobody and have nothing out.
    pub(super) fn tidy(&mut self) {
        self.seats.retain(|_, seat| seat.owner.is_some() || seat.out.is_some());
    }

    /// Gives a lane a job; `false` when it cannot take one.
    pub(super) fn give(&mut self, id: LaneId, spec: Option<Arc<Spec>>, job: Job, task: TaskId) -> bool {
        let Some(seat) = self.seats.get_mut(&id) else { return false };
        let given = seat.lane.give(spec, job);
        if given {
            seat.out = Some(task);
        }
        given
    }

    /// A lane has done its job: whose lane it is now, and which task it was for.
    pub(super) fn back(&mut self, id: LaneId) -> Option<(Option<Key>, TaskId)> {
        let seat = self.seats.get_mut(&id)?;
        let task = seat.out.take()?;
        let owner = seat.owner;
        if owner.is_none() {
            self.seats.remove(&id);
        }
        Some((owner, task))
    }

    /// What the lane does now.
    pub(super) fn out(&self, id: LaneId) -> Option<TaskId> {
        self.seats.get(&id)?.out
    }

    pub(super) fn any_out(&self) -> bool {
        self.seats.values().any(|seat| seat.out.is_some())
    }

    /// Lanes that belong to nobody and are still out, if the targets with these keys were taken away and the lanes at these places taken
    /// again.
    pub(super) fn stuck_without(&self, removed: &[Key], places: &[Place]) -> usize {
        let nobodys = |s: &&Seat| s.owner.is_none_or(|owner| removed.contains(&owner));
        let stuck = |s: &&Seat| s.out.is_some() && !places.contains(&s.place);
        self.seats.values().filter(nobodys).filter(stuck).count()
    }
}

fn report_to(lane: LaneId, messages: Outbox) -> impl Fn(Report, Spent) + Send + 'static {
    move |report, spent| {
        let good_run = matches!(&report, Report::Ran(outcome) if outcome.result.is_ok());
        let message = Message::Report { lane, report, spent };
        if good_run {
            messages.leave(message);
        } else {
            // A control thread that is gone needs no reports.
            let _ = messages.send(message);
        }
    }
}
