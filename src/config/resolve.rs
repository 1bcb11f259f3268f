//! Keys to a [`Plan`]: limits, uniqueness, and what contradicts itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::probe::{Method, Profile};
use crate::target::{Unusual, Wishes};
use crate::units::{Bytes, Span};

use super::budget::{COMMIT_INTERVAL, READ_INTERVAL, stretch};
use super::raw::{RawBudget, RawCommit, RawConfig, RawDiscover, RawRead, RawSpec, RawTarget};
use super::section::Section;
use super::yaml::Place;
use super::{BudgetPlan, CommitPlan, DiscoverPlan, Plan, ReadPlan, TargetPlan, sweep};

pub(super) const MOST_TARGETS: usize = 256;
pub(super) const LONGEST_NAME: usize = 200;
const MOST_LABELS: usize = 8;
const LONGEST_VALUE: usize = 1024;
const LONGEST_PATH: usize = 4095;
const SHORTEST_INTERVAL: Span = Span::millis(100);
const LONGEST_INTERVAL: Span = Span::seconds(86_400);
const LONGEST_THRESHOLD: Span = Span::seconds(3600);
const COMMIT_FILE: (Bytes, Bytes) = (Bytes::mib(4), Bytes::gib(16));
const BUDGET: (Bytes, Bytes) = (Bytes::mib(1), Bytes::gib(1 << 20));
const MEMORY: (Bytes, Bytes) = (Bytes::mib(1), Bytes::gib(64));
const READ_FILE: (Bytes, Bytes) = (Bytes::mib(64), Bytes::gib(1024));

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: Place,
    pub(super) message: String,
}

pub(super) fn fault<T>(at: Place, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, message: message.into() })
}

/// The plan, or the first thing that is wrong.
pub(super) fn plan(raw: RawConfig, reserved: &[&str]) -> Result<Plan, Fault> {
    let at = Place::default().key("targets");
    match raw.targets.len() {
        0 if raw.discover.is_none() => {
            return fault(at, "names no target; write at least one, with `name` and `path`, or `discover:`");
        }
        n if n > MOST_TARGETS => {
            return fault(at, format!("names {n} targets; at most {MOST_TARGETS} are probed"));
        }
        _ => {}
    }
    let mut targets = Vec::with_capacity(raw.targets.len());
    for (n, Section(raw)) in raw.targets.into_iter().enumerate() {
        let here = at.index(n);
        let target = target(raw, &here, reserved)?;
        unlike_others(&target, &targets, &here)?;
        targets.push(target);
    }
    let here = Place::default().key("discover");
    let discover = raw.discover.map(|Section(raw)| discover(raw, &here, reserved)).transpose()?;
    if !(MEMORY.0..=MEMORY.1).contains(&raw.memory) {
        let message =
            format!("`{}` is out of range; write a size from {} to {}", raw.memory, MEMORY.0, MEMORY.1);
        return fault(Place::default().key("memory"), message);
    }
    Ok(Plan { targets, discover, memory: raw.memory })
}

fn discover(raw: RawDiscover, at: &Place, reserved: &[&str]) -> Result<DiscoverPlan, Fault> {
    let wishes = Wishes {
        file_systems: raw.file_systems.iter().map(|word| word.0).collect(),
        block_devices: raw.block_devices,
        include: raw.include.iter().map(|word| word.0).collect(),
    };
    let like = RawTarget {
        name: "discovered".to_owned(),
        path: "/".to_owned(),
        labels: raw.labels,
        probe_dir: None,
        engine: raw.engine,
        commit: raw.commit,
        read: raw.read,
        reserve: raw.reserve,
        stall_threshold: raw.stall_threshold,
        budget: None,
        spec: None,
        sweep: None,
    };
    let like = target(like, at, reserved)?;
    if wishes.file_systems.is_empty() && !wishes.block_devices && !wishes.include.contains(&Unusual::Network)
    {
        return fault(
            at.clone(),
            "looks for nothing; name kinds in `file_systems`, or write `block_devices: true`",
        );
    }
    if wishes.block_devices && like.read.is_none() {
        return fault(
            at.key("block_devices"),
            "asks for block devices, which are only ever read, and `read` is off",
        );
    }
    Ok(DiscoverPlan { wishes, like })
}

