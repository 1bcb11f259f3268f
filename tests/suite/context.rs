//! What the daemon says of the disks and of the machine beside its own probes, held against the kernel and against what was done.

use crate::lab::{self, Aligned, Daemon, Loop, LoopOptions, Metrics, Need, Running, open_direct};
use crate::targets::{assert_sound, await_that, config};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A raw device that is asked next to nothing.
const SELDOM: &str = "commit: {enabled: false}, read: {interval: 1h}";
/// A raw device that is asked often.
const OFTEN: &str = "commit: {enabled: false}, read: {interval: 200ms}";

fn name(device: &Path) -> String {
    device.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A counter of a device.
fn count(metrics: &Metrics, family: &str, device: &str, op: &str) -> Option<f64> {
    metrics.value(&format!("diskcanary_device_{family}_total"), &[("device", device), ("op", op)])
}

/// Another number of a device.
fn gauge(metrics: &Metrics, family: &str, device: &str) -> f64 {
    metrics.value(&format!("diskcanary_device_{family}"), &[("device", device)]).unwrap()
}

/// Reads, writes, bytes read, bytes written, flushes; by us.
fn said(metrics: &Metrics, device: &str) -> Option<[f64; 5]> {
    let of = |family, op| count(metrics, family, device, op);
    let (operations, bytes) = ("operations", "bytes");
    Some([
        of(operations, "read")?,
        of(operations, "write")?,
        of(bytes, "read")?,
        of(bytes, "write")?,
        of(operations, "flush")?,
    ])
}

/// The same, by the kernel.
fn counted(disk: &Loop) -> [f64; 5] {
    let fields = disk.counters();
    [fields[0], fields[4], fields[2] * 512, fields[6] * 512, fields[15]].map(|n| n as f64)
}

/// Waits until the daemon says what the kernel says, and gives it.
fn await_agreement(daemon: &Running, disk: &Loop) -> [f64; 5] {
    let device = name(disk.device());
    let mut agreed = None;
    await_that(daemon, "the daemon counts as the kernel does", |m| {
        agreed = said(m, &device).filter(|said| *said == counted(disk));
        agreed.is_some()
    });
    agreed.unwrap()
}

#[test]
fn a_device_s_counters_are_the_kernel_s_and_hold_what_was_done() {
    if lab::lacks(&[Need::Root, Need::Tool("promtool")]) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(64 << 20) });
    let device = name(disk.device());
    let daemon = Daemon::new().config(&config(&[("raw", disk.device(), SELDOM)])).start();
    let before = await_agreement(&daemon, &disk);
    let first = daemon.scrape();

    let (writes, reads, flushes) = (400, 300, 20);
    let file = open_direct(disk.device(), true).unwrap();
    let mut block = Aligned::new(4096, 7);
    let start = Instant::now();
    for at in 0..writes {
        file.write_all_at(block.bytes(), at * 4096).unwrap();
    }
    for at in 0..reads {
        file.read_exact_at(block.bytes(), at * 8192).unwrap();
    }
    for _ in 0..flushes {
        file.sync_data().unwrap();
    }
    let took = start.elapsed().as_secs_f64();
    let after = await_agreement(&daemon, &disk);

    let [more_reads, more_writes, bytes_read, bytes_written, more_flushes] =
        std::array::from_fn(|at| after[at] - before[at]);
    // The kernel counts a flush that carries nothing as a write of no bytes; one of the two gave it its name.
    assert_eq!(more_flushes, flushes as f64);
    assert_eq!((more_writes, bytes_written), ((writes + flushes) as f64, (writes * 4096) as f64));
    // Others may look at a device that was open for writing, and our own probe may have had its one run.
    assert!(more_reads >= reads as f64 && bytes_read >= (reads * 4096) as f64, "{more_reads} {bytes_read}");

    let now = daemon.scrape();
    let of = |m: &Metrics, family: &str| gauge(m, family, &device);
    // The load lay in at most so many seconds of the sampler; its busiest had at least the mean.
    let seconds = took.ceil() + 2.0;
    let peak = of(&now, "peak_operations_per_second");
    assert!(peak >= (writes + reads) as f64 / seconds / 2.0, "{peak} of {writes} and {reads} in {took} s");
    assert!(of(&now, "peak_bytes_per_second") >= peak * 512.0);
    // One operation at a time: no more time than there was, and what is waited for is a part of what took us.
    let more = |family: &str| of(&now, family) - of(&first, family);
    let waited = |m: &Metrics| {
        ["read", "write"].map(|op| count(m, "wait_seconds", &device, op).unwrap()).iter().sum::<f64>()
    };
    assert!(waited(&now) - waited(&first) <= took + 0.1 && more("weighted_seconds_total") <= took + 0.1);
    assert!((0.0..=took + 0.1).contains(&more("busy_seconds_total")));
    // What joins a target with its disk names a disk that there are counters of.
    let joined = now.all("diskcanary_target_device_info", &[("target", "raw")]);
    assert_eq!(joined.iter().map(|s| s.labels["leaf"].as_str()).collect::<Vec<_>>(), [device.as_str()]);
    assert_the_machine_is_shown(&now);
    lab::promtool_check_metrics(&now.text).unwrap();
    assert_sound(&daemon);
}

