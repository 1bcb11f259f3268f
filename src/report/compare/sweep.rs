//! A sweep of ours as one side of a comparison.

use std::collections::BTreeMap;

use super::{Disk, Ground, Key, Side, Stream, conditions};
use crate::probe::sweep::{CellResult, Latency, Operation, Regime, StreamResult, Subject, Sweep, SweepFault};
use crate::stats::Histogram;
use crate::stats::compare::{Quantiles, Run};
use crate::units::Bytes;

/// Whether with this we lacked CPU, so that a change may be ours.
const fn is_ours(fault: SweepFault) -> bool {
    matches!(fault, SweepFault::CpuBound | SweepFault::Starved)
}

pub(super) fn side(file: &str, value: serde_json::Value) -> Result<Side, String> {
    let sweep: Sweep = serde_path_to_error::deserialize(value).map_err(|fault| {
        format!("{file}: {}: {}: this is no whole sweep result", fault.path(), fault.inner())
    })?;
    let mut streams = BTreeMap::new();
    for cell in &sweep.cells {
        for (operation, stream) in &cell.streams {
            let direct = direct(&sweep.target);
            let made = self::stream(cell, *operation, stream, direct).map_err(|why| {
                format!("{file}: {}, {operation}: {why}", super::table::name(&key(cell, *operation)))
            })?;
            streams.insert(key(cell, *operation), made);
        }
    }
    let target = &sweep.target;
    Ok(Side {
        file: file.to_owned(),
        ground: match &target.file_system {
            Some(kind) => Ground::Files(kind.clone()),
            None => Ground::Device,
        },
        disk: Disk { serial: target.serial.clone().filter(|s| !s.is_empty()), names: target.disks.clone() },
        facts: facts(&sweep),
        notes: sweep
            .stopped
            .iter()
            .map(|why| format!("the sweep ended before all was done ({why})"))
            .collect(),
        streams,
    })
}

/// What should be alike on both sides.
fn facts(sweep: &Sweep) -> BTreeMap<String, String> {
    let (target, machine) = (&sweep.target, &sweep.environment);
    let mut facts: BTreeMap<String, String> = [
        ("engine", target.engine.clone()),
        ("direct I/O", direct(target).map(|direct| direct.to_string()).unwrap_or_default()),
        ("CPU", machine.cpu.clone()),
        ("CPUs", machine.cpus.to_string()),
        ("kernel", machine.kernel.clone()),
        ("diskcanary", machine.version.clone()),
    ]
    .map(|(fact, value)| (fact.to_owned(), value))
    .into();
    facts.extend(sweep.product.iter().map(|product| ("product".to_owned(), product.clone())));
    let of = |cell: fn(&CellResult) -> f64| sweep.cells.iter().map(cell);
    facts.extend(conditions::span("seconds a cell", of(CellResult::seconds_each)));
    facts.extend(conditions::span("seconds of warm-up", of(CellResult::warm_up_each)));
    facts.extend(conditions::list(
        "working set",
        sweep.cells.iter().map(|cell| Bytes::new(cell.file_size).to_string()),
    ));
    let regimes = sweep.cells.iter().map(|cell| cell.regime).filter(|regime| *regime != Regime::Unknown);
    facts.extend(conditions::list("regime", regimes.map(|regime| regime.to_string())));
    facts.extend(machine.settings.iter().map(|(name, value)| (name.clone(), value.clone())));
    facts
}

fn key(cell: &CellResult, operation: Operation) -> Key {
    Key {
        pattern: cell.pattern.label().to_owned(),
        block_size: cell.block_size.into(),
        depth: cell.depth.into(),
        jobs: cell.jobs.into(),
        method: cell.method.map(|method| method.label().to_owned()),
        operation,
    }
}

/// Whether it went past the page cache. Cells that a cache answered all the same say so themselves.
fn direct(target: &Subject) -> Option<bool> {
    match target.direct.as_str() {
        "true" | "bypassed" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn stream(
    cell: &CellResult,
    operation: Operation,
    stream: &StreamResult,
    direct: Option<bool>,
) -> Result<Stream, String> {
    let latency = cell.latency_ns.get(&operation);
    let quantiles = match cell.histogram.get(&operation).filter(|text| !text.is_empty()) {
        Some(text) => Quantiles::of(&Histogram::decode(text).ok_or("its histogram cannot be read")?),
        None => latency.map(of_figures).unwrap_or_default(),
    };
    let those = |of: fn(SweepFault) -> bool| {
        cell.faults.iter().filter(|fault| of(**fault)).map(ToString::to_string).collect()
    };
    Ok(Stream {
        run: Run {
            operations: stream.operations,
            seconds: cell.seconds,
            rate: stream.iops,
            quantiles,
            rounds: cell.spans.get(&operation).cloned().unwrap_or_default(),
            scatter: None,
        },
        p50: latency.map(|latency| latency.p50),
        p99: latency.and_then(|latency| latency.p99),
        faults: those(SweepFault::hides_the_disk),
        doubts: those(is_ours),
        direct,
    })
}

/// What the figures alone say of the distribution.
fn of_figures(latency: &Latency) -> Quantiles {
    let known = [
        (0.0, Some(latency.min)),
        (0.5, Some(latency.p50)),
        (0.9, Some(latency.p90)),
        (0.99, latency.p99),
        (0.999, latency.p999),
        (1.0, Some(latency.max)),
    ];
    Quantiles::of_points(known.into_iter().filter_map(|(share, nanos)| Some((share, nanos?))))
}
