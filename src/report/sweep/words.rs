//! What patterns and faults are, in plain words.

use super::facts;
use crate::probe::sweep::check::is_judged;
use crate::probe::sweep::{CellResult, Environment, Pattern, Regime, Stopped, Sweep, SweepFault};
use crate::units::Bytes;
use crate::units::figures::duration;

const KIB: u32 = 1 << 10;

/// What of a database a pattern stands for.
pub(super) fn stands_for(pattern: Pattern, block_size: u32) -> &'static str {
    match (pattern, block_size) {
        (Pattern::RandRead, size) if size == 16 * KIB => "InnoDB pages read at random",
        (Pattern::RandRead, size) if size == 8 * KIB => "PostgreSQL or Oracle pages read at random",
        (Pattern::RandRead, _) => "primary-key lookups and index reads",
        (Pattern::RandWrite, size) if size == 16 * KIB => "InnoDB pages flushed",
        (Pattern::RandWrite, _) => "small updates written back at random",
        (Pattern::SeqRead, _) => "table scans, backups, analytics",
        (Pattern::SeqWrite, _) => "bulk loads, ETL, restores",
        (Pattern::RandRw70, _) => "OLTP: lookups with updates between them",
        (Pattern::SeqRw50, _) => "ETL and log processing: one stream read, one written",
        (Pattern::Commit, _) => "the transaction log: how long a COMMIT waits",
        (Pattern::Oltp, _) => "the transaction log while queries read and checkpoints write",
        (Pattern::Compaction, _) => "lookups in a log-structured store while it compacts",
        (Pattern::Backup, _) => "the transaction log while a backup reads",
    }
}

/// `4KiB randread`, or `4KiB commit by fsync`.
pub(super) fn name(cell: &CellResult) -> String {
    let by = cell.method.filter(|_| cell.pattern == Pattern::Commit);
    let by = by.map(|method| format!(" by {method}")).unwrap_or_default();
    format!("{} {}{by}", Bytes::new(cell.block_size.into()), cell.pattern)
}

/// `depth 16`, `depth 8, 4 jobs`, or `4 committers`.
pub(super) fn place(cell: &CellResult) -> String {
    match (cell.pattern, cell.jobs) {
        (Pattern::Commit, 1) => "1 committer".to_owned(),
        (Pattern::Commit, jobs) => format!("{jobs} committers"),
        (_, 1) => format!("depth {}", cell.depth),
        (_, jobs) => format!("depth {}, {jobs} jobs", cell.depth),
    }
}

/// Some cells in a line: the first two by name, the others by their number.
pub(super) fn cells(cells: &[&CellResult]) -> String {
    let named = |cell: &&CellResult| format!("{}, {}", name(cell), place(cell));
    let same = |cell: &&CellResult| cells.first().is_some_and(|first| name(first) == name(cell));
    let mut all: Vec<String> = cells.iter().take(1).map(named).collect();
    // Of one ladder, what they differ in is enough.
    all.extend(cells.iter().skip(1).take(1).map(|cell| if same(cell) { place(cell) } else { named(cell) }));
    let all = all.join(" and ");
    match cells.len() {
        0..=2 => all,
        3 => format!("{all} and 1 other cell"),
        n => format!("{all} and {} other cells", n - 2),
    }
}

/// The mark of a cell in a table: `!` is not to be believed as it stands, `*` is not durable, and that is all.
pub(super) fn mark(cell: &CellResult) -> &'static str {
    match cell.faults.as_slice() {
        [] => "",
        [SweepFault::VolatileCache] => "*",
        _ => "!",
    }
}

/// What a fault means for whoever reads the numbers.
pub(super) fn meaning(fault: SweepFault) -> &'static str {
    match fault {
        SweepFault::Unwritten => "These blocks were never written, so the disk need not look for them",
        SweepFault::Cached => "The kernel's cache answers, not the disk",
        SweepFault::HostCached => "A cache outside of this machine answers, not the disk",
        SweepFault::Unflushed => "Commits do not reach the disk: the times are a memory's",
        SweepFault::Zeros => "The device answers with zeros only: it may never have been written",
        SweepFault::Corruption => "What was read is not what was written. Take this disk out of use",
        SweepFault::LittlesLaw => "IOPS, latency and depth do not fit each other",
        SweepFault::Bandwidth => "Random operations seem to move more than sequential ones can",
        SweepFault::DepthInversion => "Operations seem quicker with more of them under way",
        SweepFault::OverPromise => {
            "More than the product promises: a burst, a cache, or another product than was said"
        }
        SweepFault::OverInstance => {
            "More than the machine lets through: a cache, or another machine than was said"
        }
        SweepFault::SizeOutOfRange => "The product is not sold in this size",
        SweepFault::SizeMismatch => "Operations and bytes do not fit each other",
        SweepFault::VolatileCache => "The disk's own cache took these writes: they are not durable",
        SweepFault::Unsteady => {
            "The disk changed in the middle of the measurement: a burst that ended, or others on it"
        }
        SweepFault::CpuBound => "This machine's CPU was the limit, not the disk",
        SweepFault::Starved => {
            "This program did not get the CPU in time: long times are the machine's, not the disk's"
        }
    }
}

