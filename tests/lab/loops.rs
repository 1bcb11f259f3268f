//! Loop devices over files on a real disk: raw targets, disks that vanish, 4Kn disks, disks with a known checksum.

use super::command::{run, try_run};
use super::scratch::{Scratch, checksum};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// How a loop device is made.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Size of the backing file in bytes.
    pub size: u64,
    /// Logical block size in bytes: 512, or 4096 for a 4Kn disk.
    pub sector: u32,
    /// The backing file is opened O_DIRECT, so that no page cache of the host answers.
    pub direct: bool,
    /// The device refuses writes.
    pub read_only: bool,
    /// The backing file is filled with incompressible bytes instead of being sparse.
    pub filled: bool,
}

impl LoopOptions {
    /// A sparse, writable 512-byte device with direct I/O.
    pub fn of(size: u64) -> Self {
        Self { size, sector: 512, direct: true, read_only: false, filled: false }
    }
}

/// One loop device and its backing file; both go when it is dropped.
#[derive(Debug)]
pub struct Loop {
    device: PathBuf,
    backing: PathBuf,
    options: LoopOptions,
    attached: bool,
    scratch: Scratch,
}

impl Loop {
    /// A sparse device of this many bytes.
    pub fn new(size: u64) -> Self {
        Self::with(LoopOptions::of(size))
    }

    /// A device made to order.
    pub fn with(options: LoopOptions) -> Self {
        Self::over(Scratch::new(), options)
    }

    /// A device made to order, its backing file in a directory of its own below this one.
    pub fn within(directory: &Path, options: LoopOptions) -> Self {
        Self::over(Scratch::within(directory), options)
    }

    fn over(scratch: Scratch, options: LoopOptions) -> Self {
        let backing = scratch.path().join("disk.img");
        make(&backing, options);
        let device = attach(&backing, options);
        Self { device, backing, options, attached: true, scratch }
    }

    /// The block device, `/dev/loopN`.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// The file behind it.
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// Major and minor number.
    pub fn number(&self) -> (u32, u32) {
        let text = fs::read_to_string(self.sysfs().join("dev")).unwrap();
        let (major, minor) = text.trim().split_once(':').unwrap();
        (major.parse().unwrap(), minor.parse().unwrap())
    }

    /// The device's directory in sysfs.
    pub fn sysfs(&self) -> PathBuf {
        Path::new("/sys/block").join(self.device.file_name().unwrap())
    }

    /// The kernel's own counts since the device was made: the fields of `/sys/block/loopN/stat` in their order
    /// (0 reads, 2 sectors read, 4 writes, 6 sectors written, 15 flushes).
    pub fn counters(&self) -> Vec<u64> {
        let text = fs::read_to_string(self.sysfs().join("stat")).unwrap();
        text.split_whitespace().map(|n| n.parse().unwrap()).collect()
    }

    /// Reads that the device completed, by the kernel's count.
    pub fn reads(&self) -> u64 {
        self.counters()[0]
    }

    /// Writes that the device completed, by the kernel's count.
    pub fn writes(&self) -> u64 {
        self.counters()[4]
    }

    /// XXH3 of what the backing file holds.
    pub fn checksum(&self) -> u64 {
        checksum(&self.backing)
    }

    /// Cuts the backing file under the living device: what lies beyond answers EIO.
    pub fn truncate_backing(&self, size: u64) {
        fs::OpenOptions::new().write(true).open(&self.backing).unwrap().set_len(size).unwrap();
    }

    /// The device refuses writes from here on, or takes them again. The kernel remembers that beyond a detach, for whoever has the
    /// device next: it is taken back there.
    pub fn set_read_only(&self, read_only: bool) {
        let flag = if read_only { "--setro" } else { "--setrw" };
        run("blockdev", &[flag.as_ref(), self.device.as_os_str()]);
    }

    /// Pulls the disk. A file system on it is to be lazily unmounted first; the device goes when its last user does.
    pub fn detach(&mut self) {
        if std::mem::take(&mut self.attached) {
            let _ = try_run("blockdev", &["--setrw".as_ref(), self.device.as_os_str()]);
            let _ = try_run("losetup", &["--detach".as_ref(), self.device.as_os_str()]);
        }
    }
}

impl Loop {
    /// Plugs the disk in again, after [`Self::detach`]: under the first name that is free by now.
    pub fn attach_again(&mut self) {
        assert!(!self.attached);
        self.device = attach(&self.backing, self.options);
        self.attached = true;
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Detaches whatever loop device lies over a file below this directory.
pub(super) fn detach_below(directory: &Path) {
    let Ok(listing) = try_run("losetup", &["--list", "--noheadings", "--output", "NAME,BACK-FILE"]) else {
        return;
    };
    for line in listing.lines() {
        let Some((device, file)) = line.trim().split_once(char::is_whitespace) else { continue };
        if Path::new(file.trim()).starts_with(directory) {
            let _ = try_run("losetup", &["--detach", device]);
        }
    }
}

fn attach(backing: &Path, options: LoopOptions) -> PathBuf {
    let mut arguments =
        vec!["--find".to_owned(), "--show".to_owned(), format!("--sector-size={}", options.sector)];
    arguments.extend(options.direct.then(|| "--direct-io=on".to_owned()));
    arguments.extend(options.read_only.then(|| "--read-only".to_owned()));
    arguments.push(backing.display().to_string());
    PathBuf::from(run("losetup", &arguments))
}

fn make(backing: &Path, options: LoopOptions) {
    let mut file = fs::File::create(backing).unwrap();
    if options.filled {
        let mut random = fastrand::Rng::with_seed(options.size);
        let mut chunk = vec![0; 1 << 20];
        let mut left = options.size;
        while left > 0 {
            random.fill(&mut chunk);
            let part = left.min(chunk.len() as u64);
            file.write_all(&chunk[..part as usize]).unwrap();
            left -= part;
        }
        file.sync_all().unwrap();
    }
    file.set_len(options.size).unwrap();
}
