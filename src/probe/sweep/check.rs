//! Whether the numbers of a sweep can be true. Each check looks at one cell, beside the others, and says in a sentence with
//! its numbers what cannot be; where it cannot tell, it stays silent.

use super::promise::{self, Promise};
use super::{Access, CellResult, Operation, Pattern, Regime, SweepFault};
use crate::units::Bytes;
use crate::units::figures::{count, duration, rate};

/// How far IOPS × mean may be off what was configured.
const LITTLE: f64 = 0.15;
/// Below this mean our own handling of a completion is no small part of it.
const TINY_NS: f64 = 20_000.0;
/// How much more than the best sequential cell a random one may move.
const RANDOM_OVER_SEQUENTIAL: f64 = 1.1;
/// By how much the mean may fall as depth rises: as a share, and in nanoseconds, as a disk and its interrupts are slower when idle.
const FALL: (f64, f64) = (0.15, 50_000.0);
/// How far bytes ÷ operations may be off the block size: rounding.
const SIZE: f64 = 0.01;
/// How much the halves of a cell may differ.
const HALVES: f64 = 0.2;
/// With fewer operations chance is all there is.
const LEAST: u64 = 100;
/// A cell of less than this many seconds is too short for a limit per second.
pub(super) const IN_A_SHORT_WHILE: f64 = 1.0;

/// A fault and the sentence that shows it.
pub(super) type Found = Option<(SweepFault, String)>;

/// What a cell is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    /// All cells of the sweep.
    cells: &'a [CellResult],
    /// What is promised.
    pub(super) promise: &'a Promise,
}

const CHECKS: [fn(&CellResult, &Ground) -> Found; 9] = [
    littles_law,
    bandwidth,
    depth_inversion,
    size_mismatch,
    unsteady,
    promise::over_promise,
    promise::over_instance,
    promise::size_out_of_range,
    promise::quicker_than_the_product,
];

/// Judges all cells of a sweep, and writes beside each what was promised. Faults that were seen while it ran stay.
pub fn judge(cells: &mut [CellResult], promise: &Promise) {
    let ground = Ground { cells, promise };
    let one = |cell: &CellResult| -> Vec<(SweepFault, String)> {
        CHECKS.iter().filter_map(|check| check(cell, &ground)).collect()
    };
    let found: Vec<_> = cells.iter().map(one).collect();
    for (cell, found) in cells.iter_mut().zip(found) {
        promise.note(cell);
        for (fault, sentence) in found {
            if !cell.faults.contains(&fault) {
                cell.faults.push(fault);
            }
            cell.evidence.entry(fault).or_insert(sentence);
        }
        cell.faults.sort_unstable();
    }
}

/// Operations and bytes a second of all streams.
pub(super) fn totals(cell: &CellResult) -> (f64, f64) {
    match cell.pattern.loaded() {
        true => cell.streams.values().fold((0.0, 0.0), |(n, b), s| (n + s.iops, b + s.bytes_per_second)),
        false => (cell.iops, cell.bytes_per_second),
    }
}

/// Whether it ran to its end and has enough operations to speak of.
pub(super) fn enough(cell: &CellResult) -> bool {
    cell.stopped.is_none() && cell.operations >= LEAST
}

/// Whether it is long and whole enough for all checks: some abstain from others, which is not to pass them.
pub fn is_judged(cell: &CellResult) -> bool {
    cell.seconds_each() >= IN_A_SHORT_WHILE && enough(cell)
}

/// Whether all that it does is to keep its depth.
fn closed(cell: &CellResult) -> bool {
    !cell.pattern.loaded() || cell.pattern == Pattern::Commit
}

/// Whether its time was ours, not the disk's.
fn ours(cell: &CellResult) -> bool {
    cell.faults.iter().any(|fault| matches!(fault, SweepFault::Starved | SweepFault::CpuBound))
}

/// Mean duration over all operations that keep the depth, in nanoseconds.
fn mean(cell: &CellResult) -> Option<f64> {
    let counts: &[Operation] = match cell.pattern.commits() {
        true => &[Operation::Commit],
        false => &[Operation::Read, Operation::Write],
    };
    let of = counts.iter().filter_map(|operation| cell.latency_ns.get(operation));
    let (sum, n) = of.fold((0.0, 0), |(sum, n), l| (sum + l.mean * l.count as f64, n + l.count));
    (n > 0).then(|| sum / n as f64).filter(|mean| mean.is_finite() && *mean > 0.0)
}

/// How far off its IOPS may be by chance, as a share.
fn noise(cell: &CellResult) -> f64 {
    let by_count = 2.0 / (cell.operations.max(1) as f64).sqrt();
    cell.shape.noise.unwrap_or(by_count).max(0.0)
}

fn micros(nanos: f64) -> String {
    duration(nanos.round() as u64)
}

