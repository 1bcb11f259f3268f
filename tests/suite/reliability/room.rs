//! Where the disks of a ward stand: in memory, so that a busy host's disk does not make healthy ones slow.

use crate::lab::{FileSystem, FuseDisk, FuseServer, Loop, LoopOptions, Mounted};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// Room for disks. The daemon never sees the memory: file systems on loop devices and FUSE lie between.
pub(super) struct Room {
    /// A disk on which cases have a directory each, those that touch nothing but files there.
    shared: Mounted,
    memory: Mounted,
    nobody: bool,
}

/// Enough for the smallest probe files, which take at most 5 % of what is free.
const DISK: u64 = 2 << 30;

impl Room {
    /// For a daemon that runs as nobody, all that it is to use belongs to nobody.
    pub(super) fn new(nobody: bool) -> Self {
        let memory = Mounted::tmpfs(8 << 30);
        let shared = ext4(&memory, DISK, &[], "");
        let room = Self { memory, shared, nobody };
        room.give(room.shared.path());
        room
    }

    fn give(&self, path: &Path) {
        if self.nobody {
            chown(path, Some(65534), Some(65534)).unwrap();
        }
    }

    pub(super) fn fuse(&self) -> FuseDisk {
        let disk = FuseDisk::within(self.memory.path());
        self.give(disk.backing());
        disk
    }

    pub(super) fn fuse_server(&self) -> FuseServer {
        FuseServer::within(self.memory.path(), "reliability::file_server_of_the_other_tests")
    }

    pub(super) fn ext4(&self) -> Mounted {
        self.ext4_with(&[], "")
    }

    /// With further arguments for mkfs, and mount options joined by commas.
    pub(super) fn ext4_with(&self, mkfs: &[&str], options: &str) -> Mounted {
        let disk = ext4(&self.memory, DISK, mkfs, options);
        self.give(disk.path());
        disk
    }

    pub(super) fn xfs(&self) -> Mounted {
        let disk = Loop::within(self.memory.path(), LoopOptions { direct: false, ..LoopOptions::of(DISK) });
        Mounted::on(FileSystem::Xfs, disk, &[], "")
    }

    pub(super) fn ext4_sized(&self, size: u64) -> Mounted {
        let disk = ext4(&self.memory, size, &[], "");
        self.give(disk.path());
        disk
    }

    /// A block device, filled.
    pub(super) fn device(&self, size: u64, sector: u32) -> Loop {
        let options = LoopOptions { size, sector, direct: false, read_only: false, filled: true };
        Loop::within(self.memory.path(), options)
    }

    /// A directory on the shared disk.
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        let path = self.shared.path().join(name);
        fs::create_dir(&path).unwrap();
        self.give(&path);
        path
    }

    /// A directory for what is no target: links, mount points.
    pub(super) fn corner(&self, name: &str) -> PathBuf {
        let path = self.memory.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

fn ext4(memory: &Mounted, size: u64, mkfs: &[&str], options: &str) -> Mounted {
    let disk = Loop::within(memory.path(), LoopOptions { direct: false, ..LoopOptions::of(size) });
    // A small journal is made sooner.
    Mounted::on(FileSystem::Ext4, disk, &[&["-J", "size=16"], mkfs].concat(), options)
}
