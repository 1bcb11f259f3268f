//! Where each metric of the table gets its samples.

use super::writer::Samples;
use crate::clock::Tick;
use crate::io::Op;
use crate::probe::{Cost, Phase, Probe, State, Verdict};
use crate::record::{DeviceSettings, Snapshot, TargetView, Timed, WINDOWS};
use crate::schedule::budget::Kind;
use crate::schedule::sweep::SWEEP;
use crate::stats::{Summary, seconds};

type Out<'a, 'w, 's> = &'a mut Samples<'w, 's>;

pub(super) fn build(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    out.count(&[snapshot.version], 1);
}

pub(super) fn commit(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    by_profile(target, Timed::Commit, out);
}

pub(super) fn write(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    by_profile(target, Timed::Write, out);
}

pub(super) fn sync(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    by_profile(target, Timed::Sync, out);
}

fn by_profile(target: &TargetView, timed: Timed, out: Out<'_, '_, '_>) {
    for phase in Phase::ALL {
        if let Some(series) = target.series(timed, *phase) {
            out.histogram(&[&target.plan.profile, phase.label()], &series.buckets);
        }
    }
}

pub(super) fn read(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for phase in Phase::ALL {
        if let Some(series) = target.series(Timed::Read, *phase) {
            out.histogram(&[phase.label()], &series.buckets);
        }
    }
}

pub(super) fn window_latency(target: &TargetView, now: Tick, out: Out<'_, '_, '_>) {
    each_window(target, now, |[op, phase, window], held| {
        let whole = [
            ("min", Some(held.min)),
            ("p50", Some(held.p50)),
            ("p90", Some(held.p90)),
            ("p99", held.p99),
            ("p999", held.p999),
            ("max", Some(held.max)),
        ];
        for (stat, value) in whole {
            if let Some(value) = value {
                out.gauge(&[op, phase, window, stat], seconds(value));
            }
        }
        out.gauge(&[op, phase, window, "mean"], held.mean / 1e9);
        out.gauge(&[op, phase, window, "stddev"], held.stddev / 1e9);
    });
}

pub(super) fn window_samples(target: &TargetView, now: Tick, out: Out<'_, '_, '_>) {
    each_window(target, now, |labels, held| out.count(&labels, held.count.into()));
}

fn each_window(target: &TargetView, now: Tick, mut write: impl FnMut([&'static str; 3], &Summary)) {
    for series in &target.series {
        for (at, (window, _)) in WINDOWS.iter().enumerate() {
            if let Some(held) = series.window(at, now) {
                write([series.timed.label(), series.phase.label(), window], held);
            }
        }
    }
}

pub(super) fn burst(target: &TargetView, now: Tick, out: Out<'_, '_, '_>) {
    if let Some(burst) = target.burst(now) {
        out.gauge(&[&burst.block_size.to_string(), &burst.depth.to_string()], burst.iops);
    }
}

pub(super) fn inflight(target: &TargetView, now: Tick, out: Out<'_, '_, '_>) {
    for op in happening(target) {
        out.gauge(&[op.label()], target.inflight().age(op, now).as_secs_f64());
    }
}

/// The operations that the target's probes ever do.
fn happening(target: &TargetView) -> impl Iterator<Item = Op> {
    let (reads, commits) = (target.probe(Probe::Read).is_some(), target.probe(Probe::Commit).is_some());
    let syncs = commits && target.plan.sync_apart;
    Op::ALL.into_iter().filter(move |op| match op {
        Op::Read => reads,
        Op::Write => commits,
        Op::Sync => syncs,
        Op::Open | Op::Layout => true,
    })
}

pub(super) fn stall_threshold(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for op in happening(target) {
        out.gauge(&[op.label()], target.thresholds.of(op).as_secs_f64());
    }
}

pub(super) fn timeouts(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.probes.iter().for_each(|p| out.count(&[p.probe.label()], p.timeouts));
}

pub(super) fn stall_seconds(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.probes.iter().for_each(|p| out.gauge(&[p.probe.label()], p.stalled_for.as_secs_f64()));
}

pub(super) fn corrected(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.probes.iter().for_each(|p| out.histogram(&[p.probe.label()], &p.corrected));
}

pub(super) fn up(target: &TargetView, now: Tick, out: Out<'_, '_, '_>) {
    if let Some(up) = target.up(now) {
        out.truth(&[], up);
    }
}

pub(super) fn state(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    if let Some(is) = target.state {
        State::ALL.iter().for_each(|state| out.truth(&[state.label()], *state == is));
    }
}

pub(super) fn layout(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    if let Some(ratio) = target.layout_ratio() {
        out.gauge(&[], ratio);
    }
}

pub(super) fn info(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    let facts = &target.facts;
    let engine = facts.engine.as_ref().map_or("", |engine| engine.kind.label());
    let what = [&target.plan.path, &facts.device, &facts.fstype, &facts.model, &facts.serial, &facts.by_id];
    let [path, device, fstype, model, serial, by_id] = what.map(String::as_str);
    let (volume_id, diskseq, direct) = (&facts.volume_id, &facts.diskseq, &facts.direct);
    out.count(&[path, device, fstype, model, serial, by_id, volume_id, diskseq, engine, direct], 1);
}

pub(super) fn engine(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    if let Some(engine) = &target.facts.engine {
        out.count(&[engine.kind.label(), &engine.reason], 1);
    }
}

pub(super) fn devices(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for leaf in &target.facts.leaves {
        out.count(&[&target.facts.device, leaf], 1);
    }
}

pub(super) fn settings(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for settings in &target.facts.settings {
        let DeviceSettings {
            device,
            scheduler,
            nr_requests,
            write_cache,
            fua,
            rotational,
            io_timeout,
            mount_options,
        } = settings;
        let values =
            [device, scheduler, nr_requests, write_cache, fua, rotational, io_timeout, mount_options];
        out.count(&values.map(String::as_str), 1);
    }
}

pub(super) fn device_changes(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    out.count(&[], target.device_changes);
}

pub(super) fn files_lost(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    out.count(&[], target.files_lost);
}

pub(super) fn paused(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    out.truth(&[], target.paused.is_some());
}

pub(super) fn runs(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        out.count(&[p.probe.label(), "ok"], p.good);
        out.count(&[p.probe.label(), "error"], p.bad);
    }
}

pub(super) fn errors(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        for (stage, errno, count) in &p.errors {
            let (name, number) = (errno.name(), errno.raw().to_string());
            // Two numbers without a name must not become one series twice.
            let name = if name == "E?" { number.as_str() } else { name };
            out.count(&[p.probe.label(), stage.label(), name], *count);
        }
    }
}

