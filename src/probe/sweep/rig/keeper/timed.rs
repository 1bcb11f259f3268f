//! Loops that go by the clock: bursts, and loads at fixed rates.

use std::time::Duration;

use super::Keeper;
use crate::clock::{self, Tick};

/// How often one that sleeps between bursts looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

impl Keeper<'_> {
    /// Bursts of the depth, each `every` after the one before began, or as soon as that is back.
    pub(in super::super) fn burst(&mut self, every: Duration) {
        self.to_prepare = self.slots.len();
        while !self.over {
            let began = clock::now();
            self.fill(began);
            self.shown = Tick::default();
            self.show_oldest(began);
            self.engine.flush();
            while self.engine.outstanding() > 0 {
                let batch = self.reap();
                let phase = self.pass(batch);
                self.record(phase);
                self.show_oldest(batch.now);
            }
            self.prepare();
            self.rest_until(began + every);
        }
        self.close();
    }

    /// So many operations in a thousand seconds, each at its instant, whether those before are back or not. What finds no free slot
    /// waits for one, and its time counts from when it was to begin.
    pub(in super::super) fn offer(&mut self, per_thousand_seconds: u64) {
        let began = clock::now();
        let apart = |n: u64| u128::from(n) * 1_000_000_000_000 / u128::from(per_thousand_seconds.max(1));
        let due = |n: u64| began + Duration::from_nanos(u64::try_from(apart(n)).unwrap_or(u64::MAX));
        let mut next = 0;
        loop {
            let now = clock::now();
            self.over |= self.leg.is_over(now);
            while !self.over && due(next) <= now && self.engine.outstanding() < self.depth {
                if !self.issue_due(now, Some(due(next))) {
                    break;
                }
                next += 1;
            }
            if self.over && self.engine.outstanding() == 0 {
                break;
            }
            self.wait_until(due(next).min(now + LOOK), now);
        }
        self.close();
    }

    /// Takes in what is back by then.
    fn wait_until(&mut self, deadline: Tick, now: Tick) {
        if self.engine.outstanding() == 0 {
            std::thread::sleep(deadline.since(now));
            return;
        }
        self.engine.flush();
        let full = self.over || self.engine.outstanding() == self.depth;
        let batch = self.reap_before(if full { now + LOOK } else { deadline });
        if !self.done.is_empty() {
            // What was due in the window counts as long as it took, whenever that is; the rate is that of the window.
            let late = self.leg.window().filter(|_| self.over);
            let phase = self.pass(batch);
            match late {
                Some((from, _)) => self.record_each(from, false),
                None => self.record(phase),
            }
            self.look();
            self.prepare();
        }
        self.show_oldest(now);
    }

    fn rest_until(&mut self, end: Tick) {
        loop {
            let now = clock::now();
            self.over |= self.leg.is_over(now);
            if self.over || now >= end {
                return;
            }
            std::thread::sleep(end.since(now).min(LOOK));
        }
    }
}
