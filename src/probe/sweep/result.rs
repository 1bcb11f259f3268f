//! What a sweep came to: one shape for the daemon's memory, its state, the report, a comparison and the file that people keep.
//! Times are nanoseconds, sizes bytes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Pattern;
use crate::probe::Method;
use crate::probe::outcome::labels;
use crate::stats::SpanFigures;

/// Grows when a field changes its meaning or goes away, not when one is added.
pub const SCHEMA_VERSION: u32 = 1;

/// A sweep of one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Grows when a field changes its meaning or goes away.
    pub schema_version: u32,
    /// What was measured.
    pub target: Subject,
    /// On what machine.
    pub environment: Environment,
    /// When it began (RFC 3339).
    pub started: String,
    /// How long it took, rests included, in seconds.
    pub seconds: f64,
    /// The preset, when it was one.
    pub preset: Option<String>,
    /// The product that the disk is said to be.
    pub product: Option<String>,
    /// The cells that were run, in that order; of several rounds, each cell once.
    pub cells: Vec<CellResult>,
    /// The cells that were not run, and why.
    pub skipped: Vec<Skipped>,
    /// Why it ended before all was done; null when it did not.
    pub stopped: Option<Stopped>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// As it was asked for.
    pub path: String,
    /// Kind of file system; null on a block device.
    pub file_system: Option<String>,
    /// The kernel's name of the device.
    pub device: Option<String>,
    /// The kernel's names of the disks under it.
    #[serde(default)]
    pub disks: Vec<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its size.
    pub size: Option<u64>,
    /// Which engine kept the depth.
    pub engine: String,
    /// Whether reads and writes bypass the page cache: `true`, `false`, or `bypassed` (the cache answers in spite of direct I/O).
    pub direct: String,
}

/// On what machine it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Version of this program.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the CPU.
    pub cpu: String,
    /// How many CPUs we may use.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Settings of device and mount that matter: scheduler, nr_requests, write_cache, mount_options …
    pub settings: BTreeMap<String, String>,
}

labels! {
    /// An operation that is timed.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    Operation {
        /// A read.
        Read = "read",
        /// A write; of a commit, its first part.
        Write = "write",
        /// The fsync or fdatasync of a commit.
        Sync = "sync",
        /// Write and sync.
        Commit = "commit",
    }
}

labels! {
    /// Why a cell or a sweep ended before its time.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    Stopped {
        /// Latency passed the ceiling.
        Cut = "cut",
        /// The workload woke up.
        Guard = "guard",
        /// What sweeps may cost the disk in a day was spent.
        Budget = "budget",
        /// Somebody asked for it.
        Interrupt = "interrupt",
        /// The disk failed.
        Error = "error",
    }
}

labels! {
    /// Under which regime of a disk with credits a cell was run.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    Regime {
        /// On credit.
        Burst = "burst",
        /// At what is promised for ever.
        Baseline = "baseline",
        /// At a known limit.
        Throttled = "throttled",
        /// Not known.
        #[default]
        Unknown = "unknown",
    }
}

labels! {
    /// What makes a cell's numbers not to be believed.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    SweepFault {
        /// The extent was never written.
        Unwritten = "unwritten",
        /// The kernel's cache answers although direct I/O was asked for.
        Cached = "cached",
        /// A cache outside of the guest answers.
        HostCached = "host_cached",
        /// Commits reach no flush, or no write, on a device with a volatile cache.
        Unflushed = "unflushed",
        /// A raw device answers with zeros only.
        Zeros = "zeros",
        /// Bytes read are not those written.
        Corruption = "corruption",
        /// IOPS × mean latency is not what was outstanding.
        LittlesLaw = "littles_law",
        /// A random cell moves more bytes a second than the best sequential one.
        Bandwidth = "bandwidth",
        /// The mean falls as depth rises.
        DepthInversion = "depth_inversion",
        /// More than the product promises.
        OverPromise = "over_promise",
        /// More than the instance lets through.
        OverInstance = "over_instance",
        /// The product is not sold in this size.
        SizeOutOfRange = "size_out_of_range",
        /// Bytes ÷ operations is not the block size.
        SizeMismatch = "size_mismatch",
        /// Writes without a flush on a device with a volatile cache: not durable.
        VolatileCache = "volatile_cache",
        /// The two halves of the cell differ.
        Unsteady = "unsteady",
        /// Our CPU was the limit, not the disk.
        CpuBound = "cpu_bound",
        /// We were stopped or starved of CPU.
        Starved = "starved",
    }
}

impl SweepFault {
    /// Whether what a cell with this fault shows is not the disk: something nearer answered, or the numbers fit no disk.
    pub const fn hides_the_disk(self) -> bool {
        match self {
            Self::Unwritten
            | Self::Cached
            | Self::HostCached
            | Self::Unflushed
            | Self::Zeros
            | Self::Corruption
            | Self::LittlesLaw
            | Self::Bandwidth
            | Self::SizeMismatch => true,
            Self::DepthInversion
            | Self::OverPromise
            | Self::OverInstance
            | Self::SizeOutOfRange
            | Self::VolatileCache
            | Self::Unsteady
            | Self::CpuBound
            | Self::Starved => false,
        }
    }
}

/// A cell that was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// What is done.
    pub pattern: Pattern,
    /// Bytes of an operation.
    pub block_size: u32,
    /// Outstanding in each job.
    pub depth: u16,
    /// Threads, or committers.
    pub jobs: u16,
    /// What makes commits durable.
    pub method: Option<Method>,
    /// Why not: `plateau`, `memory`, `space`, `no_ring`, `guard` …
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
}

