//! How long it takes to write `/metrics`, without HTTP: books of 1 to 40 targets that have run for an hour at default intervals,
//! written 200 times each.
//!
//! ```text
//! cargo bench --bench exposition -- --output docs/data/exposition.jsonl
//! BLESS=1 cargo test --test performance
//! ```

#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot run says so and ends"
)]
#![allow(clippy::disallowed_methods, reason = "the bench stands outside the house: it opens its own files")]
#![allow(dead_code, unreachable_pub, reason = "a test of the documents uses the rest of what is shared")]

#[path = "support/machine.rs"]
mod machine;
#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;

use diskcanary::clock::{self, Tick};
use diskcanary::expose;
use diskcanary::io::Inflight;
use diskcanary::probe::{CommitSample, Outcome, Phase, Probe, ReadSample};
use diskcanary::record::{Book, Plan, ProbePlan};

use support::cost::Run;
use support::scrape::{Line, Text, quantile, section};

const HOUR: u64 = 3600;

const TIMES: usize = 200;

#[derive(Debug, Parser)]
struct Arguments {
    /// Where the raw lines go.
    #[arg(long, default_value = "target/exposition.jsonl")]
    output: PathBuf,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let run = Run {
        commit: machine::commit(),
        date: machine::date(),
        kernel: machine::kernel(),
        cpu: machine::cpu(),
        cpus: machine::cpus(),
        build: machine::build(),
        load: machine::load(),
    };
    let texts = [1, 5, 10, 20, 40].map(|targets| Line::Text(measure(targets)));
    let lines: Vec<Line> = [Line::Run(run)].into_iter().chain(texts).collect();
    let rows: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    std::fs::write(&arguments.output, rows.concat()).unwrap();
    println!("{}", section(&lines, &[]));
}

fn measure(targets: usize) -> Text {
    let mut book = Book::new();
    (0..targets).for_each(|n| fill(&mut book, n));
    let now = at(HOUR);
    let snapshot = book.snapshot(now);
    let mut text = String::new();
    let mut write = || {
        text.clear();
        let start = clock::now();
        expose::text(&snapshot, now, &mut text);
        clock::now().nanos_since(start) as f64 / 1e3
    };
    let mut times: Vec<f64> = (0..TIMES).map(|_| write()).collect();
    times.sort_by(f64::total_cmp);
    Text {
        targets,
        series: text.lines().filter(|line| !line.starts_with('#')).count(),
        bytes: text.len(),
        times: TIMES,
        least: times[0],
        p50: quantile(&times, 0.5),
        p99: quantile(&times, 0.99),
    }
}

/// A target with an hour of runs.
fn fill(book: &mut Book, n: usize) {
    let every = |probe, seconds| ProbePlan { probe, interval: Duration::from_secs(seconds), operations: 3 };
    let plan = Plan {
        labels: vec![("service".into(), "orders".into())],
        probes: vec![every(Probe::Commit, 2), every(Probe::Read, 30)],
        ..Plan::new(format!("target-{n}"), format!("/srv/{n}"), Arc::new(Inflight::default()))
    };
    let id = book.add_target(plan);
    let mut random = fastrand::Rng::with_seed(n as u64);
    for second in (0..HOUR).step_by(2) {
        enter(book, id, Probe::Commit, second, 3, &mut random);
        if second % 30 == 0 {
            enter(book, id, Probe::Read, second, 16, &mut random);
        }
    }
}

fn enter(
    book: &mut Book,
    id: diskcanary::record::TargetId,
    probe: Probe,
    second: u64,
    samples: u64,
    random: &mut fastrand::Rng,
) {
    let mut outcome = Outcome::begin(probe, at(second), at(second));
    for n in 0..samples {
        let phase = if n == 0 { Phase::First } else { Phase::Warm };
        let (write, sync) = (random.u64(30_000..200_000), random.u64(100_000..2_000_000));
        match probe {
            Probe::Commit => {
                outcome.commits.push(CommitSample { phase, write, sync: Some(sync), commit: write + sync });
            }
            Probe::Read => outcome.reads.push(ReadSample { phase, nanos: write }),
        }
    }
    book.enter(id, &outcome, at(second), Duration::from_secs(second));
}

const fn at(second: u64) -> Tick {
    Tick::from_nanos(1_000_000_000 * (second + 1))
}
