//! What others feel of us: the latency of fio's load on a disk while the daemon probes it, and while the daemon is stopped.
//!
//! ```text
//! cargo bench --bench impact -- --output docs/data/impact.jsonl
//! BLESS=1 cargo test --test performance
//! ```
//!
//! Needs root, fio, mkfs.ext4, zram and the cgroup v1 controller blkio; 20 rounds on three disks take an hour and a half.
//! `--seconds 4 --rounds 2` is a quick look. It is of no use on a machine that does anything else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot run says so and ends"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to who started it")]
#![allow(clippy::disallowed_methods, reason = "the bench stands outside the house: it opens its own files")]
#![allow(dead_code, unreachable_pub, reason = "a test of the documents uses the rest of what is shared")]

#[path = "../tests/lab/mod.rs"]
mod lab;
#[path = "support/machine.rs"]
mod machine;
#[path = "support/output.rs"]
mod output;
#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Parser;
use rustix::process::Signal;

use lab::{Blkio, Daemon, Direction, FileSystem, Mounted, Need, Running, Zram};
use output::Raw;
use support::impact as raw;
use support::impact::{Latency, Line, Round, Run};

/// Sparse; so large that the read file is within its share of the free space.
const DISK: u64 = 3 << 30;
/// Bytes that the load works on.
const FILE: &str = "128M";
/// What the slow disk gives in a second, of reads and of writes.
const LIMIT: u64 = 300;
/// Of which the load takes so many.
const BUSY: u64 = LIMIT * 9 / 10;
/// After the daemon was let go on: what was due meanwhile is done.
const SETTLE: Duration = Duration::from_secs(2);

/// By probe and result.
const RUNS: &str = "diskcanary_probe_runs_total";

#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of three turns on each disk.
    #[arg(long, default_value_t = 24)]
    rounds: u32,
    /// Length of a turn; reads are probed every 30 s.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Where the raw lines go.
    #[arg(long, default_value = "target/impact.jsonl")]
    output: PathBuf,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let tools = ["losetup", "mkfs.ext4", "fio"].map(Need::Tool);
    if lab::lacks(&[&[Need::Root, Need::Zram, Need::Cgroup("blkio")][..], &tools].concat()) {
        return;
    }
    let mut raw = Raw::create(&arguments.output);
    raw.put(Line::Run(conditions(&arguments)));
    {
        let disk = Mounted::new(FileSystem::Ext4, DISK);
        let title = format!("4 KiB random reads at 90 % of a disk of {LIMIT} a second");
        let rate = format!("--rate_iops={BUSY}");
        let job = ["--rw=randread", &rate];
        let bench = Bench::new(&arguments, &title, disk.path(), &job, "read");
        let group = Blkio::new();
        group.take(bench.daemon.pid());
        let below = fs::metadata(disk.disk().backing()).unwrap().st_dev();
        // Only now, when all files are laid out.
        for direction in [Direction::Read, Direction::Write] {
            group.limit((libc::major(below), libc::minor(below)), direction, LIMIT);
        }
        bench.rounds(&mut raw, Some(&group));
    }
    {
        let zram = Zram::new(DISK);
        let disk = Mounted::on_device(FileSystem::Ext4, zram.device(), &[], "");
        let title = "4 KiB random reads on a disk in RAM (zram)";
        Bench::new(&arguments, title, disk.path(), &["--rw=randread"], "read").rounds(&mut raw, None);
        drop(disk);
    }
    {
        let disk = Mounted::new(FileSystem::Ext4, DISK);
        let title = "fdatasync after each 4 KiB write on a loop device";
        let job = ["--rw=write", "--fdatasync=1"];
        Bench::new(&arguments, title, disk.path(), &job, "sync").rounds(&mut raw, None);
    }
    println!("{}", raw::section(&raw.lines));
}

fn conditions(arguments: &Arguments) -> Run {
    Run {
        commit: machine::commit(),
        date: machine::date(),
        kernel: machine::kernel(),
        cpu: machine::cpu(),
        cpus: machine::cpus(),
        fio: lab::run("fio", &["--version"]),
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        build: machine::build(),
        load: machine::load(),
    }
}

/// A load on a disk, and a daemon beside it.
struct Bench<'a> {
    arguments: &'a Arguments,
    title: &'a str,
    file: PathBuf,
    job: &'a [&'a str],
    /// Of fio's report, the operation that counts.
    timed: &'a str,
    daemon: Running,
}

