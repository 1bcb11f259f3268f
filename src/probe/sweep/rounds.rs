//! Several rounds of one cell as one result.

use std::collections::BTreeMap;

use super::{CellResult, Latency, Operation, Regime, Rounds, Shape, Stopped, StreamResult};
use crate::stats::{Histogram, SpanFigures, median, noise_of_mean};

/// All rounds of a cell as one: counts and distributions together, rates over the whole time, figures that belong to a round by
/// their median. A round that was broken off counts only where no other was finished. `None` without any.
pub(super) fn merge(mut rounds: Vec<CellResult>) -> Option<CellResult> {
    let whole = |cell: &CellResult| matches!(cell.stopped, None | Some(Stopped::Cut));
    if rounds.iter().any(whole) {
        rounds.retain(whole);
    }
    if rounds.len() < 2 {
        return rounds.pop();
    }
    let seconds: f64 = rounds.iter().map(|cell| cell.seconds).sum();
    let over_time = |of: fn(&CellResult) -> f64| rate(&rounds, seconds, |cell| Some(of(cell)));
    let histograms = histograms(&rounds);
    let iops = || rounds.iter().map(|cell| cell.iops);
    let last = rounds.last()?;
    Some(CellResult {
        seconds,
        warm_up_seconds: rounds.iter().map(|cell| cell.warm_up_seconds).sum(),
        operations: rounds.iter().map(|cell| cell.operations).sum(),
        iops: over_time(|cell| cell.iops),
        bytes_per_second: over_time(|cell| cell.bytes_per_second),
        achieved_depth: over_time(|cell| cell.achieved_depth),
        latency_ns: latencies(&rounds, |cell| Some(&cell.latency_ns), &histograms),
        streams: streams(&rounds, seconds),
        stopped: rounds.iter().find_map(|cell| cell.stopped),
        rounds: Some(Rounds {
            count: rounds.len() as u32,
            iops_min: iops().fold(f64::INFINITY, f64::min),
            iops_max: iops().fold(0.0, f64::max),
        }),
        quiet: last.quiet.is_some().then(|| latencies(&rounds, |cell| cell.quiet.as_ref(), &BTreeMap::new())),
        loaded_ratio: last.loaded_ratio.is_some().then(|| loaded(&rounds)),
        spans: spans(&rounds),
        shape: shape(&rounds),
        faults: faults(&rounds),
        evidence: rounds.iter().rev().flat_map(|cell| cell.evidence.clone()).collect(),
        regime: regime(&rounds),
        histogram: histograms.iter().map(|(operation, all)| (*operation, all.encode())).collect(),
        ..last.clone()
    })
}

fn rate(rounds: &[CellResult], seconds: f64, of: impl Fn(&CellResult) -> Option<f64>) -> f64 {
    let sum: f64 = rounds.iter().filter_map(|cell| Some(of(cell)? * cell.seconds)).sum();
    if seconds > 0.0 { sum / seconds } else { 0.0 }
}

/// Those that each round has.
fn histograms(rounds: &[CellResult]) -> BTreeMap<Operation, Histogram<u64>> {
    let all = |operation: Operation| -> Option<Histogram<u64>> {
        let mut all = Histogram::fine();
        for cell in rounds {
            all.merge(&Histogram::decode(cell.histogram.get(&operation)?)?);
        }
        Some(all)
    };
    Operation::ALL.iter().filter_map(|operation| Some((*operation, all(*operation)?))).collect()
}

fn latencies<'a>(
    rounds: &'a [CellResult],
    of: impl Fn(&'a CellResult) -> Option<&'a BTreeMap<Operation, Latency>>,
    histograms: &BTreeMap<Operation, Histogram<u64>>,
) -> BTreeMap<Operation, Latency> {
    let one = |operation: &Operation| {
        let each: Vec<_> = rounds.iter().filter_map(|cell| of(cell)?.get(operation).copied()).collect();
        (!each.is_empty()).then(|| (*operation, latency(&each, histograms.get(operation))))
    };
    Operation::ALL.iter().filter_map(one).collect()
}

fn latency(rounds: &[Latency], all: Option<&Histogram<u64>>) -> Latency {
    let count: u64 = rounds.iter().map(|l| l.count).sum();
    let weighed = |of: fn(&Latency) -> f64| {
        rounds.iter().map(|l| of(l) * l.count as f64).sum::<f64>() / count.max(1) as f64
    };
    let mean = weighed(|l| l.mean);
    let square = weighed(|l| l.stdev.mul_add(l.stdev, l.mean * l.mean));
    let quantile = |q: f64, of: fn(&Latency) -> Option<u64>| {
        let middle = || median(&mut rounds.iter().filter_map(of).map(|n| n as f64).collect::<Vec<_>>());
        all.and_then(|all| all.quantile(q)).or_else(|| middle().map(|n| n.round() as u64))
    };
    Latency {
        count,
        mean,
        stdev: (square - mean * mean).max(0.0).sqrt(),
        min: rounds.iter().map(|l| l.min).min().unwrap_or(0),
        p50: quantile(0.5, |l| Some(l.p50)).unwrap_or(0),
        p90: quantile(0.9, |l| Some(l.p90)).unwrap_or(0),
        p99: quantile(0.99, |l| l.p99).filter(|_| count >= 100),
        p999: quantile(0.999, |l| l.p999).filter(|_| count >= 1000),
        max: rounds.iter().map(|l| l.max).max().unwrap_or(0),
    }
}