fn target(raw: RawTarget, at: &Place, reserved: &[&str]) -> Result<TargetPlan, Fault> {
    let name_at = at.key("name");
    if raw.name.trim().is_empty() {
        return fault(name_at, "is empty; it is the value of the label `target`");
    }
    if raw.name.len() > LONGEST_NAME {
        return fault(
            name_at,
            format!("is {} bytes long; at most {LONGEST_NAME} are allowed", raw.name.len()),
        );
    }
    labels(&raw.labels, &at.key("labels"), reserved)?;
    let path = absolute(&raw.path, at.key("path"))?;
    let probe_dir = raw.probe_dir.map(|dir| absolute(&dir, at.key("probe_dir"))).transpose()?;
    let asked_for = raw.commit.is_some();
    let raw_commit = raw.commit.unwrap_or_default().0;
    let raw_read = raw.read.unwrap_or_default().0;
    check_commit(&raw_commit, &at.key("commit"))?;
    check_read(&raw_read, &at.key("read"))?;
    if !raw_commit.enabled && !raw_read.enabled {
        return fault(at.clone(), "has both `commit` and `read` off, so nothing is probed; take it out");
    }
    let mut plan = TargetPlan {
        name: raw.name,
        path,
        labels: raw.labels,
        probe_dir,
        engine: raw.engine,
        commit: commit(&raw_commit, asked_for),
        read: read(&raw_read),
        reserve: raw.reserve,
        stall_threshold: stall_threshold(raw.stall_threshold, at)?,
        budget: raw
            .budget
            .map(|Section(raw)| budget(&raw, &at.key("budget")))
            .transpose()?
            .unwrap_or_default(),
        baseline_iops: raw.spec.map(|Section(raw)| baseline(&raw, &at.key("spec"))).transpose()?,
        sweep: raw.sweep.map(|Section(raw)| sweep::resolve(raw, &at.key("sweep"))).transpose()?,
    };
    keep_share(&mut plan, at)?;
    sweep::fits(&plan, at)?;
    Ok(plan)
}

fn keep_share(plan: &mut TargetPlan, at: &Place) -> Result<(), Fault> {
    if stretch(plan) {
        return Ok(());
    }
    let promised = plan.baseline_iops.unwrap_or_default();
    fault(
        at.key("spec").key("baseline_iops"),
        format!(
            "2 % of {promised} operations a second are too few for both probes; write the `interval` of each that is wanted, and \
             `enabled: false` for the other"
        ),
    )
}

fn budget(raw: &RawBudget, at: &Place) -> Result<BudgetPlan, Fault> {
    let sizes = [
        ("write_per_day", raw.write_per_day),
        ("read_per_day", raw.read_per_day),
        ("sweep_write_per_day", raw.sweep_write_per_day),
        ("sweep_read_per_day", raw.sweep_read_per_day),
    ];
    for (key, size) in sizes {
        if let Some(size) = size.filter(|size| !(BUDGET.0..=BUDGET.1).contains(size)) {
            let message = format!("`{size}` is out of range; write a size from {} to {}", BUDGET.0, BUDGET.1);
            return fault(at.key(key), message);
        }
    }
    if let Some(n) = raw.operations_per_second.filter(|n| !(1..=1_000_000).contains(n)) {
        let message = format!("`{n}` is out of range; write a number from 1 to 1000000");
        return fault(at.key("operations_per_second"), message);
    }
    Ok(BudgetPlan {
        write_per_day: raw.write_per_day,
        read_per_day: raw.read_per_day,
        operations_per_second: raw.operations_per_second,
        sweep_write_per_day: raw.sweep_write_per_day,
        sweep_read_per_day: raw.sweep_read_per_day,
    })
}

fn baseline(raw: &RawSpec, at: &Place) -> Result<u32, Fault> {
    if (1..=100_000_000).contains(&raw.baseline_iops) {
        return Ok(raw.baseline_iops);
    }
    let message = format!("`{}` is out of range; write a number from 1 to 100000000", raw.baseline_iops);
    fault(at.key("baseline_iops"), message)
}

/// The commit probe; `None` when it is off.
pub(super) fn commit(raw: &RawCommit, asked_for: bool) -> Option<CommitPlan> {
    raw.enabled.then(|| CommitPlan {
        profile: raw.profile,
        method: raw.method.unwrap_or(raw.profile.row().method),
        interval: raw.interval.unwrap_or(COMMIT_INTERVAL),
        interval_asked_for: raw.interval.is_some(),
        file_size: raw.file_size,
        asked_for,
    })
}

