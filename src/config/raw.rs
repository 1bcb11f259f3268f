//! The keys of the file as they are written. The doc comments here are `docs/config.md`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::probe::sweep::{self, Preset};
use crate::probe::{Method, Profile};
use crate::schedule::guard::Thresholds;
use crate::units::{Bytes, Span};

use super::section::Section;
use super::word::{self, Listed};
use crate::io::{Wait, Wish};
use crate::target::{FileSystem, Unusual};

/// What is probed is named, or found, or both.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    /// What to probe, by name: up to 256 targets. May be left out beside `discover`.
    #[serde(default)]
    pub(super) targets: Vec<Section<RawTarget>>,
    /// What to probe, as it comes and goes: the disks of this machine that no target of `targets` is on.
    #[serde(default, deserialize_with = "there", skip_serializing_if = "Option::is_none")]
    pub(super) discover: Option<Section<RawDiscover>>,
    /// Memory for the buffers of all sweeps together: 1MiB to 64GiB. A sweep waits until there is enough for its largest cell; one
    /// that could never have enough leaves those cells out, and says so.
    #[serde(default = "memory")]
    #[schemars(schema_with = "size")]
    pub(super) memory: Bytes,
}

pub(super) fn memory() -> Bytes {
    Bytes::mib(96)
}

/// A key without a value is there too, with all its defaults.
fn there<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Section<RawDiscover>>, D::Error> {
    Option::deserialize(from).map(|section| Some(section.unwrap_or_default()))
}

/// Disks are found by the kind of their file system and by what the kernel says of their devices, within 30 s of their mount.
/// Each becomes a target named after its mount point (or its device), and is one until it is unmounted; of several mounts of
/// one file system, one is probed. With everything together there are never more than 256 targets.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawDiscover {
    /// Mounted file systems of these kinds, unless they are read-only. `[]`: none.
    pub(super) file_systems: Vec<Listed<FileSystem>>,
    /// Whole block devices too that are neither mounted nor swap space nor part of another device; they are only read.
    pub(super) block_devices: bool,
    /// Kinds of disk that are never picked unless they stand here. `network` has network file systems (nfs, cifs, ceph) and
    /// devices of nbd, rbd and aoe picked.
    pub(super) include: Vec<Listed<Unusual>>,
    /// As in `targets`, for every disk that is found.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    /// As in `targets`.
    #[serde(serialize_with = "word::serialize", deserialize_with = "word::deserialize")]
    #[schemars(schema_with = "word::schema::<Wish>")]
    pub(super) engine: Wish,
    /// As in `targets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<Section<RawCommit>>,
    /// As in `targets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read: Option<Section<RawRead>>,
    /// As in `targets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub(super) reserve: Option<Bytes>,
    /// As in `targets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub(super) stall_threshold: Option<Span>,
}

impl Default for RawDiscover {
    fn default() -> Self {
        Self {
            file_systems: FileSystem::USUAL.iter().copied().map(Listed).collect(),
            block_devices: false,
            include: Vec::new(),
            labels: BTreeMap::new(),
            engine: Wish::default(),
            commit: None,
            read: None,
            reserve: None,
            stall_threshold: None,
        }
    }
}

