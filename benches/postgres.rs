//! Whether our `postgres` profile takes as long as PostgreSQL: beside `pg_test_fsync` on one disk, and beside pgbench where the
//! disk under `pg_wal` becomes slow.
//!
//! ```text
//! cargo bench --bench postgres -- --output docs/data/postgres.jsonl
//! BLESS=1 cargo test --test performance
//! ```
//!
//! Needs root, `/dev/fuse`, mkfs.ext4, and Debian's `postgresql`. Where others run all the same,
//! `chrt -f 1` before it keeps them from the CPU of all alike; the policy is in the output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot run says so and ends"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to who started it")]
#![allow(clippy::disallowed_methods, reason = "the bench stands outside the house: it opens its own files")]
#![allow(dead_code, unreachable_pub, reason = "a test of the documents uses the rest of what is shared")]

#[path = "support/commits.rs"]
mod commits;
#[path = "../tests/lab/mod.rs"]
mod lab;
#[path = "support/machine.rs"]
mod machine;
#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;

use commits::{Probing, pg_test_fsync};
use lab::{FileSystem, FuseDisk, Mounted, Need, Op, Postgres, Scratch};
use support::postgres as raw;
use support::postgres::{Late, Line, Rested, Run, Sync};

const DISK: u64 = 512 << 20;
/// By how much an fsync is late, in ms.
const DELAYS: [u64; 3] = [0, 5, 20];

/// Transactions a second: about as many as there are with the longest delay.
const RATE: u64 = 45;

#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of pg_test_fsync on each disk, of three seconds each.
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Rounds of pgbench.
    #[arg(long, default_value_t = 8)]
    late_rounds: u32,
    /// Length of a turn of pgbench; ours is half as long.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Where the raw lines go.
    #[arg(long, default_value = "target/postgres.jsonl")]
    output: PathBuf,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let tools = [Need::Tool("losetup"), Need::Tool("mkfs.ext4")];
    if lab::lacks(&[&[Need::Root, Need::Postgres, Need::Fuse][..], &tools].concat()) {
        return;
    }
    let mut lines = vec![Line::Run(conditions(&arguments))];
    // Before anyone is bound to a CPU.
    lines.extend(lates(&arguments));
    let disk = Mounted::new(FileSystem::Ext4, DISK);
    lines.extend(syncs("ext4 on a loop device", disk.path(), arguments.rounds));
    drop(disk);
    let under = Scratch::new();
    lines.extend(syncs("the disk under it", under.path(), arguments.rounds));
    let mut file = fs::File::create(&arguments.output).unwrap();
    for line in &lines {
        writeln!(file, "{}", serde_json::to_string(line).unwrap()).unwrap();
    }
    println!("{}", raw::section(&lines));
}

fn conditions(arguments: &Arguments) -> Run {
    Run {
        commit: machine::commit(),
        date: machine::date(),
        kernel: machine::kernel(),
        cpu: machine::cpu(),
        cpus: machine::cpus(),
        postgres: lab::run(lab::postgres_program("pgbench"), &["--version"]),
        rounds: arguments.rounds,
        late_rounds: arguments.late_rounds,
        seconds: arguments.seconds,
        build: machine::build(),
        policy: machine::policy(),
        load: machine::load(),
    }
}

/// Half of our turn before theirs and half after it, so that a steady drift of the machine touches both alike.
fn syncs(disk: &str, dir: &Path, rounds: u32) -> Vec<Line> {
    const HALF: Duration = Duration::from_millis(500);
    let mut ours = Probing::new(dir);
    let mut round = |round| {
        eprintln!("{disk}: round {} of {rounds}", round + 1);
        machine::bind(machine::cpu_of(round));
        let (workers, begun) = (machine::Workers::look(), Instant::now());
        let before = ours.turn(HALF);
        let theirs = pg_test_fsync(dir);
        let ours = before.and(ours.turn(HALF)).figures();
        let workers_waited = workers.waited_since() as f64 / begun.elapsed().as_nanos() as f64;
        let disk = disk.to_owned();
        Line::Sync(Sync { disk, round, cpu: machine::cpu_of(round), theirs, ours, workers_waited })
    };
    (0..rounds).map(&mut round).collect()
}

fn lates(arguments: &Arguments) -> Vec<Line> {
    let (data, wal) = (Scratch::new(), FuseDisk::new());
    let postgres = Postgres::with_wal(data.path(), Some(wal.path()));
    postgres.prepare_for_pgbench();
    let mut ours = Probing::new(wal.path());
    // The first change of a page after a checkpoint writes the whole page to the WAL: most of those are past then.
    postgres.pgbench_latency(arguments.seconds);
    let mut lines = Vec::new();
    for round in 0..arguments.late_rounds {
        eprintln!("pgbench: round {} of {}", round + 1, arguments.late_rounds);
        for delay in DELAYS {
            wal.delay(Op::Sync, Duration::from_millis(delay));
            let before = wal.count(Op::Sync).operations;
            let (mean, transactions) = postgres.pgbench_latency(arguments.seconds);
            let (pgbench, syncs) = (mean.as_nanos() as f64, wal.count(Op::Sync).operations - before);
            let turn = ours.turn(Duration::from_secs(arguments.seconds) / 2);
            lines.push(Line::Late(Late { round, delay, pgbench, transactions, syncs, ours: turn.figures() }));
        }
        wal.heal(Op::Sync);
        let pgbench = postgres.pgbench_rested_latency(arguments.seconds, RATE).as_nanos() as f64;
        lines.push(Line::Rested(Rested { round, rate: RATE, pgbench }));
    }
    lines
}
