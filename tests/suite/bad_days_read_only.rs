//! File systems that take no writes: from the start, and from one moment to the next. Reads of what lies there go on.

use crate::lab::{self, Daemon, FileSystem, Loop, Mounted, Need};
use crate::targets::{BOTH, ROOM, assert_sound, await_runs, await_state, config, errors, reason, skipped};
use std::fs;

#[test]
fn reads_go_on_where_nothing_can_be_written() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("mkfs.xfs")]) {
        return;
    }
    let remounted = Mounted::new(FileSystem::Xfs, ROOM);
    let broken = Mounted::on(FileSystem::Ext4, Loop::new(ROOM), &[], "errors=remount-ro");
    let bare = Mounted::new(FileSystem::Ext4, ROOM);
    let targets =
        [("remounted", remounted.path(), BOTH), ("broken", broken.path(), BOTH), ("bare", bare.path(), BOTH)];
    let first = Daemon::new().config(&config(&targets[..2])).start();
    for target in ["remounted", "broken"] {
        await_runs(&first, target, "read", 1.0);
    }
    assert!(first.stop().0.success());

    remounted.remount("ro");
    bare.remount("ro");
    let daemon = Daemon::new().config(&config(&targets)).start();
    await_state(&daemon, "broken", "ready");
    await_runs(&daemon, "broken", "commit", 1.0);
    let device = broken.disk().device().file_name().unwrap().to_str().unwrap().to_owned();
    fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").unwrap();
    for target in ["remounted", "broken"] {
        await_state(&daemon, target, "read_only");
        assert!(reason(&daemon, target, "read_only").contains("EROFS"));
        await_runs(&daemon, target, "read", 3.0);
        let now = daemon.scrape();
        assert!(errors(&now, target, "EROFS") >= 1.0, "{target}");
        assert_eq!(now.value("diskcanary_target_up", &[("target", target)]), Some(0.0), "{target}");
    }
    await_state(&daemon, "bare", "read_only");
    assert!(reason(&daemon, "bare", "read_only").contains("cannot make the directory"));
    let now = daemon.scrape();
    assert!(skipped(&now, "remounted", "commit", "read_only") >= 1.0);
    assert!(skipped(&now, "bare", "read", "read_only") >= 1.0);

    remounted.remount("rw");
    bare.remount("rw");
    for target in ["remounted", "bare"] {
        await_state(&daemon, target, "ready");
        await_runs(&daemon, target, "commit", 2.0);
    }
    await_state(&daemon, "broken", "read_only");
    assert_sound(&daemon);
}
