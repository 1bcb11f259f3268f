use serde_json::Value;

use super::*;
use crate::clock::Tick;
use crate::probe::{
    Burst, CommitSample, Failure, Fault, Finding, Invalid, Outcome, PerCommit, Phase, Probe, ReadSample,
    Stage, Verdict,
};
use crate::sys::Errno;

fn subject() -> Subject {
    Subject {
        path: "/srv/da\nta".to_owned(),
        files: Some("/srv/da\nta/.diskcanary".to_owned()),
        file_system: Some("ext4".to_owned()),
        device: Some("vdb".to_owned()),
        model: None,
        engine: Some("threads".to_owned()),
        engine_reason: Some("io_uring_setup: EPERM".to_owned()),
        direct: Some("true".to_owned()),
        commit: Some((Profile::Overwrite, Method::Fdatasync)),
    }
}

fn run(probe: Probe) -> Outcome {
    Outcome::begin(probe, Tick::default(), Tick::default())
}

fn commit_run() -> Outcome {
    let mut run = run(Probe::Commit);
    for (phase, sync) in [(Phase::First, 677_000), (Phase::Warm, 231_000), (Phase::Warm, 163_000)] {
        run.commits.push(CommitSample { phase, write: 20_000, sync: Some(sync), commit: sync + 20_100 });
    }
    run.per_commit = Some(PerCommit { writes: 2.0, flushes: 1.0, bytes: 8192.0 });
    run.cost.syncs = 3;
    run.findings.push(Finding { fault: Fault::Starved, verdict: Verdict::Fine, evidence: String::new() });
    run
}

fn read_run(iops: f64) -> Outcome {
    let mut run = run(Probe::Read);
    run.reads.push(ReadSample { phase: Phase::First, nanos: 300_000 });
    run.reads.extend((1..=15).map(|n| ReadSample { phase: Phase::Warm, nanos: n * 10_000 }));
    run.burst = Some(Burst { block_size: 4096, depth: 4, iops });
    run.cost.reads = 64;
    run
}

#[test]
fn the_table_holds_every_row() {
    let reads = [read_run(30_000.0), read_run(20_000.0), read_run(25_000.0)];
    let text = table(&subject(), &[commit_run()], &reads);
    assert_eq!(
        text,
        "\
path        /srv/da\\nta
files       /srv/da\\nta/.diskcanary
file system ext4
device      vdb
commits     profile overwrite: 4KiB, direct, fdatasync
reads       engine threads (io_uring_setup: EPERM), past the page cache

 operation  phase  samples      min      p50      p90  p99      max
 write      first        1  20.0 µs  20.0 µs  20.0 µs    -  20.0 µs
 write      warm         2  20.0 µs  20.0 µs  20.0 µs    -  20.0 µs
 sync       first        1   677 µs   677 µs   677 µs    -   677 µs
 sync       warm         2   163 µs   163 µs   231 µs    -   231 µs
 commit     first        1   697 µs   697 µs   697 µs    -   697 µs
 commit     warm         2   183 µs   183 µs   251 µs    -   251 µs
 read       first        3   300 µs   300 µs   300 µs    -   300 µs
 read       warm        45  10.0 µs  80.0 µs   140 µs    -   150 µs

Random reads of 4KiB at depth 4: 25,000 IOPS (median of 3 bursts, 20,000 to 30,000)
A commit costs the device 2.0 writes, 1.0 flushes, 8KiB (whatever else wrote then is in it)

Checked and fine: starved (commit)
"
    );
}

#[test]
fn p99_shows_from_a_hundred_samples_on() {
    let reads: Vec<_> = (0..7).map(|_| read_run(1.0)).collect();
    let warm =
        |text: &str| text.lines().find(|l| l.contains("read") && l.contains("warm")).unwrap().to_owned();
    assert!(warm(&table(&subject(), &[], &reads)).contains("150 µs"));
    assert!(!warm(&table(&subject(), &[], &reads)).contains(" - "));
    assert!(warm(&table(&subject(), &[], &reads[..6])).contains(" - "));
}

