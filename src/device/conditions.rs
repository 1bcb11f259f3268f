//! What a decision about heavy work needs to know of one disk: others' load and the kernel's complaints.

/// The load of one physical device over the last ten seconds. What could not be had is `None`, and is no reason to run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Operations per second (reads and writes) that are not ours.
    pub workload_iops: Option<f64>,
    /// Mean number of requests in the device, all that are not ours.
    pub queue_depth: Option<f64>,
    /// Busiest second known of the device, in operations per second; ours included.
    pub peak_iops: Option<f64>,
    /// `some avg10` of the kernel's I/O pressure, as a ratio from 0 to 1.
    pub io_pressure: Option<f64>,
    /// The file system of the target is mounted read-only, or its device is.
    pub read_only: bool,
    /// Burst credits are low; `None` where no bucket is known.
    pub credits_low: Option<bool>,
}

/// What of a device's load is our own, over the same ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ours {
    /// Reads and writes per second, as they reach the device.
    pub operations: f64,
    /// Mean number of our requests in the device.
    pub queue_depth: f64,
}
