//! What the records of a cell come to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{
    Cell, CellResult, Latency, Load, Operation, Point, Regime, Shape, Stopped, Stream, StreamResult,
    SweepFault, Trough, Way,
};
use super::content::Inspection;
use super::parts::{self, block_of};
use super::series::Span;
use super::tally::Records;
use super::{Rig, Run};
use crate::probe::Fault;
use crate::stats::{self, Histogram, SpanFigures};

/// A cell as long as this has its series in the result.
const LONG: f64 = 30.0;
const SECOND: u64 = 1_000_000_000;
/// Spans of a shorter cell; a longer one has one for each second.
const SPANS: u64 = 100;
/// A thread that has a CPU for more than this part of its time is limited by it.
const CPU_BOUND: f64 = 0.95;
/// One that waits for a CPU for more than this part was starved.
const STARVED: f64 = 0.10;

type Durations<'a> = BTreeMap<Operation, &'a Histogram>;

/// The result of a run, with the quiet one before it.
pub(super) fn sum(rig: &Rig, run: &Run, quiet: Option<&Run>) -> CellResult {
    let cell = &run.cell;
    let records: Vec<Records> = run.work.tallies.iter().map(super::Tally::records).collect();
    let judged = judged(cell, &records);
    let durations = durations(cell, &records);
    let latency_ns = latencies(&durations);
    let seconds = judged.iter().map(|records| records.seconds).fold(0.0, f64::max);
    let recorded = judged.iter().map(|records| records.recorded).fold(0.0, f64::max);
    let iops: f64 = judged.iter().map(|records| records.iops).sum();
    let streams = streams(cell, &records);
    let course = &run.work.course;
    let quiet = quiet.map(|quiet| {
        let records: Vec<Records> = quiet.work.tallies.iter().map(super::Tally::records).collect();
        latencies(&self::durations(cell, &records))
    });
    let warm_up = course.from().map_or(Duration::ZERO, |from| from.since(course.started()));
    let mut result = CellResult {
        pattern: cell.pattern,
        block_size: cell.block_size,
        depth: cell.depth,
        jobs: cell.jobs,
        method: cell.method,
        seconds,
        warm_up_seconds: warm_up.as_secs_f64(),
        operations: judged.iter().map(|records| records.operations).sum(),
        iops,
        bytes_per_second: judged_bytes(cell, &records),
        streams,
        achieved_depth: achieved(cell, &records),
        file_size: rig.extent.size,
        stopped: if course.was_cut() { Some(Stopped::Cut) } else { course.watch.stopped() },
        rounds: None,
        loaded_ratio: quiet.as_ref().map(|quiet| ratios(&latency_ns, quiet)),
        latency_ns,
        quiet,
        series: (recorded >= LONG).then(|| points(&judged, recorded)),
        spans: spans_by_operation(cell, &records),
        shape: shape(&judged, recorded),
        regime: Regime::Unknown,
        promised_iops: None,
        delivered_ratio: None,
        faults: Vec::new(),
        evidence: BTreeMap::new(),
        histogram: durations.iter().map(|(operation, h)| (*operation, h.encode())).collect(),
    };
    faults(rig, run, &mut result);
    result
}

/// The streams whose IOPS are the cell's.
fn judged<'a>(cell: &Cell, records: &'a [Records]) -> Vec<&'a Records> {
    let count = if cell.pattern.loaded() { 1 } else { records.len() };
    records.iter().take(count).collect()
}

fn judged_bytes(cell: &Cell, records: &[Records]) -> f64 {
    let bytes = |(stream, records): (&Stream, &Records)| records.iops * f64::from(block_of(stream));
    let count = judged(cell, records).len();
    parts::streams(cell).iter().zip(records).take(count).map(bytes).sum()
}

pub(super) fn operation(way: Way) -> Operation {
    match way {
        Way::Read => Operation::Read,
        Way::Write => Operation::Write,
        Way::Commit => Operation::Commit,
    }
}

