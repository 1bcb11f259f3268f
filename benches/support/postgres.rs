//! What a run beside PostgreSQL leaves behind, JSON lines, and the section of docs/performance.md that is made from them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::claim::{Claim, Unit};
use super::tables::{claim_table, spread};

/// One line of the raw output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line: what was run where.
    Run(Run),
    /// A turn of `pg_test_fsync` and the two of ours around it.
    Sync(Sync),
    /// A turn of pgbench and one of ours on a disk whose fsync is late.
    Late(Late),
    /// A turn of pgbench without delay, with a rest before each transaction.
    Rested(Rested),
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
    /// Model of the CPU.
    pub cpu: String,
    /// How many of them.
    pub cpus: usize,
    /// As pgbench tells it.
    pub postgres: String,
    /// Rounds of `pg_test_fsync` on each disk.
    pub rounds: u32,
    /// Rounds of pgbench.
    pub late_rounds: u32,
    /// Length of a turn of pgbench.
    pub seconds: u64,
    /// `release`, or `dev` where the compiler's checks were on.
    pub build: String,
    /// How all were scheduled: `SCHED_OTHER`, `SCHED_FIFO`, …
    pub policy: String,
    /// Processes that wanted to run, mean of the minute before.
    pub load: f64,
}

/// Commits of our `postgres` profile, back to back, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ours {
    /// How many.
    pub commits: usize,
    /// Of them, those that the probe left out because we were waiting for a CPU more than for the disk.
    pub starved: usize,
    /// The turn's length divided by its commits: those left out and all between the commits are in it.
    pub wall_mean: f64,
    /// Mean of the samples.
    pub mean: f64,
    /// Median of the write.
    pub write_p50: u64,
    /// Median of the fdatasync.
    pub sync_p50: u64,
    /// Median of both together.
    pub commit_p50: u64,
}

/// A turn of `pg_test_fsync` and the two of ours around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sync {
    /// Which disk.
    pub disk: String,
    /// Which round, from 0.
    pub round: u32,
    /// To which CPU both were bound.
    pub cpu: usize,
    /// Mean of `pg_test_fsync`, in nanoseconds.
    pub theirs: f64,
    /// Both turns as one.
    pub ours: Ours,
    /// How long workers of the kernel waited for a CPU meanwhile, as a share of the round.
    pub workers_waited: f64,
}

/// A turn of pgbench and one of ours on a disk whose fsync is late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// Which round, from 0.
    pub round: u32,
    /// By how much an fsync is late, in ms.
    pub delay: u64,
    /// Mean latency of a transaction, in nanoseconds.
    pub pgbench: f64,
    /// How many.
    pub transactions: u64,
    /// Calls of fsync and fdatasync that reached the disk meanwhile.
    pub syncs: u64,
    /// Ours.
    pub ours: Ours,
}

/// A turn of pgbench without delay, with a rest before each transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rested {
    /// Which round, from 0.
    pub round: u32,
    /// Transactions a second.
    pub rate: u64,
    /// Mean latency of a transaction from the moment that it was sent, in nanoseconds.
    pub pgbench: f64,
}

/// The lines of a raw file.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let line = |(i, text)| serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1));
    text.lines().enumerate().filter(|(_, text)| !text.is_empty()).map(line).collect()
}

/// The section on PostgreSQL.
pub fn section(lines: &[Line]) -> String {
    let mut text = String::from("## Beside PostgreSQL\n\n");
    let (mut syncs, mut lates, mut rested) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        match line {
            Line::Run(run) => conditions(&mut text, run),
            Line::Sync(sync) => syncs.push(sync),
            Line::Late(late) => lates.push(late),
            Line::Rested(turn) => rested.push(turn),
        }
    }
    sync_part(&mut text, &syncs);
    late_part(&mut text, &lates);
    rested_part(&mut text, &rested);
    text
}

fn conditions(text: &mut String, run: &Run) {
    let Run { commit, date, kernel, cpu, cpus, postgres, rounds, late_rounds, seconds, build, policy, load } =
        run;
    let _ = writeln!(
        text,
        "`cargo bench --bench postgres -- --rounds {rounds} --late-rounds {late_rounds} --seconds {seconds} --output \
         docs/data/postgres.jsonl`: commit {commit} ({build} build), {date}, Linux {kernel}, {cpus} × {cpu}, {postgres}, all \
         {policy}, load average {load} before. Figures are medians over the rounds, with the quartiles in brackets, in µs; \
         claims are judged as above."
    );
}