/// A cell that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellResult {
    /// What was done.
    pub pattern: Pattern,
    /// Bytes of an operation.
    pub block_size: u32,
    /// Outstanding in each job, as configured.
    pub depth: u16,
    /// Threads, or committers.
    pub jobs: u16,
    /// What made commits durable; null where there were none.
    pub method: Option<Method>,
    /// How long its operations took, all rounds together: the time of the recording; where they came back in bursts, as those of a throttled
    /// disk do, the time of the whole bursts in it, from the end of a silence to the end of a silence.
    pub seconds: f64,
    /// How long it ran before, unrecorded, all rounds together.
    pub warm_up_seconds: f64,
    /// Operations that came back in these seconds; of a loaded pattern, of its first stream. Durations are of all that were recorded,
    /// which may be more, by what was no whole burst.
    pub operations: u64,
    /// Operations ÷ seconds; of a loaded pattern, of its first stream. Of several jobs, the sum of each one's own.
    pub iops: f64,
    /// Of a loaded pattern, of its first stream.
    pub bytes_per_second: f64,
    /// Durations, by operation.
    pub latency_ns: BTreeMap<Operation, Latency>,
    /// Each stream apart: `read`, `write`, `commit`.
    pub streams: BTreeMap<Operation, StreamResult>,
    /// Outstanding on average: IOPS × mean, of all streams that were to keep the cell's depth.
    pub achieved_depth: f64,
    /// Bytes of the file, or of the device, that was used.
    pub file_size: u64,
    /// Why it ended before its time; null when it did not.
    pub stopped: Option<Stopped>,
    /// Least and most over the rounds; null when there was one.
    pub rounds: Option<Rounds>,
    /// Durations just before, without the load; null where the pattern has none.
    pub quiet: Option<BTreeMap<Operation, Latency>>,
    /// Under load ÷ quiet, by operation and statistic; null as above.
    pub loaded_ratio: Option<BTreeMap<Operation, BTreeMap<String, f64>>>,
    /// Second by second, where the cell was long enough; else null. Of several rounds, the last one.
    pub series: Option<Vec<Point>>,
    /// Equal spans of the recording, by operation, one entry for each round: what a comparison tells noise from change by. The rig
    /// fills it with `stats::Spans`; rounds are put one behind the other.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spans: BTreeMap<Operation, Vec<SpanFigures>>,
    /// How steady it was.
    pub shape: Shape,
    /// Under which regime.
    pub regime: Regime,
    /// What the product promises for such a cell.
    pub promised_iops: Option<f64>,
    /// Delivered ÷ promised.
    pub delivered_ratio: Option<f64>,
    /// What makes it not to be believed.
    pub faults: Vec<SweepFault>,
    /// One sentence for each of the faults.
    pub evidence: BTreeMap<SweepFault, String>,
    /// HdrHistogram V2 with deflate, base64, by operation.
    pub histogram: BTreeMap<Operation, String>,
}

impl CellResult {
    /// Whether its numbers may stand for the disk.
    pub fn shows_the_disk(&self) -> bool {
        !self.faults.iter().any(|fault| fault.hides_the_disk())
    }

    /// How long a round of it was recorded.
    pub fn seconds_each(&self) -> f64 {
        self.seconds / self.round_count()
    }

    /// How long a round of it ran before, unrecorded.
    pub fn warm_up_each(&self) -> f64 {
        self.warm_up_seconds / self.round_count()
    }

    fn round_count(&self) -> f64 {
        self.rounds.map_or(1.0, |rounds| f64::from(rounds.count.max(1)))
    }

    /// Operations outstanding, as configured.
    pub fn outstanding(&self) -> u32 {
        u32::from(self.depth) * u32::from(self.jobs)
    }
}

/// Durations of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub stdev: f64,
    /// The least.
    pub min: u64,
    /// Half took no longer.
    pub p50: u64,
    /// 90 % took no longer.
    pub p90: u64,
    /// 99 % took no longer; null below 100 of them.
    pub p99: Option<u64>,
    /// 99.9 % took no longer; null below 1000 of them.
    pub p999: Option<u64>,
    /// The greatest.
    pub max: u64,
}

/// One stream of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamResult {
    /// Bytes of an operation.
    pub block_size: u32,
    /// Operations, as those of the cell.
    pub operations: u64,
    /// Per second, over the time in which this stream's came back.
    pub iops: f64,
    /// Per second.
    pub bytes_per_second: f64,
}

/// Least and most over rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rounds {
    /// How many.
    pub count: u32,
    /// The least IOPS.
    pub iops_min: f64,
    /// The most IOPS.
    pub iops_max: f64,
}

/// How steady a cell was. Variation, decline and troughs are null where it ran for less than 30 s: a shorter one says nothing of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shape {
    /// IOPS of the second half ÷ those of the first.
    pub halves_ratio: Option<f64>,
    /// Standard deviation ÷ mean of the IOPS of equal spans.
    pub variation: Option<f64>,
    /// How far off the IOPS may be by chance, as a share of them.
    pub noise: Option<f64>,
    /// By how much the IOPS fell from beginning to end, as a share of the beginning; negative when they rose.
    pub decline: Option<f64>,
    /// Troughs that come again.
    pub troughs: Option<Trough>,
}

/// Troughs of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trough {
    /// How many.
    pub count: u32,
    /// From one to the next, in seconds, where it is regular.
    pub period_seconds: Option<f64>,
    /// IOPS in a trough ÷ what the line through the whole says there.
    pub depth_ratio: f64,
}

/// A second of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// When it began, from the start of the recording.
    pub second: f64,
    /// Operations per second.
    pub iops: f64,
    /// Mean duration.
    pub mean_ns: f64,
    /// The greatest duration.
    pub max_ns: u64,
}