pub(super) fn missed(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.probes.iter().for_each(|p| out.count(&[p.probe.label()], p.missed));
}

pub(super) fn skipped(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        p.skipped.iter().for_each(|(reason, n)| out.count(&[p.probe.label(), reason], *n));
    }
}

pub(super) fn lateness(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.probes.iter().for_each(|p| out.histogram(&[p.probe.label()], &p.lateness));
}

pub(super) fn invalid(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        p.invalid.iter().for_each(|(reason, n)| out.count(&[p.probe.label(), reason.label()], *n));
    }
}

pub(super) fn faults(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        for check in p.checks.iter().filter(|check| check.verdict != Verdict::Unknown) {
            out.truth(&[p.probe.label(), check.fault.label()], check.verdict == Verdict::Holds);
        }
    }
}

pub(super) fn unknown_faults(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        for check in &p.checks {
            out.truth(&[p.probe.label(), check.fault.label()], check.verdict == Verdict::Unknown);
        }
    }
}

pub(super) fn last_success(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        if let Some(wall) = p.last_success {
            out.gauge(&[p.probe.label()], wall.as_secs_f64());
        }
    }
}

pub(super) fn interval(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.probes.iter().for_each(|p| out.gauge(&[p.probe.label()], p.interval.as_secs_f64()));
}

pub(super) fn operations(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        let Cost { reads, writes, syncs, .. } = p.cost;
        for (op, n) in [("read", reads), ("write", writes), ("sync", syncs)] {
            out.count(&[p.probe.label(), op], n);
        }
    }
    for Cost { reads, writes, syncs, .. } in target.sweeps.iter().map(|sweeps| sweeps.cost) {
        for (op, n) in [("read", reads), ("write", writes), ("sync", syncs)] {
            out.count(&[SWEEP, op], n);
        }
    }
}

pub(super) fn bytes(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    for p in &target.probes {
        let Cost { read_bytes, written_bytes, .. } = p.cost;
        for (op, n) in [("read", read_bytes), ("write", written_bytes)] {
            out.count(&[p.probe.label(), op], n);
        }
    }
    for Cost { read_bytes, written_bytes, .. } in target.sweeps.iter().map(|sweeps| sweeps.cost) {
        for (op, n) in [("read", read_bytes), ("write", written_bytes)] {
            out.count(&[SWEEP, op], n);
        }
    }
}

pub(super) fn retries(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.probes.iter().for_each(|p| out.count(&[p.probe.label()], p.retries));
}

pub(super) fn commit_writes(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.per_commit.iter().for_each(|cost| out.gauge(&[], cost.writes));
}

pub(super) fn commit_flushes(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.per_commit.iter().for_each(|cost| out.gauge(&[], cost.flushes));
}

pub(super) fn commit_bytes(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    target.per_commit.iter().for_each(|cost| out.gauge(&[], cost.bytes));
}

pub(super) fn budget(target: &TargetView, now: Tick, out: Out<'_, '_, '_>) {
    for (kind, level) in Kind::ALL.iter().zip(target.budget.iter().flatten()) {
        out.gauge(&[kind.label()], level.ratio(now));
    }
}

pub(super) fn lane_panics(target: &TargetView, _: Tick, out: Out<'_, '_, '_>) {
    out.count(&[], target.lane_panics);
}
