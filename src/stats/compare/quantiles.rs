//! The distribution of durations as a list of quantiles, whatever it was made from.

use crate::stats::Histogram;

/// Shares and the logarithm of the duration there, rising.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles(Vec<(f64, f64)>);

impl Quantiles {
    /// Of a histogram: each hundredth, and from 95 % on each two-thousandth.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let coarse = (0..95).map(|step| f64::from(step) / 100.0);
        let fine = (0..=100).map(|step| 0.95 + f64::from(step) / 2000.0);
        Self::of_points(coarse.chain(fine).filter_map(|share| Some((share, histogram.quantile(share)?))))
    }

    /// Of shares and nanoseconds, in any order; shares outside of [0, 1] are left out.
    pub fn of_points(points: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut all: Vec<(f64, f64)> = (points.into_iter())
            .filter(|(share, _)| (0.0..=1.0).contains(share))
            .map(|(share, nanos)| (share, (nanos.max(1) as f64).ln()))
            .collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Self(all)
    }

    /// Logarithm of the duration at a share, between two that are known on the line between them, outside of all the outermost;
    /// `None` when nothing is known.
    pub(super) fn ln_at(&self, share: f64) -> Option<f64> {
        let after = self.0.partition_point(|(at, _)| *at < share);
        let (right, left) = (self.0.get(after), after.checked_sub(1).and_then(|at| self.0.get(at)));
        match (left, right) {
            (Some((a, low)), Some((b, high))) => Some(low + (high - low) * (share - a) / (b - a)),
            (edge, None) | (None, edge) => edge.map(|(_, value)| *value),
        }
    }
}
