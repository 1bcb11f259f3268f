//! What a sweep says of itself beside its cells: what was measured, and on what machine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::probe::sweep::{About, Environment, Subject, SweepReady};
use crate::sys::{self, Direct};
use crate::target::{BlockDevice, Target};

/// Of a sweep of `path` that began then (since 1970) and took so many seconds.
pub(super) fn about(
    path: &str,
    found: Option<&Target>,
    ready: Option<&SweepReady>,
    began: Duration,
    seconds: f64,
) -> About {
    let began = jiff::SignedDuration::try_from(began).unwrap_or_default();
    let began = jiff::Timestamp::from_duration(began).unwrap_or_default();
    About {
        target: subject(path, found, ready),
        environment: environment(found),
        started: began.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        seconds,
        product: None,
    }
}

fn subject(path: &str, found: Option<&Target>, ready: Option<&SweepReady>) -> Subject {
    let device = found.and_then(|found| found.device.as_ref());
    let disk = found.and_then(|found| found.leaves.first()).or(device);
    let text = |part: fn(&BlockDevice) -> Option<&String>| disk.and_then(part).cloned();
    Subject {
        path: path.to_owned(),
        file_system: found.and_then(Target::file_system).map(str::to_owned),
        device: device.map(|device| device.name.clone()),
        disks: found.map(Target::leaf_keys).unwrap_or_default(),
        model: text(|disk| disk.identity.model.as_ref()),
        serial: text(|disk| disk.identity.serial.as_ref().or(disk.identity.wwn.as_ref())),
        size: device.and_then(|device| device.settings.size).map(|size| size.get()),
        engine: ready.map(|ready| ready.engine.label().to_owned()).unwrap_or_default(),
        direct: ready
            .map_or("", |ready| if ready.direct == Direct::Yes { "true" } else { "false" })
            .to_owned(),
    }
}

fn environment(found: Option<&Target>) -> Environment {
    let host = sys::host();
    let mut settings = BTreeMap::new();
    if let Some(leaf) = found.and_then(|found| found.leaves.first()) {
        let s = &leaf.settings;
        let all = [
            ("scheduler", s.scheduler.clone()),
            ("nr_requests", s.nr_requests.map(|n| n.to_string())),
            ("write_cache", s.write_cache.clone()),
            ("rotational", s.rotational.map(|rotational| u8::from(rotational).to_string())),
        ];
        settings.extend(all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    }
    if let Some(mount) = found.and_then(|found| found.mount.as_ref()) {
        settings.insert("mount_options".to_owned(), mount.options.join(","));
    }
    Environment {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: host.kernel,
        cpu: host.cpu,
        cpus: host.cpus,
        memory: host.memory,
        settings,
    }
}
