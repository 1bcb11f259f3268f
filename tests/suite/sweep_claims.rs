//! What a sweep takes from others is a lease: where its disk hangs, the others on it go on; where its target goes, they wait until it has
//! let go; and by hand it never waits for ever.

use crate::lab::{
    Daemon, FileSystem, FuseDisk, Loop, LoopOptions, Mounted, Need, Op, Running, Scratch, eventually, lacks,
    request, within,
};
use crate::reload::reload;
use crate::scheduled_sweeps::soon;
use crate::targets::READS;
use crate::watch::{Seen, seen_when, small_ext4};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DISKS: &[Need] = &[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze")];
/// From this age on an operation has forfeited the disk, and then it is looked at once a second.
const OVERDUE: Duration = Duration::from_secs(10);

/// One sweep soon, that nobody else's load on this machine ends.
fn swept(preset: &str, when: &str, more: &str) -> String {
    format!(
        "{READS}, budget: {{sweep_write_per_day: 100TiB, sweep_read_per_day: 100TiB}}, sweep: {{preset: {preset}, \
         schedule: \"{when}\", time_zone: UTC, {more} guard: {{workload_iops: 1000, queue_depth: 500, io_pressure: 1}}}}"
    )
}

/// Two targets in directories of one disk.
fn two(disk: &Path, names: [&str; 2], keys: [&str; 2]) -> String {
    let one = |(name, keys): (&str, &str)| {
        let path = disk.join(name);
        fs::create_dir_all(&path).unwrap();
        format!("  - {{name: {name}, path: {}, {keys}}}\n", path.display())
    };
    names.into_iter().zip(keys).map(one).collect()
}

fn sweeps(seen: &Seen, target: &str, result: &str) -> f64 {
    seen.0.value("diskcanary_sweeps_total", &[("target", target), ("result", result)]).unwrap()
}

fn is_running(seen: &Seen, target: &str) -> bool {
    seen.0.value("diskcanary_sweep_running", &[("target", target)]) == Some(1.0)
}

fn reads(seen: &Seen, target: &str) -> f64 {
    seen.probe("runs", target, "read")
}

fn skipped(seen: &Seen, target: &str) -> f64 {
    let labels = [("target", target), ("probe", "read"), ("reason", "sweep")];
    seen.0.value("diskcanary_probe_skipped_total", &labels).unwrap()
}

/// Reads of this target go on, and not before what is out there was overdue.
fn goes_on(daemon: &Running, target: &str, since: Instant) {
    let waits = seen_when(daemon, "it waits for the sweep", |seen| skipped(seen, target) > 1.0);
    seen_when(daemon, "others on the disk go on", |seen| reads(seen, target) > reads(&waits, target) + 5.0);
    let took = since.elapsed();
    assert!(took > OVERDUE - Duration::from_secs(2) && took < 4 * OVERDUE, "{target}: {took:?}");
}

#[test]
fn a_sweep_that_hangs_in_opening_or_closing_leaves_the_disk_to_the_others() {
    if lacks(DISKS) {
        return;
    }
    let (opened, closed) = (small_ext4(), small_ext4());
    // After the first cell it rests for hours, with the files of its committers there.
    let when = soon();
    let commits = swept("loaded", &when, "rest: {rate: 1, capacity: 1000000},");
    let config = format!(
        "targets:\n{}{}",
        two(opened.path(), ["opening", "beside-opening"], [&swept("quick", &when, ""), READS]),
        two(closed.path(), ["closing", "beside-closing"], [&commits, READS])
    );
    let daemon = Daemon::new().config(&config).start();
    seen_when(&daemon, "all are measured", |seen| {
        ["opening", "beside-opening", "closing", "beside-closing"].iter().all(|t| reads(seen, t) > 1.0)
    });

    // A sweep that was killed left a file, which the next removes before it opens the others. Frozen, that hangs; reads, which is all
    // that these targets do, do not.
    let home = opened.path().join("opening/.diskcanary");
    fs::copy(home.join("reads"), home.join("committer-0")).unwrap();
    let ice = opened.freeze();
    seen_when(&daemon, "a sweep hangs in opening", |seen| {
        is_running(seen, "opening") && seen.age("opening", "open") > 1.0
    });
    goes_on(&daemon, "beside-opening", Instant::now());
    let seen = seen_when(&daemon, "so does the target itself", |seen| {
        sweeps(seen, "opening", "stalled") == 1.0 && reads(seen, "opening") > 1.0
    });
    assert!(seen.age("opening", "open") > OVERDUE.as_secs_f64(), "it is still out");
    assert_eq!(seen.probe("timeouts", "opening", "read"), 0.0, "what a sweep has out is no probe's");

    let written = [("target", "closing"), ("probe", "sweep"), ("op", "write")];
    seen_when(&daemon, "a cell is over", |seen| {
        seen.0.value("diskcanary_probe_operations_total", &written).is_some_and(|n| n > 0.0)
    });
    let file = closed.path().join("closing/.diskcanary/committer-0");
    let more_ice = closed.freeze();
    let pause = request("POST", daemon.address(), "/api/v1/pause?target=closing&for=1h", &[], &[]).unwrap();
    assert_eq!(pause.status, 200, "{}", pause.text());
    let since = Instant::now();
    seen_when(&daemon, "the sweep is over, and hangs in closing", |seen| {
        sweeps(seen, "closing", "interrupt") == 1.0 && seen.age("closing", "open") > 1.0
    });
    goes_on(&daemon, "beside-closing", since);
    assert!(file.exists(), "it is not removed yet");

    drop((ice, more_ice));
    let leftover = home.join("committer-0");
    eventually("both are removed when the disks answer", || !file.exists() && !leftover.exists());
    seen_when(&daemon, "the other is back when its disk answers", |seen| seen.age("opening", "open") == 0.0);
}

#[test]
fn who_shares_a_disk_waits_for_the_sweep_of_a_target_that_is_taken_away() {
    if lacks(DISKS) || lacks(&[Need::Fuse]) {
        return;
    }
    let fuse = FuseDisk::new();
    let disk = Loop::within(fuse.path(), LoopOptions::of(2 << 30));
    let disk = Mounted::on(FileSystem::Ext4, disk, &["-J", "size=16"], "");
    let keys = [swept("quick", &soon(), ""), swept("nightly", "0 0 29 2 *", "")];
    let both = two(disk.path(), ["going", "staying"], [&keys[0], &keys[1]]);
    let staying = both.lines().nth(1).unwrap();
    let daemon = Daemon::new().config(&format!("targets:\n{both}")).start();
    seen_when(&daemon, "both are measured", |seen| {
        ["going", "staying"].iter().all(|target| reads(seen, target) > 1.0)
    });
    let before = seen_when(&daemon, "the first cell runs", |seen| {
        is_running(seen, "going") && seen.age("going", "open") == 0.0
    });
    let left = |seen: &Seen| {
        let labels = [("target", "staying"), ("kind", "read")];
        seen.0.value("diskcanary_sweep_budget_remaining_ratio", &labels).unwrap()
    };
    std::thread::sleep(Duration::from_secs(1));
    // What the cell has out comes back in five seconds, and until then the disk is its.
    let reads_at = || fuse.count(Op::Read).operations;
    let (arrived, slow) = (reads_at(), Duration::from_secs(5));
    fuse.delay(Op::Read, slow);
    eventually("a slow read is out", || reads_at() > arrived + 1);
    let since = Instant::now();
    reload(&daemon, &format!("targets:\n{staying}\n"));
    while since.elapsed() < slow - Duration::from_secs(2) {
        let seen = Seen::of(&daemon);
        assert!(!seen.0.text.contains("target=\"going\""));
        assert_eq!((reads(&seen, "staying"), seen.age("staying", "read")), (reads(&before, "staying"), 0.0));
        std::thread::sleep(Duration::from_millis(50));
    }
    fuse.heal(Op::Read);
    let after = seen_when(&daemon, "it has the disk", |seen| {
        reads(seen, "staying") > reads(&before, "staying") + 3.0
    });
    let charged = (left(&before) - left(&after)) * (100u64 << 40) as f64;
    assert!(charged > 65_536.0, "the cell that was under way is charged to its disk: {charged} bytes");
    assert!(skipped(&after, "staying") > skipped(&before, "staying"));
    let log = daemon.stderr();
    assert!(log.contains("a sweep was stopped") && log.contains("interrupt"), "{log}");
}

fn by_hand(path: &Path, flags: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskcanary"));
    command.arg("sweep").arg(path).args(["--seconds=1", "--warm-up=100ms"]).args(flags);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The first line of its standard error that says this; it must come while the disk hangs.
fn says(child: &mut Child, what: &'static str) -> String {
    let stderr = child.stderr.take().unwrap();
    let line = within(Duration::from_secs(60), move || {
        BufReader::new(stderr).lines().map_while(Result::ok).find(|line| line.contains(what))
    });
    line.flatten().unwrap_or_else(|| panic!("`{what}` was not said while the disk hung"))
}

#[test]
fn by_hand_a_disk_that_hangs_between_cells_is_given_up() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    // The look at the file after a cell; then the file of a committer, which is made before one.
    for (flags, op) in [
        (["--pattern=randread", "--depth=1,2", "--file-size=64MiB"], Op::Lookup),
        (["--pattern=randread,commit", "--depth=1", "--file-size=64MiB"], Op::Create),
    ] {
        let disk = FuseDisk::new();
        let mut child = by_hand(disk.path(), &[&flags[..], &["--timeout=2s"]].concat());
        // The file is laid out and looked at, and 4 KiB are read.
        let before = disk.count(Op::Read).operations;
        eventually("reads are under way", || disk.count(Op::Read).operations > before + 500);
        let hang = disk.hang(&[op]);
        let said = says(&mut child, "given up");
        assert!(said.contains("a look at the probe files has been out for "), "{op:?}: {said}");
        drop(hang);
        assert_eq!(child.wait().unwrap().code(), Some(1), "{op:?}");
    }
}

#[test]
fn by_hand_what_a_hang_leaves_is_said_and_a_path_that_goes_is_told_from_a_disk_that_fails() {
    if lacks(&[Need::Fuse]) {
        return;
    }
    let (disk, results) = (FuseDisk::new(), Scratch::new());
    let flags = ["--pattern=randread", "--depth=1,2", "--file-size=64MiB"];
    assert_eq!(by_hand(disk.path(), &[&flags[..], &["--keep"]].concat()).wait().unwrap().code(), Some(0));
    let under_way = || {
        let before = disk.count(Op::Read).operations;
        eventually("reads are under way", || disk.count(Op::Read).operations > before + 500);
    };
    // The read file is there, and a larger one is made for this sweep alone.
    let larger = ["--pattern=randread", "--depth=1", "--file-size=96MiB", "--timeout=1s"];
    let mut child = by_hand(disk.path(), &larger);
    under_way();
    let hang = disk.hang(&[Op::Read]);
    let said = says(&mut child, "may be left in");
    assert!(said.contains("the next sweep there removes it"), "{said}");
    drop(hang);
    assert_eq!(child.wait().unwrap().code(), Some(1));

    let json = results.path().join("a.json").display().to_string();
    let mut child = by_hand(disk.path(), &[&flags[..], &["--json", &json]].concat());
    under_way();
    fs::remove_file(disk.backing().join(".diskcanary/reads")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "as for a path that was never there");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("reads is not in its place") && said.contains("ENOENT"), "{said}");
    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(document["stopped"], "error");
}
