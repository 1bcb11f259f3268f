//! What is to be probed, and how: everything decided, nothing opened yet.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::io::{Wait, Wish};
use crate::probe::{Method, Profile};
use crate::target::Wishes;
use crate::units::{Bytes, Span};

use super::raw::{self, RawCommit, RawRead};
use super::{BudgetPlan, Error, SweepPlan, resolve, yaml};

/// All that the daemon was asked to probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Those that have a name; names are unique. Empty only beside `discover`.
    pub targets: Vec<TargetPlan>,
    /// Those that are to be found.
    pub discover: Option<DiscoverPlan>,
    /// For the buffers of all sweeps together.
    pub memory: Bytes,
}

/// What is to be found, and how it is probed then.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoverPlan {
    /// What is looked for.
    pub wishes: Wishes,
    /// A target like this one is made of each disk; its name and path stand for nothing.
    pub like: TargetPlan,
}

/// One directory or block device.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetPlan {
    /// The value of the label `target`: not empty, at most 200 bytes, any characters.
    pub name: String,
    /// What is probed; absolute, links not yet resolved.
    pub path: PathBuf,
    /// The user's own labels: at most 8, valid names, none of ours.
    pub labels: BTreeMap<String, String>,
    /// Where the probe files go instead of below `path`; absolute.
    pub probe_dir: Option<PathBuf>,
    /// How reads reach the kernel.
    pub engine: Wish,
    /// The commit probe; `None` when it is off. A block device has none, whatever stands here.
    pub commit: Option<CommitPlan>,
    /// The read probe; `None` when it is off.
    pub read: Option<ReadPlan>,
    /// Space that must stay free; `None`: the smaller of 5 % of the file system and 10 GiB.
    pub reserve: Option<Bytes>,
    /// What its probes may cost the disk.
    pub budget: BudgetPlan,
    /// Operations per second that the disk promises in the long run, where the file says so.
    pub baseline_iops: Option<u32>,
    /// From which age on an operation counts as stalled; `None`: learned from what the disk does.
    pub stall_threshold: Option<Span>,
    /// Full measurements by a schedule; `None`: never.
    pub sweep: Option<SweepPlan>,
}

/// How commits are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPlan {
    /// Whose commits.
    pub profile: Profile,
    /// What makes them durable: the profile's own method unless the file names another.
    pub method: Method,
    /// One run in each span of this length.
    pub interval: Span,
    /// Whether the file asks for this interval, rather than the default.
    pub interval_asked_for: bool,
    /// Size of the commit file, a whole number of MiB.
    pub file_size: Bytes,
    /// Whether the file asks for commits, rather than the default: on a block device that is a contradiction to report.
    pub asked_for: bool,
}

/// How reads are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// One run in each span of this length.
    pub interval: Span,
    /// Whether the file asks for this interval, rather than the default.
    pub interval_asked_for: bool,
    /// How the engine waits for a completion.
    pub wait: Wait,
    /// Size of the read file, a whole number of MiB. A block device is read as it is.
    pub file_size: Bytes,
}

impl Plan {
    /// Reads and resolves a file. `reserved` are the label names that users may not take. Touches nothing but the file.
    pub fn load(file: &Path, reserved: &[&str]) -> Result<Self, Error> {
        let shown = file.display().to_string();
        let text = yaml::read(file, &shown)?;
        Self::parse(&shown, &text, reserved)
    }

    /// As [`Plan::load`], from the text of a file that messages call `file`.
    pub fn parse(file: &str, text: &str, reserved: &[&str]) -> Result<Self, Error> {
        let raw = yaml::parse(file, text)?;
        resolve::plan(raw, reserved).map_err(|fault| {
            Error::new(file, yaml::line_of(text, &fault.at), &fault.at.shown(), &fault.message)
        })
    }

    /// Without a config file: one target named `default`, at the directory that [`state_directory`] names.
    pub fn default_for_state_dir(dir: PathBuf) -> Self {
        Self { targets: vec![TargetPlan::at("default", dir)], discover: None, memory: raw::memory() }
    }
}

impl TargetPlan {
    /// A target with every default.
    pub fn at(name: &str, path: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            path,
            labels: BTreeMap::new(),
            probe_dir: None,
            engine: Wish::default(),
            commit: resolve::commit(&RawCommit::default(), false),
            read: resolve::read(&RawRead::default()),
            reserve: None,
            budget: BudgetPlan::default(),
            baseline_iops: None,
            stall_threshold: None,
            sweep: None,
        }
    }
}

/// There is no place for state: not root, no `$STATE_DIRECTORY`, no usable `$HOME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStateDirectory;

impl fmt::Display for NoStateDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no directory to probe: $STATE_DIRECTORY and $HOME are not absolute paths; set one of them, or name the \
             targets in a file and start with --config.file FILE",
        )
    }
}

impl std::error::Error for NoStateDirectory {}

/// The state directory: the first of `$STATE_DIRECTORY` (systemd separates several with colons), else
/// `/var/lib/diskcanary` for root, else `~/.local/state/diskcanary`. It may not exist yet.
pub fn state_directory(
    state: Option<&OsStr>,
    home: Option<&OsStr>,
    root: bool,
) -> Result<PathBuf, NoStateDirectory> {
    use std::os::unix::ffi::OsStrExt;
    let absolute = |bytes: &[u8]| bytes.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(bytes)));
    let first = state.and_then(|list| list.as_bytes().split(|b| *b == b':').next()).and_then(absolute);
    match (first, root) {
        (Some(dir), _) => Ok(dir),
        (None, true) => Ok(PathBuf::from("/var/lib/diskcanary")),
        (None, false) => home
            .and_then(|home| absolute(home.as_bytes()))
            .map(|home| home.join(".local/state/diskcanary"))
            .ok_or(NoStateDirectory),
    }
}