/// One disk, named by a directory on it or by its block device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTarget {
    /// Value of the label `target` on every series; 1 to 200 bytes, unique in the file.
    pub(super) name: String,
    /// An absolute path. A directory names the disk that it is on; the probe files go to `.diskcanary` in it, or, when
    /// it lies in a database's own directory, to the nearest directory above on the same mount. A block device is
    /// only read, never written.
    pub(super) path: String,
    /// Up to 8 labels of your own on every series of this target. A name that diskcanary or Prometheus uses itself
    /// is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    /// An existing directory, absolute, on the same mount, for the probe files instead of `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) probe_dir: Option<String>,
    /// How reads reach the kernel. `auto` takes io_uring and falls back to threads where there is none; `threads` never
    /// asks for io_uring. Which one is in use, and why, is a metric.
    #[serde(default, serialize_with = "word::serialize", deserialize_with = "word::deserialize")]
    #[schemars(schema_with = "word::schema::<Wish>")]
    pub(super) engine: Wish,
    /// The commit probe, as a write-ahead log does it: 3 commits back to back in each interval. On a block device it is
    /// always off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<Section<RawCommit>>,
    /// The read probe: in each interval a burst of random 4 KiB reads past the page cache, 16 at depth 1 for the latency,
    /// then 48 at depth 4 for the burst's IOPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) read: Option<Section<RawRead>>,
    /// Space that must stay free on the file system when the probe files are made. Without this key: the smaller of
    /// 5 % of the file system and 10GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub(super) reserve: Option<Bytes>,
    /// From which age on an operation counts as stalled: 100ms to 1h. Without this key: five times the 99.9 % quantile of
    /// its kind in the last hour, at least 1s, at most 10s, which it is too until the hour holds 1000 of them; 10s for opening
    /// files, 60s for a slice of a layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub(super) stall_threshold: Option<Span>,
    /// What all probes together may cost the disk, counted as it reaches the disk: journals and whole pages are in it, the layout
    /// of the probe files is not. It holds for the disk: where several targets lie on one, the strictest that is written holds for
    /// all of them. What is over it is skipped and counted (reason `budget`), and spread over the day: half an hour's share can be
    /// spent at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<Section<RawBudget>>,
    /// What is known of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) spec: Option<Section<RawSpec>>,
    /// Full measurements of what the disk can do, by a schedule: reads and writes of many sizes and depths in the read file, which take
    /// the disk for themselves for some minutes. On a block device only reads. Without it, and without a `schedule` in it, there is
    /// never one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sweep: Option<Section<RawSweep>>,
}

/// When the disk is measured in full, and when it is left alone.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSweep {
    /// What is measured: `nightly` is small enough for every night; the others are for a purpose, and cost more (`explain` says how
    /// much).
    #[serde(serialize_with = "word::serialize", deserialize_with = "word::deserialize")]
    #[schemars(schema_with = "word::schema::<Preset>")]
    pub(super) preset: Preset,
    /// Five cron fields: minute, hour, day of the month, month, day of the week, as in `30 3 * * *`. Without this key there is never a
    /// sweep. One that may not begin then is tried again for four hours, or until the next one is due.
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "text")]
    pub(super) schedule: Option<String>,
    /// Whose clocks the schedule goes by, as in `Europe/Berlin`. Without this key: the machine's.
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "text")]
    pub(super) time_zone: Option<String>,
    /// Each host and target begins later than the schedule by a time of its own, which is shorter than this and always the same: 0s to
    /// 12h. So the disks behind many machines are not all measured at once.
    #[schemars(schema_with = "time")]
    pub(super) spread: Span,
    /// A cell whose mean latency passes this is cut short, and its ladder of depths ends there: 1ms to 1h.
    #[schemars(schema_with = "time")]
    pub(super) ceiling: Span,
    /// What the disk earns back in burst credits. Between two cells a sweep rests until what the last one took above the rate is
    /// there again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rest: Option<Section<RawRest>>,
    /// When others need the disk more: a sweep does not begin, and one that is under way ends before its next cell, or within some
    /// seconds.
    pub(super) guard: Section<RawGuard>,
}

impl Default for RawSweep {
    fn default() -> Self {
        Self {
            preset: Preset::Nightly,
            schedule: None,
            time_zone: None,
            spread: Span::seconds(0),
            ceiling: Span::from(sweep::Plan::CEILING),
            rest: None,
            guard: Section::default(),
        }
    }
}

/// A disk's bucket of burst credits, one of which an operation takes, a large one each 256 KiB.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRest {
    /// Credits that come back each second, which is also what the disk does without any: 1 to 100000000.
    #[schemars(schema_with = "number")]
    pub(super) rate: u32,
    /// Credits that the bucket holds: 1 to 1000000000000. More than these can never be owed.
    #[schemars(schema_with = "number")]
    pub(super) capacity: u64,
}

/// From where on others' use of the disk, over the last 10 s, keeps a sweep away. From half of it on only cells run that keep at most
/// 8 operations outstanding.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawGuard {
    /// Their operations a second, as a part of the most that the last sweep found or, before there is one, of `spec.baseline_iops`:
    /// above 0, at most 1.
    #[schemars(schema_with = "number")]
    pub(super) workload_share: f64,
    /// Their operations a second, where neither is known: above 0.
    #[schemars(schema_with = "number")]
    pub(super) workload_iops: f64,
    /// Their requests in the disk, on average: above 0.
    #[schemars(schema_with = "number")]
    pub(super) queue_depth: f64,
    /// The part of the time in which any task of the machine waited for I/O (`some avg10` of pressure): above 0, at most 1. Counts
    /// before a sweep; during one it would be the sweep's own.
    #[schemars(schema_with = "number")]
    pub(super) io_pressure: f64,
}

