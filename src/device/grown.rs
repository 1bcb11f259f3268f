//! By how much a counter of the kernel has grown. It may have wrapped at 32 bits, or begun anew.

use crate::target::{Counters, Done};

/// In which steps the numbers of [`Counters`] go up: the kernel counts operations, sectors of 512 bytes and milliseconds.
const ONE: u64 = 1;
const SECTOR: u64 = 512;
const MILLISECOND: u64 = 1_000_000;

/// The growth of one counter that goes up in steps of `unit`; `None` when it went back and that is no wrap.
///
/// The times wrap at 2³² ms on every kernel, the other counters on 32-bit machines. A counter that is less than before by more than
/// half of that range has wrapped; anything else is no wrap.
pub(super) fn grown(before: u64, after: u64, unit: u64) -> Option<u64> {
    if let Some(more) = after.checked_sub(before) {
        return Some(more);
    }
    let range = unit << 32;
    let around = after.checked_add(range)?.checked_sub(before)?;
    (before < range && around < range / 2).then_some(around)
}

/// Adds to `total` what was done from `before` to `after`. `false`, and nothing added, when a number of operations went back: the
/// disk is another one, or its counters began anew. A time or a number of bytes that goes back by itself adds nothing.
pub(super) fn add_growth(total: &mut Counters, before: &Counters, after: &Counters) -> bool {
    let sum = || {
        Some(Counters {
            reads: done(&total.reads, &before.reads, &after.reads)?,
            writes: done(&total.writes, &before.writes, &after.writes)?,
            discards: part(total.discards, before.discards, after.discards)?,
            flushes: part(total.flushes, before.flushes, after.flushes)?,
            in_flight: after.in_flight,
            busy_nanos: more(total.busy_nanos, before.busy_nanos, after.busy_nanos, MILLISECOND),
            weighted_nanos: more(
                total.weighted_nanos,
                before.weighted_nanos,
                after.weighted_nanos,
                MILLISECOND,
            ),
        })
    };
    let Some(sum) = sum() else { return false };
    *total = sum;
    true
}

fn done(total: &Done, before: &Done, after: &Done) -> Option<Done> {
    Some(Done {
        operations: total.operations.saturating_add(grown(before.operations, after.operations, ONE)?),
        merges: more(total.merges, before.merges, after.merges, ONE),
        bytes: more(total.bytes, before.bytes, after.bytes, SECTOR),
        wait_nanos: more(total.wait_nanos, before.wait_nanos, after.wait_nanos, MILLISECOND),
    })
}

/// A kind of operation that this kernel may not count. One that it counts from now on begins with what it says.
fn part(total: Option<Done>, before: Option<Done>, after: Option<Done>) -> Option<Option<Done>> {
    match (total, before, after) {
        (Some(total), Some(before), Some(after)) => Some(Some(done(&total, &before, &after)?)),
        (None, _, after) => Some(after),
        (total, ..) => Some(total),
    }
}

fn more(total: u64, before: u64, after: u64, unit: u64) -> u64 {
    total.saturating_add(grown(before, after, unit).unwrap_or(0))
}
