//! When a cell is warm, and when it is over. All of its threads share a [`Course`]; each goes by its own [`Leg`] of it.
//!
//! A leg records the completions of its window: from the instant at which the cell was warm, which lies outside, to the completion
//! that found the cell to be over, which lies inside. So an operation that hangs at the end is a sample, and makes the window longer.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::super::{Limits, WarmUp, Watch};
use super::bursts::{Bursts, Stretch};
use crate::clock::Tick;
use crate::probe::Trouble;

/// Completions before a mean is held against the ceiling.
const LEAST_FOR_CEILING: u64 = 8;

/// What the threads of a cell share.
#[derive(Debug)]
pub(super) struct Course {
    limits: Limits,
    ceiling: Option<Duration>,
    pub(super) watch: Arc<Watch>,
    started: AtomicU64,
    /// When the recording began; 0 as long as it did not.
    from: AtomicU64,
    over: AtomicBool,
    cut: AtomicBool,
    /// Legs whose warm-up is not over.
    cold: AtomicU32,
    operations: AtomicU64,
    bytes: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
}

/// What a leg does with a batch of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    /// Whether they are recorded: those that came after this instant.
    pub(super) record_after: Option<Tick>,
    /// Whether others follow.
    pub(super) go_on: bool,
}

impl Course {
    /// For so many legs that warm up by counting.
    pub(super) fn new(limits: Limits, ceiling: Option<Duration>, watch: Arc<Watch>, cold: u32) -> Self {
        Self {
            limits,
            ceiling,
            watch,
            started: AtomicU64::new(0),
            from: AtomicU64::new(0),
            over: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            cold: AtomicU32::new(cold),
            operations: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            trouble: Mutex::new(None),
        }
    }

    /// All threads are ready.
    pub(super) fn start(&self, now: Tick) {
        let _ = self.started.compare_exchange(0, now.nanos().max(1), Relaxed, Relaxed);
    }

    /// When the threads began.
    pub(super) fn started(&self) -> Tick {
        Tick::from_nanos(self.started.load(Relaxed))
    }

    /// When the recording began.
    pub(super) fn from(&self) -> Option<Tick> {
        Some(self.from.load(Relaxed)).filter(|from| *from != 0).map(Tick::from_nanos)
    }

    /// Latency passed the ceiling.
    pub(super) fn was_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Whether all are to come to their end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed) || self.watch.stopped().is_some()
    }

    /// The disk failed: all come to their end.
    pub(super) fn fail(&self, trouble: Trouble) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
        self.over.store(true, Relaxed);
    }

    /// How the disk failed first, if it did.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record_from(&self, now: Tick) -> Tick {
        let now = now.nanos().max(1);
        self.watch.is_warm();
        match self.from.compare_exchange(0, now, Relaxed, Relaxed) {
            Ok(_) => Tick::from_nanos(now),
            Err(earlier) => Tick::from_nanos(earlier),
        }
    }

    /// Whether what is recorded so far is enough.
    fn enough(&self, operations: u64, bytes: u64) -> bool {
        let reached = |limit: Option<u64>, so_far: &AtomicU64, more| {
            limit.is_some_and(|limit| so_far.fetch_add(more, Relaxed) + more >= limit)
        };
        let operations = reached(self.limits.operations, &self.operations, operations);
        reached(self.limits.bytes, &self.bytes, bytes) || operations
    }
}

/// One thread's way through a course.
#[derive(Debug)]
pub(super) struct Leg {
    course: Arc<Course>,
    depth: u64,
    cold: bool,
    ceiling: Option<Duration>,
    /// Completions, and what they took, of this leg's warm-up or of its recording.
    count: u64,
    nanos: u64,
    from: Option<Tick>,
    to: Tick,
    bursts: Bursts,
}

impl Leg {
    /// The leg of a thread that has `depth` outstanding. Only those that `count` are waited for when the warm-up is one of
    /// completions, and held against the ceiling.
    pub(super) fn new(course: Arc<Course>, depth: u16, count: bool) -> Self {
        let ceiling = course.ceiling.filter(|_| count);
        let to = Tick::default();
        let bursts = Bursts::new(course.limits.time);
        Self { course, depth: depth.into(), cold: count, ceiling, count: 0, nanos: 0, from: None, to, bursts }
    }

