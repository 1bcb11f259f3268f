//! The JSON for programs. `schema_version` grows when a field changes its meaning or goes away, not when one is added.

use serde::Serialize;
use serde_json::{Value, json};

use crate::probe::{Cost, Outcome};
use crate::report::summary::{self, Bursts, ByPhase, Commits};

use super::Subject;

const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Commit {
    profile: &'static str,
    method: &'static str,
    block_size: u32,
    direct: bool,
    runs: usize,
    latency_ns: Commits,
    per_commit: Option<Value>,
}

#[derive(Serialize)]
struct Read {
    runs: usize,
    latency_ns: Value,
    burst: Option<Bursts>,
}

/// Runs as JSON, times in nanoseconds, sizes in bytes, `null` where something is not known. Ends with a newline.
pub fn json(subject: &Subject, commits: &[Outcome], reads: &[Outcome]) -> String {
    let all: Vec<&Outcome> = commits.iter().chain(reads).collect();
    let commit = subject.commit.map(|(profile, method)| Commit {
        profile: profile.label(),
        method: method.label(),
        block_size: profile.row().block_size,
        direct: profile.row().direct,
        runs: commits.len(),
        latency_ns: Commits::of(commits),
        per_commit: commits
            .iter()
            .rev()
            .find_map(|run| run.per_commit)
            .map(|each| json!({ "writes": each.writes, "flushes": each.flushes, "bytes": each.bytes })),
    });
    let by_phase: ByPhase = summary::reads(reads);
    let read = (!reads.is_empty()).then(|| Read {
        runs: reads.len(),
        latency_ns: json!({ "read": by_phase }),
        burst: Bursts::of(reads),
    });
    let document = json!({
        "schema_version": SCHEMA_VERSION,
        "target": target(subject),
        "commit": commit,
        "read": read,
        "findings": findings(&all),
        "errors": errors(&all),
        "invalid": summary::invalid(&all)
            .into_iter()
            .map(|(probe, reason, n)| json!({ "probe": probe.label(), "reason": reason.label(), "operations": n }))
            .collect::<Vec<_>>(),
        "retries": all.iter().map(|run| run.retries).sum::<u64>(),
        "cost": cost(&all),
    });
    format!("{document:#}\n")
}

fn target(subject: &Subject) -> Value {
    json!({
        "path": subject.path,
        "files": subject.files,
        "file_system": subject.file_system,
        "device": subject.device,
        "model": subject.model,
        "engine": subject.engine,
        "engine_reason": subject.engine_reason,
    })
}

fn findings(runs: &[&Outcome]) -> Vec<Value> {
    let each = summary::checks(runs).into_iter().map(|check| {
        json!({
            "probe": check.probe.label(),
            "fault": check.fault.label(),
            "verdict": check.verdict.label(),
            "evidence": check.evidence,
            "runs": check.runs,
        })
    });
    each.collect()
}

fn errors(runs: &[&Outcome]) -> Vec<Value> {
    let each = summary::failures(runs).into_iter().map(|(probe, failure, n)| {
        json!({
            "probe": probe.label(),
            "stage": failure.stage.label(),
            "errno": failure.errno.name(),
            "number": failure.errno.raw(),
            "message": failure.message,
            "runs": n,
        })
    });
    each.collect()
}

fn cost(runs: &[&Outcome]) -> Value {
    let sum = |pick: fn(&Cost) -> u64| runs.iter().map(|run| pick(&run.cost)).sum::<u64>();
    json!({
        "reads": sum(|c| c.reads),
        "read_bytes": sum(|c| c.read_bytes),
        "writes": sum(|c| c.writes),
        "written_bytes": sum(|c| c.written_bytes),
        "syncs": sum(|c| c.syncs),
    })
}
