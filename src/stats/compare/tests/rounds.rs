//! Lists of cells of several rounds: spans depend on each other, rounds lie apart, cells are unlike.

use statrs::distribution::{ContinuousCDF, Normal};

use super::{Figure, Quantiles, Run, SpanFigures, Verdict, bell, changes, judge};

/// Cells in a list, which has three figures of each.
const CELLS: usize = 22;
const SPANS: usize = 40;
/// Standard deviation of the logarithm of durations, and how far above the median the p99 is then.
const SPREAD: f64 = 0.3;
const P99: f64 = 2.326 * SPREAD;

/// What a change does to the logarithms of the rate, of the median, and of the p99.
#[derive(Clone, Copy, Default)]
struct Shift {
    rate: f64,
    p50: f64,
    p99: f64,
}

/// A cell whose rounds lie apart by `apart` (of the p99, twice that), each of spans with a level that depends on that of the one before.
fn cell(rounds: usize, apart: f64, shift: Shift, rng: &mut fastrand::Rng) -> Run {
    let per_span = 5000.0;
    let (mut all, mut sums) = (Vec::new(), Shift::default());
    for _ in 0..rounds {
        let (level, tail) = (apart * bell(rng), 3f64.sqrt() * apart * bell(rng));
        let mut near = bell(rng);
        let levels: Vec<f64> = (0..SPANS)
            .map(|_| {
                near = 0.5 * near + 0.75f64.sqrt() * bell(rng);
                level + 0.01 * near
            })
            .collect();
        let median = levels.iter().sum::<f64>() / SPANS as f64;
        let counts: Vec<f64> = levels.iter().map(|l| per_span * (shift.rate - l).exp()).collect();
        let above = |share: f64, steep: f64, rng: &mut fastrand::Rng| -> Vec<u32> {
            let one = |(n, l): (&f64, &f64)| {
                let share = share + steep * (l - median);
                (n * share + (n * share).sqrt() * bell(rng)).round().max(0.0) as u32
            };
            counts.iter().zip(&levels).map(one).collect()
        };
        // Of a bell: its density there ÷ its spread.
        let (above_p50, above_p99) = (above(0.5, 0.399 / SPREAD, rng), above(0.01, 0.0267 / SPREAD, rng));
        let p99 = median + tail + P99;
        sums.rate += counts.iter().sum::<f64>();
        sums.p50 += median;
        sums.p99 += p99;
        all.push(SpanFigures {
            seconds: 0.5,
            operations: counts.iter().map(|n| n.round() as u32).collect(),
            mean_ns: levels.iter().map(|l| (2e5 * (l + shift.p50).exp()) as u64).collect(),
            above_p50,
            above_p99,
            p50_ns: Some((2e5 * (median + shift.p50).exp()) as u64),
            p99_ns: Some((2e5 * (p99 + shift.p99).exp()) as u64),
        });
    }
    let n = rounds as f64;
    let (p50, p99) = (sums.p50 / n + shift.p50, sums.p99 / n + shift.p99);
    // A bell up to the 95th percentile, and from there on a tail that lies where this run's does.
    let ln = |share: f64| {
        let far = SPREAD * Normal::standard().inverse_cdf(share);
        p50 + far + ((share - 0.95) / 0.04).clamp(0.0, 1.0) * (p99 - p50 - P99)
    };
    let points = (1..200).map(|step| f64::from(step) / 200.0).map(|share| (share, ln(share)));
    let seconds = 20.0 * n;
    Run {
        operations: sums.rate as u64,
        seconds,
        rate: sums.rate / seconds,
        quantiles: Quantiles::of_points(points.map(|(share, ln)| (share, (2e5 * ln.exp()) as u64))),
        rounds: all,
        scatter: None,
    }
}

/// How far rounds lie apart, by cell.
type Apart = fn(usize, &mut fastrand::Rng) -> f64;

/// Verdicts of a list in which the first `changed` cells are changed.
fn list(
    rounds: [usize; 2],
    cells: usize,
    apart: Apart,
    (changed, shift): (usize, Shift),
    rng: &mut fastrand::Rng,
) -> Vec<[(Figure, Verdict); 3]> {
    let pairs: Vec<[Run; 2]> = (0..cells)
        .map(|at| {
            let far = apart(at, rng);
            let shift = if at < changed { shift } else { Shift::default() };
            [cell(rounds[0], far, Shift::default(), rng), cell(rounds[1], far, shift, rng)]
        })
        .collect();
    let all = changes(&pairs.iter().map(|[a, b]| [a, b]).collect::<Vec<_>>());
    let verdicts = judge(&all);
    let one = |at: usize| Figure::ALL.map(|figure| (figure, verdicts[3 * at + figure as usize]));
    (0..cells).map(one).collect()
}

/// In how many of so many lists anything is called a change, where nothing is one.
fn alarms(lists: usize, rounds: [usize; 2], cells: usize, apart: Apart) -> usize {
    let mut rng = fastrand::Rng::with_seed(7);
    let moved = |v: &(Figure, Verdict)| matches!(v.1, Verdict::Worse | Verdict::Better);
    let mut alarm =
        || list(rounds, cells, apart, (0, Shift::default()), &mut rng).iter().flatten().any(moved);
    (0..lists).filter(|_| alarm()).count()
}

