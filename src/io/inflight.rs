//! The age of what has not come back yet, in atomics that a scrape reads without asking anybody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::Tick;

/// The kinds of operation whose age is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// A read.
    Read,
    /// A write of the commit probe.
    Write,
    /// An fsync or fdatasync of the commit probe.
    Sync,
    /// Opening, looking at, or locking the target.
    Open,
    /// Writing a probe file.
    Layout,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Sync, Self::Open, Self::Layout];

    /// As metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Open => "open",
            Self::Layout => "layout",
        }
    }
}

/// Start of the oldest unfinished operation of each kind, 0 when there is none. A lane stores it *before* the system
/// call, so that an operation that never returns is seen.
#[derive(Debug, Default)]
pub struct Inflight([AtomicU64; Op::ALL.len()]);

impl Inflight {
    /// `op` is out since `since`.
    #[inline]
    pub fn begin(&self, op: Op, since: Tick) {
        self.0[op as usize].store(since.nanos().max(1), Relaxed);
    }

    /// No `op` is out.
    #[inline]
    pub fn end(&self, op: Op) {
        self.0[op as usize].store(0, Relaxed);
    }

    /// How long the oldest unfinished `op` has been out, zero when there is none.
    pub fn age(&self, op: Op, now: Tick) -> Duration {
        match self.0[op as usize].load(Relaxed) {
            0 => Duration::ZERO,
            since => now.since(Tick::from_nanos(since)),
        }
    }

    /// When the oldest unfinished `op` went out, `None` when there is none.
    pub fn since(&self, op: Op) -> Option<Tick> {
        match self.0[op as usize].load(Relaxed) {
            0 => None,
            since => Some(Tick::from_nanos(since)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_runs_from_begin_to_end() {
        let inflight = Inflight::default();
        let at = |n| Tick::from_nanos(n);
        assert_eq!(inflight.age(Op::Sync, at(100)), Duration::ZERO);
        inflight.begin(Op::Sync, at(40));
        assert_eq!(inflight.age(Op::Sync, at(100)), Duration::from_nanos(60));
        assert_eq!(inflight.age(Op::Read, at(100)), Duration::ZERO);
        inflight.end(Op::Sync);
        assert_eq!(inflight.since(Op::Sync), None);
    }
}
