//! One daemon on many kinds of file system and disk at once, under names that are hard to print; and what is no disk at all.

use crate::lab::{self, Daemon, FileSystem, Loop, LoopOptions, Mounted, Need};
use crate::targets::{BOTH, READS, ROOM, assert_sound, await_runs, await_state, config, reason, verdict};

const ODD: [&str; 4] = ["a \"quoted\" name", "two\nlines", "back\\slash", "Größe ☃ 磁盘"];

#[test]
fn every_disk_is_measured_and_memory_is_refused() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.xfs"), Need::Tool("mkfs.btrfs"), Need::Tool("promtool")]) {
        return;
    }
    let sectors_of_4k = || Loop::with(LoopOptions { sector: 4096, ..LoopOptions::of(ROOM) });
    let kn = Mounted::on(FileSystem::Ext4, sectors_of_4k(), &[], "");
    let kn_raw = Loop::with(LoopOptions { sector: 4096, filled: true, ..LoopOptions::of(4 << 20) });
    let xfs = Mounted::new(FileSystem::Xfs, ROOM);
    let btrfs = Mounted::new(FileSystem::Btrfs, ROOM);
    let compressed = Mounted::on(FileSystem::Btrfs, Loop::new(ROOM), &[], "compress-force=zstd");
    let overlay = Mounted::overlay(Mounted::new(FileSystem::Ext4, ROOM));
    let (memory, over_memory) = (Mounted::tmpfs(ROOM), Mounted::overlay(Mounted::tmpfs(ROOM)));
    let odd = ODD.map(|_| Loop::with(LoopOptions { filled: true, ..LoopOptions::of(1 << 20) }));

    let mut targets = vec![
        ("4kn", kn.path(), BOTH),
        ("4kn_raw", kn_raw.device(), READS),
        ("xfs", xfs.path(), BOTH),
        ("btrfs", btrfs.path(), BOTH),
        ("compressed", compressed.path(), BOTH),
        ("overlay", overlay.path(), BOTH),
        ("memory", memory.path(), BOTH),
        ("over_memory", over_memory.path(), BOTH),
    ];
    targets.extend(ODD.iter().zip(&odd).map(|(name, disk)| (*name, disk.device(), READS)));
    let daemon = Daemon::new().config(&config(&targets)).start();
    for target in ["4kn", "xfs", "btrfs", "compressed", "overlay"] {
        await_runs(&daemon, target, "commit", 2.0);
        await_runs(&daemon, target, "read", 2.0);
        await_state(&daemon, target, "ready");
        for (probe, fault) in [("commit", "unwritten"), ("read", "unwritten"), ("read", "corruption")] {
            assert_eq!(verdict(&daemon.scrape(), target, probe, fault), "fine", "{target} {fault}");
        }
    }
    for target in ODD.iter().chain(&["4kn_raw"]) {
        await_runs(&daemon, target, "read", 2.0);
    }
    for (target, why) in [("memory", "in memory"), ("over_memory", "an overlay that writes to memory")] {
        await_state(&daemon, target, "unsupported");
        let line = reason(&daemon, target, "unsupported");
        assert!(line.contains(why) && line.contains("name a directory on a disk"), "{line}");
    }
    assert!(!memory.path().join(".diskcanary").exists() && !over_memory.path().join(".diskcanary").exists());
    let now = daemon.scrape();
    for (target, _, _) in &targets {
        assert_eq!(now.all("diskcanary_target_info", &[("target", target)]).len(), 1, "{target}");
    }
    let said = lab::promtool_check_metrics(&now.text);
    assert!(said.is_ok(), "{said:?}");
    assert_sound(&daemon);
}
