//! Axes: where a value lies, and which values are written beside it.

/// A range of values on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

/// Round numbers of a decade.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

impl Scale {
    /// Logarithmic, from the round number below the least to that above the greatest. Values that are not above 0 are left out.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Self {
        let above = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = above.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if high > 0.0 { (low, high) } else { (1.0, 10.0) };
        let (low, high) = (down(low), up(high));
        Self { low, high: if high > low { high } else { up(high * 1.5) }, log: true }
    }

    /// Linear, from 0 to the round number above the greatest.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let high = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self { low: 0.0, high: if high > 0.0 { up(high * 0.999) } else { 1.0 }, log: false }
    }

    /// Logarithmic, with exactly these ends.
    pub(super) fn between(low: f64, high: f64) -> Self {
        Self { low, high: if high > low { high } else { low * 2.0 }, log: true }
    }

    /// Linear, with exactly this end.
    pub(super) fn up_to(high: f64) -> Self {
        Self { low: 0.0, high: high.max(f64::MIN_POSITIVE), log: false }
    }

    /// Where on the axis: 0 at its beginning, 1 at its end; what lies outside is at the nearer end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// Values that are written: some three to seven.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.log {
            let step = up(self.high / 5.0);
            let n = (self.high / step + 1e-9).floor() as usize;
            return (0..=n).map(|at| step * at as f64).collect();
        }
        let decades = (self.high / self.low).log10();
        let each: &[f64] = match decades {
            few if few <= 2.05 => &ROUND,
            _ => &[1.0],
        };
        let every = if decades > 6.0 { 2 } else { 1 };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all = (first..=last)
            .filter(|decade| decade.rem_euclid(every) == 0)
            .flat_map(|decade| each.iter().map(move |round| round * 10f64.powi(decade)));
        all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect()
    }
}

fn decade(value: f64) -> f64 {
    10f64.powf(value.log10().floor())
}

fn up(value: f64) -> f64 {
    let unit = decade(value);
    let round = ROUND.iter().map(|round| round * unit).find(|round| *round >= value * 0.999_999);
    round.unwrap_or(unit * 10.0)
}

fn down(value: f64) -> f64 {
    let unit = decade(value);
    ROUND.iter().rev().map(|round| round * unit).find(|round| *round <= value * 1.000_001).unwrap_or(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_ticks_are_round() {
        let scale = Scale::log([130.0, 4_400.0]);
        assert_eq!((scale.at(100.0), scale.at(5_000.0)), (0.0, 1.0));
        assert_eq!(scale.ticks(), [100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]);
        assert_eq!(Scale::log([3.0, 2e6]).ticks().len(), 6);
        let linear = Scale::from_zero([0.0, 870.0]);
        assert_eq!((linear.at(500.0), linear.ticks()), (0.5, vec![0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]));
    }

    #[test]
    fn odd_values_break_nothing() {
        for scale in [
            Scale::log([]),
            Scale::log([0.0, f64::NAN]),
            Scale::log([5.0]),
            Scale::from_zero([]),
            Scale::from_zero([f64::INFINITY]),
            Scale::between(1.0, 1.0),
            Scale::up_to(0.0),
        ] {
            for value in [0.0, -1.0, 7.0, f64::NAN, f64::INFINITY, 1e300] {
                assert!((0.0..=1.0).contains(&scale.at(value)), "{scale:?} {value}");
            }
            assert!(scale.ticks().len() < 12, "{scale:?}");
        }
    }
}
