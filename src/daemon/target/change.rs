//! What comes over a target from outside: a config that asks for something else, and operations that do not come back.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Course, Desk, Target, Work};
use crate::clock::Tick;
use crate::config::TargetPlan;
use crate::daemon::control::{books, spec};
use crate::daemon::watch::News;
use crate::io::{Inflight, Op};
use crate::probe::layout::Role;
use crate::probe::{Probe, State};
use crate::record::{Renewed, Thresholds};
use crate::schedule::{Direction, Report, When};

impl Target {
    /// Counts what is out for too long. What is out on these lanes has forfeited its claim on the disk.
    pub(in crate::daemon) fn watch(&mut self, desk: &mut Desk<'_>) -> Vec<Direction> {
        let thresholds = desk.book.thresholds(self.id);
        let news = self.watch.look(&self.plan.inflight, &thresholds, desk.now);
        self.count_stalls(&news, desk);
        let mut forfeited: Vec<_> =
            Op::ALL.into_iter().flat_map(|op| late(&self.plan.inflight, &thresholds, op, desk.now)).collect();
        forfeited.sort_unstable();
        forfeited.dedup();
        forfeited
    }

    pub(super) fn count_stalls(&self, news: &[News], desk: &mut Desk<'_>) {
        for News { op, timeouts, beyond } in news {
            let probe = self.probe_that_does(*op);
            desk.book.timed_out(self.id, probe, *timeouts);
            desk.book.stalled_for(self.id, probe, *beyond);
        }
    }

    fn probe_that_does(&self, op: Op) -> Probe {
        let commits = self.plan.probes.iter().any(|p| p.probe == Probe::Commit);
        match op {
            Op::Write | Op::Sync => Probe::Commit,
            Op::Layout if self.to_lay.front() == Some(&Role::Commits) => Probe::Commit,
            Op::Open if commits => Probe::Commit,
            Op::Read | Op::Layout | Op::Open => Probe::Read,
        }
    }

    /// The config asks for something else at the same place. `busy`: the lanes that are out, by direction.
    pub(in crate::daemon) fn replan(&mut self, config: &TargetPlan, busy: [bool; 2], desk: &mut Desk<'_>) {
        let (was, now) = (&self.config.commit, &config.commit);
        let both = was.as_ref().zip(now.as_ref());
        let renewed = match both {
            Some((was, now)) if was.profile != now.profile => Renewed::Series,
            Some((was, now)) if was.method != now.method => Renewed::Windows,
            _ => Renewed::Nothing,
        };
        let plan = books(config, &self.plan.inflight);
        desk.book.replan(self.id, plan.clone(), renewed);
        (self.config, self.plan) = (config.clone(), plan);
        let spec = spec(config);
        if spec == *self.spec {
            self.take_intervals(desk);
        } else {
            self.spec = Arc::new(spec);
            self.begin_anew(busy, desk);
            self.other_commits = renewed != Renewed::Nothing;
        }
        self.show(desk);
    }

    fn take_intervals(&mut self, desk: &mut Desk<'_>) {
        for planned in &self.plan.probes {
            let held = &mut self.intervals[planned.probe as usize];
            if held.is_none_or(|interval| interval == planned.interval) {
                continue;
            }
            *held = Some(planned.interval);
            let task = self.task(super::work_of(planned.probe));
            desk.planner.set_interval(task, planned.interval, desk.now);
        }
    }

    /// Finds and opens everything again, by another spec.
    fn begin_anew(&mut self, busy: [bool; 2], desk: &mut Desk<'_>) {
        self.unsaid = [Some(Arc::clone(&self.spec)), Some(Arc::clone(&self.spec))];
        self.stale = busy;
        (self.opened, self.home, self.read_head, self.reading) = (None, None, None, None);
        (self.to_lay, self.laid, self.relaid) = (VecDeque::new(), 0, false);
        (self.whole, self.parts, self.failures) = (None, [None, None], [0; 3]);
        (self.lay_after, self.lay_failures) = ([None; 2], [0; 2]);
        for work in [Work::Layout, Work::Commit, Work::Open, Work::Read] {
            desk.planner.hold(self.task(work), None);
            desk.planner.set(self.task(work), When::Never, desk.now);
        }
        let asked = |probe| self.plan.probes.iter().find(|p| p.probe == probe).map(|p| p.interval);
        self.intervals = [asked(Probe::Commit), asked(Probe::Read)];
        self.courses = [Course::Idle; 2];
        self.begin(desk.planner, desk.now);
        self.stay_paused(desk);
    }

    /// What a job brought that was asked for by another spec: nothing is concluded from it. A run is one all the same, unless it made
    /// commits of another kind.
    pub(super) fn came_too_late(&mut self, report: &Report, desk: &mut Desk<'_>) {
        match report {
            Report::Ran(outcome) if outcome.probe == Probe::Commit && self.other_commits => {
                desk.book.add_cost(self.id, outcome.probe, &outcome.cost);
                desk.book.missed(self.id, outcome.probe, 1);
            }
            Report::Ran(outcome) => desk.book.enter(self.id, outcome, desk.now, desk.wall),
            _ => {}
        }
    }

    /// Told when nothing of the target is in the books any more.
    pub(in crate::daemon) fn say_goodbye(&self) {
        let state = self.shown.map_or("not looked at yet", State::label);
        tracing::info!(name = self.name, state, "target taken away");
    }
}

/// The lanes on which an operation of this kind is out for too long.
fn late(
    inflight: &Inflight,
    thresholds: &Thresholds,
    op: Op,
    now: Tick,
) -> impl Iterator<Item = Direction> + use<> {
    let own = if op == Op::Read { Direction::Read } else { Direction::Write };
    let reader = inflight.since_open_by_reader().filter(|_| op == Op::Open);
    let all = [
        (own, inflight.since_by_lane(op)),
        (Direction::Read, reader),
        (Direction::Sweep, inflight.since_by_crew(op)),
    ];
    let threshold = thresholds.of(op);
    let is_late = move |since: Option<Tick>| since.is_some_and(|since| now.since(since) >= threshold);
    all.into_iter().filter(move |(_, since)| is_late(*since)).map(|(direction, _)| direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_lane_forfeits_for_what_it_has_out_itself() {
        let (inflight, thresholds) = (Inflight::default(), Thresholds::new(Some(Duration::from_secs(2))));
        let (begin, then) = (Tick::from_nanos(1), Tick::from_nanos(1) + Duration::from_secs(2));
        let late = |inflight: &Inflight, op| late(inflight, &thresholds, op, then).collect::<Vec<_>>();
        for op in Op::ALL {
            assert_eq!(late(&inflight, op), []);
            inflight.seat(0).begin(op, begin);
            assert_eq!(late(&inflight, op), [Direction::Sweep], "{op:?}");
            inflight.begin(op, begin);
            let own = if op == Op::Read { Direction::Read } else { Direction::Write };
            assert_eq!(late(&inflight, op), [own, Direction::Sweep], "{op:?}");
            inflight.seat(0).begin(op, then);
            assert_eq!(late(&inflight, op), [own], "{op:?}");
        }
        inflight.end(Op::Open);
        inflight.begin_open_by_reader(begin);
        assert_eq!(late(&inflight, Op::Open), [Direction::Read]);
    }
}
