//! From the parts' own words to those of the books.

use crate::record::{DeviceSettings, EngineChoice, Facts};
use crate::schedule::reader::OpenedReads;
use crate::target::{BlockDevice, Target};

/// What is known of a target and, once its reads are open, of its engine.
pub(super) fn facts(target: &Target, opened: Option<&Opened>) -> Facts {
    let disk = target.leaves.first().or(target.device.as_ref());
    let text = |part: fn(&BlockDevice) -> Option<&String>| disk.and_then(part).cloned().unwrap_or_default();
    let mount_options = target.mount.as_ref().map(|m| m.options.join(",")).unwrap_or_default();
    Facts {
        device: target.device.as_ref().map(|d| d.name.clone()).unwrap_or_default(),
        leaves: target.leaves.iter().map(|leaf| leaf.name.clone()).collect(),
        fstype: target.file_system().unwrap_or_default().to_owned(),
        model: text(|d| d.identity.model.as_ref()),
        serial: text(|d| d.identity.serial.as_ref().or(d.identity.wwn.as_ref())),
        by_id: text(|d| d.identity.by_id.as_ref()),
        volume_id: text(|d| d.identity.volume_id.as_ref()),
        diskseq: disk.and_then(|d| d.identity.diskseq).map(|n| n.to_string()).unwrap_or_default(),
        identity: identity(target),
        direct: opened.map(|o| o.direct.to_owned()).unwrap_or_default(),
        engine: opened.map(|o| o.engine.clone()),
        settings: target.leaves.iter().map(|leaf| settings(leaf, &mount_options)).collect(),
    }
}

/// What a reader found when it opened, kept for the facts.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    direct: &'static str,
    engine: EngineChoice,
}

impl From<&OpenedReads> for Opened {
    fn from(opened: &OpenedReads) -> Self {
        let reason = opened.reason_label().to_owned();
        Self { direct: opened.direct_label(), engine: EngineChoice { kind: opened.engine, reason } }
    }
}

/// Begins what tells a disk by the kernel's count of disks, which begins anew with each boot.
pub(super) const COUNTED: &str = "diskseq ";

/// Serial number or world-wide name where there is one, which outlive a reboot; for a loop device the file behind it, whatever the
/// device is called; else the kernel's number of the disk.
pub(super) fn identity(target: &Target) -> String {
    let one = |leaf: &BlockDevice| {
        let id = &leaf.identity;
        let lasting = id.serial.clone().or_else(|| id.wwn.clone());
        let lasting = lasting.or_else(|| id.backing_file.clone());
        lasting.or_else(|| id.diskseq.map(|n| format!("{COUNTED}{n}"))).unwrap_or_default()
    };
    let all: Vec<String> = target.leaves.iter().map(one).collect();
    if all.iter().any(String::is_empty) { String::new() } else { all.join(" ") }
}

fn settings(leaf: &BlockDevice, mount_options: &str) -> DeviceSettings {
    let s = &leaf.settings;
    let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
    DeviceSettings {
        device: leaf.name.clone(),
        scheduler: s.scheduler.clone().unwrap_or_default(),
        nr_requests: number(s.nr_requests.map(u64::from)),
        write_cache: s.write_cache.clone().unwrap_or_default(),
        fua: number(s.fua.map(u64::from)),
        rotational: number(s.rotational.map(u64::from)),
        io_timeout: number(s.io_timeout),
        mount_options: mount_options.to_owned(),
    }
}
