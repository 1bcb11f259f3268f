//! `sweep` where the truth is known or the surroundings are hard: a disk that declines and dips by a script, one that is slow when
//! busy, little memory, impatience, and a path that goes in the middle.

use crate::lab::{
    FileSystem, FuseDisk, Loop, LoopOptions, Memory, Mounted, Need, Op, Pace, Scratch, assert_valid,
    eventually, eventually_within, first_on_the_cpu, full, in_cgroup, lacks, output_within, run,
    we_are_first_on_the_cpu,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const GIB: u64 = 1 << 30;
const MINUTE: Duration = Duration::from_secs(60);
const DISKS: &[Need] = &[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4")];

fn command(path: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskcanary"));
    command.arg("sweep").arg(path).args(flags).stdin(Stdio::null());
    command
}

/// The result of a sweep, which is valid by its schema.
fn read(json: &Path) -> Value {
    let document = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let schema = serde_json::from_str(include_str!("../../docs/sweep.schema.json")).unwrap();
    assert_valid(&document, &schema);
    document
}

fn swept(mut command: Command, patience: Duration) -> (Output, Value) {
    let results = Scratch::new();
    let json = results.path().join("a.json");
    command.arg("--json").arg(&json);
    let output = output_within(patience, command);
    assert!(output.status.success(), "{output:?}");
    (output, read(&json))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A sweep under way, and where its result will be.
struct Started {
    child: Child,
    json: PathBuf,
    _results: Scratch,
}

impl Started {
    fn on(path: &Path, flags: &[&str]) -> Self {
        let results = Scratch::new();
        let json = results.path().join("a.json");
        let mut command = command(path, flags);
        command.arg("--json").arg(&json).stdout(Stdio::null()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap(), json, _results: results }
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Whether it has ended but for threads that the kernel holds.
    fn is_over(&mut self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.contains(") Z ") || self.child.try_wait().unwrap().is_some()
    }

    /// Its code, what it said, and its result.
    fn end(self) -> (Option<i32>, String, Value) {
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned(), read(&self.json))
    }
}

/// A disk that falls by 4 % in ten minutes and dips to a quarter each 30 s for 2 s; without `--full` all of it runs ten to twenty times as
/// quickly.
#[test]
fn a_decline_and_the_dips_of_a_disk_are_reported() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    let (time, dip_each, dip) = if full() { (600, 30.0, 2.0) } else { (31, 3.0, 0.5) };
    // What this shows is the disk's: its threads, which come from this one, and the sweep do not wait for other tests.
    we_are_first_on_the_cpu();
    let disk = FuseDisk::new();
    // The file is laid out before the disk goes by its script.
    let first = ["--pattern=randread", "--depth=1", "--seconds=100ms", "--file-size=64MiB", "--keep"];
    swept(command(disk.path(), &first), MINUTE);
    let over = Duration::from_secs(time);
    let seconds = Duration::from_secs_f64;
    let (dip_each, dip) = (seconds(dip_each), seconds(dip));
    disk.pace(Pace { rate: 400.0, decline: 0.04, over, dip_each, dip, dip_to: 0.25 });
    let flags = [
        "--pattern=randwrite",
        "--depth=16",
        "--warm-up=100ms",
        "--file-size=64MiB",
        "--yes",
        &format!("--seconds={time}"),
    ];
    let mut command = command(disk.path(), &flags);
    first_on_the_cpu(&mut command);
    let (output, document) = swept(command, over + MINUTE);
    let cell = &document["cells"][0];
    let shape = &cell["shape"];
    println!("{shape}");
    let decline = shape["decline"].as_f64().expect("a decline");
    let period = shape["troughs"]["period_seconds"].as_f64().expect("a period");
    assert!((decline - 0.04).abs() <= 0.01, "{shape}");
    let tolerance = if full() { 1.0 } else { 0.1 };
    assert!((period - dip_each.as_secs_f64()).abs() <= tolerance, "{shape}");
    let count = shape["troughs"]["count"].as_f64().unwrap();
    assert!((count - over.as_secs_f64() / dip_each.as_secs_f64()).abs() <= 1.5, "{shape}");
    assert!(shape["variation"].as_f64().unwrap() > 0.1, "{shape}");
    assert!(cell["series"].as_array().unwrap().len() as u64 >= time - 2, "second by second");
    let report = text(&output.stdout);
    for part in ["% from beginning to end", &format!("one each {:.0} s", dip_each.as_secs_f64())] {
        assert!(report.contains(part), "no `{part}` in\n{report}");
    }
}

/// A disk that is quick while it is idle: a sync takes 20 ms, and half of that again for each read that is under way.
#[test]
fn a_disk_that_is_slow_when_busy_is_quiet_before_and_slow_by_its_factor() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    const SYNC: f64 = 0.02;
    // Two milliseconds more are seen here: the disk's threads, which come from this one, and the sweep do not wait for other tests.
    we_are_first_on_the_cpu();
    let disk = FuseDisk::new();
    let seconds = Duration::from_secs_f64;
    disk.delay(Op::Sync, seconds(SYNC));
    disk.delay(Op::Read, Duration::from_millis(40));
    let flags =
        ["--pattern=backup", "--block-size=64KiB", "--warm-up=200ms", "--file-size=64MiB", "--keep", "--yes"];
    let measured = |flags: &[&str]| {
        let mut command = command(disk.path(), flags);
        first_on_the_cpu(&mut command);
        let (output, document) = swept(command, 2 * MINUTE);
        (text(&output.stdout).to_owned(), document["cells"][0].clone())
    };
    // While reads do not disturb commits, p99 stays where it is, and the report says so. The machine's own stalls are not the disk's: they
    // are out of the way in one of three runs.
    let all = |seconds: &'static str| [&flags[..], &[seconds]].concat();
    let of_three = |says: &str, factor: f64| {
        let mut seen = Vec::new();
        for _ in 0..3 {
            let (report, cell) = measured(&all("--seconds=10.5"));
            let quiet = |stat: &str| cell["quiet"]["commit"][stat].as_f64().unwrap() / 1e9;
            let ratio = |stat: &str| cell["loaded_ratio"]["commit"][stat].as_f64().unwrap();
            seen.push((quiet("p50"), quiet("p99"), ratio("p50"), ratio("p99")));
            let near = |value: f64, truth: f64| (value / truth - 1.0).abs() <= 0.1;
            if near(quiet("p50"), SYNC)
                && near(quiet("p99"), SYNC)
                && near(ratio("p50"), factor)
                && near(ratio("p99"), factor)
            {
                assert!(report.contains(says), "no `{says}` in\n{report}");
                return seen;
            }
        }
        panic!(
            "quiet p50 and p99, and both under load ÷ quiet, were {seen:?}; {SYNC} s and {factor} were true"
        );
    };
    println!("{:?}", of_three("p99 stays within 15 %", 1.0));
    disk.delay_beside(Op::Sync, Op::Read, seconds(SYNC / 2.0));
    println!("{:?}", of_three("p99 rises by more than 15 %", 2.0));
}

/// A host with 48 MiB for us, and a pool of 16: what does not fit is left out, what fits is measured, and nobody is killed.
#[test]
fn with_little_memory_large_cells_are_left_out() {
    if lacks(DISKS) || lacks(&[Need::Cgroup("memory")]) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 2 * GIB);
    let (group, results) = (Memory::new(48 << 20), Scratch::new());
    let json = results.path().join("a.json");
    let flags = [
        "--preset=standard",
        "--seconds=100ms",
        "--warm-up=20ms",
        "--file-size=64MiB",
        "--memory=16MiB",
        "--yes",
    ];
    let mut command = command(disk.path(), &flags);
    in_cgroup(command.arg("--json").arg(&json), group.path());
    let output = output_within(2 * MINUTE, command);
    let (killed, most) = group.killed_and_most();
    println!("at most {} MiB in use", most >> 20);
    assert!(output.status.success() && killed == 0, "{killed} killed: {output:?}");
    let document = read(&json);
    let (cells, skipped) = (document["cells"].as_array().unwrap(), document["skipped"].as_array().unwrap());
    assert_eq!(cells.len() + skipped.len(), 45);
    let large = |one: &Value| one["block_size"].as_u64().unwrap() * one["depth"].as_u64().unwrap() > 16 << 20;
    assert!(cells.iter().all(|cell| !large(cell) && cell["operations"].as_u64() > Some(0)), "{cells:?}");
    // 32 and 64 of 1 MiB, read and written.
    assert_eq!(skipped.iter().filter(|one| large(one)).count(), 4, "{skipped:?}");
    for one in skipped {
        assert_eq!(one["reason"], "memory", "{one}");
        assert!(one["message"].as_str().unwrap().contains("16MiB"), "{one}");
    }
    assert!(text(&output.stdout).contains("Left out:"), "{output:?}");
}

