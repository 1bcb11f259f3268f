//! From which age on an operation counts as stalled.
//!
//! A disk is judged by itself: five times the 99.9 % quantile of its last hour is far from what it does on a bad day of its own,
//! and near enough to be told of within a second. What is known of too few samples is judged by the longest threshold.

use std::time::Duration;

use super::view::{SeriesView, Timed};
use crate::clock::Tick;
use crate::io::{Inflight, Op};

/// Times the 99.9 % quantile of the last hour.
const FACTOR: u32 = 5;
/// No threshold is below this, unless it is configured.
const LEAST: Duration = Duration::from_secs(1);
/// None is above this, unless it is configured.
const MOST: Duration = Duration::from_secs(10);
/// A slice of a layout is many writes and a sync of them all.
const LAYOUT: Duration = Duration::from_secs(60);
/// The window of an hour, among [`super::WINDOWS`].
const HOUR: usize = 2;

/// The thresholds of one target by operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds([Duration; Op::ALL.len()]);

impl Thresholds {
    /// What is configured, or what is judged by until an hour has shown more.
    pub fn new(configured: Option<Duration>) -> Self {
        let of = |op| match op {
            Op::Layout => configured.unwrap_or(LAYOUT),
            Op::Read | Op::Write | Op::Sync | Op::Open => configured.unwrap_or(MOST),
        };
        Self(Op::ALL.map(of))
    }

    /// By what the windows of the series hold.
    pub(super) fn learned(configured: Option<Duration>, series: &[SeriesView]) -> Self {
        let mut all = Self::new(configured);
        if configured.is_some() {
            return all;
        }
        for (op, timed) in [(Op::Read, Timed::Read), (Op::Write, Timed::Write), (Op::Sync, Timed::Sync)] {
            let hour = |s: &SeriesView| s.windows[HOUR].and_then(|held| held.p999);
            if let Some(p999) = series.iter().filter(|s| s.timed == timed).filter_map(hour).max() {
                all.0[op as usize] = Duration::from_nanos(p999).saturating_mul(FACTOR).clamp(LEAST, MOST);
            }
        }
        all
    }

    /// For the time of a sweep: with many outstanding an operation waits for the others, which says nothing of the disk's health.
    pub(super) fn patient(self) -> Self {
        Self(self.0.map(|threshold| threshold.max(MOST)))
    }

    /// That of one operation.
    pub fn of(&self, op: Op) -> Duration {
        self.0[op as usize]
    }

    /// The first operation that is out for longer than its threshold.
    pub fn exceeded(&self, inflight: &Inflight, now: Tick) -> Option<Op> {
        Op::ALL.into_iter().find(|op| inflight.age(*op, now) > self.of(*op))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Phase;
    use crate::stats::Windows;

    fn series(timed: Timed, millis: u64, samples: u64) -> SeriesView {
        let mut windows = Windows::new(&[Duration::from_secs(3600); 3]);
        (0..samples).for_each(|_| windows.record(Tick::from_nanos(1), millis * 1_000_000));
        let mut series = SeriesView::new(timed, Phase::Warm);
        series.windows[HOUR] = windows.summary(HOUR);
        series
    }

    #[test]
    fn a_threshold_is_learned_from_a_thousand_samples_within_its_bounds() {
        let learned =
            |millis, samples| Thresholds::learned(None, &[series(Timed::Sync, millis, samples)]).of(Op::Sync);
        assert_eq!(learned(500, 999), MOST);
        assert_eq!(learned(500, 1000), Duration::from_millis(2500));
        assert_eq!(learned(1, 1000), LEAST);
        assert_eq!(learned(9000, 1000), MOST);
    }

    #[test]
    fn what_is_configured_holds_and_each_operation_has_its_own() {
        let configured = Duration::from_secs(30);
        let fixed = Thresholds::learned(Some(configured), &[series(Timed::Sync, 1, 1000)]);
        assert_eq!(
            (fixed.of(Op::Sync), fixed.of(Op::Open), fixed.of(Op::Layout)),
            (configured, configured, configured)
        );
        let slow_syncs =
            Thresholds::learned(None, &[series(Timed::Sync, 400, 1000), series(Timed::Write, 1, 1000)]);
        assert_eq!(slow_syncs.of(Op::Sync), Duration::from_secs(2));
        assert_eq!((slow_syncs.of(Op::Write), slow_syncs.of(Op::Read)), (LEAST, MOST));
    }

    #[test]
    fn only_what_is_out_for_too_long_is_found() {
        let (inflight, thresholds) = (Inflight::default(), Thresholds::new(None));
        inflight.begin(Op::Layout, Tick::from_nanos(1));
        let later = |seconds| Tick::from_nanos(1) + Duration::from_secs(seconds);
        assert_eq!(thresholds.exceeded(&inflight, later(60)), None);
        assert_eq!(thresholds.exceeded(&inflight, later(61)), Some(Op::Layout));
    }
}
