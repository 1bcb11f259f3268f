//! Troughs: spans far below the line, and whether they come at a period.
//!
//! Where a trough is, is told by the scatter of all spans, which troughs themselves do not move (median of the distances). Whether
//! troughs are regular, is told by their phases: for each period that can be, the times are wound around a circle of that length; regular ones lie on one side
//! of it (Rayleigh's test), whatever else lies anywhere. The test allows for all the periods that were tried.

use std::f64::consts::TAU;

use super::{Line, TroughFigures, mean, median};

/// Shorter series are not looked at.
const ENOUGH_SPANS: usize = 20;
/// A period has at least so many spans.
const LEAST_PERIOD: f64 = 4.0;
/// A period must be seen so often.
const LEAST_PERIODS: f64 = 4.0;
/// So many standard deviations below the line is a trough when its like come at a period …
const FAINT: f64 = 2.5;
/// … and so many by itself.
const CLEAR: f64 = 4.5;
/// What is not lower than this share of the line is no trough, however quiet the rest is: regular, and by itself.
const SHALLOW: f64 = 0.96;
const DEEP: f64 = 0.8;
/// Fewer without a period are chance, or a single event.
const LEAST_COUNT: usize = 3;
/// Half and a third of a period keep the dips together as well as it does, by chance better: the longest that does nearly as well is meant.
const FUNDAMENTAL: f64 = 0.6;
/// How likely a period may be found where there is none.
const CHANCE: f64 = 0.003;

/// A run of spans below the line.
#[derive(Clone, Copy, Debug)]
struct Dip {
    /// Where its middle is, in spans, weighted by depth.
    at: f64,
    /// Mean ÷ line.
    ratio: f64,
}

pub(super) fn find(series: &[f64], line: Line, span_seconds: f64) -> Option<TroughFigures> {
    let ratios: Vec<f64> = (series.iter().enumerate())
        .map(|(at, count)| count / line.at(at as f64).max(f64::MIN_POSITIVE))
        .collect();
    if ratios.len() < ENOUGH_SPANS {
        return None;
    }
    let center = median(&mut ratios.clone())?;
    let mut distances: Vec<f64> = ratios.iter().map(|ratio| (ratio - center).abs()).collect();
    // 1.4826 makes the median of distances the standard deviation of a bell curve.
    let scatter = 1.4826 * median(&mut distances)?;
    let below = |deviations: f64| dips(&ratios, (center - deviations * scatter).min(SHALLOW));
    // Among faint ones there is noise: a period is looked for in clear ones first.
    let faint = below(FAINT);
    let spans = ratios.len() as f64;
    if let Some(period) = Period::of(&below(CLEAR), spans).or_else(|| Period::of(&faint, spans)) {
        return figures(&period.deepest(&faint), Some(period.length * span_seconds));
    }
    let alone = dips(&ratios, (center - CLEAR * scatter).min(DEEP));
    if alone.len() < LEAST_COUNT { None } else { figures(&alone, None) }
}

fn figures(dips: &[Dip], period_seconds: Option<f64>) -> Option<TroughFigures> {
    let depth_ratio = median(&mut dips.iter().map(|dip| dip.ratio).collect::<Vec<_>>())?;
    Some(TroughFigures { count: u32::try_from(dips.len()).ok()?, period_seconds, depth_ratio })
}

/// Runs below the threshold.
fn dips(ratios: &[f64], threshold: f64) -> Vec<Dip> {
    let below = |ratio: &f64| *ratio < threshold;
    let mut found = Vec::new();
    let mut start = 0;
    for run in ratios.chunk_by(|a, b| below(a) == below(b)) {
        if run.first().is_some_and(below) {
            let weights: f64 = run.iter().map(|ratio| 1.0 - ratio).sum();
            let moment: f64 =
                run.iter().enumerate().map(|(at, ratio)| (start + at) as f64 * (1.0 - ratio)).sum();
            found.push(Dip { at: moment / weights, ratio: mean(run) });
        }
        start += run.len();
    }
    found
}

