//! The sweep's closed loop beside fio's, turn by turn, with the same ring settings: IOPS, p50 and p99, the depth that was kept, and
//! the CPU that the whole process took for an operation, workers of the ring included, seen from outside.
//!
//! ```text
//! cargo bench --bench sweep -- --rounds 15 --seconds 3 --output docs/data/sweep.jsonl
//! ```
//!
//! Needs root, fio and zram, and a machine on which nothing else is running. fio's jobs are in `benches/fio`.

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

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Parser;
use diskcanary::probe::sweep::{Operation, Pattern};
use serde::{Deserialize, Serialize};

use lab::{Need, Opening, Scratch, Sweeping, Zram, cell, lasting};

const FILE: u64 = 256 << 20;
/// A read file takes a twentieth of it; what is never written takes no memory.
const DISK: u64 = 6 << 30;
const DEPTHS: [u16; 4] = [1, 4, 32, 64];
const PATTERNS: [(Pattern, u32); 4] = [
    (Pattern::RandRead, 4 << 10),
    (Pattern::RandWrite, 4 << 10),
    (Pattern::SeqRead, 1 << 20),
    (Pattern::RandRw70, 8 << 10),
];

#[derive(Debug, Parser)]
struct Arguments {
    /// Turns of each on each cell.
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Length of a turn.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Where the raw lines go.
    #[arg(long, default_value = "target/sweep.jsonl")]
    output: PathBuf,
    /// Only cells whose name contains this, as in `zram 4KiB randread, depth 64`.
    #[arg(long, default_value = "")]
    only: String,
    /// Three rounds of a second.
    #[arg(long)]
    quick: bool,
    /// Instead: so many ladders of the `nightly` preset's kind climbed to their end on this disk, one JSON line each.
    #[arg(long)]
    ladders: Option<u32>,
    /// What a child is to do: one turn of ours in this directory.
    #[arg(long, hide = true, num_args = 4)]
    turn: Option<Vec<String>>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// One line of the raw output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Run(Run),
    Turn(Turn),
}

/// What was run where.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Run {
    commit: String,
    date: String,
    kernel: String,
    cpu: String,
    cpus: usize,
    fio: String,
    rounds: u32,
    seconds: f64,
    build: String,
    load: f64,
}

/// One turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Turn {
    place: String,
    pattern: String,
    block_size: u32,
    depth: u16,
    round: u32,
    fio: bool,
    #[serde(flatten)]
    figures: Figures,
}

/// What a turn came to; latencies are those of reads where there are any.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Figures {
    iops: f64,
    achieved_depth: f64,
    p50_ns: f64,
    p99_ns: f64,
    /// CPU of the whole process, user and system, for each operation.
    cpu_ns: f64,
}

/// What a child of ours says.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    iops: f64,
    achieved_depth: f64,
    p50_ns: f64,
    p99_ns: f64,
    operations: u64,
}

fn main() {
    let mut arguments = Arguments::parse();
    if let Some(turn) = &arguments.turn {
        println!("{}", serde_json::to_string(&our_turn(turn)).unwrap());
        return;
    }
    if lab::lacks(&[Need::Root, Need::Tool("fio")]) {
        return;
    }
    if let Some(count) = arguments.ladders {
        return ladders(count, &arguments.output);
    }
    if arguments.quick {
        (arguments.rounds, arguments.seconds) = (3, 1.0);
    }
    let mut raw = fs::File::create(&arguments.output).unwrap();
    let mut turns = Vec::new();
    let mut push = |line: Line| {
        writeln!(raw, "{}", serde_json::to_string(&line).unwrap()).unwrap();
        if let Line::Turn(turn) = line {
            turns.push(turn);
        }
    };
    push(Line::Run(conditions(&arguments)));
    for (name, place) in PLACES {
        let (_keep, dir) = place();
        measure(name, &dir, &arguments, &mut push);
    }
    summary(&turns);
}

/// A ladder as it was climbed: each step's depth, IOPS and noise.
#[derive(Debug, Serialize)]
struct Climbed {
    pattern: Pattern,
    block_size: u32,
    steps: Vec<(u16, f64, Option<f64>)>,
}

