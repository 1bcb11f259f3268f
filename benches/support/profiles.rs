//! What was seen of each commit profile, JSON lines, and docs/profiles.md, which is made from them.

use std::fmt::Write;

use diskcanary::probe::{Layout, Profile};
use serde::{Deserialize, Serialize};

/// One line of the raw output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line: what was run where.
    Run(Run),
    /// System calls and requests of one profile on one file system.
    Seen(Seen),
    /// What a disk got over a span of time, at default intervals.
    Span(Span),
}

/// What was run where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Of the source, with `+` where it was changed since.
    pub commit: String,
    /// RFC 3339.
    pub date: String,
    /// Release of the kernel.
    pub kernel: String,
    /// `release`, or `dev` where the compiler's checks were on.
    pub build: String,
}

/// What strace and the block trace saw of one profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Which file system.
    pub file_system: String,
    /// Which profile, by its label.
    pub profile: String,
    /// `O_DIRECT` among the flags of the open file.
    pub direct: bool,
    /// `O_DSYNC` among them, and not `O_SYNC`.
    pub dsync: bool,
    /// `O_SYNC` among them: a fault.
    pub full_sync: bool,
    /// The call between one write and the next: `fdatasync`, `fsync`, or `none`. Several, joined by `+`, are a fault.
    pub sync: String,
    /// Commits that were seen whole.
    pub commits: u64,
    /// Of one write; several are a fault.
    pub sizes: Vec<u64>,
    /// The greatest number that all offsets are multiples of.
    pub multiple_of: u64,
    /// Writes that begin where the one before ended, rounded up to the profile's alignment.
    pub follow: u64,
    /// Requests that reached the disk from the first write to the end of the last sync.
    pub requests: Vec<Requests>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// The kernel's letters: `W` write, `FF` flush alone, `F` behind `W` forced through the cache (FUA), `S` sync, `M` metadata.
    pub flags: String,
    /// Bytes of each.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// What a disk got over a span of time, at default intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Which file system.
    pub file_system: String,
    /// Which profile, by its label.
    pub profile: String,
    /// Length of the span.
    pub seconds: f64,
    /// Commits that we issued.
    pub commits: u64,
    /// Bytes that we wrote.
    pub payload: u64,
    /// Writes that the kernel says the disk did, flushes sent alone among them.
    pub writes: u64,
    /// Flushes, by the kernel's count.
    pub flushes: u64,
    /// Bytes that the kernel says the disk wrote.
    pub bytes: u64,
}

impl Seen {
    fn of(&self, is: impl Fn(&Requests) -> bool) -> f64 {
        self.requests.iter().filter(|r| is(r)).map(|r| r.count).sum::<u64>() as f64 / self.commits as f64
    }

    /// Writes with data that one commit causes at the disk.
    pub fn writes(&self) -> f64 {
        self.of(|r| r.flags.contains('W') && r.bytes > 0)
    }

    /// Flushes without data that one commit causes.
    pub fn flushes(&self) -> f64 {
        self.of(|r| r.flags.starts_with('F') && r.bytes == 0)
    }

    /// Writes that are forced through the cache.
    pub fn forced(&self) -> f64 {
        self.of(|r| r.flags.split_once('W').is_some_and(|(_, after)| after.contains('F')))
    }

    /// Bytes that one commit writes at the disk.
    pub fn bytes(&self) -> f64 {
        let writes = self.requests.iter().filter(|r| r.flags.contains('W'));
        writes.map(|r| r.bytes * r.count).sum::<u64>() as f64 / self.commits as f64
    }

    fn amplification(&self) -> f64 {
        self.bytes() / self.sizes.first().copied().unwrap_or(0) as f64
    }
}

/// The lines of a raw file.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let line = |(i, text)| serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1));
    text.lines().enumerate().filter(|(_, text)| !text.is_empty()).map(line).collect()
}

/// What a target may write in a day, at the disk.
pub const MOST_A_DAY: f64 = (2u64 << 30) as f64;

const HEAD: &str = "# Commit profiles\n\n\
    What each profile of the commit probe does to a disk, as strace and the kernel's block trace saw it. Made by a test from \
    `docs/data/profiles.jsonl`; where the figures of a profile come from is said beside its row in `src/probe/profile.rs`.\n\n";

