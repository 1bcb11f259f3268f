//! Bad days of a disk: errors, no space, short reads, wrong bytes, a path that is not there. Each is counted as what it is,
//! is no sample, and is over when it is over.

use crate::lab::{Daemon, FuseDisk, Need, Op, Scratch, lacks};
use crate::watch::{Seen, all_measured, seen_when, target};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const FUSE: &[Need] = &[Need::Root, Need::Fuse];

#[test]
fn a_path_that_is_missing_at_the_start_stops_nobody_and_is_found_when_it_comes() {
    let (scratch, good) = (Scratch::new(), Scratch::new());
    let late = scratch.path().join("late");
    let config = format!(
        "targets:\n{}{}",
        target("late", &late, "100ms", "100ms"),
        target("good", good.path(), "100ms", "100ms")
    );
    let daemon = Daemon::new().config(&config).start();
    all_measured(&daemon, &["good"], &["commit", "read"]);
    let seen = seen_when(&daemon, "it is gone", |seen| seen.is_in("late", "gone"));
    assert_eq!(seen.up("late"), Some(0.0));
    assert_eq!(seen.up("good"), Some(1.0));
    assert!(seen.errors("late", "commit", "open", "ENOENT") >= 1.0);
    assert_eq!(seen.samples("late", "commit"), 0.0);
    assert!(!late.exists(), "it was made");
    assert_eq!(daemon.get("/-/ready").status, 200, "what is known to be down is no reason to wait");
    seen_when(&daemon, "its slots are skipped", |seen| {
        let labels = [("target", "late"), ("probe", "commit"), ("reason", "gone")];
        seen.0.sum("diskcanary_probe_skipped_total", &labels) > 5.0
    });

    fs::create_dir(&late).unwrap();
    all_measured(&daemon, &["late"], &["commit", "read"]);
    seen_when(&daemon, "it is up", |seen| seen.up("late") == Some(1.0) && seen.is_in("late", "ready"));
}

#[test]
fn commits_that_fail_are_counted_with_stage_and_errno_and_are_no_samples() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let config = format!(
        "targets:\n  - name: d\n    path: {}\n    commit: {{interval: 100ms, file_size: 4MiB}}\n    \
         read: {{enabled: false}}\n",
        disk.path().display()
    );
    let daemon = Daemon::new().config(&config).start();
    all_measured(&daemon, &["d"], &["commit"]);
    let file = disk.backing().join(".diskcanary/commits");
    for (op, errno, stage, name, state, laid_anew) in [
        (Op::Sync, libc::EIO, "sync", "EIO", "gone", true),
        (Op::Write, libc::ENOSPC, "write", "ENOSPC", "no_space", false),
        (Op::Write, libc::EROFS, "write", "EROFS", "read_only", false),
    ] {
        let head = first_block(&file);
        disk.fail(op, errno, 1);
        let failed = seen_when(&daemon, &format!("{name} of {stage}"), |seen| {
            seen.errors("d", "commit", stage, name) >= 1.0 && seen.is_in("d", state)
        });
        assert_eq!(failed.up("d"), Some(0.0));
        std::thread::sleep(Duration::from_millis(1500));
        let still = Seen::of(&daemon);
        for op in ["commit", "write", "sync"] {
            assert_eq!(still.samples("d", op), failed.samples("d", op), "{op}: a failure became a sample");
        }
        disk.heal(op);
        seen_when(&daemon, &format!("over {name}"), |seen| {
            seen.samples("d", "commit") > still.samples("d", "commit") + 10.0
                && seen.up("d") == Some(1.0)
                && seen.is_in("d", "ready")
        });
        assert_eq!(first_block(&file) != head, laid_anew, "{name}: laid out anew");
    }
}

/// The daemon looks at the path anew when something fails: here a commit, while the directory has another name for a moment, or
/// while all our files are gone.
#[test]
fn a_target_that_was_away_for_a_while_is_wholly_measured_again() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let (here, away) = (disk.path().join("data"), disk.path().join("away"));
    fs::create_dir(&here).unwrap();
    let daemon = Daemon::new().config(&format!("targets:\n{}", target("d", &here, "100ms", "100ms"))).start();
    all_measured(&daemon, &["d"], &["commit", "read"]);
    fs::rename(&here, &away).unwrap();
    disk.fail(Op::Sync, libc::EIO, 1);
    seen_when(&daemon, "it is gone", |seen| seen.errors("d", "commit", "open", "ENOENT") >= 1.0);
    disk.heal(Op::Sync);
    fs::rename(&away, &here).unwrap();
    recovers(&daemon, "the directory is back");

    fs::remove_dir_all(here.join(".diskcanary")).unwrap();
    disk.fail(Op::Sync, libc::EIO, 1);
    std::thread::sleep(Duration::from_millis(500));
    disk.heal(Op::Sync);
    recovers(&daemon, "our files are made anew");
    for name in ["CACHEDIR.TAG", "commits", "reads"] {
        assert!(here.join(".diskcanary").join(name).exists(), "{name}");
    }
}

fn first_block(file: &Path) -> Vec<u8> {
    let mut block = vec![0; 4096];
    fs::File::open(file).unwrap().read_exact_at(&mut block, 0).unwrap();
    block
}

#[test]
fn reads_that_fail_fall_short_or_bring_wrong_bytes_are_counted_as_what_they_are() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let config = format!("targets:\n{}", target("d", disk.path(), "1s", "100ms"));
    let daemon = Daemon::new().config(&config).start();
    let well = all_measured(&daemon, &["d"], &["read", "commit"]);
    assert_eq!(well.fault("d", "read", "corruption"), Some(false));

    disk.fail(Op::Read, libc::EIO, 1);
    let failed = seen_when(&daemon, "EIO", |s| s.errors("d", "read", "read", "EIO") >= 1.0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(Seen::of(&daemon).samples("d", "read"), failed.samples("d", "read"));
    disk.heal(Op::Read);
    recovers(&daemon, "EIO");

    disk.shorten(Op::Read, 512, 1);
    seen_when(&daemon, "short reads", |s| {
        s.invalid("d", "read", "short_io") >= 1.0 && s.up("d") == Some(0.0)
    });
    disk.heal(Op::Read);
    recovers(&daemon, "short reads");

    let reads = disk.backing().join(".diskcanary/reads");
    flip(&reads);
    let wrong = seen_when(&daemon, "corruption", |s| s.fault("d", "read", "corruption") == Some(true));
    assert!(wrong.invalid("d", "read", "corruption") >= 1.0);
    flip(&reads);
    seen_when(&daemon, "the bytes are right again", |s| s.fault("d", "read", "corruption") == Some(false));
    assert_eq!(Seen::of(&daemon).invalid("d", "commit", "corruption"), 0.0);
}

fn recovers(daemon: &crate::lab::Running, what: &str) {
    let still = Seen::of(daemon);
    seen_when(daemon, &format!("over {what}"), |seen| {
        seen.samples("d", "read") > still.samples("d", "read") + 64.0
            && seen.up("d") == Some(1.0)
            && seen.is_in("d", "ready")
    });
}

/// Turns one bit in each second block but the head: twice is as before.
fn flip(file: &Path) {
    let file = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let blocks = file.metadata().unwrap().len() / 4096;
    for block in (2..blocks).step_by(2) {
        let (at, mut byte) = (block * 4096 + 2000, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
}
