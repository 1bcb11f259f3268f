//! Engines: how an operation reaches the kernel and comes back, timed from before submit to after reap.
//!
//! Invariant: a buffer that the kernel may still write is never handed out, reused or freed, whatever happens:
//! an operation that never returns keeps its memory for the life of the process.

mod blocking;
mod choice;
mod closed_loop;
mod durable;
mod fake;
mod inflight;
mod threads;
mod uring;

pub use choice::{Opened, Reason, Wait, Wish, open, open_within};
pub use closed_loop::{Burst, BurstResult, single};
pub use durable::{Committed, Durability, commit, fetch};
pub use fake::{Fake, Gate, Script, Step};
pub use inflight::{Inflight, Op};

use std::fmt;

use crate::clock::Tick;
use crate::sys::{Device, Errno, File};

/// What an engine works on. Writing to a device is refused before it reaches the kernel, which would refuse it too.
#[derive(Debug)]
pub enum Source {
    /// A regular file of ours.
    File(File),
    /// A block device, open for reading only.
    Device(Device),
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the disk.
    Read,
    /// To the disk; files only.
    Write,
}

/// One operation. Its buffer is the slot's: slots are numbered from 0 to depth − 1, each with a buffer of the
/// engine's block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which way.
    pub direction: Direction,
    /// Whose buffer.
    pub slot: u16,
    /// Where, in bytes.
    pub offset: u64,
    /// How many bytes, at most the engine's block size.
    pub len: u32,
}

impl Request {
    /// What an engine refuses before the kernel sees it.
    fn check(self, depth: u16, block: u32, writable: bool) -> Result<(), Errno> {
        if self.slot >= depth || self.len > block {
            return Err(Errno::EINVAL);
        }
        if self.direction == Direction::Write && !writable {
            return Err(Errno::EBADF);
        }
        Ok(())
    }

    /// The completion of a request that never reached the kernel.
    fn refused(self, now: Tick, errno: Errno) -> Completion {
        Completion { slot: self.slot, submitted: now, completed: now, result: Err(errno), retries: 0 }
    }
}

/// An operation that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whose buffer is free again.
    pub slot: u16,
    /// When it was first handed to the kernel; a resubmission after `EAGAIN` keeps this.
    pub submitted: Tick,
    /// When it was seen to be back.
    pub completed: Tick,
    /// How many bytes, which may be fewer than asked for.
    pub result: Result<u32, Errno>,
    /// How often the kernel answered `EAGAIN` before.
    pub retries: u16,
}

impl Completion {
    /// From before submit to after reap, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        self.completed.nanos_since(self.submitted)
    }
}

/// How often `EAGAIN` (or `EINTR`) is answered with another try before it becomes the operation's result.
pub const MOST_RETRIES: u16 = 64;

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// io_uring.
    Uring,
    /// Blocking threads.
    Threads,
    /// Scripted, for tests; its results are labelled with this name.
    Fake,
}

impl EngineKind {
    /// As metric label and config word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Threads => "threads",
            Self::Fake => "fake",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Keeps up to `depth` operations with the kernel. One thread creates, submits and reaps.
pub trait Engine: fmt::Debug {
    /// Which engine this is.
    fn kind(&self) -> EngineKind;

    /// How many slots there are: the most operations that can be outstanding.
    fn depth(&self) -> u16;

    /// How many operations are outstanding now.
    fn outstanding(&self) -> u16;

    /// The slot's buffer; `None` while the kernel may still write it, and for a slot that does not exist.
    fn buffer(&mut self, slot: u16) -> Option<&mut [u8]>;

    /// Stamps and starts an operation. `EBUSY`: the slot is still out; `EINVAL`: no such slot, or longer than
    /// its buffer; `EBADF`: a write to a device. Allocates nothing.
    fn submit(&mut self, request: Request) -> Result<(), Errno>;

    /// As [`Engine::submit`], but the kernel may get it as late as with the next [`Engine::flush`] or [`Engine::reap`], and it is
    /// stamped then: many operations for one entry into the kernel.
    fn queue(&mut self, request: Request) -> Result<(), Errno> {
        self.submit(request)
    }

    /// Stamps what is queued and hands it to the kernel.
    fn flush(&mut self) {}

    /// Waits until at least one outstanding operation is back, stamps once for all that are back by then, and
    /// appends them to `done` (which must have room for `depth`). Returns at once when nothing is outstanding.
    fn reap(&mut self, done: &mut Vec<Completion>);

    /// As [`Engine::reap`], but waits no longer than until `deadline`; then it appends nothing.
    fn reap_before(&mut self, done: &mut Vec<Completion>, deadline: Tick);

    /// One operation at depth 1 from start to finish, by the quickest honest way that this engine has. Must not be
    /// called with operations outstanding (`EBUSY`). A refusal (see [`Engine::submit`]) is the result.
    fn single(&mut self, request: Request) -> Completion;
}