fn assert_the_machine_is_shown(now: &Metrics) {
    let of = |family: &str| now.value(&format!("diskcanary_host_{family}"), &[]);
    for share in ["cpu_iowait_ratio", "cpu_steal_ratio"] {
        assert!(of(share).is_some_and(|share| (0.0..=1.0).contains(&share)), "{share}");
    }
    assert!(of("paged_out_bytes_per_second").unwrap() >= 0.0);
    assert!(of("sample_age_seconds").unwrap() < 5.0);
    let pressure = now.all("diskcanary_host_io_pressure_ratio", &[]);
    assert_eq!(pressure.len(), if Path::new("/proc/pressure/io").exists() { 2 } else { 0 });
    assert!(pressure.iter().all(|sample| (0.0..=1.0).contains(&sample.value)));
}

#[test]
fn a_device_that_vanishes_and_returns_is_followed_and_counts_on() {
    if lab::lacks(&[Need::Root]) {
        return;
    }
    let scratch = lab::Scratch::new();
    let backing = scratch.path().join("disk.img");
    fs::write(&backing, vec![7; 8 << 20]).unwrap();
    let mut disk = Numbered::new(&backing);
    let device = name(&disk.node);
    let other = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(8 << 20) });
    let targets = [("pulled", disk.node.as_path(), OFTEN), ("other", other.device(), OFTEN)];
    let daemon = Daemon::new().config(&config(&targets)).start();
    await_that(&daemon, "reads are counted", |m| {
        count(m, "operations", &device, "read").is_some_and(|reads| reads > 500.0)
    });

    // Once its reads fail the daemon closes it, and it can go.
    fs::OpenOptions::new().write(true).open(&backing).unwrap().set_len(0).unwrap();
    lab::eventually_within(Duration::from_secs(60), "the device can be removed", || disk.remove());
    await_that(&daemon, "the device is not shown any more", |m| {
        count(m, "operations", &device, "read").is_none()
    });
    let gone = daemon.scrape();
    assert!(said(&gone, &name(other.device())).is_some());
    assert!(gone.value("diskcanary_host_sample_age_seconds", &[]).unwrap() < 5.0);

    fs::write(&backing, vec![8; 8 << 20]).unwrap();
    disk.attach();
    let mut first = None;
    await_that(&daemon, "the device is shown again", |m| {
        first = count(m, "operations", &device, "read");
        first.is_some()
    });
    // The kernel's count began at nothing; ours did not.
    assert!(first.unwrap() > 500.0, "{first:?}");
    await_that(&daemon, "reads are counted again", |m| {
        count(m, "operations", &device, "read").is_some_and(|reads| reads > first.unwrap() + 100.0)
    });
    assert_sound(&daemon);
}

/// A loop device that is really gone once it is removed, because nobody else gets its number.
struct Numbered {
    number: i32,
    node: PathBuf,
    backing: PathBuf,
}

impl Numbered {
    fn new(backing: &Path) -> Self {
        let number = 100_000 + (std::process::id() % 100_000) as i32;
        let disk = Self { number, node: format!("/dev/loop{number}").into(), backing: backing.to_owned() };
        disk.attach();
        disk
    }

    fn attach(&self) {
        lab::run("losetup", &[self.node.as_os_str(), self.backing.as_os_str()]);
    }

    /// Whether it is gone: not while anybody has it open.
    fn remove(&mut self) -> bool {
        /// `LOOP_CTL_REMOVE` of `<linux/loop.h>`.
        const REMOVE: libc::Ioctl = 0x4c81;
        let _ = lab::try_run("losetup", &["--detach".as_ref(), self.node.as_os_str()]);
        let control = fs::OpenOptions::new().read(true).write(true).open("/dev/loop-control").unwrap();
        // SAFETY: the request takes a number and touches no memory of ours.
        unsafe { libc::ioctl(control.as_raw_fd(), REMOVE, libc::c_long::from(self.number)) == 0 }
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}
