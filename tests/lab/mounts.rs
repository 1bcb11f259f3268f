//! Mounted file systems: ext4, xfs and btrfs on loop devices, tmpfs, overlay; frozen, read-only, full.

use super::command::{command, finish, run, try_run};
use super::confine::away_from_fuse;
use super::loops::Loop;
use super::scratch::Scratch;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What is made on a disk, with its options for `mkfs` and `mount`.
#[derive(Clone, Copy, Debug)]
pub enum FileSystem {
    /// ext4 without lazy initialisation, so that no kernel thread writes beside us.
    Ext4,
    /// XFS; at least 300 MiB.
    Xfs,
    /// btrfs; at least 128 MiB.
    Btrfs,
}

/// A mounted file system; unmounted when dropped (lazily if someone still uses it), then its disk goes.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    frozen: AtomicBool,
    disk: Option<Loop>,
    under: Option<Box<Mounted>>,
    scratch: Scratch,
}

impl Mounted {
    /// The file system on a fresh sparse loop device of this many bytes.
    pub fn new(kind: FileSystem, size: u64) -> Self {
        Self::on(kind, Loop::new(size), &[], "")
    }

    /// The file system on this disk, with further arguments for mkfs, and mount options joined by commas.
    pub fn on(kind: FileSystem, disk: Loop, mkfs: &[&str], options: &str) -> Self {
        let mut mounted = Self::on_device(kind, disk.device(), mkfs, options);
        mounted.disk = Some(disk);
        mounted
    }

    /// The same on a device that is somebody else's to remove, after this.
    pub fn on_device(kind: FileSystem, device: &Path, mkfs: &[&str], options: &str) -> Self {
        let (program, quiet): (_, &[&str]) = match kind {
            FileSystem::Ext4 => ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
            FileSystem::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            FileSystem::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        };
        let device = device.to_str().unwrap();
        let mut command = command(program);
        away_from_fuse(command.args(quiet).args(mkfs).arg(device));
        finish(command).unwrap_or_else(|error| panic!("{error}"));
        Self::mount(&[], device, options)
    }

    /// A file system in RAM of this many bytes.
    pub fn tmpfs(size: u64) -> Self {
        Self::mount(&["-t", "tmpfs"], "tmpfs", &format!("size={size}"))
    }

    /// An overlay whose layers all lie on `under`.
    pub fn overlay(under: Self) -> Self {
        let layer = |name: &str| {
            let path = under.path.join(name);
            fs::create_dir_all(&path).unwrap();
            path.display().to_string()
        };
        let options =
            format!("lowerdir={},upperdir={},workdir={}", layer("lower"), layer("upper"), layer("work"));
        let mut mounted = Self::mount(&["-t", "overlay"], "overlay", &options);
        mounted.under = Some(Box::new(under));
        mounted
    }

    fn mount(kind: &[&str], source: &str, options: &str) -> Self {
        let scratch = Scratch::new();
        let path = scratch.dir("mnt");
        let options = if options.is_empty() { "defaults" } else { options };
        run("mount", &[kind, &["-o", options, source, path.to_str().unwrap()]].concat());
        Self { path, frozen: AtomicBool::new(false), disk: None, under: None, scratch }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The loop device below it. Panics where there is none.
    pub fn disk(&self) -> &Loop {
        self.disk.as_ref().expect("this file system lies on no loop device")
    }

    /// The same, to be unplugged and plugged in again.
    pub fn disk_mut(&mut self) -> &mut Loop {
        self.disk.as_mut().expect("this file system lies on no loop device")
    }

    /// The file system that an overlay lies on.
    pub fn under(&self) -> Option<&Self> {
        self.under.as_deref()
    }

    /// Writes hang from here on (the writer sits in the kernel, SIGKILL does not reach it), reads go on.
    pub fn freeze(&self) -> Frozen<'_> {
        run("fsfreeze", &["--freeze".as_ref(), self.path.as_os_str()]);
        self.frozen.store(true, SeqCst);
        Frozen { mounted: self }
    }

    /// Lets the writes go on; harmless where nothing is frozen.
    pub fn thaw(&self) {
        if self.frozen.swap(false, SeqCst) {
            let _ = try_run("fsfreeze", &["--unfreeze".as_ref(), self.path.as_os_str()]);
        }
    }

    /// Mounts it again with other options: `ro`, `rw`.
    pub fn remount(&self, options: &str) {
        run("mount", &["-o", &format!("remount,{options}"), self.path.to_str().unwrap()]);
    }

    /// Takes it from the name space; whoever has files open keeps them.
    pub fn unmount_lazily(&self) {
        run("umount", &["-l".as_ref(), self.path.as_os_str()]);
    }

    /// Pulls the disk: lazy unmount, then detach.
    pub fn pull(&mut self) {
        self.unmount_lazily();
        if let Some(disk) = &mut self.disk {
            disk.detach();
        }
    }

    /// Writes a file until not one more block fits; [`Self::free`] removes it.
    pub fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        for size in [1 << 20, 64 << 10, 4 << 10] {
            let chunk = vec![0x5a; size];
            while file.write_all(&chunk).and_then(|()| file.sync_data()).is_ok() {}
        }
    }

    /// Makes the room again that [`Self::fill`] took.
    pub fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.thaw();
        if is_mounted(&self.path) && try_run("umount", &[&self.path]).is_err() {
            let _ = try_run("umount", &["-l".as_ref(), self.path.as_os_str()]);
        }
    }
}

/// Holds a file system frozen; thaws it when dropped.
#[derive(Debug)]
pub struct Frozen<'a> {
    mounted: &'a Mounted,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.mounted.thaw();
    }
}

/// Whether this very path is a mount point.
pub fn is_mounted(path: &Path) -> bool {
    mount_points().iter().any(|point| point == path)
}

/// The mount's own options and the file system's, joined by a comma, as the kernel shows them.
pub fn mount_options(path: &Path) -> Option<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    text.lines().rev().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields.get(4).copied().map(Path::new) == Some(path))
            .then(|| format!("{},{}", fields[5], fields[fields.len() - 1]))
    })
}

/// Mount points at or below the directory, the outer before the inner.
pub(super) fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    mount_points().into_iter().filter(|point| point.starts_with(directory)).collect()
}

fn mount_points() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect()
}
