//! The truth checks, on file systems and devices where each of them holds, and on plain ones, where none may.

use crate::lab::{self, BlockTrace, Daemon, FileSystem, FuseDisk, Loop, LoopOptions, Mounted, Need, Running};
use crate::targets::{BOTH, COMMITS, READS, ROOM, assert_sound, await_runs, config, verdict};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Waits for a few runs of both, then asks for the verdicts: unwritten, cached, corruption of reads, unflushed of commits.
fn verdicts(daemon: &Running, target: &str) -> [&'static str; 4] {
    await_runs(daemon, target, "commit", 3.0);
    await_runs(daemon, target, "read", 2.0);
    let now = daemon.scrape();
    let of_read = |fault| verdict(&now, target, "read", fault);
    [
        of_read("unwritten"),
        of_read("cached"),
        of_read("corruption"),
        verdict(&now, target, "commit", "unflushed"),
    ]
}

/// A loop device that the kernel is told writes through its cache; back to what it was when dropped.
struct WriteThrough(PathBuf);

impl WriteThrough {
    fn set(disk: &Loop) -> Self {
        let setting = disk.sysfs().join("queue/write_cache");
        fs::write(&setting, "write through").unwrap();
        Self(setting)
    }
}

impl Drop for WriteThrough {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "write back");
    }
}

#[test]
fn each_check_holds_where_it_should_and_nowhere_else() {
    let needs = [Need::Root, Need::Fuse, Need::Tool("mkfs.xfs"), Need::Tool("mkfs.btrfs")];
    if lab::lacks(&needs) {
        return;
    }
    let ext4 = Mounted::new(FileSystem::Ext4, ROOM);
    let xfs = Mounted::new(FileSystem::Xfs, ROOM);
    let overlay = Mounted::overlay(Mounted::new(FileSystem::Ext4, ROOM));
    let compressed = Mounted::on(FileSystem::Btrfs, Loop::new(ROOM), &[], "compress-force=zstd");
    let no_barrier = Mounted::on(FileSystem::Ext4, Loop::new(ROOM), &[], "barrier=0");
    let data_journal = Mounted::on(FileSystem::Ext4, Loop::new(ROOM), &[], "data=journal");
    let through = Loop::new(ROOM);
    let _setting = WriteThrough::set(&through);
    let through = Mounted::on(FileSystem::Ext4, through, &[], "");
    let fuse = FuseDisk::new();
    let never_written = Loop::new(4 << 20);
    let written = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(4 << 20) });

    let daemon = Daemon::new()
        .config(&config(&[
            ("ext4", ext4.path(), BOTH),
            ("xfs", xfs.path(), BOTH),
            ("overlay", overlay.path(), BOTH),
            ("compressed", compressed.path(), BOTH),
            ("no_barrier", no_barrier.path(), BOTH),
            ("data_journal", data_journal.path(), BOTH),
            ("through", through.path(), BOTH),
            ("fuse", fuse.path(), BOTH),
            ("never_written", never_written.device(), READS),
            ("written", written.device(), READS),
        ]))
        .start();
    let fine = ["fine"; 4];
    for target in ["ext4", "xfs", "overlay", "through"] {
        assert_eq!(verdicts(&daemon, target), fine, "{target}");
    }
    assert_eq!(verdicts(&daemon, "no_barrier"), ["fine", "fine", "fine", "holds"]);
    // Whoever journals data takes O_DIRECT and serves the page cache.
    assert_eq!(verdicts(&daemon, "data_journal")[..3], ["fine", "holds", "fine"]);
    let bypassed = [("target", "data_journal"), ("direct", "bypassed")];
    assert_eq!(daemon.scrape().all("diskcanary_target_info", &bypassed).len(), 1);

    // Our blocks cannot be compressed, so their direct reads reach the disk even here: the kernel's count says so too.
    assert_eq!(verdicts(&daemon, "compressed"), fine);
    let ours = [("target", "compressed"), ("probe", "read"), ("op", "read")];
    // Not the looks at the opening: one is meant to be refused, and a head that was just written is in the cache.
    let (reached, asked) =
        (|| compressed.disk().reads(), || daemon.scrape().sum("diskcanary_probe_operations_total", &ours));
    let (before, opened) = (reached(), asked());
    await_runs(&daemon, "compressed", "read", 10.0);
    let (asked, reached) = (asked() - opened, reached() - before);
    // The run that was out at the begin may be in one of them alone.
    let run = 64.0;
    assert!(asked > run && reached as f64 + run >= asked, "{asked} reads of ours, {reached} at the device");

    let [unwritten, cached, corruption, unflushed] = verdicts(&daemon, "fuse");
    assert_eq!([unwritten, corruption, unflushed], ["unknown", "fine", "unknown"]);
    assert!(["fine", "unknown"].contains(&cached), "{cached}");

    for (target, zeros) in [("never_written", "holds"), ("written", "fine")] {
        await_runs(&daemon, target, "read", 2.0);
        assert_eq!(verdict(&daemon.scrape(), target, "read", "zeros"), zeros, "{target}");
        assert_eq!(verdict(&daemon.scrape(), target, "read", "cached"), "fine", "{target}");
    }
    let device = through.disk().device().file_name().unwrap().to_str().unwrap().to_owned();
    let set = [("target", "through"), ("device", device.as_str()), ("write_cache", "write through")];
    assert_eq!(daemon.scrape().all("diskcanary_device_setting_info", &set).len(), 1);
    assert_sound(&daemon);
}

