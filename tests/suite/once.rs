//! `probe`, `clean`, `check` and `explain` on real disks: what they say, how they end, and what they leave behind.

use crate::lab::{
    Daemon, FileSystem, FuseDisk, Loop, LoopOptions, Mounted, Need, Op, as_user, deny_io_uring, eventually,
    lacks, output_within,
};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const GIB: u64 = 1 << 30;
const DISKS: &[Need] = &[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4")];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskcanary"));
    command.args(args).stdin(Stdio::null());
    command
}

fn diskcanary(args: &[&str]) -> Output {
    output_within(Duration::from_secs(120), command(args))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn is_empty_but_for_lost_and_found(disk: &Path) -> bool {
    fs::read_dir(disk).unwrap().all(|entry| entry.unwrap().file_name() == "lost+found")
}

/// Each distribution of a document, with the pointer at which it stands.
fn distributions(document: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (at, phases) in [
        ("/commit/latency_ns/write", document),
        ("/commit/latency_ns/sync", document),
        ("/commit/latency_ns/commit", document),
        ("/read/latency_ns/read", document),
    ] {
        for phase in ["first", "warm"] {
            let pointer = format!("{at}/{phase}");
            let figures = phases.pointer(&pointer).filter(|v| !v.is_null());
            found.extend(figures.map(|figures| (pointer, figures)));
        }
    }
    found
}

#[test]
fn probe_tells_a_file_system_and_leaves_it_as_it_was() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 2 * GIB);
    let path = disk.path().to_str().unwrap();
    let small = ["probe", path, "--runs=5", "--file-size=64MiB"];
    let output = diskcanary(&[&small[..], &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["target"]["file_system"], "ext4");
    assert_eq!(document["target"]["device"], disk.disk().device().file_name().unwrap().to_str().unwrap());
    let all = distributions(&document);
    assert!(all.iter().any(|(at, _)| at == "/read/latency_ns/read/warm"), "{document}");
    for (at, figures) in all {
        let of = |key: &str| figures[key].as_u64().unwrap();
        let (min, p50, p90, max) = (of("min"), of("p50"), of("p90"), of("max"));
        assert!(0 < min && min <= p50 && p50 <= p90 && p90 <= max, "{at}: {figures}");
        assert!(figures["p99"].is_null() || (p90..=max).contains(&of("p99")), "{at}: {figures}");
        let mean = figures["mean"].as_f64().unwrap();
        assert!(min as f64 <= mean && mean <= max as f64, "{at}: {figures}");
    }
    assert_eq!((&document["commit"]["runs"], &document["read"]["runs"]), (&5.into(), &5.into()));
    let cost = &document["cost"];
    assert_eq!((&cost["writes"], &cost["syncs"], &cost["reads"]), (&15.into(), &15.into(), &(5 * 64).into()));
    assert!(document["read"]["burst"]["iops_p50"].as_f64().unwrap() > 0.0);
    // A busy machine starves us now and then, and to say so is right.
    let about_the_disk = |f: &&serde_json::Value| f["verdict"] == "holds" && f["fault"] != "starved";
    let held: Vec<_> = document["findings"].as_array().unwrap().iter().filter(about_the_disk).collect();
    assert!(held.is_empty(), "{held:?}");
    assert!(is_empty_but_for_lost_and_found(disk.path()), "something was left");

    let output = diskcanary(&[&small[..], &["--profile=etcd", "--engine=threads", "--keep"]].concat());
    let table = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    for part in [
        "profile etcd: 2300B, buffered, fdatasync",
        "engine threads (asked for)",
        "IOPS",
        "Checked and fine: ",
    ] {
        assert!(table.contains(part), "no `{part}` in\n{table}");
    }
    let home = disk.path().join(".diskcanary");
    assert_eq!(fs::metadata(home.join("reads")).unwrap().len(), 64 << 20);

    // Files from before are used as they are and stay, whatever size is asked for now.
    let head = || fs::read(home.join("reads")).unwrap()[..4096].to_vec();
    let before = head();
    let output = diskcanary(&["probe", path, "--runs=1", "--file-size=128MiB"]);
    assert!(output.status.success(), "{output:?}");
    assert!(head() == before && fs::metadata(home.join("reads")).unwrap().len() == 64 << 20);
    let output = diskcanary(&["clean", path]);
    assert!(output.status.success() && text(&output.stdout).contains("/.diskcanary/reads\n"), "{output:?}");
    assert!(is_empty_but_for_lost_and_found(disk.path()));
    let again = diskcanary(&["clean", path]);
    assert!(again.status.success() && text(&again.stdout).starts_with("nothing to remove"), "{again:?}");
}

#[test]
fn probe_only_reads_a_raw_device() {
    if lacks(DISKS) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(64 << 20) });
    let device = disk.device().to_str().unwrap();
    let (checksum, reads, writes) = (disk.checksum(), disk.reads(), disk.writes());
    let output = diskcanary(&["probe", device, "--runs=3"]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(table.contains(" read ") && !table.contains(" sync ") && !table.contains("files "), "{table}");
    assert!(disk.reads() >= reads + 3 * 64, "{} reads after {reads}", disk.reads());
    assert_eq!((disk.writes(), disk.checksum()), (writes, checksum));
    let clean = diskcanary(&["clean", device]);
    assert!(clean.status.success() && text(&clean.stdout).contains("is a block device"), "{clean:?}");

    let empty = Loop::new(64 << 20);
    let output = diskcanary(&["probe", empty.device().to_str().unwrap(), "--runs=1"]);
    assert!(text(&output.stdout).contains("Not to be trusted:\n  zeros (read): all 64 blocks"), "{output:?}");
    let mut nobody = command(&["probe", device]);
    as_user(&mut nobody, "nobody");
    let output = output_within(Duration::from_secs(60), nobody);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("EACCES") && text(&output.stderr).contains("mode bits"),
        "{output:?}"
    );
}

