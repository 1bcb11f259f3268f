//! How long `/metrics` takes to be answered, ten times a second, with 20 targets of which one hangs, on a quiet machine and on one
//! where more programs want a CPU than there are.
//!
//! ```text
//! cargo bench --bench scrape -- --output docs/data/scrape.jsonl
//! BLESS=1 cargo test --test performance
//! ```
//!
//! Needs root, `/dev/fuse` and mkfs.ext4. `--seconds 5` is a quick look.

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
#[path = "support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use clap::Parser;

use lab::{Daemon, FileSystem, FuseDisk, Mounted, Need, Op, Running};
use support::cost::Run;
use support::scrape::{Answers, Line, quantile, section};

const TARGETS: usize = 20;
/// Sparse; so large that each read file is within its share of the free space.
const DISK: u64 = 4 << 30;
const EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Parser)]
struct Arguments {
    /// Length of each series of scrapes.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Where the raw lines go.
    #[arg(long, default_value = "target/scrape.jsonl")]
    output: PathBuf,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let tools = [Need::Tool("losetup"), Need::Tool("mkfs.ext4")];
    if lab::lacks(&[&[Need::Root, Need::Fuse][..], &tools].concat()) {
        return;
    }
    let mut lines = vec![Line::Run(conditions())];
    let (good, stuck) = (Mounted::new(FileSystem::Ext4, DISK), FuseDisk::new());
    let daemon = start(&good, &stuck);
    let hang = stuck.hang(&[Op::Read, Op::Write, Op::Sync, Op::Open]);
    lab::eventually_within(Duration::from_secs(60), "a target is stalled", || {
        daemon.scrape().sum("diskcanary_target_state", &[("state", "stalled")]) == 1.0
    });
    for busy in [0, 2 * machine::cpus()] {
        let others = Others::start(busy);
        lines.push(Line::Answers(scrapes(&daemon, busy, Duration::from_secs(arguments.seconds))));
        drop(others);
    }
    drop(hang);
    let mut file = fs::File::create(&arguments.output).unwrap();
    for line in &lines {
        writeln!(file, "{}", serde_json::to_string(line).unwrap()).unwrap();
    }
    println!("{}", section(&[], &lines));
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

/// All but one of the targets are directories of one disk.
fn start(good: &Mounted, stuck: &FuseDisk) -> Running {
    let directory = |n: usize| {
        let path = good.path().join(format!("d{n}"));
        fs::create_dir(&path).unwrap();
        path
    };
    let paths = (1..TARGETS).map(directory).chain([stuck.path().to_owned()]);
    let mut config = String::from("targets:\n");
    for (n, path) in paths.enumerate() {
        let path = path.display();
        let _ = writeln!(
            config,
            "  - {{name: t{n}, path: {path}, commit: {{file_size: 4MiB}}, read: {{file_size: 64MiB}}}}"
        );
    }
    let daemon = Daemon::new().config(&config).start();
    lab::eventually_within(Duration::from_secs(300), "all targets are ready", || {
        daemon.scrape().sum("diskcanary_target_state", &[("state", "ready")]) == TARGETS as f64
    });
    daemon
}

fn scrapes(daemon: &Running, busy: usize, length: Duration) -> Answers {
    let (mut took, mut bytes) = (Vec::new(), 0);
    let began = Instant::now();
    while began.elapsed() < length {
        let start = Instant::now();
        bytes = daemon.get("/metrics").body.len();
        took.push(start.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(EVERY.saturating_sub(start.elapsed()));
    }
    took.sort_by(f64::total_cmp);
    Answers {
        targets: TARGETS,
        hung: 1,
        busy,
        every: EVERY.as_millis() as u64,
        scrapes: took.len(),
        bytes,
        p50: quantile(&took, 0.5),
        p99: quantile(&took, 0.99),
        most: quantile(&took, 1.0),
    }
}

/// Programs that want a CPU all the time.
struct Others(Vec<Child>);

impl Others {
    fn start(count: usize) -> Self {
        let other = |_| {
            let mut command = Command::new("sh");
            lab::dies_with_us(command.args(["-c", "while :; do :; done"]));
            command.spawn().unwrap()
        };
        Self((0..count).map(other).collect())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for other in &mut self.0 {
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}
