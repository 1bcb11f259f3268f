//! How far rounds of one cell lie apart, learned from all cells of a comparison.
//!
//! Rounds are the only look at what a disk does from one time to another, but two or three of them say little of their own scatter.
//! A comparison has many cells, though. So a cell's scatter is its own, of both sides together, moderated by what the cells have in
//! common: the more alike they are, the more the common scatter counts (Smyth's moderated variance, with the strength of the
//! common part taken from how much the logarithms of the cells' variances differ beyond what chance does). Cells that are not
//! alike are left to themselves.

use statrs::function::gamma::digamma;

use super::error::RelativeError;
use super::{Figure, Run};
use crate::stats::SpanFigures;
use crate::stats::series::mean;

/// What is learned of the common scatter is uncertain itself, which the theory leaves out: with so much of its weight, lists of
/// cells that are very unlike keep to the stated chance too.
const TRUST: f64 = 0.5;
/// No common part that weighs less than this is worth anything.
const LEAST_FREEDOM: f64 = 0.01;

/// A variance of logarithms, and its degrees of freedom.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Variance {
    variance: f64,
    freedom: f64,
}

/// How far rounds lie apart in all cells of a comparison, by figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scatter([Variance; Figure::ALL.len()]);

impl Scatter {
    /// Learns it from the cells, each with its run on either side. Cells with one round on both sides tell nothing.
    pub fn of(cells: &[[&Run; 2]]) -> Self {
        Self(Figure::ALL.map(|figure| {
            let own: Vec<Variance> = cells.iter().filter_map(|cell| own(figure, cell)).collect();
            common(&own)
        }))
    }

    /// Error of the difference of a cell's two runs, as the scatter of their rounds shows it; `None` where there are no rounds.
    pub(super) fn error(&self, figure: Figure, cell: [&Run; 2]) -> Option<RelativeError> {
        let own = own(figure, &cell)?;
        let common = self.0[figure as usize];
        let freedom = own.freedom + common.freedom;
        let variance = (own.variance * own.freedom + common.variance * common.freedom) / freedom;
        // A run without rounds is one.
        let parts = cell.map(|run| 1.0 / levels(figure, run).len().max(1) as f64);
        Some(RelativeError { error: (variance * (parts[0] + parts[1])).sqrt(), freedom })
    }
}

/// Of a cell's rounds, both sides together, each around its own mean.
fn own(figure: Figure, cell: &[&Run; 2]) -> Option<Variance> {
    let sides = cell.map(|run| levels(figure, run));
    let squares = |levels: &Vec<f64>| {
        let mean = mean(levels);
        levels.iter().map(|level| (level - mean).powi(2)).sum::<f64>()
    };
    let freedom: usize = sides.iter().map(|levels| levels.len().saturating_sub(1)).sum();
    let freedom = freedom as f64;
    // What is below the allowance that is made anyway need not be told apart.
    let least = figure.between_runs(f64::INFINITY).powi(2);
    let variance = || (sides.iter().map(squares).sum::<f64>() / freedom).max(least);
    (freedom > 0.0).then(|| Variance { variance: variance(), freedom })
}

/// Logarithms of a figure in each round.
fn levels(figure: Figure, run: &Run) -> Vec<f64> {
    let level = |round: &SpanFigures| {
        let operations: f64 = round.operations.iter().map(|n| f64::from(*n)).sum();
        let busy =
            || round.operations.iter().zip(&round.mean_ns).map(|(n, mean)| f64::from(*n) * *mean as f64);
        let nanos = match figure {
            Figure::Rate => return operations / (round.seconds * round.operations.len() as f64),
            Figure::P50 => round.p50_ns,
            Figure::P99 => round.p99_ns,
        };
        // The mean is a poor witness, but one where the round has no percentile.
        nanos.map_or_else(|| busy().sum::<f64>() / operations, |nanos| nanos as f64)
    };
    run.rounds.iter().map(level).map(f64::ln).filter(|level| level.is_finite()).collect()
}

/// What variances have in common. Its degrees of freedom are none where they have nothing.
fn common(all: &[Variance]) -> Variance {
    if all.len() < 2 {
        return Variance::default();
    }
    let count = all.len() as f64;
    // The logarithm of a variance, freed of the bias that few degrees of freedom give it.
    let logs: Vec<f64> =
        all.iter().map(|v| v.variance.ln() - digamma(v.freedom / 2.0) + (v.freedom / 2.0).ln()).collect();
    let center = mean(&logs);
    let spread = logs.iter().map(|log| (log - center).powi(2)).sum::<f64>() / (count - 1.0);
    let by_chance = all.iter().map(|v| trigamma(v.freedom / 2.0)).sum::<f64>() / count;
    let most: f64 = all.iter().map(|v| v.freedom).sum();
    let freedom = freedom_of(spread - by_chance, most);
    let variance = (center + digamma(freedom / 2.0) - (freedom / 2.0).ln()).exp();
    Variance { variance, freedom: freedom * TRUST }
}

/// The degrees of freedom of a variance whose logarithm varies by this much: at most `most`.
fn freedom_of(variance_of_log: f64, most: f64) -> f64 {
    let (mut low, mut high) = (LEAST_FREEDOM, most);
    if variance_of_log <= trigamma(high / 2.0) {
        return most;
    }
    // It falls as they grow; forty halvings are more than an f64 needs here.
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        *(if trigamma(middle / 2.0) > variance_of_log { &mut low } else { &mut high }) = middle;
    }
    low
}

/// The derivative of the digamma function, for what is above zero: up by its recurrence, then its asymptotic series.
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    sum + 1.0 / x + square / 2.0 + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_is_the_slope_of_digamma() {
        for x in [0.05, 0.5, 1.0, 1.5, 3.0, 7.9, 8.1, 40.0] {
            let step = 1e-5 * x;
            let slope = (digamma(x + step) - digamma(x - step)) / (2.0 * step);
            assert!((trigamma(x) / slope - 1.0).abs() < 1e-4, "{x}: {} for {slope}", trigamma(x));
        }
        assert!((trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_alike_is_taken_together_and_what_is_not_is_left_alone() {
        let all = |of: &[f64]| -> Vec<Variance> {
            of.iter().map(|variance| Variance { variance: *variance, freedom: 4.0 }).collect()
        };
        let alike = common(&all(&[0.9e-4, 1.1e-4, 1.0e-4, 1.2e-4]));
        assert!((0.8e-4..1.3e-4).contains(&alike.variance) && alike.freedom == 8.0, "{alike:?}");
        let unlike = common(&all(&[1e-8, 1e-4, 1.0, 1e-6]));
        assert!(unlike.freedom < 0.5, "{unlike:?}");
        assert_eq!(common(&all(&[1.0])), Variance::default());
    }

    #[test]
    fn a_side_without_rounds_has_the_scatter_of_the_other() {
        let round =
            |operations| SpanFigures { seconds: 1.0, operations: vec![operations], ..Default::default() };
        let three = Run { rounds: [900, 1000, 1100].map(round).into(), ..Run::default() };
        let none = Run::default();
        let of = |cell: [&Run; 2]| Scatter::of(&[cell]).error(Figure::Rate, cell);
        let (both, one) = (of([&three, &three]).unwrap(), of([&three, &none]).unwrap());
        assert_eq!((both.freedom, one.freedom), (4.0, 2.0));
        assert!((one.error / both.error - 2f64.sqrt()).abs() < 1e-9, "{one:?} {both:?}");
        assert_eq!(of([&none, &none]), None);
    }
}
