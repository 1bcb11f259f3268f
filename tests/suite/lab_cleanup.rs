//! The lab leaves nothing behind: not after a panic, and after a kill only until its next use.

use crate::lab::{Blkio, FileSystem, FuseDisk, Loop, Mounted, Need, Op, Scratch, is_mounted, lacks};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const NEEDS: &[Need] =
    &[Need::Root, Need::Fuse, Need::Cgroup("blkio"), Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze")];

#[test]
fn a_panic_leaves_nothing() {
    if lacks(NEEDS) {
        return;
    }
    let places: Mutex<Vec<PathBuf>> = Mutex::default();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let disk = Mounted::new(FileSystem::Ext4, 64 << 20);
        let fuse = FuseDisk::new();
        let group = Blkio::new();
        let paths = [disk.path(), disk.disk().backing(), fuse.path(), group.path()];
        places.lock().unwrap().extend(paths.map(Path::to_owned));
        let (_frozen, _hang) = (disk.freeze(), fuse.hang(&Op::ALL));
        panic!("as a failing test does");
    }));
    assert!(panicked.is_err());
    for place in places.into_inner().unwrap() {
        assert!(!is_mounted(&place) && !place.exists(), "{} is still there", place.display());
    }
}

/// Not a test of its own: the child's part in the next one.
#[test]
fn child_makes_disks() {
    let Some(role) = std::env::var_os("LAB_CHILD_MAKES_DISKS") else { return };
    let (raw, scratch) = (Loop::new(8 << 20), Scratch::new());
    if role == "and dies" {
        let (disk, fuse, group) = (Mounted::new(FileSystem::Ext4, 64 << 20), FuseDisk::new(), Blkio::new());
        let paths =
            [disk.path(), disk.disk().backing(), fuse.path(), group.path(), raw.backing(), scratch.path()];
        for path in paths {
            println!("made={}", path.display());
        }
        let _frozen = disk.freeze();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    drop(Blkio::new());
}

#[test]
fn what_a_killed_run_left_is_swept_by_the_next() {
    if lacks(NEEDS) {
        return;
    }
    let child = |role: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "lab_cleanup::child_makes_disks", "--nocapture"]);
        command.env("LAB_CHILD_MAKES_DISKS", role).output().unwrap()
    };
    let killed = child("and dies");
    assert_eq!(killed.status.signal(), Some(libc::SIGKILL), "{killed:?}");
    let said = String::from_utf8(killed.stdout).unwrap();
    let left: Vec<&str> =
        said.lines().filter_map(|line| line.split_once("made=").map(|(_, path)| path)).collect();
    assert_eq!(left.len(), 6, "{said}");
    let next = child("and lives");
    assert!(next.status.success(), "{next:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    for path in left {
        assert!(!mounts.contains(path) && !Path::new(path).exists(), "{path} is still there");
    }
}
