//! Which engine, and why. A ring that cannot be had, for whatever reason, is never the end: threads do the work.

use std::fmt;

use super::threads::Threads;
use super::uring::Uring;
use super::{Engine, Source};
use crate::sys::{Buffer, Errno, Memory, RingFailure, answers_without_waiting};

/// Which engine is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// io_uring where it works, else threads.
    #[default]
    Auto,
    /// Blocking threads.
    Threads,
}

impl Wish {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Auto, Self::Threads];

    /// As config word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Threads => "threads",
        }
    }
}

/// How a completion is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Asleep.
    #[default]
    Sleep,
    /// Polling for up to a millisecond, then asleep. Only a ring can be polled: elsewhere this is `Sleep`.
    Spin,
}

impl Wait {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Sleep, Self::Spin];

    /// As config word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Spin => "spin",
        }
    }
}

/// Why it is this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is the best.
    Best,
    /// It was asked for.
    Asked,
    /// There is no ring.
    NoRing(RingFailure),
    /// There may be rings, but operations on this file cannot be started without waiting: a ring would hand them to
    /// the kernel's worker threads, or carry them out one after the other.
    Waits,
}

impl Reason {
    /// As metric label: `best`, `asked`, `waits`, or the name of the ring's errno, such as `EPERM`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Asked => "asked",
            Self::NoRing(failure) => failure.errno.name(),
            Self::Waits => "waits",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("the best there is here"),
            Self::Asked => f.write_str("asked for"),
            Self::NoRing(failure) => write!(f, "no io_uring: {failure}"),
            Self::Waits => f.write_str("reads of this file cannot be started without waiting (RWF_NOWAIT)"),
        }
    }
}

/// An engine, and what to tell people about it.
#[derive(Debug)]
pub struct Opened {
    /// The engine. It stays on this thread.
    pub engine: Box<dyn Engine>,
    /// Why this one. [`Reason::NoRing`] is worth one line in the log.
    pub reason: Reason,
}

/// An engine on `source` with `depth` slots of `block` bytes. `EINVAL`: a depth or block of 0; any other error:
/// there is not even memory or a thread for the plainest engine. Reads one block of the source.
pub fn open(source: Source, depth: u16, block: u32, wish: Wish, wait: Wait) -> Result<Opened, Errno> {
    open_within(source, depth, block, wish, wait, &Memory::default())
}

/// As [`open`], with buffers from `memory`. `ENOMEM`: there is not that much in it.
pub fn open_within(
    source: Source,
    depth: u16,
    block: u32,
    wish: Wish,
    wait: Wait,
    memory: &Memory,
) -> Result<Opened, Errno> {
    if depth == 0 || block == 0 {
        return Err(Errno::EINVAL);
    }
    if wish == Wish::Threads {
        return threads(source, depth, block, Reason::Asked, memory);
    }
    if !answers_without_waiting(source.fd(), &mut Buffer::new(block as usize)?) {
        return threads(source, depth, block, Reason::Waits, memory);
    }
    match Uring::open(source.fd(), source.writable(), depth, block, wait, memory) {
        Ok(engine) => Ok(Opened { engine: Box::new(engine), reason: Reason::Best }),
        Err(failure) => threads(source, depth, block, Reason::NoRing(failure), memory),
    }
}

fn threads(source: Source, depth: u16, block: u32, reason: Reason, memory: &Memory) -> Result<Opened, Errno> {
    Ok(Opened { engine: Box::new(Threads::open(source, depth, block, &memory.pool)?), reason })
}