/// Why a sweep or a cell ended early.
pub(super) fn stopped(why: Stopped) -> &'static str {
    match why {
        Stopped::Cut => "latency passed the ceiling",
        Stopped::Guard => "the disk's own workload woke up",
        Stopped::Budget => "what sweeps may cost the disk in a day was spent",
        Stopped::Interrupt => "it was interrupted",
        Stopped::Error => "the disk failed",
    }
}

/// What a regime means.
pub(super) fn regime(regime: Regime) -> &'static str {
    match regime {
        Regime::Burst => "on burst credit: it will not last",
        Regime::Baseline => "at the baseline that is promised for ever",
        Regime::Throttled => "held at a known limit",
        Regime::Unknown => "not known: a burst cannot be told from what lasts",
    }
}

/// The device with its model and size; empty where it is not known.
pub(super) fn device(sweep: &Sweep) -> String {
    let target = &sweep.target;
    let parts = [
        target.device.clone(),
        target.model.as_ref().map(|model| format!("({model})")),
        target.size.map(|size| Bytes::new(size).to_string()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Whether the page cache is bypassed.
pub(super) fn cache(direct: &str) -> &'static str {
    match direct {
        "true" => "past the page cache",
        "false" => "through the page cache",
        _ => "the page cache answers in spite of direct I/O",
    }
}

/// Kernel, CPUs and memory.
pub(super) fn machine(machine: &Environment) -> String {
    let cpus = if machine.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", machine.cpus) };
    let model = if machine.cpu.is_empty() { String::new() } else { format!(" ({})", machine.cpu) };
    format!(
        "Linux {}, {cpus}{model}, {} of memory, diskcanary {}",
        machine.kernel,
        Bytes::new(machine.memory),
        machine.version
    )
}

/// Under which conditions the cells were run; `None` without any.
pub(super) fn conditions(sweep: &Sweep) -> Option<String> {
    let cell = sweep.cells.first()?;
    let span = |of: fn(&CellResult) -> f64| {
        let all = || sweep.cells.iter().map(of);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        if most - least < 0.1 { format!("{most:.1} s") } else { format!("{least:.1} to {most:.1} s") }
    };
    let jobs = match sweep.cells.iter().map(|cell| cell.jobs).max() {
        None | Some(1) => "1 job".to_owned(),
        Some(jobs) => format!("up to {jobs} jobs"),
    };
    let rounds = sweep.cells.iter().filter_map(|cell| cell.rounds).map(|rounds| rounds.count).max();
    let regimes: std::collections::BTreeSet<_> = sweep.cells.iter().map(|cell| cell.regime).collect();
    let regimes: Vec<_> = regimes.into_iter().map(regime).collect();
    Some(format!(
        "{} a cell after {} of warm-up, {}, {jobs}, working set {}; regime {}",
        span(CellResult::seconds_each),
        span(CellResult::warm_up_each),
        match rounds {
            Some(rounds) => format!("{rounds} rounds of it"),
            None => "one round".to_owned(),
        },
        Bytes::new(cell.file_size),
        regimes.join("; ")
    ))
}

/// What is to be known before numbers of a cell are copied into a config.
pub(super) fn of_copies(cell: &CellResult) -> Option<String> {
    if let Some(doubt) = doubt(cell) {
        return Some(format!("That cell {doubt}: do not copy these before you know why"));
    }
    if cell.regime == Regime::Burst {
        return Some("Measured on burst credit: what lasts is less".to_owned());
    }
    if cell.seconds_each() < 60.0 {
        let rounds = if cell.rounds.is_some() { " at a time" } else { "" };
        return Some(format!(
            "Measured for {:.0} s{rounds} only: a burst may end later; run the preset endurance before you rely on it",
            cell.seconds_each()
        ));
    }
    cell.faults.contains(&SweepFault::VolatileCache).then(|| {
        "Nothing flushed these writes: what is durable, as InnoDB asks for it by default, may be slower"
            .to_owned()
    })
}

/// What speaks against a figure of a cell, after its name; `None` where nothing does.
pub(super) fn doubt(cell: &CellResult) -> Option<&'static str> {
    match (facts::sound(cell), cell.stopped) {
        (true, _) => None,
        (false, Some(_)) => Some("ended early"),
        (false, None) => Some("is in doubt"),
    }
}

/// What the checks came to where they found nothing, and what they could not judge: sentences without an end.
pub(super) fn checked(sweep: &Sweep) -> Vec<String> {
    let mut said = Vec::new();
    if sweep.cells.iter().all(|cell| cell.faults.is_empty()) {
        said.push("No check found a fault".to_owned());
    }
    let all = sweep.cells.len();
    let short = sweep.cells.iter().filter(|cell| !is_judged(cell)).count();
    if short > 0 {
        said.push(format!(
            "{short} of {} too short or too thin for all checks (a second and 100 operations, to the end), so not all were made",
            if all == 1 { "1 cell is".to_owned() } else { format!("{all} cells are") }
        ));
    }
    if sweep.cells.iter().all(|cell| cell.promised_iops.is_none()) {
        said.push(
            "No promise is known, so nothing was held against one (--promised-iops, --promised-throughput)"
                .to_owned(),
        );
    }
    said
}

/// A duration, or what stands for none.
pub(super) fn or_dash(nanos: Option<u64>, dash: &str) -> String {
    nanos.map_or_else(|| dash.to_owned(), duration)
}

/// `1 cell`, `3 cells`.
pub(super) fn number(n: usize) -> String {
    if n == 1 { "1 cell".to_owned() } else { format!("{n} cells") }
}