fn all_alike(_: usize, _: &mut fastrand::Rng) -> f64 {
    0.05
}

/// From a half to ten per cent.
fn unlike(_: usize, rng: &mut fastrand::Rng) -> f64 {
    0.005 * (rng.f64() * 20f64.ln()).exp()
}

fn one_per_cent(_: usize, _: &mut fastrand::Rng) -> f64 {
    0.01
}

/// Of 200 lists in which one in a hundred may have an alarm, more than seven have one in one of a thousand trials.
#[test]
fn rounds_that_lie_apart_are_no_change_in_a_list_of_any_length() {
    for rounds in [[2, 2], [3, 3], [5, 5], [3, 2], [5, 1]] {
        for apart in [all_alike, unlike] {
            for cells in [1, CELLS] {
                let alarms = alarms(200, rounds, cells, apart);
                assert!(alarms <= 7, "{alarms} of 200 lists of {cells} cells, {rounds:?} rounds");
            }
        }
    }
}

/// One round says nothing of how far rounds lie apart: what is tried is that they do not, but for what the parts of a round show.
#[test]
fn single_rounds_have_no_false_alarms_where_the_disk_is_the_same_each_time() {
    for cells in [1, CELLS] {
        let alarms = alarms(200, [1, 1], cells, |_, _| 0.0);
        assert!(alarms <= 7, "{alarms} of 200 lists of {cells} cells");
    }
}

/// By figure, the share of changed cells that are found worse, and of those that are called the same.
fn found(rounds: usize, cells: usize, apart: Apart) -> [(f64, f64); 3] {
    let mut rng = fastrand::Rng::with_seed(11);
    let (lists, changed) = (40, cells.div_ceil(5));
    let shifts = [
        Shift { rate: 0.9f64.ln(), ..Shift::default() },
        Shift { p50: 1.1f64.ln(), ..Shift::default() },
        Shift { p99: 1.25f64.ln(), ..Shift::default() },
    ];
    Figure::ALL.map(|figure| {
        let shift = shifts[figure as usize];
        let seen: Vec<Verdict> = (0..lists)
            .flat_map(|_| {
                list([rounds; 2], cells, apart, (changed, shift), &mut rng).into_iter().take(changed)
            })
            .map(|cell| cell[figure as usize].1)
            .collect();
        let share =
            |wanted: Verdict| seen.iter().filter(|v| **v == wanted).count() as f64 / seen.len() as f64;
        (share(Verdict::Worse), share(Verdict::Same))
    })
}

#[test]
fn changes_are_found_in_spite_of_rounds_that_lie_apart() {
    let still: Apart = |_, _| 0.0;
    for (rounds, cells, apart, least) in [
        (1, CELLS, still, [0.95, 0.95, 0.9]),
        (2, CELLS, one_per_cent, [0.95, 0.95, 0.9]),
        (3, CELLS, one_per_cent, [0.95, 0.95, 0.9]),
        (5, CELLS, one_per_cent, [0.95, 0.95, 0.9]),
        // One cell is all that tells how far its rounds lie apart.
        (3, 1, one_per_cent, [0.85; 3]),
        (5, 1, one_per_cent, [0.95, 0.95, 0.9]),
    ] {
        let found = found(rounds, cells, apart).map(|(worse, _)| worse);
        let met = found.iter().zip(least).all(|(found, least)| *found >= least);
        assert!(met, "{rounds} rounds of {cells} cells: {found:?}");
    }
}

/// Two rounds of a single cell leave nothing to tell scatter from change by: what is missed is not denied.
#[test]
fn what_two_rounds_of_one_cell_cannot_tell_is_unsure() {
    for (_, same) in found(2, 1, one_per_cent) {
        assert_eq!(same, 0.0);
    }
}

/// A p99 that differs from round to round shows in its own rounds, not in their means.
#[test]
fn the_tail_of_rounds_is_judged_by_tails() {
    let of = |tails: [u64; 3]| {
        let mut run = cell(3, 0.0, Shift::default(), &mut fastrand::Rng::with_seed(3));
        run.rounds.iter_mut().zip(tails).for_each(|(round, tail)| round.p99_ns = Some(tail * 1_000_000));
        let tail = (tails.iter().map(|t| *t as f64).sum::<f64>() / 3.0 * 1e6).round() as u64;
        let points = [(0.01, 100_000), (0.5, 200_000), (0.985, tail - 1), (0.99, tail), (1.0, tail + 1)];
        Run { quantiles: Quantiles::of_points(points), ..run }
    };
    let (one, two, steady) = (of([1, 5, 9]), of([2, 9, 16]), of([5, 5, 5]));
    let p99 = |a: &Run, b: &Run| judge(&changes(&[[a, b]]))[Figure::P99 as usize];
    assert_eq!(p99(&one, &two), Verdict::Unsure);
    assert_eq!(p99(&steady, &of([9, 9, 9])), Verdict::Worse);
}
