//! The witnesses see what happened: the block trace, strace.

use crate::lab::{
    Aligned, BlockTrace, FileSystem, Loop, LoopOptions, Mounted, Need, Strace, eventually, lacks, open_direct,
};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

#[test]
fn the_block_trace_sees_each_pread_with_its_place() {
    if lacks(&[Need::Root, Need::Tracefs, Need::Tool("losetup")]) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(8 * MIB) });
    let file = open_direct(disk.device(), false).unwrap();
    let trace = BlockTrace::start(disk.number());
    let blocks = [5, 900, 17, 1200, 64];
    let before = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    for block in blocks {
        file.read_exact_at(Aligned::new(4096, 0).bytes(), block * 4096).unwrap();
    }
    let requests = trace.take();
    let ours: Vec<_> = blocks
        .iter()
        .map(|block| requests.iter().find(|r| r.is_read() && r.sector == block * 8 && r.sectors == 8))
        .collect();
    assert!(ours.iter().all(Option::is_some), "{requests:#?}");
    for request in ours.into_iter().flatten() {
        assert!(
            request.issued / 1_000_000_000 >= before.tv_sec.unsigned_abs(),
            "the clock is CLOCK_MONOTONIC"
        );
        assert!(request.completed >= request.issued && request.duration() < 60_000_000_000);
    }
    assert!(trace.take().is_empty(), "a second look repeats nothing");
}

#[test]
fn the_block_trace_sees_writes_and_flushes_of_a_commit() {
    if lacks(&[Need::Root, Need::Tracefs, Need::Tool("losetup"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 64 * MIB);
    let file = open_direct(&disk.path().join("file"), true).unwrap();
    file.write_all_at(Aligned::new(65536, 7).bytes(), 0).unwrap();
    file.sync_all().unwrap();
    let trace = BlockTrace::start(disk.disk().number());
    for _ in 0..3 {
        file.write_all_at(Aligned::new(4096, 8).bytes(), 8192).unwrap();
        file.sync_data().unwrap();
    }
    let requests = trace.take();
    assert!(requests.iter().filter(|r| r.is_write() && r.sectors == 8).count() >= 3, "{requests:#?}");
    assert!(requests.iter().any(|r| r.is_flush()), "{requests:#?}");
}

#[test]
fn strace_sees_the_calls_of_a_command_with_paths_results_and_errors() {
    if lacks(&[Need::Tool("strace"), Need::Tool("cat")]) {
        return;
    }
    let mut command = Command::new("cat");
    command.args(["/etc/passwd", "/no/such/file"]);
    let (calls, output) = Strace::of(&command, "openat,read");
    assert!(!output.status.success());
    let missing = calls.iter().find(|c| c.arguments.contains("/no/such/file")).expect("the failed open");
    assert_eq!(
        (missing.name.as_str(), missing.result, missing.errno.as_deref()),
        ("openat", -1, Some("ENOENT"))
    );
    let read =
        calls.iter().find(|c| c.name == "read" && c.arguments.contains("</etc/passwd>")).expect("the read");
    assert!(read.result > 0 && read.errno.is_none() && read.seconds >= 0.0 && read.began > 1e9, "{read:?}");
}

#[test]
fn strace_attaches_to_a_living_process_and_lets_it_go() {
    if lacks(&[Need::Tool("strace"), Need::Tool("dd")]) {
        return;
    }
    let mut child = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=4k", "status=none"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let strace = Strace::attach(child.id(), "write");
    std::thread::sleep(std::time::Duration::from_millis(200));
    let calls = strace.stop();
    let still_runs = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    eventually("dd is gone", || child.try_wait().unwrap().is_some());
    assert!(still_runs, "strace took its process along");
    assert!(calls.iter().any(|call| call.name == "write" && call.result == 4096), "{} calls", calls.len());
}
