//! What follows from the cells of a sweep: the same for text and page.

mod best;

pub(super) use best::{Asked, Headline, Held, flushing, headlines, held, sound};

use best::best;

use crate::probe::sweep::{CellResult, Latency, Operation, Pattern, Sweep, SweepFault, Way};
use crate::stats::{Bin, Histogram, Hump, density, humps};

const KIB: u32 = 1 << 10;
/// Within this share of the most that was seen, that is what binds.
const AT_THE_LIMIT: f64 = 0.9;
/// A percentile that moves by more than this is worth a word.
pub(super) const WORTH_A_WORD: f64 = 1.15;

/// Cells that differ in depth or jobs only, the least outstanding first.
pub(super) struct Family<'a> {
    pub(super) cells: Vec<&'a CellResult>,
}

/// Families in the order in which their first cells were run.
pub(super) fn families(sweep: &Sweep) -> Vec<Family<'_>> {
    let key = |cell: &CellResult| (cell.pattern, cell.block_size, cell.method);
    let mut all: Vec<Family> = Vec::new();
    for cell in &sweep.cells {
        match all.iter_mut().find(|family| key(family.cells[0]) == key(cell)) {
            Some(family) => family.cells.push(cell),
            None => all.push(Family { cells: vec![cell] }),
        }
    }
    all.iter_mut().for_each(|family| family.cells.sort_by_key(|cell| cell.outstanding()));
    all
}

/// The operation that a pattern is judged by.
pub(super) fn judged(cell: &CellResult) -> Operation {
    match cell.pattern.streams().first().map(|stream| stream.way) {
        Some(Way::Write) => Operation::Write,
        Some(Way::Commit) => Operation::Commit,
        Some(Way::Read) | None => Operation::Read,
    }
}

/// The durations that a pattern is judged by.
pub(super) fn latency(cell: &CellResult) -> Option<&Latency> {
    cell.latency_ns.get(&judged(cell))
}

/// Operations of a cell that are shown, the judged one first.
pub(super) fn operations(cell: &CellResult) -> Vec<Operation> {
    let first = judged(cell);
    let others = cell.streams.keys().copied().filter(|operation| *operation != first);
    std::iter::once(first).chain(others).filter(|operation| cell.latency_ns.contains_key(operation)).collect()
}

/// Larger blocks against those of 4 KiB at the same depth.
pub(super) struct Loss<'a> {
    pub(super) cell: &'a CellResult,
    /// IOPS lost, as a share; negative: none.
    pub(super) lost: f64,
    pub(super) binds: &'static str,
}

impl Loss<'_> {
    /// `37 % fewer IOPS`.
    pub(super) fn words(&self) -> String {
        match self.lost * 100.0 {
            percent if percent >= 1.0 => format!("{percent:.0} % fewer IOPS"),
            _ => "no fewer IOPS".to_owned(),
        }
    }
}

pub(super) fn losses(sweep: &Sweep) -> Vec<Loss<'_>> {
    sweep.cells.iter().filter_map(|cell| loss(sweep, cell)).collect()
}

fn loss<'a>(sweep: &Sweep, cell: &'a CellResult) -> Option<Loss<'a>> {
    let key = |cell: &CellResult| (cell.pattern, cell.depth, cell.jobs);
    let wanted = matches!(cell.pattern, Pattern::RandRead | Pattern::RandWrite) && cell.block_size > 4 * KIB;
    let of_small = |other: &&CellResult| key(other) == key(cell) && other.block_size == 4 * KIB;
    let small = sweep.cells.iter().find(of_small).filter(|small| wanted && small.iops > 0.0)?;
    Some(Loss { cell, lost: 1.0 - cell.iops / small.iops, binds: binds(sweep, cell, small) })
}

/// Throughput is what binds only by a witness for it: a sequential cell that moves no more, or a promise that is less than for small
/// blocks.
fn binds(sweep: &Sweep, cell: &CellResult, small: &CellResult) -> &'static str {
    if cell.iops >= small.iops * AT_THE_LIMIT {
        return "operations: the size costs little";
    }
    let sequential = |other: &&CellResult| {
        let alike = judged(other) == judged(cell) && !other.pattern.loaded();
        alike && other.pattern.sequential() && sound(other)
    };
    let sequential = best(sweep.cells.iter().filter(sequential), |other| other.bytes_per_second);
    let promised = cell.promised_iops.filter(|own| small.promised_iops.is_some_and(|other| *own < other));
    if promised.is_some_and(|promised| cell.iops >= promised * AT_THE_LIMIT)
        || sequential.is_some_and(|other| cell.bytes_per_second >= other.bytes_per_second * AT_THE_LIMIT)
    {
        return "throughput";
    }
    match sequential {
        Some(_) => "the time of each operation",
        None => "the time of each operation, or throughput: no sequential cell tells",
    }
}

/// Latency under load beside the quiet one.
pub(super) struct Loaded<'a> {
    pub(super) cell: &'a CellResult,
    pub(super) operation: Operation,
    pub(super) quiet: &'a Latency,
    pub(super) loaded: &'a Latency,
}

