//! fio, run on the same file, and what it says.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::loops::{BLOCK, Sample};

/// Version, as it says itself.
pub fn version() -> String {
    let output = Command::new("fio").arg("--version").output().expect("fio is installed");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// 4 KiB random reads at depth 1. The latency is fio's `lat`, from before submit to after reap, for each read: from
/// its log, which alone says which read it was.
pub fn reads(engine: &str, file: &Path, scratch: &Path, length: Duration) -> Vec<Sample> {
    let log = scratch.join(engine);
    run(
        file,
        length,
        &[
            "--rw=randread".into(),
            format!("--ioengine={engine}"),
            "--log_offset=1".into(),
            format!("--write_lat_log={}", log.display()),
        ],
    );
    let text = std::fs::read_to_string(scratch.join(format!("{engine}_lat.1.log"))).unwrap();
    text.lines().map(sample).collect()
}

/// `TIME, LATENCY, DIRECTION, BYTES, OFFSET, PRIORITY`
fn sample(line: &str) -> Sample {
    let words: Vec<&str> = line.split(", ").collect();
    Sample { offset: words[4].parse().unwrap(), nanos: words[1].parse().unwrap() }
}

/// Quantiles of writes and of fdatasyncs, in nanoseconds, and how many: 4 KiB overwrites, each followed by fdatasync.
pub fn commits(file: &Path, length: Duration) -> (usize, [crate::support::raw::Quantiles; 2]) {
    let said = run(file, length, &["--rw=write".into(), "--ioengine=sync".into(), "--fdatasync=1".into()]);
    let quantiles = |of: &serde_json::Value| {
        let at = |q: &str| of["lat_ns"]["percentile"][q].as_i64().unwrap();
        crate::support::raw::Quantiles { p50: at("50.000000"), p99: at("99.000000") }
    };
    let syncs = said["sync"]["lat_ns"]["N"].as_u64().unwrap() as usize;
    (syncs, [quantiles(&said["write"]), quantiles(&said["sync"])])
}

/// Runs one job: the job's object of fio's JSON.
fn run(file: &Path, length: Duration, options: &[String]) -> serde_json::Value {
    let size = std::fs::metadata(file).unwrap().len();
    let output = Command::new("fio")
        .args(["--name=accuracy", "--direct=1", "--iodepth=1", "--time_based", "--overwrite=1"])
        .args(["--lat_percentiles=1", "--clat_percentiles=0", "--output-format=json+"])
        .args([format!("--filename={}", file.display()), format!("--size={size}"), format!("--bs={BLOCK}")])
        .arg(format!("--runtime={}ms", length.as_millis()))
        .args(options)
        .output()
        .expect("fio is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    let json = said.find('{').map_or("", |at| &said[at..]);
    let mut report: serde_json::Value = serde_json::from_str(json)
        .unwrap_or_else(|e| panic!("fio: {e}\n{said}\n{}", String::from_utf8_lossy(&output.stderr)));
    let job = report["jobs"][0].take();
    assert_eq!(job["error"], 0, "fio: {}", String::from_utf8_lossy(&output.stderr));
    job
}