fn streams(rounds: &[CellResult], seconds: f64) -> BTreeMap<Operation, StreamResult> {
    let one = |operation: &Operation| {
        let each = || rounds.iter().filter_map(|cell| cell.streams.get(operation));
        let of = |figure: fn(&StreamResult) -> f64| {
            rate(rounds, seconds, |cell| cell.streams.get(operation).map(figure))
        };
        let stream = StreamResult {
            block_size: each().next()?.block_size,
            operations: each().map(|stream| stream.operations).sum(),
            iops: of(|stream| stream.iops),
            bytes_per_second: of(|stream| stream.bytes_per_second),
        };
        Some((*operation, stream))
    };
    Operation::ALL.iter().filter_map(one).collect()
}

/// Each round was held against the quiet disk just before it: so the median of these, not a ratio of medians.
fn loaded(rounds: &[CellResult]) -> BTreeMap<Operation, BTreeMap<String, f64>> {
    let mut each: BTreeMap<Operation, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for (operation, figures) in rounds.iter().flat_map(|cell| cell.loaded_ratio.iter().flatten()) {
        for (name, ratio) in figures {
            each.entry(*operation).or_default().entry(name.clone()).or_default().push(*ratio);
        }
    }
    let middle = |figures: BTreeMap<String, Vec<f64>>| {
        figures.into_iter().filter_map(|(name, mut ratios)| Some((name, median(&mut ratios)?))).collect()
    };
    each.into_iter().map(|(operation, figures)| (operation, middle(figures))).collect()
}

fn shape(rounds: &[CellResult]) -> Shape {
    let middle = |of: fn(&Shape) -> Option<f64>| {
        median(&mut rounds.iter().filter_map(|cell| of(&cell.shape)).collect::<Vec<_>>())
    };
    let each = |of: fn(&CellResult) -> f64| rounds.iter().map(of);
    let n = rounds.len() as f64;
    let within = each(|cell| cell.shape.noise.unwrap_or(0.0).powi(2)).sum::<f64>().sqrt() / n;
    // Rounds that differ by more than each of them is noisy show what no round can see by itself.
    let between = noise_of_mean(&each(|cell| cell.iops).collect::<Vec<_>>()).unwrap_or(0.0);
    Shape {
        halves_ratio: middle(|shape| shape.halves_ratio),
        variation: middle(|shape| shape.variation),
        noise: rounds.iter().any(|cell| cell.shape.noise.is_some()).then_some(within.max(between).min(1.0)),
        decline: middle(|shape| shape.decline),
        troughs: rounds.iter().rev().find_map(|cell| cell.shape.troughs),
    }
}

/// One behind the other, each with its own percentiles, for a comparison to tell rounds from each other.
fn spans(rounds: &[CellResult]) -> BTreeMap<Operation, Vec<SpanFigures>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for cell in rounds {
        for (operation, spans) in &cell.spans {
            let latency = cell.latency_ns.get(operation);
            let (p50_ns, p99_ns) = (latency.map(|l| l.p50), latency.and_then(|l| l.p99));
            let with = |spans: &SpanFigures| SpanFigures { p50_ns, p99_ns, ..spans.clone() };
            all.entry(*operation).or_default().extend(spans.iter().map(with));
        }
    }
    all
}

/// That of all rounds, where they had one.
fn regime(rounds: &[CellResult]) -> Regime {
    let first = rounds.first().map_or(Regime::Unknown, |cell| cell.regime);
    if rounds.iter().all(|cell| cell.regime == first) { first } else { Regime::Unknown }
}

