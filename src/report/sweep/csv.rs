//! One line for each cell and operation.

use std::fmt::Write;

use super::facts::operations;
use crate::probe::sweep::{CellResult, Operation, Sweep};

const HEAD: &str = "pattern,block_size,depth,jobs,method,operation,seconds,warm_up_seconds,operations,iops,\
    bytes_per_second,mean_ns,stdev_ns,min_ns,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,achieved_depth,rounds,iops_min,\
    iops_max,halves_ratio,regime,promised_iops,delivered_ratio,stopped,faults\n";

/// The cells of a sweep as comma-separated values with a head line: times in nanoseconds, sizes in bytes, rates per second, nothing
/// where something is not known. Faults are parted by spaces. No field needs quotes.
pub fn csv(sweep: &Sweep) -> String {
    let mut text = HEAD.to_owned();
    for cell in &sweep.cells {
        for operation in operations(cell) {
            line(&mut text, cell, operation);
        }
    }
    text
}

fn line(text: &mut String, cell: &CellResult, operation: Operation) {
    fn or_nothing<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let latency = cell.latency_ns.get(&operation).copied().unwrap_or_default();
    let (count, iops, bytes) =
        cell.streams.get(&operation).map_or((cell.operations, cell.iops, cell.bytes_per_second), |stream| {
            (stream.operations, stream.iops, stream.bytes_per_second)
        });
    let faults: Vec<_> = cell.faults.iter().map(|fault| fault.label()).collect();
    let _ = write!(
        text,
        "{},{},{},{},{},{operation},{},{},{count},{iops},{bytes},",
        cell.pattern,
        cell.block_size,
        cell.depth,
        cell.jobs,
        or_nothing(cell.method),
        cell.seconds,
        cell.warm_up_seconds,
    );
    let _ = write!(
        text,
        "{},{},{},{},{},{},{},{},{},",
        latency.mean,
        latency.stdev,
        latency.min,
        latency.p50,
        latency.p90,
        or_nothing(latency.p99),
        or_nothing(latency.p999),
        latency.max,
        cell.achieved_depth,
    );
    let _ = writeln!(
        text,
        "{},{},{},{},{},{},{},{},{}",
        cell.rounds.map_or(1, |rounds| rounds.count),
        or_nothing(cell.rounds.map(|rounds| rounds.iops_min)),
        or_nothing(cell.rounds.map(|rounds| rounds.iops_max)),
        or_nothing(cell.shape.halves_ratio),
        cell.regime,
        or_nothing(cell.promised_iops),
        or_nothing(cell.delivered_ratio),
        or_nothing(cell.stopped),
        faults.join(" "),
    );
}
