//! What a config would do: what is probed where, when it begins, what it costs a day.

use std::fmt::Write;
use std::time::Duration;

use crate::probe::commit::COMMITS;
use crate::probe::content::BLOCK;
use crate::probe::layout::RATE;
use crate::probe::read::{AT_DEPTH, DEPTH, SINGLES};
use crate::probe::sweep::Demand;
use crate::probe::{Layout, Method, Profile};
use crate::schedule::budget::Kind;
use crate::schedule::sweep::Rest;
use crate::units::{Bytes, Span};

use super::figures::count;
use super::plain;

const DAY: Duration = Duration::from_secs(86_400);

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// As the config has it.
    pub path: String,
    /// Where it is probed.
    pub place: Place,
    /// The engine that the config asks for.
    pub engine: &'static str,
    /// `None` when commits are off.
    pub commit: Option<Commit>,
    /// `None` when reads are off.
    pub read: Option<Read>,
    /// How many series it has after an hour, where that is known.
    pub series: Option<usize>,
    /// What its disk is spared.
    pub spared: Spared,
    /// `None` where there is no `sweep`.
    pub sweeps: Option<Sweeps>,
}

/// Full measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweeps {
    /// What is measured.
    pub preset: &'static str,
    /// The schedule and its time zone; `None`: there is never one.
    pub schedule: Option<String>,
    /// How much later on this host and target.
    pub later: Span,
    /// The next ones, in that time zone.
    pub next: Vec<String>,
    /// The most that one takes, on a disk as quick as is assumed.
    pub one: Demand,
    /// How many there are in the busiest day.
    pub a_day: usize,
    /// Bytes that may be written and read in a day.
    pub limits: [f64; 2],
    /// What is waited for between cells.
    pub rest: Option<Rest>,
    /// Series more after the first one.
    pub series: usize,
    /// Whether others' use of the disk can be seen; where it cannot, none ever begins.
    pub seen: bool,
}

/// What a target's probes cost its disk, and may: in the order and the units of the budgets, bytes a day and requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spared {
    /// What is expected, by profile and file system.
    pub expected: [f64; Kind::ALL.len()],
    /// The limits.
    pub limits: [f64; Kind::ALL.len()],
    /// Operations a second that the disk promises, where intervals are longer than by default because of it.
    pub stretched: Option<u32>,
}

/// Where a target is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In files in this directory.
    Files {
        /// The file system and its device.
        disk: String,
        /// The directory, which may not exist yet.
        directory: String,
        /// Why it is not `.diskcanary` in the target's path, one sentence.
        moved: Option<String>,
        /// What stays free on the file system with our files on it, where that is known.
        free: Option<Bytes>,
        /// What the numbers mean where the disk is not this machine's, one sentence.
        limits: Option<String>,
    },
    /// The block device itself, read-only.
    Device {
        /// Its name and model.
        disk: String,
    },
    /// Not now: why, one sentence. It may come back, so the rest is told as for files.
    Down(String),
    /// Never, as it is written: why, one sentence.
    Refused(String),
}

/// A probe file, by the space that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// It is complete, from before.
    There(Bytes),
    /// It will be laid out, so long.
    Lay(Bytes),
    /// There is no room: why, one sentence.
    NoRoom(String),
    /// So long it should be; the space is not known.
    Wished(Bytes),
}

/// The commit probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Whose commits.
    pub profile: Profile,
    /// What makes them durable.
    pub method: Method,
    /// One run in each span of this length.
    pub interval: Span,
    /// Its file.
    pub file: File,
}

/// The read probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// One run in each span of this length.
    pub interval: Span,
    /// Its file; a block device needs none.
    pub file: File,
    /// How a completion is waited for.
    pub wait: &'static str,
}

/// What a day costs, as issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PerDay {
    commits: u64,
    written: u64,
    reads: u64,
    read: u64,
}

impl File {
    /// Bytes that are to be written before the first run.
    fn to_lay(&self) -> u64 {
        match self {
            Self::Lay(size) | Self::Wished(size) => size.get(),
            Self::There(_) | Self::NoRoom(_) => 0,
        }
    }

    fn has_room(&self) -> bool {
        !matches!(self, Self::NoRoom(_))
    }
}

const AMPLIFICATION: &str = "\
Written is what we hand to the kernel. Journals and whole pages make it more at the disk: docs/profiles.md has what was measured on
ext4 and xfs, and diskcanary_commit_device_bytes shows it for this disk. A budget holds for the disk, with all targets on it.
";

/// The whole plan as text. Ends with a newline.
pub fn explain(targets: &[Target]) -> String {
    let mut text = String::new();
    for target in targets {
        let _ = writeln!(text, "{}: {}", plain(&target.name), plain(&target.path));
        one(&mut text, target);
        text.push('\n');
    }
    let sum = targets.iter().map(per_day).fold(PerDay::default(), |all, one| PerDay {
        commits: all.commits.saturating_add(one.commits),
        written: all.written.saturating_add(one.written),
        reads: all.reads.saturating_add(one.reads),
        read: all.read.saturating_add(one.read),
    });
    if targets.len() > 1 {
        let _ = writeln!(text, "{} targets, a day: {}", targets.len(), cost(&sum));
        if let Some(series) = targets.iter().map(|target| target.series).sum::<Option<usize>>() {
            let _ = writeln!(text, "{} series in all", count(series as u64));
        }
    }
    if sum.commits > 0 {
        text += AMPLIFICATION;
    }
    text
}