/// The read probe; `None` when it is off.
pub(super) fn read(raw: &RawRead) -> Option<ReadPlan> {
    raw.enabled.then(|| ReadPlan {
        interval: raw.interval.unwrap_or(READ_INTERVAL),
        interval_asked_for: raw.interval.is_some(),
        wait: raw.wait,
        file_size: raw.file_size,
    })
}

fn check_commit(raw: &RawCommit, at: &Place) -> Result<(), Fault> {
    interval(raw.interval, at)?;
    file_size(raw.file_size, COMMIT_FILE, at)?;
    match raw.method {
        Some(method) if raw.profile == Profile::Odsync && method != Method::ODsync => fault(
            at.key("method"),
            format!(
                "`{method}` contradicts the profile `odsync`; write `profile: overwrite` with this method"
            ),
        ),
        _ => Ok(()),
    }
}

fn stall_threshold(span: Option<Span>, at: &Place) -> Result<Option<Span>, Fault> {
    match span.filter(|span| !(SHORTEST_INTERVAL..=LONGEST_THRESHOLD).contains(span)) {
        Some(span) => fault(
            at.key("stall_threshold"),
            format!("`{span}` is out of range; write a time from {SHORTEST_INTERVAL} to {LONGEST_THRESHOLD}"),
        ),
        None => Ok(span),
    }
}

fn check_read(raw: &RawRead, at: &Place) -> Result<(), Fault> {
    interval(raw.interval, at)?;
    file_size(raw.file_size, READ_FILE, at)
}

fn interval(span: Option<Span>, at: &Place) -> Result<(), Fault> {
    let Some(span) = span else { return Ok(()) };
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&span) {
        return Ok(());
    }
    fault(
        at.key("interval"),
        format!("`{span}` is out of range; write a time from {SHORTEST_INTERVAL} to 24h"),
    )
}

fn file_size(size: Bytes, (least, most): (Bytes, Bytes), at: &Place) -> Result<(), Fault> {
    if !(least..=most).contains(&size) {
        return fault(
            at.key("file_size"),
            format!("`{size}` is out of range; write a size from {least} to {most}"),
        );
    }
    if !size.get().is_multiple_of(Bytes::mib(1).get()) {
        let whole = Bytes::mib(size.get() >> 20);
        return fault(
            at.key("file_size"),
            format!("{} bytes are not a whole number of MiB; write `{whole}`", size.get()),
        );
    }
    Ok(())
}

fn absolute(path: &str, at: Place) -> Result<PathBuf, Fault> {
    if path.len() > LONGEST_PATH || path.contains('\0') {
        return fault(at, format!("is no path: longer than {LONGEST_PATH} bytes, or with a zero byte in it"));
    }
    if !Path::new(path).is_absolute() {
        return fault(at, format!("`{path}` is not absolute; write the whole path, from `/` on"));
    }
    Ok(PathBuf::from(path))
}

fn labels(labels: &BTreeMap<String, String>, at: &Place, reserved: &[&str]) -> Result<(), Fault> {
    if labels.len() > MOST_LABELS {
        return fault(at.clone(), format!("has {} labels; at most {MOST_LABELS} are allowed", labels.len()));
    }
    for (name, value) in labels {
        let here = at.key(name);
        let mut bytes = name.bytes();
        let valid = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !valid {
            return fault(here, "is no label name; write letters, digits and `_`, and no digit first");
        }
        if name.starts_with("__") || reserved.contains(&name.as_str()) {
            return fault(here, "is a name that diskcanary or Prometheus uses itself; choose another");
        }
        if value.is_empty() || value.len() > LONGEST_VALUE {
            return fault(here, format!("must have a value of 1 to {LONGEST_VALUE} bytes"));
        }
    }
    Ok(())
}

/// Two targets with one name would be one series; two in one directory would lock each other out.
fn unlike_others(target: &TargetPlan, others: &[TargetPlan], at: &Place) -> Result<(), Fault> {
    let place = |t: &TargetPlan| t.probe_dir.clone().unwrap_or_else(|| t.path.clone());
    for (n, other) in others.iter().enumerate() {
        if other.name == target.name {
            return fault(at.key("name"), format!("`{}` is the name of targets[{n}] already", target.name));
        }
        if place(other) == place(target) {
            let key = if target.probe_dir.is_some() { "probe_dir" } else { "path" };
            return fault(
                at.key(key),
                format!("`{}` is probed by targets[{n}] (`{}`) already", place(target).display(), other.name),
            );
        }
    }
    Ok(())
}
