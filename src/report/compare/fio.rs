//! fio's JSON as one side of a comparison: a job is a cell of ours when it does the same.
//!
//! Several entries of one name are threads of one job (`numjobs` without `group_reporting`) and are taken together.

mod options;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Disk, Ground, Key, Side, Stream, conditions};
use crate::probe::sweep::Operation;
use crate::stats::Histogram;
use crate::stats::compare::{Quantiles, Run};
use crate::sys::Errno;
use crate::units::Bytes;
use options::Options;
#[cfg(test)]
pub(super) use options::size;

/// Counts of a bin above this are no real ones.
const MOST: u64 = 1 << 48;

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, Value>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, Value>,
    #[serde(default)]
    read: Direction,
    #[serde(default)]
    write: Direction,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Direction {
    total_ios: u64,
    iops: f64,
    /// Milliseconds.
    runtime: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: u64,
    lat_ns: Latency,
    clat_ns: Latency,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Latency {
    min: u64,
    max: u64,
    percentile: BTreeMap<String, u64>,
    bins: BTreeMap<String, u64>,
}

/// Reads it; the error is a sentence without the file's name.
pub(super) fn side(file: &str, value: &Value) -> Result<Side, String> {
    let output = Output::deserialize(value)
        .map_err(|fault| format!("this is not fio's JSON as we know it: {fault}"))?;
    if output.jobs.is_empty() {
        return Err("fio ran no job".to_owned());
    }
    if let Some(job) = output.jobs.iter().find(|job| job.error != 0) {
        let why = Errno::from_raw(i32::try_from(job.error).unwrap_or(0));
        return Err(format!(
            "job `{}` of fio failed ({why}): what it measured is not whole; run it again",
            job.jobname
        ));
    }
    let mut grouped: Vec<(Options, Vec<&Job>)> = Vec::new();
    for job in &output.jobs {
        let options = Options::of(&output.global, job)?;
        match grouped.iter_mut().find(|(_, jobs)| jobs[0].jobname == job.jobname) {
            Some((_, jobs)) => jobs.push(job),
            None => grouped.push((options, vec![job])),
        }
    }
    let (mut streams, mut notes) = (BTreeMap::new(), Vec::new());
    for (options, jobs) in &grouped {
        streams_of(options, jobs, &mut streams, &mut notes)?;
    }
    notes.dedup();
    Ok(Side {
        file: file.to_owned(),
        ground: Ground::Unknown,
        disk: Disk::default(),
        facts: facts(&grouped),
        notes,
        streams,
    })
}

/// What should be alike on both sides, as far as fio says it.
fn facts(jobs: &[(Options, Vec<&Job>)]) -> BTreeMap<String, String> {
    let options = || jobs.iter().map(|(options, _)| options);
    let directions = || jobs.iter().flat_map(|(_, jobs)| jobs).flat_map(|job| [&job.read, &job.write]);
    let seconds = directions().filter(|d| d.total_ios > 0).map(|d| d.runtime as f64 / 1e3);
    let all = [
        conditions::list("engine", options().map(|o| o.engine.clone())),
        conditions::list("direct I/O", options().map(|o| o.direct.to_string())),
        conditions::list("working set", options().filter_map(|o| Some(Bytes::new(o.size?).to_string()))),
        conditions::span("seconds a cell", seconds),
        conditions::span("seconds of warm-up", options().map(|o| o.ramp)),
    ];
    all.into_iter().flatten().collect()
}

fn streams_of(
    options: &Options,
    jobs: &[&Job],
    streams: &mut BTreeMap<Key, Stream>,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let name = &jobs[0].jobname;
    if options.sync_depth {
        notes.push(format!(
            "job `{name}` used the engine {}, which has one operation outstanding: its depth is 1",
            options.engine
        ));
    }
    for operation in [Operation::Read, Operation::Write] {
        let all: Vec<&Direction> = (jobs.iter())
            .map(|job| if operation == Operation::Read { &job.read } else { &job.write })
            .filter(|direction| direction.total_ios > 0)
            .collect();
        if all.is_empty() {
            continue;
        }
        let key = options.key(operation, u32::try_from(jobs.len()).unwrap_or(1));
        let (stream, told) = stream(&all, options.direct).ok_or_else(|| {
            format!("job `{name}` has no percentiles: run fio without `--clat_percentiles=0`, or with `--lat_percentiles=1`")
        })?;
        if told.averaged {
            notes.push(format!(
                "job `{name}` has {} entries with percentiles of their own, which have none together: its p50 is their mean, and its p99 \
                 is left out; run fio with `--group_reporting` or `--output-format=json+`",
                all.len()
            ));
        }
        if told.submit_hidden && !options.sync_depth {
            notes.push(format!(
                "job `{name}` has percentiles of `clat` only, which leaves out the submit call: run fio with `--lat_percentiles=1`"
            ));
        }
        if streams.insert(key.clone(), stream).is_some() {
            return Err(format!(
                "{} is in it twice, of which we cannot choose one",
                super::table::name(&key)
            ));
        }
    }
    Ok(())
}

/// What a stream does not tell by itself.
struct Told {
    /// Durations begin after the submit call only.
    submit_hidden: bool,
    /// Percentiles are means of those of several threads.
    averaged: bool,
}

/// Threads taken together.
fn stream(all: &[&Direction], direct: bool) -> Option<(Stream, Told)> {
    let whole = all.iter().all(|d| !d.lat_ns.percentile.is_empty());
    let latencies: Vec<(&Latency, u64)> =
        all.iter().map(|d| (if whole { &d.lat_ns } else { &d.clat_ns }, d.total_ios)).collect();
    let averaged = latencies.len() > 1 && latencies.iter().any(|(latency, _)| latency.bins.is_empty());
    let points = points(&latencies)?;
    let at =
        |wanted: f64| points.iter().find(|(share, _)| (share - wanted).abs() < 1e-9).map(|(_, nanos)| *nanos);
    let rate: f64 = all.iter().map(|d| d.iops).sum();
    let operations = all.iter().map(|d| d.total_ios).sum();
    // Threads differ each by itself, as far as is known.
    let scatter = all.iter().map(|d| d.iops_stddev.powi(2)).sum::<f64>().sqrt();
    let samples = all.iter().map(|d| d.iops_samples).min().unwrap_or(0);
    let known = all.iter().all(|d| d.iops_mean > 0.0);
    let (p50, p99) = (at(0.5), at(0.99).filter(|_| operations >= 100 && !averaged));
    let run = Run {
        operations,
        seconds: all.iter().map(|d| d.runtime).max().unwrap_or(0) as f64 / 1e3,
        rate,
        quantiles: Quantiles::of_points(points),
        rounds: Vec::new(),
        scatter: known.then(|| (scatter / rate.max(f64::MIN_POSITIVE), samples)),
    };
    let stream = Stream { run, p50, p99, faults: Vec::new(), doubts: Vec::new(), direct: Some(direct) };
    Some((stream, Told { submit_hidden: !whole, averaged }))
}

/// Shares and durations: from the bins of json+ where all have them, else from the percentiles, of several threads their means by
/// number of operations.
fn points(latencies: &[(&Latency, u64)]) -> Option<Vec<(f64, u64)>> {
    if latencies.iter().all(|(latency, _)| !latency.bins.is_empty()) {
        let mut histogram = Histogram::fine();
        for (nanos, count) in latencies.iter().flat_map(|(latency, _)| &latency.bins) {
            histogram.record_n(nanos.parse().ok()?, (*count).min(MOST));
        }
        let shares = (0..=1000).map(|step| f64::from(step) / 1000.0);
        return shares.map(|share| Some((share, histogram.quantile(share)?))).collect();
    }
    let total: u64 = latencies.iter().map(|(_, n)| n).sum();
    let (first, _) = latencies.first()?;
    let mut points = Vec::new();
    for percent in first.percentile.keys() {
        let mut sum = 0.0;
        for (latency, n) in latencies {
            sum += *latency.percentile.get(percent)? as f64 * *n as f64;
        }
        points.push((percent.parse::<f64>().ok()? / 100.0, (sum / total as f64) as u64));
    }
    let has = |wanted: f64| points.iter().any(|(share, _)| (share - wanted).abs() < 1e-9);
    if !has(0.5) {
        return None;
    }
    points.extend(latencies.iter().map(|(latency, _)| latency.min).min().map(|min| (0.0, min)));
    points.extend(latencies.iter().map(|(latency, _)| latency.max).max().map(|max| (1.0, max)));
    Some(points)
}
