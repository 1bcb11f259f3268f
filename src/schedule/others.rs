//! What others do on a disk while we do much there ourselves: the disk's counters minus ours, over the last ten seconds. Pure.
//!
//! Requests and operations are not the same: a large operation is split, neighbours are merged, a flush is counted as a write. So
//! both requests and bytes must be more than ours before it is somebody else: no more operations are theirs than pages in the bytes
//! that are not ours.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Tick;

/// How far back it looks.
const WINDOW: Duration = Duration::from_secs(10);
/// Bytes of the least operation that is told from ours.
const PAGE: f64 = 4096.0;

/// What a disk has done so far, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// Reads and writes.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Time of all requests, added up.
    pub weighted: Duration,
}

/// What we have done so far there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ours {
    /// Operations.
    pub operations: u64,
    /// Bytes that these may be at the disk at most: what a file system adds is in it.
    pub bytes: f64,
}

/// Others' load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Operations per second.
    pub iops: f64,
    /// Requests in the disk, on average. 0 where we were at work ourselves: theirs cannot be told from ours.
    pub queue_depth: f64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Tick,
    disk: Done,
    ours: Ours,
}

/// The last ten seconds of one disk.
#[derive(Clone, Debug, Default)]
pub struct Others {
    seen: VecDeque<Seen>,
}

impl Others {
    /// The counters at `at`, with ours at the same moment. A moment that was told already is not told twice.
    pub fn see(&mut self, at: Tick, disk: Done, ours: Ours) {
        if self.seen.back().is_some_and(|last| last.at >= at) {
            return;
        }
        if self.seen.back().is_some_and(|last| {
            last.disk.operations > disk.operations || last.ours.operations > ours.operations
        }) {
            // Another disk, or another sweep.
            self.seen.clear();
        }
        self.seen.push_back(Seen { at, disk, ours });
        // One older than the window stays, so that the window is whole.
        while self.seen.get(1).is_some_and(|second| at.since(second.at) >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Others' load; `None` until it was looked at for ten seconds, or when that is more than three seconds ago.
    pub fn load(&self, now: Tick) -> Option<Load> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let span = last.at.since(first.at);
        // The kernel's counters are read about once a second.
        if span + Duration::from_millis(500) < WINDOW || now.since(last.at) > Duration::from_secs(3) {
            return None;
        }
        let seconds = span.as_secs_f64();
        let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let ours = more(last.ours.operations, first.ours.operations);
        let operations = more(last.disk.operations, first.disk.operations) - ours;
        let bytes = more(last.disk.bytes, first.disk.bytes) - (last.ours.bytes - first.ours.bytes);
        let weighted = last.disk.weighted.saturating_sub(first.disk.weighted).as_secs_f64();
        let theirs = operations.min(bytes / PAGE).max(0.0);
        let queue_depth = if ours > MANY * seconds { 0.0 } else { weighted / seconds };
        Some(Load { iops: theirs / seconds, queue_depth })
    }
}

/// More operations of ours in a second are those of a sweep.
const MANY: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    fn second(n: u64) -> Tick {
        Tick::default() + Duration::from_secs(1_000 + n)
    }

    /// A disk on which we do so much each second and others so much, each in operations and bytes.
    fn load(ours: (u64, u64), splits: u64, theirs: (u64, u64)) -> Option<Load> {
        let mut others = Others::default();
        for n in 0..30 {
            let disk = Done {
                operations: n * (ours.0 * splits + theirs.0),
                bytes: n * (ours.1 + theirs.1),
                weighted: Duration::from_millis(n * 100),
            };
            others.see(second(n), disk, Ours { operations: n * ours.0, bytes: (n * ours.1) as f64 });
        }
        others.load(second(29))
    }

    #[test]
    fn what_is_not_ours_is_theirs() {
        assert_eq!(load((0, 0), 1, (100, 100 << 12)), Some(Load { iops: 100.0, queue_depth: 0.1 }));
        assert_eq!(load((3000, 3000 << 12), 1, (100, 100 << 12)).map(|l| l.iops), Some(100.0));
        assert_eq!(load((64, 64 << 20), 8, (0, 0)).map(|l| l.iops), Some(0.0), "large ones are split");
        assert_eq!(load((64, 64 << 20), 8, (100, 100 << 13)).map(|l| l.iops), Some(200.0), "a page at least");
        assert_eq!(load((500, 500 << 12), 1, (0, 0)).map(|l| l.queue_depth), Some(0.0));
    }

    #[test]
    fn ten_seconds_are_needed_and_they_grow_old() {
        let mut others = Others::default();
        for n in 0..10 {
            others.see(second(n), Done::default(), Ours::default());
            assert_eq!(others.load(second(n)), None);
        }
        others.see(second(10), Done::default(), Ours::default());
        assert_eq!(others.load(second(13)), Some(Load::default()));
        assert_eq!(others.load(second(14)), None);
    }

    #[test]
    fn a_workload_that_wakes_up_is_seen_within_two_seconds() {
        let mut others = Others::default();
        let busy = |n: u64| n.saturating_sub(20) * 1000;
        for n in 0..23 {
            let ours = Ours { operations: n * 3000, bytes: (n * 3000 * 4096) as f64 };
            let operations = n * 3000 + busy(n);
            others.see(second(n), Done { operations, bytes: operations * 4096, ..Done::default() }, ours);
        }
        assert!(others.load(second(22)).unwrap().iops > 150.0);
    }

    proptest! {
        /// Whatever we do and however it is split or merged: alone on the disk we are never taken for others.
        #[test]
        fn we_are_not_others(rates in proptest::collection::vec((0u64..5000, 9u32..21, 1u64..10), 12..40)) {
            let (mut others, mut disk, mut ours) = (Others::default(), Done::default(), Ours::default());
            for (n, (rate, size, splits)) in rates.iter().enumerate() {
                disk.operations += rate * splits;
                disk.bytes += rate << size;
                ours.operations += rate;
                ours.bytes += (rate << size) as f64;
                others.see(second(n as u64), disk, ours);
                prop_assert!(others.load(second(n as u64)).is_none_or(|load| load.iops == 0.0));
            }
        }
    }
}
