//! How long it takes to write `/metrics`, without HTTP: `cargo bench --bench exposition`. Books of 1 to 40 targets that have run for
//! an hour at default intervals, written 200 times each; what is printed are quantiles over those.

#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::sync::Arc;
use std::time::Duration;

use diskcanary::clock::{self, Tick};
use diskcanary::expose;
use diskcanary::io::Inflight;
use diskcanary::probe::{CommitSample, Outcome, Phase, Probe, ReadSample};
use diskcanary::record::{Book, Plan, ProbePlan};

const HOUR: u64 = 3600;

fn main() {
    println!("| targets | series | KiB | min µs | p50 µs | p99 µs |\n|--:|--:|--:|--:|--:|--:|");
    for targets in [1, 5, 10, 20, 40] {
        let mut book = Book::new();
        (0..targets).for_each(|n| fill(&mut book, n));
        let now = at(HOUR);
        let snapshot = book.snapshot(now);
        let mut text = String::new();
        let mut times: Vec<u64> = (0..200)
            .map(|_| {
                text.clear();
                let start = clock::now();
                expose::text(&snapshot, now, &mut text);
                clock::now().nanos_since(start) / 1000
            })
            .collect();
        times.sort_unstable();
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        println!(
            "| {targets} | {series} | {} | {} | {} | {} |",
            text.len() / 1024,
            times[0],
            times[100],
            times[197]
        );
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