fn ladders(count: u32, output: &Path) {
    let scratch = Scratch::within(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let sweeping = Sweeping::on(scratch.path(), Opening { file: FILE, ..Opening::default() });
    let mut file = fs::File::create(output).unwrap();
    let all = diskcanary::probe::sweep::Preset::Nightly.row().ladders;
    let long: Vec<_> = all.into_iter().filter(|ladder| ladder.cells.len() > 1).collect();
    for at in 0..count as usize {
        let ladder = &long[at % long.len()];
        let step = |(at, cell): (usize, &diskcanary::probe::sweep::Cell)| {
            let result = sweeping.result(*cell, ladder.limits_of(at));
            (
                cell.depth,
                (result.iops * 10.0).round() / 10.0,
                result.shape.noise.map(|n| (n * 1e4).round() / 1e4),
            )
        };
        let steps = ladder.cells.iter().enumerate().map(step).collect();
        let first = ladder.cells[0];
        let climbed = Climbed { pattern: first.pattern, block_size: first.block_size, steps };
        writeln!(file, "{}", serde_json::to_string(&climbed).unwrap()).unwrap();
    }
}

type Made = (Box<dyn std::any::Any>, PathBuf);
type Place = (&'static str, fn() -> Made);

const PLACES: [Place; 2] = [
    ("file", || {
        let scratch = Scratch::new();
        let path = scratch.path().to_owned();
        (Box::new(scratch), path)
    }),
    ("zram", || {
        let mounted = OnZram::new();
        let path = mounted.path.clone();
        (Box::new(mounted), path)
    }),
];

/// ext4 on a disk of RAM.
struct OnZram {
    path: PathBuf,
    _scratch: Scratch,
    _zram: Zram,
}

impl OnZram {
    fn new() -> Self {
        let (zram, scratch) = (Zram::new(DISK), Scratch::new());
        let path = scratch.dir("zram");
        lab::run("mkfs.ext4", &["-q".as_ref(), zram.device().as_os_str()]);
        lab::run("mount", &[zram.device().as_os_str(), path.as_os_str()]);
        Self { path, _scratch: scratch, _zram: zram }
    }
}

impl Drop for OnZram {
    fn drop(&mut self) {
        lab::run("umount", &[self.path.as_os_str()]);
    }
}

/// fio has a file of its own, with the same bytes in it: what it writes is not what our reads expect.
fn measure(place: &str, dir: &Path, arguments: &Arguments, push: &mut dyn FnMut(Line)) {
    let dir = dir.canonicalize().unwrap();
    let (home, _) = lab::lay(&dir, FILE);
    let theirs = dir.join("fio");
    fs::copy(home.path().join("reads"), &theirs).unwrap();
    lab::run("sync", &["-f".as_ref(), dir.as_os_str()]);
    drop(home);
    for (pattern, block_size) in PATTERNS {
        for depth in DEPTHS {
            let name = format!("{place} {}", cell(pattern, block_size, depth));
            if !name.contains(&arguments.only) {
                continue;
            }
            for round in 0..arguments.rounds {
                // By turns the one and the other begins.
                for fio in [round % 2 == 0, round % 2 != 0] {
                    let figures = match fio {
                        true => fio_turn(&theirs, pattern, depth, arguments.seconds),
                        false => child_turn(&dir, pattern, block_size, depth, arguments.seconds),
                    };
                    let (place, pattern) = (place.to_owned(), pattern.to_string());
                    push(Line::Turn(Turn { place, pattern, block_size, depth, round, fio, figures }));
                }
            }
        }
    }
}

fn child_turn(dir: &Path, pattern: Pattern, block: u32, depth: u16, seconds: f64) -> Figures {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--turn").arg(dir).arg(format!("{pattern}")).arg(format!("{block}:{depth}"));
    command.arg(seconds.to_string());
    let (output, cpu) = timed(&mut command);
    let said: Said = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
    Figures {
        iops: said.iops,
        achieved_depth: said.achieved_depth,
        p50_ns: said.p50_ns,
        p99_ns: said.p99_ns,
        cpu_ns: cpu / said.operations as f64,
    }
}

fn our_turn(turn: &[String]) -> Said {
    let [dir, pattern, shape, seconds] = turn else { panic!("{turn:?}") };
    let pattern = Pattern::ALL.iter().find(|p| p.label() == pattern).unwrap();
    let (block, depth) = shape.split_once(':').unwrap();
    let dir = Path::new(dir);
    let sweeping = Sweeping::on_what_is_there(dir, Opening::default());
    let cell = cell(*pattern, block.parse().unwrap(), depth.parse().unwrap());
    let report = sweeping.cell(cell, lasting(Duration::from_secs_f64(seconds.parse().unwrap())));
    let result = report.outcome.unwrap();
    let latency =
        result.latency_ns.get(&Operation::Read).or(result.latency_ns.get(&Operation::Write)).unwrap();
    Said {
        iops: result.iops,
        achieved_depth: result.achieved_depth,
        p50_ns: latency.p50 as f64,
        p99_ns: latency.p99.unwrap_or(latency.max) as f64,
        operations: report.cost.reads + report.cost.writes,
    }
}

fn fio_turn(file: &Path, pattern: Pattern, depth: u16, seconds: f64) -> Figures {
    let job = format!("{}/benches/fio/sweep-{pattern}.fio", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("fio");
    command.args(["--output-format=json", &job]).env("FILE", file).env("SIZE", FILE.to_string());
    command.env("DEPTH", depth.to_string()).env("RUNTIME", format!("{}ms", (seconds * 1000.0) as u64));
    let (output, cpu) = timed(&mut command);
    let json = output.find('{').map_or("", |at| &output[at..]);
    let said: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("fio: {e}\n{output}"));
    let job = &said["jobs"][0];
    assert_eq!(job["error"], 0, "{output}");
    let number = |way: &str, what: &str| job[way][what].as_f64().unwrap();
    let mean = |way: &str| job[way]["lat_ns"]["mean"].as_f64().unwrap();
    let way = if number("read", "total_ios") > 0.0 { "read" } else { "write" };
    let quantile = |q: &str| job[way]["lat_ns"]["percentile"][q].as_f64().unwrap();
    let both = |of: &dyn Fn(&str) -> f64| of("read") + of("write");
    Figures {
        iops: both(&|way| number(way, "iops")),
        achieved_depth: both(&|way| number(way, "iops") * mean(way) / 1e9),
        p50_ns: quantile("50.000000"),
        p99_ns: quantile("99.000000"),
        cpu_ns: cpu / both(&|way| number(way, "total_ios")),
    }
}

/// What a child says, and its CPU time with all that it waited for, in nanoseconds.
fn timed(command: &mut Command) -> (String, f64) {
    let before = children();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), children() - before)
}

