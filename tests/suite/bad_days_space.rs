//! Too little room, and none: before the layout, after it, and on a disk that is small for ever.

use crate::lab::{self, Daemon, FileSystem, Loop, Mounted, Need};
use crate::targets::{
    BOTH, COMMITS, ROOM, assert_sound, await_runs, await_state, await_that, config, errors, reason, runs,
    skipped,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Takes all room at once, then block by block; all but `fallocate`d bytes of it are written.
fn fill(disk: &Mounted) {
    let bulk = fs::File::create(disk.path().join("bulk")).unwrap();
    let free = rustix::fs::statvfs(disk.path()).unwrap();
    let most = (free.f_bavail * free.f_frsize).saturating_sub(8 << 20);
    rustix::fs::fallocate(&bulk, rustix::fs::FallocateFlags::empty(), 0, most).unwrap();
    disk.fill();
}

/// Inode, size and time of the last change of our two files.
fn identities(disk: &Mounted) -> Vec<(u64, u64)> {
    let ours = disk.path().join(".diskcanary");
    ["commits", "reads"]
        .iter()
        .map(|name| fs::metadata(ours.join(name)).unwrap())
        .map(|about| (about.ino(), about.len()))
        .collect()
}

#[test]
fn a_full_disk_waits_for_room_and_a_laid_out_one_needs_none() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4")]) {
        return;
    }
    let before = Mounted::new(FileSystem::Ext4, 256 << 20);
    before.fill();
    let after = Mounted::new(FileSystem::Ext4, ROOM);
    let yaml = config(&[("before", before.path(), COMMITS), ("after", after.path(), BOTH)]);
    let daemon = Daemon::new().config(&yaml).start();
    await_state(&daemon, "before", "no_space");
    // On the last block, not even our directory can be made.
    let why = reason(&daemon, "before", "no_space");
    assert!(why.contains("no room for the probe file") || why.contains("ENOSPC"), "{why}");
    await_state(&daemon, "after", "ready");
    await_runs(&daemon, "after", "read", 2.0);
    fill(&after);
    let laid_out = identities(&after);
    for probe in ["commit", "read"] {
        await_runs(&daemon, "after", probe, 3.0);
    }
    let now = daemon.scrape();
    assert_eq!(errors(&now, "after", "ENOSPC"), 0.0);
    assert!(errors(&now, "before", "ENOSPC") >= 1.0 && skipped(&now, "before", "commit", "no_space") >= 1.0);
    assert!(!before.path().join(".diskcanary/commits").exists());
    before.free();
    await_state(&daemon, "before", "ready");
    assert_sound(&daemon);
    assert!(daemon.stop().0.success());

    let changed = fs::metadata(after.path().join(".diskcanary/reads")).unwrap().mtime();
    let daemon = Daemon::new().config(&yaml).start();
    for probe in ["commit", "read"] {
        await_runs(&daemon, "after", probe, 2.0);
    }
    assert_eq!(identities(&after), laid_out, "a complete file is kept over a restart");
    assert_eq!(fs::metadata(after.path().join(".diskcanary/reads")).unwrap().mtime(), changed);
    let written = [("target", "after"), ("probe", "read"), ("op", "write")];
    assert_eq!(daemon.scrape().sum("diskcanary_probe_operations_total", &written), 0.0);
    assert_sound(&daemon);
}

#[test]
fn a_disk_that_fills_up_under_the_layout_gets_its_room_back() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 4 << 30);
    let keys = BOTH.replace("64MiB", "128MiB");
    assert_ne!(keys, BOTH);
    let daemon = Daemon::new().config(&config(&[("a", disk.path(), &keys)])).start();
    let reads = disk.path().join(".diskcanary/reads");
    await_that(&daemon, "a part is written", |_| {
        fs::metadata(&reads).is_ok_and(|about| about.len() > 16 << 20)
    });
    let free = rustix::fs::statvfs(disk.path()).unwrap();
    // What is kept for root too, since the daemon is root's here.
    let bulk = fs::File::create(disk.path().join("bulk")).unwrap();
    // More than there is: it takes what it gets.
    let all = free.f_bfree * free.f_frsize;
    let _ = rustix::fs::fallocate(&bulk, rustix::fs::FallocateFlags::empty(), 0, all);
    await_that(&daemon, "the layout fails", |m| errors(m, "a", "ENOSPC") >= 1.0);
    assert!(!reads.exists());
    // Of a full one, ext4 keeps at most 16 MiB for itself.
    let now = rustix::fs::statvfs(disk.path()).unwrap();
    assert!(now.f_bfree * now.f_frsize >= 24 << 20, "{} blocks are free", now.f_bfree);
    let before = runs(&daemon.scrape(), "a", "commit");
    await_runs(&daemon, "a", "commit", before + 2.0);
    assert!(!reads.exists());
    assert_sound(&daemon);
}

