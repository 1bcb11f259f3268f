//! The two that commit in turns: the commit probe itself with its `postgres` profile, and PostgreSQL's `pg_test_fsync`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskcanary::clock;
use diskcanary::io::Inflight;
use diskcanary::probe::commit::CommitProbe;
use diskcanary::probe::heartbeat::{self, Heartbeat};
use diskcanary::probe::home::Home;
use diskcanary::probe::layout::{Layout, Progress, Role, Wish};
use diskcanary::probe::{CommitSample, Cost, Profile};
use diskcanary::units::Bytes;
use rustix::process::{Pid, Signal, kill_process};

use super::lab;
use super::support::postgres::Ours;

/// One segment of the profile, and the head before it.
const FILE: u64 = (16 << 20) + 8192;
/// Commits of one run, back to back. Their bytes are made before it.
const COMMITS: usize = 16;

/// The probe on a file that is laid out, and the ticker that it needs.
pub struct Probing {
    probe: CommitProbe,
    inflight: Inflight,
    heart: Arc<Heartbeat>,
    over: Arc<AtomicBool>,
    ticker: Option<JoinHandle<()>>,
    /// Holds the lock.
    _home: Home,
}

impl Probing {
    /// Lays the file out in this directory.
    pub fn new(dir: &Path) -> Self {
        let inflight = Inflight::default();
        let home = Home::open(&dir.canonicalize().unwrap(), &inflight, clock::now()).unwrap();
        let wish = Wish { size: Bytes::new(FILE), reserve: Some(Bytes::new(0)) };
        let mut layout =
            Layout::begin(&home, Role::Commits, wish, fastrand::Rng::new(), &mut Cost::default()).unwrap();
        let head = loop {
            let step = layout.step(&home, clock::now(), &inflight, &mut Cost::default()).unwrap();
            if let Progress::Done(head, _) = step {
                break head;
            }
        };
        let row = Profile::Postgres.row();
        let probe =
            CommitProbe::open(&home, head, row, None, COMMITS, fastrand::Rng::new(), &mut Cost::default())
                .unwrap();
        let heart = Arc::new(Heartbeat::new(clock::now()));
        let over = Arc::new(AtomicBool::new(false));
        let ticker = thread::spawn({
            let (heart, over) = (Arc::clone(&heart), Arc::clone(&over));
            move || {
                while !over.load(Relaxed) {
                    heart.beat(clock::now());
                    thread::sleep(heartbeat::PERIOD);
                }
            }
        });
        Self { probe, inflight, heart, over, ticker: Some(ticker), _home: home }
    }

    /// Commits back to back for so long.
    pub fn turn(&mut self, length: Duration) -> Turn {
        let mut turn = Turn::default();
        let begun = clock::now();
        while clock::now() < begun + length {
            let now = clock::now();
            let outcome = self.probe.run(now, now, &self.inflight, &self.heart);
            assert_eq!(outcome.result, Ok(()));
            turn.commits += COMMITS;
            turn.samples.extend(outcome.commits);
        }
        turn.nanos = clock::now().nanos_since(begun);
        turn
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

/// Commits back to back.
#[derive(Debug, Default)]
pub struct Turn {
    nanos: u64,
    commits: usize,
    samples: Vec<CommitSample>,
}

impl Turn {
    /// Both turns as one.
    pub fn and(mut self, other: Self) -> Self {
        self.nanos += other.nanos;
        self.commits += other.commits;
        self.samples.extend(other.samples);
        self
    }

    /// Its figures.
    pub fn figures(&self) -> Ours {
        let sorted = |of: fn(&CommitSample) -> u64| {
            let mut values: Vec<u64> = self.samples.iter().map(of).collect();
            values.sort_unstable();
            values
        };
        let median = |values: Vec<u64>| values[(values.len() - 1) / 2];
        let sum: u64 = self.samples.iter().map(|s| s.commit).sum();
        Ours {
            commits: self.commits,
            starved: self.commits - self.samples.len(),
            wall_mean: self.nanos as f64 / self.commits as f64,
            mean: sum as f64 / self.samples.len() as f64,
            write_p50: median(sorted(|s| s.write)),
            sync_p50: median(sorted(|s| s.sync.unwrap_or(0))),
            commit_p50: median(sorted(|s| s.commit)),
        }
    }
}

/// Mean time of a write of 8 KiB and an fdatasync, in nanoseconds, as `pg_test_fsync` tells it after a second of them. It is
/// ended, and removes its file, once it has told that.
pub fn pg_test_fsync(dir: &Path) -> f64 {
    let mut command = Command::new(lab::postgres_program("pg_test_fsync"));
    command
        .args(["-s", "1", "-f"])
        .arg(dir.join("pg_test_fsync"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    lab::dies_with_us(&mut command);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rate = lines.find_map(|line| {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["fdatasync", rate, "ops/sec", ..] => Some(rate.parse::<f64>().unwrap()),
            _ => None,
        }
    });
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let _ = child.wait();
    1e9 / rate.expect("a line on fdatasync")
}
