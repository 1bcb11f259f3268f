//! How a sweep gives back what it took: its disk, its share of the buffers, and, where its target is swept no more, its lane. A lane
//! that does not answer keeps neither the disk nor the buffers; it comes back in its own time.

use std::time::Duration;

use super::super::control::{Control, LEASE};
use super::super::seats::Key;
use super::super::standstill::Standstill;
use crate::clock::{self, Tick};
use crate::io::Op;
use crate::schedule::sweep::Ending;
use crate::schedule::{Job, Report, TaskId, When};
use crate::units::Bytes;

impl Control {
    /// The target is swept no more. A sweep that is under way ends with what it has; what it took is taken until its lane has let go,
    /// or has had the time of a lease.
    pub(in crate::daemon) fn drop_sweeps(&mut self, key: Key) {
        let now = clock::now();
        let Some(sweeping) = self.sweeps.get_mut(&key) else { return };
        sweeping.leaving.get_or_insert(now);
        if sweeping.course.is_on() {
            self.end_sweep(key, Ending::Interrupt, now, clock::wall());
        }
        if let Some(target) = self.targets.get(&key) {
            self.book.set_sweeps(target.id, None);
            let results = self.sweeps.get_mut(&key).and_then(|sweeping| sweeping.results.take());
            results
                .into_iter()
                .for_each(|results| self.keeper.sweeps.put_apart(target.name.clone(), results));
        }
        self.let_go(key);
    }

    /// Forgets the sweeps of a target that is swept no more, once nothing is out for them or their lane does not answer.
    pub(super) fn let_go(&mut self, key: Key) {
        let Some(sweeping) = self.sweeps.get(&key) else { return };
        let Some(since) = sweeping.leaving else { return };
        let out = sweeping.seat.is_some_and(|(lane, task)| self.seats.out(lane) == Some(task));
        let patient = !sweeping.stuck && clock::now().since(since) < LEASE;
        if patient && (out || sweeping.closing) {
            return;
        }
        let seat = sweeping.seat;
        self.sweeps.remove(&key);
        if let Some((lane, task)) = seat {
            if out {
                self.purse.owe(key, task);
            }
            self.planner.remove(task);
            self.works.remove(&task);
            self.seats.leave_lane(lane);
        }
    }

    /// What the sweep of this target has out is out for too long, be it opening, a cell or closing: nobody waits for it.
    pub(in crate::daemon) fn sweep_stalled(&mut self, key: Key) {
        let Some(sweeping) = self.sweeps.get_mut(&key) else { return };
        let Some((lane, task)) = sweeping.seat else { return };
        if self.seats.out(lane) != Some(task) {
            return;
        }
        (sweeping.stuck, sweeping.memory) = (true, Bytes::new(0));
        sweeping.course.stalled(clock::now());
        self.planner.forfeit(task);
        self.drive(key);
        self.let_go(key);
    }

    /// The lane is to let go of what is open, and until then the disk is held, unless it does not answer.
    pub(super) fn close_sweep(&mut self, key: Key, ending: Ending, now: Tick) {
        let Some(sweeping) = self.sweeps.get_mut(&key) else { return };
        let Some((lane, task)) = sweeping.seat else { return };
        sweeping.closing = true;
        if ending == Ending::Stalled {
            self.planner.forfeit(task);
        }
        if self.seats.out(lane).is_none() {
            self.have_closed(key, task, now);
        }
    }

    /// The lane is back after its sweep was over: what it holds is closed, and the disk given back.
    pub(super) fn sweep_is_over(&mut self, key: Key, report: &Report, now: Tick) {
        let Some(sweeping) = self.sweeps.get_mut(&key) else { return };
        let Some((_, task)) = sweeping.seat else { return };
        match report {
            Report::Closed | Report::Panicked(_) | Report::Failed(_) => {
                (sweeping.closing, sweeping.stuck, sweeping.memory) = (false, false, Bytes::new(0));
                self.planner.release(task);
            }
            _ => self.have_closed(key, task, now),
        }
        self.drive(key);
        self.let_go(key);
    }

    fn have_closed(&mut self, key: Key, task: TaskId, now: Tick) {
        if !self.draining {
            self.planner.set(task, When::At(now), now);
            return;
        }
        // Nothing else is started any more.
        self.planner.release(task);
        if let Some((lane, _)) = self.sweeps.get(&key).and_then(|sweeping| sweeping.seat) {
            self.seats.give(lane, None, Job::Close, task);
        }
    }

    /// Looks for sweeps that hold something for too long, once a second.
    pub(super) fn look_for_what_is_stuck(&mut self) {
        let now = clock::now();
        for key in self.sweeps.keys().copied().collect::<Vec<_>>() {
            if self.stands_still(key, now) {
                self.sweep_stalled(key);
            }
            self.let_go(key);
        }
    }

    /// Whether the lane is out and nothing of it has changed for as long as a lease, or as any operation may be out.
    fn stands_still(&mut self, key: Key, now: Tick) -> bool {
        let Some((sweeping, target)) = self.sweeps.get_mut(&key).zip(self.targets.get(&key)) else {
            return false;
        };
        if sweeping.seat.is_none_or(|(lane, task)| self.seats.out(lane) != Some(task)) {
            sweeping.standstill = Standstill::default();
            return false;
        }
        let thresholds = self.book.thresholds(target.id);
        let longest = Op::ALL.map(|op| thresholds.of(op)).into_iter().fold(LEASE, Duration::max);
        let moved = sweeping.now.as_ref().map(|now| now.watch.moved()).unwrap_or_default();
        sweeping.standstill.look(&target.plan.inflight, moved, now) >= longest
    }
}
