//! The table of all metrics: a metric is one row here, filled by one function in `fill`.

use super::context;
use super::writer::Samples;
use super::{fill, sweep};
use crate::clock::Tick;
use crate::record::{Snapshot, TargetView};

/// A metric's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric.
pub(super) struct Metric {
    /// Without the prefix, with unit and `_total`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The base unit, empty for numbers of things.
    pub(super) unit: &'static str,
    /// One line, without backslashes.
    pub(super) help: &'static str,
    /// Its own labels, in the order in which `fill` gives their values.
    pub(super) labels: &'static [&'static str],
    pub(super) fill: Fill,
}

/// Writes a metric's samples.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    /// Once.
    Daemon(fn(&Snapshot, &mut Samples<'_, '_>)),
    /// Once for each target, whose labels come by themselves.
    Target(fn(&TargetView, Tick, &mut Samples<'_, '_>)),
}

/// The labels that tell a sweep's cell from all others, and then some.
macro_rules! cell {
    ($($more:literal),*) => {
        &["pattern", "block_size", "depth", "jobs", "method" $(, $more)*]
    };
}

const LADDER: &[&str] = &["pattern", "block_size", "method"];

type FillTarget = fn(&TargetView, Tick, &mut Samples<'_, '_>);

const fn row(
    (kind, name, unit): (Kind, &'static str, &'static str),
    labels: &'static [&'static str],
    fill: FillTarget,
    help: &'static str,
) -> Metric {
    Metric { name, kind, unit, help, labels, fill: Fill::Target(fill) }
}

/// A metric of the machine or its devices, without the labels of a target.
const fn apart(
    (kind, name, unit): (Kind, &'static str, &'static str),
    labels: &'static [&'static str],
    fill: fn(&Snapshot, &mut Samples<'_, '_>),
    help: &'static str,
) -> Metric {
    Metric { name, kind, unit, help, labels, fill: Fill::Daemon(fill) }
}

const fn counter(name: &'static str, unit: &'static str) -> (Kind, &'static str, &'static str) {
    (Kind::Counter, name, unit)
}

const fn gauge(name: &'static str, unit: &'static str) -> (Kind, &'static str, &'static str) {
    (Kind::Gauge, name, unit)
}

const fn histogram(name: &'static str) -> (Kind, &'static str, &'static str) {
    (Kind::Histogram, name, "seconds")
}

