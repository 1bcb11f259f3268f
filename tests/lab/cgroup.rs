//! Cgroups of the first hierarchy: `blkio` throttles what its processes ask of a disk, `freezer` stops them whole, `devices`
//! forbids them disks, `cpu` keeps them short of time.

use super::scratch::{fresh_name, sweep_bare};
use super::wait::eventually;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which operations a limit counts.
#[derive(Clone, Copy, Debug)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A group whose processes get only so many operations per second from a device; the limit may change while they run.
#[derive(Debug)]
pub struct Blkio {
    group: Group,
}

impl Blkio {
    /// A group without limits.
    pub fn new() -> Self {
        Self { group: Group::new("blkio") }
    }

    /// Its directory, for [`super::in_cgroup`].
    pub fn path(&self) -> &Path {
        &self.group.path
    }

    /// Sets operations per second for the device with this number; 0 lifts the limit.
    pub fn limit(&self, device: (u32, u32), direction: Direction, per_second: u64) {
        let file = match direction {
            Direction::Read => "blkio.throttle.read_iops_device",
            Direction::Write => "blkio.throttle.write_iops_device",
        };
        self.group.set(file, &format!("{}:{} {per_second}", device.0, device.1));
    }

    /// Moves a running process, with all its threads, into the group.
    pub fn take(&self, pid: u32) {
        self.group.set("cgroup.procs", &pid.to_string());
    }

    /// Runs `work` with the calling thread, and all threads that it starts, in the group.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        self.group.set("tasks", &thread);
        let done = work();
        let root = self.group.path.parent().unwrap().join("tasks");
        fs::write(root, thread).unwrap();
        done
    }
}

impl Default for Blkio {
    fn default() -> Self {
        Self::new()
    }
}

/// A group whose processes can be stopped and let go on without a signal that they could see.
#[derive(Debug)]
pub struct Freezer {
    group: Group,
}

impl Freezer {
    /// A group that runs.
    pub fn new() -> Self {
        Self { group: Group::new("freezer") }
    }

    /// Its directory, for [`super::in_cgroup`].
    pub fn path(&self) -> &Path {
        &self.group.path
    }

    /// Moves a running process, with all its threads, into the group.
    pub fn take(&self, pid: u32) {
        self.group.set("cgroup.procs", &pid.to_string());
    }

    /// Stops every process in it; returns when they stand still.
    pub fn freeze(&self) {
        self.group.set("freezer.state", "FROZEN");
        eventually("the cgroup is frozen", || self.group.get("freezer.state") == "FROZEN");
    }

    /// Lets them go on.
    pub fn thaw(&self) {
        self.group.set("freezer.state", "THAWED");
    }
}

impl Default for Freezer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.group.path.join("freezer.state"), "THAWED");
    }
}

/// A group whose processes may not open some block devices, whatever the mode bits say.
#[derive(Debug)]
pub struct Devices {
    group: Group,
}

impl Devices {
    /// A group that may do what its parent may.
    pub fn new() -> Self {
        Self { group: Group::new("devices") }
    }

    /// Its directory, for [`super::in_cgroup`].
    pub fn path(&self) -> &Path {
        &self.group.path
    }

    /// From now on no open of the block device with this number succeeds.
    pub fn deny(&self, device: (u32, u32)) {
        self.group.set("devices.deny", &format!("b {}:{} rwm", device.0, device.1));
    }
}

impl Default for Devices {
    fn default() -> Self {
        Self::new()
    }
}

/// A group whose processes get only a part of a CPU.
#[derive(Debug)]
pub struct Cpu {
    group: Group,
}

impl Cpu {
    /// A group without limits.
    pub fn new() -> Self {
        Self { group: Group::new("cpu") }
    }

    /// So much of each 100 ms, for all of them together; `None` lifts the limit.
    pub fn quota(&self, of_100_ms: Option<Duration>) {
        self.group.set("cpu.cfs_period_us", "100000");
        let quota = of_100_ms.map_or("-1".to_owned(), |part| part.as_micros().to_string());
        self.group.set("cpu.cfs_quota_us", &quota);
    }

    /// Moves a running process, with all its threads, into the group.
    pub fn take(&self, pid: u32) {
        self.group.set("cgroup.procs", &pid.to_string());
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

/// A group whose processes get only so much memory, page cache included; who asks for more than can be freed is killed.
#[derive(Debug)]
pub struct Memory {
    group: Group,
}

impl Memory {
    /// A group with this many bytes.
    pub fn new(bytes: u64) -> Self {
        let group = Group::new("memory");
        group.set("memory.limit_in_bytes", &bytes.to_string());
        Self { group }
    }

    /// Its directory, for [`super::in_cgroup`].
    pub fn path(&self) -> &Path {
        &self.group.path
    }

    /// Processes that were killed, and the most bytes that were ever in use.
    pub fn killed_and_most(&self) -> (u64, u64) {
        let control = self.group.get("memory.oom_control");
        let killed =
            control.lines().find_map(|line| line.strip_prefix("oom_kill ")).expect("a count of kills");
        let most = self.group.get("memory.max_usage_in_bytes");
        (killed.parse().unwrap(), most.parse().unwrap())
    }
}

#[derive(Debug)]
struct Group {
    path: PathBuf,
}

impl Group {
    fn new(controller: &str) -> Self {
        let parent = Path::new("/sys/fs/cgroup").join(controller);
        sweep_bare(&parent);
        let path = parent.join(fresh_name());
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path }
    }

    fn set(&self, file: &str, value: &str) {
        let path = self.path.join(file);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{}: `{value}`: {error}", path.display()));
    }

    fn get(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap().trim().to_owned()
    }
}

impl Drop for Group {
    /// Who is still in it moves to the parent; an emptied group can be removed.
    fn drop(&mut self) {
        for pid in fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(self.path.with_file_name("cgroup.procs"), pid);
        }
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