impl<'a> Bench<'a> {
    /// All files are written and durable when this returns.
    fn new(
        arguments: &'a Arguments,
        title: &'a str,
        disk: &Path,
        job: &'a [&'a str],
        timed: &'a str,
    ) -> Self {
        let file = disk.join("load");
        fio(&file, 0, &["--rw=write", "--bs=1M", "--end_fsync=1"], None);
        let config = format!(
            "targets:\n  - {{name: disk, path: {}, commit: {{file_size: 64MiB}}, read: {{file_size: 64MiB}}}}\n",
            disk.display()
        );
        let daemon = Daemon::new().config(&config).start();
        lab::eventually_within(Duration::from_secs(120), "both probes run", || {
            let metrics = daemon.scrape();
            ["commit", "read"].iter().all(|probe| metrics.sum(RUNS, &[("probe", probe)]) > 0.0)
        });
        Self { arguments, title, file, job, timed, daemon }
    }

    fn rounds(&self, raw: &mut Raw<Line>, group: Option<&Blkio>) {
        for round in 0..self.arguments.rounds {
            eprintln!("{}: round {} of {}", self.title, round + 1, self.arguments.rounds);
            let mut turns = [None; 3];
            let mut runs = [0; 2];
            // Each of the three is first, second and third equally often.
            for place in 0..3 {
                let which = (place + round as usize) % turns.len();
                let before = self.turn_begins(which == 2);
                turns[which] = Some(self.turn(group));
                if let Some(before) = before {
                    let after = self.runs();
                    runs = std::array::from_fn(|probe| after[probe] - before[probe]);
                }
            }
            let [without, again, with] = turns.map(Option::unwrap);
            let [commit_runs, read_runs] = runs;
            let load = self.title.to_owned();
            raw.put(Line::Round(Round { load, round, without, again, with, commit_runs, read_runs }));
        }
        self.daemon.signal(Signal::CONT);
    }

    /// The daemon runs or stands still; with it, the runs that it has made so far.
    fn turn_begins(&self, with: bool) -> Option<[u64; 2]> {
        self.daemon.signal(if with { Signal::CONT } else { Signal::STOP });
        std::thread::sleep(SETTLE);
        with.then(|| self.runs())
    }

    /// Runs that came back so far: of commits, of reads.
    fn runs(&self) -> [u64; 2] {
        let metrics = self.daemon.scrape();
        ["commit", "read"].map(|probe| metrics.sum(RUNS, &[("probe", probe)]) as u64)
    }

    fn turn(&self, group: Option<&Blkio>) -> Latency {
        let report = fio(&self.file, self.arguments.seconds, &[self.job, &["--bs=4k"]].concat(), group);
        let timed = &report[self.timed]["lat_ns"];
        let at = |q: &str| timed["percentile"][q].as_f64().unwrap_or_else(|| panic!("{q}: {timed}"));
        Latency {
            operations: timed["N"].as_u64().unwrap(),
            p50: at("50.000000"),
            p99: at("99.000000"),
            p999: at("99.900000"),
        }
    }
}

/// One job of fio at depth 1, as long as the file is for no seconds: the job's part of its report.
fn fio(file: &Path, seconds: u64, job: &[&str], group: Option<&Blkio>) -> serde_json::Value {
    let mut command = Command::new("fio");
    command
        .args(["--name=load", "--ioengine=psync", "--direct=1", "--iodepth=1", "--overwrite=1"])
        .args(["--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99:99.9"])
        .args(["--output-format=json", &format!("--size={FILE}"), &format!("--filename={}", file.display())])
        .args(job);
    if seconds > 0 {
        command.args(["--time_based", &format!("--runtime={seconds}s")]);
    }
    if let Some(group) = group {
        lab::in_cgroup(&mut command, group.path());
    }
    let output = command.output().expect("fio is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    let json = said.find('{').map_or("", |at| &said[at..]);
    let mut report: serde_json::Value = serde_json::from_str(json)
        .unwrap_or_else(|e| panic!("fio: {e}\n{said}\n{}", String::from_utf8_lossy(&output.stderr)));
    let job = report["jobs"][0].take();
    assert_eq!(job["error"], 0, "fio: {}", String::from_utf8_lossy(&output.stderr));
    job
}
