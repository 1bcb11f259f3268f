//! What a job of fio was told to do, and which cell of ours does the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Job;
use crate::probe::sweep::Operation;
use crate::report::compare::Key;

/// Engines of fio that have no more than one operation outstanding, whatever `iodepth` says. The first is its default.
const ONE_AT_A_TIME: [&str; 6] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap"];
/// What a job was told to do.
pub(super) struct Options {
    rw: String,
    mix: u32,
    sizes: [u64; 2],
    depth: u32,
    jobs: u32,
    grouped: bool,
    pub(super) engine: String,
    pub(super) sync_depth: bool,
    durable: String,
    /// Past the page cache, which is not fio's default.
    pub(super) direct: bool,
    /// Bytes of the file, where one is told.
    pub(super) size: Option<u64>,
    /// Seconds before the recording.
    pub(super) ramp: f64,
}

impl Options {
    pub(super) fn of(global: &BTreeMap<String, Value>, job: &Job) -> Result<Self, String> {
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
            direct: match (get(&["direct"]), get(&["buffered"])) {
                (Some(direct), _) => direct != "0",
                (None, buffered) => buffered.is_some_and(|v| v == "0"),
            },
            size: get(&["size", "filesize"]).and_then(|text| self::size(&text)),
            ramp: get(&["ramp_time"]).and_then(|text| seconds(&text)).unwrap_or(0.0),
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

    pub(super) fn key(&self, operation: Operation, entries: u32) -> Key {
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

/// `30`, `30s`, `2m`; `None` of what is rarely written.
fn seconds(text: &str) -> Option<f64> {
    let (digits, each) = match text.trim().strip_suffix(['s', 'm']) {
        Some(digits) => (digits, if text.trim().ends_with('m') { 60.0 } else { 1.0 }),
        None => (text.trim(), 1.0),
    };
    digits.parse::<u32>().ok().map(|n| f64::from(n) * each)
}

pub(in crate::report::compare) fn size(text: &str) -> Option<u64> {
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
