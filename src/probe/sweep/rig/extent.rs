//! Where the operations of a stream go: which blocks there are, and which are being written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::Access;

/// Bytes that are worked on: the read file without its head, or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// All of them.
    pub(super) size: u64,
    /// Whether the first block is a head, which is left alone.
    pub(super) headed: bool,
}

impl Extent {
    /// How many blocks of this size there are.
    pub(super) fn blocks(self, block: u32) -> u64 {
        (self.size / u64::from(block)).saturating_sub(u64::from(self.headed))
    }

    /// Where a block stands.
    pub(super) fn offset(self, block: u32, number: u64) -> u64 {
        (number + u64::from(self.headed)) * u64::from(block)
    }

    fn number(self, block: u32, offset: u64) -> u64 {
        (offset / u64::from(block)).saturating_sub(u64::from(self.headed))
    }
}

/// Blocks that are being written, so that no two writes meet in one: what would stand there then is nobody's. Shared by all threads
/// of a stream.
#[derive(Debug)]
pub(super) struct Claims(Vec<AtomicU64>);

impl Claims {
    /// For so many blocks.
    pub(super) fn new(blocks: u64) -> Self {
        let words = usize::try_from(blocks.div_ceil(64)).unwrap_or(usize::MAX);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    fn take(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        word.is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0)
    }

    fn give_back(&self, number: u64) {
        let (word, bit) = self.place(number);
        if let Some(word) = word {
            word.fetch_and(!bit, Relaxed);
        }
    }

    fn place(&self, number: u64) -> (Option<&AtomicU64>, u64) {
        let word = usize::try_from(number / 64).ok().and_then(|at| self.0.get(at));
        (word, 1 << (number % 64))
    }
}

/// Draws the places of a stream's operations, for one thread.
#[derive(Debug)]
pub(super) struct Cursor {
    extent: Extent,
    block: u32,
    blocks: u64,
    access: Access,
    next: u64,
    claims: Option<Arc<Claims>>,
    random: fastrand::Rng,
}

impl Cursor {
    /// `begin`, from 0 to 1, says where in the extent a sequential one begins. There must be a block, and with claims more of them than
    /// can be claimed at once.
    pub(super) fn new(
        extent: Extent,
        block: u32,
        access: Access,
        begin: f64,
        claims: Option<Arc<Claims>>,
        random: fastrand::Rng,
    ) -> Self {
        let blocks = extent.blocks(block).max(1);
        let next = ((blocks as f64 * begin) as u64).min(blocks - 1);
        Self { extent, block, blocks, access, next, claims, random }
    }

    /// The next place, in bytes. With claims it is claimed.
    pub(super) fn next(&mut self) -> u64 {
        loop {
            let number = match self.access {
                // Without bias: drawn again where a remainder would favour some.
                Access::Random => self.random.u64(0..self.blocks),
                Access::Sequential => {
                    let number = self.next;
                    self.next = if number + 1 < self.blocks { number + 1 } else { 0 };
                    number
                }
            };
            if self.claims.as_ref().is_none_or(|claims| claims.take(number)) {
                return self.extent.offset(self.block, number);
            }
        }
    }

    /// The write at `offset` is over.
    pub(super) fn is_over(&self, offset: u64) {
        if let Some(claims) = &self.claims {
            claims.give_back(self.extent.number(self.block, offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cursor(size: u64, headed: bool, access: Access, begin: f64, claims: bool) -> Cursor {
        let extent = Extent { size, headed };
        let claims = claims.then(|| Arc::new(Claims::new(extent.blocks(4096))));
        Cursor::new(extent, 4096, access, begin, claims, fastrand::Rng::with_seed(9))
    }

    #[test]
    fn from_the_start_again_after_the_end_and_never_over_the_head() {
        let mut cursor = cursor(5 * 4096 + 100, true, Access::Sequential, 0.5, false);
        let offsets: Vec<u64> = (0..6).map(|_| cursor.next() / 4096).collect();
        assert_eq!(offsets, [3, 4, 1, 2, 3, 4]);
    }

    #[test]
    fn each_block_is_as_likely_as_the_other() {
        // 1000 blocks, a number that divides no power of two: the counts must lie as a fair draw's do.
        let (blocks, draws) = (1000u64, 1_000_000u64);
        let mut cursor = cursor(blocks * 4096, false, Access::Random, 0.0, false);
        let mut counts = vec![0u64; blocks as usize];
        (0..draws).for_each(|_| counts[(cursor.next() / 4096) as usize] += 1);
        let expected = draws as f64 / blocks as f64;
        let chi: f64 = counts.iter().map(|n| (*n as f64 - expected).powi(2) / expected).sum();
        // Chi-squared with 999 degrees of freedom: mean 999, standard deviation 44.7.
        assert!((chi - 999.0).abs() < 5.0 * 44.7, "{chi}");
        let (first, second): (u64, u64) = (counts[..500].iter().sum(), counts[500..].iter().sum());
        assert!((first as f64 - second as f64).abs() < 5.0 * (draws as f64).sqrt(), "{first} {second}");
    }

    proptest! {
        #[test]
        fn no_two_writes_meet(out in 1usize..60, draws in 60usize..400, random: bool) {
            let access = if random { Access::Random } else { Access::Sequential };
            let mut cursor = cursor(65 * 4096, true, access, 0.0, true);
            let mut outstanding = std::collections::VecDeque::new();
            for _ in 0..draws {
                let offset = cursor.next();
                prop_assert!((4096..65 * 4096).contains(&offset) && !outstanding.contains(&offset));
                outstanding.push_back(offset);
                if outstanding.len() > out {
                    cursor.is_over(outstanding.pop_front().unwrap());
                }
            }
        }
    }
}
