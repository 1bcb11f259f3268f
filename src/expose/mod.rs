//! Snapshots as Prometheus text (format 0.0.4), written straight from one table of metrics.
//!
//! The scrape path touches no disk and takes no lock: it reads a snapshot, and of the lanes only the atomics that
//! tell since when an operation is out.

mod context;
mod fill;
mod own;
mod process;
mod reference;
mod sweep;
mod table;
mod writer;

pub use own::OwnCounters;
pub use process::{append, process};
pub use reference::reference;

use crate::clock::Tick;
use crate::record::{Snapshot, TargetView};
use table::{Fill, METRICS};
use writer::Writer;

/// Bytes to expect of a target, so that the text seldom has to move while it grows.
const BYTES_PER_TARGET: usize = 80 << 10;

/// Appends everything that the snapshot holds, ages as of `now`. Families without samples are left out.
pub fn text(snapshot: &Snapshot, now: Tick, out: &mut String) {
    out.reserve(snapshot.targets.len() * BYTES_PER_TARGET + 4096);
    let common: Vec<String> = snapshot.targets.iter().map(|target| common_labels(target)).collect();
    let mut writer = Writer::new(out);
    for metric in METRICS {
        let mut samples = writer.metric(metric);
        match metric.fill {
            Fill::Daemon(fill) => fill(snapshot, &mut samples),
            Fill::Target(fill) => {
                for (target, common) in snapshot.targets.iter().zip(&common) {
                    samples.with_common(common);
                    fill(target, now, &mut samples);
                }
            }
        }
    }
}

/// How many time series a scrape of the snapshot would bring.
pub fn series(snapshot: &Snapshot, now: Tick) -> usize {
    let mut scrape = String::new();
    text(snapshot, now, &mut scrape);
    scrape.lines().filter(|line| !line.starts_with('#')).count()
}

/// The label names that a user's own label may not take: those of the table, and those that Prometheus or the
/// format give a meaning. Names that begin with `__` are Prometheus's own too.
pub fn reserved_labels() -> Vec<&'static str> {
    let others = ["le", "quantile", "job", "instance", "target"];
    let mut names: Vec<&str> =
        METRICS.iter().flat_map(|metric| metric.labels.iter().copied()).chain(others).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn common_labels(target: &TargetView) -> String {
    let mut text = String::new();
    let own = target.plan.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    writer::labels([("target", target.plan.name.as_str())].into_iter().chain(own), &mut text);
    text
}

#[cfg(test)]
mod tests;
