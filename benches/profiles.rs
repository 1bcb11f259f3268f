//! What each commit profile does to a disk: its system calls, the requests that reach the disk, and what a day of it writes.
//!
//! ```text
//! cargo bench --bench profiles -- --seconds 3600 --output docs/data/profiles.jsonl
//! BLESS=1 cargo test --test performance
//! ```
//!
//! Needs root, tracefs, strace, mkfs.ext4 and mkfs.xfs. It starts the real binary on loop devices of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot run says so and ends"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to who started it")]
#![allow(
    clippy::disallowed_methods,
    reason = "the bench stands outside the house: it opens files and reads clocks"
)]
#![allow(dead_code, unreachable_pub, reason = "a test of the documents uses the rest of what is shared")]

#[path = "../tests/lab/mod.rs"]
mod lab;
#[path = "support/machine.rs"]
mod machine;
#[path = "../tests/suite/profiles/observe.rs"]
mod observe;
#[path = "support/profiles.rs"]
mod raw;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use diskcanary::probe::Profile;

use lab::{Daemon, FileSystem, Metrics, Mounted, Need, Running};
use raw::{Line, Run, Span};

/// Sparse; so large that the commit file has its default size.
const DISK: u64 = 2 << 30;

#[derive(Debug, Parser)]
struct Arguments {
    /// Runs of each profile under strace and block trace.
    #[arg(long, default_value_t = 30)]
    runs: u32,
    /// Length of the span at default intervals, all profiles and file systems at the same time.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Where the raw lines go.
    #[arg(long, default_value = "target/profiles.jsonl")]
    output: PathBuf,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let tools = ["losetup", "mkfs.ext4", "mkfs.xfs", "strace"].map(Need::Tool);
    if lab::lacks(&[&[Need::Root, Need::Tracefs][..], &tools].concat()) {
        return;
    }
    let mut lines = vec![Line::Run(conditions())];
    let kinds = [("ext4", FileSystem::Ext4), ("xfs", FileSystem::Xfs)];
    let disks = |kind| Profile::ALL.iter().map(|profile| (*profile, Mounted::new(kind, DISK))).collect();
    let all: Vec<(&str, Vec<(Profile, Mounted)>)> = kinds.map(|(name, kind)| (name, disks(kind))).into();
    for (name, disks) in &all {
        let quick = Daemon::new().config(&observe::config(disks, ", interval: 100ms")).start();
        observe::ready(&quick, disks.len());
        let seen = observe::observe(&quick, name, disks, f64::from(arguments.runs));
        lines.extend(seen.into_iter().map(Line::Seen));
        quick.stop();
    }
    // All at the same time: an hour is long.
    let all: Vec<_> = all
        .into_iter()
        .map(|(name, disks)| {
            let daemon = Daemon::new().config(&observe::config(&disks, "")).start();
            observe::ready(&daemon, disks.len());
            (name, daemon, disks)
        })
        .collect();
    // What the layout left in the page cache is on the disk.
    std::thread::sleep(Duration::from_secs(40));
    let before: Vec<Look> = all.iter().map(|(_, daemon, disks)| Look::at(daemon, disks)).collect();
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    for ((name, daemon, disks), before) in all.iter().zip(&before) {
        lines.extend(spans(name, disks, before, &Look::at(daemon, disks)).map(Line::Span));
    }
    let mut file = fs::File::create(&arguments.output).unwrap();
    for line in &lines {
        writeln!(file, "{}", serde_json::to_string(line).unwrap()).unwrap();
    }
    println!("{}", raw::page(&lines));
}

fn conditions() -> Run {
    Run {
        commit: machine::commit(),
        date: machine::date(),
        kernel: machine::kernel(),
        build: machine::build(),
    }
}

/// The disks' own counters and ours, at one end of a span.
struct Look {
    at: Instant,
    ours: Metrics,
    disks: Vec<Vec<u64>>,
}

impl Look {
    fn at(daemon: &Running, disks: &[(Profile, Mounted)]) -> Self {
        let counters = disks.iter().map(|(_, disk)| disk.disk().counters()).collect();
        Self { at: Instant::now(), ours: daemon.scrape(), disks: counters }
    }
}

fn spans(
    file_system: &str,
    disks: &[(Profile, Mounted)],
    before: &Look,
    after: &Look,
) -> impl Iterator<Item = Span> {
    let seconds = (after.at - before.at).as_secs_f64();
    let ours = |name: &str, profile: Profile| {
        let labels = [("target", profile.label()), ("op", "write")];
        (after.ours.sum(name, &labels) - before.ours.sum(name, &labels)) as u64
    };
    disks.iter().enumerate().map(move |(at, (profile, _))| {
        let moved = |field: usize| after.disks[at][field] - before.disks[at][field];
        Span {
            file_system: file_system.to_owned(),
            profile: profile.label().to_owned(),
            seconds,
            commits: ours("diskcanary_probe_operations_total", *profile),
            payload: ours("diskcanary_probe_bytes_total", *profile),
            writes: moved(4),
            flushes: moved(15),
            bytes: moved(6) * 512,
        }
    })
}
