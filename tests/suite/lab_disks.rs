//! The lab's disks are what they say: loop devices, mounted file systems, throttles.

use crate::lab::{
    Aligned, Blkio, Direction, FileSystem, Loop, LoopOptions, Mounted, Need, in_cgroup, is_mounted, lacks,
    mount_options, open_direct, within,
};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const LOOPS: &[Need] = &[Need::Root, Need::Tool("losetup")];
const EXT4: &[Need] = &[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze")];

#[test]
fn a_loop_device_counts_reads_keeps_its_checksum_and_goes() {
    if lacks(LOOPS) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, read_only: true, ..LoopOptions::of(8 * MIB) });
    let (before, content) = (disk.reads(), disk.checksum());
    let file = open_direct(disk.device(), false).unwrap();
    let mut buffer = Aligned::new(4096, 0);
    for block in 0..64 {
        assert_eq!(file.read_at(buffer.bytes(), block * 4096).unwrap(), 4096);
        assert!(buffer.bytes().iter().any(|byte| *byte != 0), "block {block} is empty");
    }
    assert!(disk.reads() >= before + 64, "the kernel counts what we read past the cache");
    let writable = open_direct(disk.device(), true).and_then(|file| file.write_at(buffer.bytes(), 0));
    assert!(writable.is_err(), "a read-only device took a write");
    assert_eq!(disk.checksum(), content);
    let (backing, number) = (disk.backing().to_owned(), disk.sysfs().join("loop/backing_file"));
    drop(file);
    drop(disk);
    assert!(!backing.exists());
    assert!(!fs::read_to_string(number).unwrap_or_default().contains(backing.to_str().unwrap()));
}

#[test]
fn a_4kn_disk_refuses_512_bytes() {
    if lacks(LOOPS) {
        return;
    }
    let disk = Loop::with(LoopOptions { sector: 4096, ..LoopOptions::of(8 * MIB) });
    let file = open_direct(disk.device(), false).unwrap();
    let mut buffer = Aligned::new(4096, 0);
    let refused = file.read_at(&mut buffer.bytes()[..512], 0).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    assert_eq!(file.read_at(buffer.bytes(), 4096).unwrap(), 4096);
}

#[test]
fn a_truncated_backing_file_fails_reads_beyond_it() {
    if lacks(LOOPS) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(8 * MIB) });
    let file = open_direct(disk.device(), false).unwrap();
    let mut buffer = Aligned::new(4096, 0);
    disk.truncate_backing(4 * MIB);
    assert_eq!(file.read_at(buffer.bytes(), 0).unwrap(), 4096);
    let beyond = file.read_at(buffer.bytes(), 6 * MIB);
    assert!(!matches!(beyond, Ok(4096)), "a whole block from beyond the end: {beyond:?}");
}

#[test]
fn a_frozen_file_system_blocks_writes_but_not_reads() {
    if lacks(EXT4) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 64 * MIB);
    let path = disk.path().join("file");
    fs::write(&path, [7; 8192]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let frozen = disk.freeze();
    let (to, from) = (path.clone(), path.clone());
    let writer = std::thread::spawn(move || fs::write(to, [8; 8192]));
    assert!(within(Duration::from_secs(10), move || fs::read(from).unwrap()).is_some(), "a read hung");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!writer.is_finished(), "a write went through a frozen file system");
    drop(frozen);
    assert!(within(Duration::from_secs(30), move || writer.join().unwrap().unwrap()).is_some());
    assert_eq!(fs::read(&path).unwrap(), [8; 8192]);
}

#[test]
fn file_systems_take_their_options_and_go_when_dropped() {
    if lacks(&[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("mkfs.xfs"), Need::Tool("mkfs.btrfs")]) {
        return;
    }
    let kept = |disk: &Mounted, option: &str| {
        let options = mount_options(disk.path()).unwrap();
        assert!(options.contains(option), "{option} is not among {options}");
        fs::write(disk.path().join("file"), "text").unwrap();
        disk.path().to_owned()
    };
    let nobarrier = Mounted::on(FileSystem::Ext4, Loop::new(64 * MIB), &["-m", "0"], "barrier=0");
    let xfs = Mounted::new(FileSystem::Xfs, 320 * MIB);
    let packed = Mounted::on(FileSystem::Btrfs, Loop::new(256 * MIB), &[], "compress-force=zstd");
    let overlay = Mounted::overlay(Mounted::tmpfs(16 * MIB));
    let paths: Vec<PathBuf> = vec![
        kept(&nobarrier, "nobarrier"),
        kept(&xfs, "rw"),
        kept(&packed, "compress-force=zstd"),
        kept(&overlay, "upperdir="),
        overlay.under().unwrap().path().to_owned(),
    ];
    drop((nobarrier, xfs, packed, overlay));
    for path in paths {
        assert!(!is_mounted(&path) && !path.exists(), "{} is still there", path.display());
    }
}

#[test]
fn a_file_system_turns_read_only_fills_up_and_loses_its_disk() {
    if lacks(EXT4) {
        return;
    }
    let mut disk = Mounted::new(FileSystem::Ext4, 64 * MIB);
    let path = disk.path().join("file");
    disk.remount("ro");
    assert_eq!(fs::write(&path, "text").unwrap_err().raw_os_error(), Some(libc::EROFS));
    disk.remount("rw");
    disk.fill();
    let full = fs::write(&path, [1; 65536]).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    disk.free();
    fs::write(&path, [1; 65536]).unwrap();
    disk.pull();
    assert!(!is_mounted(disk.path()) && !path.exists());
}

#[test]
fn a_throttled_group_gets_its_limit_and_no_more() {
    if lacks(&[Need::Root, Need::Tool("losetup"), Need::Tool("dd"), Need::Cgroup("blkio")]) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(8 * MIB) });
    let group = Blkio::new();
    group.limit(disk.number(), Direction::Read, 100);
    let mut command = Command::new("dd");
    command.arg(format!("if={}", disk.device().display()));
    command.args(["of=/dev/null", "bs=4k", "count=200", "iflag=direct", "status=none"]);
    in_cgroup(&mut command, group.path());
    let began = Instant::now();
    assert!(command.status().unwrap().success());
    assert!(began.elapsed() > Duration::from_secs(1), "200 reads at 100/s took {:?}", began.elapsed());
    let path = group.path().to_owned();
    drop(group);
    assert!(!path.exists());
}