/// CPU time of all children that are over, in nanoseconds.
fn children() -> f64 {
    // SAFETY: all zeros is a value of it, and it is written to its end.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let nanos = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    nanos(usage.ru_utime) + nanos(usage.ru_stime)
}

fn conditions(arguments: &Arguments) -> Run {
    let fio = Command::new("fio").arg("--version").output().unwrap();
    Run {
        commit: machine::commit(),
        date: machine::date(),
        kernel: machine::kernel(),
        cpu: machine::cpu(),
        cpus: machine::cpus(),
        fio: String::from_utf8_lossy(&fio.stdout).trim().to_owned(),
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        build: machine::build(),
        load: machine::load(),
    }
}

/// Medians over the rounds, and of the ratio of each pair.
fn summary(turns: &[Turn]) {
    println!("{:<34} {:>9} {:>9}  ratio (lowest)  depth      p50    p99    CPU", "cell", "ours", "fio");
    let same = |a: &Turn, b: &Turn| (&a.place, &a.pattern, a.depth) == (&b.place, &b.pattern, b.depth);
    let mut rest = turns;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|turn| same(first, turn)).count();
        let (cell, others) = rest.split_at(count);
        rest = others;
        let of = |fio: bool, what: &dyn Fn(&Figures) -> f64| -> Vec<f64> {
            let mut turns: Vec<&Turn> = cell.iter().filter(|turn| turn.fio == fio).collect();
            turns.sort_by_key(|turn| turn.round);
            turns.iter().map(|turn| what(&turn.figures)).collect()
        };
        let ratio = |what: &dyn Fn(&Figures) -> f64| -> Vec<f64> {
            of(false, what).iter().zip(of(true, what)).map(|(ours, fio)| ours / fio).collect()
        };
        let (iops, lowest) = (ratio(&|f| f.iops), ratio(&|f| f.iops).into_iter().fold(f64::MAX, f64::min));
        println!(
            "{:<34} {:>9.0} {:>9.0}  {:.3} ({lowest:.3})  {:>6.2}  {:>6.3} {:>6.3} {:>6.3}",
            format!("{} {} {} depth {}", first.place, first.block_size, first.pattern, first.depth),
            median(of(false, &|f| f.iops)),
            median(of(true, &|f| f.iops)),
            median(iops),
            median(of(false, &|f| f.achieved_depth)),
            median(ratio(&|f| f.p50_ns)),
            median(ratio(&|f| f.p99_ns)),
            median(ratio(&|f| f.cpu_ns)),
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
