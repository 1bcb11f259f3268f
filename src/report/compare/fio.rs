//! fio's JSON as one side of a comparison: a job is a cell of ours when it does the same.
//!
//! Several entries of one name are threads of one job (`numjobs` without `group_reporting`) and are taken together.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Ground, Key, Side, Stream};
use crate::probe::sweep::Operation;
use crate::stats::Histogram;
use crate::stats::compare::{Quantiles, Run};
use crate::sys::Errno;

/// Engines of fio that have no more than one operation outstanding, whatever `iodepth` says. The first is its default.
const ONE_AT_A_TIME: [&str; 6] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap"];
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
        disk: None,
        facts: BTreeMap::new(),
        notes,
        streams,
    })
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
        let (stream, submit_hidden) = stream(&all).ok_or_else(|| {
            format!("job `{name}` has no percentiles: run fio without `--clat_percentiles=0`, or with `--lat_percentiles=1`")
        })?;
        if submit_hidden && !options.sync_depth {
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

/// Threads taken together, and whether their durations begin after the submit call only.
fn stream(all: &[&Direction]) -> Option<(Stream, bool)> {
    let whole = all.iter().all(|d| !d.lat_ns.percentile.is_empty());
    let latencies: Vec<(&Latency, u64)> =
        all.iter().map(|d| (if whole { &d.lat_ns } else { &d.clat_ns }, d.total_ios)).collect();
    let points = points(&latencies)?;
    let at =
        |wanted: f64| points.iter().find(|(share, _)| (share - wanted).abs() < 1e-9).map(|(_, nanos)| *nanos);
    let rate: f64 = all.iter().map(|d| d.iops).sum();
    let operations = all.iter().map(|d| d.total_ios).sum();
    // Threads differ each by itself, as far as is known.
    let scatter = all.iter().map(|d| d.iops_stddev.powi(2)).sum::<f64>().sqrt();
    let samples = all.iter().map(|d| d.iops_samples).min().unwrap_or(0);
    let known = all.iter().all(|d| d.iops_mean > 0.0);
    let (p50, p99) = (at(0.5), at(0.99).filter(|_| operations >= 100));
    let run = Run {
        operations,
        seconds: all.iter().map(|d| d.runtime).max().unwrap_or(0) as f64 / 1e3,
        rate,
        quantiles: Quantiles::of_points(points),
        rounds: Vec::new(),
        scatter: known.then(|| (scatter / rate.max(f64::MIN_POSITIVE), samples)),
    };
    Some((Stream { run, p50, p99, faults: Vec::new(), doubts: Vec::new() }, !whole))
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

/// What a job was told to do.
struct Options {
    rw: String,
    mix: u32,
    sizes: [u64; 2],
    depth: u32,
    jobs: u32,
    grouped: bool,
    engine: String,
    sync_depth: bool,
    durable: String,
}

impl Options {
    fn of(global: &BTreeMap<String, Value>, job: &Job) -> Result<Self, String> {
        // Values are text; newer versions have numbers too.
        let get = |names: &[&str]| {
            let value = names.iter().find_map(|name| job.options.get(*name).or_else(|| global.get(*name)))?;
            Some(value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned()))
        };
        let name = &job.jobname;
        let number = |names: &[&str], default: u32| match get(names) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| format!("job `{name}`: `{}={text}` is no number", names[0]))
            }
        };
        let engine = get(&["ioengine"]).unwrap_or_else(|| ONE_AT_A_TIME[0].to_owned());
        let alone = ONE_AT_A_TIME.contains(&engine.as_str());
        let wished = number(&["iodepth"], 1)?;
        let rw = get(&["rw", "readwrite"]).unwrap_or_else(|| "read".to_owned());
        let size = get(&["bs", "blocksize"]).unwrap_or_else(|| "4k".to_owned());
        if get(&["bssplit", "bsrange", "blocksize_range"]).is_some() {
            return Err(format!("job `{name}` mixes block sizes, which no cell of ours does"));
        }
        Ok(Self {
            mix: match get(&["rwmixwrite"]) {
                Some(writes) => 100u32.saturating_sub(writes.parse().unwrap_or(50)),
                None => number(&["rwmixread"], 50)?,
            },
            sizes: sizes(&size).ok_or_else(|| format!("job `{name}`: `bs={size}` is no size"))?,
            depth: if alone { 1 } else { wished },
            jobs: number(&["numjobs"], 1)?,
            grouped: get(&["group_reporting"]).is_some_and(|v| v != "0"),
            sync_depth: alone && wished > 1,
            durable: ["fsync", "fdatasync", "sync", "end_fsync"]
                .into_iter()
                .filter(|option| get(&[option]).is_some_and(|v| v != "0" && v != "none"))
                .map(|option| format!(" {option}"))
                .collect(),
            rw,
            engine,
        })
    }

    /// The name of ours that does the same, or fio's own words.
    fn pattern(&self) -> String {
        let ours = match (self.rw.as_str(), self.mix) {
            ("read", _) => "seqread",
            ("write", _) => "seqwrite",
            ("randrw", 70) => "randrw70",
            ("rw" | "readwrite", 50) => "seqrw50",
            (other @ ("randrw" | "rw" | "readwrite"), mix) => {
                return format!("fio {other} {mix}%{}", self.durable);
            }
            (other @ ("randread" | "randwrite"), _) => other,
            (other, _) => return format!("fio {other}{}", self.durable),
        };
        if self.durable.is_empty() { ours.to_owned() } else { format!("fio {ours}{}", self.durable) }
    }

    fn key(&self, operation: Operation, entries: u32) -> Key {
        let [read, write] = self.sizes;
        Key {
            pattern: self.pattern(),
            block_size: if operation == Operation::Read { read } else { write },
            depth: self.depth,
            jobs: if self.grouped || entries == 1 { self.jobs.max(1) } else { entries },
            method: None,
            operation,
        }
    }
}

/// `4k`, `1M`, `4096`, or one for reads and one for writes; fio's units are powers of 1024.
fn sizes(text: &str) -> Option<[u64; 2]> {
    let mut each = text.split(',').map(size);
    let read = each.next()??;
    Some([read, each.next().unwrap_or(Some(read))?])
}

pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let power = match text[digits..].trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << power)
}
