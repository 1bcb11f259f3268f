//! What a config would do: what is probed where, when it begins, what it costs a day.

use std::fmt::Write;
use std::time::Duration;

use crate::probe::{Layout, Method, Profile};
use crate::units::{Bytes, Span};

use super::figures::count;
use super::plain;

const DAY: Duration = Duration::from_secs(86_400);

/// One target.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// How many series it has, where that is known.
    pub series: Option<usize>,
}

/// Where a target is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In files in this directory.
    Files {
        /// The directory, which may not exist yet.
        directory: String,
        /// Why it is not `.diskcanary` in the target's path, one sentence.
        moved: Option<String>,
    },
    /// The block device itself, read-only.
    Device,
    /// Not now: why, one sentence. It may come back, so the rest is told as for files.
    Down(String),
    /// Never, as it is written: why, one sentence.
    Refused(String),
}

/// The commit probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Whose commits.
    pub profile: Profile,
    /// What makes them durable.
    pub method: Method,
    /// One run in each span of this length.
    pub interval: Span,
    /// Size of its file.
    pub file_size: Bytes,
}

/// The read probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// One run in each span of this length.
    pub interval: Span,
    /// Size of its file.
    pub file_size: Bytes,
    /// How a completion is waited for.
    pub wait: &'static str,
}

/// What a run does, and how fast files are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Commits in a run.
    pub commits: u64,
    /// Reads at depth 1 in a run.
    pub single_reads: u64,
    /// Reads of the burst at depth in a run.
    pub burst_reads: u64,
    /// Depth of that burst.
    pub burst_depth: u64,
    /// Bytes of a read.
    pub read_size: Bytes,
    /// Bytes a second at which files are written.
    pub layout_rate: Bytes,
}

/// What a day costs, as issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PerDay {
    commits: u64,
    written: u64,
    reads: u64,
    read: u64,
}

/// The whole plan as text. Ends with a newline.
pub fn explain(targets: &[Target], shape: &Shape) -> String {
    let mut text = String::new();
    for target in targets {
        let _ = writeln!(text, "{}: {}", plain(&target.name), plain(&target.path));
        one(&mut text, target, shape);
        text.push('\n');
    }
    let sum =
        targets.iter().map(|target| per_day(target, shape)).fold(PerDay::default(), |all, one| PerDay {
            commits: all.commits.saturating_add(one.commits),
            written: all.written.saturating_add(one.written),
            reads: all.reads.saturating_add(one.reads),
            read: all.read.saturating_add(one.read),
        });
    let targets_word = if targets.len() == 1 { "target" } else { "targets" };
    let _ = writeln!(text, "{} {targets_word}, a day: {}", targets.len(), cost(&sum));
    if sum.commits > 0 {
        text += "What a commit makes the file system write comes on top: diskcanary_commit_device_bytes shows it.\n";
    }
    if let Some(series) = targets.iter().map(|target| target.series).sum::<Option<usize>>() {
        let _ = writeln!(text, "{} series", count(series as u64));
    }
    text
}

fn one(text: &mut String, target: &Target, shape: &Shape) {
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "  {key:<9}{value}");
    };
    let device = target.place == Place::Device;
    match &target.place {
        Place::Refused(why) => return line("never", &plain(why)),
        Place::Down(why) => line("is down", &plain(why)),
        Place::Device => line("device", "read as it is, never written; no files"),
        Place::Files { directory, moved } => {
            line("files", &plain(directory));
            if let Some(why) = moved {
                line("", &plain(why));
            }
        }
    }
    let commit = target.commit.filter(|_| !device);
    let commit_file = commit.map_or(Bytes::default(), |commit| commit.file_size);
    match commit {
        Some(commit) => {
            line("commits", &commits(&commit, shape));
            line("", &first(commit.file_size, commit.file_size, "the commit file", shape));
        }
        None => line("commits", "off"),
    }
    match &target.read {
        Some(read) => {
            line("reads", &reads(read, target.engine, shape));
            let all = Bytes::new(commit_file.get().saturating_add(read.file_size.get()));
            match device {
                true => line("", "first at once: there is nothing to lay out"),
                false => line("", &first(read.file_size, all, "the read file", shape)),
            }
        }
        None => line("reads", "off"),
    }
    line("a day", &cost(&per_day(target, shape)));
    if let Some(series) = target.series {
        line("series", &count(series as u64));
    }
}

fn commits(commit: &Commit, shape: &Shape) -> String {
    let row = commit.profile.row();
    let way = if row.direct { "past the page cache" } else { "through the page cache" };
    let place = match row.layout {
        Layout::AppendWrapping { .. } => "appended in a segment that is reused",
        Layout::Overwrite => "overwritten at random places",
    };
    format!(
        "{} back to back each {}, profile {}: {} {place}, {way}, {}",
        shape.commits,
        commit.interval,
        commit.profile,
        Bytes::new(row.block_size.into()),
        match commit.method {
            Method::ODsync => "written with O_DSYNC".to_owned(),
            method => format!("then {method}"),
        },
    )
}

fn reads(read: &Read, engine: &str, shape: &Shape) -> String {
    format!(
        "{} at depth 1, then {} at depth {}, each {}: {} at random places past the page cache, engine {engine}, wait {}",
        shape.single_reads, shape.burst_reads, shape.burst_depth, read.interval, shape.read_size, read.wait,
    )
}

/// When the first run can be: after `until` bytes were laid out.
fn first(size: Bytes, until: Bytes, what: &str, shape: &Shape) -> String {
    let seconds = until.get().div_ceil(shape.layout_rate.get().max(1));
    format!(
        "first after about {seconds} s, when {what} of {size} is laid out at {}/s; at once where it is from before",
        shape.layout_rate
    )
}

fn per_day(target: &Target, shape: &Shape) -> PerDay {
    let runs = |interval: Span| (DAY.as_nanos() / interval.get().as_nanos().max(1)) as u64;
    let (mut day, device) = (PerDay::default(), target.place == Place::Device);
    if matches!(target.place, Place::Refused(_)) {
        return day;
    }
    if let Some(commit) = target.commit.filter(|_| !device) {
        day.commits = runs(commit.interval).saturating_mul(shape.commits);
        day.written = day.commits.saturating_mul(commit.profile.row().block_size.into());
    }
    if let Some(read) = &target.read {
        day.reads = runs(read.interval).saturating_mul(shape.single_reads + shape.burst_reads);
        day.read = day.reads.saturating_mul(shape.read_size.get());
    }
    day
}

fn cost(day: &PerDay) -> String {
    let mut parts = Vec::new();
    if day.commits > 0 {
        parts.push(format!("{} commits of {} in all", count(day.commits), Bytes::new(day.written)));
    }
    if day.reads > 0 {
        parts.push(format!("{} reads of {} in all", count(day.reads), Bytes::new(day.read)));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests;