/// A period and when it begins, in spans.
#[derive(Clone, Copy, Debug)]
struct Period {
    length: f64,
    phase: f64,
}

impl Period {
    /// The period that most of the dips keep, if that is no chance.
    fn of(dips: &[Dip], spans: f64) -> Option<Self> {
        let highest = (spans / LEAST_PERIOD) as usize;
        let lowest = LEAST_PERIODS as usize;
        // Steps of a quarter of a turn over the whole series: no period falls between two of them.
        let turns = |step: usize| step as f64 / 4.0;
        let steps: Vec<(usize, f64)> =
            (lowest * 4..=highest * 4).map(|step| (step, resultant(dips, spans / turns(step)).0)).collect();
        let most = steps.iter().map(|(_, length)| *length).fold(0.0, f64::max);
        if log_chance(dips.len() as f64, most) + (2.0 * steps.len() as f64).ln() > CHANCE.ln() {
            return None;
        }
        let (mut best, mut at) = (0.0, None);
        for (step, length) in steps.iter().skip_while(|(_, length)| *length < FUNDAMENTAL * most) {
            if *length < best {
                break;
            }
            (best, at) = (*length, Some(*step));
        }
        Self { length: spans / turns(at?), phase: 0.0 }.refined(dips)
    }

    /// The line through the times of those that keep it, by their number.
    fn refined(self, dips: &[Dip]) -> Option<Self> {
        let mut period = self;
        for _ in 0..3 {
            period.phase = resultant(dips, period.length).1 / TAU * period.length;
            let kept: Vec<(f64, f64)> = (dips.iter().filter(|dip| period.keeps(dip.at)))
                .map(|dip| (((dip.at - period.phase) / period.length).round(), dip.at))
                .collect();
            let (numbers, times): (Vec<f64>, Vec<f64>) = kept.iter().copied().unzip();
            let (number, time) = (mean(&numbers), mean(&times));
            let squares: f64 = numbers.iter().map(|n| (n - number).powi(2)).sum();
            let products: f64 = kept.iter().map(|(n, t)| (n - number) * (t - time)).sum();
            if squares <= 0.0 || products <= 0.0 {
                return None;
            }
            period.length = products / squares;
        }
        period.phase = resultant(dips, period.length).1 / TAU * period.length;
        Some(period)
    }

    /// Of those that keep it, one for each time that it comes.
    fn deepest(self, dips: &[Dip]) -> Vec<Dip> {
        let mut kept: Vec<Dip> = Vec::new();
        let number = |dip: &Dip| ((dip.at - self.phase) / self.length).round();
        for dip in dips.iter().filter(|dip| self.keeps(dip.at)) {
            match kept.last_mut() {
                Some(last) if number(last) == number(dip) => {
                    if dip.ratio < last.ratio {
                        *last = *dip;
                    }
                }
                _ => kept.push(*dip),
            }
        }
        kept
    }

    /// Whether a time is near a multiple.
    fn keeps(self, at: f64) -> bool {
        let turn = (at - self.phase) / self.length;
        (turn - turn.round()).abs() * self.length <= (0.15 * self.length).max(1.0)
    }
}

/// Length (0 to 1) and angle of the mean of all dips on a circle of that period.
fn resultant(dips: &[Dip], period: f64) -> (f64, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    for dip in dips {
        let (sin, cos) = (TAU * dip.at / period).sin_cos();
        (x, y) = (x + cos, y + sin);
    }
    (x.hypot(y) / dips.len().max(1) as f64, y.atan2(x))
}

/// Logarithm of the chance that so many points, each anywhere on the circle, have a mean of that length or more.
fn log_chance(n: f64, length: f64) -> f64 {
    let resultant = n * length;
    (1.0 + 4.0 * n + 4.0 * (n * n - resultant * resultant)).max(0.0).sqrt() - (1.0 + 2.0 * n)
}
