//! The age of what has not come back yet, in atomics that a scrape reads without asking anybody.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::Tick;

/// The kinds of operation whose age is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// A read.
    Read,
    /// A write of the commit probe.
    Write,
    /// An fsync or fdatasync of the commit probe.
    Sync,
    /// Opening, looking at, or locking the target.
    Open,
    /// Writing a probe file.
    Layout,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Sync, Self::Open, Self::Layout];

    /// As metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Open => "open",
            Self::Layout => "layout",
        }
    }
}

/// Start of the oldest unfinished operation of each kind, 0 when there is none. A lane stores it *before* the system
/// call, so that an operation that never returns is seen. Both lanes of a target open things, so each has a cell of its own
/// for that: one that is done must not hide the other that is stuck.
#[derive(Debug, Default)]
pub struct Inflight {
    cells: [AtomicU64; Op::ALL.len() + 1],
    /// Those of a sweep's threads, made when there is a sweep.
    crew: OnceLock<Box<[Inflight]>>,
}

/// Threads of a sweep whose operations are told apart; others share.
const SEATS: usize = 64;

/// The reading lane's cell for [`Op::Open`].
const OPEN_BY_READER: usize = Op::ALL.len();

impl Inflight {
    /// `op` is out since `since`.
    #[inline]
    pub fn begin(&self, op: Op, since: Tick) {
        self.cells[op as usize].store(since.nanos().max(1), Relaxed);
    }

    /// `op` is out since `since`, as long as `act` runs; where one is out already, that goes on.
    pub fn during<T>(&self, op: Op, since: Tick, act: impl FnOnce() -> T) -> T {
        let cell = &self.cells[op as usize];
        let first = cell.compare_exchange(0, since.nanos().max(1), Relaxed, Relaxed).is_ok();
        let done = act();
        if first {
            self.end(op);
        }
        done
    }

    /// The reading lane is opening something since `since`.
    pub fn begin_open_by_reader(&self, since: Tick) {
        self.cells[OPEN_BY_READER].store(since.nanos().max(1), Relaxed);
    }

    /// The reading lane is opening nothing any more.
    pub fn end_open_by_reader(&self) {
        self.cells[OPEN_BY_READER].store(0, Relaxed);
    }

    /// That of a sweep's thread, by the thread's number.
    pub fn seat(&self, number: usize) -> &Self {
        &self.crew.get_or_init(|| (0..SEATS).map(|_| Self::default()).collect())[number % SEATS]
    }

    /// The sweep lost its way (a panic): nothing of it is out any more.
    pub fn clear_crew(&self) {
        for seat in self.crew.get().into_iter().flatten() {
            Op::ALL.into_iter().for_each(|op| seat.end(op));
        }
    }

    /// The writing lane lost its way (a panic): nothing of it is out any more.
    pub fn clear_writer(&self) {
        [Op::Write, Op::Sync, Op::Open, Op::Layout].into_iter().for_each(|op| self.end(op));
    }

    /// As [`Inflight::clear_writer`], for the reading lane.
    pub fn clear_reader(&self) {
        self.end(Op::Read);
        self.end_open_by_reader();
    }

    /// No `op` is out.
    #[inline]
    pub fn end(&self, op: Op) {
        self.cells[op as usize].store(0, Relaxed);
    }

    /// How long the oldest unfinished `op` has been out, zero when there is none.
    pub fn age(&self, op: Op, now: Tick) -> Duration {
        self.since(op).map_or(Duration::ZERO, |since| now.since(since))
    }

    /// When the oldest unfinished `op` went out, `None` when there is none.
    pub fn since(&self, op: Op) -> Option<Tick> {
        self.since_by_probes(op).into_iter().chain(self.since_by_crew(op)).min()
    }

    /// The same of what the latency probes' lanes have out.
    pub fn since_by_probes(&self, op: Op) -> Option<Tick> {
        let other = if op == Op::Open { self.since_open_by_reader() } else { None };
        self.cell(op as usize).into_iter().chain(other).min()
    }

    /// The same of what a sweep has out.
    pub fn since_by_crew(&self, op: Op) -> Option<Tick> {
        self.crew.get().into_iter().flatten().filter_map(|seat| seat.cell(op as usize)).min()
    }

    /// Since when the writing lane has had this out; for [`Op::Read`] the reading one.
    pub fn since_by_lane(&self, op: Op) -> Option<Tick> {
        self.cell(op as usize)
    }

    /// Since when the reading lane has been opening something.
    pub fn since_open_by_reader(&self) -> Option<Tick> {
        self.cell(OPEN_BY_READER)
    }

    fn cell(&self, at: usize) -> Option<Tick> {
        Some(self.cells[at].load(Relaxed)).filter(|since| *since != 0).map(Tick::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_runs_from_begin_to_end() {
        let inflight = Inflight::default();
        let at = |n| Tick::from_nanos(n);
        assert_eq!(inflight.age(Op::Sync, at(100)), Duration::ZERO);
        inflight.begin(Op::Sync, at(40));
        assert_eq!(inflight.age(Op::Sync, at(100)), Duration::from_nanos(60));
        assert_eq!(inflight.age(Op::Read, at(100)), Duration::ZERO);
        inflight.end(Op::Sync);
        assert_eq!(inflight.since(Op::Sync), None);
    }

    #[test]
    fn what_is_done_within_another_leaves_that_as_it_is() {
        let inflight = Inflight::default();
        let at = |n| Tick::from_nanos(n);
        let inner = || inflight.during(Op::Open, at(50), || inflight.since(Op::Open));
        assert_eq!(inner(), Some(at(50)));
        assert_eq!(inflight.since(Op::Open), None);
        let seen = inflight.during(Op::Open, at(40), || (inner(), inflight.since(Op::Open)));
        assert_eq!(seen, (Some(at(40)), Some(at(40))));
        assert_eq!(inflight.since(Op::Open), None);
    }

    #[test]
    fn a_lane_that_has_opened_does_not_hide_one_that_is_stuck() {
        let inflight = Inflight::default();
        let at = |n| Tick::from_nanos(n);
        inflight.begin(Op::Open, at(40));
        inflight.begin_open_by_reader(at(50));
        assert_eq!(inflight.since(Op::Open), Some(at(40)));
        inflight.end_open_by_reader();
        assert_eq!(inflight.since(Op::Open), Some(at(40)));
        inflight.begin_open_by_reader(at(60));
        inflight.end(Op::Open);
        assert_eq!(inflight.since(Op::Open), Some(at(60)));
    }

    #[test]
    fn the_oldest_of_a_sweeps_threads_is_seen() {
        let inflight = Inflight::default();
        inflight.seat(0).begin(Op::Sync, Tick::from_nanos(40));
        inflight.seat(SEATS + 1).begin(Op::Sync, Tick::from_nanos(30));
        inflight.begin(Op::Sync, Tick::from_nanos(50));
        assert_eq!(inflight.since(Op::Sync), Some(Tick::from_nanos(30)));
        assert_eq!(inflight.since_by_crew(Op::Sync), Some(Tick::from_nanos(30)));
        assert_eq!(inflight.since_by_probes(Op::Sync), Some(Tick::from_nanos(50)));
        inflight.seat(1).end(Op::Sync);
        assert_eq!(inflight.since(Op::Sync), Some(Tick::from_nanos(40)));
        inflight.clear_crew();
        assert_eq!(inflight.since(Op::Sync), Some(Tick::from_nanos(50)));
    }
}
