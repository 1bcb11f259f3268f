//! Tells a slow disk from a daemon that was stopped, frozen or starved: a ticker beats ten times a second, and a beat that
//! comes late says that nobody here ran, whatever the disk did. Stops shorter than 150 ms are not told from the disk's time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use super::{Fault, Finding, Invalid, Outcome};
use crate::clock::Tick;

/// Time between two beats.
pub const PERIOD: Duration = Duration::from_millis(100);
/// A silence longer than this is a gap. The gap begins when the beat was due: before that nobody was missed.
const LATE: Duration = Duration::from_millis(150);

/// When the ticker last ran, and its latest gap.
#[derive(Debug)]
pub struct Heartbeat {
    last: AtomicU64,
    gap_from: AtomicU64,
    gap_to: AtomicU64,
}

impl Heartbeat {
    /// The first beat.
    pub fn new(now: Tick) -> Self {
        let zero = || AtomicU64::new(0);
        Self { last: AtomicU64::new(now.nanos()), gap_from: zero(), gap_to: zero() }
    }

    /// The ticker ran. Whether it came late, so that there was a gap.
    pub fn beat(&self, now: Tick) -> bool {
        let last = Tick::from_nanos(self.last.load(Relaxed));
        let late = now.since(last) > LATE;
        if late {
            self.gap_from.store((last + PERIOD).nanos(), Relaxed);
            self.gap_to.store(now.nanos(), Relaxed);
        }
        // Last: a lane that wakes up beside us must find the gap in one place or the other.
        self.last.store(now.nanos(), Release);
        late
    }

    /// How much of `from` to `to` (which is now, or just before) lies in a gap: the latest one, or one that the ticker had no
    /// time to notice yet.
    pub fn silent(&self, from: Tick, to: Tick) -> Duration {
        let last = Tick::from_nanos(self.last.load(Acquire));
        let known =
            Tick::from_nanos(self.gap_from.load(Relaxed))..Tick::from_nanos(self.gap_to.load(Relaxed));
        let fresh = if to.since(last) > LATE { last + PERIOD..to } else { to..to };
        [known, fresh].iter().map(|gap| gap.end.min(to).since(gap.start.max(from))).sum()
    }
}

/// Whether more of an operation's time was ours than the disk's: `waited` for a CPU, or `silent` as a process. Below a
/// millisecond of waiting nothing is judged: that much is what any program on this machine would have met.
pub fn starved(nanos: u64, waited: Option<u64>, silent: Duration) -> bool {
    let waited = waited.unwrap_or(0);
    (waited > 1_000_000 && waited > nanos / 2) || silent.as_nanos() * 2 > u128::from(nanos)
}

impl Outcome {
    /// Says of the run whether any of its operations was ours rather than the disk's.
    pub(super) fn judge_starved(&mut self) {
        let starved = self.invalid.iter().find(|(why, _)| *why == Invalid::Starved).map_or(0, |(_, n)| *n);
        self.findings.push(match starved {
            0 => Finding::fine(Fault::Starved),
            n => Finding::holds(
                Fault::Starved,
                format!("{n} operations of the last run waited for a CPU, or for us to go on, rather than for the disk"),
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_late_beat_is_a_gap_and_only_its_overlap_counts() {
        let heart = Heartbeat::new(at(1000));
        assert!(!heart.beat(at(1100)));
        assert_eq!(heart.silent(at(1000), at(1240)), Duration::ZERO);
        // Stopped until 5 s; the lane is back before the ticker.
        assert_eq!(heart.silent(at(1050), at(5000)), Duration::from_millis(3800));
        assert!(heart.beat(at(5001)));
        assert_eq!(heart.silent(at(1050), at(5002)), Duration::from_millis(3801));
        assert_eq!(heart.silent(at(5002), at(5003)), Duration::ZERO);
    }

    #[test]
    fn most_of_the_time_must_be_ours() {
        assert!(!starved(60_000, Some(50_000), Duration::ZERO));
        assert!(starved(3_000_000, Some(2_000_000), Duration::ZERO));
        assert!(!starved(12_000_000_000, Some(2_000_000), Duration::from_millis(400)));
        assert!(starved(4_000_000_000, None, Duration::from_millis(3900)));
        assert!(!starved(5, None, Duration::ZERO));
    }
}