#[test]
fn a_daemon_keeps_probe_and_clean_out() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, GIB);
    let path = disk.path().to_str().unwrap();
    let config = format!(
        "targets: [{{name: a, path: {path}, commit: {{file_size: 4MiB, interval: 100ms}}, read: {{enabled: false}}}}]"
    );
    let daemon = Daemon::new().config(&config).start();
    eventually("commits are counted", || {
        daemon.scrape().sum("diskcanary_commit_duration_seconds_count", &[]) > 0.0
    });
    for command in ["probe", "clean"] {
        let output = diskcanary(&[command, path]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            output.stdout.is_empty() && text(&output.stderr).contains("in use by another diskcanary"),
            "{output:?}"
        );
    }
    assert!(disk.path().join(".diskcanary/commits").exists());
}

#[test]
fn a_disk_that_hangs_is_told_with_its_age() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let path = disk.path().to_str().unwrap().to_owned();
    let hang = disk.hang(&[Op::Write]);
    let mut child = command(&["probe", &path, "--timeout=1s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The kernel holds the process until the disk answers; what it has to say is there before.
    let mut stderr = child.stderr.take().unwrap();
    let said = crate::lab::within(Duration::from_secs(60), move || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&mut stderr), &mut line).unwrap();
        line
    });
    let said = said.expect("nothing was said while the disk hung");
    assert!(said.contains("the disk does not answer") && said.contains(" s and is given up"), "{said}");
    drop(hang);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn an_interrupt_removes_what_was_made() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 2 * GIB);
    let path = disk.path().to_str().unwrap();
    let mut child = command(&["probe", path, "--file-size=64MiB", "--runs=10000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("a probe file is there", || disk.path().join(".diskcanary/reads").exists());
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(is_empty_but_for_lost_and_found(disk.path()), "something was left");
}

#[test]
fn without_room_or_ring_it_says_so() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 256 << 20);
    let path = disk.path().to_str().unwrap();
    let output = diskcanary(&["probe", path, "--runs=1"]);
    assert_eq!(output.status.code(), Some(1), "commits only");
    let said = text(&output.stdout);
    assert!(said.contains(" commit ") && said.contains("no room for the probe file `reads`"), "{said}");
    assert!(is_empty_but_for_lost_and_found(disk.path()));
    let config = disk.path().join("c.yml");
    fs::write(&config, format!("targets: [{{name: a, path: {path}}}]")).unwrap();
    for (command, word) in [("check", "warning: target `a`: no room"), ("explain", "none now: no room")] {
        let output = diskcanary(&[command, config.to_str().unwrap()]);
        assert!(output.status.success() && text(&output.stdout).contains(word), "{output:?}");
    }

    let device = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(16 << 20) });
    let mut denied = command(&["probe", device.device().to_str().unwrap(), "--runs=1"]);
    deny_io_uring(&mut denied, libc::EPERM);
    let output = output_within(Duration::from_secs(60), denied);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("engine threads (no io_uring") && said.contains("EPERM"),
        "{said}"
    );
}

#[test]
fn check_refuses_what_can_never_work_and_names_the_way_out() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, GIB);
    let memory = Mounted::tmpfs(16 << 20);
    let config = memory.path().join("c.yml");
    let check = |keys: &str| {
        fs::write(&config, format!("targets: [{{name: a, {keys}}}]")).unwrap();
        let output = diskcanary(&["check", config.to_str().unwrap()]);
        (output.status.code().unwrap(), text(&output.stdout).to_owned())
    };
    let root = disk.path().display();
    let (code, said) = check(&format!("path: {}", memory.path().display()));
    assert!(code == 2 && said.contains("name a directory on a disk"), "{said}");
    let (code, said) = check(&format!("path: {root}, probe_dir: {}", memory.path().display()));
    assert!(code == 2 && said.contains("is not on the file system of"), "{said}");
    let (code, said) = check(&format!("path: {root}, probe_dir: {root}/none"));
    assert!(code == 0 && said.starts_with("warning: target `a`: probe_dir cannot be used"), "{said}");

    let main = disk.path().join("main");
    fs::create_dir(&main).unwrap();
    fs::write(main.join("PG_VERSION"), "15").unwrap();
    let (code, said) = check(&format!("path: {}", main.display()));
    assert!(code == 0 && said.contains(&format!("note: target `a`: our files go to {root}")), "{said}");
    fs::write(disk.path().join("PG_VERSION"), "15").unwrap();
    let (code, said) = check(&format!("path: {}", main.display()));
    assert!(code == 2 && said.contains("probe_dir") && said.contains("PostgreSQL"), "{said}");
    let probe = diskcanary(&["probe", main.to_str().unwrap()]);
    assert_eq!(probe.status.code(), Some(2), "{probe:?}");
    assert_eq!(fs::read_dir(&main).unwrap().count(), 1, "something was made in PGDATA");
}
