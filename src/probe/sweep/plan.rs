//! What a sweep is to do, and the most that it takes.

use std::ops::AddAssign;
use std::time::Duration;

use super::{Cell, Limits, Load, Pattern, Preset, WarmUp, Way};

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
    /// Seconds, rests not counted.
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
        }
        all
    }
}

/// The most that a cell takes, its warm-up included.
fn demand(cell: &Cell, limits: Limits, (iops, throughput): (f64, f64)) -> Demand {
    let block = f64::from(cell.block_size);
    let rate = iops.min(throughput / block).max(1.0);
    let warm_up = match limits.warm_up {
        WarmUp::Time(time) => time.as_secs_f64() * rate,
        WarmUp::Completions(each) => f64::from(each * cell.outstanding()),
    };
    let by_time = limits.time.as_secs_f64() * rate;
    let by_operations = limits.operations.map_or(f64::INFINITY, |n| n as f64);
    let by_bytes = limits.bytes.map_or(f64::INFINITY, |n| (n as f64 / block).ceil());
    // What is out when the last of them is back is waited for, and counts at the disk.
    let operations = by_time.min(by_operations).min(by_bytes) + warm_up + f64::from(cell.outstanding());
    let warm_up_time = if let WarmUp::Time(time) = limits.warm_up { time } else { Duration::ZERO };
    let share = |way: Way| -> f64 {
        let streams = cell.pattern.streams();
        let one = |load| match load {
            Load::Percent(percent) => f64::from(percent) / 100.0,
            _ => 1.0,
        };
        streams.iter().filter(|s| s.way == way).map(|s| one(s.load)).sum::<f64>().min(1.0)
    };
    let (reads, writes) =
        (operations * share(Way::Read), operations * (share(Way::Write) + share(Way::Commit)));
    Demand {
        time: limits.time + warm_up_time,
        reads: reads.ceil() as u64,
        read_bytes: (reads * block).ceil() as u64,
        writes: writes.ceil() as u64,
        written_bytes: (writes * block).ceil() as u64,
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

    #[test]
    fn a_device_is_only_read() {
        let plan = Plan::from(Preset::Full).for_reads_alone();
        assert!(!plan.ladders.is_empty());
        let demand = plan.demand((1000.0, 1e8));
        assert_eq!((demand.writes, demand.written_bytes), (0, 0));
    }
}
