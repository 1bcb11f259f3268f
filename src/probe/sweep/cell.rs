//! One cell: a pattern at one block size, depth and number of jobs, and when it ends.

use std::fmt;
use std::time::Duration;

use super::{Pattern, Way};
use crate::probe::Method;
use crate::units::Bytes;

/// What is measured in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// What is done.
    pub pattern: Pattern,
    /// Bytes of an operation; where a stream of the pattern has a size of its own, that of the stream.
    pub block_size: u32,
    /// Operations that each job keeps outstanding; 1 for commits.
    pub depth: u16,
    /// Threads, or committers.
    pub jobs: u16,
    /// What makes commits durable; `None` where the pattern has none.
    pub method: Option<Method>,
}

impl Cell {
    /// Operations outstanding in all, as configured.
    pub fn outstanding(&self) -> u32 {
        u32::from(self.depth) * u32::from(self.jobs)
    }

    /// How many commit at the same time, each to a file of its own.
    pub fn committers(&self) -> u32 {
        let streams = self.pattern.streams().iter().filter(|stream| stream.way == Way::Commit);
        streams.map(|stream| stream.outstanding(self)).sum()
    }
}

impl fmt::Display for Cell {
    /// As in `4KiB randread, depth 16, 4 jobs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Bytes::new(u64::from(self.block_size)), self.pattern)?;
        if let Some(method) = self.method {
            write!(f, " by {method}")?;
        }
        write!(f, ", depth {}", self.depth)?;
        if self.jobs > 1 { write!(f, ", {} jobs", self.jobs) } else { Ok(()) }
    }
}

/// What is not recorded at the start of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// All of this time.
    Time(Duration),
    /// So many completions for each operation that is outstanding, so that what is recorded began at full depth.
    Completions(u32),
}

/// When a cell ends: at the first of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// After this time, warm-up not counted.
    pub time: Duration,
    /// After so many operations, warm-up not counted.
    pub operations: Option<u64>,
    /// After so many bytes, warm-up not counted.
    pub bytes: Option<u64>,
    /// What is not recorded before.
    pub warm_up: WarmUp,
}

/// The quiet value is taken in this part of a cell's time, and within these ends.
const QUIET_PART: u32 = 4;
const SHORTEST_QUIET: Duration = Duration::from_secs(1);
const LONGEST_QUIET: Duration = Duration::from_secs(10);

impl Limits {
    /// Those of what is judged, alone, before a load comes to it.
    #[must_use]
    pub fn quiet(self) -> Self {
        let time = (self.time / QUIET_PART).clamp(SHORTEST_QUIET.min(self.time), LONGEST_QUIET);
        let warm_up = match self.warm_up {
            WarmUp::Time(warm_up) => WarmUp::Time(warm_up.min(time / 4)),
            counted @ WarmUp::Completions(_) => counted,
        };
        Self { time, warm_up, ..self }
    }

    /// The longest that a cell takes, its warm-up included where that is a time.
    pub fn whole(self) -> Duration {
        match self.warm_up {
            WarmUp::Time(warm_up) => self.time + warm_up,
            WarmUp::Completions(_) => self.time,
        }
    }
}
