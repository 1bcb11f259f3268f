//! What the daemon costs: CPU, memory, threads and descriptors with 20 targets on 20 disks, whether it keeps its slots, whether
//! the disks' own counters agree with it, how long a scrape takes, and what the bare operations cost on that machine.
//!
//! ```text
//! cargo bench --bench cost -- --output docs/data/cost.jsonl
//! BLESS=1 cargo test --test performance
//! ```
//!
//! Needs root and mkfs.ext4. It starts the real binary on loop devices of its own. `--seconds 40` is a quick look.

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

#[path = "support/bare.rs"]
mod bare;
#[path = "../tests/lab/mod.rs"]
mod lab;
#[path = "support/machine.rs"]
mod machine;
#[path = "support/output.rs"]
mod output;
#[path = "support/cost.rs"]
mod raw;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;

use lab::{Daemon, FileSystem, Loop, Metrics, Mounted, Running};
use output::Raw;
use raw::{Cost, Line, Run, Scrapes, Threads, Variant};

const MIB: u64 = 1 << 20;
/// Sparse; so large that the read file is within its share of the free space.
const DISK: u64 = 1536 * MIB;
/// As Prometheus does it where nothing else is configured.
const SCRAPE_EVERY: Duration = Duration::from_secs(15);
/// An hour's runs are had in this time at intervals that are a twentieth of the default ones.
const HOUR_IN: Duration = Duration::from_secs(180);
const SCRAPES: usize = 30;
/// After ready, before anything is measured: the reads are open, the first runs are in.
const SETTLE: Duration = Duration::from_secs(10);

#[derive(Debug, Parser)]
struct Arguments {
    /// Length of each measured span.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Disks, and targets on them.
    #[arg(long, default_value_t = 20)]
    targets: usize,
    /// Where the raw lines go.
    #[arg(long, default_value = "target/cost.jsonl")]
    output: PathBuf,
    /// Only the default daemon.
    #[arg(long)]
    brief: bool,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    if lab::lacks(&[lab::Need::Root, lab::Need::Tool("losetup"), lab::Need::Tool("mkfs.ext4")]) {
        return;
    }
    let mut raw = Raw::create(&arguments.output);
    raw.put(Line::Run(conditions()));
    let disks: Vec<Mounted> = (0..arguments.targets)
        .map(|_| Mounted::on(FileSystem::Ext4, Loop::new(DISK), &["-N", "4096"], ""))
        .collect();
    println!("{} disks are made", disks.len());
    // The first daemon lays out all files; those that follow find them.
    let span = Duration::from_secs(arguments.seconds);
    raw.put(Line::Bare(bare::measure(&disks, span / 3)));
    measure(&mut raw, &disks, Variant::Default, span);
    raw.put(Line::Bare(bare::measure(&disks, span / 3)));
    if !arguments.brief {
        measure(&mut raw, &disks, Variant::Threads, span);
        for targets in [1, 5, 10, 20].into_iter().filter(|n| *n <= disks.len()) {
            let daemon = start(&disks[..targets], Variant::Default);
            std::thread::sleep(SETTLE);
            raw.put(Line::Scrapes(scrapes(&daemon, targets, SETTLE)));
        }
        measure(&mut raw, &disks, Variant::Hour, HOUR_IN);
    }
    println!("{}", raw::section("Cost", "", &raw.lines));
}

fn conditions() -> Run {
    Run {
        commit: machine::commit(),
        date: machine::date(),
        kernel: machine::kernel(),
        cpu: machine::cpu(),
        cpus: machine::cpus(),
        build: machine::build(),
        load: machine::load(),
    }
}

fn start(disks: &[Mounted], variant: Variant) -> Running {
    let mut config = "targets:\n".to_owned();
    let (commit, read, engine) = match variant {
        Variant::Default => ("2s", "30s", "auto"),
        Variant::Threads => ("2s", "30s", "threads"),
        Variant::Hour => ("100ms", "1500ms", "auto"),
    };
    for (at, disk) in disks.iter().enumerate() {
        config += &format!(
            "  - name: disk{at}\n    path: {}\n    engine: {engine}\n    commit: {{interval: {commit}}}\n    \
             read: {{interval: {read}, file_size: 64MiB}}\n",
            disk.path().display()
        );
    }
    let daemon = Daemon::new().config(&config).start();
    lab::eventually_within(Duration::from_secs(300), "all targets are ready", || {
        daemon.scrape().sum("diskcanary_target_state", &[("state", "ready")]) >= disks.len() as f64
    });
    daemon
}

/// What the kernel and the daemon say at one moment.
struct Look {
    at: Instant,
    cpu: f64,
    rss: u64,
    threads: usize,
    descriptors: usize,
    by_thread: BTreeMap<String, Threads>,
    disks: Vec<Vec<u64>>,
    metrics: Metrics,
}

impl Look {
    /// Waits for a moment in which no read is on its way: then what the kernel has counted, the books have too.
    fn at_rest(daemon: &Running, disks: &[Mounted]) -> Self {
        let reads = |look: &Self| -> Vec<u64> { look.disks.iter().map(|disk| disk[0]).collect() };
        let mut last = Self::take(daemon, disks);
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let next = Self::take(daemon, disks);
            if reads(&last) == reads(&next) {
                return next;
            }
            last = next;
        }
    }

    fn take(daemon: &Running, disks: &[Mounted]) -> Self {
        let counters = disks.iter().map(|disk| disk.disk().counters()).collect();
        let metrics = daemon.scrape();
        let pid = daemon.pid();
        let (cpu, rss) = (cpu_seconds(pid), rss(pid));
        let (by_thread, threads) = threads(pid);
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        Self { at: Instant::now(), cpu, rss, threads, descriptors, by_thread, disks: counters, metrics }
    }

    fn operations(&self, at: usize, op: &str) -> u64 {
        let name = format!("disk{at}");
        self.metrics.sum("diskcanary_probe_operations_total", &[("target", &name), ("op", op)]) as u64
    }
}

