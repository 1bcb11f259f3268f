//! The only reads of time in the crate: a monotonic [`Tick`] for everything that is measured or
//! scheduled, and the wall clock for what people and Prometheus read.
//!
//! `CLOCK_MONOTONIC` is read (through the vDSO), not `CLOCK_MONOTONIC_RAW`, so that our stamps and the
//! block layer's (`trace_clock` = `mono`) lie on one axis.

use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// An instant of `CLOCK_MONOTONIC`, in nanoseconds. Differences saturate at zero: a clock that steps
/// back must not become a latency of 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// From nanoseconds of `CLOCK_MONOTONIC`.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds since `earlier`, zero when `earlier` is later.
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Time since `earlier`, zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Tick {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Now, on the monotonic clock.
#[inline]
pub fn now() -> Tick {
    let t = clock_gettime(ClockId::Monotonic);
    Tick((t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64))
}

/// The time that the calling thread has had a CPU.
pub fn thread_cpu() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// Wall-clock time since 1970, zero when the clock is set before that.
#[allow(clippy::disallowed_methods, reason = "this is the one place")]
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_gives_zero() {
        let (early, late) = (Tick::from_nanos(5), Tick::from_nanos(9));
        assert_eq!(early.nanos_since(late), 0);
        assert_eq!(late.since(early), Duration::from_nanos(4));
        assert_eq!(early - Duration::from_secs(1), Tick::from_nanos(0));
    }

    #[test]
    fn time_goes_on() {
        let before = now();
        assert!(now() >= before);
        assert!(wall() > Duration::ZERO);
    }
}
