//! What a sweep's lane and whoever waits for it share: a request to stop, and how far the cell is that runs now.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use super::Stopped;

/// Shared by the lane, which may hang, and those who look at it, who never wait: atomics only.
#[derive(Debug, Default)]
pub struct Watch {
    /// 0: nobody asked; else the reason's place in [`Stopped::ALL`], from 1.
    stop: AtomicU8,
    operations: AtomicU64,
    bytes: AtomicU64,
    warm: AtomicBool,
    /// Operations and bytes of the cells before, and of what belongs to none.
    before: [AtomicU64; 2],
}

/// How far the cell is that runs now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Operations that are back, those of the warm-up included.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Whether the warm-up is over, so that what comes back is recorded.
    pub warm: bool,
}

impl Watch {
    /// Asks the sweep to end at the next completion of the cell that runs; for good. The first reason stays.
    pub fn stop(&self, why: Stopped) {
        let number = Stopped::ALL.iter().zip(1..).find(|(known, _)| **known == why).map_or(0, |(_, n)| n);
        let _ = self.stop.compare_exchange(0, number, Relaxed, Relaxed);
    }

    /// Why it is to end, if it is.
    pub fn stopped(&self) -> Option<Stopped> {
        let number = usize::from(self.stop.load(Relaxed));
        Stopped::ALL.get(number.wrapping_sub(1)).copied()
    }

    /// How far the cell is that runs now.
    pub fn progress(&self) -> Progress {
        Progress {
            operations: self.operations.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            warm: self.warm.load(Relaxed),
        }
    }

    /// Operations and bytes of all cells so far, and of the files that were laid out for them.
    pub fn moved(&self) -> (u64, u64) {
        let [operations, bytes] = &self.before;
        let now = self.progress();
        (operations.load(Relaxed) + now.operations, bytes.load(Relaxed) + now.bytes)
    }

    /// A cell begins.
    pub(super) fn begin(&self) {
        let [operations, bytes] = &self.before;
        operations.fetch_add(self.operations.swap(0, Relaxed), Relaxed);
        bytes.fetch_add(self.bytes.swap(0, Relaxed), Relaxed);
        self.warm.store(false, Relaxed);
    }

    /// So many operations are back, which moved so many bytes.
    pub(super) fn pass(&self, operations: u64, bytes: u64) {
        self.operations.fetch_add(operations, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// The same of what belongs to no cell: a file was laid out.
    pub(super) fn beside(&self, operations: u64, bytes: u64) {
        let [all, all_bytes] = &self.before;
        all.fetch_add(operations, Relaxed);
        all_bytes.fetch_add(bytes, Relaxed);
    }

    /// The warm-up is over.
    pub(super) fn is_warm(&self) {
        self.warm.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        for why in Stopped::ALL {
            let watch = Watch::default();
            assert_eq!(watch.stopped(), None);
            watch.stop(*why);
            watch.stop(Stopped::Interrupt);
            assert_eq!(watch.stopped(), Some(*why));
        }
    }

    #[test]
    fn each_cell_is_counted_by_itself() {
        let watch = Watch::default();
        watch.pass(3, 4096);
        watch.is_warm();
        watch.pass(1, 512);
        assert_eq!(watch.progress(), Progress { operations: 4, bytes: 4608, warm: true });
        watch.begin();
        assert_eq!(watch.progress(), Progress::default());
        watch.pass(1, 512);
        assert_eq!(watch.moved(), (5, 5120));
        watch.beside(16, 1 << 22);
        assert_eq!((watch.progress().operations, watch.moved()), (1, (21, 5120 + (1 << 22))));
    }
}