fn faults(rounds: &[CellResult]) -> Vec<super::SweepFault> {
    let mut all: Vec<_> = rounds.iter().flat_map(|cell| cell.faults.clone()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sweep::fixture::cell;
    use crate::probe::sweep::{Pattern, SweepFault};

    fn round(samples: &[u64], seconds: f64) -> CellResult {
        let mut all = Histogram::fine();
        samples.iter().for_each(|sample| all.record(*sample));
        let mut cell = cell(Pattern::RandRead, 4096, 1, samples.len() as f64 / seconds);
        let mean = all.mean().unwrap();
        cell.latency_ns = BTreeMap::from([(
            Operation::Read,
            Latency {
                count: all.count(),
                mean,
                stdev: (samples.iter().map(|s| (*s as f64 - mean).powi(2)).sum::<f64>()
                    / samples.len() as f64)
                    .sqrt(),
                min: all.min().unwrap(),
                p50: all.quantile(0.5).unwrap(),
                p90: all.quantile(0.9).unwrap(),
                p99: all.quantile(0.99).filter(|_| samples.len() >= 100),
                p999: None,
                max: all.max().unwrap(),
            },
        )]);
        cell.histogram = BTreeMap::from([(Operation::Read, all.encode())]);
        CellResult { seconds, operations: samples.len() as u64, ..cell }
    }

    #[test]
    fn rounds_together_are_what_one_long_cell_would_be() {
        let quick: Vec<u64> = (0..300).map(|n| 100_000 + n * 100).collect();
        let slow: Vec<u64> = (0..100).map(|n| 900_000 + n * 100).collect();
        let both: Vec<u64> = quick.iter().chain(&slow).copied().collect();
        let merged = merge(vec![round(&quick, 3.0), round(&slow, 1.0)]).unwrap();
        let one = round(&both, 4.0);
        let (merged_read, read) = (merged.latency_ns[&Operation::Read], one.latency_ns[&Operation::Read]);
        assert_eq!(
            (merged.seconds, merged.operations, merged.iops.round()),
            (one.seconds, 400, one.iops.round())
        );
        assert!((merged_read.mean - read.mean).abs() < 1.0 && (merged_read.stdev - read.stdev).abs() < 1.0);
        let near = |a: u64, b: u64| (a as f64 / b as f64 - 1.0).abs() < 0.002;
        assert!(near(merged_read.p50, read.p50) && near(merged_read.p90, read.p90));
        assert!(near(merged_read.p99.unwrap(), read.p99.unwrap()));
        assert_eq!((merged_read.min, merged_read.max), (read.min, read.max));
        assert_eq!(Histogram::decode(&merged.histogram[&Operation::Read]).unwrap().count(), 400);
        let rounds = merged.rounds.unwrap();
        assert_eq!((rounds.count, rounds.iops_min, rounds.iops_max), (2, 100.0, 100.0));
    }

    #[test]
    fn without_histograms_quantiles_are_medians() {
        let at = |iops| cell(Pattern::RandRead, 4096, 4, iops);
        let merged = merge(vec![at(1000.0), at(500.0), at(2000.0)]).unwrap();
        assert_eq!(merged.latency_ns[&Operation::Read].p50, 4_000_000);
        assert!((merged.iops - 3500.0 / 3.0).abs() < 1e-6 && merged.histogram.is_empty());
        let rounds = merged.rounds.unwrap();
        assert_eq!((rounds.count, rounds.iops_min, rounds.iops_max), (3, 500.0, 2000.0));
        assert!((merged.iops * merged.latency_ns[&Operation::Read].mean / 4e9 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_was_broken_off_gives_way_to_what_was_finished() {
        let whole = cell(Pattern::RandRead, 4096, 1, 1000.0);
        let part = CellResult { stopped: Some(Stopped::Interrupt), ..cell(Pattern::RandRead, 4096, 1, 5.0) };
        assert_eq!(merge(vec![whole.clone(), part.clone()]), Some(whole));
        assert_eq!(merge(vec![part.clone()]), Some(part));
        assert_eq!(merge(Vec::new()), None);
    }

    #[test]
    fn ratios_faults_and_noise_come_from_all_rounds() {
        let with = |iops, ratio, noise, fault| {
            let ratios = BTreeMap::from([(Operation::Commit, BTreeMap::from([("p99".to_owned(), ratio)]))]);
            CellResult {
                loaded_ratio: Some(ratios),
                shape: Shape { noise: Some(noise), ..Shape::default() },
                faults: vec![fault],
                evidence: BTreeMap::from([(fault, format!("at {iops}"))]),
                ..cell(Pattern::Oltp, 4096, 1, iops)
            }
        };
        let rounds = vec![
            with(100.0, 3.0, 0.01, SweepFault::Starved),
            with(100.0, 2.0, 0.01, SweepFault::Cached),
            with(160.0, 9.0, 0.01, SweepFault::Starved),
        ];
        let merged = merge(rounds).unwrap();
        assert_eq!(merged.loaded_ratio.unwrap()[&Operation::Commit]["p99"], 3.0);
        assert_eq!(merged.faults, [SweepFault::Cached, SweepFault::Starved]);
        assert_eq!(merged.evidence[&SweepFault::Starved], "at 100");
        // 100, 100, 160: 120 with a standard error of 20, times 4.303 of two degrees of freedom.
        assert!((merged.shape.noise.unwrap() - 20.0 * 4.303 / 120.0).abs() < 0.001, "{:?}", merged.shape);
    }

    #[test]
    fn what_belongs_to_a_round_is_told_by_round() {
        let with = |iops, regime| CellResult { regime, ..cell(Pattern::RandRead, 4096, 1, iops) };
        let rounds = |regimes: [Regime; 2]| merge(regimes.map(|regime| with(100.0, regime)).into()).unwrap();
        let merged = rounds([Regime::Burst, Regime::Burst]);
        let each = cell(Pattern::RandRead, 4096, 1, 100.0).seconds;
        assert_eq!((merged.seconds, merged.seconds_each(), merged.regime), (2.0 * each, each, Regime::Burst));
        assert_eq!(rounds([Regime::Burst, Regime::Baseline]).regime, Regime::Unknown);
    }
}
