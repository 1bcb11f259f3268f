//! Disks that nobody named, in a mount name space of the daemon's own: what other tests mount is not there, and what is mounted
//! here is seen by nobody else.

use crate::lab::{self, Daemon, FileSystem, FuseDisk, Metrics, Mounted, Need, Op, Running};
use crate::targets::{await_that, runs, state};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const NEEDS: [Need; 4] = [Need::Root, Need::Tool("unshare"), Need::Tool("nsenter"), Need::Tool("findmnt")];
const LAST: &str = "diskcanary_discovery_last_success_timestamp_seconds";
/// Of the target that is always there, on the disk of the tests.
const EACH: Duration = Duration::from_millis(200);

/// Without all local file systems but that of `/` and the one that the tests work on; `first` is done before the start.
fn apart(command: &mut Command, first: &str) {
    let script = format!(
        "own=$(findmnt -no TARGET -T \"$PWD\")
         findmnt -rno TARGET -t ext2,ext3,ext4,xfs,btrfs,f2fs | sort -r | while read -r at; do
           [ \"$at\" = / ] || [ \"$at\" = \"$own\" ] || umount -l \"$at\"
         done
         {first}
         exec \"$@\""
    );
    let mut new = Command::new("unshare");
    new.args(["--mount", "--propagation=private", "sh", "-c", &script, "sh"]).arg(command.get_program());
    new.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => new.env(name, value),
            None => new.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        new.current_dir(dir);
    }
    *command = new;
}

/// A command in the name space of the daemon.
fn inside(daemon: &Running, arguments: &[&str]) {
    let pid = daemon.pid().to_string();
    lab::run("nsenter", &[&["-t", &pid, "-m", "--"], arguments].concat());
}

struct Points(PathBuf);

