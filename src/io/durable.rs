//! A commit by plain system calls: write, then make durable. Not through a ring: there fsync always goes to a worker
//! thread, whose hand-off would be measured as the disk's.

use crate::clock::{self, Tick};
use crate::sys::{Errno, File};

use super::{Inflight, Op};

/// How a write is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// `fdatasync` after the write.
    Fdatasync,
    /// `fsync` after the write.
    Fsync,
    /// The file was opened with `O_DSYNC`: the write itself waits.
    WriteThrough,
}

/// A commit that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Before the write.
    pub started: Tick,
    /// After the write.
    pub written: Tick,
    /// After the sync; as `written` when the write failed or there is no sync.
    pub durable: Tick,
    /// Bytes taken by the write.
    pub write: Result<usize, Errno>,
    /// The sync's result; `None` when it was not called.
    pub sync: Option<Result<(), Errno>>,
}

/// One write and what makes it durable. `inflight` is set before each system call.
#[inline]
pub fn commit(file: &File, bytes: &[u8], offset: u64, how: Durability, inflight: &Inflight) -> Committed {
    let started = clock::now();
    inflight.begin(Op::Write, started);
    let write = file.write_at(bytes, offset);
    let written = clock::now();
    inflight.end(Op::Write);
    let mut done = Committed { started, written, durable: written, write, sync: None };
    if write == Ok(bytes.len()) && how != Durability::WriteThrough {
        inflight.begin(Op::Sync, written);
        done.sync = Some(if how == Durability::Fsync { file.fsync() } else { file.fdatasync() });
        done.durable = clock::now();
        inflight.end(Op::Sync);
    }
    done
}

/// Reads what a commit is about to write over in part. A hang shows as a write's: it is what the commit waits for, and the
/// reads of a target have a lane of their own.
pub fn fetch(file: &File, into: &mut [u8], offset: u64, inflight: &Inflight) -> Result<usize, Errno> {
    inflight.begin(Op::Write, clock::now());
    let read = file.read_at(into, offset);
    inflight.end(Op::Write);
    read
}
