//! HDR histograms that no value can break.

mod codec;

use hdrhistogram::Counter;
use hdrhistogram::Histogram as Hdr;

/// The largest value told apart: one hour. Longer ones are counted as that, and counted apart.
const HIGHEST: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds from 1 ns to 1 h, with the exact sum, minimum and maximum beside it.
#[derive(Clone, Debug)]
pub struct Histogram<C: Counter = u64> {
    // `None` only if the crate refuses our constant bounds, which a test excludes.
    cells: Option<Hdr<C>>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    overflow: u64,
}

impl Histogram<u64> {
    /// Three digits (0.1 %): for single runs.
    pub fn fine() -> Self {
        Self::with_digits(3)
    }
}

impl Histogram<u32> {
    /// Two digits (1 %) in cells of 32 bits, about 18 KiB: for series that live as long as the daemon. A cell that is full stays
    /// full.
    pub fn coarse() -> Self {
        Self::with_digits(2)
    }
}

impl<C: Counter> Histogram<C> {
    fn with_digits(digits: u8) -> Self {
        Self {
            cells: Hdr::new_with_bounds(1, HIGHEST, digits).ok(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            overflow: 0,
        }
    }

    /// Counts a sample. Above one hour it lands in the last cell and in [`Histogram::overflow`]; sum and maximum stay true.
    pub fn record(&mut self, nanos: u64) {
        if let Some(cells) = &mut self.cells {
            cells.saturating_record(nanos.min(HIGHEST));
        }
        self.count += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.overflow += u64::from(nanos > HIGHEST);
    }

    /// Takes in all samples of another, to the coarser one's digits; sum and extremes stay exact.
    pub fn merge(&mut self, other: &Self) {
        if let (Some(cells), Some(others)) = (&mut self.cells, &other.cells) {
            // Fails only where the other reaches higher than we do, and no histogram of ours does.
            let _ = cells.add(others);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.overflow = self.overflow.saturating_add(other.overflow);
    }

    /// Durations with how often they came, in order, to the histogram's digits.
    pub fn cells(&self) -> impl Iterator<Item = (u64, C)> {
        let each = self.cells.iter().flat_map(|cells| cells.iter_recorded().map(move |cell| (cells, cell)));
        each.map(|(cells, cell)| (cells.median_equivalent(cell.value_iterated_to()), cell.count_at_value()))
    }

    /// Counts so many samples of one duration.
    pub fn record_n(&mut self, nanos: u64, count: C) {
        let n = count.as_u64();
        if n == 0 {
            return;
        }
        if let Some(cells) = &mut self.cells {
            cells.saturating_record_n(nanos.min(HIGHEST), count);
        }
        self.count += n;
        self.sum += u128::from(nanos) * u128::from(n);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.overflow += if nanos > HIGHEST { n } else { 0 };
    }

    /// How many samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// How many of them took more than an hour.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The exact least, `None` when empty.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The exact greatest, `None` when empty.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The exact mean, `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Their standard deviation about the mean, to the histogram's digits, `None` when empty.
    pub fn stdev(&self) -> Option<f64> {
        (self.count > 0).then(|| self.cells.as_ref().map_or(0.0, Hdr::stdev))
    }

    /// The q-quantile by nearest rank, to the histogram's digits and never outside of `[min, max]`; `None` when
    /// empty. `q` outside of [0, 1] is taken as its nearer end, NaN as 0.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let (min, max) = (self.min()?, self.max()?);
        let q = if q.is_nan() { 0.0 } else { q.clamp(0.0, 1.0) };
        if q >= 1.0 {
            return Some(max);
        }
        Some(self.cells.as_ref().map_or(max, |cells| cells.value_at_quantile(q)).clamp(min, max))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn empty_has_no_numbers() {
        let h = Histogram::fine();
        assert_eq!((h.quantile(0.5), h.min(), h.max(), h.mean()), (None, None, None, None));
    }

    #[test]
    fn a_coarse_one_is_small() {
        let h = Histogram::coarse();
        assert!(h.cells.unwrap().distinct_values() * 4 <= 20 * 1024);
    }

    #[test]
    fn two_together_are_as_one() {
        let (mut one, mut two, mut both) = (Histogram::fine(), Histogram::fine(), Histogram::fine());
        for n in 1..1000 {
            if n % 3 == 0 { &mut one } else { &mut two }.record(n * n * 100);
            both.record(n * n * 100);
        }
        one.merge(&two);
        one.merge(&Histogram::fine());
        let figures = |h: &Histogram| (h.count(), h.sum(), h.min(), h.max(), h.quantile(0.9), h.overflow());
        assert_eq!(figures(&one), figures(&both));
        assert!(one.cells().eq(both.cells()));
        assert_eq!(one.cells().map(|(_, n)| n).sum::<u64>(), 999);
        assert!(one.cells().all(|(nanos, _)| (100..=100_000_000).contains(&nanos)));
    }

    #[test]
    fn two_hours_do_not_break_it() {
        let mut h = Histogram::coarse();
        h.record(2 * HIGHEST);
        h.record(u64::MAX);
        h.record(0);
        assert_eq!((h.overflow(), h.max(), h.min()), (2, Some(u64::MAX), Some(0)));
        assert!(h.quantile(0.9).unwrap() >= HIGHEST);
        assert_eq!(h.sum(), u128::from(u64::MAX) + 2 * u128::from(HIGHEST));
    }

    #[test]
    fn the_standard_deviation_is_that_of_all() {
        let mut h = Histogram::fine();
        [2000, 4000, 4000, 4000, 5000, 5000, 7000, 9000].iter().for_each(|s| h.record(*s));
        assert!((h.stdev().unwrap() - 2000.0).abs() < 5.0, "{:?}", h.stdev());
        assert_eq!(Histogram::fine().stdev(), None);
    }

    fn check<C: Counter>(
        mut h: Histogram<C>,
        mut samples: Vec<u64>,
        error: f64,
    ) -> Result<(), TestCaseError> {
        samples.iter().for_each(|s| h.record(*s));
        samples.sort_unstable();
        let mut last = 0;
        for thousandths in [0, 500, 900, 990, 999, 1000] {
            let value = h.quantile(thousandths as f64 / 1000.0).unwrap();
            let exact = samples[super::super::nearest_rank(samples.len(), thousandths)];
            prop_assert!(value >= last && value <= h.max().unwrap() && value >= h.min().unwrap());
            let near = (value as f64 - exact as f64).abs() <= exact as f64 * error + 1.0;
            prop_assert!(near, "{thousandths}: {value} is not near {exact}");
            last = value;
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn quantiles_are_near_ordered_and_within(
            samples in proptest::collection::vec((0u32..40, 0u64..HIGHEST).prop_map(|(s, v)| v >> s), 1..300),
        ) {
            check(Histogram::fine(), samples.clone(), 0.001)?;
            check(Histogram::coarse(), samples, 0.01)?;
        }
    }
}