#[test]
fn a_disk_of_96_mib_takes_commits_and_skips_reads() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4")]) {
        return;
    }
    // With nothing kept back for root, 5 % of what is free are just over 4 MiB; by default they are just under.
    let small = Mounted::on(FileSystem::Ext4, Loop::new(96 << 20), &["-m", "0"], "");
    let smaller = Mounted::on(FileSystem::Ext4, Loop::new(96 << 20), &["-m", "15"], "");
    let targets = [("small", small.path(), BOTH), ("smaller", smaller.path(), BOTH)];
    let daemon = Daemon::new().config(&config(&targets)).start();
    await_runs(&daemon, "small", "commit", 20.0);
    await_that(&daemon, "reads are skipped", |m| skipped(m, "small", "read", "no_space") >= 3.0);
    await_state(&daemon, "smaller", "no_space");
    await_that(&daemon, "all is skipped", |m| skipped(m, "smaller", "commit", "no_space") >= 3.0);
    let now = daemon.scrape();
    assert_eq!(now.value("diskcanary_target_up", &[("target", "small")]), Some(1.0));
    assert_eq!(runs(&now, "small", "read") + runs(&now, "smaller", "commit"), 0.0);
    assert_eq!(fs::metadata(small.path().join(".diskcanary/commits")).unwrap().len(), 4 << 20);
    assert!(!small.path().join(".diskcanary/reads").exists());
    // What does not change is said once, however often it is tried again.
    assert!(errors(&now, "small", "ENOSPC") >= 2.0 && errors(&now, "small", "ENOSPC") <= 8.0);
    let log = daemon.stderr();
    for (name, most) in [("small", 2), ("smaller", 1)] {
        let lines = log.lines().filter(|line| line.contains(&format!("name={name} "))).count();
        assert!(lines <= most, "{lines} lines about {name}: {log}");
    }
    assert_sound(&daemon);
}

/// What `filefrag` says of a file's extents.
fn extents(file: &Path) -> String {
    lab::run("filefrag", &["-v".as_ref(), file.as_os_str()])
}

#[test]
fn an_allocated_but_unwritten_file_in_our_place_is_written() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("filefrag")]) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, ROOM);
    let ours = disk.path().join(".diskcanary");
    fs::create_dir(&ours).unwrap();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n\
        # This directory was made by diskcanary, which probes the disk here.\n";
    fs::write(ours.join("CACHEDIR.TAG"), tag).unwrap();
    for (name, size) in [("commits", 4 << 20), ("reads", 64 << 20)] {
        let file = fs::File::create(ours.join(name)).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).unwrap();
        file.sync_all().unwrap();
        assert!(extents(&ours.join(name)).contains("unwritten"));
    }
    let daemon = Daemon::new().config(&config(&[("a", disk.path(), BOTH)])).start();
    for probe in ["commit", "read"] {
        await_runs(&daemon, "a", probe, 2.0);
    }
    for (name, size) in [("commits", 4 << 20), ("reads", 64 << 20)] {
        let about = fs::metadata(ours.join(name)).unwrap();
        assert_eq!((about.len(), about.blocks() * 512), (size, size), "{name}");
        assert!(!extents(&ours.join(name)).contains("unwritten"), "{}", extents(&ours.join(name)));
    }
    for (probe, fault) in [("commit", "unwritten"), ("read", "unwritten"), ("read", "corruption")] {
        assert_eq!(crate::targets::verdict(&daemon.scrape(), "a", probe, fault), "fine", "{fault}");
    }
    assert_sound(&daemon);
}
