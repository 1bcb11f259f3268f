//! What is known of a target: from the config at once, from the machine when a lane has looked.

use std::sync::Arc;
use std::time::Duration;

use crate::io::{EngineKind, Inflight};
use crate::probe::Probe;

/// A target as configured; known when it is added, fixed for its life.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, any text.
    pub name: String,
    /// The user's own labels, valid and not reserved; on every series of the target.
    pub labels: Vec<(String, String)>,
    /// The path as configured.
    pub path: String,
    /// The commit profile's name, the `profile` label.
    pub profile: String,
    /// Whether a commit has a sync apart from its write (not with `O_DSYNC`).
    pub sync_apart: bool,
    /// The probes that are on.
    pub probes: Vec<ProbePlan>,
    /// The age from which an operation counts as stalled, where it is configured.
    pub stall_threshold: Option<Duration>,
    /// The reasons for which a slot may be skipped, so that their counters begin at 0.
    pub skip_reasons: &'static [&'static str],
    /// Where the target's lanes note what is out.
    pub inflight: Arc<Inflight>,
}

impl Plan {
    /// A plan without probes and labels: thresholds that are learned, a sync apart, the `overwrite` profile.
    pub fn new(name: impl Into<String>, path: impl Into<String>, inflight: Arc<Inflight>) -> Self {
        Self {
            name: name.into(),
            labels: Vec::new(),
            path: path.into(),
            profile: "overwrite".into(),
            sync_apart: true,
            probes: Vec::new(),
            stall_threshold: None,
            skip_reasons: &[],
            inflight,
        }
    }
}

/// A probe that is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Which.
    pub probe: Probe,
    /// From slot to slot.
    pub interval: Duration,
    /// Operations whose latency a good run brings.
    pub operations: u32,
}

/// What a lane found out about a target. Unknown texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The device that holds it, by its kernel name (`sda1`).
    pub device: String,
    /// The disks below it, by kernel name.
    pub leaves: Vec<String>,
    /// File system type.
    pub fstype: String,
    /// The disk's model.
    pub model: String,
    /// The disk's serial number.
    pub serial: String,
    /// Its name below `/dev/disk/by-id` that says most.
    pub by_id: String,
    /// What a cloud's console calls it (`vol-…`, `d-…`).
    pub volume_id: String,
    /// The kernel's number of it, never given twice in one boot.
    pub diskseq: String,
    /// What tells this disk from another under the same name; empty when nothing does.
    pub identity: String,
    /// Whether reads bypass the kernel's cache, in the words of the `direct` label.
    pub direct: String,
    /// The engine in use and why, once chosen.
    pub engine: Option<EngineChoice>,
    /// Settings of the devices.
    pub settings: Vec<DeviceSettings>,
}

/// The engine in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineChoice {
    /// Which.
    pub kind: EngineKind,
    /// Why this one, in a few words without numbers that change (it is a label); empty when it is the first choice.
    pub reason: String,
}

/// Settings of a device as the kernel prints them; unknown ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Kernel name.
    pub device: String,
    /// I/O scheduler in use.
    pub scheduler: String,
    /// Requests that the queue holds.
    pub nr_requests: String,
    /// `write back` or `write through`.
    pub write_cache: String,
    /// Whether single writes can be forced to the medium, `1` or `0`.
    pub fua: String,
    /// Whether the kernel takes it for a spinning disk, `1` or `0`.
    pub rotational: String,
    /// After how many milliseconds the kernel gives a request up.
    pub io_timeout: String,
    /// How the file system is mounted.
    pub mount_options: String,
}
