//! The fault-injecting disk: a whole file system that is slow, wrong, short and stuck exactly when told.

use crate::lab::{Aligned, FuseDisk, Need, Op, eventually, is_mounted, lacks, open_direct, within};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

const FUSE: &[Need] = &[Need::Root, Need::Fuse];

#[test]
fn it_is_a_file_system_that_keeps_files_and_directories() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let (a, b) = (disk.path().join("a"), disk.path().join("b"));
    fs::create_dir_all(a.join("deep/er")).unwrap();
    fs::write(a.join("deep/er/file"), "content").unwrap();
    fs::rename(&a, &b).unwrap();
    let moved = b.join("deep/er/file");
    assert_eq!(fs::read_to_string(&moved).unwrap(), "content");
    assert!(!a.exists());
    let file = fs::OpenOptions::new().read(true).write(true).open(&moved).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"tail", (1 << 30) - 4).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 30);
    assert!(file.metadata().unwrap().blocks() * 512 < 1 << 20, "a hole of 1 GiB costs memory or disk");
    fs::remove_file(&moved).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 30, "an unlinked file lives while it is open");
    let names: Vec<_> = fs::read_dir(b.join("deep")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["er"]);
    fs::remove_dir(b.join("deep/er")).unwrap();
    assert!(rustix::fs::statvfs(disk.path()).unwrap().f_bavail > 0);
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    drop(file);
    let path = disk.path().to_owned();
    drop(disk);
    assert!(!is_mounted(&path) && !path.exists());
}

#[test]
fn delays_are_seen_through_o_direct_and_counted() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let file = open_direct(&disk.path().join("file"), true).unwrap();
    let mut buffer = Aligned::new(4096, 7);
    file.write_all_at(buffer.bytes(), 0).unwrap();
    let delay = Duration::from_millis(60);
    for op in [Op::Read, Op::Write, Op::Sync] {
        disk.delay(op, delay);
    }
    let began = Instant::now();
    file.read_exact_at(buffer.bytes(), 0).unwrap();
    let read = began.elapsed();
    file.write_all_at(buffer.bytes(), 4096).unwrap();
    let write = began.elapsed() - read;
    file.sync_data().unwrap();
    let sync = began.elapsed() - read - write;
    assert!([read, write, sync].iter().all(|took| *took >= delay), "{read:?} {write:?} {sync:?}");
    assert_eq!((disk.count(Op::Read).operations, disk.count(Op::Read).bytes), (1, 4096));
    assert_eq!((disk.count(Op::Write).operations, disk.count(Op::Write).bytes), (2, 8192));
    assert_eq!(disk.count(Op::Sync).operations, 1);
}

#[test]
fn a_delay_can_grow_with_depth() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let file = open_direct(&disk.path().join("file"), true).unwrap();
    file.write_all_at(Aligned::new(65536, 7).bytes(), 0).unwrap();
    disk.delay_by_depth(Op::Read, Duration::from_millis(50));
    let file = Arc::new(file);
    let readers: Vec<_> = (0..8)
        .map(|block| {
            let file = Arc::clone(&file);
            std::thread::spawn(move || {
                let began = Instant::now();
                file.read_exact_at(Aligned::new(4096, 0).bytes(), block * 4096).unwrap();
                began.elapsed()
            })
        })
        .collect();
    let slowest = readers.into_iter().map(|reader| reader.join().unwrap()).max().unwrap();
    assert!(slowest >= Duration::from_millis(100), "eight readers at once: {slowest:?}");
}

#[test]
fn errors_and_short_operations_come_when_due() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let file = open_direct(&disk.path().join("file"), true).unwrap();
    let mut buffer = Aligned::new(4096, 7);
    file.write_all_at(buffer.bytes(), 0).unwrap();
    disk.fail(Op::Read, libc::EIO, 2);
    let failed = (0..10).filter(|_| file.read_at(buffer.bytes(), 0).is_err()).count();
    assert_eq!((failed, disk.count(Op::Read).failed), (5, 5));
    disk.heal(Op::Read);
    disk.shorten(Op::Read, 512, 1);
    assert_eq!(file.read_at(buffer.bytes(), 0).unwrap(), 512);
    disk.shorten(Op::Write, 1024, 1);
    assert_eq!(file.write_at(buffer.bytes(), 0).unwrap(), 1024);
    disk.heal(Op::Write);
    disk.fail(Op::Write, libc::ENOSPC, 1);
    disk.fail(Op::Sync, libc::EIO, 1);
    disk.fail(Op::Statfs, libc::EACCES, 1);
    assert_eq!(file.write_at(buffer.bytes(), 0).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(rustix::fs::statvfs(disk.path()).err(), Some(rustix::io::Errno::ACCESS));
    disk.fail(Op::Open, libc::EPERM, 1);
    assert_eq!(fs::File::open(disk.path().join("file")).unwrap_err().raw_os_error(), Some(libc::EPERM));
}

#[test]
fn a_hang_holds_its_kind_alone_and_ends_when_released() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let file = Arc::new(open_direct(&disk.path().join("file"), true).unwrap());
    file.write_all_at(Aligned::new(4096, 7).bytes(), 0).unwrap();
    let hang = disk.hang(&[Op::Write, Op::Sync]);
    let stuck = Arc::clone(&file);
    let writer = std::thread::spawn(move || stuck.write_all_at(Aligned::new(4096, 8).bytes(), 0));
    eventually("the write is inside", || disk.count(Op::Write).inside == 1);
    let reader = Arc::clone(&file);
    let read =
        within(Duration::from_secs(10), move || reader.read_exact_at(Aligned::new(4096, 0).bytes(), 0));
    assert!(read.expect("reads go on").is_ok());
    assert!(!writer.is_finished());
    drop(hang);
    assert!(within(Duration::from_secs(30), move || writer.join().unwrap()).expect("released").is_ok());
    assert_eq!(disk.count(Op::Write).inside, 0);
}

#[test]
fn a_disk_dropped_while_it_hangs_lets_go() {
    if lacks(FUSE) {
        return;
    }
    let disk = FuseDisk::new();
    let path = disk.path().to_owned();
    let file = open_direct(&path.join("file"), true).unwrap();
    let hang = disk.hang(&Op::ALL);
    let writer = std::thread::spawn(move || file.write_all_at(Aligned::new(4096, 8).bytes(), 0).is_ok());
    eventually("the write is inside", || disk.count(Op::Write).inside == 1);
    std::mem::forget(hang);
    drop(disk);
    assert!(
        within(Duration::from_secs(30), move || writer.join().unwrap()).is_some(),
        "the writer is still stuck"
    );
    assert!(!is_mounted(&path));
}
