//! Records pairs of runs between which nothing changes, for the tests of `stats::compare`: each kind of cell in turn, the rounds of the
//! two runs of a pair in the order A B B A A B …
//!
//! ```text
//! cargo bench --bench pairs -- --pairs 100 --seconds 4 --rounds 3 --output pairs.jsonl
//! gzip -9n <pairs.jsonl >src/stats/compare/testdata/pairs.jsonl.gz
//! ```
//!
//! A line is a run: operations, seconds, quantiles, spans of each round. It measures the file system of the directory that it works in, by
//! the binary's own `sweep`, and leaves nothing there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot run says so and ends"
)]
#![allow(clippy::print_stderr, reason = "it talks to who started it")]
#![allow(
    clippy::disallowed_methods,
    reason = "the bench stands outside the house: it opens files and starts programs"
)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use diskcanary::stats::Histogram;
use serde_json::Value;

/// Pattern, block size, depth, and the operation that is compared.
const KINDS: [(&str, &str, &str, &str); 10] = [
    ("randread", "4KiB", "1", "read"),
    ("randwrite", "4KiB", "1", "write"),
    ("randread", "4KiB", "8", "read"),
    ("randwrite", "4KiB", "8", "write"),
    ("randread", "4KiB", "32", "read"),
    ("randread", "16KiB", "8", "read"),
    ("randwrite", "16KiB", "4", "write"),
    ("randread", "64KiB", "4", "read"),
    ("seqread", "1MiB", "2", "read"),
    ("seqwrite", "1MiB", "2", "write"),
];

#[derive(Debug, Parser)]
struct Arguments {
    /// Pairs to record.
    #[arg(long, default_value_t = 100)]
    pairs: usize,
    /// Length of a round.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Rounds of a run.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// On whose file system the sweeps are done.
    #[arg(long, default_value = "target")]
    path: PathBuf,
    /// Where the lines go.
    #[arg(long, default_value = "target/pairs.jsonl")]
    output: PathBuf,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The rounds of a run so far.
#[derive(Default)]
struct Run {
    operations: u64,
    seconds: f64,
    histogram: Option<Histogram>,
    rounds: Vec<Value>,
}

impl Run {
    fn add(&mut self, cell: &Value, operation: &str) {
        self.operations += cell["operations"].as_u64().unwrap();
        self.seconds += cell["seconds"].as_f64().unwrap();
        let histogram = Histogram::decode(cell["histogram"][operation].as_str().unwrap()).unwrap();
        match &mut self.histogram {
            Some(all) => all.merge(&histogram),
            none => *none = Some(histogram),
        }
        self.rounds.extend(cell["spans"][operation].as_array().unwrap().iter().cloned());
    }

    /// Closer where the compared quantiles lie.
    fn line(&self) -> Value {
        let coarse = (0..=20).map(|step| step * 500);
        let median = (40..=60).map(|step| step * 100);
        let tail = [9600, 9700, 9750, 9850, 9900, 9925, 9950, 9975, 9980, 9990, 9995];
        let mut shares: Vec<u32> = coarse.chain(median).chain(tail).collect();
        shares.sort_unstable();
        shares.dedup();
        let histogram = self.histogram.as_ref().unwrap();
        let points: Vec<(f64, u64)> = (shares.iter().map(|share| f64::from(*share) / 10_000.0))
            .map(|share| (share, histogram.quantile(share).unwrap()))
            .collect();
        serde_json::json!([self.operations, self.seconds, points, self.rounds])
    }
}

fn main() {
    let arguments = Arguments::parse();
    let place = tempfile::tempdir_in(&arguments.path).unwrap();
    let mut output = File::create(&arguments.output).unwrap();
    for pair in 0..arguments.pairs {
        let kind = KINDS[pair % KINDS.len()];
        let mut runs = [Run::default(), Run::default()];
        for round in 0..arguments.rounds {
            for turn in 0..2 {
                let cell = sweep(place.path(), kind, arguments.seconds);
                runs[(turn + round) % 2].add(&cell, kind.3);
            }
        }
        for run in &runs {
            serde_json::to_writer(&mut output, &run.line()).unwrap();
            output.write_all(b"\n").unwrap();
        }
        let rates = runs.each_ref().map(|run| run.operations as f64 / run.seconds);
        eprintln!("{pair}: {kind:?}: {:.0} and {:.0} IOPS, × {:.3}", rates[0], rates[1], rates[1] / rates[0]);
    }
}

/// The cell that such a sweep has.
fn sweep(place: &Path, (pattern, size, depth, _): (&str, &str, &str, &str), seconds: f64) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskcanary"));
    command.arg("sweep").args(["--pattern", pattern, "--block-size", size, "--depth", depth, "--json", "-"]);
    command.args(["--file-size", "512MiB", "--keep", "--yes", "--warm-up", "300ms"]);
    let output = command.arg("--seconds").arg(seconds.to_string()).arg(place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut sweep: Value = serde_json::from_slice(&output.stdout).unwrap();
    sweep["cells"][0].take()
}
