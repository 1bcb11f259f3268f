//! How far off a figure of a run may be by chance.

use super::{Figure, Run};
use crate::stats::SpanFigures;
use crate::stats::series::{deviation, mean};

/// A standard error as a share, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RelativeError {
    pub(super) error: f64,
    pub(super) freedom: f64,
}

impl RelativeError {
    /// With other independent errors in it, of which nothing else is known.
    pub(super) fn with(self, others: [f64; 2]) -> Self {
        Self { error: (self.error.powi(2) + others[0].powi(2) + others[1].powi(2)).sqrt(), ..self }
    }
}

/// The batches that a round is cut into …
const BATCHES: usize = 8;
/// … and how many there must be, or their scatter is not known.
const LEAST_BATCHES: usize = 5;
/// Without spans: a run counts as if it had so many times fewer operations, or samples of its rate …
const UNSEEN: f64 = 30.0;
/// … and its rate, where there are not even samples, as this far off.
const UNSEEN_RATE: f64 = 0.03;
/// Histograms do not tell durations apart that are nearer.
const DIGITS: f64 = 0.001;

/// Of a figure, as its spans tell it: for a quantile on the side where it lies `above` or below itself.
pub(super) fn of(figure: Figure, run: &Run, above: bool) -> Option<RelativeError> {
    match figure.quantile() {
        None => Some(of_rate(run)),
        Some(quantile) => of_quantile(quantile, run, above),
    }
}

/// Of the difference of two logarithms.
pub(super) fn joined(errors: [RelativeError; 2]) -> RelativeError {
    let squares = errors.map(|e| e.error.powi(2));
    let own: f64 = squares.iter().sum();
    let weights: f64 = squares.iter().zip(errors).map(|(square, e)| square.powi(2) / e.freedom).sum();
    let freedom = if weights > 0.0 { own.powi(2) / weights } else { f64::INFINITY };
    RelativeError { error: own.sqrt(), freedom }
}

fn of_rate(run: &Run) -> RelativeError {
    let rounds: Vec<Vec<f64>> =
        (run.rounds.iter()).map(|round| round.operations.iter().map(|n| f64::from(*n)).collect()).collect();
    let relative = |series: &Vec<f64>| {
        let mean = mean(series);
        (mean > 0.0)
            .then(|| error_of_drifting(series).map(|e| RelativeError { error: e.error / mean, ..e }))?
    };
    over_rounds(rounds.iter().filter_map(relative)).unwrap_or_else(|| match run.scatter {
        Some((share, samples)) if samples > 1 => RelativeError {
            error: (share * (UNSEEN / samples as f64).sqrt()).min(share).max(UNSEEN_RATE / 2.0),
            freedom: samples as f64 - 1.0,
        },
        _ => RelativeError { error: UNSEEN_RATE, freedom: 10.0 },
    })
}

/// By the share of operations above the quantile: how far off it may be, and which durations lie there.
fn of_quantile(quantile: f64, run: &Run, above: bool) -> Option<RelativeError> {
    let spread = quantile * (1.0 - quantile);
    let shares = run.rounds.iter().filter_map(|round| {
        let above = if quantile < 0.9 { &round.above_p50 } else { &round.above_p99 };
        error_of_share(round, above)
    });
    let by_count = |times: f64| (spread * times / run.operations.max(1) as f64).sqrt();
    let share =
        over_rounds(shares).unwrap_or_else(|| RelativeError { error: by_count(UNSEEN), freedom: 10.0 });
    let error = (share.error * spread.sqrt()).max(by_count(1.0));
    // Two standard errors: a step of the distribution just beyond one would be missed.
    let far = if above { quantile + 2.0 * error } else { quantile - 2.0 * error };
    let distance = run.quantiles.ln_at(far.clamp(0.0, 1.0))? - run.quantiles.ln_at(quantile)?;
    Some(RelativeError { error: distance.abs() / 2.0 + DIGITS, freedom: share.freedom })
}

/// Error of a share, in units of √(share × (1 − share)), so that it holds for other shares nearby.
fn error_of_share(round: &SpanFigures, above: &[u32]) -> Option<RelativeError> {
    let total: f64 = round.operations.iter().map(|n| f64::from(*n)).sum();
    let share = above.iter().map(|n| f64::from(*n)).sum::<f64>() / total;
    if above.len() != round.operations.len() || !(share > 0.0 && share < 1.0) {
        return None;
    }
    let rest: Vec<f64> =
        above.iter().zip(&round.operations).map(|(a, n)| f64::from(*a) - share * f64::from(*n)).collect();
    let error = error_of_drifting(&rest)?;
    let each = total / rest.len() as f64;
    Some(RelativeError { error: error.error / each / (share * (1.0 - share)).sqrt(), ..error })
}

/// Of the mean of rounds, each with its own error.
fn over_rounds(errors: impl Iterator<Item = RelativeError>) -> Option<RelativeError> {
    let all: Vec<RelativeError> = errors.collect();
    let count = all.len() as f64;
    let squares: f64 = all.iter().map(|e| e.error.powi(2)).sum();
    (count > 0.0).then(|| RelativeError {
        error: squares.sqrt() / count,
        freedom: all.iter().map(|e| e.freedom).sum(),
    })
}

/// Standard error of the mean of a series whose level may drift: the scatter of its eighths, which has in it whatever connects their
/// spans, be it that slow ones follow slow ones or that a lack is made up for at once. It is not divided by the root of eight:
/// eighths of a disk's run are not independent, and two runs were seen to differ as much as the parts of one do.
pub(super) fn error_of_drifting(series: &[f64]) -> Option<RelativeError> {
    let size = series.len() / BATCHES;
    let batches: Vec<f64> = series.chunks_exact(size.max(1)).map(mean).collect();
    let error = deviation(&batches)?;
    let known = RelativeError { error, freedom: batches.len() as f64 - 1.0 };
    (batches.len() >= LEAST_BATCHES).then_some(known)
}
