//! How true our latencies are: what a reader adds to the block layer's own time, for our engine, a bare `pread` loop
//! and fio, turn by turn on one file; and our fdatasync beside fio's.
//!
//! ```text
//! cargo bench --bench accuracy -- --rounds 20 --seconds 0.5 --output docs/data/accuracy.jsonl
//! BLESS=1 cargo test --test performance
//! ```
//!
//! Needs root, fio, filefrag, xfsprogs, and a machine on which nothing else is running. Where others run all the same,
//! `chrt -f 1` before it keeps them from the CPU of all readers alike; the policy is in the output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot run says so and ends"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to who started it")]
#![allow(clippy::disallowed_methods, reason = "the bench stands outside the house: it opens its own files")]
#![allow(dead_code, unreachable_pub, reason = "a test of the documents uses the rest of what is shared")]

#[path = "support/fio.rs"]
mod fio;
#[path = "../tests/lab/mod.rs"]
mod lab;
#[path = "support/loops.rs"]
mod loops;
#[path = "support/machine.rs"]
mod machine;
#[path = "support/place.rs"]
mod place;
#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use clap::Parser;
use diskcanary::io::Wait;

use lab::{BlockTrace, FileSystem, Mounted, Scratch};
use machine::{bind, cpu_of};
use place::Place;
use support::raw::{Commits, Line, Quantiles, Reader, Reads, Run};

const READ_FILE: u64 = 256 << 20;
const COMMIT_FILE: u64 = 16 << 20;
const DISK: u64 = 512 << 20;
/// Least share of a turn's reads that must be found in the trace, else the turn proves nothing.
const LEAST_PAIRED: f64 = 0.95;

#[derive(Debug, Parser)]
struct Arguments {
    /// Turns of each reader on each disk.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Length of a turn.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Where the raw lines go.
    #[arg(long, default_value = "target/accuracy.jsonl")]
    output: PathBuf,
    /// Only disks whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Keep the CPUs from halting: in a virtual machine the way out of a halt takes tens of microseconds, as the host
    /// pleases, and hides what readers differ in.
    #[arg(long)]
    awake: bool,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    if lab::lacks(&[lab::Need::Root, lab::Need::Tracefs, lab::Need::Tool("fio"), lab::Need::Tool("filefrag")])
    {
        return;
    }
    let mut raw = Raw::create(&arguments);
    let _awake = arguments.awake.then(|| Awake::keep(machine::cpus()));
    for (name, disk) in DISKS.into_iter().filter(|(name, _)| name.contains(&arguments.only)) {
        let (keep, dir) = disk();
        match Bench::lay_out(name, &dir, &arguments) {
            Ok(bench) => bench.run(&mut raw),
            Err(why) => eprintln!("{name} is left out: {why}"),
        }
        drop(keep);
    }
    println!("{}", support::tables::accuracy("Accuracy", "", &raw.lines));
}

type Disk = fn() -> (Box<dyn std::any::Any>, PathBuf);

const DISKS: [(&str, Disk); 3] = [
    ("ext4 on a loop device", || on_loop(FileSystem::Ext4)),
    ("xfs on a loop device", || on_loop(FileSystem::Xfs)),
    ("the disk under both", || {
        let scratch = Scratch::new();
        let path = scratch.path().to_owned();
        (Box::new(scratch), path)
    }),
];

fn on_loop(kind: FileSystem) -> (Box<dyn std::any::Any>, PathBuf) {
    let mounted = Mounted::new(kind, DISK);
    let path = mounted.path().to_owned();
    (Box::new(mounted), path)
}

/// The lines as they come; also on disk at once, so that a run that is cut short is not lost.
struct Raw {
    file: fs::File,
    lines: Vec<Line>,
}

impl Raw {
    fn create(arguments: &Arguments) -> Self {
        let file =
            fs::File::create(&arguments.output).unwrap_or_else(|e| panic!("{:?}: {e}", arguments.output));
        let mut raw = Self { file, lines: Vec::new() };
        raw.push(Line::Run(conditions(arguments)));
        raw
    }

    fn push(&mut self, line: Line) {
        let mut text = serde_json::to_string(&line).unwrap();
        text.push('\n');
        self.file.write_all(text.as_bytes()).unwrap();
        self.lines.push(line);
    }
}

fn conditions(arguments: &Arguments) -> Run {
    Run {
        commit: machine::commit(),
        date: machine::date(),
        kernel: machine::kernel(),
        cpu: machine::cpu(),
        cpus: machine::cpus(),
        fio: fio::version(),
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        build: machine::build(),
        awake: arguments.awake,
        policy: machine::policy(),
        load: machine::load(),
    }
}

/// One disk, with its files laid out.
struct Bench<'a> {
    name: &'static str,
    dir: &'a Path,
    place: Place,
    logs: Scratch,
    length: Duration,
    rounds: u32,
}