/// By operation. Where a stream writes, `write` is that stream's, not the first part of commits.
fn durations<'a>(cell: &Cell, records: &'a [Records]) -> Durations<'a> {
    let mut all = Durations::new();
    for (stream, records) in cell.pattern.streams().iter().zip(records) {
        all.insert(operation(stream.way), &records.whole);
    }
    for records in records.iter().filter(|records| records.write.count() > 0) {
        all.entry(Operation::Write).or_insert(&records.write);
        all.insert(Operation::Sync, &records.sync);
    }
    all.retain(|_, histogram| histogram.count() > 0);
    all
}

fn latencies(durations: &Durations<'_>) -> BTreeMap<Operation, Latency> {
    durations.iter().map(|(operation, histogram)| (*operation, latency(histogram))).collect()
}

pub(super) fn latency(histogram: &Histogram) -> Latency {
    let quantile = |q| histogram.quantile(q).unwrap_or(0);
    let enough = |least, q| (histogram.count() >= least).then(|| quantile(q));
    Latency {
        count: histogram.count(),
        mean: histogram.mean().unwrap_or(0.0),
        stdev: histogram.stdev().unwrap_or(0.0),
        min: histogram.min().unwrap_or(0),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: enough(100, 0.99),
        p999: enough(1000, 0.999),
        max: histogram.max().unwrap_or(0),
    }
}

fn streams(cell: &Cell, records: &[Records]) -> BTreeMap<Operation, StreamResult> {
    let one = |(stream, records): (&Stream, &Records)| {
        let block_size = block_of(stream);
        let result = StreamResult {
            block_size,
            operations: records.operations,
            iops: records.iops,
            bytes_per_second: records.iops * f64::from(block_size),
        };
        (operation(stream.way), result)
    };
    parts::streams(cell).iter().zip(records).map(one).collect()
}

/// IOPS × mean, of the streams that were to keep the cell's depth; where none was, of the first.
fn achieved(cell: &Cell, records: &[Records]) -> f64 {
    let keeps = |load| matches!(load, Load::Depth | Load::Percent(_) | Load::EachJob);
    let streams = cell.pattern.streams().iter().zip(records);
    let outstanding = |records: &Records| records.iops * records.whole.mean().unwrap_or(0.0) / 1e9;
    streams.filter(|(stream, _)| keeps(stream.load)).map(|(_, records)| outstanding(records)).sum()
}

fn ratios(
    loaded: &BTreeMap<Operation, Latency>,
    quiet: &BTreeMap<Operation, Latency>,
) -> BTreeMap<Operation, BTreeMap<String, f64>> {
    let ratio = |a: f64, b: f64| (b > 0.0).then(|| a / b);
    let each = |(operation, quiet): (&Operation, &Latency)| {
        let loaded = loaded.get(operation)?;
        let p99 = loaded.p99.zip(quiet.p99).and_then(|(a, b)| ratio(a as f64, b as f64));
        let all = [
            ("mean", ratio(loaded.mean, quiet.mean)),
            ("p50", ratio(loaded.p50 as f64, quiet.p50 as f64)),
            ("p99", p99),
        ];
        let known = all.into_iter().filter_map(|(stat, ratio)| Some((stat.to_owned(), ratio?)));
        Some((*operation, known.collect()))
    };
    quiet.iter().filter_map(each).collect()
}

/// Spans of all of the streams, added up.
fn spans(judged: &[&Records], shortest: u64, seconds: f64) -> (u64, Vec<Span>) {
    let nanos = (seconds * 1e9) as u64;
    let all: Vec<_> = judged.iter().map(|records| records.series.whole(shortest, nanos)).collect();
    let length = all.iter().map(|(length, _)| *length).max().unwrap_or(SECOND);
    let again = judged.iter().map(|records| records.series.whole(length, nanos).1);
    let mut sum: Vec<Span> = Vec::new();
    for spans in again {
        sum.resize(sum.len().max(spans.len()), Span::default());
        sum.iter_mut().zip(spans).for_each(|(sum, span)| sum.add(span));
    }
    (length, sum)
}

fn spans_by_operation(cell: &Cell, records: &[Records]) -> BTreeMap<Operation, Vec<SpanFigures>> {
    let one = |(stream, records): (&Stream, &Records)| {
        let figures = records.spans.figures((records.recorded * 1e9) as u64)?;
        Some((operation(stream.way), vec![figures]))
    };
    cell.pattern.streams().iter().zip(records).filter_map(one).collect()
}

