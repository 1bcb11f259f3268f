//! What a run of the impact bench leaves behind, JSON lines, and the section of docs/performance.md that is made from them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::claim::{Claim, Unit, median};
use super::tables::claim_table;

/// One line of the raw output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line: what was run where.
    Run(Run),
    /// The turns of a round on one disk.
    Round(Round),
}

/// What was run where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Of the source, with `+` where it was changed since.
    pub commit: String,
    /// RFC 3339.
    pub date: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the CPU.
    pub cpu: String,
    /// How many of them.
    pub cpus: usize,
    /// Version of fio.
    pub fio: String,
    /// Rounds on each disk.
    pub rounds: u32,
    /// Length of a turn.
    pub seconds: u64,
    /// `release`, or `dev` where the compiler's checks were on.
    pub build: String,
    /// Processes that wanted to run, mean of the minute before.
    pub load: f64,
}

/// Three turns of the same load: twice without us, once with us.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Which load on which disk.
    pub load: String,
    /// From 0.
    pub round: u32,
    /// The daemon was stopped.
    pub without: Latency,
    /// The daemon was stopped, once more.
    pub again: Latency,
    /// The daemon ran.
    pub with: Latency,
    /// Runs of the commit probe in the turn with us.
    pub commit_runs: u64,
    /// Runs of the read probe in it.
    pub read_runs: u64,
}

/// Latency of the load in one turn, as fio has it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Operations.
    pub operations: u64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th.
    pub p999: f64,
}

/// A quantile, its name, and by how much of it we may lengthen it; none where it is only shown.
struct Quantile {
    name: &'static str,
    of: fn(&Latency) -> f64,
    most: Option<f64>,
}

const QUANTILES: [Quantile; 3] = [
    Quantile { name: "p50", of: |l| l.p50, most: Some(1.02) },
    Quantile { name: "p99", of: |l| l.p99, most: Some(1.05) },
    Quantile { name: "p99.9", of: |l| l.p999, most: None },
];

/// By how much the two turns without us may differ before the round says nothing.
const SPREAD: f64 = 1.1;
/// Rounds that must say something.
const LEAST_ROUNDS: usize = 20;

impl Round {
    fn is_void(&self, of: fn(&Latency) -> f64) -> bool {
        let ratio = of(&self.again) / of(&self.without);
        !(1.0 / SPREAD..=SPREAD).contains(&ratio)
    }

    /// With us, divided by the mean of both turns without us.
    fn impact(&self, of: fn(&Latency) -> f64) -> f64 {
        of(&self.with) * 2.0 / (of(&self.without) + of(&self.again))
    }
}

/// The lines of a raw file.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let line = |(i, text)| serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1));
    text.lines().enumerate().filter(|(_, text)| !text.is_empty()).map(line).collect()
}

/// The section on impact.
pub fn section(lines: &[Line]) -> String {
    let mut text = String::from("## What others feel of us\n\n");
    let mut rounds: Vec<&Round> = Vec::new();
    for line in lines {
        match line {
            Line::Run(run) => conditions(&mut text, run),
            Line::Round(round) => rounds.push(round),
        }
    }
    let mut loads: Vec<&str> = rounds.iter().map(|r| r.load.as_str()).collect();
    loads.dedup();
    for load in loads {
        let these: Vec<&Round> = rounds.iter().copied().filter(|r| r.load == load).collect();
        part(&mut text, load, &these);
    }
    text
}

fn conditions(text: &mut String, run: &Run) {
    let Run { commit, date, kernel, cpu, cpus, fio, rounds, seconds, build, load } = run;
    let _ = writeln!(
        text,
        "`cargo bench --bench impact -- --rounds {rounds} --seconds {seconds} --output docs/data/impact.jsonl`: commit {commit} \
         ({build} build), {date}, Linux {kernel}, {cpus} × {cpu}, {fio}, load average {load} before.\n\
         \n\
         fio is the load, and the daemon probes the file system that it works on, at default intervals (a run of commits every \
         2 s, a burst of reads every 30 s), with files of 64 MiB that were laid out before. Each round has three turns of \
         {seconds} s in an order that changes from round to round: two while the daemon is stopped (SIGSTOP), one while it runs. \
         A ratio is the turn with us divided by the mean of both without. Where those two differ by more than {:.0} % the round \
         is void for that quantile; a claim needs {LEAST_ROUNDS} rounds that are not. fio's percentiles are those of its \
         histogram, whose buckets are up to 1.6 % wide.",
        (SPREAD - 1.0) * 100.0
    );
}

fn part(text: &mut String, load: &str, rounds: &[&Round]) {
    let _ = write!(
        text,
        "\n### {load}\n\n\
         | quantile | rounds | void | without, µs | with, µs | ratio: least, median, most | without against itself: least, median, most |\n\
         |---|--:|--:|--:|--:|---|---|\n",
    );
    let mut claims = Vec::new();
    for Quantile { name, of, most } in QUANTILES {
        let (void, valid): (Vec<&Round>, Vec<&Round>) = rounds.iter().copied().partition(|r| r.is_void(of));
        let micros = |side: fn(&Round) -> &Latency| {
            let all: Vec<f64> = rounds.iter().map(|r| of(side(r)) / 1e3).collect();
            median(&all).map_or("–".to_owned(), |m| format!("{m:.1}"))
        };
        let ratios: Vec<f64> = valid.iter().map(|r| r.impact(of)).collect();
        let selves: Vec<f64> = rounds.iter().map(|r| of(&r.again) / of(&r.without)).collect();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            rounds.len(),
            void.len(),
            micros(|r| &r.without),
            micros(|r| &r.with),
            range(&ratios),
            range(&selves),
        );
        if let Some(most) = most {
            let enough = ratios.len() >= LEAST_ROUNDS;
            claims.push(Claim {
                text: format!("{name} with us, divided by that without"),
                unit: Unit::Ratio,
                values: if enough { ratios } else { Vec::new() },
                within: (f64::NEG_INFINITY, most),
            });
        }
    }
    let runs = |of: fn(&Round) -> u64| {
        let all: Vec<f64> = rounds.iter().map(|r| of(r) as f64).collect();
        let total: f64 = all.iter().sum();
        let without = all.iter().filter(|n| **n == 0.0).count();
        format!("{total:.0} in all, {:.1} in a turn, none in {without}", total / rounds.len() as f64)
    };
    let operations: u64 =
        rounds.iter().map(|r| r.without.operations + r.again.operations + r.with.operations).sum();
    let _ = writeln!(
        text,
        "\nOperations of the load: {operations}. Runs of ours in the turns with us: of commits {}; of reads {}.",
        runs(|r| r.commit_runs),
        runs(|r| r.read_runs),
    );
    claim_table(text, &claims);
}

fn range(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    median(ratios).map_or("–".to_owned(), |median| format!("{least:.3}, {median:.3}, {most:.3}"))
}
