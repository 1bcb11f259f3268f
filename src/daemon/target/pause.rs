//! What a target's probes do in their slots: run, or let them pass for a reason. A pause lies over that: while it lasts, nothing
//! of the target is done and nothing of it is open, and when it ends the target is found anew.

use std::time::Duration;

use super::{Desk, Target, Work, work_of};
use crate::clock::Tick;
use crate::probe::{Probe, State};
use crate::schedule::When;

/// Why slots of a paused target pass.
pub(in crate::daemon) const PAUSED: &str = "paused";

/// What a probe does where the target is not paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Course {
    /// Nothing yet.
    #[default]
    Idle,
    /// A run in each slot.
    Going,
    /// Its slots pass, and are counted under this reason.
    Held(&'static str),
}

impl Target {
    /// The probe runs in its slots from now on; one that was held has its first run in what is left of this one.
    pub(super) fn go(&mut self, probe: Probe, desk: &mut Desk<'_>) {
        self.courses[probe as usize] = Course::Going;
        self.settle(probe, desk);
    }

    /// The probe's slots pass, and say why.
    pub(super) fn hold(&mut self, probe: Probe, state: State, desk: &mut Desk<'_>) {
        self.courses[probe as usize] = Course::Held(state.label());
        self.settle(probe, desk);
    }

    /// Tells the planner what the probe does.
    fn settle(&self, probe: Probe, desk: &mut Desk<'_>) {
        let Some(interval) = self.intervals[probe as usize] else { return };
        let task = self.task(work_of(probe));
        let (reason, when) = match self.courses[probe as usize] {
            _ if self.pause_ends.is_some() => (Some(PAUSED), When::Every(interval)),
            Course::Held(reason) => (Some(reason), When::Every(interval)),
            Course::Going => (None, When::Every(interval)),
            Course::Idle => (None, When::Never),
        };
        if reason.is_none() && desk.planner.is_held(task) {
            desk.planner.set(task, When::Never, desk.now);
        }
        desk.planner.hold(task, reason);
        desk.planner.set(task, when, desk.now);
    }

    /// From now on nothing is done with the target, for so long. What is out comes back in its own time.
    pub(in crate::daemon) fn pause(&mut self, length: Duration, desk: &mut Desk<'_>) {
        tracing::info!(name = self.name, seconds = length.as_secs(), "target paused");
        self.set_pause(Some(desk.now + length), desk);
    }

    /// Ends a pause, if there is one: the target is looked at anew and goes on. Until that is done nothing is open, so no probe can run.
    pub(in crate::daemon) fn resume(&mut self, desk: &mut Desk<'_>) {
        if self.pause_ends.is_some() {
            tracing::info!(name = self.name, "target goes on after its pause");
            self.reads_closed();
            self.courses = [Course::Idle; 2];
            desk.planner.set(self.task(Work::Layout), When::Never, desk.now);
            if self.intervals[Probe::Read as usize].is_some() {
                desk.planner.set(self.task(Work::Open), When::Never, desk.now);
            }
            self.set_pause(None, desk);
            self.look_again(desk.now, desk);
        }
    }

    /// A pause always ends by itself.
    pub(super) fn resume_when_due(&mut self, desk: &mut Desk<'_>) {
        if self.pause_ends.is_some_and(|end| end <= desk.now) {
            self.resume(desk);
        }
    }

    /// What is left of the pause; `None` where there is none.
    pub(in crate::daemon) fn pause_left(&self, now: Tick) -> Option<Duration> {
        self.pause_ends.map(|end| end.since(now))
    }

    /// All tasks were set anew; a pause goes on over that.
    pub(super) fn stay_paused(&mut self, desk: &mut Desk<'_>) {
        if self.pause_ends.is_some() {
            self.set_pause(self.pause_ends, desk);
        }
    }

    fn set_pause(&mut self, ends: Option<Tick>, desk: &mut Desk<'_>) {
        (self.pause_ends, self.to_keep) = (ends, true);
        desk.book.set_paused(self.id, ends);
        desk.planner.hold(self.task(Work::Layout), ends.map(|_| PAUSED));
        if ends.is_some() {
            // While it lasts, these close what is open: a file system can be unmounted, a device given away.
            for work in [Work::Prepare, Work::Open] {
                desk.planner.set(self.task(work), When::At(desk.now), desk.now);
            }
        }
        for probe in Probe::ALL {
            self.settle(*probe, desk);
        }
    }
}