fn points(judged: &[&Records], seconds: f64) -> Vec<Point> {
    let (length, spans) = spans(judged, SECOND, seconds);
    let each = stats::seconds(length);
    let point = |(at, span): (usize, &Span)| Point {
        second: at as f64 * each,
        iops: span.count as f64 / each,
        mean_ns: span.nanos as f64 / span.count.max(1) as f64,
        max_ns: span.max,
    };
    spans.iter().enumerate().map(point).collect()
}

fn shape(judged: &[&Records], seconds: f64) -> Shape {
    let shortest = ((seconds * 1e9) as u64 / SPANS).clamp(1, SECOND);
    let (length, spans) = spans(judged, shortest, seconds);
    let counts: Vec<u64> = spans.iter().map(|span| span.count).collect();
    let figures = stats::shape(&counts, stats::seconds(length));
    Shape {
        halves_ratio: figures.halves_ratio,
        variation: figures.variation,
        noise: figures.noise,
        decline: figures.decline,
        troughs: figures.troughs.map(|troughs| Trough {
            count: troughs.count,
            period_seconds: troughs.period_seconds,
            depth_ratio: troughs.depth_ratio,
        }),
    }
}

/// What the rig itself saw.
fn faults(rig: &Rig, run: &Run, result: &mut CellResult) {
    let mut seen = Inspection::default();
    run.ends.iter().for_each(|end| seen.add(&end.inspection));
    let reads = run.cell.pattern.streams().iter().any(|stream| stream.way == Way::Read);
    if seen.wrong > 0 {
        let block = seen.first_wrong.unwrap_or_default();
        let why = format!(
            "{} of {} blocks looked at are not what was written there, the first of them block {block}",
            seen.wrong, seen.seen
        );
        result.fault(SweepFault::Corruption, why);
    }
    if run.work.file.is_none() && seen.seen > 0 && seen.zeros == seen.seen {
        let why = format!(
            "all {} blocks looked at hold only zeros: they may never have been written, and a read of such a block need not reach \
             the medium",
            seen.seen
        );
        result.fault(SweepFault::Zeros, why);
    }
    for (fault, as_sweep) in [(Fault::Unwritten, SweepFault::Unwritten), (Fault::Cached, SweepFault::Cached)]
    {
        if let Some(evidence) = rig.holds(fault).filter(|_| reads) {
            result.fault(as_sweep, evidence);
        }
    }
    if let Some(evidence) = rig.host_cached.as_deref().filter(|_| reads) {
        result.fault(SweepFault::HostCached, evidence);
    }
    ours(rig, run, result);
}

/// Where we were the limit, not the disk.
fn ours(rig: &Rig, run: &Run, result: &mut CellResult) {
    let share = |of: Duration, end: &super::PartEnd| of.as_secs_f64() / end.ran.as_secs_f64().max(1e-9);
    let most = |share: &dyn Fn(&super::PartEnd) -> f64| run.ends.iter().map(share).fold(0.0, f64::max);
    let cpu = most(&|end| share(end.cpu, end));
    if cpu > CPU_BOUND {
        let why = format!(
            "a thread of ours had a CPU for {:.0} % of its time: more jobs may bring more",
            cpu * 100.0
        );
        result.fault(SweepFault::CpuBound, why);
    }
    let waited = most(&|end| share(end.waited, end));
    let windows = run.ends.iter().filter_map(|end| end.window);
    let silent = windows.map(|(from, to)| rig.around.heart.silent(from, to)).max().unwrap_or_default();
    if waited > STARVED || silent > Duration::ZERO {
        let mut why = format!("we waited for a CPU for {:.0} % of the time", waited * 100.0);
        if silent > Duration::ZERO {
            why += &format!(", and did not run at all for {} ms", silent.as_millis());
        }
        result.fault(SweepFault::Starved, why);
    }
}

impl CellResult {
    /// Notes what makes it not to be believed, once.
    pub fn fault(&mut self, fault: SweepFault, evidence: impl Into<String>) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
            self.evidence.insert(fault, evidence.into());
        }
    }
}
