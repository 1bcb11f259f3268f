//! The kinds of work that a target has, and what it is done with.

use std::time::Duration;

use crate::clock::Tick;
use crate::probe::Probe;
use crate::record::Book;
use crate::schedule::{Direction, Planner, TaskId};

/// What a task of the planner stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Prepare,
    Layout,
    Commit,
    Open,
    Read,
    /// All that the sweeping lane does. Its task comes with the first sweep, so it is not among the others.
    Sweep,
}

impl Work {
    pub(super) const ALL: [Self; 5] = [Self::Prepare, Self::Layout, Self::Commit, Self::Open, Self::Read];

    /// The lane that does it.
    pub(super) fn direction(self) -> Direction {
        match self {
            Self::Prepare | Self::Layout | Self::Commit => Direction::Write,
            Self::Open | Self::Read => Direction::Read,
            Self::Sweep => Direction::Sweep,
        }
    }
}

/// What fell, and is to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fell {
    Whole,
    Commit,
    Read,
}

impl Fell {
    pub(super) fn of(probe: Probe) -> Self {
        match probe {
            Probe::Commit => Self::Commit,
            Probe::Read => Self::Read,
        }
    }
}

/// The tasks by [`Work`].
pub(super) type Tasks = [TaskId; Work::ALL.len()];

/// The planner and the books, to be told.
pub(super) struct Desk<'a> {
    pub(super) planner: &'a mut Planner,
    pub(super) book: &'a mut Book,
    pub(super) now: Tick,
    pub(super) wall: Duration,
}