#[test]
fn a_second_interrupt_waits_for_nothing() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let flags = ["--pattern=randread", "--depth=1,2", "--seconds=1", "--warm-up=100ms", "--file-size=64MiB"];
    let mut sweep = Started::on(disk.path(), &flags);
    let before = disk.count(Op::Read).operations;
    eventually("reads are under way", || disk.count(Op::Read).operations > before + 200);
    std::thread::sleep(Duration::from_millis(1500));
    let hang = disk.hang(&[Op::Read]);
    eventually("the second cell hangs", || disk.count(Op::Read).inside >= 2);
    sweep.interrupt();
    std::thread::sleep(Duration::from_secs(1));
    assert!(sweep.child.try_wait().unwrap().is_none(), "the first is waited with for the disk");
    sweep.interrupt();
    // What the kernel holds of it until the disk answers, no program can end; all else of it is over, and the result is there.
    eventually_within(Duration::from_secs(10), "it ends while the disk hangs", || sweep.is_over());
    assert_eq!(disk.count(Op::Read).inside, 2, "the disk still hangs");
    assert_eq!(read(&sweep.json)["stopped"], "interrupt");
    drop(hang);
    let (code, said, document) = sweep.end();
    assert_eq!((code, &document["stopped"]), (Some(1), &"interrupt".into()), "{said}");
    assert_eq!(
        (document["cells"].as_array().unwrap().len(), document["skipped"].as_array().unwrap().len()),
        (1, 1)
    );
    assert!(said.contains("interrupted") && said.contains("probe files are left"), "{said}");
}