#[test]
fn extents_that_vanish_are_found_at_the_next_opening_and_written_anew() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("fallocate")]) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, ROOM);
    let yaml = config(&[("a", disk.path(), READS)]);
    let daemon = Daemon::new().config(&yaml).start();
    await_runs(&daemon, "a", "read", 1.0);
    assert_eq!(verdict(&daemon.scrape(), "a", "read", "unwritten"), "fine");
    let reads = disk.path().join(".diskcanary/reads");
    let half = ["--punch-hole", "--offset=4096", "--length=32MiB"];
    lab::run("fallocate", &[&half[..], &[reads.to_str().unwrap()]].concat());
    // The bytes that are gone are noticed at once, whatever became of their extents.
    crate::targets::await_that(&daemon, "corruption holds", |m| {
        verdict(m, "a", "read", "corruption") == "holds"
    });
    let labels = [("target", "a"), ("reason", "corruption")];
    assert!(daemon.scrape().sum("diskcanary_samples_invalid_total", &labels) >= 1.0);
    assert!(daemon.stop().0.success());

    // The next opening sees the hole, says so, and has the file written anew.
    let before = fs::metadata(&reads).unwrap().ino();
    let daemon = Daemon::new().config(&yaml).start();
    await_runs(&daemon, "a", "read", 1.0);
    assert!(daemon.stderr().contains("parts of the read file were never written"), "{}", daemon.stderr());
    assert_ne!(fs::metadata(&reads).unwrap().ino(), before);
    for fault in ["unwritten", "corruption"] {
        assert_eq!(verdict(&daemon.scrape(), "a", "read", fault), "fine", "{fault}");
    }
}

#[test]
fn what_a_commit_costs_the_device_agrees_with_the_block_layer() {
    if lab::lacks(&[Need::Root, Need::Tracefs, Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 512 << 20);
    let daemon = Daemon::new().config(&config(&[("a", disk.path(), COMMITS)])).start();
    await_runs(&daemon, "a", "commit", 3.0);
    let trace = BlockTrace::start(disk.disk().number());
    let mut said = Vec::new();
    for _ in 0..10 {
        await_runs(&daemon, "a", "commit", 1.0);
        let now = daemon.scrape();
        let of =
            |what: &str| now.value(&format!("diskcanary_commit_device_{what}"), &[("target", "a")]).unwrap();
        said.push([of("writes"), of("flushes"), of("bytes")]);
    }
    let seen: Vec<_> = trace.take().into_iter().filter(|request| request.command.contains("write")).collect();
    assert!(daemon.stop().0.success());
    // Requests of our own lane: the file system's journal goes by another name.
    let data: Vec<_> = seen.iter().filter(|r| r.is_write() && r.sectors > 0).collect();
    assert!(data.len() >= 30, "{seen:?}");
    assert!(data.iter().all(|r| r.sectors == 8), "each write is one block: {data:?}");
    let median = |at: usize| {
        let mut column: Vec<f64> = said.iter().map(|row| row[at]).collect();
        column.sort_by(f64::total_cmp);
        column[column.len() / 2]
    };
    // One write of 4096 bytes and one flush, which the kernel counts as a write as well.
    assert_eq!([median(0), median(1), median(2)], [2.0, 1.0, 4096.0], "{said:?}");
}
