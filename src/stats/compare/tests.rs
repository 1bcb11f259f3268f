//! Two hundred pairs of runs between which nothing changed, and the same with a change put in.
//!
//! `testdata/pairs.jsonl.gz` holds a hundred pairs that were recorded one after the other on a virtio disk of a shared machine of two
//! CPUs on which compilers ran: ten kinds of cells (4 KiB to 1 MiB, reads and writes, depth 1 to 32), each run two rounds of
//! 1.5 s, in turn with the other run's (A B B A). A line is a run: operations, seconds, quantiles, spans of each round.

mod rounds;

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use proptest::prelude::*;

use super::*;
use crate::stats::{Histogram, Spans};

type Line = (u64, f64, Vec<(f64, u64)>, Vec<SpanFigures>);

/// A run of which a change can still be made.
#[derive(Clone)]
struct Recorded {
    operations: u64,
    seconds: f64,
    quantiles: Vec<(f64, u64)>,
    rounds: Vec<SpanFigures>,
}

impl Recorded {
    fn run(&self) -> Run {
        Run {
            operations: self.operations,
            seconds: self.seconds,
            rate: self.operations as f64 / self.seconds,
            quantiles: Quantiles::of_points(self.quantiles.iter().copied()),
            rounds: self.rounds.clone(),
            scatter: None,
        }
    }

    /// Durations from that share on times a factor.
    fn slower(mut self, from: f64, factor: f64) -> Self {
        for (share, nanos) in &mut self.quantiles {
            if *share >= from {
                *nanos = (*nanos as f64 * factor) as u64;
            }
        }
        self
    }

    /// All the same, in so much more time.
    fn stretched(self, factor: f64) -> Self {
        let mut slow = self.slower(0.0, factor);
        slow.seconds *= factor;
        slow.rounds.iter_mut().for_each(|round| round.seconds *= factor);
        slow
    }
}