impl Default for RawGuard {
    fn default() -> Self {
        let Thresholds { workload_share, workload_iops, queue_depth, io_pressure } = Thresholds::default();
        Self { workload_share, workload_iops, queue_depth, io_pressure }
    }
}

/// Limits of what the probes may cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawBudget {
    /// Bytes written at the disk in any day: 1MiB to 1024TiB. Without this key: 2GiB for each target on the disk, or, where an
    /// `interval` of its own needs more, twice what that is expected to write.
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "size")]
    pub(super) write_per_day: Option<Bytes>,
    /// Bytes read at the disk in any day: 1MiB to 1024TiB. Without this key: as for writes.
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "size")]
    pub(super) read_per_day: Option<Bytes>,
    /// Requests at the disk in a second, over any half hour: 1 to 1000000. The 64 reads of a burst still come together. Without
    /// this key: 20 for each target on the disk, or twice what an `interval` of its own needs.
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "number")]
    pub(super) operations_per_second: Option<u32>,
    /// Bytes that sweeps write at the disk in any day, beside the above: 1MiB to 1024TiB. Without this key: what one `nightly` needs,
    /// and as much again for one that came late; a schedule that needs more is refused.
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "size")]
    pub(super) sweep_write_per_day: Option<Bytes>,
    /// Bytes that sweeps read at the disk in any day. Without this key: as for writes.
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "size")]
    pub(super) sweep_read_per_day: Option<Bytes>,
}

/// What is known of the disk.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSpec {
    /// Operations per second that the disk promises in the long run, without burst credits: 1 to 100000000. The probes of
    /// this target take at most 2 % of them on ext4 and xfs: an interval that is not written stretches as far as that needs. `check`
    /// says when those of all targets on the disk together, or commits on btrfs, take more.
    #[schemars(schema_with = "number")]
    pub(super) baseline_iops: u32,
}

/// How commits are probed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawCommit {
    /// `false` turns the probe off.
    pub(super) enabled: bool,
    /// Whose commits are imitated: block size, place in the file and method.
    #[serde(serialize_with = "word::serialize", deserialize_with = "word::deserialize")]
    #[schemars(schema_with = "word::schema::<Profile>")]
    pub(super) profile: Profile,
    /// What makes a commit durable. Without this key: the profile's own method.
    #[serde(deserialize_with = "word::optional", skip_serializing)]
    #[schemars(schema_with = "word::schema::<Method>")]
    pub(super) method: Option<Method>,
    /// One run at a random instant in each span of this length: 100ms to 24h. Without this key: 2s, longer on a disk that
    /// promises little (`spec`).
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "time")]
    pub(super) interval: Option<Span>,
    /// Size of the commit file, written once: 4MiB to 16GiB, whole MiB. At most 5 % of the free space is used.
    #[schemars(schema_with = "size")]
    pub(super) file_size: Bytes,
}

impl Default for RawCommit {
    fn default() -> Self {
        Self {
            enabled: true,
            profile: Profile::Overwrite,
            method: None,
            interval: None,
            file_size: Bytes::mib(64),
        }
    }
}

/// How reads are probed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawRead {
    /// `false` turns the probe off.
    pub(super) enabled: bool,
    /// One run at a random instant in each span of this length: 100ms to 24h. Without this key: 30s, longer on a disk that
    /// promises little (`spec`).
    #[serde(deserialize_with = "present", skip_serializing)]
    #[schemars(schema_with = "time")]
    pub(super) interval: Option<Span>,
    /// `spin` looks at the completion ring for a bounded time before it sleeps: a few microseconds less of our own in
    /// each latency, for a little more CPU.
    #[serde(serialize_with = "word::serialize", deserialize_with = "word::deserialize")]
    #[schemars(schema_with = "word::schema::<Wait>")]
    pub(super) wait: Wait,
    /// Size of the read file, written once: 64MiB to 1TiB, whole MiB. At most 5 % of the free space is used. A block
    /// device needs no file.
    #[schemars(schema_with = "size")]
    pub(super) file_size: Bytes,
}

impl Default for RawRead {
    fn default() -> Self {
        Self { enabled: true, interval: None, wait: Wait::default(), file_size: Bytes::gib(1) }
    }
}

/// A key that may be left out, but not left empty.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "number" })
}

fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "size" })
}

fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "time" })
}
