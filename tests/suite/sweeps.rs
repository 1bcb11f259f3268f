//! `sweep` on real disks: what it says beforehand, what it hands over, and what it leaves behind.

use crate::lab::{
    Chromium, FileSystem, FuseDisk, Loop, LoopOptions, Mounted, Need, Op, Scratch, assert_valid, eventually,
    lacks, output_within,
};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const GIB: u64 = 1 << 30;
const DISKS: &[Need] = &[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4")];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskcanary"));
    command.arg("sweep").args(args).stdin(Stdio::null());
    command
}

fn sweep(args: &[&str]) -> Output {
    output_within(Duration::from_secs(180), command(args))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn is_as_it_was(disk: &Path) -> bool {
    fs::read_dir(disk).unwrap().all(|entry| entry.unwrap().file_name() == "lost+found")
}

/// Bytes that the device was given to write.
fn written(disk: &Loop) -> u64 {
    disk.counters()[6] * 512
}

/// What was said to be written at most.
fn announced(stderr: &str) -> f64 {
    let size = stderr.split("writes at most ").nth(1).unwrap().split_whitespace().next().unwrap();
    let (number, unit) = size.split_at(size.find(char::is_alphabetic).unwrap());
    let unit = ["B", "KiB", "MiB", "GiB"].iter().position(|known| *known == unit).unwrap();
    number.parse::<f64>().unwrap() * 1024f64.powi(unit as i32)
}

/// Valid by its schema, and its numbers fit each other.
fn is_sound(document: &Value) {
    let schema = serde_json::from_str(include_str!("../../docs/sweep.schema.json")).unwrap();
    assert_valid(document, &schema);
    for cell in document["cells"].as_array().unwrap() {
        let number = |key: &str| cell[key].as_f64().unwrap();
        let latencies = cell["latency_ns"].as_object().unwrap();
        let means = latencies.values().map(|l| l["mean"].as_f64().unwrap() * l["count"].as_f64().unwrap());
        let count: f64 = latencies.values().map(|l| l["count"].as_f64().unwrap()).sum();
        let achieved = number("iops") * means.sum::<f64>() / count / 1e9;
        let what = format!("{} {} at {}", cell["pattern"], cell["block_size"], cell["depth"]);
        // Where we got no CPU the disk waited for us, which is said.
        let faults = cell["faults"].as_array().unwrap();
        let excused =
            faults.iter().any(|f| ["starved", "cpu_bound", "littles_law"].contains(&f.as_str().unwrap()));
        assert!(excused || (achieved / number("depth") - 1.0).abs() < 0.15, "{what}: {achieved} outstanding");
        assert!(
            (number("bytes_per_second") / number("iops") / number("block_size") - 1.0).abs() < 0.01,
            "{what}"
        );
        assert!((number("operations") / number("seconds") / number("iops") - 1.0).abs() < 0.01, "{what}");
        assert_eq!(faults.len(), cell["evidence"].as_object().unwrap().len(), "{what}");
        for latency in latencies.values() {
            let of = |key: &str| latency[key].as_f64();
            let all = [of("min"), of("p50"), of("p90"), of("p99"), of("p999"), of("max")];
            let known: Vec<f64> = all.into_iter().flatten().collect();
            assert!(known.is_sorted(), "{what}: {latency}");
        }
    }
}

#[test]
fn a_quick_sweep_says_what_it_does_and_hands_over_what_it_saw() {
    if lacks(DISKS) {
        return;
    }
    let (disk, results) = (Mounted::new(FileSystem::Ext4, 2 * GIB), Scratch::new());
    let at = |name: &str| results.path().join(name).display().to_string();
    let (json, html, csv) = (at("a.json"), at("a.html"), at("a.csv"));
    let before = written(disk.disk());
    let output = sweep(&[
        disk.path().to_str().unwrap(),
        "--preset=quick",
        "--seconds=1",
        "--file-size=64MiB",
        "--promised-iops=1000000",
        &format!("--json={json}"),
        &format!("--html={html}"),
        &format!("--csv={csv}"),
    ]);
    assert!(output.status.success(), "{output:?}");
    let did = written(disk.disk()) - before;
    let said = announced(text(&output.stderr));
    assert!(
        did > 64 << 20 && (did as f64) < said,
        "{did} bytes reached the device, at most {said} were announced"
    );
    assert!(is_as_it_was(disk.path()), "something was left");
    let table = text(&output.stdout);
    for part in ["4KiB randread: primary-key lookups", "Promised and delivered:", "preset quick", "p99.9"] {
        assert!(table.contains(part), "no `{part}` in\n{table}");
    }
    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    is_sound(&document);
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(
        (cells.len(), &document["target"]["file_system"], &document["stopped"]),
        (4, &"ext4".into(), &Value::Null)
    );
    assert!(cells.iter().all(|cell| cell["delivered_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0)));
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 5);
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 3, "beside the results nothing is there");
    if lacks(&[Need::Tool("chromium")]) {
        return;
    }
    let url = format!("file://{html}");
    let chromium = Chromium::new();
    assert_eq!(chromium.console(&url), Vec::<String>::new());
    let dom = chromium.dom(&url);
    assert!(dom.contains("Distribution") && dom.matches("<svg").count() >= 6, "{}", dom.len());
}

#[test]
fn an_interrupt_leaves_what_was_measured_and_nothing_else() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 2 * GIB);
    let results = Scratch::new();
    let json = results.path().join("a.json");
    let flags =
        ["--pattern=randread", "--depth=1,2,4", "--seconds=2", "--warm-up=100ms", "--file-size=64MiB"];
    let mut command = command(&[&[disk.path().to_str().unwrap()][..], &flags].concat());
    let mut child =
        command.arg("--json").arg(&json).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the file is laid out and a cell was run", || {
        let reads = fs::metadata(disk.path().join(".diskcanary/reads"));
        reads.is_ok_and(|reads| reads.len() == 64 << 20) && disk.disk().reads() > 1000
    });
    std::thread::sleep(Duration::from_millis(2500));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(is_as_it_was(disk.path()), "something was left");
    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    is_sound(&document);
    assert_eq!(document["stopped"], "interrupt");
    let (cells, skipped) = (document["cells"].as_array().unwrap(), document["skipped"].as_array().unwrap());
    assert!(!cells.is_empty() && cells.len() + skipped.len() == 3, "{document}");
    assert!(skipped.iter().all(|one| one["reason"] == "interrupt"), "{skipped:?}");
}