    /// A batch of `count` completions came, the last of them at `now`: they moved `bytes` and took `nanos` in all.
    pub(super) fn pass(&mut self, now: Tick, count: u64, bytes: u64, nanos: u64) -> Phase {
        self.course.watch.pass(count, bytes);
        (self.count, self.nanos) = (self.count + count, self.nanos.saturating_add(nanos));
        if self.from.is_none() && !self.is_warm(now) {
            return Phase { record_after: None, go_on: !self.course.is_over() };
        }
        let from = self.begin(now);
        if from >= now {
            return Phase { record_after: None, go_on: !self.course.is_over() };
        }
        self.to = now;
        let mut over = self.course.enough(count, bytes);
        if self.above_ceiling() {
            self.course.cut.store(true, Relaxed);
            over = true;
        }
        if over {
            self.course.over.store(true, Relaxed);
        }
        let go_on = now.since(from) < self.course.limits.time && !self.course.is_over();
        Phase { record_after: Some(from), go_on }
    }

    /// Whether its time is up, or the course over.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        let from = self.course.from();
        self.course.is_over() || from.is_some_and(|from| now.since(from) >= self.course.limits.time)
    }

    /// What was recorded: the window's ends.
    pub(super) fn window(&self) -> Option<(Tick, Tick)> {
        self.from.filter(|from| self.to > *from).map(|from| (from, self.to))
    }

    /// One of those that are recorded, of this stream of the thread, came `at`.
    pub(super) fn hear(&mut self, at: Tick, stream: usize) {
        if let Some(from) = self.from {
            self.bursts.hear(from, at, stream);
        }
    }

    /// How long was recorded, and the whole bursts in it.
    pub(super) fn recorded(&self) -> Option<(Duration, Stretch)> {
        self.window().map(|(from, to)| (to.since(from), self.bursts.whole(from, to)))
    }

    fn is_warm(&mut self, now: Tick) -> bool {
        let course = &self.course;
        if course.from().is_some() || self.above_ceiling() {
            return true;
        }
        let running = now.since(course.started());
        match course.limits.warm_up {
            // What a cell may move binds its warm-up too: so there is a most that can be said beforehand.
            WarmUp::Time(time) => {
                let most = course.limits.bytes.unwrap_or(u64::MAX);
                running >= time || course.watch.progress().bytes >= most
            }
            WarmUp::Completions(each) => {
                if self.cold && self.count >= u64::from(each) * self.depth {
                    self.cold = false;
                    course.cold.fetch_sub(1, Relaxed);
                }
                // A disk that does not come that far in the time of a cell is measured as it is.
                course.cold.load(Relaxed) == 0 || running >= course.limits.time
            }
        }
    }

    /// The first instant of the window, outside of it.
    fn begin(&mut self, now: Tick) -> Tick {
        if let Some(from) = self.from {
            return from;
        }
        let from = self.course.record_from(now);
        (self.from, self.count, self.nanos) = (Some(from), 0, 0);
        from
    }

    fn above_ceiling(&self) -> bool {
        let mean = Duration::from_nanos(self.nanos / self.count.max(1));
        self.count >= LEAST_FOR_CEILING && self.ceiling.is_some_and(|ceiling| mean > ceiling)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Stopped;
    use super::*;

    fn limits(warm_up: WarmUp) -> Limits {
        Limits { time: Duration::from_nanos(1000), operations: None, bytes: None, warm_up }
    }

    fn course(limits: Limits, ceiling: Option<Duration>, legs: u32) -> Arc<Course> {
        let course = Course::new(limits, ceiling, Arc::default(), legs);
        course.start(at(100));
        Arc::new(course)
    }

    const fn at(nanos: u64) -> Tick {
        Tick::from_nanos(nanos)
    }

    const WARM: Phase = Phase { record_after: None, go_on: true };

    const fn recorded(after: u64, go_on: bool) -> Phase {
        Phase { record_after: Some(at(after)), go_on }
    }

    #[test]
    fn what_comes_while_it_warms_up_is_not_recorded() {
        let mut leg = Leg::new(course(limits(WarmUp::Time(Duration::from_nanos(50))), None, 1), 1, true);
        assert_eq!(leg.pass(at(149), 1, 1, 49), WARM);
        assert_eq!(leg.pass(at(150), 1, 1, 1), WARM, "its end is the beginning of the window");
        assert_eq!(leg.window(), None);
        assert_eq!(leg.pass(at(151), 1, 1, 1), recorded(150, true));
        // One that hangs is in the window, and ends it.
        assert_eq!(leg.pass(at(9000), 1, 1, 8849), recorded(150, false));
        assert_eq!(leg.window(), Some((at(150), at(9000))));
    }

    #[test]
    fn all_legs_must_be_warm_and_none_waits_for_ever() {
        let course = course(limits(WarmUp::Completions(2)), None, 2);
        let (mut one, mut other) = (Leg::new(course.clone(), 4, true), Leg::new(course.clone(), 1, true));
        assert_eq!(one.pass(at(110), 8, 8, 80), WARM);
        assert_eq!(other.pass(at(120), 1, 1, 20), WARM);
        assert_eq!(one.pass(at(130), 4, 4, 80), WARM);
        assert_eq!(other.pass(at(140), 1, 1, 20), WARM);
        assert_eq!(one.pass(at(150), 4, 4, 80), recorded(140, true));
        let mut slow = Leg::new(self::course(limits(WarmUp::Completions(2)), None, 1), 64, true);
        assert_eq!(slow.pass(at(1099), 1, 1, 999), WARM);
        assert_eq!(slow.pass(at(1100), 1, 1, 999), WARM);
        assert_eq!(slow.pass(at(1101), 1, 1, 999), recorded(1100, true));
    }

    #[test]
    fn operations_and_bytes_of_all_legs_end_it() {
        for (operations, bytes) in [(Some(3), None), (None, Some(30)), (Some(9), Some(30))] {
            let limits = Limits { operations, bytes, ..limits(WarmUp::Completions(0)) };
            let course = course(limits, None, 0);
            let (mut one, mut other) =
                (Leg::new(course.clone(), 1, false), Leg::new(course.clone(), 1, false));
            assert_eq!(one.pass(at(101), 1, 10, 1), WARM);
            assert_eq!(one.pass(at(102), 1, 10, 1), recorded(101, true));
            assert_eq!(other.pass(at(103), 1, 10, 1), recorded(101, true));
            assert_eq!(one.pass(at(104), 1, 10, 1), recorded(101, false));
            assert!(!other.pass(at(105), 1, 10, 1).go_on);
        }
    }

    #[test]
    fn a_mean_above_the_ceiling_cuts_it_short() {
        let long = WarmUp::Time(Duration::from_nanos(900));
        let course = course(limits(long), Some(Duration::from_nanos(10)), 1);
        let mut leg = Leg::new(course.clone(), 1, true);
        assert_eq!(leg.pass(at(110), LEAST_FOR_CEILING, 0, 1000), WARM, "its warm-up is over");
        assert_eq!(leg.pass(at(120), LEAST_FOR_CEILING - 1, 0, 1000), recorded(110, true));
        assert_eq!(leg.pass(at(130), 1, 0, 1000), recorded(110, false));
        assert!(course.was_cut());
        let mut burst = Leg::new(self::course(limits(long), Some(Duration::from_nanos(10)), 0), 1, false);
        assert_eq!(burst.pass(at(110), 100, 0, 1_000_000), WARM);
    }

    #[test]
    fn a_request_to_stop_is_heard_at_the_next_completion() {
        let course = course(limits(WarmUp::Completions(0)), None, 0);
        let mut leg = Leg::new(course.clone(), 1, false);
        assert!(leg.pass(at(101), 1, 1, 1).go_on);
        course.watch.stop(Stopped::Guard);
        assert_eq!(leg.pass(at(102), 1, 1, 1), recorded(101, false));
        assert_eq!(course.watch.progress().operations, 2);
    }
}
