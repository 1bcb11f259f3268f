//! Classic Prometheus histograms, counted from the raw nanoseconds when a sample is recorded.

/// Upper bounds of latencies, in nanoseconds: 32 from 10 µs to 67 s.
///
/// Prometheus interpolates within a bucket, so its error is the bucket's width. A healthy disk answers between 50 µs
/// (local flash) and 100 ms (a busy spinning disk): there a step is at most 1.67-fold, and 21 of the bounds lie there.
/// 0.5, 1, 2, 5, 10, 20, 50 and 100 ms are bounds because objectives are stated in them, and a share below an
/// objective is exact only at a bound. Below 50 µs three tell memory from flash. Above 100 ms the steps are coarse
/// up to what ends an operation: 30 s is the usual time-out of a block driver, and 67 s is past two of them.
pub const LATENCY_BOUNDS: &[u64] = &[
    10_000,
    20_000,
    35_000,
    50_000,
    75_000,
    100_000,
    150_000,
    200_000,
    300_000,
    500_000,
    700_000,
    1_000_000,
    1_500_000,
    2_000_000,
    3_000_000,
    5_000_000,
    7_000_000,
    10_000_000,
    15_000_000,
    20_000_000,
    30_000_000,
    50_000_000,
    70_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    67_000_000_000,
];

/// Upper bounds of a run's lateness, in nanoseconds: a timer's slack lies below 1 ms, a busy machine's up to 100 ms,
/// and more means that the lane was still busy with the run before.
pub const LATENESS_BOUNDS: &[u64] = &[
    1_000_000,
    5_000_000,
    20_000_000,
    100_000_000,
    500_000_000,
    2_000_000_000,
    10_000_000_000,
    60_000_000_000,
];

/// A classic histogram: how many samples lie at or below each bound, and their exact sum. Never reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    bounds: &'static [u64],
    counts: Box<[u64]>,
    sum: u128,
}

impl Buckets {
    /// An empty histogram over ascending bounds in nanoseconds; samples above the last are counted too.
    pub fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.is_sorted_by(|a, b| a < b));
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0 }
    }

    /// Over [`LATENCY_BOUNDS`].
    pub fn latency() -> Self {
        Self::new(LATENCY_BOUNDS)
    }

    /// Over [`LATENESS_BOUNDS`].
    pub fn lateness() -> Self {
        Self::new(LATENESS_BOUNDS)
    }

    /// Counts a sample; one that equals a bound lies within it (`le` is inclusive).
    pub fn record(&mut self, nanos: u64) {
        let at = self.bounds.partition_point(|bound| *bound < nanos);
        self.counts[at] += 1;
        self.sum += u128::from(nanos);
    }

    /// Counts a sample and, as `hdrhistogram` does it in its corrected recording, those that a client would have seen who asks `every`
    /// so many nanoseconds and waited for this one: `nanos − every`, `nanos − 2 × every` and so on, down to `every`. None for `every` = 0.
    pub fn record_corrected(&mut self, nanos: u64, every: u64) {
        self.record(nanos);
        let more = nanos.checked_div(every).map_or(0, |times| times.saturating_sub(1));
        if more == 0 {
            return;
        }
        // The samples `nanos − k × every` for k = 1 … more; those at or below a bound are the ones from some k on.
        let mut below = 0;
        for at in 0..self.counts.len() {
            let first = match self.bounds.get(at) {
                Some(bound) => nanos.saturating_sub(*bound).div_ceil(every).max(1),
                None => 1,
            };
            let here = (more + 1).saturating_sub(first);
            self.counts[at] += here - below;
            below = here;
        }
        let (n, nanos, every) = (u128::from(more), u128::from(nanos), u128::from(every));
        self.sum += n * nanos - every * (n * (n + 1) / 2);
    }

    /// The bounds in nanoseconds.
    pub fn bounds(&self) -> &'static [u64] {
        self.bounds
    }

    /// Samples at or below each bound, and last all samples (`+Inf`): one more than there are bounds.
    pub fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        })
    }

    /// All samples.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their exact sum in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_are_few_ascending_and_hold_the_usual_objectives() {
        assert!(LATENCY_BOUNDS.len() <= 32 && LATENESS_BOUNDS.len() == 8);
        for bounds in [LATENCY_BOUNDS, LATENESS_BOUNDS] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
        for micros in [500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000] {
            assert!(LATENCY_BOUNDS.contains(&(micros * 1000)), "{micros} µs");
        }
        let dense: Vec<u64> =
            LATENCY_BOUNDS.iter().copied().filter(|b| (50_000..=100_000_000).contains(b)).collect();
        assert!(dense.windows(2).all(|pair| pair[1] * 100 <= pair[0] * 167));
    }

    #[test]
    fn a_bound_is_inclusive() {
        let mut buckets = Buckets::latency();
        buckets.record(10_000);
        buckets.record(10_001);
        assert_eq!(buckets.cumulative().take(2).collect::<Vec<_>>(), [1, 2]);
    }

    proptest! {
        #[test]
        fn a_corrected_sample_is_what_recording_one_by_one_gives(nanos in 0u64..20_000_000_000, every in 1_000_000u64..3_000_000_000) {
            let (mut at_once, mut one_by_one) = (Buckets::latency(), Buckets::latency());
            at_once.record_corrected(nanos, every);
            one_by_one.record(nanos);
            let mut missing = nanos.saturating_sub(every);
            while missing >= every {
                one_by_one.record(missing);
                missing -= every;
            }
            prop_assert_eq!(at_once, one_by_one);
        }

        #[test]
        fn counts_like_a_plain_count(samples in proptest::collection::vec(any_latency(), 0..200)) {
            let mut buckets = Buckets::latency();
            samples.iter().for_each(|s| buckets.record(*s));
            let cumulative: Vec<u64> = buckets.cumulative().collect();
            for (bound, seen) in LATENCY_BOUNDS.iter().zip(&cumulative) {
                prop_assert_eq!(*seen, samples.iter().filter(|s| *s <= bound).count() as u64);
            }
            prop_assert!(cumulative.is_sorted());
            prop_assert_eq!(*cumulative.last().unwrap(), buckets.count());
            prop_assert_eq!(buckets.count(), samples.len() as u64);
            prop_assert_eq!(buckets.sum(), samples.iter().map(|s| u128::from(*s)).sum::<u128>());
        }
    }

    fn any_latency() -> impl Strategy<Value = u64> {
        prop_oneof![8 => (0u32..64, any::<u64>()).prop_map(|(shift, v)| v >> shift), 1 => Just(u64::MAX), 1 => Just(0)]
    }
}
