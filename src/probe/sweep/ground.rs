//! Where a sweep is done, and what comes of opening it and of each cell.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Cell, CellResult, Skipped, Watch};
use crate::io::{EngineKind, Reason};
use crate::probe::layout::Head;
use crate::probe::{Cost, Trouble};
use crate::sys::Direct;
use crate::units::Bytes;

/// What is swept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A read file that is laid out. Its blocks stay valid for the read probe, whatever is written.
    File {
        /// Our directory.
        home: PathBuf,
        /// The file's head.
        head: Head,
    },
    /// The block device that the target's path is. It is only read.
    Device,
}

/// A sweep's place, and what it may take.
#[derive(Clone, Debug)]
pub struct SweepGround {
    /// What is swept.
    pub place: Place,
    /// How many bytes are worked on; `None`: all of the read file, or of the device. More than the read file has: a file of its own
    /// is laid out, at most half of the free space, and removed when the sweep is closed.
    pub file_size: Option<Bytes>,
    /// What the buffers of a cell may take together.
    pub memory: Bytes,
    /// Shared with whoever waits.
    pub watch: Arc<Watch>,
}

/// What the buffers of a sweep may take, unless something else is asked for.
pub const MEMORY: Bytes = Bytes::mib(96);

/// A sweep is ready to run cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepReady {
    /// Bytes that are worked on.
    pub file_size: u64,
    /// Which engine keeps the depth.
    pub engine: EngineKind,
    /// Why this one.
    pub reason: Reason,
    /// Whether direct I/O is asked for.
    pub direct: Direct,
    /// The least block size that the disk takes; all others are multiples of it.
    pub block: u32,
}

/// What came of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellReport {
    /// Which one.
    pub cell: Cell,
    /// What was measured, or why nothing was.
    pub outcome: Result<CellResult, Left>,
    /// What it cost, its warm-up and preparations included.
    pub cost: Cost,
}

/// Why a cell has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was not run, or not far enough to have one.
    Skipped(Skipped),
    /// The disk or the file failed.
    Failed(Trouble),
}

impl Cell {
    /// As skipped, for `reason`, which `message` says in a sentence.
    pub fn skipped(&self, reason: &str, message: impl Into<String>) -> Skipped {
        Skipped {
            pattern: self.pattern,
            block_size: self.block_size,
            depth: self.depth,
            jobs: self.jobs,
            method: self.method,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}
