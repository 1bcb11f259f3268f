//! Which engine, and why. A ring that cannot be had, for whatever reason, is never the end: threads do the work.

use std::fmt;

use super::threads::Threads;
use super::uring::Uring;
use super::{Engine, Source};
use crate::sys::{Errno, RingFailure};

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

/// How [`Engine::single`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinglePath {
    /// Through the ring.
    Ring,
    /// By `pread` or `pwrite` on the calling thread: there is no ring, or on this file a ring would hand the
    /// operation to a worker of the kernel, which takes longer and is no merit of the disk's.
    Pread,
}

impl SinglePath {
    /// As metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Pread => "pread",
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
}

impl Reason {
    /// As metric label: `best`, `asked`, or the name of the ring's errno, such as `EPERM`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Asked => "asked",
            Self::NoRing(failure) => failure.errno.name(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("the best there is here"),
            Self::Asked => f.write_str("asked for"),
            Self::NoRing(failure) => write!(f, "no io_uring: {failure}"),
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
    /// How its `single` goes.
    pub single: SinglePath,
}

/// An engine on `source` with `depth` slots of `block` bytes. `EINVAL`: a depth or block of 0; any other error:
/// there is not even memory or a thread for the plainest engine.
pub fn open(source: Source, depth: u16, block: u32, wish: Wish, wait: Wait) -> Result<Opened, Errno> {
    if depth == 0 || block == 0 {
        return Err(Errno::EINVAL);
    }
    let reason = match wish {
        Wish::Auto => Reason::Best,
        Wish::Threads => Reason::Asked,
    };
    if wish == Wish::Threads {
        return threads(source, depth, block, reason);
    }
    match Uring::open(source, depth, block, wait) {
        Ok(engine) => {
            let single = engine.single_path();
            Ok(Opened { engine: Box::new(engine), reason, single })
        }
        Err((source, failure)) => threads(source, depth, block, Reason::NoRing(failure)),
    }
}

fn threads(source: Source, depth: u16, block: u32, reason: Reason) -> Result<Opened, Errno> {
    let engine = Box::new(Threads::open(source, depth, block)?);
    Ok(Opened { engine, reason, single: SinglePath::Pread })
}
