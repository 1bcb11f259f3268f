//! The form of a distribution on a logarithmic axis: counts in equal steps of it, and the humps that they make.

/// Steps of a decade: each 12 % wide.
const STEPS: f64 = 20.0;
/// Two peaks are two humps when what lies between is lower than this share of the lower one.
const VALLEY: f64 = 0.6;
/// A hump with less than this share of all is left to its neighbour.
const LEAST_SHARE: f64 = 0.02;

/// Samples in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// The least value in it.
    pub low: f64,
    /// The least value above it.
    pub high: f64,
    /// How many.
    pub count: u64,
}

/// A hump of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hump {
    /// Where it is highest.
    pub at: f64,
    /// Its share of all samples.
    pub share: f64,
}

/// Values with how often they came, as counts in steps of 12 %, without holes, from the first step that has any to the last.
pub fn density(values: impl IntoIterator<Item = (u64, u64)>) -> Vec<Bin> {
    let step = |value: u64| ((value.max(1) as f64).log10() * STEPS).floor() as i32;
    let mut counts: std::collections::BTreeMap<i32, u64> = std::collections::BTreeMap::new();
    for (value, count) in values {
        *counts.entry(step(value)).or_default() += count;
    }
    counts.retain(|_, count| *count > 0);
    let edge = |at: i32| 10f64.powf(f64::from(at) / STEPS);
    let (Some(first), Some(last)) = (counts.keys().next(), counts.keys().next_back()) else {
        return Vec::new();
    };
    let bin =
        |at| Bin { low: edge(at), high: edge(at + 1), count: counts.get(&at).copied().unwrap_or_default() };
    (*first..=*last).map(bin).collect()
}

/// The humps, in order. Chance makes no hump: neighbours are smoothed, and small ones are none.
pub fn humps(bins: &[Bin]) -> Vec<Hump> {
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    let count = |at: usize| bins.get(at).map_or(0.0, |bin| bin.count as f64);
    let smooth: Vec<f64> = (0..bins.len())
        .map(|at| {
            let before = if at == 0 { 0.0 } else { count(at - 1) };
            (before + 2.0 * count(at) + count(at + 1)) / 4.0
        })
        .collect();
    let mut parts = split(&smooth);
    let share = |from: usize, to: usize| {
        bins[from..to].iter().map(|bin| bin.count).sum::<u64>() as f64 / all.max(1) as f64
    };
    // From the left: what is too small goes to the one before it, the first to the one after it.
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for (from, to) in parts.drain(..) {
        match kept.last_mut() {
            Some(last) if share(from, to) < LEAST_SHARE || share(last.0, last.1) < LEAST_SHARE => last.1 = to,
            _ => kept.push((from, to)),
        }
    }
    let peak = |from: usize, to: usize| {
        (from..to)
            .max_by(|a, b| smooth[*a].total_cmp(&smooth[*b]))
            .map_or(0.0, |at| (bins[at].low * bins[at].high).sqrt())
    };
    kept.into_iter().map(|(from, to)| Hump { at: peak(from, to), share: share(from, to) }).collect()
}

/// Ranges around peaks, cut at the lowest place between two of them.
fn split(heights: &[f64]) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let (mut from, mut peak, mut valley) = (0, 0.0f64, None::<(usize, f64)>);
    for (at, height) in heights.iter().copied().enumerate() {
        match valley {
            Some((cut, low)) if low < VALLEY * peak.min(height) => {
                parts.push((from, cut));
                (from, peak, valley) = (cut, height, None);
            }
            _ if height > peak => (peak, valley) = (height, None),
            _ if valley.is_none_or(|(_, low)| height < low) => valley = Some((at, height)),
            _ => {}
        }
    }
    if !heights.is_empty() {
        parts.push((from, heights.len()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bell of so many values around `at`, 10 % wide.
    fn bell(at: f64, n: u64) -> Vec<(u64, u64)> {
        (-30..=30)
            .map(|step| {
                let x = f64::from(step) / 10.0;
                ((at * (1.0 + 0.1 * x)) as u64, ((-x * x / 2.0).exp() * n as f64 / 25.0) as u64)
            })
            .collect()
    }

    #[test]
    fn one_hump_two_humps_none() {
        assert!(humps(&density([])).is_empty());
        let one = humps(&density([(1000, 5)]));
        assert_eq!((one.len(), one[0].share), (1, 1.0));
        assert_eq!(humps(&density(bell(100_000.0, 10_000))).len(), 1);
        let both = [bell(100_000.0, 30_000), bell(1_000_000.0, 10_000)].concat();
        let found = humps(&density(both));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].at / 100_000.0 - 1.0).abs() < 0.15 && (found[1].at / 1e6 - 1.0).abs() < 0.15);
        assert!((found[0].share - 0.75).abs() < 0.02, "{found:?}");
        assert!((found.iter().map(|hump| hump.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn few_late_ones_are_a_tail_and_no_hump() {
        let with_tail = [bell(100_000.0, 100_000), vec![(5_000_000, 300), (9_000_000, 200)]].concat();
        let found = humps(&density(with_tail));
        assert_eq!((found.len(), found[0].share), (1, 1.0), "{found:?}");
    }

    #[test]
    fn steps_hold_all_and_have_no_holes() {
        let bins = density([(100, 2), (10_000, 3), (0, 1)]);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 6);
        assert!(bins.windows(2).all(|pair| (pair[0].high / pair[1].low - 1.0).abs() < 1e-9));
    }
}
