//! Cells for tests, as Little's law has them.

use std::collections::BTreeMap;

use super::{Cell, CellResult, Latency, Operation, Pattern, Regime, Shape, StreamResult, Way};

/// A cell of thirty seconds with one job.
pub(crate) fn cell(pattern: Pattern, block_size: u32, depth: u16, iops: f64) -> CellResult {
    let operations = (iops * 30.0) as u64;
    let bytes_per_second = iops * f64::from(block_size);
    let mean = f64::from(depth) / iops * 1e9;
    let operation = match pattern.streams()[0].way {
        Way::Read => Operation::Read,
        Way::Write => Operation::Write,
        Way::Commit => Operation::Commit,
    };
    let latency = Latency {
        count: operations,
        mean,
        stdev: mean / 10.0,
        min: mean as u64 / 2,
        p50: mean as u64,
        p90: (mean * 1.2) as u64,
        p99: (operations >= 100).then_some((mean * 1.5) as u64),
        p999: (operations >= 1000).then_some((mean * 2.0) as u64),
        max: (mean * 5.0) as u64,
    };
    let stream = StreamResult { block_size, operations, iops, bytes_per_second };
    CellResult {
        pattern,
        block_size,
        depth,
        jobs: 1,
        method: None,
        seconds: 30.0,
        warm_up_seconds: 2.0,
        operations,
        iops,
        bytes_per_second,
        latency_ns: BTreeMap::from([(operation, latency)]),
        streams: BTreeMap::from([(operation, stream)]),
        achieved_depth: f64::from(depth),
        file_size: 1 << 30,
        stopped: None,
        rounds: None,
        quiet: None,
        loaded_ratio: None,
        series: None,
        spans: BTreeMap::new(),
        shape: Shape::default(),
        regime: Regime::Unknown,
        promised_iops: None,
        delivered_ratio: None,
        faults: Vec::new(),
        evidence: BTreeMap::new(),
        histogram: BTreeMap::new(),
    }
}

/// The result of `of`.
pub(crate) fn ran(of: Cell, iops: f64) -> CellResult {
    let outstanding = f64::from(of.jobs);
    let mut result = cell(of.pattern, of.block_size, of.depth, iops);
    result.latency_ns.values_mut().for_each(|latency| latency.mean *= outstanding);
    CellResult { jobs: of.jobs, method: of.method, ..result }
}
