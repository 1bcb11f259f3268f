//! Our own directory: foreign things in its place, planted names in it, a second daemon, a layout that was killed.

use crate::lab::{self, Daemon, FileSystem, Mounted, Need, Scratch};
use crate::targets::{
    BOTH, COMMITS, READS, assert_sound, await_runs, await_state, await_that, config, reason, runs, verdict,
};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What marks a directory as ours: the convention's line, which others have too, and our own.
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This directory was made by diskcanary, which probes the disk here.\n";

/// A target's directory with `.diskcanary` in it, marked as ours.
fn marked(scratch: &Scratch, name: &str) -> (PathBuf, PathBuf) {
    let target = scratch.dir(name);
    let ours = target.join(".diskcanary");
    fs::create_dir(&ours).unwrap();
    fs::write(ours.join("CACHEDIR.TAG"), TAG).unwrap();
    (target, ours)
}

/// Every name below a directory, with what a file holds.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            all.extend(contents(&path));
        }
        let bytes = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        all.push((path, bytes));
    }
    all.sort();
    all
}

#[test]
fn what_others_made_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    let victim = scratch.file("victim", "dear");
    let elsewhere = scratch.dir("elsewhere");

    let directory = scratch.dir("directory");
    fs::create_dir(directory.join(".diskcanary")).unwrap();
    fs::write(directory.join(".diskcanary/letters"), "dear").unwrap();
    let cache = scratch.dir("cache");
    fs::create_dir(cache.join(".diskcanary")).unwrap();
    fs::write(cache.join(".diskcanary/CACHEDIR.TAG"), TAG.replace("diskcanary", "another program")).unwrap();
    let file = scratch.dir("file");
    fs::write(file.join(".diskcanary"), "dear").unwrap();
    let link = scratch.dir("link");
    symlink(&elsewhere, link.join(".diskcanary")).unwrap();
    let (hard_link, ours) = marked(&scratch, "hard_link");
    fs::hard_link(&victim, ours.join("commits")).unwrap();
    let (soft_link, ours) = marked(&scratch, "soft_link");
    symlink(&victim, ours.join("commits")).unwrap();
    let (dangling, ours) = marked(&scratch, "dangling");
    symlink(scratch.path().join("made"), ours.join("commits")).unwrap();
    let (lock, ours) = marked(&scratch, "lock");
    symlink(&victim, ours.join("lock")).unwrap();
    let (pipe, ours) = marked(&scratch, "pipe");
    lab::run("mkfifo", &[ours.join("commits")]);
    let (letter, ours) = marked(&scratch, "letter");
    fs::write(ours.join("commits"), "dear".repeat(4096)).unwrap();
    let (image, ours) = marked(&scratch, "image");
    let zeros_first = [vec![0; 64 << 10], b"dear".to_vec()].concat();
    fs::write(ours.join("commits"), zeros_first).unwrap();

    let places = [
        ("directory", &directory),
        ("cache", &cache),
        ("file", &file),
        ("link", &link),
        ("hard_link", &hard_link),
        ("soft_link", &soft_link),
        ("dangling", &dangling),
        ("lock", &lock),
        ("pipe", &pipe),
        ("letter", &letter),
        ("image", &image),
    ];
    let before: Vec<_> = places.iter().map(|(_, path)| contents(path)).collect();
    let targets: Vec<_> = places.iter().map(|(name, path)| (*name, path.as_path(), COMMITS)).collect();
    let daemon = Daemon::new().config(&config(&targets)).start();
    for (name, _) in &places {
        await_state(&daemon, name, "unsupported");
        assert!(reason(&daemon, name, "unsupported").contains("is not ours"), "{name}");
    }
    assert_sound(&daemon);
    assert!(daemon.stop().0.success());
    for ((name, path), before) in places.iter().zip(before) {
        let mut after = contents(path);
        // The lock of a directory that is marked as ours is taken before its files are looked at.
        after.retain(|(path, bytes)| *name == "lock" || !path.ends_with("lock") || !bytes.is_empty());
        assert_eq!(after, before, "{name}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "dear");
    assert!(!scratch.path().join("made").exists());
    assert!(fs::read_dir(&elsewhere).unwrap().next().is_none());
    let planted = fs::symlink_metadata(pipe.join(".diskcanary/commits")).unwrap();
    assert!(planted.file_type().is_fifo());
}

#[test]
fn of_two_daemons_on_one_directory_the_first_has_it() {
    for (keys, last) in [(COMMITS, "commit"), (READS, "read"), (BOTH, "read")] {
        the_first_has_it(keys, last);
    }
}

/// After everything is laid out, the `last` of it too.
fn the_first_has_it(keys: &str, last: &str) {
    let scratch = Scratch::new();
    let place = scratch.dir("place");
    let yaml = config(&[("a", place.as_path(), keys)]);
    let first = Daemon::new().config(&yaml).start();
    await_runs(&first, "a", last, 1.0);
    let second = Daemon::new().config(&yaml).start();
    await_state(&second, "a", "unsupported");
    let line = reason(&second, "a", "unsupported");
    assert!(line.contains("in use by another diskcanary"), "{line}");
    await_runs(&first, "a", last, 3.0);
    assert_eq!(runs(&second.scrape(), "a", last), 0.0);
    assert!(first.stop().0.success());
    await_runs(&second, "a", last, 2.0);
    await_state(&second, "a", "ready");
    assert_sound(&second);
}

#[test]
fn a_layout_that_was_killed_is_done_anew() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4")]) {
        return;
    }
    const SIZE: u64 = 128 << 20;
    let disk = Mounted::new(FileSystem::Ext4, 4 << 30);
    let keys = READS.replace("64MiB", "128MiB");
    let yaml = config(&[("a", disk.path(), &keys)]);
    let reads = disk.path().join(".diskcanary/reads");
    let mut first = Daemon::new().config(&yaml).start();
    await_that(&first, "a good part is written", |m| {
        m.value("diskcanary_layout_progress_ratio", &[("target", "a")]).is_some_and(|part| part > 0.2)
    });
    first.signal(Signal::KILL);
    first.ended_within(Duration::from_secs(30)).expect("it was killed");
    let there = fs::metadata(&reads).unwrap().len();
    assert!(there > 0 && there < SIZE, "killed in the middle, not at {there} bytes");

    let second = Daemon::new().config(&yaml).start();
    await_runs(&second, "a", "read", 3.0);
    let now = second.scrape();
    assert_eq!(fs::metadata(&reads).unwrap().len(), SIZE);
    for fault in ["unwritten", "corruption"] {
        assert_eq!(verdict(&now, "a", "read", fault), "fine", "{fault}");
    }
    let written = [("target", "a"), ("probe", "read"), ("op", "write")];
    assert!(
        now.sum("diskcanary_probe_bytes_total", &written) >= SIZE as f64,
        "written from the first byte on"
    );
    assert_sound(&second);
}