#[test]
fn a_path_that_goes_in_the_middle_leaves_what_was_measured() {
    if lacks(DISKS) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 2 * GIB);
    let flags =
        ["--pattern=randread", "--depth=1,2,4", "--seconds=2", "--warm-up=100ms", "--file-size=64MiB"];
    let sweep = Started::on(disk.path(), &flags);
    eventually("the file is laid out and a cell runs", || {
        let reads = fs::metadata(disk.path().join(".diskcanary/reads"));
        reads.is_ok_and(|reads| reads.len() == 64 << 20) && disk.disk().reads() > 1000
    });
    std::thread::sleep(Duration::from_millis(2500));
    run("umount", &["-l".as_ref(), disk.path().as_os_str()]);
    let (code, said, document) = sweep.end();
    assert_eq!((code, &document["stopped"]), (Some(2), &"error".into()), "{said}");
    assert!(
        said.lines().count() == 2 && said.contains("/.diskcanary/reads is not in its place: ENOENT"),
        "{said}"
    );
    let (cells, skipped) = (document["cells"].as_array().unwrap(), document["skipped"].as_array().unwrap());
    assert!(!cells.is_empty() && cells.len() + skipped.len() == 3, "{document}");
    assert!(skipped.iter().all(|one| one["reason"] == "error"), "{skipped:?}");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "nothing was made where the disk was mounted");
}

/// Said before anything is made, in one line.
#[test]
fn what_no_disk_could_do_is_refused() {
    if lacks(DISKS) {
        return;
    }
    // A disk with blocks of 4 KiB, on which everything would work.
    let disk = Loop::with(LoopOptions { sector: 4096, ..LoopOptions::of(2 * GIB) });
    let disk = Mounted::on(FileSystem::Ext4, disk, &[], "");
    for (flags, says) in [
        (&["--pattern=randread", "--block-size=1KiB", "--depth=1"][..], "no multiple of the device's, 4KiB"),
        (&["--pattern=seqread", "--depth=64", "--jobs=64"], "4GiB of buffers, and `--memory` allows 96MiB"),
        (&["--pattern=randread", "--seconds=1", "--warm-up=1s"], "warm-up"),
        (&["--preset=quick", "--depth=4"], "the preset `quick` has its own patterns"),
    ] {
        let output = output_within(MINUTE, command(disk.path(), flags));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains(says) && said.lines().count() == 1 && output.stdout.is_empty(),
            "{flags:?}: {output:?}"
        );
        assert!(!disk.path().join(".diskcanary").exists(), "{flags:?} left something");
    }
}
