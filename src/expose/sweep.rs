//! Where the metrics of sweeps get their samples.

use std::collections::{BTreeMap, BTreeSet};

use super::writer::Samples;
use crate::clock::Tick;
use crate::probe::sweep::{CellResult, Operation, Pattern, Sweep};
use crate::record::{SweepView, TargetView};
use crate::schedule::sweep::Ending;

type Out<'a, 'w, 's> = &'a mut Samples<'w, 's>;

/// A depth is enough when it brings this part of the most that any brings.
const KNEE: f64 = 0.95;

fn sweeps(target: &TargetView) -> impl Iterator<Item = &SweepView> {
    target.sweeps.iter()
}

fn results(target: &TargetView) -> Option<&Sweep> {
    Some(&target.sweeps.as_ref()?.results.as_ref()?.sweep)
}

/// The labels that tell a cell from all others.
struct Labels {
    pattern: &'static str,
    block_size: String,
    depth: String,
    jobs: String,
    /// Empty, which is none, where nothing is committed.
    method: &'static str,
}

impl Labels {
    fn of(cell: &CellResult) -> Self {
        Self {
            pattern: cell.pattern.label(),
            block_size: cell.block_size.to_string(),
            depth: cell.depth.to_string(),
            jobs: cell.jobs.to_string(),
            method: cell.method.map_or("", |method| method.label()),
        }
    }