#[test]
fn a_device_is_only_read() {
    if lacks(DISKS) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(64 << 20) });
    let device = disk.device().to_str().unwrap();
    let (checksum, writes) = (disk.checksum(), disk.writes());
    let output = sweep(&[device, "--preset=quick", "--seconds=1", "--json=-"]);
    assert!(output.status.success() && text(&output.stderr).contains("writes nothing"), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_sound(&document);
    let patterns: Vec<_> =
        document["cells"].as_array().unwrap().iter().map(|cell| cell["pattern"].clone()).collect();
    assert_eq!(patterns, ["randread", "randread"]);
    let output = sweep(&[device, "--pattern=randwrite"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("`randwrite` writes, and a block device is only read"),
        "{output:?}"
    );
    assert_eq!((disk.writes(), disk.checksum()), (writes, checksum));
}

#[test]
fn what_the_disk_has_no_room_or_no_blocks_for_is_said_before_anything_is_made() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, GIB);
    let path = disk.path().to_str().unwrap();
    for (flags, says) in [
        (&["--file-size=900MiB"][..], "at most half of what is free"),
        (&["--pattern=randread", "--block-size=1536B", "--depth=1"], "no multiple of the device's"),
        (&["--preset=standard"], "say `--yes` to more than 10GiB"),
        (&["--pattern=seqread", "--depth=512"], "512MiB of buffers, and `--memory` allows 96MiB"),
    ] {
        if says.contains("no multiple") && disk.disk().sysfs().join("queue/logical_block_size").exists() {
            let logical = fs::read_to_string(disk.disk().sysfs().join("queue/logical_block_size")).unwrap();
            if logical.trim() == "512" {
                continue;
            }
        }
        let output = sweep(&[&[path], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {output:?}");
        assert!(text(&output.stderr).contains(says) && output.stdout.is_empty(), "{flags:?}: {output:?}");
        assert!(is_as_it_was(disk.path()), "{flags:?} left something");
    }
}

#[test]
fn a_disk_that_goes_or_hangs_in_the_middle_leaves_what_was_measured() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    let (disk, results) = (FuseDisk::new(), Scratch::new());
    let json = results.path().join("a.json");
    let flags = ["--pattern=randread", "--depth=1,2", "--seconds=1", "--warm-up=100ms", "--file-size=64MiB"];
    let start = |json: &Path, flags: &[&str]| {
        let path = disk.path().to_str().unwrap();
        let mut command = command(&[&[path], flags].concat());
        command.arg("--json").arg(json).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // It fails from the second cell on.
    let mut child = start(&json, &flags);
    let reads = |more: u64| {
        let before = disk.count(Op::Read).operations;
        eventually("reads are under way", || disk.count(Op::Read).operations > before + more);
    };
    reads(200);
    std::thread::sleep(Duration::from_millis(1200));
    disk.fail(Op::Read, libc::EIO, 1);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    disk.heal(Op::Read);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("EIO"), "{said}");
    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    is_sound(&document);
    assert_eq!(document["stopped"], "error");

    // It hangs: said with its age, while it hangs.
    let mut child = start(&json, &[&flags[..], &["--timeout=1s"]].concat());
    reads(200);
    let hang = disk.hang(&[Op::Read]);
    let stderr = child.stderr.take().unwrap();
    let said = crate::lab::within(Duration::from_secs(60), move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        lines.into_iter().find(|line| line.contains("given up"))
    });
    let said = said.flatten().expect("nothing was said while the disk hung");
    assert!(said.contains("the disk does not answer: a read has been out for "), "{said}");
    drop(hang);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Of two disks that are as slow the one answers from memory what was read before.
#[test]
fn a_cache_below_the_file_system_is_found_and_a_slow_disk_is_none() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    let [cached, slow] = [FuseDisk::new(), FuseDisk::new()];
    cached.cache(Duration::from_millis(2));
    slow.delay(Op::Read, Duration::from_millis(2));
    for (disk, is_cached) in [(&cached, true), (&slow, false)] {
        let path = disk.path().to_str().unwrap();
        let flags =
            ["--depth", "1", "--seconds", "1", "--warm-up", "100ms", "--file-size", "96MiB", "--json", "-"];
        let output = sweep(&[&["--pattern", "randread,randwrite"], &flags[..], &[path]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        is_sound(&document);
        let [reads, writes] = [0, 1].map(|at| &document["cells"][at]);
        let holds = |cell: &Value| cell["faults"].as_array().unwrap().contains(&"host_cached".into());
        assert_eq!((holds(reads), holds(writes)), (is_cached, false), "{document:#}");
        if is_cached {
            let evidence = reads["evidence"]["host_cached"].as_str().unwrap();
            assert!(evidence.contains("answers blocks that are read again"), "{evidence}");
        }
    }
}