/// The page.
pub fn page(lines: &[Line]) -> String {
    let mut text = HEAD.to_owned();
    for line in lines {
        if let Line::Run(Run { commit, date, kernel, build }) = line {
            let _ = writeln!(
                text,
                "`cargo bench --bench profiles -- --output docs/data/profiles.jsonl`: commit {commit} ({build} build), {date}, \
                 Linux {kernel}; each profile on a disk of its own, a loop device with direct I/O. A loop device has a \
                 volatile cache to flush and no forced writes (FUA): a disk that has them answers `odsync` with one request."
            );
        }
    }
    let seen: Vec<&Seen> =
        lines.iter().filter_map(|l| if let Line::Seen(s) = l { Some(s) } else { None }).collect();
    calls(&mut text, &seen);
    requests(&mut text, &seen);
    let spans: Vec<&Span> =
        lines.iter().filter_map(|l| if let Line::Span(s) = l { Some(s) } else { None }).collect();
    days(&mut text, &spans);
    text
}

fn calls(text: &mut String, seen: &[&Seen]) {
    text.push_str(
        "\n## System calls\n\n\
         *Asked* is the profile's row. *Follow* counts the writes that begin where the one before ended, rounded up to the \
         row's alignment; the others go back to the start of the segment, or anywhere.\n\n\
         | profile | file system | asked | commits | bytes of a write | offsets are multiples of | follow | open flags | then |\n\
         |---|---|---|--:|--:|--:|--:|---|---|\n",
    );
    for s in seen {
        let names = [(s.direct, "`O_DIRECT`"), (s.dsync, "`O_DSYNC`"), (s.full_sync, "`O_SYNC`")];
        let flags: Vec<&str> = names.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
        let flags = if flags.is_empty() { "–".to_owned() } else { flags.join(" ") };
        let sizes: Vec<String> = s.sizes.iter().map(u64::to_string).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {flags} | {} |",
            s.profile,
            s.file_system,
            asked(&s.profile),
            s.commits,
            sizes.join(", "),
            s.multiple_of,
            s.follow,
            if s.sync == "none" { "–".to_owned() } else { format!("`{}`", s.sync) },
        );
    }
}

fn asked(label: &str) -> String {
    let Some(profile) = Profile::ALL.iter().find(|p| p.label() == label) else { return String::new() };
    let row = profile.row();
    let place = match row.layout {
        Layout::AppendWrapping { .. } => "one after the other",
        Layout::Overwrite => "anywhere",
    };
    let cache = if row.direct { ", direct" } else { "" };
    format!("{} B at multiples of {} B, {place}, {}{cache}", row.block_size, row.alignment, row.method)
}

fn requests(text: &mut String, seen: &[&Seen]) {
    text.push_str(
        "\n## Requests at the disk\n\n\
         For each commit, from the first write to the end of the last sync, with commits every 100 ms; journal writes of the \
         file system that fell into that time are among them. *Amplification* is bytes at the disk divided by bytes committed. \
         In *all requests*, `W` is a write, `FF` a flush alone, `S` sync, `M` metadata.\n\n\
         | profile | file system | writes | flushes | FUA | bytes | amplification | all requests |\n\
         |---|---|--:|--:|--:|--:|--:|---|\n",
    );
    for s in seen {
        let mut kinds: Vec<&Requests> = s.requests.iter().collect();
        kinds.sort_by_key(|r| std::cmp::Reverse(r.count));
        let each = |r: &&Requests| {
            let share = r.count as f64 / s.commits as f64;
            if r.bytes == 0 {
                format!("{share:.2} × `{}`", r.flags)
            } else {
                format!("{share:.2} × `{}` {} B", r.flags, r.bytes)
            }
        };
        let kinds: Vec<String> = kinds.iter().map(each).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {:.2} | {:.2} | {:.2} | {:.0} | {:.2} | {} |",
            s.profile,
            s.file_system,
            s.writes(),
            s.flushes(),
            s.forced(),
            s.bytes(),
            s.amplification(),
            kinds.join(", "),
        );
    }
}

fn days(text: &mut String, spans: &[&Span]) {
    text.push_str(
        "\n## A day at default intervals\n\n\
         3 commits every 2 s, by the disk's own counters over the span, the file system's journal included; the layout of the \
         probe files (64 MiB and 1 GiB, once) is not. The bound is 2 GiB a day and target at the disk.\n\n\
         | profile | file system | s | commits | bytes committed | bytes at the disk | amplification | flushes a commit | MiB a day | |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|---|\n",
    );
    for s in spans {
        let day = s.bytes as f64 / s.seconds * 86_400.0;
        let _ = writeln!(
            text,
            "| `{}` | {} | {:.0} | {} | {} | {} | {:.2} | {:.2} | {:.0} | {} |",
            s.profile,
            s.file_system,
            s.seconds,
            s.commits,
            s.payload,
            s.bytes,
            s.bytes as f64 / s.payload as f64,
            s.flushes as f64 / s.commits as f64,
            day / f64::from(1 << 20),
            if day <= MOST_A_DAY { "within" } else { "**more than 2 GiB**" },
        );
    }
}
