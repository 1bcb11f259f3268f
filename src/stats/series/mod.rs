//! What a series of counts over equal spans shows: how steady it was, how far off its mean may be by chance, whether it fell, and
//! whether it has troughs that come again.
//!
//! Completions of a disk are not independent: a slow second is likely followed by another. So no figure here takes the spans for
//! independent samples. The noise of the mean is taken from the means of longer and longer batches of spans, and from the
//! correlation of neighbours; the line of a decline is the median of slopes, which troughs and single stalls do not move.
//!
//! A short series has a line too, and it says nothing of the disk: within a second, one write-back or one stall beside us is a fall of
//! half. So variation, decline and troughs are told only of a series that is long enough (`LEAST_SECONDS`, `LEAST_SPANS`).

mod troughs;

use std::time::Duration;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A shorter series says nothing of steadiness. Journals and the kernel's write-back come each 5 s: six of them lie in this, so that
/// one at either end is no trend.
const LEAST_SECONDS: f64 = 30.0;
/// Nor does one of fewer spans. The fall of a line through n independent spans is off by their variation × √(12 ÷ n) by chance: 5 points
/// here, where they vary by 10 %.
const LEAST_SPANS: usize = 48;
/// Fewer spans than this say nothing about noise.
const ENOUGH_FOR_NOISE: usize = 4;
/// Batches must be so many, or their own scatter is not known.
const LEAST_BATCHES: usize = 8;
/// Fewer spans, or groups of them, have no line.
const ENOUGH_FOR_LINE: usize = 8;
/// More points do not make a line better, only slower: the slopes of all pairs are looked at.
const MOST_POINTS: usize = 600;
/// Operations in a group from which the steps of whole numbers are too fine to matter.
const GROUP_OPERATIONS: f64 = 400.0;

/// Figures of a series; each is absent where the series is too short to tell: `variation`, `decline` and `troughs` below half a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShapeFigures {
    /// Mean of the second half ÷ that of the first.
    pub halves_ratio: Option<f64>,
    /// Standard deviation ÷ mean of the spans.
    pub variation: Option<f64>,
    /// How far off the mean may be by chance, as a share of it: half of its 95 % interval. 1 at most.
    pub noise: Option<f64>,
    /// By how much a robust line through the series falls, as a share of its beginning; negative when it rises.
    pub decline: Option<f64>,
    /// Troughs that come again; absent when there are none.
    pub troughs: Option<TroughFigures>,
}

/// Troughs of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TroughFigures {
    /// How many; where they are regular, how many that keep the period.
    pub count: u32,
    /// From one to the next, in seconds, where they are regular.
    pub period_seconds: Option<f64>,
    /// Rate in a trough ÷ what the line says there.
    pub depth_ratio: f64,
}

/// What the completions of equal spans, `span_seconds` each, show.
pub fn shape(counts: &[u64], span_seconds: f64) -> ShapeFigures {
    let series: Vec<f64> = counts.iter().map(|n| *n as f64).collect();
    let mean = mean(&series);
    if series.is_empty() || mean <= 0.0 {
        return ShapeFigures::default();
    }
    let long = is_long(series.len(), span_seconds);
    let line = Line::through(&series).filter(|_| long);
    ShapeFigures {
        halves_ratio: halves_ratio(&series),
        variation: deviation(&series).filter(|_| long).map(|deviation| deviation / mean),
        noise: error_of_mean(&series).map(|error| (error.half_width() / mean).min(1.0)),
        decline: line.and_then(|line| line.decline(series.len())),
        troughs: line.and_then(|line| troughs::find(&series, line, span_seconds)),
    }
}

/// Whether a recording of this length says something of steadiness, where its spans are not too few.
pub fn tells_of_steadiness(time: Duration) -> bool {
    time.as_secs_f64() >= LEAST_SECONDS
}

/// Whether so many spans say something of steadiness. What was left of the last one is not among them.
fn is_long(spans: usize, span_seconds: f64) -> bool {
    spans >= LEAST_SPANS && (spans + 1) as f64 * span_seconds > LEAST_SECONDS
}

pub(in crate::stats) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Standard deviation of a sample.
pub(in crate::stats) fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The middle one, or the mean of the two in the middle; `None` when there are none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

fn halves_ratio(series: &[f64]) -> Option<f64> {
    let half = series.len() / 2;
    let (first, second) = (mean(&series[..half]), mean(&series[series.len() - half..]));
    (first > 0.0).then(|| second / first)
}

