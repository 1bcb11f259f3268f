//! What is shown of a target's sweeps: how the last one went, when the next one is, and what the last good one found.

use std::sync::Arc;
use std::time::Duration;

use super::book::{Book, TargetId};
use crate::probe::Cost;
use crate::probe::sweep::Sweep;
use crate::schedule::sweep::Ending;

/// A target's sweeps. Times are wall-clock time since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepView {
    /// The last complete sweep or, while there is none, the last one that was stopped; also from before a restart.
    pub results: Option<Results>,
    /// One is under way.
    pub running: bool,
    /// When the next one is planned; where its slot is open and it may not begin, since when.
    pub next: Option<Duration>,
    /// Why the slot that is open is not used.
    pub waiting: Option<&'static str>,
    /// When the last one began, and how it ended and when; since the daemon's start.
    pub last: Option<Last>,
    /// How many ended in which way, in the order of [`Ending::ALL`].
    pub endings: [u64; Ending::ALL.len()],
    /// Slots that passed unused, by reason.
    pub passed: Vec<(&'static str, u64)>,
    /// The parts of what sweeps may write and read in a day that are left; `None` until it is known where the target lies.
    pub left: Option<[f64; 2]>,
    /// What they have cost.
    pub cost: Cost,
    /// Cells of the present one that may still come.
    pub cells_left: usize,
}

/// The last sweep since the daemon's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Last {
    /// When it began.
    pub began: Duration,
    /// When it ended, and how; `None` while it is under way.
    pub ended: Option<(Duration, Ending)>,
}

/// What a sweep found.
#[derive(Clone, Debug)]
pub struct Results {
    /// All of it.
    pub sweep: Arc<Sweep>,
    /// When it ended.
    pub ended: Duration,
}

impl Results {
    /// Whether cells are missing that others kept from running: it was stopped, or only light cells ran.
    pub fn is_partial(&self) -> bool {
        partial(&self.sweep)
    }
}

/// Whether cells are missing in it that others kept from running.
pub fn partial(sweep: &Sweep) -> bool {
    sweep.stopped.is_some() || sweep.skipped.iter().any(|skipped| skipped.reason == LEFT_OUT)
}

/// The reason of cells that are left out for others' sake.
pub const LEFT_OUT: &str = "guard";

impl PartialEq for Results {
    /// Whether it is the very same sweep.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.sweep, &other.sweep)
    }
}

impl Book {
    /// What is to be shown of the target's sweeps; `None` where there never are any. While one runs, operations count as stalled from ten
    /// seconds on.
    pub fn set_sweeps(&mut self, id: TargetId, sweeps: Option<SweepView>) {
        if self.sweeps(id) == sweeps.as_ref() {
            return;
        }
        if let Some(entry) = self.touch(id) {
            entry.view.sweeps = sweeps;
            entry.view.thresholds = entry.learned();
        }
    }
}
