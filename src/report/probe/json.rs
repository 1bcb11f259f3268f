//! The JSON for programs. `schema_version` grows when a field changes its meaning or goes away, not when one is added.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::probe::{Cost, Outcome};
use crate::report::summary::{self, Bursts, ByPhase, Commits};

use super::Subject;

const SCHEMA_VERSION: u32 = 1;

/// What `diskcanary probe --json` prints. Times are nanoseconds, sizes bytes; null is: not known, or too few samples.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Document {
    /// Grows when a field changes its meaning or goes away.
    schema_version: u32,
    /// What was probed.
    target: Target,
    /// The commit probe; null on a block device.
    commit: Option<Commit>,
    /// The read probe; null when it had no run.
    read: Option<Read>,
    /// Truth checks that were made.
    findings: Vec<Finding>,
    /// Failures, those that are alike once.
    errors: Vec<Failure>,
    /// Operations that are no samples.
    invalid: Vec<Left>,
    /// `EAGAIN` answers.
    retries: u64,
    /// What the runs cost, as issued, the layout of probe files apart.
    cost: Sum,
}

/// What was probed.
#[derive(Serialize, JsonSchema)]
struct Target {
    /// As it was asked for.
    path: String,
    /// Where the probe files are; null on a block device.
    files: Option<String>,
    /// Kind of file system.
    file_system: Option<String>,
    /// The kernel's name of the device.
    device: Option<String>,
    /// Its model.
    model: Option<String>,
    /// Which engine read.
    engine: Option<String>,
    /// Why that one.
    engine_reason: Option<String>,
    /// Whether reads bypass the page cache: `true`, `false`, or `bypassed` (the cache answers in spite of direct I/O).
    direct: Option<String>,
}

/// The commit probe.
#[derive(Serialize, JsonSchema)]
struct Commit {
    /// Whose commits.
    profile: &'static str,
    /// What made them durable.
    method: &'static str,
    /// Bytes of a commit.
    block_size: u32,
    /// Whether the profile asks for direct I/O.
    direct: bool,
    /// How many runs.
    runs: usize,
    /// Durations by part and phase.
    latency_ns: Commits,
    /// What a commit cost the device, in the last run that could tell.
    per_commit: Option<PerCommit>,
}

/// What one commit cost the device, by its own counters.
#[derive(Serialize, JsonSchema)]
struct PerCommit {
    /// Write requests.
    writes: f64,
    /// Flush requests.
    flushes: f64,
    /// Bytes written.
    bytes: f64,
}

/// The read probe.
#[derive(Serialize, JsonSchema)]
struct Read {
    /// How many runs.
    runs: usize,
    /// Durations by phase.
    latency_ns: ReadLatency,
    /// The bursts at depth.
    burst: Option<Bursts>,
}

/// Durations of reads.
#[derive(Serialize, JsonSchema)]
struct ReadLatency {
    /// Reads at depth 1.
    read: ByPhase,
}

/// A truth check.
#[derive(Serialize, JsonSchema)]
struct Finding {
    /// Of which probe.
    probe: &'static str,
    /// Which check.
    fault: &'static str,
    /// `fine`, `holds` or `unknown`: the worst over all runs.
    verdict: &'static str,
    /// Why, for people; may be empty when fine.
    evidence: String,
    /// In how many runs.
    runs: usize,
}

/// A failure.
#[derive(Serialize, JsonSchema)]
struct Failure {
    /// Of which probe.
    probe: &'static str,
    /// The step that failed.
    stage: &'static str,
    /// The error's name.
    errno: &'static str,
    /// The error's number.
    number: i32,
    /// For people.
    message: String,
    /// How many runs ended so.
    runs: usize,
}

/// Operations that are no samples.
#[derive(Serialize, JsonSchema)]
struct Left {
    /// Of which probe.
    probe: &'static str,
    /// Why.
    reason: &'static str,
    /// How many.
    operations: u64,
}

/// Operations and bytes.
#[derive(Serialize, JsonSchema)]
struct Sum {
    /// Reads.
    reads: u64,
    /// Bytes read.
    read_bytes: u64,
    /// Writes.
    writes: u64,
    /// Bytes written.
    written_bytes: u64,
    /// Calls of fsync and fdatasync.
    syncs: u64,
}

/// The JSON Schema of [`json`]. Ends with a newline.
pub fn schema() -> String {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    format!("{:#}\n", settings.into_generator().into_root_schema_for::<Document>().as_value())
}

/// Runs as JSON, times in nanoseconds, sizes in bytes, `null` where something is not known. Ends with a newline.
pub fn json(subject: &Subject, commits: &[Outcome], reads: &[Outcome]) -> String {
    let all: Vec<&Outcome> = commits.iter().chain(reads).collect();
    let left = summary::invalid(&all).into_iter();
    let document = Document {
        schema_version: SCHEMA_VERSION,
        target: target(subject),
        commit: commit(subject, commits),
        read: (!reads.is_empty()).then(|| Read {
            runs: reads.len(),
            latency_ns: ReadLatency { read: summary::reads(reads) },
            burst: Bursts::of(reads),
        }),
        findings: findings(&all),
        errors: errors(&all),
        invalid: left
            .map(|(probe, reason, operations)| Left {
                probe: probe.label(),
                reason: reason.label(),
                operations,
            })
            .collect(),
        retries: all.iter().map(|run| run.retries).sum(),
        cost: cost(&all),
    };
    format!("{:#}\n", serde_json::json!(document))
}

fn target(subject: &Subject) -> Target {
    let Subject { path, files, file_system, device, model, engine, engine_reason, direct, .. } =
        subject.clone();
    Target { path, files, file_system, device, model, engine, engine_reason, direct }
}

fn commit(subject: &Subject, runs: &[Outcome]) -> Option<Commit> {
    let (profile, method) = subject.commit?;
    let last = runs.iter().rev().find_map(|run| run.per_commit);
    Some(Commit {
        profile: profile.label(),
        method: method.label(),
        block_size: profile.row().block_size,
        direct: profile.row().direct,
        runs: runs.len(),
        latency_ns: Commits::of(runs),
        per_commit: last.map(|each| PerCommit {
            writes: each.writes,
            flushes: each.flushes,
            bytes: each.bytes,
        }),
    })
}

fn findings(runs: &[&Outcome]) -> Vec<Finding> {
    let each = summary::checks(runs).into_iter().map(|check| Finding {
        probe: check.probe.label(),
        fault: check.fault.label(),
        verdict: check.verdict.label(),
        evidence: check.evidence,
        runs: check.runs,
    });
    each.collect()
}

fn errors(runs: &[&Outcome]) -> Vec<Failure> {
    let each = summary::failures(runs).into_iter().map(|(probe, failure, n)| Failure {
        probe: probe.label(),
        stage: failure.stage.label(),
        errno: failure.errno.name(),
        number: failure.errno.raw(),
        message: failure.message.clone(),
        runs: n,
    });
    each.collect()
}

fn cost(runs: &[&Outcome]) -> Sum {
    let sum = |pick: fn(&Cost) -> u64| runs.iter().map(|run| pick(&run.cost)).sum::<u64>();
    Sum {
        reads: sum(|c| c.reads),
        read_bytes: sum(|c| c.read_bytes),
        writes: sum(|c| c.writes),
        written_bytes: sum(|c| c.written_bytes),
        syncs: sum(|c| c.syncs),
    }
}
