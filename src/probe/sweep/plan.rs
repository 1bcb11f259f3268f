//! What a sweep is to do, and the most that it takes.

use std::ops::AddAssign;
use std::time::Duration;

use super::files::COMMITTER_SIZE;
use super::{Cell, Limits, Load, Pattern, Preset, Stream, WarmUp, Way};
use crate::probe::layout;

/// Cells of one pattern that are climbed in order: each asks more of the disk than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The steps.
    pub cells: Vec<Cell>,
    /// When each ends.
    pub limits: Limits,
    /// The warm-up of all steps but the first, where it differs.
    pub rest_warm_up: Option<WarmUp>,
}

impl Ladder {
    /// Over depths, with one job.
    pub fn over_depths(pattern: Pattern, block_size: u32, depths: &[u16], limits: Limits) -> Self {
        let cell = |depth: &u16| Cell { pattern, block_size, depth: *depth, jobs: 1, method: None };
        Self { cells: depths.iter().map(cell).collect(), limits, rest_warm_up: None }
    }

    /// When its step `at` ends.
    pub fn limits_of(&self, at: usize) -> Limits {
        let warm_up = self.rest_warm_up.filter(|_| at > 0).unwrap_or(self.limits.warm_up);
        Limits { warm_up, ..self.limits }
    }
}

/// A sweep as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its preset, when it is one.
    pub preset: Option<Preset>,
    /// What is climbed, in this order.
    pub ladders: Vec<Ladder>,
    /// How often all of it is done.
    pub rounds: u16,
    /// Whether a ladder stops where another step brings no more.
    pub plateau: bool,
    /// A cell whose mean latency passes this is cut short, and its ladder ends.
    pub ceiling: Option<Duration>,
}

/// The most that something takes, as issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// How long it runs, rests and what is laid out before not counted.
    pub time: Duration,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes and commits.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl AddAssign for Demand {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
    }
}

impl From<Preset> for Plan {
    fn from(preset: Preset) -> Self {
        let row = preset.row();
        Self {
            preset: Some(preset),
            ladders: row.ladders,
            rounds: row.rounds,
            plateau: row.plateau,
            ceiling: Some(Self::CEILING),
        }
    }
}

impl Plan {
    /// Above a mean of half a second nobody learns more from a step, and the disk's other users suffer.
    pub const CEILING: Duration = Duration::from_millis(500);

    /// Without what a block device cannot be asked: writes.
    #[must_use]
    pub fn for_reads_alone(mut self) -> Self {
        self.ladders.iter_mut().for_each(|ladder| ladder.cells.retain(|cell| !cell.pattern.writes()));
        self.ladders.retain(|ladder| !ladder.cells.is_empty());
        self
    }

    /// The most that it takes. `rate` says how many operations and bytes a second the disk is taken to do; a cell that is bounded by
    /// operations or bytes takes no more than these, whatever the rate.
    pub fn demand(&self, rate: (f64, f64)) -> Demand {
        let mut all = Demand::default();
        for ladder in &self.ladders {
            for (at, cell) in ladder.cells.iter().enumerate() {
                (0..self.rounds.max(1)).for_each(|_| all += demand(cell, ladder.limits_of(at), rate));
            }
            // Each has a file, which goes when there is nothing more to commit.
            let committers = ladder.cells.iter().map(Cell::committers).max().unwrap_or(0);
            let files = u64::from(committers) * u64::from(self.rounds.max(1));
            all.writes += files * COMMITTER_SIZE.div_ceil(layout::CHUNK as u64);
            all.written_bytes += files * COMMITTER_SIZE;
        }
        all
    }
}

/// The most that a cell takes: warm-up, what is recorded, and before them, where the pattern is loaded, what is judged alone.
fn demand(cell: &Cell, limits: Limits, rate: (f64, f64)) -> Demand {
    let streams = cell.pattern.streams();
    let mut all = Demand { time: limits.whole(), ..Demand::default() };
    streams.iter().for_each(|stream| all.add(stream, cell, limits, rate));
    if let Some(judged) = streams.first().filter(|_| cell.pattern.loaded()) {
        let quiet = limits.quiet();
        all.time += quiet.whole();
        all.add(judged, cell, quiet, rate);
    }
    all
}