    fn with<'a, const N: usize>(&'a self, more: [&'a str; N]) -> Vec<&'a str> {
        let own = [self.pattern, &self.block_size, &self.depth, &self.jobs, self.method];
        own.into_iter().chain(more).collect()
    }
}

fn cells(target: &TargetView) -> impl Iterator<Item = (&CellResult, Labels)> {
    results(target).into_iter().flat_map(|sweep| &sweep.cells).map(|cell| (cell, Labels::of(cell)))
}

pub(super) fn iops(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for (cell, labels) in cells(target) {
        for (op, stream) in &cell.streams {
            out.gauge(&labels.with([op.label()]), stream.iops);
        }
    }
}

pub(super) fn bytes_per_second(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for (cell, labels) in cells(target) {
        for (op, stream) in &cell.streams {
            out.gauge(&labels.with([op.label()]), stream.bytes_per_second);
        }
    }
}

pub(super) fn latency(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for (cell, labels) in cells(target) {
        // A commit is told whole; its parts are what the commit probe is for.
        let whole = |op: &Operation| cell.streams.contains_key(op);
        for (op, latency) in cell.latency_ns.iter().filter(|(op, _)| whole(op)) {
            let stats = [
                ("mean", Some(latency.mean)),
                ("stddev", Some(latency.stdev)),
                ("p50", Some(latency.p50 as f64)),
                ("p99", latency.p99.map(|nanos| nanos as f64)),
            ];
            for (stat, value) in stats {
                value.into_iter().for_each(|nanos| out.gauge(&labels.with([op.label(), stat]), nanos / 1e9));
            }
        }
    }
}

pub(super) fn achieved_depth(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    cells(target).for_each(|(cell, labels)| out.gauge(&labels.with([]), cell.achieved_depth));
}

pub(super) fn cell_info(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    cells(target).for_each(|(cell, labels)| out.count(&labels.with([cell.regime.label()]), 1));
}

pub(super) fn loaded_ratio(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for (cell, labels) in cells(target) {
        for (op, stats) in cell.loaded_ratio.iter().flatten().filter(|(op, _)| cell.streams.contains_key(op))
        {
            let Labels { pattern, depth, jobs, method, .. } = &labels;
            for (stat, ratio) in stats.iter().filter(|(stat, _)| ["p50", "p99"].contains(&stat.as_str())) {
                out.gauge(&[pattern, depth, jobs, method, op.label(), stat], *ratio);
            }
        }
    }
}

/// Cells that differ in jobs or method only have each fault once.
pub(super) fn faults(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    let cells = results(target).into_iter().flat_map(|sweep| &sweep.cells);
    let all: BTreeSet<_> = cells
        .flat_map(|cell| cell.faults.iter().map(|fault| (cell.pattern, cell.block_size, cell.depth, *fault)))
        .collect();
    for (pattern, block_size, depth, fault) in all {
        out.count(&[pattern.label(), &block_size.to_string(), &depth.to_string(), fault.label()], 1);
    }
}

/// The cells that may stand for the disk by pattern, block size and method: a ladder each.
fn ladders(target: &TargetView) -> BTreeMap<(Pattern, u32, &'static str), Vec<&CellResult>> {
    let mut ladders = BTreeMap::<_, Vec<&CellResult>>::new();
    let cells = results(target).into_iter().flat_map(|sweep| &sweep.cells);
    for cell in cells.filter(|cell| cell.shows_the_disk()) {
        let method = cell.method.map_or("", |method| method.label());
        ladders.entry((cell.pattern, cell.block_size, method)).or_default().push(cell);
    }
    ladders
}

fn each_ladder(target: &TargetView, out: Out<'_, '_, '_>, value: impl Fn(&[&CellResult]) -> Option<f64>) {
    for ((pattern, block_size, method), cells) in ladders(target) {
        if let Some(value) = value(&cells) {
            out.gauge(&[pattern.label(), &block_size.to_string(), method], value);
        }
    }
}

fn most(cells: &[&CellResult], of: fn(&CellResult) -> f64) -> Option<f64> {
    cells.iter().map(|cell| of(cell)).filter(|value| value.is_finite()).reduce(f64::max)
}

pub(super) fn peak_iops(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    each_ladder(target, out, |cells| most(cells, |cell| cell.iops));
}

pub(super) fn peak_bytes(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    each_ladder(target, out, |cells| most(cells, |cell| cell.bytes_per_second));
}

pub(super) fn knee(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    each_ladder(target, out, |cells| {
        let best = most(cells, |cell| cell.iops).filter(|_| cells.len() > 1)?;
        let enough = cells.iter().copied().filter(|cell| cell.iops >= best * KNEE);
        enough.map(CellResult::outstanding).min().map(f64::from)
    });
}

pub(super) fn decline(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    each_ladder(target, out, |cells| {
        cells.iter().filter_map(|cell| cell.shape.decline).filter(|value| value.is_finite()).reduce(f64::max)
    });
}

pub(super) fn running(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    sweeps(target).for_each(|sweeps| out.truth(&[], sweeps.running));
}

pub(super) fn next(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    sweeps(target).filter_map(|sweeps| sweeps.next).for_each(|at| out.gauge(&[], at.as_secs_f64()));
}

pub(super) fn last_begin(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    sweeps(target).filter_map(|sweeps| sweeps.last).for_each(|last| out.gauge(&[], last.began.as_secs_f64()));
}

pub(super) fn last_end(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    let ended = sweeps(target).filter_map(|sweeps| sweeps.last?.ended);
    ended.for_each(|(at, _)| out.gauge(&[], at.as_secs_f64()));
}

pub(super) fn last_completion(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    let known = sweeps(target).filter_map(|sweeps| sweeps.results.as_ref());
    let complete = known.filter(|results| !results.is_partial());
    complete.for_each(|results| out.gauge(&[], results.ended.as_secs_f64()));
}

pub(super) fn partial(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    let known = sweeps(target).filter_map(|sweeps| sweeps.results.as_ref());
    known.for_each(|results| out.truth(&[], results.is_partial()));
}

pub(super) fn endings(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for sweeps in sweeps(target) {
        Ending::ALL.iter().zip(sweeps.endings).for_each(|(ending, n)| out.count(&[ending.label()], n));
    }
}

pub(super) fn skipped(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for sweeps in sweeps(target) {
        sweeps.passed.iter().for_each(|(reason, n)| out.count(&[reason], *n));
    }
}

pub(super) fn waiting(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    sweeps(target).filter_map(|sweeps| sweeps.waiting).for_each(|reason| out.count(&[reason], 1));
}

pub(super) fn budget(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for left in sweeps(target).filter_map(|sweeps| sweeps.left) {
        ["write", "read"].iter().zip(left).for_each(|(kind, left)| out.gauge(&[kind], left));
    }
}
