//! The reference of all metrics, as Markdown.

use std::fmt::Write;

use super::own::OWN;
use super::process::PROCESS;
use super::table::{Fill, METRICS};
use super::writer::PREFIX;
use crate::record::WINDOWS;
use crate::stats::{LATENCY_BOUNDS, LATENESS_BOUNDS, Windows, seconds, write_le};

/// `docs/metrics.md`, made from the table. Writing to a string cannot fail, so results are let go.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for metric in METRICS {
        let common: &[&str] = if matches!(metric.fill, Fill::Target(_)) { &["target"] } else { &[] };
        let labels: Vec<String> = common.iter().chain(metric.labels).map(|l| format!("`{l}`")).collect();
        let (name, kind, unit, help) = (metric.name, metric.kind.label(), metric.unit, metric.help);
        let _ = writeln!(out, "| `{PREFIX}{name}` | {kind} | {unit} | {} | {help} |", labels.join(" "));
    }
    out.push_str("\n## About the daemon itself\n\n| name | kind | meaning |\n|---|---|---|\n");
    for (name, kind, help) in OWN {
        let _ = writeln!(out, "| `{name}` | {kind} | {help} |");
    }
    for (name, kind, help, _) in PROCESS {
        let kind = if *kind == prometheus::proto::MetricType::COUNTER { "counter" } else { "gauge" };
        let _ = writeln!(out, "| `{name}` | {kind} | {help} |");
    }
    let _ = writeln!(out, "\n## Buckets\n");
    let _ = writeln!(out, "Latencies: {}, `+Inf`.\n", bounds(LATENCY_BOUNDS));
    let _ = writeln!(out, "Lateness: {}, `+Inf`.\n", bounds(LATENESS_BOUNDS));
    out.push_str(BUCKETS);
    let windows: Vec<String> = WINDOWS.iter().map(|(label, _)| format!("`{label}`")).collect();
    let _ = writeln!(out, "## Windows\n\nThe windows are {}. {WINDOW_NOTES}", windows.join(", "));
    let _ = writeln!(out, "A window holds at most {} samples; {CAP_NOTES}", Windows::MOST);
    out
}

fn bounds(bounds: &[u64]) -> String {
    let text = |bound: &u64| {
        let mut text = String::from("`");
        write_le(seconds(*bound), &mut text);
        text + "`"
    };
    bounds.iter().map(text).collect::<Vec<_>>().join(" ")
}

const INTRODUCTION: &str = "\
# Metrics

Made from the metric table by `BLESS=1 cargo test --test references`; do not edit.

All numbers come from the daemon's own timers: a scrape never touches a disk, it reads what is known. Ages are computed at the
moment of the scrape. Every series of a target carries `target` and the labels that its config gives. Counters and
histograms never go down while the daemon runs and its target stays; a series that has nothing to say is absent, never NaN
and never a made-up 0.

| name | kind | unit | labels | meaning |
|---|---|---|---|---|
";

const BUCKETS: &str = "\
Samples are counted from the raw nanoseconds when they are recorded, and a sample that equals a bound lies within it. The bounds are densest between
50 µs and 100 ms, where a step is at most 1.67-fold, because a quantile that Prometheus computes is as wrong as a bucket is wide. An alert on the share of
operations below 0.5, 1, 2, 5, 10, 20, 50 or 100 ms is exact: these are bounds.

";

const WINDOW_NOTES: &str = "\
Their numbers are exact: they are computed from the samples, not from buckets. Quantiles follow the
nearest-rank convention: the q-quantile of n sorted samples is sample ⌈q × n⌉, so it is always a sample that was seen. `p99` is there from
100 samples on and `p999` from 1000: below, they would be the maximum under another name. `stddev` divides by n. An empty window
has no series. Never average quantiles over targets; use the histograms for that.
";

const CAP_NOTES: &str = "\
where an interval is so short that more come, the oldest are dropped and the window
reaches back as far as its samples do (`window_samples` shows it).";
