//! Paths that are not there, are no disk, or may not be used: said apart, nothing created, and others go on.

use crate::lab::{self, Daemon, Devices, Loop, LoopOptions, Need, Scratch};
use crate::targets::{
    COMMITS, READS, assert_sound, await_runs, await_state, await_that, config, errors, reason,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

#[test]
fn what_is_missing_or_no_disk_is_said_and_never_made() {
    if lab::lacks(&[Need::Root]) {
        return;
    }
    let scratch = Scratch::new();
    let (late, link) = (scratch.path().join("late/deeper"), scratch.path().join("link"));
    std::os::unix::fs::symlink(scratch.path().join("nothing"), &link).unwrap();
    let file = scratch.file("file", "dear");
    let devices = || fs::read_dir("/dev").unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert!(!devices().iter().any(|name| name == "nvme9n9"));
    let good = scratch.dir("good");
    let daemon = Daemon::new()
        .config(&config(&[
            ("device", Path::new("/dev/nvme9n9"), COMMITS),
            ("late", &late, COMMITS),
            ("link", &link, COMMITS),
            ("file", &file, COMMITS),
            ("below", &file.join("x"), COMMITS),
            ("null", Path::new("/dev/null"), COMMITS),
            ("good", &good, COMMITS),
        ]))
        .start();
    for (target, state) in [
        ("device", "gone"),
        ("late", "gone"),
        ("link", "gone"),
        ("file", "unsupported"),
        ("below", "unsupported"),
        ("null", "unsupported"),
        ("good", "ready"),
    ] {
        await_state(&daemon, target, state);
    }
    await_runs(&daemon, "good", "commit", 3.0);
    assert!(reason(&daemon, "device", "gone").contains("/dev/nvme9n9 does not exist"));
    assert!(reason(&daemon, "late", "gone").contains("does not exist"));
    assert!(reason(&daemon, "file", "unsupported").contains("is a regular file"));
    let now = daemon.scrape();
    assert!(errors(&now, "device", "ENOENT") >= 1.0);
    assert_eq!(now.value("diskcanary_target_up", &[("target", "late")]), Some(0.0));
    assert_eq!(now.value("diskcanary_target_up", &[("target", "good")]), Some(1.0));
    assert!(!devices().iter().any(|name| name == "nvme9n9"));
    assert!(!late.parent().unwrap().exists() && !scratch.path().join("nothing").exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "dear");

    fs::create_dir_all(&late).unwrap();
    await_state(&daemon, "late", "ready");
    assert_sound(&daemon);
}

/// A node of our own for a loop device: the modes of those in `/dev` are not ours to change.
fn node(scratch: &Scratch, name: &str, disk: &Loop) -> PathBuf {
    let path = scratch.path().join(name);
    let (major, minor) = disk.number();
    lab::run("mknod", &["-m", "0666", path.to_str().unwrap(), "b", &major.to_string(), &minor.to_string()]);
    path
}

#[test]
fn eacces_and_eperm_are_told_apart() {
    if lab::lacks(&[Need::Root, Need::Cgroup("devices"), Need::Tool("chattr")]) {
        return;
    }
    let scratch = Scratch::new();
    let disk = |_| Loop::with(LoopOptions { filled: true, ..LoopOptions::of(1 << 20) });
    let [allowed, denied, closed] = [0, 1, 2].map(disk);
    let nodes = [node(&scratch, "allowed", &allowed), node(&scratch, "denied", &denied)];
    let closed_node = node(&scratch, "closed", &closed);
    fs::set_permissions(&closed_node, fs::Permissions::from_mode(0o600)).unwrap();
    let cgroup = Devices::new();
    cgroup.deny(denied.number());

    let [private, foreign, immutable] = ["private", "foreign", "immutable"].map(|name| scratch.dir(name));
    let inside = scratch.dir("private/inside");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&immutable, Some(65534), Some(65534)).unwrap();
    let _attribute = Immutable::set(&immutable);
    let daemon = Daemon::new()
        .config(&config(&[
            ("allowed", &nodes[0], READS),
            ("denied", &nodes[1], READS),
            ("closed", &closed_node, READS),
            ("private", &private, COMMITS),
            ("inside", &inside, COMMITS),
            ("foreign", &foreign, COMMITS),
            ("immutable", &immutable, COMMITS),
        ]))
        .with(|command| {
            lab::in_cgroup(command, cgroup.path());
            lab::as_user(command, "nobody");
        })
        .start();
    await_runs(&daemon, "allowed", "read", 2.0);
    for (target, errno, cure) in [
        ("denied", "EPERM", "device cgroup"),
        ("immutable", "EPERM", "immutable flag"),
        ("closed", "EACCES", "mode 0600"),
        ("inside", "EACCES", "mode bits"),
        ("foreign", "EACCES", "permission bits"),
    ] {
        await_state(&daemon, target, "permission");
        let line = reason(&daemon, target, "permission");
        assert!(line.contains(errno) && line.contains(cure), "{line}");
        await_that(&daemon, &format!("{target} counts {errno}"), |m| errors(m, target, errno) >= 1.0);
        let other = if errno == "EPERM" { "EACCES" } else { "EPERM" };
        assert_eq!(errors(&daemon.scrape(), target, other), 0.0, "{target}");
    }
    // Whether a directory that cannot be listed belongs to a database cannot be seen: refused, or forbidden.
    let said = crate::targets::state(&daemon.scrape(), "private").unwrap();
    assert!(["permission", "unsupported"].contains(&said.as_str()), "{said}");
    for dir in [&private, &foreign, &immutable, &inside] {
        assert!(!dir.join(".diskcanary").exists());
    }
    assert_sound(&daemon);
}

/// `chattr +i`, and back when dropped: else nobody could remove it.
struct Immutable<'a>(&'a Path);

impl<'a> Immutable<'a> {
    fn set(dir: &'a Path) -> Self {
        lab::run("chattr", &["+i".as_ref(), dir.as_os_str()]);
        Self(dir)
    }
}

impl Drop for Immutable<'_> {
    fn drop(&mut self) {
        let _ = lab::try_run("chattr", &["-i".as_ref(), self.0.as_os_str()]);
    }
}
