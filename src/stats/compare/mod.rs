//! Whether one run differs from another by more than chance.
//!
//! What is compared is a ratio: of rates, of medians, of p99s. How far off each may be by chance is not taken from the number of
//! operations, because operations of a disk depend on each other, and their level drifts. It is taken from the equal spans of the run
//! (`spans`): the scatter of its eighths is its standard error, undivided, as for a level that drifts over all times alike. For a quantile,
//! the spans tell how far off the share of operations above it may be, and the histogram tells which durations lie at the ends
//! of that. Where there were rounds, their scatter is a second witness (`rounds`). Each has its own Student's t, and a change must be
//! more than chance to both.
//!
//! Of many comparisons some look significant by chance. So the whole list is judged at once (Benjamini and Hochberg): where nothing
//! changed, the chance that anything in the list is called a change is [`CHANCE`], however long the list is.

mod error;
mod quantiles;
mod rounds;

pub use quantiles::Quantiles;
pub use rounds::Scatter;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::SpanFigures;
use error::{RelativeError, joined};

/// The chance that a list of comparisons in which nothing changed has a change.
pub const CHANCE: f64 = 0.01;

/// With more of them a t distribution is a normal one.
const MOST_FREEDOM: f64 = 200.0;
/// Longer runs have all that they can tell in their spans.
const ENOUGH_SECONDS: f64 = 3.0;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Operations a second.
    Rate,
    /// The median of durations.
    P50,
    /// 99 % took no longer.
    P99,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rate, Self::P50, Self::P99];

    /// A smaller change matters to nobody, however sure it is: as a share.
    pub const fn least(self) -> f64 {
        match self {
            Self::Rate | Self::P50 => 0.04,
            Self::P99 => 0.10,
        }
    }

    /// What no look inside of a run can tell: by how much two runs on one quiet disk differ, as a standard error.
    /// The shorter the run, the more.
    fn between_runs(self, seconds: f64) -> f64 {
        let whole = match self {
            Self::Rate | Self::P50 => 0.005,
            Self::P99 => 0.015,
        };
        whole * (ENOUGH_SECONDS / seconds.max(0.01)).sqrt().max(1.0)
    }

    const fn quantile(self) -> Option<f64> {
        match self {
            Self::Rate => None,
            Self::P50 => Some(0.5),
            Self::P99 => Some(0.99),
        }
    }
}

/// A run, or several rounds of one.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Operations that are recorded.
    pub operations: u64,
    /// How long that took, all rounds together.
    pub seconds: f64,
    /// Operations in a second.
    pub rate: f64,
    /// Of their durations.
    pub quantiles: Quantiles,
    /// Spans of each round; empty where nobody kept any.
    pub rounds: Vec<SpanFigures>,
    /// Where there are no spans, what is known of samples of the rate: their standard deviation as a share of it, and how many.
    pub scatter: Option<(f64, u64)>,
}

/// How a figure of the second run stands to that of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Of what.
    pub figure: Figure,
    /// Second ÷ first.
    pub ratio: f64,
    /// Lower and upper end of the ratio's 95 % interval.
    pub interval: (f64, f64),
    /// How likely as much or more is seen where nothing changed.
    pub chance: f64,
}

/// What a change is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second is worse: more than chance, and enough to matter.
    Worse,
    /// The second is better.
    Better,
    /// A change that would matter would most likely have been seen.
    Same,
    /// The runs are too short or too noisy to tell.
    Unsure,
}

/// Compares a figure; `scatter` is how rounds differ in all cells that are compared. `None` where one of the runs does not have it.
pub fn change(figure: Figure, first: &Run, second: &Run, scatter: &Scatter) -> Option<Change> {
    let value = |run: &Run| match figure.quantile() {
        None => (run.rate > 0.0).then(|| run.rate.ln()),
        Some(quantile) => run.quantiles.ln_at(quantile),
    };
    let difference = value(second)? - value(first)?;
    let rising = difference > 0.0;
    let within = joined([error::of(figure, first, rising)?, error::of(figure, second, !rising)?]);
    let between = scatter.error(figure, [first, second]);
    let unseen = [first, second].map(|run| figure.between_runs(run.seconds));
    let (mut half, mut chance) = (0.0f64, 0.0f64);
    for seen in [Some(within), between].into_iter().flatten() {
        let RelativeError { error, freedom } = seen.with(unseen);
        let bell = StudentsT::new(0.0, 1.0, freedom.clamp(1.0, MOST_FREEDOM)).ok()?;
        half = half.max(error * bell.inverse_cdf(0.975));
        chance = chance.max(2.0 * bell.cdf(-difference.abs() / error));
    }
    Some(Change {
        figure,
        ratio: difference.exp(),
        interval: ((difference - half).exp(), (difference + half).exp()),
        chance,
    })
}

/// Judges all comparisons of two lists of runs at once; the verdicts come in the order of the changes.
pub fn judge(changes: &[Change]) -> Vec<Verdict> {
    let limit = limit_of_chance(changes.iter().map(|change| change.chance).collect());
    changes.iter().map(|change| verdict(change, limit)).collect()
}

/// The greatest chance that still counts as significant: the last that is not above its share of [`CHANCE`] by rank.
fn limit_of_chance(mut chances: Vec<f64>) -> f64 {
    chances.sort_unstable_by(f64::total_cmp);
    let count = chances.len() as f64;
    let is_kept = |(rank, chance): &(usize, &f64)| **chance <= CHANCE * (*rank as f64 + 1.0) / count;
    chances.iter().enumerate().rev().find(is_kept).map_or(-1.0, |(_, chance)| *chance)
}

fn verdict(change: &Change, limit: f64) -> Verdict {
    let least = change.figure.least();
    let (low, high) = change.interval;
    if change.chance <= limit && !(1.0 - least..=1.0 + least).contains(&change.ratio) {
        let lower = change.ratio < 1.0;
        return if lower == (change.figure == Figure::Rate) { Verdict::Worse } else { Verdict::Better };
    }
    // Twice the least: what is a change must be able to show beside the width of the interval.
    if low >= 1.0 - 2.0 * least && high <= 1.0 + 2.0 * least { Verdict::Same } else { Verdict::Unsure }
}

#[cfg(test)]
mod tests;