impl Points {
    fn at(&self, name: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn names(metrics: &Metrics) -> BTreeSet<String> {
    let all = metrics.all("diskcanary_target_info", &[]);
    all.iter().map(|sample| sample.labels["target"].clone()).collect()
}

/// One target on the tests' own disk, which is `/` or beside it, and `discover:` with these keys.
fn config(own: &Path, keys: &str) -> String {
    format!(
        "targets: [{{name: own, path: {}, commit: {{interval: {}ms, file_size: 4MiB}}, read: {{enabled: false}}}}]\n\
         discover: {{commit: {{interval: 200ms, file_size: 4MiB}}, read: {{enabled: false}}{keys}}}\n",
        own.display(),
        EACH.as_millis()
    )
}

/// Nineteen of twenty slots of `own` were used, from the moment that this was made.
struct Pace(Instant, f64);

impl Pace {
    fn of(daemon: &Running) -> Self {
        Self(Instant::now(), runs(&daemon.scrape(), "own", "commit"))
    }

    fn was_kept(&self, daemon: &Running) {
        let slots = (self.0.elapsed().as_secs_f64() / EACH.as_secs_f64()).floor() - 1.0;
        let made = runs(&daemon.scrape(), "own", "commit") - self.1;
        assert!(made >= slots * 0.95, "{made} runs in {slots} slots\n{}", daemon.stderr());
    }
}

/// Waits for a look that began after now.
fn looked(daemon: &Running) {
    for _ in 0..2 {
        let before = daemon.scrape().value(LAST, &[]).unwrap();
        // Any mount is a reason to look.
        let pid = daemon.pid().to_string();
        lab::run("nsenter", &["-t", &pid, "-m", "--", "mount", "-t", "tmpfs", "none", "/dev/shm"]);
        await_that(daemon, "another look", |m| m.value(LAST, &[]).is_some_and(|at| at > before));
    }
}

#[test]
fn disks_are_found_when_they_are_mounted_and_forgotten_when_they_are_not() {
    if lab::lacks(&NEEDS) {
        return;
    }
    let (ext4, xfs) = (Mounted::new(FileSystem::Ext4, 256 << 20), Mounted::new(FileSystem::Xfs, 400 << 20));
    let [a, b] = [&ext4, &xfs].map(|fs| fs.disk().device().to_str().unwrap().to_owned());
    let scratch = lab::Scratch::new();
    let points = Points(scratch.dir("points"));
    let own = scratch.dir("own");
    let daemon = Daemon::new().config(&config(&own, "")).with(|command| apart(command, "")).start();
    let file = daemon.directory().join("diskcanary.yaml");
    await_that(&daemon, "the target with a name runs", |m| state(m, "own").as_deref() == Some("ready"));

    inside(&daemon, &["mount", &a, &points.at("ext4")]);
    looked(&daemon);
    assert_eq!(names(&daemon.scrape()), ["own".to_owned()].into(), "loop devices are not asked for");

    let pace = Pace::of(&daemon);
    std::fs::write(&file, config(&own, ", include: [loop]")).unwrap();
    daemon.signal(Signal::HUP);
    let expected: BTreeSet<String> = ["own".to_owned(), points.at("ext4"), points.at("xfs")].into();
    inside(&daemon, &["mount", &b, &points.at("xfs")]);
    inside(&daemon, &["mount", "--bind", &points.at("ext4"), &points.at("again")]);
    inside(&daemon, &["mount", "-t", "tmpfs", "none", &points.at("memory")]);
    let layer = |name: &str| points.at(&format!("ext4/{name}"));
    let layers = format!("lowerdir={},upperdir={},workdir={}", "/etc", layer("up"), layer("work"));
    // Made inside: outside, the directory of the layers is another one.
    inside(&daemon, &["mkdir", "-p", &layer("up"), &layer("work")]);
    inside(&daemon, &["mount", "-t", "overlay", "none", "-o", &layers, &points.at("overlay")]);
    for found in [points.at("ext4"), points.at("xfs")] {
        await_that(&daemon, "commits on what was found", |m| runs(m, &found, "commit") > 2.0);
    }
    looked(&daemon);
    assert_eq!(names(&daemon.scrape()), expected, "{}", daemon.stderr());

    inside(&daemon, &["umount", "-l", &points.at("xfs")]);
    await_that(&daemon, "what is gone has no series", |m| !m.text.contains(&points.at("xfs")));
    inside(&daemon, &["mount", &b, &points.at("xfs")]);
    await_that(&daemon, "it is back", |m| runs(m, &points.at("xfs"), "commit") > 2.0);
    pace.was_kept(&daemon);
}

#[test]
fn a_sysfs_that_hangs_stops_discovery_alone() {
    if lab::lacks(&NEEDS) || lab::lacks(&[Need::Fuse]) {
        return;
    }
    let sysfs = FuseDisk::new();
    let scratch = lab::Scratch::new();
    let own = scratch.dir("own");
    let bind = format!("mount --bind {} /sys/block", sysfs.path().display());
    let daemon = Daemon::new()
        .config(&config(&own, "").replace("read: {enabled: false}}\n", "block_devices: true}\n"))
        .with(|command| apart(command, &bind))
        .start();
    await_that(&daemon, "a first look", |m| m.value(LAST, &[]).is_some_and(|at| at > 0.0));
    await_that(&daemon, "the target with a name runs", |m| runs(m, "own", "commit") > 0.0);
    looked(&daemon);

    let hang = sysfs.hang(&[Op::Lookup, Op::Open]);
    let before = daemon.scrape().value(LAST, &[]);
    inside(&daemon, &["mount", "-t", "tmpfs", "none", "/dev/shm"]);
    lab::eventually("the look is stuck", || {
        sysfs.count(Op::Lookup).inside + sysfs.count(Op::Open).inside > 0
    });
    let pace = Pace::of(&daemon);
    std::thread::sleep(if lab::full() { Duration::from_secs(60) } else { Duration::from_secs(4) });
    pace.was_kept(&daemon);
    assert_eq!(daemon.scrape().value(LAST, &[]), before, "its age tells");
    drop(hang);
    await_that(&daemon, "it goes on by itself", |m| m.value(LAST, &[]) > before);
}