impl<'a> Bench<'a> {
    fn lay_out(name: &'static str, dir: &'a Path, arguments: &Arguments) -> Result<Self, String> {
        write_random(&dir.join("reads"), READ_FILE);
        write_random(&dir.join("commits"), COMMIT_FILE);
        Ok(Self {
            name,
            dir,
            place: Place::of(&dir.join("reads"))?,
            logs: Scratch::new(),
            length: Duration::from_secs_f64(arguments.seconds),
            rounds: arguments.rounds,
        })
    }

    fn run(&self, raw: &mut Raw) {
        let trace = BlockTrace::start(self.place.device);
        for round in 0..self.rounds {
            eprintln!("{}: round {} of {}", self.name, round + 1, self.rounds);
            bind(cpu_of(round));
            // Another reader begins each round, so that none always follows the same one.
            let mut readers = Reader::ALL;
            readers.rotate_left(round as usize % Reader::ALL.len());
            for reader in readers {
                match self.reads(round, reader, &trace) {
                    Ok(reads) => raw.push(Line::Reads(reads)),
                    Err(why) => eprintln!("  turn left out: {why}"),
                }
            }
            let ours_first = round % 2 == 0;
            for fio in [!ours_first, ours_first] {
                raw.push(Line::Commits(self.commits(round, fio)));
            }
        }
    }

    fn reads(&self, round: u32, reader: Reader, trace: &BlockTrace) -> Result<Reads, String> {
        trace.take();
        let turn = self.turn(reader);
        let requests = trace.take();
        let pairs = self.place.pair(&turn.samples, &requests);
        let (all, paired) = (turn.samples.len(), pairs.len());
        if all == 0 || (paired as f64) < LEAST_PAIRED * all as f64 {
            return Err(format!("{}: {paired} of {all} reads are in the trace", reader.title()));
        }
        let mut latency: Vec<i64> = turn.samples.iter().map(|s| s.nanos as i64).collect();
        let mut device: Vec<i64> = pairs.iter().map(|(_, d)| *d as i64).collect();
        let mut added: Vec<i64> = pairs.iter().map(|(s, d)| s.nanos as i64 - *d as i64).collect();
        Ok(Reads {
            disk: self.name.to_owned(),
            round,
            cpu: cpu_of(round),
            reader,
            path: turn.path.map(str::to_owned),
            reads: all,
            paired,
            latency: Quantiles::of(&mut latency),
            device: Quantiles::of(&mut device),
            added: Quantiles::of(&mut added),
            cpu_per_read: turn.cpu.map(|cpu| (cpu / all as u64) as f64),
        })
    }

    fn turn(&self, reader: Reader) -> loops::Turn {
        let (dir, length) = (self.dir, self.length);
        let fio = |engine| loops::Turn {
            samples: fio::reads(engine, &dir.join("reads"), self.logs.path(), length),
            cpu: None,
            path: None,
        };
        match reader {
            Reader::Ours => loops::ours(dir, "reads", READ_FILE, length, Wait::Sleep),
            Reader::OursSpin => loops::ours(dir, "reads", READ_FILE, length, Wait::Spin),
            Reader::Bare => loops::bare(dir, "reads", READ_FILE, length),
            Reader::FioPsync => fio("psync"),
            Reader::FioUring => fio("io_uring"),
        }
    }

    fn commits(&self, round: u32, fio: bool) -> Commits {
        let (commits, [write, sync]) = if fio {
            fio::commits(&self.dir.join("commits"), self.length)
        } else {
            let (mut writes, mut syncs) = loops::commits(self.dir, "commits", COMMIT_FILE, self.length);
            (writes.len(), [Quantiles::of(&mut writes), Quantiles::of(&mut syncs)])
        };
        Commits { disk: self.name.to_owned(), round, cpu: cpu_of(round), fio, commits, write, sync }
    }
}

/// A process on each CPU that runs when nobody else wants to, and never sleeps; they end with this value.
struct Awake(Vec<Child>);

impl Awake {
    fn keep(cpus: usize) -> Self {
        Self((0..cpus).map(|cpu| Self::spin(&cpu.to_string())).collect())
    }

    fn spin(cpu: &str) -> Child {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0", "taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]);
        lab::dies_with_us(&mut command);
        command.spawn().unwrap_or_else(|e| panic!("chrt: {e}"))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A file of incompressible bytes, on the disk.
fn write_random(path: &Path, size: u64) {
    let mut file = fs::File::create(path).unwrap();
    let mut random = fastrand::Rng::new();
    let mut chunk = vec![0; 1 << 20];
    for _ in 0..size >> 20 {
        random.fill(&mut chunk);
        file.write_all(&chunk).unwrap();
    }
    file.sync_all().unwrap();
}