fn sync_part(text: &mut String, syncs: &[&Sync]) {
    text.push_str(
        "\n### pg_test_fsync\n\n\
         `pg_test_fsync -s 1` has no quantile to tell, only the mean over a second of *write of 8 kB, then fdatasync*, back to \
         back: the length of the loop divided by its turns. The claim compares it with the mean of our commits, write and \
         fdatasync, of the `postgres` profile, back to back, half a second of them before it and half a second after it, on the \
         same CPU. It writes the first 8 kB of a 16 MiB file over and over, we walk through one. Our mean lacks the commits that \
         the probe leaves out as starved; *turn* has them, and all that we do between two commits: the turn's length divided by \
         its commits. A loop device does its work in workers of the kernel: while they wait for a CPU behind others of this \
         machine, a flush takes as long as that, whoever asked for it; *workers waited* is for how much of the rounds they did.\n\n\
         | disk | who | commits | mean | turn | write p50 | sync p50 | commit p50 | starved | workers waited |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut claims = Vec::new();
    let mut disks: Vec<&str> = syncs.iter().map(|s| s.disk.as_str()).collect();
    disks.dedup();
    for disk in disks {
        let turns: Vec<&Sync> = syncs.iter().copied().filter(|s| s.disk == disk).collect();
        let of = |of: fn(&Sync) -> f64| spread(turns.iter().map(|t| of(t)));
        let _ = writeln!(text, "| {disk} | pg_test_fsync | | {} | | | | | | |", of(|t| t.theirs));
        let _ = writeln!(
            text,
            "| {disk} | diskcanary | {} | {} | {} | {} | {} | {} | {} | {:.0} % |",
            turns.iter().map(|t| t.ours.commits).sum::<usize>(),
            of(|t| t.ours.mean),
            of(|t| t.ours.wall_mean),
            of(|t| t.ours.write_p50 as f64),
            of(|t| t.ours.sync_p50 as f64),
            of(|t| t.ours.commit_p50 as f64),
            turns.iter().map(|t| t.ours.starved).sum::<usize>(),
            100.0 * turns.iter().map(|t| t.workers_waited).sum::<f64>() / turns.len() as f64,
        );
        claims.push(Claim {
            text: format!("our mean divided by that of pg_test_fsync, {disk}"),
            unit: Unit::Ratio,
            values: turns.iter().map(|t| t.ours.mean / t.theirs).collect(),
            within: (0.8, 1.2),
        });
    }
    claim_table(text, &claims);
}

fn late_part(text: &mut String, lates: &[&Late]) {
    text.push_str(
        "\n### pgbench\n\n\
         `pgbench -c 1 -N`, whose transaction commits once, on a server with `pg_wal` on a FUSE disk where each fsync and \
         fdatasync is late by a given time, and our `postgres` profile on that same disk, turn by turn. The server is \
         Debian's as it comes, but for checkpoints and autovacuum, which are kept out of the turns. A rise is the difference \
         to the turn without delay in the same round. What the timer adds to the delay, it adds for both.\n\n\
         | fsync late by | pgbench, mean | syncs a transaction | our commit p50 | our commit mean | rise of pgbench | rise of our p50 |\n\
         |--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut delays: Vec<u64> = lates.iter().map(|l| l.delay).collect();
    delays.sort_unstable();
    delays.dedup();
    let mut claims = Vec::new();
    for delay in delays {
        let turns: Vec<&Late> = lates.iter().copied().filter(|l| l.delay == delay).collect();
        let rises: Vec<(f64, f64)> = turns.iter().filter_map(|turn| rise(lates, turn)).collect();
        let _ = writeln!(
            text,
            "| {delay} ms | {} | {:.3} | {} | {} | {} | {} |",
            spread(turns.iter().map(|t| t.pgbench)),
            turns.iter().map(|t| t.syncs).sum::<u64>() as f64
                / turns.iter().map(|t| t.transactions).sum::<u64>() as f64,
            spread(turns.iter().map(|t| t.ours.commit_p50 as f64)),
            spread(turns.iter().map(|t| t.ours.mean)),
            spread(rises.iter().map(|r| r.0)),
            spread(rises.iter().map(|r| r.1)),
        );
        if delay > 0 {
            claims.push(Claim {
                text: format!("rise of pgbench's mean divided by that of our p50, {delay} ms"),
                unit: Unit::Ratio,
                values: rises.iter().map(|(theirs, ours)| theirs / ours).collect(),
                within: (0.9, 1.1),
            });
        }
    }
    claim_table(text, &claims);
}

/// What is left of a difference, where each transaction has one sync.
fn rested_part(text: &mut String, rested: &[&Rested]) {
    let Some(Rested { rate, .. }) = rested.first() else { return };
    let _ = writeln!(
        text,
        "\nPostgreSQL rises by a little more than a commit does. With about one sync to a transaction, that is not the disk: a \
         transaction after a rest takes longer than one in a row. At {rate} a second without any delay (`-R {rate}`) its mean from \
         the moment that it was sent is {} µs.",
        spread(rested.iter().map(|turn| turn.pgbench)),
    );
}

/// Of pgbench and of our p50 over the turn without delay in the same round; none for that turn itself.
fn rise(lates: &[&Late], turn: &Late) -> Option<(f64, f64)> {
    let still = lates.iter().find(|l| l.round == turn.round && l.delay == 0 && turn.delay > 0)?;
    let ours = turn.ours.commit_p50 as f64 - still.ours.commit_p50 as f64;
    Some((turn.pgbench - still.pgbench, ours))
}