#[test]
fn a_fault_that_held_once_is_told_though_it_passed() {
    let finding =
        |verdict, evidence: &str| Finding { fault: Fault::Cached, verdict, evidence: evidence.to_owned() };
    let (mut one, mut two) = (read_run(1.0), read_run(1.0));
    one.findings.push(finding(Verdict::Holds, "a misaligned read succeeded"));
    two.findings.push(finding(Verdict::Fine, ""));
    two.findings.push(Finding {
        fault: Fault::Unwritten,
        verdict: Verdict::Unknown,
        evidence: "no FIEMAP".to_owned(),
    });
    two.count_invalid(Invalid::ShortIo);
    let runs = [one, two];
    let text = table(&subject(), &[], &runs);
    assert!(text.contains("Not to be trusted:\n  cached (read): a misaligned read succeeded\n"), "{text}");
    assert!(text.contains("Could not be checked:\n  unwritten (read): no FIEMAP\n"), "{text}");
    assert!(
        text.contains("Left out of the read figures: 1 (short_io: fewer bytes moved than asked for)\n"),
        "{text}"
    );
    assert!(!text.contains("Checked and fine"), "{text}");
    let document: Value = serde_json::from_str(&json(&subject(), &[], &runs)).unwrap();
    assert_eq!(document["findings"][1]["fault"], "cached");
    assert_eq!(document["findings"][1]["verdict"], "holds");
    assert_eq!(document["invalid"][0]["operations"], 1);
}

#[test]
fn failures_are_told_once_with_their_count() {
    let failure =
        Failure { stage: Stage::Sync, errno: Errno::EIO, message: "fdatasync on /srv/x failed".to_owned() };
    let runs: Vec<_> = (0..3)
        .map(|_| {
            let mut failed = run(Probe::Commit);
            failed.result = Err(failure.clone());
            failed
        })
        .collect();
    let text = table(&subject(), &runs, &[]);
    let told =
        "The commit probe failed at sync (3 runs): EIO (Input/output error): fdatasync on /srv/x failed\n";
    assert!(text.contains(told) && text.matches("EIO").count() == 1, "{text}");
    let document: Value = serde_json::from_str(&json(&subject(), &runs, &[])).unwrap();
    assert_eq!(document["errors"][0]["errno"], "EIO");
    assert_eq!(document["errors"][0]["runs"], 3);
    assert_eq!(document["commit"]["latency_ns"]["sync"]["warm"], Value::Null);
    assert_eq!(document["read"], Value::Null);
}

#[test]
fn the_json_has_nanoseconds_and_a_version() {
    let text = json(&subject(), &[commit_run()], &[read_run(30_000.0)]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["target"]["path"], "/srv/da\nta");
    assert_eq!(document["target"]["model"], Value::Null);
    let warm = &document["commit"]["latency_ns"]["sync"]["warm"];
    assert_eq!((&warm["samples"], &warm["min"], &warm["p50"]), (&2.into(), &163_000.into(), &163_000.into()));
    assert_eq!(warm["p99"], Value::Null);
    assert_eq!(document["commit"]["latency_ns"]["commit"]["first"]["max"], 697_100);
    assert_eq!(document["commit"]["per_commit"]["bytes"], 8192.0);
    assert_eq!(document["read"]["latency_ns"]["read"]["first"]["max"], 300_000);
    assert_eq!(document["read"]["burst"]["iops_p50"], 30_000.0);
    assert_eq!(document["cost"]["reads"], 64);
    assert_eq!(document["cost"]["syncs"], 3);
}

#[test]
fn what_a_check_has_to_say_is_said_though_it_is_fine() {
    let mut run = commit_run();
    let evidence = "no flush is sent here: write through".to_owned();
    run.findings.push(Finding { fault: Fault::Unflushed, verdict: Verdict::Fine, evidence });
    let text = table(&subject(), &[run], &[]);
    assert!(text.contains("\nNote: no flush is sent here: write through\n"), "{text}");
}

#[test]
fn without_a_sync_there_is_no_sync_row() {
    let mut run = run(Probe::Commit);
    run.commits.push(CommitSample { phase: Phase::First, write: 50, sync: None, commit: 50 });
    let text = table(&subject(), &[run], &[]);
    assert!(text.contains(" commit ") && !text.contains(" sync "), "{text}");
}