/// How far off the mean of a few independent values may be by chance, as a share of it: half of its 95 % interval, 1 at most. `None`
/// of less than two.
pub fn noise_of_mean(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let error = plain_error(values).filter(|_| mean > 0.0)?;
    Some((error.half_width() / mean).min(1.0))
}

/// How far off a mean is by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MeanError {
    /// Its standard error.
    pub(super) error: f64,
    /// Degrees of freedom of that.
    pub(super) freedom: f64,
}

impl MeanError {
    /// Half of the 95 % interval.
    fn half_width(self) -> f64 {
        self.error * StudentsT::new(0.0, 1.0, self.freedom).map_or(2.0, |t| t.inverse_cdf(0.975))
    }
}

/// The widest of the standard errors that batches of 1, 2, 4 … spans and the correlation of neighbours give. Batches that are
/// longer than what connects the spans are as good as independent, and tell the truth; shorter ones say too little, never too much.
pub(super) fn error_of_mean(series: &[f64]) -> Option<MeanError> {
    if series.len() < ENOUGH_FOR_NOISE {
        return None;
    }
    let whole = plain_error(series)?;
    let inflation = correlation_inflation(series);
    let by_neighbours = MeanError {
        error: whole.error * inflation.sqrt(),
        freedom: ((whole.freedom + 1.0) / inflation - 1.0).max(2.0),
    };
    let sizes = (1..).map(|power| 1usize << power);
    let batches = sizes
        .take_while(|size| series.len() / size >= LEAST_BATCHES)
        .filter_map(|size| plain_error(&series.chunks_exact(size).map(mean).collect::<Vec<_>>()));
    batches.chain([whole, by_neighbours]).max_by(|a, b| a.half_width().total_cmp(&b.half_width()))
}

/// As of independent values.
fn plain_error(values: &[f64]) -> Option<MeanError> {
    let freedom = values.len().checked_sub(1)? as f64;
    Some(MeanError { error: deviation(values)? / (values.len() as f64).sqrt(), freedom })
}

/// By what the variance of the mean grows where each span depends on the one before: (1 + r) ÷ (1 − r), with r freed of the bias
/// that it has in short series.
fn correlation_inflation(series: &[f64]) -> f64 {
    let (mean, n) = (mean(series), series.len() as f64);
    let squares: f64 = series.iter().map(|v| (v - mean).powi(2)).sum();
    let products: f64 = series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    let r = products / squares;
    let r = (r + (1.0 + 3.0 * r) / n).clamp(0.0, 0.97);
    (1.0 + r) / (1.0 - r)
}

/// A line through a series, by position.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    begin: f64,
    slope: f64,
}

impl Line {
    /// The median of the slopes of all pairs of points, and the median of what is left. Each point is a span, or in long or thin
    /// series a few of them without their extremes.
    fn through(series: &[f64]) -> Option<Self> {
        let by_length = series.len().div_ceil(MOST_POINTS);
        let by_counts = (GROUP_OPERATIONS / mean(series)).ceil() as usize;
        let most = (series.len() / ENOUGH_FOR_LINE).max(1);
        let size = by_length.max(by_counts.min(most));
        let points: Vec<f64> = series.chunks_exact(size).map(middle_mean).collect();
        if points.len() < ENOUGH_FOR_LINE {
            return None;
        }
        let pairs = (0..points.len()).flat_map(|i| (i + 1..points.len()).map(move |j| (i, j)));
        let mut slopes: Vec<f64> =
            pairs.map(|(i, j)| (points[j] - points[i]) / ((j - i) * size) as f64).collect();
        let slope = median(&mut slopes)?;
        let center = |at: usize| (at * size) as f64 + (size - 1) as f64 / 2.0;
        let mut rest: Vec<f64> =
            points.iter().enumerate().map(|(at, point)| point - slope * center(at)).collect();
        Some(Self { begin: median(&mut rest)?, slope })
    }

    fn at(self, position: f64) -> f64 {
        self.begin + self.slope * position
    }

    fn decline(self, length: usize) -> Option<f64> {
        let (begin, end) = (self.at(-0.5), self.at(length as f64 - 0.5));
        (begin > 0.0).then(|| 1.0 - end / begin)
    }
}

/// Mean of the middle half.
fn middle_mean(group: &[f64]) -> f64 {
    let mut sorted = group.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    mean(&sorted[cut..sorted.len() - cut])
}

#[cfg(test)]
mod tests;
