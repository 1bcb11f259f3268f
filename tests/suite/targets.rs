//! Targets as these tests want them, and what a daemon says of them.

use crate::lab::{self, Metrics, Running};
use std::path::Path;
use std::time::Duration;

/// Room for the smallest probe files: the read file takes at most 5 % of what is free.
pub(super) const ROOM: u64 = 2 << 30;

/// The smallest files, in a hurry.
pub(super) const BOTH: &str =
    "commit: {interval: 200ms, file_size: 4MiB}, read: {interval: 300ms, file_size: 64MiB}";
/// Commits alone.
pub(super) const COMMITS: &str = "commit: {interval: 200ms, file_size: 4MiB}, read: {enabled: false}";
/// Reads alone.
pub(super) const READS: &str = "commit: {enabled: false}, read: {interval: 300ms, file_size: 64MiB}";

/// A config: name, path, and the rest of the target's keys.
pub(super) fn config(targets: &[(&str, &Path, &str)]) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let line = |(name, path, keys): &(&str, &Path, &str)| {
        format!("  - {{name: {}, path: {}, {keys}}}\n", quoted(name), quoted(path.to_str().unwrap()))
    };
    format!("targets:\n{}", targets.iter().map(line).collect::<String>())
}

/// The state that a target is in.
pub(super) fn state(metrics: &Metrics, target: &str) -> Option<String> {
    let all = metrics.all("diskcanary_target_state", &[("target", target)]);
    let on: Vec<_> = all.iter().filter(|sample| sample.value == 1.0).collect();
    assert!(on.len() < 2, "{target} is in several states: {on:?}");
    on.first().map(|sample| sample.labels["state"].clone())
}

/// Waits until the target is in this state; panics with the log.
pub(super) fn await_state(daemon: &Running, target: &str, wanted: &str) {
    await_that(daemon, &format!("{target} is {wanted}"), |m| state(m, target).as_deref() == Some(wanted));
}

/// Waits until so many more good runs of a probe were made.
pub(super) fn await_runs(daemon: &Running, target: &str, probe: &str, more: f64) {
    let before = runs(&daemon.scrape(), target, probe);
    await_that(daemon, &format!("{more} more runs of {probe} on {target}"), |m| {
        runs(m, target, probe) >= before + more
    });
}

/// Waits until a scrape is as it should be; panics with the log and what differs from a quiet target.
pub(super) fn await_that(daemon: &Running, what: &str, mut holds: impl FnMut(&Metrics) -> bool) {
    let log = std::panic::AssertUnwindSafe(|| daemon.stderr());
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lab::eventually_within(Duration::from_secs(90), what, || holds(&daemon.scrape()));
    }));
    assert!(waited.is_ok(), "never: {what}\n{}", log());
}

/// Good runs of a probe so far.
pub(super) fn runs(metrics: &Metrics, target: &str, probe: &str) -> f64 {
    let labels = [("target", target), ("probe", probe), ("result", "ok")];
    metrics.sum("diskcanary_probe_runs_total", &labels)
}

/// Slots not used for this reason.
pub(super) fn skipped(metrics: &Metrics, target: &str, probe: &str, reason: &str) -> f64 {
    let labels = [("target", target), ("probe", probe), ("reason", reason)];
    metrics.sum("diskcanary_probe_skipped_total", &labels)
}

/// Failures that the kernel named so.
pub(super) fn errors(metrics: &Metrics, target: &str, errno: &str) -> f64 {
    metrics.sum("diskcanary_probe_errors_total", &[("target", target), ("errno", errno)])
}

/// A truth check's verdict: `holds`, `fine`, `unknown`, or `unasked` when it was not made.
pub(super) fn verdict(metrics: &Metrics, target: &str, probe: &str, fault: &str) -> &'static str {
    let labels = [("target", target), ("probe", probe), ("fault", fault)];
    match (
        metrics.value("diskcanary_measurement_fault", &labels),
        metrics.value("diskcanary_measurement_fault_unknown", &labels),
    ) {
        (Some(1.0), _) => "holds",
        (Some(_), _) => "fine",
        (None, Some(1.0)) => "unknown",
        (None, _) => "unasked",
    }
}

/// The one line of the log that says why a target is in a state.
pub(super) fn reason(daemon: &Running, target: &str, state: &str) -> String {
    let log = daemon.stderr();
    let wanted = format!("msg=target name={target} state={state} ");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&wanted)).collect();
    assert_eq!(lines.len(), 1, "{wanted}: {log}");
    lines[0].to_owned()
}

/// Whether nothing went wrong inside the daemon itself.
pub(super) fn assert_sound(daemon: &Running) {
    let log = daemon.stderr();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(daemon.scrape().sum("diskcanary_lane_panics_total", &[]), 0.0, "{log}");
}
