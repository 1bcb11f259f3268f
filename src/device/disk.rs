//! One device, second by second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::grown::add_growth;
use super::view::{DiskView, Means};
use crate::clock::Tick;
use crate::target::Counters;

/// How far back the busiest second is looked for.
const MINUTE: Duration = Duration::from_secs(60);
/// What means are taken over, and how much of it must have been seen.
const WINDOW: Duration = Duration::from_secs(10);
const ENOUGH: Duration = Duration::from_secs(9);
/// From one sample to the next, a second is at least and at most so long. A shorter time makes of one operation a burst; in a longer
/// one we were stopped, and nobody knows how what was done is spread over it.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2);

/// A device of interest.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) name: Arc<str>,
    sequence: Option<u64>,
    /// What the kernel said last, and when.
    last: Option<(Tick, Counters)>,
    /// What is shown; `None` until it was first seen.
    done: Option<Counters>,
    /// Whether it was there at the last look.
    there: bool,
    seconds: VecDeque<Second>,
    busiest: Option<f64>,
}

/// What happened between two samples.
#[derive(Clone, Copy, Debug)]
struct Second {
    end: Tick,
    length: Duration,
    operations: u64,
    bytes: u64,
    /// Time of the operations that ended in it, summed, in nanoseconds.
    weighted: u64,
    /// Operations that were out at its end.
    in_flight: u64,
}

impl Second {
    fn between((from, before): &(Tick, Counters), end: Tick, after: &Counters) -> Self {
        let moved = |c: &Counters| {
            let operations = c.reads.operations.saturating_add(c.writes.operations);
            (operations, c.reads.bytes.saturating_add(c.writes.bytes))
        };
        let ((operations, bytes), (done, moved)) = (moved(before), moved(after));
        Self {
            end,
            length: end.since(*from),
            operations: done.saturating_sub(operations),
            bytes: moved.saturating_sub(bytes),
            weighted: after.weighted_nanos.saturating_sub(before.weighted_nanos),
            in_flight: after.in_flight,
        }
    }

    fn is_whole(&self) -> bool {
        (SHORTEST..=LONGEST).contains(&self.length)
    }

    fn per_second(&self, amount: u64) -> f64 {
        amount as f64 / self.length.as_secs_f64()
    }
}

impl Disk {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            sequence: None,
            last: None,
            done: None,
            there: false,
            seconds: VecDeque::new(),
            busiest: None,
        }
    }

    /// It is not followed any more: only its counters are kept.
    pub(super) fn leave(&mut self) {
        (self.there, self.seconds) = (false, VecDeque::new());
    }

    /// Takes in what the kernel says; `None` when it does not name the device any more. `sequence` tells another disk under the same name.
    pub(super) fn look(&mut self, now: Tick, said: Option<Counters>, sequence: Option<u64>) {
        self.there = said.is_some();
        let Some(said) = said else { return };
        let replaced = self.sequence.zip(sequence).is_some_and(|(before, after)| before != after);
        self.sequence = sequence.or(self.sequence);
        match (self.last.take(), self.done) {
            (Some((when, before)), Some(shown)) => {
                let mut sum = shown;
                if !replaced && add_growth(&mut sum, &before, &said) {
                    self.enter(Second::between(&(when, shown), now, &sum));
                } else {
                    // What a new disk did before it was first seen is not known to be new.
                    sum.in_flight = said.in_flight;
                    self.seconds.clear();
                    self.busiest = None;
                }
                self.done = Some(sum);
            }
            _ => self.done = Some(said),
        }
        self.last = Some((now, said));
    }

    fn enter(&mut self, second: Second) {
        if second.is_whole() {
            let rate = second.per_second(second.operations);
            self.busiest = Some(self.busiest.map_or(rate, |known| known.max(rate)));
        }
        while self.seconds.front().is_some_and(|old| second.end.since(old.end) >= MINUTE) {
            self.seconds.pop_front();
        }
        self.seconds.push_back(second);
    }

    /// `None` while the device is not there.
    pub(super) fn view(&self, now: Tick) -> Option<DiskView> {
        let done = self.done.filter(|_| self.there)?;
        let peak = |amount: fn(&Second) -> u64| {
            let whole = self.seconds.iter().filter(|s| s.is_whole() && now.since(s.end) < MINUTE);
            whole.map(|second| second.per_second(amount(second))).reduce(f64::max)
        };
        Some(DiskView {
            name: Arc::clone(&self.name),
            done,
            peak_operations: peak(|second| second.operations),
            peak_bytes: peak(|second| second.bytes),
            means: self.means(now),
            busiest: self.busiest,
        })
    }

    fn means(&self, now: Tick) -> Option<Means> {
        let recent = || self.seconds.iter().rev().take_while(|second| now.since(second.end) < WINDOW);
        let length: Duration = recent().map(|second| second.length).sum();
        if length < ENOUGH || !recent().all(Second::is_whole) {
            return None;
        }
        let per_second = |amount: fn(&Second) -> u64| {
            recent().map(|second| amount(second) as f64).sum::<f64>() / length.as_secs_f64()
        };
        // The kernel adds an operation's time when it ends. One that hangs shows only in what is out.
        let always_out = recent().map(|second| second.in_flight).min().unwrap_or(0);
        Some(Means {
            operations: per_second(|second| second.operations),
            bytes: per_second(|second| second.bytes),
            queue_depth: (per_second(|second| second.weighted) / 1e9).max(always_out as f64),
        })
    }
}