fn one(text: &mut String, target: &Target) {
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "  {key:<9}{value}");
    };
    let device = matches!(target.place, Place::Device { .. });
    match &target.place {
        Place::Refused(why) => return line("never", &plain(why)),
        Place::Down(why) => line("is down", &plain(why)),
        Place::Device { disk } => {
            line("disk", &format!("{}, read as it is and never written; no files", plain(disk)))
        }
        Place::Files { disk, directory, moved, free, limits } => {
            line("disk", &plain(disk));
            if let Some(limits) = limits {
                line("limits", &plain(limits));
            }
            line("files", &format!("{}{}", plain(directory), space(target, *free)));
            if let Some(why) = moved {
                line("", &plain(why));
            }
        }
    }
    let commit = target.commit.as_ref().filter(|_| !device);
    match commit {
        Some(commit) => {
            line("commits", &commits(commit));
            line("", &begin(&commit.file, commit.file.to_lay(), "commit"));
        }
        None => line("commits", "off"),
    }
    match &target.read {
        Some(read) => {
            line("reads", &reads(read, target.engine));
            let before = commit.map_or(0, |commit| commit.file.to_lay());
            match device {
                true => line("", "begin at once"),
                false => line("", &begin(&read.file, before.saturating_add(read.file.to_lay()), "read")),
            }
        }
        None => line("reads", "off"),
    }
    line("a day", &cost(&per_day(target)));
    if let Some(iops) = target.spared.stretched {
        let why = format!(
            "than by default, so that its probes take at most 2 % of the {} operations a second of `spec`",
            count(iops.into())
        );
        line("slower", &why);
    }
    line("at disk", &format!("{} are expected", at_disk(&target.spared.expected)));
    line(
        "budget",
        &format!("{}; what is more is skipped, and spread over the day", at_disk(&target.spared.limits)),
    );
    if let Some(sweeps) = &target.sweeps {
        sweeps::explain(sweeps, device, &mut line);
    }
    if let Some(series) = target.series {
        line("series", &format!("{} once it has run for an hour", count(series as u64)));
    }
}

fn space(target: &Target, free: Option<Bytes>) -> String {
    let files = target.commit.iter().map(|c| &c.file).chain(target.read.iter().map(|r| &r.file));
    let bytes = Bytes::new(files.map(File::to_lay).fold(0, u64::saturating_add));
    match (bytes.get(), free) {
        (_, None) => String::new(),
        (0, Some(free)) => format!(": {free} are free beside them"),
        (_, Some(free)) => format!(": {bytes} will be written there once; then {free} stay free"),
    }
}

fn commits(commit: &Commit) -> String {
    let row = commit.profile.row();
    let way = if row.direct { "past the page cache" } else { "through the page cache" };
    let place = match row.layout {
        Layout::AppendWrapping { .. } => "appended in a segment that is reused",
        Layout::Overwrite => "overwritten at random places",
    };
    format!(
        "{} back to back each {}, profile {}: {} {place}, {way}, {}",
        COMMITS,
        commit.interval,
        commit.profile,
        Bytes::new(row.block_size.into()),
        match commit.method {
            Method::ODsync => "written with O_DSYNC".to_owned(),
            method => format!("then {method}"),
        },
    )
}

fn reads(read: &Read, engine: &str) -> String {
    format!(
        "{SINGLES} at depth 1, then {AT_DEPTH} at depth {DEPTH}, each {}: {} at random places past the page cache, engine {engine}, wait {}",
        read.interval,
        block(),
        read.wait,
    )
}

fn block() -> Bytes {
    Bytes::new(BLOCK as u64)
}

/// When the first run can be: after `until` bytes were laid out.
fn begin(file: &File, until: u64, which: &str) -> String {
    match file {
        File::There(size) => format!("begin at once: the {which} file of {size} is there from before"),
        File::NoRoom(why) => format!("none now: {}", plain(why)),
        File::Lay(size) | File::Wished(size) => {
            let seconds = until.div_ceil(RATE.get());
            format!("begin about {seconds} s after the start, when the {which} file of {size} is written")
        }
    }
}

fn per_day(target: &Target) -> PerDay {
    let runs = |interval: Span| (DAY.as_nanos() / interval.get().as_nanos().max(1)) as u64;
    let (mut day, device) = (PerDay::default(), matches!(target.place, Place::Device { .. }));
    if matches!(target.place, Place::Refused(_)) {
        return day;
    }
    if let Some(commit) = target.commit.as_ref().filter(|commit| !device && commit.file.has_room()) {
        day.commits = runs(commit.interval).saturating_mul(COMMITS as u64);
        day.written = day.commits.saturating_mul(commit.profile.row().block_size.into());
    }
    if let Some(read) = target.read.as_ref().filter(|read| device || read.file.has_room()) {
        day.reads = runs(read.interval).saturating_mul(SINGLES + AT_DEPTH);
        day.read = day.reads.saturating_mul(block().get());
    }
    day
}

fn at_disk([written, read, operations]: &[f64; Kind::ALL.len()]) -> String {
    let size = |bytes: f64| Bytes::new(bytes as u64);
    format!("{} written and {} read a day, {operations:.1} requests a second", size(*written), size(*read))
}

fn cost(day: &PerDay) -> String {
    let mut parts = Vec::new();
    if day.commits > 0 {
        parts.push(format!("{} commits, {} written", count(day.commits), Bytes::new(day.written)));
    }
    if day.reads > 0 {
        parts.push(format!("{} reads, {} read", count(day.reads), Bytes::new(day.read)));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

mod sweeps;

#[cfg(test)]
mod tests;