fn littles_law(cell: &CellResult, _: &Ground) -> Found {
    let mean = mean(cell).filter(|mean| *mean >= TINY_NS)?;
    let configured = cell.outstanding();
    // What is out at both ends of the cell belongs to it in part only.
    let few = cell.operations < 10 * u64::from(configured);
    if !closed(cell) || ours(cell) || !enough(cell) || few {
        return None;
    }
    let was = cell.iops * mean / 1e9;
    if (was / f64::from(configured) - 1.0).abs() <= LITTLE {
        return None;
    }
    let sentence = format!(
        "{} IOPS at a mean of {} are {was:.1} operations outstanding, but {configured} were configured",
        count(cell.iops.round() as u64),
        micros(mean),
    );
    Some((SweepFault::LittlesLaw, sentence))
}

fn bandwidth(cell: &CellResult, ground: &Ground) -> Found {
    let random = cell.pattern.streams().iter().all(|stream| stream.access == Access::Random);
    if cell.pattern.loaded() || !random || !enough(cell) {
        return None;
    }
    let bytes_out = |cell: &CellResult| u64::from(cell.block_size) * u64::from(cell.outstanding());
    let rows = || {
        ground.cells.iter().filter(|other| {
            let usable = other.stopped.is_none() && !ours(other) && other.operations > 0;
            other.pattern.sequential() && !other.pattern.loaded() && usable
        })
    };
    let way = |cell: &CellResult| cell.pattern.streams().first().map(|stream| stream.way);
    // One that keeps less under way than the random cell does may well move less.
    if !rows().any(|other| way(other) == way(cell) && bytes_out(other) >= bytes_out(cell)) {
        return None;
    }
    let best = rows().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
    let known = [cell.regime, best.regime].iter().all(|regime| *regime != Regime::Unknown);
    let least = RANDOM_OVER_SEQUENTIAL + noise(cell) + noise(best);
    if cell.bytes_per_second <= best.bytes_per_second * least || (known && cell.regime != best.regime) {
        return None;
    }
    let sentence = format!(
        "{} at random are more than the {} of the best sequential cell ({} {})",
        rate(cell.bytes_per_second),
        rate(best.bytes_per_second),
        Bytes::new(best.block_size.into()),
        best.pattern,
    );
    Some((SweepFault::Bandwidth, sentence))
}

fn depth_inversion(cell: &CellResult, ground: &Ground) -> Found {
    let now = mean(cell).filter(|_| !cell.pattern.loaded() && enough(cell))?;
    let comparable = |other: &&CellResult| {
        (other.pattern, other.block_size, other.method) == (cell.pattern, cell.block_size, cell.method)
            && other.outstanding() < cell.outstanding()
            && enough(other)
            && !ours(other)
            && (other.regime == cell.regime || [other.regime, cell.regime].contains(&Regime::Unknown))
    };
    let lower = ground.cells.iter().filter(comparable).filter_map(|other| Some((mean(other)?, other)));
    let (was, other) = lower.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let fall = 1.0 - now / was;
    if fall <= FALL.0 + noise(cell).hypot(noise(other)) || was - now < FALL.1 {
        return None;
    }
    let sentence = format!(
        "the mean falls from {} with {} outstanding to {} with {}: something else changed in between",
        micros(was),
        other.outstanding(),
        micros(now),
        cell.outstanding(),
    );
    Some((SweepFault::DepthInversion, sentence))
}

fn size_mismatch(cell: &CellResult, _: &Ground) -> Found {
    let alone = (!cell.pattern.loaded()).then_some((cell.block_size, cell.iops, cell.bytes_per_second));
    let streams = cell.streams.values().map(|s| (s.block_size, s.iops, s.bytes_per_second));
    let (block, each) = streams
        .chain(alone)
        .filter(|(_, iops, bytes)| *iops > 0.0 && bytes.is_finite())
        .map(|(block, iops, bytes)| (block, bytes / iops))
        .find(|(block, each)| (each / f64::from((*block).max(1)) - 1.0).abs() > SIZE)?;
    let sentence =
        format!("an operation moved {each:.0} bytes on average, but the block size is {block} bytes");
    Some((SweepFault::SizeMismatch, sentence))
}

fn unsteady(cell: &CellResult, _: &Ground) -> Found {
    let ratio = cell.shape.halves_ratio.filter(|ratio| ratio.is_finite() && enough(cell))?;
    // Each half has half of the operations, and two of them are compared.
    if (ratio - 1.0).abs() <= HALVES.max(2.0 * noise(cell)) {
        return None;
    }
    let way = if ratio > 1.0 { "more" } else { "fewer" };
    let sentence = format!(
        "its second half had {:.0} % {way} IOPS than its first: the disk was not in one state",
        (ratio - 1.0).abs() * 100.0
    );
    Some((SweepFault::Unsteady, sentence))
}

#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