impl Loaded<'_> {
    /// Loaded ÷ quiet of this statistic.
    pub(super) fn ratio(&self, statistic: &str) -> Option<f64> {
        self.cell.loaded_ratio.as_ref()?.get(&self.operation)?.get(statistic).copied()
    }

    /// What p99 did, in a sentence; `None` where too few operations tell.
    pub(super) fn verdict(&self) -> Option<String> {
        let ratio = self.ratio("p99")?;
        Some(match ratio {
            up if up > WORTH_A_WORD => {
                format!("p99 rises by more than 15 %: {up:.2} times what it is alone")
            }
            down if down < 1.0 / WORTH_A_WORD => format!("p99 is lower than alone: {down:.2} times"),
            _ => format!("p99 stays within 15 % ({ratio:.2} times)"),
        })
    }
}

pub(super) fn loaded(sweep: &Sweep) -> Vec<Loaded<'_>> {
    let one = |cell| -> Option<Loaded<'_>> {
        let operation = judged(cell);
        let quiet = cell.quiet.as_ref()?.get(&operation)?;
        Some(Loaded { cell, operation, quiet, loaded: cell.latency_ns.get(&operation)? })
    };
    sweep.cells.iter().filter(|cell| cell.pattern.loaded()).filter_map(one).collect()
}

/// The form of a cell's distribution.
pub(super) struct Form {
    pub(super) bins: Vec<Bin>,
    pub(super) humps: Vec<Hump>,
    /// Share of the operations within 25 % of the median.
    pub(super) near: f64,
}

pub(super) fn form(cell: &CellResult) -> Option<Form> {
    let all = Histogram::decode(cell.histogram.get(&judged(cell))?)?;
    let median = all.quantile(0.5)? as f64;
    let near = |nanos: u64| (0.75 * median..=1.25 * median).contains(&(nanos as f64));
    let within: u64 = all.cells().filter(|(nanos, _)| near(*nanos)).map(|(_, count)| count).sum();
    let bins = density(all.cells());
    Some(Form { humps: humps(&bins), bins, near: within as f64 / all.count().max(1) as f64 })
}

/// A fault with the cells that have it.
pub(super) struct Doubt<'a> {
    pub(super) fault: SweepFault,
    pub(super) cells: Vec<&'a CellResult>,
}

impl Doubt<'_> {
    /// The sentences, those that are alike once, each with how many cells it stands for.
    pub(super) fn sentences(&self) -> Vec<(&str, Vec<&CellResult>)> {
        let mut all: Vec<(&str, Vec<&CellResult>)> = Vec::new();
        for cell in &self.cells {
            let sentence = cell.evidence.get(&self.fault).map_or("", String::as_str);
            match all.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, cells)) => cells.push(cell),
                None => all.push((sentence, vec![cell])),
            }
        }
        all
    }

    /// In how many cells it is beyond the first few of these sentences.
    pub(super) fn beyond(&self, shown: usize) -> usize {
        self.sentences().iter().skip(shown).map(|(_, cells)| cells.len()).sum()
    }
}

/// What was left out: each reason once, and of how many cells.
pub(super) fn skipped(sweep: &Sweep) -> Vec<(&str, usize)> {
    let mut all: Vec<(&str, usize)> = Vec::new();
    for skipped in &sweep.skipped {
        match all.iter_mut().find(|(message, _)| *message == skipped.message) {
            Some((_, n)) => *n += 1,
            None => all.push((&skipped.message, 1)),
        }
    }
    all
}

/// What is not to be believed, the worst first.
pub(super) fn doubts(sweep: &Sweep) -> Vec<Doubt<'_>> {
    let one = |fault: &SweepFault| {
        let cells: Vec<_> = sweep.cells.iter().filter(|cell| cell.faults.contains(fault)).collect();
        (!cells.is_empty()).then_some(Doubt { fault: *fault, cells })
    };
    let mut all: Vec<_> = SweepFault::ALL.iter().filter_map(one).collect();
    all.sort_by_key(|doubt| doubt.fault != SweepFault::Corruption);
    all
}

/// Cells whose course over time is worth a look: long ones, and those that fell or had troughs.
pub(super) fn courses(sweep: &Sweep) -> Vec<&CellResult> {
    const LONG: f64 = 300.0;
    let worth = |cell: &&CellResult| {
        let shape = &cell.shape;
        let moved = shape.decline.is_some_and(|decline| decline.abs() > 0.05) || shape.troughs.is_some();
        cell.series.as_ref().is_some_and(|series| series.len() >= 10)
            && (moved || cell.seconds_each() >= LONG)
    };
    sweep.cells.iter().filter(worth).collect()
}

/// What a cell did over time, in a sentence; `None` where there is nothing to say.
pub(super) fn course(cell: &CellResult) -> Option<String> {
    let shape = &cell.shape;
    let mut parts = Vec::new();
    parts.extend(shape.decline.map(|decline| match decline {
        down if down >= 0.0 => format!("IOPS fell by {:.1} % from beginning to end", down * 100.0),
        up => format!("IOPS rose by {:.1} % from beginning to end", -up * 100.0),
    }));
    parts.extend(
        shape.variation.map(|cv| format!("they vary by {:.1} % (coefficient of variation)", cv * 100.0)),
    );
    parts.extend(shape.troughs.map(|troughs| {
        let every = troughs.period_seconds.map(|s| format!(", one each {s:.0} s")).unwrap_or_default();
        format!(
            "{} troughs down to {:.0} % of the level around them{every}",
            troughs.count,
            troughs.depth_ratio * 100.0
        )
    }));
    (!parts.is_empty()).then(|| parts.join("; "))
}
