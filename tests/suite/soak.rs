//! Two hundred targets on file systems that go wrong at random: nothing grows, nothing that counts goes down, and what the file
//! systems served is what the metrics say, to the operation and the byte.

use crate::lab::{
    Daemon, FuseDisk, Hang, Metrics, Need, Op, Running, Sample, Touched, eventually_within, full, lacks,
};
use crate::reload::{falls, footprint, reload};
use crate::targets::config;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DISKS: usize = 10;
/// Targets of a disk. The first of them also reads.
const EACH: usize = 20;
const SEED: u64 = 20_250_117;
/// How long a target may take to get over its last fault: the longest wait before a look, and what a layout waits on top.
const RECOVERY: Duration = Duration::from_secs(240);
/// By how much memory may grow from the second quarter of the storm to the last beside the samples of windows, which fill for an
/// hour.
const MORE_KIB: f64 = 4096.0;
/// Bytes of a sample: its time, its value, and its place in two windows. Room for them is made an eighth ahead.
const OF_A_SAMPLE: f64 = (4.0 + 8.0 + 2.0 * 4.0) * 1.125;
/// What good runs may wait before they are in the books, and then some.
const REST: Duration = Duration::from_millis(2500);

const COMMITS: &str = "stall_threshold: 2s, commit: {interval: 1s, file_size: 4MiB}, read: {enabled: false}";
const BOTH: &str =
    "stall_threshold: 2s, commit: {interval: 1s, file_size: 4MiB}, read: {interval: 1s, file_size: 64MiB}";

#[test]
fn two_hundred_targets_on_disks_that_go_wrong_leave_nothing_behind_and_lose_no_count() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let length = Duration::from_secs(if full() { 600 } else { 40 });
    let disks: Vec<FuseDisk> = (0..DISKS).map(|_| FuseDisk::new()).collect();
    let targets = targets(&disks);
    let daemon = Daemon::new().config(&plan(&targets, false)).start();
    all_at_work(&daemon, &targets);
    let before = footprint(&daemon);

    let memory = storm(&daemon, &disks, length);

    all_at_work(&daemon, &targets);
    let after = footprint(&daemon);
    assert_eq!(
        (after.threads, after.descriptors),
        (before.threads, before.descriptors),
        "threads, descriptors"
    );
    memory.assert_level();
    reload(&daemon, &plan(&targets, true));
    let (touched, metrics) = at_rest(&daemon, &disks);
    let wrong: Vec<String> =
        targets.iter().flat_map(|target| differences(target, &touched[target.disk], &metrics)).collect();
    assert_eq!(wrong, [""; 0], "what the file system served, and what is said of it");
    let served: u64 = disks.iter().map(|disk| disk.count(Op::Write).operations).sum();
    assert!(served as f64 > targets.len() as f64 * length.as_secs_f64(), "only {served} writes in all");
}

struct Target {
    name: String,
    path: PathBuf,
    disk: usize,
    reads: bool,
}

fn targets(disks: &[FuseDisk]) -> Vec<Target> {
    let on = |(disk, at): (&FuseDisk, usize)| {
        let directory = |n: usize| {
            let path = disk.path().join(format!("d{n}"));
            std::fs::create_dir(&path).unwrap();
            Target { name: format!("t{at}-{n}"), path, disk: at, reads: n == 0 }
        };
        (0..EACH).map(directory).collect::<Vec<_>>()
    };
    disks.iter().zip(0..).flat_map(on).collect()
}

/// `resting`: the same probes, once a day.
fn plan(targets: &[Target], resting: bool) -> String {
    let keys = |target: &Target| {
        let keys = if target.reads { BOTH } else { COMMITS };
        if resting { keys.replace("interval: 1s", "interval: 24h") } else { keys.to_owned() }
    };
    let all: Vec<(&Target, String)> = targets.iter().map(|target| (target, keys(target))).collect();
    let rows: Vec<(&str, &Path, &str)> =
        all.iter().map(|(t, keys)| (t.name.as_str(), t.path.as_path(), keys.as_str())).collect();
    config(&rows)
}