fn recorded() -> Vec<[Recorded; 2]> {
    let bytes = include_bytes!("testdata/pairs.jsonl.gz").as_slice();
    let runs: Vec<Recorded> = (BufReader::new(GzDecoder::new(bytes)).lines())
        .map(|line| {
            let (operations, seconds, quantiles, rounds): Line =
                serde_json::from_str(&line.unwrap()).unwrap();
            Recorded { operations, seconds, quantiles, rounds }
        })
        .collect();
    runs.chunks_exact(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect()
}

/// Bell-shaped numbers.
fn bell(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// A cell of twenty seconds. In odd runs each duration depends on the one before; in even ones a quick and a slow state take turns at
/// random times.
fn synthetic(kind: u64, rng: &mut fastrand::Rng) -> Recorded {
    let (base, spread) = (200_000.0 + 20_000.0 * (kind % 10) as f64, 0.15 + 0.02 * (kind % 7) as f64);
    let memory = [0.5, 0.8, 0.9, 0.95][(kind / 2 % 4) as usize];
    let (mut histogram, mut spans) = (Histogram::fine(), Spans::default());
    let (mut at, mut last, mut slow) = (0u64, bell(rng), false);
    while at < 20_000_000_000 {
        let nanos = if kind.is_multiple_of(2) {
            slow = if slow { rng.f64() > 0.05 } else { rng.f64() < 0.01 };
            base * if slow { 1.5 } else { 1.0 } * (spread * bell(rng)).exp()
        } else {
            last = memory * last + f64::sqrt(1.0 - memory * memory) * bell(rng);
            base * (spread * last).exp()
        };
        at += nanos as u64;
        histogram.record(nanos as u64);
        spans.record(at, nanos as u64);
    }
    let shares = (0..=1000).map(|step| f64::from(step) / 1000.0);
    Recorded {
        operations: histogram.count(),
        seconds: at as f64 / 1e9,
        quantiles: shares.map(|share| (share, histogram.quantile(share).unwrap())).collect(),
        rounds: spans.figures(at).into_iter().collect(),
    }
}

fn pairs_of_synthetic() -> Vec<[Recorded; 2]> {
    let mut rng = fastrand::Rng::with_seed(4);
    (0..100).map(|kind| [synthetic(kind, &mut rng), synthetic(kind, &mut rng)]).collect()
}

/// All figures of all cells.
fn changes(cells: &[[&Run; 2]]) -> Vec<Change> {
    let scatter = Scatter::of(cells);
    let of = |[a, b]: &[&Run; 2]| Figure::ALL.map(|figure| change(figure, a, b, &scatter));
    cells.iter().flat_map(of).flatten().collect()
}

fn verdicts(first: &Recorded, second: &Recorded) -> Vec<(Figure, Verdict)> {
    let (first, second) = (first.run(), second.run());
    let changes = changes(&[[&first, &second]]);
    changes.iter().map(|change| change.figure).zip(judge(&changes)).collect()
}

fn moved(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Worse | Verdict::Better)
}

fn alarms(pairs: &[[Recorded; 2]]) -> usize {
    pairs.iter().filter(|[a, b]| verdicts(a, b).iter().any(|(_, verdict)| moved(verdict))).count()
}

/// How many pairs have that figure worse, and in how many it is wrongly called the same, after `change`: `list` of them are compared
/// at once.
fn found(
    pairs: &[[Recorded; 2]],
    list: usize,
    figure: Figure,
    change: impl Fn(Recorded) -> Recorded,
) -> (usize, usize) {
    let (mut worse, mut same) = (0, 0);
    for list in pairs.chunks(list) {
        let runs: Vec<[Run; 2]> = list.iter().map(|[a, b]| [a.run(), change(b.clone()).run()]).collect();
        let changes = changes(&runs.iter().map(|[a, b]| [a, b]).collect::<Vec<_>>());
        for (_, verdict) in changes.iter().zip(judge(&changes)).filter(|(c, _)| c.figure == figure) {
            worse += usize::from(verdict == Verdict::Worse);
            same += usize::from(verdict == Verdict::Same);
        }
    }
    (worse, same)
}

#[test]
fn where_nothing_changed_on_a_real_disk_at_most_two_of_a_hundred_pairs_are_called_changed() {
    let pairs = recorded();
    assert_eq!(pairs.len(), 100);
    let alarms = alarms(&pairs);
    assert!(alarms <= 2, "{alarms} of 100");
    let runs: Vec<[Run; 2]> = pairs.iter().map(|[a, b]| [a.run(), b.run()]).collect();
    for list in runs.chunks(10) {
        let changes = changes(&list.iter().map(|[a, b]| [a, b]).collect::<Vec<_>>());
        assert!(!judge(&changes).iter().any(moved), "{changes:?}");
    }
}

/// The recorded disk drifts by more than a tenth between rounds, so that a tenth cannot be found: then it must be called unsure.
#[test]
fn a_change_that_cannot_be_seen_on_a_drifting_disk_is_never_called_none() {
    let pairs = recorded();
    let changes: [(Figure, &dyn Fn(Recorded) -> Recorded); 3] = [
        (Figure::Rate, &|run| run.stretched(1.0 / 0.9)),
        (Figure::P50, &|run| run.slower(0.0, 1.1)),
        (Figure::P99, &|run| run.slower(0.98, 1.25)),
    ];
    for (figure, change) in changes {
        for list in [1, 10] {
            let (_, missed) = found(&pairs, list, figure, change);
            assert!(missed <= 2, "{figure:?}: {missed} of 100 called the same");
        }
    }
    // What is larger than the drift is found, where other cells tell how far two rounds lie apart.
    let (halved, _) = found(&pairs, 10, Figure::Rate, |run| run.stretched(3.0));
    assert!(halved >= 90, "{halved} of 100");
}

#[test]
fn connected_durations_have_no_false_alarms_and_every_real_one() {
    let pairs = pairs_of_synthetic();
    let alarms = alarms(&pairs);
    assert!(alarms <= 2, "{alarms} of 100");
    let (slower, _) = found(&pairs, 1, Figure::Rate, |run| run.stretched(1.0 / 0.9));
    assert!(slower >= 95, "IOPS − 10 %: {slower} of 100");
    let (median, _) = found(&pairs, 1, Figure::P50, |run| run.slower(0.0, 1.1));
    assert!(median >= 95, "p50 + 10 %: {median} of 100");
    let (tail, _) = found(&pairs, 1, Figure::P99, |run| run.slower(0.98, 1.25));
    assert!(tail >= 90, "p99 + 25 %: {tail} of 100");
}

/// A file has many cells: as one list they have no more false alarms than one.
#[test]
fn a_whole_file_of_cells_has_no_more_false_alarms_than_one() {
    let pairs = pairs_of_synthetic();
    let runs: Vec<[Run; 2]> = pairs.iter().map(|[a, b]| [a.run(), b.run()]).collect();
    let changes = changes(&runs.iter().map(|[a, b]| [a, b]).collect::<Vec<_>>());
    assert_eq!(changes.len(), 300);
    assert!(!judge(&changes).iter().any(moved));
}

#[test]
fn a_small_change_is_none_however_sure_it_is() {
    let run = &pairs_of_synthetic()[1][0];
    let quiet = Change { figure: Figure::Rate, ratio: 0.97, interval: (0.96, 0.98), chance: 1e-9 };
    assert_eq!(judge(&[quiet]), [Verdict::Same]);
    assert_eq!(judge(&[Change { ratio: 0.9, interval: (0.89, 0.91), ..quiet }]), [Verdict::Worse]);
    assert_eq!(judge(&[Change { ratio: 1.1, interval: (1.09, 1.11), ..quiet }]), [Verdict::Better]);
    let latency = Change { figure: Figure::P50, ratio: 1.1, ..quiet };
    assert_eq!(judge(&[latency]), [Verdict::Worse]);
    assert!(verdicts(run, run).iter().all(|(_, verdict)| *verdict != Verdict::Worse));
}

#[test]
fn without_spans_little_is_sure() {
    let blank = |rate: f64| Run { operations: 10_000, seconds: 10.0, rate, ..Run::default() };
    let of = |rate: f64| {
        judge(&[change(Figure::Rate, &blank(1000.0), &blank(rate), &Scatter::default()).unwrap()])
    };
    assert_eq!((of(950.0), of(700.0)), (vec![Verdict::Unsure], vec![Verdict::Worse]));
    assert_eq!(change(Figure::P99, &blank(1.0), &blank(1.0), &Scatter::default()), None);
    assert_eq!(change(Figure::Rate, &blank(0.0), &blank(1.0), &Scatter::default()), None);
}

proptest! {
    #[test]
    fn nothing_breaks_it(
        counts in proptest::collection::vec(0u32..1000, 0..40), above in proptest::collection::vec(0u32..2000, 0..40),
        seconds in 0.0..10.0f64, rate in 0.0..1e9f64, points in proptest::collection::vec((0.0..1.0f64, 0u64..1 << 50), 0..9),
    ) {
        let spans = SpanFigures {
            seconds, mean_ns: counts.iter().map(|n| u64::from(*n)).collect(), operations: counts,
            above_p50: above.clone(), above_p99: above, p50_ns: points.first().map(|p| p.1), p99_ns: None,
        };
        let quantiles = Quantiles::of_points(points);
        let run = Run { operations: 7, seconds, rate, quantiles, rounds: vec![spans.clone(), spans], scatter: Some((0.1, 3)) };
        let other = Run { rate: 10.0, rounds: Vec::new(), ..run.clone() };
        for figure in Figure::ALL {
            for (a, b) in [(&run, &other), (&other, &run), (&run, &run)] {
                if let Some(change) = change(figure, a, b, &Scatter::of(&[[a, b], [b, b]])) {
                    prop_assert!(change.ratio.is_finite() && change.chance >= 0.0 && change.chance <= 1.0, "{change:?}");
                    prop_assert_eq!(judge(&[change]).len(), 1);
                }
            }
        }
    }
}
