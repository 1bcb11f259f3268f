//! The daemon's own footing: a scrape must be answered while the disk that holds the program, or the swap, hangs. So the
//! program is read in and locked in memory at the start, and what it works with is locked as it comes to be touched. Not by the
//! kernel's "lock all that will come": that fills every stack and counts them in full. Where the limits forbid locking, that is
//! said once and shown, and the daemon goes on.

use prometheus::IntGauge;

use crate::expose::OwnCounters;
use crate::sys::{self, Errno};

/// Threads share so few heaps: each one more is memory that is touched, held, and locked.
const HEAPS: u16 = 2;

/// What is locked.
pub(super) struct Footing {
    program: IntGauge,
    data: IntGauge,
}

impl Footing {
    /// Locks the program and its libraries, reading in what of them was not needed yet. To be called before there are lanes.
    pub(super) fn take(own: &OwnCounters) -> Self {
        sys::limit_heaps(HEAPS);
        let footing = Self { program: own.program_locked.clone(), data: own.data_locked.clone() };
        let (program, data) = (sys::lock_program(), sys::lock_data());
        footing.program.set(i64::from(program.is_ok()));
        footing.data.set(i64::from(data.is_ok()));
        if let Err(errno) = program.and(data) {
            say(errno, footing.program.get() == 1);
        }
        footing
    }

    /// Locks what came since: stacks of new threads, a heap that grew.
    pub(super) fn renew(&self) {
        self.data.set(i64::from(sys::lock_data().is_ok()));
    }
}

fn say(errno: Errno, program: bool) {
    let limit = sys::lock_limit().map_or_else(|| "none".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    let what = if program { "stacks and heap are" } else { "the program is" };
    tracing::warn!(
        %errno,
        limit,
        "{what} not locked in memory: when memory is short, scrapes may wait for a disk that hangs. Raise the limit \
         (LimitMEMLOCK= of the service) or grant CAP_IPC_LOCK"
    );
}
