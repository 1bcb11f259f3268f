//! Where the metrics of the devices and of the machine get their samples.

use super::writer::Samples;
use crate::device::{DiskView, Pressure};
use crate::record::Snapshot;
use crate::stats::seconds;
use crate::target::Done;

type Out<'a, 'w, 's> = &'a mut Samples<'w, 's>;

/// The kinds of operation that the kernel counts there, by their label.
fn kinds(disk: &DiskView) -> impl Iterator<Item = (&'static str, Done)> {
    let done = &disk.done;
    [
        ("read", Some(done.reads)),
        ("write", Some(done.writes)),
        ("flush", done.flushes),
        ("discard", done.discards),
    ]
    .into_iter()
    .filter_map(|(op, done)| Some((op, done?)))
}

fn each_kind(snapshot: &Snapshot, mut write: impl FnMut([&str; 2], &Done)) {
    for disk in &snapshot.context.disks {
        kinds(disk).for_each(|(op, done)| write([&disk.name, op], &done));
    }
}

pub(super) fn operations(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    each_kind(snapshot, |labels, done| out.count(&labels, done.operations));
}

pub(super) fn bytes(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    // A flush moves none.
    each_kind(snapshot, |labels, done| {
        if labels[1] != "flush" {
            out.count(&labels, done.bytes);
        }
    });
}

pub(super) fn wait(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    each_kind(snapshot, |labels, done| out.gauge(&labels, seconds(done.wait_nanos)));
}

pub(super) fn busy(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    for disk in &snapshot.context.disks {
        out.gauge(&[&disk.name], seconds(disk.done.busy_nanos));
    }
}

pub(super) fn weighted(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    for disk in &snapshot.context.disks {
        out.gauge(&[&disk.name], seconds(disk.done.weighted_nanos));
    }
}

pub(super) fn peak_operations(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    for disk in &snapshot.context.disks {
        disk.peak_operations.iter().for_each(|peak| out.gauge(&[&disk.name], *peak));
    }
}

pub(super) fn peak_bytes(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    for disk in &snapshot.context.disks {
        disk.peak_bytes.iter().for_each(|peak| out.gauge(&[&disk.name], *peak));
    }
}

pub(super) fn iowait(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    snapshot.context.host.iowait.iter().for_each(|share| out.gauge(&[], *share));
}

pub(super) fn steal(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    snapshot.context.host.steal.iter().for_each(|share| out.gauge(&[], *share));
}

pub(super) fn io_pressure(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    pressure(&snapshot.context.host.io, out);
}

pub(super) fn cpu_pressure(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    // The whole machine never waits for a CPU: the kernel says 0 there, or nothing.
    pressure(&Pressure { full: None, ..snapshot.context.host.cpu }, out);
}

pub(super) fn memory_pressure(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    pressure(&snapshot.context.host.memory, out);
}

fn pressure(on: &Pressure, out: Out<'_, '_, '_>) {
    for (kind, share) in [("some", on.some), ("full", on.full)] {
        share.iter().for_each(|share| out.gauge(&[kind], *share));
    }
}

pub(super) fn paged_out(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    snapshot.context.host.paged_out.iter().for_each(|rate| out.gauge(&[], *rate));
}

pub(super) fn age(snapshot: &Snapshot, out: Out<'_, '_, '_>) {
    snapshot.context.age(snapshot.taken).iter().for_each(|age| out.gauge(&[], *age));
}