/// Waits until every target is ready, and each of its probes had a good run since this was asked.
fn all_at_work(daemon: &Running, targets: &[Target]) {
    let probes = targets.iter().flat_map(|t| {
        let of = |probe: &str| (t.name.clone(), probe.to_owned());
        [Some(of("commit")), t.reads.then(|| of("read"))].into_iter().flatten()
    });
    let probes: Vec<(String, String)> = probes.collect();
    let good = |metrics: &Metrics| -> BTreeMap<(String, String), f64> {
        let runs = metrics.all("diskcanary_probe_runs_total", &[("result", "ok")]);
        let each = |s: &&Sample| ((s.labels["target"].clone(), s.labels["probe"].clone()), s.value);
        runs.iter().map(each).collect()
    };
    let before = good(&daemon.scrape());
    let mut waiting = Vec::new();
    let waited = std::panic::AssertUnwindSafe(|| {
        eventually_within(RECOVERY, "all targets are at work", || {
            let metrics = daemon.scrape();
            let ready = metrics.sum("diskcanary_target_state", &[("state", "ready")]);
            let now = good(&metrics);
            let runs = |of: &BTreeMap<_, f64>, probe| of.get(probe).copied().unwrap_or_default();
            waiting = probes.iter().filter(|p| runs(&now, p) <= runs(&before, p)).cloned().collect();
            waiting.is_empty() && ready == (DISKS * EACH) as f64
        });
    });
    let waited = std::panic::catch_unwind(waited);
    assert!(waited.is_ok(), "no good run within {RECOVERY:?} of {waiting:?}\n{}", daemon.stderr());
}

/// Faults come and go on all disks until the time is over, and then there are none.
fn storm(daemon: &Running, disks: &[FuseDisk], length: Duration) -> Memory {
    let (began, mut memory) = (Instant::now(), Memory::default());
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut faults: Vec<Fault> = Vec::new();
    let (mut last, mut looked) = (daemon.get("/metrics").text(), Instant::now());
    while began.elapsed() < length {
        faults.retain(|fault| Instant::now() < fault.until);
        let struck = random.usize(..disks.len());
        if faults.iter().all(|fault| fault.disk != struck) {
            faults.push(Fault::on(disks, struck, &mut random));
        }
        if looked.elapsed() > Duration::from_secs(2) {
            let now = daemon.get("/metrics").text();
            assert_eq!(falls(&last, &now, |_| true), [""; 0], "after {:?}", began.elapsed());
            memory.look(daemon, &now, began.elapsed().as_secs_f64() / length.as_secs_f64());
            (last, looked) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    memory
}

/// One thing that is wrong with one disk for a while; all is well when it is dropped.
struct Fault<'a> {
    disks: &'a [FuseDisk],
    disk: usize,
    op: Op,
    until: Instant,
    hang: Option<Hang>,
}

impl<'a> Fault<'a> {
    fn on(disks: &'a [FuseDisk], at: usize, random: &mut fastrand::Rng) -> Self {
        const ERRORS: [i32; 7] =
            [libc::EIO, libc::ENOSPC, libc::EDQUOT, libc::EROFS, libc::ENODEV, libc::ENXIO, libc::ESTALE];
        let disk = &disks[at];
        let mut op = random.choice([Op::Read, Op::Write, Op::Sync, Op::Open]).unwrap();
        let mut hang = None;
        match random.u32(..5) {
            0 => disk.delay(op, Duration::from_millis(random.u64(1..30))),
            1 => disk.fail(op, random.choice(ERRORS).unwrap(), 1),
            2 => disk.fail(op, random.choice(ERRORS).unwrap(), random.u64(2..40)),
            3 => {
                op = random.choice([Op::Read, Op::Write]).unwrap();
                disk.shorten(op, random.usize(0..1000), random.u64(1..20));
            }
            _ => hang = Some(disk.hang(&[op])),
        }
        // Some hangs are stalls.
        let most = if hang.is_some() && random.u32(..4) == 0 { 5000 } else { 1000 };
        let until = Instant::now() + Duration::from_millis(random.u64(100..most));
        Self { disks, disk: at, op, until, hang }
    }
}

impl Drop for Fault<'_> {
    fn drop(&mut self) {
        drop(self.hang.take());
        self.disks[self.disk].heal(self.op);
    }
}