#[rustfmt::skip]
pub(super) static METRICS: &[Metric] = &[
    row(histogram("commit_duration_seconds"), &["profile", "phase"], fill::commit,
        "Time of a commit, write and sync together. first: submitted before its run's first completion; warm: all others."),
    row(histogram("write_duration_seconds"), &["profile", "phase"], fill::write,
        "Time of a commit's write call."),
    row(histogram("sync_duration_seconds"), &["profile", "phase"], fill::sync,
        "Time of a commit's fsync or fdatasync call; absent where the write itself is durable."),
    row(histogram("read_duration_seconds"), &["phase"], fill::read,
        "Time of a random read at depth 1, from before submit to after reap."),
    row(gauge("window_latency_seconds", "seconds"), &["op", "phase", "window", "stat"], fill::window_latency,
        "Exact latency over a sliding window; absent when empty, p99 from 100 samples on, p999 from 1000 on."),
    row(gauge("window_samples", ""), &["op", "phase", "window"], fill::window_samples,
        "Samples in the sliding window."),
    row(gauge("read_burst_iops", "operations per second"), &["block_size", "depth"], fill::burst,
        "Reads per second of the last burst at depth; absent when it is older than three intervals."),
    row(gauge("inflight_age_seconds", "seconds"), &["op"], fill::inflight,
        "Age of the oldest unfinished operation at the moment of the scrape, 0 when there is none. The alarm for a disk that hangs."),
    row(gauge("stall_threshold_seconds", "seconds"), &["op"], fill::stall_threshold,
        "Age from which an operation counts as stalled, unless configured: five times its own p99.9 of the last hour, from 1 s to 10 s; 10 s for \
         open, 60 s for a slice of a layout."),
    row(counter("probe_timeouts_total", ""), &["probe"], fill::timeouts,
        "Operations that were out for longer than the threshold, counted while they are out."),
    row(counter("stall_seconds_total", "seconds"), &["probe"], fill::stall_seconds,
        "How long operations were out beyond the threshold, counted while they are out."),
    row(histogram("corrected_duration_seconds"), &["op"], fill::corrected,
        "Latency as a client would see it who does the probe's operations evenly spread and waits for none: a stall counts as often as he asks."),
    row(gauge("target_up", ""), &[], fill::up,
        "1 when the last run of each probe was good and nothing is stalled; a probe that is off, paused, laying out or short of room counts as good."),
    row(gauge("target_state", ""), &["state"], fill::state,
        "1 for the state that the target is in, 0 for all others."),
    row(gauge("layout_progress_ratio", "ratio"), &[], fill::layout,
        "Written part of the target's probe files."),
    row(gauge("target_info", ""), &["path", "device", "fstype", "model", "serial", "by_id", "volume_id", "diskseq", "engine", "direct"],
        fill::info, "What the target is, always 1; what is not known is empty. volume_id: what a cloud's console calls the disk. direct: \
         whether reads bypass the kernel's cache."),
    row(gauge("target_engine_info", ""), &["engine", "reason"], fill::engine,
        "The I/O engine in use and why this one, always 1; the reason is empty for the first choice."),
    row(gauge("target_device_info", ""), &["device", "leaf"], fill::devices,
        "The target's device and a disk below it, always 1; joins targets with the kernel's disk statistics."),
    row(gauge("device_setting_info", ""),
        &["device", "scheduler", "nr_requests", "write_cache", "fua", "rotational", "io_timeout", "mount_options"],
        fill::settings, "Settings of the target's devices as the kernel tells them, always 1. They are never changed."),
    row(counter("target_device_changes_total", ""), &[], fill::device_changes,
        "Times that another disk was found under this name; windows began anew."),
    row(counter("probe_files_lost_total", ""), &[], fill::files_lost,
        "Times that the probe files of before, also of before a restart, were gone or others in their place: a new, wiped or restored disk."),
    row(gauge("target_paused", ""), &[], fill::paused,
        "1 while nothing is done with the target because somebody paused it; it ends by itself."),
    row(counter("probe_runs_total", ""), &["probe", "result"], fill::runs,
        "Runs that came back, good (ok) or not (error)."),
    row(counter("probe_errors_total", ""), &["probe", "stage", "errno"], fill::errors,
        "Failures by the step that failed and what the kernel said."),
    row(counter("probe_missed_total", ""), &["probe"], fill::missed,
        "Slots that passed unused because the run before was not back. They are not caught up on."),
    row(counter("probe_skipped_total", ""), &["probe", "reason"], fill::skipped,
        "Slots not used on purpose, by reason."),
    row(histogram("probe_lateness_seconds"), &["probe"], fill::lateness,
        "Start of a run after its planned instant."),
    row(counter("samples_invalid_total", ""), &["probe", "reason"], fill::invalid,
        "Operations that are in no histogram because they do not tell about the disk, or because they failed."),
    row(gauge("measurement_fault", ""), &["probe", "fault"], fill::faults,
        "1 when a truth check holds: the numbers look right and are not. 0 when fine, absent when unknown."),
    row(gauge("measurement_fault_unknown", ""), &["probe", "fault"], fill::unknown_faults,
        "1 when a truth check was made and cannot tell here, 0 when it can."),
    row(gauge("probe_last_success_timestamp_seconds", "seconds"), &["probe"], fill::last_success,
        "End of the last good run, seconds since 1970; stale when older than three intervals."),
    row(gauge("probe_interval_seconds", "seconds"), &["probe"], fill::interval,
        "Configured time from one run to the next."),
    row(counter("probe_operations_total", ""), &["probe", "op"], fill::operations,
        "Operations issued on the probe's file, failed ones too: runs, layout, looks at its head, truth checks. What the probe costs."),
    row(counter("probe_bytes_total", "bytes"), &["probe", "op"], fill::bytes,
        "Bytes that these operations moved."),
    row(counter("probe_retries_total", ""), &["probe"], fill::retries,
        "Answers of EAGAIN; the operation was submitted again with its first start time."),
    row(gauge("commit_device_writes", ""), &[], fill::commit_writes,
        "Write requests that one commit causes at the device, measured there. The kernel counts an empty flush as one; another's writes count too."),
    row(gauge("commit_device_flushes", ""), &[], fill::commit_flushes,
        "Flush requests that one commit causes at the device, measured there."),
    row(gauge("commit_device_bytes", "bytes"), &[], fill::commit_bytes,
        "Bytes that one commit writes at the device, measured there."),
    row(gauge("budget_remaining_ratio", "ratio"), &["kind"], fill::budget,
        "What is left in the disk's bucket of this budget, which holds half an hour's share and refills all the time; at 0 runs are skipped."),
    row(gauge("sweep_iops", "operations per second"), cell!["op"], sweep::iops,
        "Operations per second of each stream of a cell, of the last complete sweep; while there is none, of the last that was stopped. method: \
         what makes commits durable; only on cells that commit."),
    row(gauge("sweep_bytes_per_second", "bytes per second"), cell!["op"], sweep::bytes_per_second,
        "Bytes per second of each stream of a cell."),
    row(gauge("sweep_latency_seconds", "seconds"), cell!["op", "stat"], sweep::latency,
        "Time of an operation in a cell, from before submit to after reap; p99 from 100 operations on."),
    row(gauge("sweep_achieved_depth", ""), cell![], sweep::achieved_depth,
        "Operations that were outstanding in a cell on average."),
    row(gauge("sweep_cell_info", ""), cell!["regime"], sweep::cell_info,
        "Under which regime of a disk with burst credits a cell was run, always 1; unknown where nothing tells."),
    row(gauge("sweep_loaded_ratio", "ratio"), &["pattern", "depth", "jobs", "method", "op", "stat"], sweep::loaded_ratio,
        "Latency under a cell's load divided by the quiet value just before it."),
    row(gauge("sweep_peak_iops", "operations per second"), LADDER, sweep::peak_iops,
        "The most operations per second over all depths; of a loaded pattern, of its first stream. Like the others over all depths, without \
         cells whose sweep_fault says that it was not the disk which answered."),
    row(gauge("sweep_peak_bytes_per_second", "bytes per second"), LADDER, sweep::peak_bytes,
        "The most bytes per second over all depths."),
    row(gauge("sweep_knee_depth", ""), LADDER, sweep::knee,
        "The least number outstanding that brings 95 % of the most operations per second: more only makes latency longer."),
    row(gauge("sweep_decline_ratio", "ratio"), LADDER, sweep::decline,
        "By how much operations per second fell from beginning to end of a cell, as a part of the beginning; absent where every cell ran for less than 30 s, which is too short to tell."),
    row(gauge("sweep_fault", ""), &["pattern", "block_size", "depth", "fault"], sweep::faults,
        "1 for each reason not to believe a cell; absent where there is none."),
    row(gauge("sweep_results_partial", ""), &[], sweep::partial,
        "1 while the results shown are those of a sweep that was stopped, since no complete one is known; else 0."),
    row(gauge("sweep_running", ""), &[], sweep::running,
        "1 while a sweep is under way; the latency probes on its disks pause meanwhile (reason sweep)."),
    row(gauge("sweep_next_timestamp_seconds", "seconds"), &[], sweep::next,
        "When the next sweep is planned, seconds since 1970; in the past while its slot is open and it may not begin."),
    row(gauge("sweep_waiting", ""), &["reason"], sweep::waiting,
        "1 while a sweep is due and may not begin, and why; absent otherwise."),
    row(gauge("sweep_last_start_timestamp_seconds", "seconds"), &[], sweep::last_begin,
        "When the last sweep since the daemon's start began, seconds since 1970."),
    row(gauge("sweep_last_end_timestamp_seconds", "seconds"), &[], sweep::last_end,
        "When it ended, however; absent while it is under way."),
    row(gauge("sweep_last_completion_timestamp_seconds", "seconds"), &[], sweep::last_completion,
        "When the last complete sweep ended, also of before a restart, seconds since 1970."),
    row(counter("sweeps_total", ""), &["result"], sweep::endings,
        "Sweeps by how they ended: complete, or stopped: others needed the disk (guard), the budget was spent, somebody asked (interrupt), the disk \
         failed (error) or did not answer (stalled)."),
    row(counter("sweep_skipped_total", ""), &["reason"], sweep::skipped,
        "Planned sweeps that never began, by what spoke against them the last time they were offered."),
    row(gauge("sweep_budget_remaining_ratio", "ratio"), &["kind"], sweep::budget,
        "What is left of the bytes that sweeps may write and read at the disk in 24 hours."),
    row(counter("lane_panics_total", ""), &[], fill::lane_panics,
        "Panics caught at the edge of one of the target's lanes. Each is a bug of ours."),
    apart(counter("device_operations_total", ""), &["device", "op"], context::operations,
        "All operations that ended on a target's device or a disk below it, whoever issued them, as the kernel counts them. An empty flush is a \
         write too, a flush with a write's data is not; requests that were merged are one."),
    apart(counter("device_bytes_total", "bytes"), &["device", "op"], context::bytes,
        "Bytes of these operations."),
    apart(counter("device_wait_seconds_total", "seconds"), &["device", "op"], context::wait,
        "Time of these operations from when the kernel had them to their end, added up as they end. Divided by the operations it is their mean latency."),
    apart(counter("device_busy_seconds_total", "seconds"), &["device"], context::busy,
        "Time with at least one operation out. For a device that works on many at once this is not how full it is."),
    apart(counter("device_weighted_seconds_total", "seconds"), &["device"], context::weighted,
        "Time of all operations, added up as they end: its rate is the mean number that are out."),
    apart(gauge("device_peak_operations_per_second", "operations per second"), &["device"], context::peak_operations,
        "Reads and writes in the busiest second of the last minute."),
    apart(gauge("device_peak_bytes_per_second", "bytes per second"), &["device"], context::peak_bytes,
        "Bytes read and written in the busiest second of the last minute."),
    apart(gauge("host_cpu_iowait_ratio", "ratio"), &[], context::iowait,
        "Share of all CPUs' time that was idle while I/O was waited for, over the last 10 s."),
    apart(gauge("host_cpu_steal_ratio", "ratio"), &[], context::steal,
        "Share of all CPUs' time that the hypervisor gave to others, over the last 10 s."),
    apart(gauge("host_io_pressure_ratio", "ratio"), &["kind"], context::io_pressure,
        "Share of the last 10 s in which some task, or all tasks with something to do (full), waited for I/O."),
    apart(gauge("host_cpu_pressure_ratio", "ratio"), &["kind"], context::cpu_pressure,
        "Share of the last 10 s in which some task waited for a CPU."),
    apart(gauge("host_memory_pressure_ratio", "ratio"), &["kind"], context::memory_pressure,
        "Share of the last 10 s in which some task, or all tasks with something to do (full), waited for memory."),
    apart(gauge("host_paged_out_bytes_per_second", "bytes per second"), &[], context::paged_out,
        "What the whole machine wrote to block devices, over the last 10 s."),
    apart(gauge("host_sample_age_seconds", "seconds"), &[], context::age,
        "Age of all device_ and host_ samples: a second at most, unless the kernel kept the sampler waiting."),
    Metric {
        name: "build_info",
        kind: Kind::Gauge,
        unit: "",
        help: "The daemon's version, always 1.",
        labels: &["version"],
        fill: Fill::Daemon(fill::build),
    },
];
