//! What the sampler saw, as plain numbers to be shared.

use std::sync::Arc;

use super::conditions::{Conditions, Ours};
use crate::clock::Tick;
use crate::target::Counters;

/// The machine as of the last second.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// When it was looked at; `None` before the first time.
    pub taken: Option<Tick>,
    /// The devices of interest that are there, sorted by name.
    pub disks: Vec<DiskView>,
    /// The machine as a whole.
    pub host: Host,
}

/// One device.
#[derive(Clone, Debug)]
pub struct DiskView {
    /// The kernel's name: `sda`, `dm-0`.
    pub name: Arc<str>,
    /// What it has done: the kernel's counts when it was first seen, and all that was added since. They never go down, also where the kernel's
    /// own wrap or the disk is replaced. Kinds that the kernel does not count are `None`.
    pub done: Counters,
    /// Reads and writes in the busiest second of the last minute, per second.
    pub peak_operations: Option<f64>,
    /// Bytes read and written in the busiest second of the last minute, per second.
    pub peak_bytes: Option<f64>,
    /// Means over the last ten seconds.
    pub means: Option<Means>,
    /// Reads and writes in the busiest second since this disk was first seen, per second.
    pub busiest: Option<f64>,
}

/// A device's load over the last ten seconds; there is none until ten whole seconds have been seen without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    /// Reads and writes per second.
    pub operations: f64,
    /// Bytes read and written per second.
    pub bytes: f64,
    /// Requests in the device.
    pub queue_depth: f64,
}

/// The machine as a whole; `None` is what its kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// Share of CPU time that was idle while I/O was waited for, over the last ten seconds, 0 to 1.
    pub iowait: Option<f64>,
    /// Share of CPU time that the hypervisor gave to others, over the last ten seconds, 0 to 1.
    pub steal: Option<f64>,
    /// What all programs wrote to block devices, in bytes per second over the last ten seconds.
    pub paged_out: Option<f64>,
    /// Pressure on I/O.
    pub io: Pressure,
    /// Pressure on the CPUs.
    pub cpu: Pressure,
    /// Pressure on memory.
    pub memory: Pressure,
}

/// The kernel's `avg10` of a resource, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Share of time in which some task waited.
    pub some: Option<f64>,
    /// Share of time in which all tasks that had something to do waited.
    pub full: Option<f64>,
}

impl View {
    /// The device of this name, while it is there.
    pub fn disk(&self, name: &str) -> Option<&DiskView> {
        let at = self.disks.binary_search_by(|disk| (*disk.name).cmp(name)).ok()?;
        self.disks.get(at)
    }

    /// How old this view is at `now`, in seconds; `None` before the first.
    pub fn age(&self, now: Tick) -> Option<f64> {
        self.taken.map(|taken| now.since(taken).as_secs_f64())
    }

    /// The load of a device without ours. All is `None` while the device is not there, and when this view is older than three
    /// seconds at `now`. `read_only` and `credits_low` are for the caller to fill in.
    pub fn conditions(&self, device: &str, ours: Ours, now: Tick) -> Conditions {
        const STALE: f64 = 3.0;
        if self.age(now).is_none_or(|age| age > STALE) {
            return Conditions::default();
        }
        let disk = self.disk(device);
        let means = disk.and_then(|disk| disk.means);
        Conditions {
            workload_iops: means.map(|m| (m.operations - ours.operations).max(0.0)),
            queue_depth: means.map(|m| (m.queue_depth - ours.queue_depth).max(0.0)),
            peak_iops: disk.and_then(|disk| disk.busiest),
            io_pressure: self.host.io.some,
            ..Conditions::default()
        }
    }
}