impl Demand {
    /// Adds what a stream of a cell takes at most on a disk that does so many operations and bytes a second.
    fn add(&mut self, stream: &Stream, cell: &Cell, limits: Limits, (iops, throughput): (f64, f64)) {
        let bytes = stream.block_size.unwrap_or(cell.block_size);
        let block = f64::from(bytes);
        let closed = iops.min(throughput / block).max(1.0);
        let (share, rate) = match stream.load {
            Load::Percent(percent) => (f64::from(percent) / 100.0, closed),
            Load::Bursts { operations, every_ms } => {
                (1.0, closed.min(f64::from(operations) * 1000.0 / f64::from(every_ms)))
            }
            Load::Depth | Load::EachJob | Load::Fixed(_) => (1.0, closed),
        };
        let outstanding = f64::from(stream.outstanding(cell));
        let warm_up = match limits.warm_up {
            WarmUp::Time(time) => time.as_secs_f64() * rate * share,
            WarmUp::Completions(each) => f64::from(each) * outstanding,
        };
        let by_time = limits.time.as_secs_f64() * rate;
        let by_operations = limits.operations.map_or(f64::INFINITY, |n| n as f64);
        let by_bytes = limits.bytes.map_or(f64::INFINITY, |n| (n as f64 / block).ceil());
        // What is out when the last of them is back is waited for, and counts at the disk.
        let recorded = by_time.min(by_operations).min(by_bytes) * share + outstanding;
        let operations = (warm_up + recorded).ceil() as u64;
        let (count, moved) = match stream.way {
            Way::Read => (&mut self.reads, &mut self.read_bytes),
            Way::Write | Way::Commit => (&mut self.writes, &mut self.written_bytes),
        };
        *count += operations;
        *moved += operations * u64::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_is_small() {
        let demand = Plan::from(Preset::Nightly).demand((1e6, 1e10));
        // A disk as quick as this ends each cell by operations or bytes.
        assert!(demand.reads + demand.writes < 50_000, "{demand:?}");
        assert!(demand.read_bytes < 3 << 29 && demand.written_bytes < 3 << 29, "{demand:?}");
    }

    /// 4 s of a backup on a disk of 100,000 IOPS and 1 GB/s.
    #[test]
    fn each_stream_is_counted_in_its_own_blocks() {
        let cell = Cell {
            pattern: Pattern::Backup,
            block_size: 1 << 20,
            depth: 2,
            jobs: 1,
            method: Some(crate::probe::Method::Fdatasync),
        };
        let limits = Limits {
            time: Duration::from_secs(4),
            operations: None,
            bytes: None,
            warm_up: WarmUp::Time(Duration::from_secs(1)),
        };
        let ladders = vec![Ladder { cells: vec![cell], limits, rest_warm_up: None }];
        let plan = Plan { preset: None, ladders, rounds: 1, plateau: false, ceiling: None };
        let demand = plan.demand((100_000.0, 1e9));
        // The quiet commits take 1 s more after a quarter of a second.
        assert_eq!(demand.time, Duration::from_millis(6_250));
        let commits = 625_000 + 2;
        assert_eq!((demand.writes, demand.written_bytes), (commits + 16, commits * 4096 + (4 << 20)));
        let reads = (5e9 / f64::from(1 << 20)).ceil() as u64 + 2;
        assert!((reads - 1..=reads).contains(&demand.reads), "{} {reads}", demand.reads);
        assert_eq!(demand.read_bytes, demand.reads << 20);
    }

    #[test]
    fn a_device_is_only_read() {
        let plan = Plan::from(Preset::Full).for_reads_alone();
        assert!(!plan.ladders.is_empty());
        let demand = plan.demand((1000.0, 1e8));
        assert_eq!((demand.writes, demand.written_bytes), (0, 0));
    }
}
