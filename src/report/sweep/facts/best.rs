//! The cells that stand for the disk: those that people ask for first, hold against a promise, or copy from.

use super::{KIB, latency};
use crate::probe::sweep::{CellResult, Pattern, Sweep, SweepFault};
use crate::units::figures::{count, rate};

/// Whether nothing speaks against its numbers. That writes are not durable is said beside them.
pub(in crate::report::sweep) fn sound(cell: &CellResult) -> bool {
    cell.stopped.is_none() && cell.faults.iter().all(|fault| *fault == SweepFault::VolatileCache)
}

/// The cell with the most of something: of those that are sound, if any is.
pub(super) fn best<'a>(
    cells: impl Iterator<Item = &'a CellResult>,
    of: impl Fn(&CellResult) -> f64,
) -> Option<&'a CellResult> {
    cells.max_by(|a, b| sound(a).cmp(&sound(b)).then(of(a).total_cmp(&of(b))))
}

/// A cell that people ask for first.
pub(in crate::report::sweep) struct Headline<'a> {
    pub(in crate::report::sweep) name: &'static str,
    pub(in crate::report::sweep) cell: &'a CellResult,
    pub(in crate::report::sweep) of: Asked,
}

/// What of it they ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::report::sweep) enum Asked {
    Iops,
    Throughput,
    Latency,
}

/// The best at random and in sequence, and the latency of one operation alone.
pub(in crate::report::sweep) fn headlines(sweep: &Sweep) -> Vec<Headline<'_>> {
    let all = [
        ("Random reads", Pattern::RandRead, Asked::Iops),
        ("Random writes", Pattern::RandWrite, Asked::Iops),
        ("Sequential reads", Pattern::SeqRead, Asked::Throughput),
        ("Sequential writes", Pattern::SeqWrite, Asked::Throughput),
        ("One read alone", Pattern::RandRead, Asked::Latency),
        ("One write alone", Pattern::RandWrite, Asked::Latency),
        ("One commit alone", Pattern::Commit, Asked::Latency),
    ];
    let one = |(name, pattern, of): (&'static str, Pattern, Asked)| {
        let fits = |cell: &&CellResult| match of {
            Asked::Iops => cell.block_size == 4 * KIB,
            Asked::Throughput => cell.block_size >= 128 * KIB,
            Asked::Latency => cell.outstanding() == 1 && latency(cell).is_some(),
        };
        let mut cells = sweep.cells.iter().filter(|cell| cell.pattern == pattern).filter(fits);
        let cell = match of {
            Asked::Iops => best(cells, |cell| cell.iops),
            Asked::Throughput => best(cells, |cell| cell.bytes_per_second),
            Asked::Latency => cells.clone().find(|cell| sound(cell)).or_else(|| cells.next()),
        };
        Some(Headline { name, cell: cell?, of })
    };
    all.into_iter().filter_map(one).collect()
}

/// What was promised beside what was delivered.
pub(in crate::report::sweep) struct Held<'a> {
    pub(in crate::report::sweep) cell: &'a CellResult,
    pub(in crate::report::sweep) promised: f64,
    pub(in crate::report::sweep) by_bytes: bool,
}

impl Held<'_> {
    /// So many operations a second in the unit of the promise.
    pub(in crate::report::sweep) fn show(&self, iops: f64) -> String {
        match self.by_bytes {
            true => rate(iops * f64::from(self.cell.block_size)),
            false => format!("{} IOPS", count(iops.round() as u64)),
        }
    }
}

/// The best cells for IOPS and for throughput, each for reads and writes.
pub(in crate::report::sweep) fn held(sweep: &Sweep) -> Vec<Held<'_>> {
    let mut all: Vec<Held> = Vec::new();
    for pattern in [Pattern::RandRead, Pattern::RandWrite, Pattern::SeqRead, Pattern::SeqWrite] {
        let by_bytes = pattern.sequential();
        let meets = |cell: &&CellResult| match by_bytes {
            true => cell.block_size >= 1 << 20,
            false => cell.block_size == 4 * KIB,
        };
        let of = sweep.cells.iter().filter(|cell| cell.pattern == pattern && cell.stopped.is_none());
        let best = best(of.filter(meets), |cell| if by_bytes { cell.bytes_per_second } else { cell.iops });
        all.extend(best.and_then(|cell| Some(Held { cell, promised: cell.promised_iops?, by_bytes })));
    }
    all
}

/// Random writes of 16 KiB: what lasts and the most, for `innodb_io_capacity` and its `_max`.
pub(in crate::report::sweep) struct Flushing<'a> {
    pub(in crate::report::sweep) cell: &'a CellResult,
    pub(in crate::report::sweep) sustained: u64,
    pub(in crate::report::sweep) peak: u64,
}

pub(in crate::report::sweep) fn flushing(sweep: &Sweep) -> Option<Flushing<'_>> {
    let wanted = |cell: &&CellResult| cell.pattern == Pattern::RandWrite && cell.block_size == 16 * KIB;
    let cell = best(sweep.cells.iter().filter(wanted), |cell| cell.iops)?;
    let halves = cell.shape.halves_ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    let (first, second) = halves
        .map_or((cell.iops, cell.iops), |r| (cell.iops * 2.0 / (1.0 + r), cell.iops * 2.0 * r / (1.0 + r)));
    let rounds = cell.rounds.map_or((cell.iops, cell.iops), |rounds| (rounds.iops_min, rounds.iops_max));
    let seconds = cell.series.iter().flatten().map(|point| point.iops);
    let sustained = first.min(second).min(rounds.0);
    let peak = seconds.fold(first.max(second).max(rounds.1), f64::max);
    Some(Flushing { cell, sustained: two_digits(sustained), peak: two_digits(peak) })
}

/// Rounded down: what is copied into a config must not ask for more than there is.
fn two_digits(value: f64) -> u64 {
    let value = value.max(0.0) as u64;
    let unit = 10u64.pow(value.checked_ilog10().unwrap_or(0).saturating_sub(1));
    value / unit * unit
}
