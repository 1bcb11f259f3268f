//! Sweeps by a schedule on real disks: the latency probes pause and go on, a workload that wakes up, a pause, a reload and the end of the
//! daemon end one with what it has, a disk that freezes in the middle of one stops nobody else, one whose counters nobody keeps is never
//! swept, and what was found is there after a restart.

use crate::lab::{
    Credits, Daemon, FileSystem, FuseDisk, Loop, LoopOptions, Mounted, Need, Running, Scratch,
    eventually_within, full, lacks, request,
};
use crate::reload::reload;
use crate::watch::{PATIENCE, Seen, seen_when};
use diskcanary::schedule::calendar::{Calendar, time_zone};
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NEEDS: &[Need] = &[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze")];

/// An ext4 with room for the smallest read file.
fn ext4() -> Mounted {
    let disk = Loop::with(LoopOptions::of(2 << 30));
    Mounted::on(FileSystem::Ext4, disk, &["-J", "size=16"], "")
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The one minute of the year that begins next, but not before the probe files are laid out and the guard has seen ten seconds.
pub(crate) fn soon() -> String {
    let minute = (wall() + Duration::from_secs(20)).as_secs() / 60 + 1;
    let calendar = Calendar::new("* * * * *", time_zone(Some("UTC")).unwrap()).unwrap();
    let shown = calendar.shown(Duration::from_secs(minute * 60));
    // 2026-12-01 03:30:00 +00:00
    let part =
        |range: std::ops::Range<usize>| shown[range].trim_start_matches('0').parse::<u32>().unwrap_or(0);
    format!("{} {} {} {} *", part(14..16), part(11..13), part(8..10), part(5..7))
}

fn target(name: &str, path: &Path, preset: &str, schedule: &str) -> String {
    // Cells that end by time may take more than a night does.
    let budget = match preset {
        "nightly" => "",
        _ => "    budget: {sweep_write_per_day: 100TiB, sweep_read_per_day: 100TiB}\n",
    };
    format!(
        "  - name: {name}\n    path: {}\n    commit: {{interval: 200ms, file_size: 4MiB}}\n    read: {{interval: 1s, file_size: 64MiB}}\n    \
         sweep: {{preset: {preset}, schedule: \"{schedule}\", time_zone: UTC, guard: {{workload_iops: 150, queue_depth: 50, io_pressure: 1}}}}\n\
         {budget}",
        path.display()
    )
}

fn sweep(seen: &Seen, target: &str, family: &str) -> Option<f64> {
    seen.0.value(&format!("diskcanary_{family}"), &[("target", target)])
}

fn ended(seen: &Seen, target: &str, result: &str) -> f64 {
    seen.0.value("diskcanary_sweeps_total", &[("target", target), ("result", result)]).unwrap()
}

fn skipped(seen: &Seen, target: &str, probe: &str) -> f64 {
    let labels = [("target", target), ("probe", probe), ("reason", "sweep")];
    seen.0.value("diskcanary_probe_skipped_total", &labels).unwrap()
}

fn cells(seen: &Seen, target: &str) -> usize {
    seen.0.all("diskcanary_sweep_achieved_depth", &[("target", target)]).len()
}

/// Somebody who writes to the disk as fast as it goes, past the cache, until dropped.
struct Workload {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Workload {
    fn on(directory: &Path) -> Self {
        let (path, stop) = (directory.join("workload"), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&stop);
        let work = move || {
            let file = OpenOptions::new().create(true).append(true).custom_flags(libc::O_DSYNC).open(path);
            let mut file = file.unwrap();
            while !told.load(Relaxed) {
                file.write_all(&[7; 8192]).unwrap();
            }
        };
        Self { stop, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn is_running(seen: &Seen, target: &str) -> bool {
    sweep(seen, target, "sweep_running") == Some(1.0)
}

const SWEPT: [&str; 6] = ["quiet", "busy", "frozen", "paused", "changed", "long"];

/// One night on seven disks at once: one is left alone, one gets a workload, one freezes, one is paused, one gets other files, one is
/// still swept when the daemon ends, and of one nobody knows what others do on it.
#[test]
fn a_night_on_seven_disks() {
    if lacks(NEEDS) || lacks(&[Need::Fuse]) {
        return;
    }
    let disks = SWEPT.map(|_| ext4());
    let [quiet, busy, frozen, paused, changed, long] = &disks;
    let unseen = FuseDisk::new();
    let when = soon();
    let targets = [
        target("quiet", quiet.path(), "nightly", &when),
        target("busy", busy.path(), "quick", &when),
        target("frozen", frozen.path(), "quick", &when),
        target("paused", paused.path(), "quick", &when),
        target("changed", changed.path(), "quick", &when),
        target("long", long.path(), "standard", &when),
        target("unseen", unseen.path(), "nightly", &when),
    ];
    let config = format!("memory: 1GiB\ntargets:\n{}", targets.concat());
    what_cannot_be_seen_is_told_beforehand(&config);
    let daemon = Daemon::new().config(&config);
    let state = daemon.state();
    let daemon = daemon.start();
    let before = seen_when(&daemon, "all are measured", |seen| {
        SWEPT.iter().chain(&["unseen"]).all(|name| seen.samples(name, "read") > 16.0)
    });
    for name in SWEPT {
        let next = sweep(&before, name, "sweep_next_timestamp_seconds").unwrap();
        assert!(next > wall().as_secs_f64() && next < wall().as_secs_f64() + 90.0, "{next}");
        assert!(cells(&before, name) == 0 && !is_running(&before, name));
    }
    probes_pause_while_it_runs(&daemon);
    // Cells take 7 s here, so that the first is over and the second, of reads too, is not.
    let began = sweep(&Seen::of(&daemon), "busy", "sweep_last_start_timestamp_seconds").unwrap();
    std::thread::sleep((Duration::from_secs_f64(began + 9.0)).saturating_sub(wall()));
    let workload = Workload::on(busy.path());
    let freeze = frozen.freeze();
    let pause = request("POST", daemon.address(), "/api/v1/pause?target=paused&for=1h", &[], &[]).unwrap();
    assert_eq!(pause.status, 200, "{}", pause.text());
    let config = other_files(&config);
    reload(&daemon, &config);
    what_was_left_alone_is_complete(&daemon);
    the_workload_ended_it(&daemon);
    drop(workload);
    a_pause_ended_it(&daemon);
    a_reload_ended_it(&daemon, changed.path());
    the_frozen_one_stops_nobody(&daemon);
    drop(freeze);
    let well = seen_when(&daemon, "the frozen one is well again", |seen| {
        seen.up("frozen") == Some(1.0) && seen.is_in("frozen", "ready")
    });
    seen_when(&daemon, "and its probes go on", |seen| {
        seen.probe("runs", "frozen", "commit") > well.probe("runs", "frozen", "commit") + 3.0
    });
    what_cannot_be_seen_is_not_swept(&daemon);
    the_last_one_is_there_after_a_restart(daemon, &config, &state);
}

/// The same config, in which the read file of one target has another size.
fn other_files(config: &str) -> String {
    let (before, from) = config.split_once("  - name: changed\n").unwrap();
    format!("{before}  - name: changed\n{}", from.replacen("file_size: 64MiB", "file_size: 70MiB", 1))
}

fn what_cannot_be_seen_is_told_beforehand(config: &str) {
    let folder = Scratch::new();
    let file = folder.file("diskcanary.yml", config);
    let output = Command::new(env!("CARGO_BIN_EXE_diskcanary")).arg("check").arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let warning =
        "warning: target `unseen`: `sweep` will never begin: the kernel keeps no counters of a disk here";
    assert!(output.status.success() && said.contains(warning), "{output:?}");
    assert_eq!(said.matches("will never begin").count(), 1, "{said}");
}

/// A sweep takes a disk from others; where it cannot be seen whether they need it, it never does.
fn what_cannot_be_seen_is_not_swept(daemon: &Running) {
    let seen = Seen::of(daemon);
    let waiting = [("target", "unseen"), ("reason", "unseen")];
    assert_eq!(seen.0.value("diskcanary_sweep_waiting", &waiting), Some(1.0));
    assert!(sweep(&seen, "unseen", "sweep_last_start_timestamp_seconds").is_none());
    let runs = seen.probe("runs", "unseen", "commit");
    seen_when(daemon, "it is probed as ever", |seen| seen.probe("runs", "unseen", "commit") > runs + 3.0);
}

/// Somebody ended it: what it has is shown, as partial.
fn is_interrupted(daemon: &Running, target: &str) {
    let seen = seen_when(daemon, "it is ended", |seen| ended(seen, target, "interrupt") == 1.0);
    assert_eq!((ended(&seen, target, "error"), ended(&seen, target, "complete")), (0.0, 0.0), "{target}");
    assert!((1..4).contains(&cells(&seen, target)), "{target}: {} of 4 cells", cells(&seen, target));
    assert_eq!(sweep(&seen, target, "sweep_results_partial"), Some(1.0), "{target}");
    let log = daemon.stderr();
    let line =
        |line: &&str| line.contains("a sweep was stopped; what it found is shown") && line.contains(target);
    assert!(log.lines().find(line).is_some_and(|line| line.contains("interrupt")), "{log}");
}

fn a_pause_ended_it(daemon: &Running) {
    is_interrupted(daemon, "paused");
    let before = Seen::of(daemon);
    assert_eq!(sweep(&before, "paused", "target_paused"), Some(1.0));
    let resume = request("POST", daemon.address(), "/api/v1/resume?target=paused", &[], &[]).unwrap();
    assert_eq!(resume.status, 200, "{}", resume.text());
    let runs = before.probe("runs", "paused", "commit");
    seen_when(daemon, "its probes go on", |seen| seen.probe("runs", "paused", "commit") > runs + 3.0);
}

fn a_reload_ended_it(daemon: &Running, disk: &Path) {
    is_interrupted(daemon, "changed");
    let reads = disk.join(".diskcanary/reads");
    eventually_within(PATIENCE, "the other read file is there", || {
        std::fs::metadata(&reads).is_ok_and(|reads| reads.len() == 70 << 20)
    });
    let runs =
        |seen: &Seen| seen.probe("runs", "changed", "commit").min(seen.probe("runs", "changed", "read"));
    let before = runs(&Seen::of(daemon));
    seen_when(daemon, "both of its probes go on", |seen| {
        runs(seen) > before + 2.0 && seen.is_in("changed", "ready")
    });
}

fn probes_pause_while_it_runs(daemon: &Running) {
    let first = seen_when(daemon, "a sweep of seconds is under way", |seen| {
        is_running(seen, "busy") && is_running(seen, "frozen") && skipped(seen, "busy", "commit") > 3.0
    });
    std::thread::sleep(Duration::from_secs(2));
    let then = Seen::of(daemon);
    let runs = |seen: &Seen| seen.probe("runs", "busy", "commit") + seen.probe("runs", "busy", "read");
    assert!(is_running(&then, "busy"), "28 s of cells are not over yet");
    assert_eq!(runs(&then), runs(&first), "the disk is the sweep's alone");
    assert!(skipped(&then, "busy", "commit") > skipped(&first, "busy", "commit"));
    assert_eq!((then.up("busy"), then.is_in("busy", "ready")), (Some(1.0), true));
}

fn what_was_left_alone_is_complete(daemon: &Running) {
    let seen = seen_when(daemon, "a complete one", |seen| ended(seen, "quiet", "complete") == 1.0);
    assert!(cells(&seen, "quiet") >= 20, "{} cells", cells(&seen, "quiet"));
    assert_eq!(sweep(&seen, "quiet", "sweep_results_partial"), Some(0.0));
    let began = sweep(&seen, "quiet", "sweep_last_start_timestamp_seconds").unwrap();
    let end = sweep(&seen, "quiet", "sweep_last_end_timestamp_seconds").unwrap();
    assert_eq!(sweep(&seen, "quiet", "sweep_last_completion_timestamp_seconds"), Some(end));
    assert!(began <= end && began.rem_euclid(60.0) < 5.0, "{began} to {end}");
    let log = daemon.stderr();
    let line = log.lines().find(|line| line.contains("a sweep is complete")).unwrap();
    let said = line.split("seconds=").nth(1).and_then(|rest| rest.split([' ', '"']).next()).unwrap();
    assert!((said.parse::<f64>().unwrap() - (end - began)).abs() < 0.1, "{began} to {end}: {line}");
    // Cells of a night are too short to tell of a decline.
    assert_eq!(seen.0.all("diskcanary_sweep_decline_ratio", &[]).len(), 0);
    assert!(!seen.0.text.contains("=\"\""), "an empty label");
    let iops = [("target", "quiet"), ("pattern", "randread"), ("depth", "1"), ("block_size", "4096")];
    assert!(seen.0.value("diskcanary_sweep_iops", &iops).unwrap() > 0.0);
    let bytes = |op| {
        seen.0.value("diskcanary_probe_bytes_total", &[("target", "quiet"), ("probe", "sweep"), ("op", op)])
    };
    assert!(bytes("read").unwrap() > (64 << 20) as f64 && bytes("write").unwrap() > (64 << 20) as f64);
    let left = |kind| {
        seen.0.value("diskcanary_sweep_budget_remaining_ratio", &[("target", "quiet"), ("kind", kind)])
    };
    assert!(
        left("write").unwrap() < 1.0 && left("write").unwrap() >= 0.5,
        "the default is twice what it needs"
    );
    let commits = seen.probe("runs", "quiet", "commit");
    seen_when(daemon, "its probes go on", |seen| seen.probe("runs", "quiet", "commit") > commits + 3.0);
}

fn the_workload_ended_it(daemon: &Running) {
    let seen = seen_when(daemon, "the workload ends it", |seen| ended(seen, "busy", "guard") == 1.0);
    assert_eq!(ended(&seen, "busy", "complete"), 0.0);
    assert!((1..4).contains(&cells(&seen, "busy")), "{} of 4 cells", cells(&seen, "busy"));
    assert_eq!(sweep(&seen, "busy", "sweep_results_partial"), Some(1.0), "there is no complete one");
    assert_eq!(sweep(&seen, "busy", "sweep_last_completion_timestamp_seconds"), None);
    let runs = seen.probe("runs", "busy", "commit");
    seen_when(daemon, "its probes go on", |seen| seen.probe("runs", "busy", "commit") > runs + 3.0);
}

fn the_frozen_one_stops_nobody(daemon: &Running) {
    let seen =
        seen_when(daemon, "the frozen one is given up", |seen| ended(seen, "frozen", "stalled") == 1.0);
    assert!(!is_running(&seen, "frozen") && seen.is_in("frozen", "stalled"));
    assert_eq!(seen.up("frozen"), Some(0.0));
    assert!(seen.age("frozen", "write") >= 10.0, "it is still out");
    assert_eq!((seen.up("quiet"), seen.up("busy")), (Some(1.0), Some(1.0)));
    let reads = seen.probe("runs", "frozen", "read");
    seen_when(daemon, "reads of the frozen one go on", |seen| {
        seen.probe("runs", "frozen", "read") > reads + 1.0
    });
}

fn the_last_one_is_there_after_a_restart(mut daemon: Running, config: &str, state: &Path) {
    let before = Seen::of(&daemon);
    assert!(is_running(&before, "long") && cells(&before, "long") == 0, "shown when it is over");
    daemon.signal(Signal::TERM);
    assert!(daemon.ended_within(PATIENCE).unwrap().success());
    assert!(daemon.stderr().matches("a sweep was stopped").count() == 5, "{}", daemon.stderr());
    let files: Vec<_> = std::fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("sweep-"))
        .collect();
    assert_eq!(files.len(), SWEPT.len(), "{files:?}");
    // One of them is damaged meanwhile.
    let of_busy = files
        .iter()
        .find(|file| std::fs::read_to_string(file).unwrap().contains("\"target\":\"busy\""))
        .unwrap();
    std::fs::write(of_busy, b"{\"version\":1,\"target\":\"busy\"}\n{\"ended\":1,\"sw").unwrap();
    let kept = state.to_owned();
    let again = Daemon::new().config(config).with(|command| {
        command.env("STATE_DIRECTORY", kept);
    });
    let again = again.start();
    let seen = seen_when(&again, "it is there", |seen| cells(seen, "quiet") > 0);
    for family in ["sweep_iops", "sweep_latency_seconds", "sweep_peak_iops"] {
        let of = |seen: &Seen| -> Vec<f64> {
            let all = seen.0.all(&format!("diskcanary_{family}"), &[("target", "quiet")]);
            all.iter().map(|sample| sample.value).collect()
        };
        let (now, then) = (of(&seen), of(&before));
        // The last digit of a number in a file may be another.
        let same = now.iter().zip(&then).all(|(a, b)| (a - b).abs() <= b.abs() * 1e-12);
        assert!(same && now.len() == then.len(), "{family}: {now:?} {then:?}");
    }
    assert!(cells(&seen, "long") >= 1, "what it had when the daemon ended");
    assert_eq!(sweep(&seen, "long", "sweep_results_partial"), Some(1.0));
    let completed = |seen: &Seen| sweep(seen, "quiet", "sweep_last_completion_timestamp_seconds");
    assert_eq!(completed(&seen).map(f64::round), completed(&before).map(f64::round));
    assert_eq!(cells(&seen, "busy"), 0, "begins without it");
    assert_eq!(again.stderr().matches("a kept sweep is lost").count(), 1, "{}", again.stderr());
    eventually_within(PATIENCE, "the budget of the day is still spent", || {
        let labels = [("target", "quiet"), ("kind", "write")];
        Seen::of(&again)
            .0
            .value("diskcanary_sweep_budget_remaining_ratio", &labels)
            .is_some_and(|left| left < 1.0)
    });
}

/// A volume of 100 GiB with burst credits, as the example in `config/` has it: 300 operations a second for ever, 3,000 on credit.
const CREDITS: Credits = Credits { rate: 300.0, burst: 3000.0, capacity: 5_400_000.0 };
/// From one night to the next here: the time that a sweep and its rests take, and some.
const NIGHT: Duration = Duration::from_secs(240);
/// What the example lets sweeps write in a day.
const A_DAY: f64 = (2u64 << 30) as f64;

/// Seven nights on a disk that has credits, one after the other without the days between: each is complete, within a night's bytes, and
/// leaves the credits to the workload.
#[test]
fn seven_nights_on_a_disk_with_burst_credits() {
    if lacks(NEEDS) || lacks(&[Need::Fuse]) || !full() {
        return;
    }
    let fuse = FuseDisk::new();
    let disk = Loop::within(fuse.path(), LoopOptions::of(2 << 30));
    let disk = Mounted::on(FileSystem::Ext4, disk, &["-J", "size=16"], "");
    let config = format!(
        "targets:\n  - name: pgdata\n    path: {}\n    spec: {{baseline_iops: 300}}\n    commit: {{profile: postgres, file_size: 4MiB}}\n    \
         read: {{file_size: 64MiB}}\n    sweep: {{schedule: \"*/4 * * * *\", time_zone: UTC, rest: {{rate: 300, capacity: 5400000}}}}\n    \
         budget: {{sweep_write_per_day: 1TiB, sweep_read_per_day: 1TiB}}\n",
        disk.path().display()
    );
    let daemon = Daemon::new().config(&config).start();
    seen_when(&daemon, "it is measured", |seen| seen.samples("pgdata", "read") > 16.0);
    fuse.limit(CREDITS);
    let count = |seen: &Seen, family: &str, op: &str| {
        let labels = [("target", "pgdata"), ("probe", "sweep"), ("op", op)];
        seen.0.value(&format!("diskcanary_probe_{family}_total"), &labels).unwrap()
    };
    let mut before = Seen::of(&daemon);
    for night in 1..=7 {
        eventually_within(2 * NIGHT + PATIENCE, "a night is over", || {
            ended(&Seen::of(&daemon), "pgdata", "complete") >= f64::from(night)
        });
        let seen = Seen::of(&daemon);
        let more = |family, op| count(&seen, family, op) - count(&before, family, op);
        let (written, read) = (more("bytes", "write"), more("bytes", "read"));
        let seconds = sweep(&seen, "pgdata", "sweep_last_end_timestamp_seconds").unwrap()
            - sweep(&seen, "pgdata", "sweep_last_start_timestamp_seconds").unwrap();
        let (left, least) = fuse.credits().unwrap();
        println!(
            "night {night}: {:.0} reads, {:.0} writes, {:.1} MiB written, {:.1} MiB read, {seconds:.0} s, {} cells, credits {left:.0}, \
             least {least:.0}",
            more("operations", "read"),
            more("operations", "write"),
            written / 1048576.0,
            read / 1048576.0,
            cells(&seen, "pgdata"),
        );
        assert!(written > 0.0 && written <= A_DAY && read <= A_DAY);
        assert!(least > CREDITS.capacity * 0.99, "each cell's credits are earned back before the next");
        before = seen;
    }
    let seen = Seen::of(&daemon);
    assert_eq!(ended(&seen, "pgdata", "complete"), 7.0, "{}", daemon.stderr());
    assert!(seen.0.all("diskcanary_sweep_skipped_total", &[]).is_empty(), "none was skipped");
}