/// The most that was resident, in KiB, in each quarter of the storm, and how many samples the longest windows held then.
#[derive(Debug, Default)]
struct Memory([(f64, f64); 4]);

impl Memory {
    /// `share`: of the storm that has passed.
    fn look(&mut self, daemon: &Running, metrics: &str, share: f64) {
        let quarter = &mut self.0[((share * 4.0) as usize).min(3)];
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: f64 = resident.split_whitespace().next().unwrap().parse().unwrap();
        let samples = Metrics::parse(metrics).unwrap().sum("diskcanary_window_samples", &[("window", "1h")]);
        *quarter = (quarter.0.max(kib), samples);
    }

    /// In the first quarter every kind of fault is met for the first time.
    fn assert_level(&self) {
        let Self([_, second, _, fourth]) = self;
        let windows = (fourth.1 - second.1) * OF_A_SAMPLE / 1024.0;
        assert!(fourth.1 > second.1, "no samples came: {self:?}");
        assert!(fourth.0 < second.0 + windows + MORE_KIB, "windows: {windows:.0} KiB of these: {self:?}");
    }
}

/// What was served and what is said, of a moment between which and the one before nothing was served.
fn at_rest(daemon: &Running, disks: &[FuseDisk]) -> (Vec<Touched>, BTreeMap<String, Metrics>) {
    let look = || disks.iter().map(FuseDisk::touched).collect::<Vec<_>>();
    let mut found = None;
    eventually_within(RECOVERY, "nothing is served any more", || {
        let before = look();
        std::thread::sleep(REST);
        let metrics = daemon.scrape();
        let rested = look() == before;
        found = rested.then_some((before, metrics));
        rested
    });
    let (touched, metrics) = found.unwrap();
    let mut by_target: BTreeMap<String, Metrics> = BTreeMap::new();
    for sample in metrics.samples {
        if let Some(target) = sample.labels.get("target").cloned() {
            by_target.entry(target).or_default().samples.push(sample);
        }
    }
    (touched, by_target)
}

/// Where what a target's disk served is not what is said of it.
fn differences(target: &Target, touched: &Touched, metrics: &BTreeMap<String, Metrics>) -> Vec<String> {
    let Target { name, path, reads, .. } = target;
    let said = &metrics[name];
    let home = PathBuf::from(path.file_name().unwrap()).join(".diskcanary");
    let mut wrong = Vec::new();
    let mut compare = |what: &str, served: u64, said: f64| {
        if served as f64 != said {
            wrong.push(format!("{name}: {what}: {served} served, {said} said"));
        }
    };
    for (probe, file) in [("commit", "commits"), ("read", "reads")] {
        if probe == "read" && !reads {
            continue;
        }
        for (op, kind) in [("read", Op::Read), ("write", Op::Write), ("sync", Op::Sync)] {
            let labels = [("probe", probe), ("op", op)];
            let (operations, bytes) = touched.of(&home.join(file), kind);
            compare(
                &format!("{op}s of `{file}`"),
                operations,
                said.sum("diskcanary_probe_operations_total", &labels),
            );
            if kind != Op::Sync {
                compare(
                    &format!("bytes of {op}s of `{file}`"),
                    bytes,
                    said.sum("diskcanary_probe_bytes_total", &labels),
                );
            }
        }
    }
    // Each commit is a sample, or no sample for a reason of ours, or one failure.
    let invalid =
        |reason| said.sum("diskcanary_samples_invalid_total", &[("probe", "commit"), ("reason", reason)]);
    let failed = |stage| said.sum("diskcanary_probe_errors_total", &[("probe", "commit"), ("stage", stage)]);
    let samples = said.sum("diskcanary_commit_duration_seconds_count", &[]);
    let accounted = samples + invalid("starved") + invalid("clock") + failed("write") + failed("sync");
    let (commits, _) = touched.inside(&home.join("commits"), Op::Write, 4096);
    compare("commits", commits, accounted);
    wrong
}
