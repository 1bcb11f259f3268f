//! Whether a cache below the file system answers, which no counter of this machine tells: blocks are read before the first cell of a sweep,
//! and after it again, in turn with blocks that nobody has read since they were laid out. From a disk both take the same time; from
//! a cache that reads fill, what is read again comes much sooner.

use std::time::Duration;

use super::extent::Extent;
use crate::clock;
use crate::io::{Inflight, Op, Source};
use crate::probe::Cost;
use crate::probe::content::BLOCK;
use crate::sys::Buffer;

/// Blocks of each kind: a median of so few differs by chance, but not by a factor of two.
const SAMPLE: usize = 48;
/// Of fewer blocks than this (64 MiB) any disk keeps a good part itself.
const LEAST: u64 = 16 << 10;
/// A smaller gain is not a cache but the weather.
const LEAST_GAIN: Duration = Duration::from_micros(50);

/// Blocks that are read before the first cell, and those that are not.
#[derive(Debug)]
pub(super) struct Again {
    read: Vec<u64>,
    fresh: Vec<u64>,
    first: Duration,
}

/// Medians of what it took to read a block.
#[derive(Clone, Copy, Debug)]
struct Medians {
    /// For the first time, before the cell.
    first: Duration,
    /// The same blocks after it.
    again: Duration,
    /// Others after it, for the first time.
    fresh: Duration,
}

/// Times single reads.
pub(super) struct Reads<'a> {
    pub(super) source: &'a Source,
    pub(super) extent: Extent,
    pub(super) inflight: &'a Inflight,
    pub(super) cost: &'a mut Cost,
}

impl Again {
    /// Draws the blocks and reads the first half of them. `None` where too few blocks are there to tell, or they cannot be read.
    pub(super) fn begin(reads: &mut Reads<'_>, random: &mut fastrand::Rng) -> Option<Self> {
        let blocks = reads.extent.blocks(BLOCK as u32);
        if blocks < LEAST {
            return None;
        }
        let mut drawn = std::collections::BTreeSet::new();
        while drawn.len() < 2 * SAMPLE {
            drawn.insert(random.u64(0..blocks));
        }
        let mut read: Vec<u64> = drawn.into_iter().collect();
        random.shuffle(&mut read);
        let fresh = read.split_off(SAMPLE);
        let mut buffer = Buffer::new(BLOCK).ok()?;
        let first = median(read.iter().map(|block| reads.time(*block, &mut buffer)))?;
        Some(Self { read, fresh, first })
    }

    /// After a cell: what shows that a cache answers, if it does.
    pub(super) fn end(self, reads: &mut Reads<'_>) -> Option<String> {
        let mut buffer = Buffer::new(BLOCK).ok()?;
        let (mut again, mut fresh) = (Vec::new(), Vec::new());
        for (known, new) in self.read.iter().zip(&self.fresh) {
            again.push(reads.time(*known, &mut buffer));
            fresh.push(reads.time(*new, &mut buffer));
        }
        verdict(Medians { first: self.first, again: median(again)?, fresh: median(fresh)? })
    }
}

impl Reads<'_> {
    fn time(&mut self, block: u64, buffer: &mut Buffer) -> Option<Duration> {
        let began = clock::now();
        self.inflight.begin(Op::Read, began);
        let read = self.cost.read(self.source.read_at(buffer, self.extent.offset(BLOCK as u32, block)));
        let took = clock::now().since(began);
        self.inflight.end(Op::Read);
        (read == Ok(BLOCK)).then_some(took)
    }
}

/// `None` where a read failed: what fails is told by the cells.
fn median(times: impl IntoIterator<Item = Option<Duration>>) -> Option<Duration> {
    let mut times = times.into_iter().collect::<Option<Vec<Duration>>>()?;
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// What is read again must be quicker than what is not, and than it was itself: a disk that has become quicker is no cache.
fn verdict(Medians { first, again, fresh }: Medians) -> Option<String> {
    let is_quicker = |than: Duration| again * 2 < than && than - again > LEAST_GAIN;
    (is_quicker(first) && is_quicker(fresh)).then(|| {
        let micros = |time: Duration| time.as_micros();
        format!(
            "a cache below the file system answers blocks that are read again: half of them within {} µs, where others take {} µs",
            micros(again),
            micros(fresh)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: u64, again: u64, fresh: u64) -> Option<String> {
        let [first, again, fresh] = [first, again, fresh].map(Duration::from_micros);
        verdict(Medians { first, again, fresh })
    }

    #[test]
    fn what_is_read_again_much_sooner_comes_from_a_cache() {
        assert!(of(2000, 80, 2100).unwrap().contains("within 80 µs, where others take 2100 µs"));
        assert!(of(300, 100, 310).is_some());
    }

    #[test]
    fn a_disk_without_one_takes_the_same_time() {
        assert_eq!(of(500, 480, 510), None);
        assert_eq!(of(500, 300, 500), None, "not twice as quick");
        assert_eq!(of(60, 20, 65), None, "a gain that small is the weather");
    }

    #[test]
    fn a_disk_that_changes_is_no_cache() {
        assert_eq!(of(2000, 100, 100), None, "it has become quicker");
        assert_eq!(of(100, 100, 2000), None, "something came between the fresh ones");
    }
}