fn measure(raw: &mut Raw<Line>, disks: &[Mounted], variant: Variant, span: Duration) {
    let daemon = start(disks, variant);
    std::thread::sleep(SETTLE);
    let before = Look::at_rest(&daemon, disks);
    let mut most = before.rss;
    while before.at.elapsed() < span {
        std::thread::sleep(SCRAPE_EVERY.min(span.saturating_sub(before.at.elapsed())));
        daemon.scrape();
        most = most.max(rss(daemon.pid()));
    }
    let after = Look::at_rest(&daemon, disks);
    raw.put(Line::Cost(cost(variant, &before, &after, most)));
    raw.put(Line::Scrapes(scrapes(&daemon, disks.len(), SETTLE + span)));
}

fn cost(variant: Variant, before: &Look, after: &Look, most: u64) -> Cost {
    let targets = before.disks.len();
    let slots = |name: &str| (after.metrics.sum(name, &[]) - before.metrics.sum(name, &[])) as u64;
    let ours = |op| (0..targets).map(move |at| after.operations(at, op) - before.operations(at, op));
    let theirs = |field: usize| (0..targets).map(move |at| after.disks[at][field] - before.disks[at][field]);
    let written = |look: &Look| look.metrics.sum("diskcanary_probe_bytes_total", &[("op", "write")]) as u64;
    let none = |name: &str| Threads { name: name.to_owned(), count: 0, cpu_seconds: 0.0, sleeps: 0 };
    let since = |(name, now): (&String, &Threads)| {
        let was = before.by_thread.get(name).cloned().unwrap_or_else(|| none(name));
        let cpu_seconds = now.cpu_seconds - was.cpu_seconds;
        Threads { cpu_seconds, sleeps: now.sleeps.saturating_sub(was.sleeps), ..now.clone() }
    };
    Cost {
        variant,
        targets,
        seconds: (after.at - before.at).as_secs_f64(),
        cpu_seconds: after.cpu - before.cpu,
        by_thread: after.by_thread.iter().map(since).collect(),
        rss_start: before.rss,
        rss_end: after.rss,
        rss_most: most.max(after.rss),
        threads_start: before.threads,
        threads_end: after.threads,
        descriptors_start: before.descriptors,
        descriptors_end: after.descriptors,
        slots_run: slots("diskcanary_probe_runs_total"),
        slots_skipped: slots("diskcanary_probe_skipped_total"),
        slots_missed: slots("diskcanary_probe_missed_total"),
        reads: ours("read").sum(),
        kernel_reads: theirs(0).sum(),
        reads_differ: ours("read").zip(theirs(0)).filter(|(ours, theirs)| ours != theirs).count(),
        writes: ours("write").sum(),
        kernel_writes: theirs(4).sum(),
        written_bytes: written(after) - written(before),
        kernel_written_bytes: theirs(6).sum::<u64>() * 512,
    }
}

fn scrapes(daemon: &Running, targets: usize, age: Duration) -> Scrapes {
    let on_cpu = || threads(daemon.pid()).0.values().map(|t| t.cpu_seconds).sum::<f64>();
    let before = on_cpu();
    let mut took = Vec::new();
    let mut last = String::new();
    for _ in 0..SCRAPES {
        let began = Instant::now();
        let answer = daemon.get("/metrics");
        took.push(began.elapsed().as_secs_f64() * 1e6);
        last = answer.text();
        std::thread::sleep(Duration::from_millis(20));
    }
    let cpu_micros = (on_cpu() - before) / SCRAPES as f64 * 1e6;
    took.sort_by(f64::total_cmp);
    Scrapes {
        targets,
        age_seconds: age.as_secs_f64(),
        scrapes: SCRAPES,
        bytes: last.len(),
        series: last.lines().filter(|line| !line.starts_with('#')).count(),
        least_micros: took[0],
        median_micros: took[SCRAPES / 2],
        cpu_micros,
    }
}

/// Fields 14 and 15 of `stat`, in hundredths of a second.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = read(&format!("/proc/{pid}/stat"));
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn rss(pid: u32) -> u64 {
    status(&read(&format!("/proc/{pid}/status")), "VmRSS:") * 1024
}

fn status(text: &str, name: &str) -> u64 {
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} {text}"));
    value.split_whitespace().next().unwrap().parse().unwrap()
}

/// All threads by their names, and how many there are. One that ends meanwhile is left out.
fn threads(pid: u32) -> (BTreeMap<String, Threads>, usize) {
    let (mut by_name, mut all) = (BTreeMap::new(), 0);
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let file = |name: &str| fs::read_to_string(task.path().join(name));
        let (Ok(comm), Ok(sched), Ok(text)) = (file("comm"), file("schedstat"), file("status")) else {
            continue;
        };
        let name = comm.trim().trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned();
        let nanos: f64 = sched.split(' ').next().unwrap().parse().unwrap();
        let entry = Threads { name: name.clone(), count: 0, cpu_seconds: 0.0, sleeps: 0 };
        let threads = by_name.entry(name).or_insert(entry);
        threads.count += 1;
        threads.cpu_seconds += nanos / 1e9;
        threads.sleeps += status(&text, "voluntary_ctxt_switches:");
        all += 1;
    }
    (by_name, all)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
