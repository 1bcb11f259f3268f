//! What a run of the accuracy bench leaves behind: JSON lines, one for each turn, from which all tables are made.

use serde::{Deserialize, Serialize};

/// One line of the raw output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line: what was run where.
    Run(Run),
    /// One turn of reads.
    Reads(Reads),
    /// One turn of commits.
    Commits(Commits),
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
    /// Turns of each variant on each disk.
    pub rounds: u32,
    /// Length of a turn.
    pub seconds: f64,
    /// `release`, or `dev` where the compiler's checks were on.
    pub build: String,
    /// Whether the CPUs were kept from halting while they waited.
    pub awake: bool,
    /// How the readers were scheduled: `SCHED_OTHER`, `SCHED_FIFO`, …
    pub policy: String,
    /// Processes that wanted to run, mean of the minute before.
    pub load: f64,
}

/// One turn of 4 KiB random reads at depth 1, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// Which disk.
    pub disk: String,
    /// Which round, from 0.
    pub round: u32,
    /// To which CPU everyone was bound in this round.
    pub cpu: usize,
    /// Who read.
    pub reader: Reader,
    /// How our engine went: `ring` or `pread`; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Reads that were timed.
    pub reads: usize,
    /// Of them, those whose request the block trace shows.
    pub paired: usize,
    /// As the reader timed it.
    pub latency: Quantiles,
    /// From issue to completion in the block layer.
    pub device: Quantiles,
    /// Latency minus device time, read by read.
    pub added: Quantiles,
    /// CPU of the process, user and system, for each read; absent for fio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_per_read: Option<f64>,
}

/// Who read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// The engine of the read probe, sleeping.
    Ours,
    /// The engine of the read probe with `wait: spin`.
    OursSpin,
    /// Nothing but `pread` between two readings of the clock.
    Bare,
    /// fio, `ioengine=psync`.
    FioPsync,
    /// fio, `ioengine=io_uring`.
    FioUring,
}

impl Reader {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 5] = [Self::Ours, Self::OursSpin, Self::Bare, Self::FioPsync, Self::FioUring];

    /// In tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ours => "diskcanary",
            Self::OursSpin => "diskcanary, `wait: spin`",
            Self::Bare => "bare `pread` loop",
            Self::FioPsync => "fio psync",
            Self::FioUring => "fio io_uring",
        }
    }
}

/// One turn of 4 KiB overwrites, each made durable with fdatasync, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commits {
    /// Which disk.
    pub disk: String,
    /// Which round, from 0.
    pub round: u32,
    /// To which CPU everyone was bound in this round.
    pub cpu: usize,
    /// Whether it was fio.
    pub fio: bool,
    /// How many.
    pub commits: usize,
    /// The write.
    pub write: Quantiles,
    /// The fdatasync.
    pub sync: Quantiles,
}

/// Of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: i64,
    /// 99th percentile.
    pub p99: i64,
}

impl Quantiles {
    /// Nearest rank. Sorts `values`, of which there must be one at least.
    pub fn of(values: &mut [i64]) -> Self {
        values.sort_unstable();
        let rank = |q: f64| values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
        Self { p50: rank(0.5), p99: rank(0.99) }
    }
}

/// The lines of a raw file.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let line = |(i, text)| serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1));
    text.lines().enumerate().filter(|(_, text)| !text.is_empty()).map(line).collect()
}
