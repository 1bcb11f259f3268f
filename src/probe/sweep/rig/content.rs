//! What the blocks of a sweep hold: written so that the read probe finds its own blocks afterwards, and looked at, some of them, when
//! they are read.

use crate::probe::content::{self, BLOCK, Stamp};

/// Of so many reads one is looked at.
const ONE_IN: u32 = 16;
/// Blocks that are read once more after the cell.
const MOST_SUSPECTS: usize = 64;

/// Looks at blocks, for one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Inspection {
    /// The file's number; `None`: somebody's device.
    file: Option<u64>,
    /// Whether anybody writes in the cell: then a block may be read while it is written.
    written: bool,
    until_next: u32,
    suspects: Vec<u64>,
    /// Blocks that were looked at.
    pub(super) seen: u64,
    /// Those that hold only zeros.
    pub(super) zeros: u64,
    /// Those that are not what was written there.
    pub(super) wrong: u64,
    /// The first of them.
    pub(super) first_wrong: Option<u64>,
}

impl Inspection {
    /// Bytes of a look.
    pub(super) const LEN: u32 = BLOCK as u32;

    /// Of the file with this number, or of a device.
    pub(super) fn new(file: Option<u64>, written: bool) -> Self {
        let suspects = Vec::with_capacity(if written { MOST_SUSPECTS } else { 0 });
        Self { file, written, suspects, ..Self::default() }
    }

    /// Whether the next read is to be looked at.
    pub(super) fn wants_one(&mut self) -> bool {
        self.until_next = self.until_next.checked_sub(1).unwrap_or(ONE_IN - 1);
        self.until_next == 0
    }

    /// Looks at one block of what was read at `offset`: each time at another one.
    pub(super) fn look(&mut self, bytes: &[u8], offset: u64) {
        let first = offset.next_multiple_of(BLOCK as u64);
        let skip = usize::try_from(first - offset).unwrap_or(usize::MAX);
        let blocks = bytes.len().saturating_sub(skip) / BLOCK;
        if blocks == 0 {
            return;
        }
        let at = self.seen as usize % blocks;
        let block = &bytes[skip + at * BLOCK..][..BLOCK];
        self.seen += 1;
        let Some(file) = self.file else {
            self.zeros += u64::from(block.iter().all(|byte| *byte == 0));
            return;
        };
        let place = first + (at * BLOCK) as u64;
        if content::check(block, stamp(file, place)).is_ok() {
            return;
        }
        if !self.written {
            self.note(place);
        } else if self.suspects.len() < MOST_SUSPECTS {
            self.suspects.push(place);
        }
    }

    /// Blocks that were wrong while others wrote, to be read again. Each is given once.
    pub(super) fn suspects(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.suspects)
    }

    /// Looks at a suspect that was read again when nobody wrote any more.
    pub(super) fn look_again(&mut self, block: &[u8], offset: u64) {
        if self.file.is_some_and(|file| content::check(block, stamp(file, offset)).is_err()) {
            self.note(offset);
        }
    }

    /// Makes what is to be written at `offset` out of what stands in `bytes`, which was random to begin with.
    pub(super) fn make(&self, bytes: &mut [u8], offset: u64, random: &mut fastrand::Rng) {
        let Some(file) = self.file else { return };
        let word = random.u64(..);
        for (block, place) in bytes.chunks_exact_mut(BLOCK).zip((offset..).step_by(BLOCK)) {
            content::refresh(block, stamp(file, place), word);
        }
    }

    /// What two threads found.
    pub(super) fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.zeros += other.zeros;
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.or(other.first_wrong);
    }

    fn note(&mut self, place: u64) {
        self.wrong += 1;
        self.first_wrong = self.first_wrong.or(Some(place / BLOCK as u64));
    }
}

/// As the read probe expects it.
fn stamp(file: u64, offset: u64) -> Stamp {
    Stamp { file, number: offset / BLOCK as u64, generation: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_bytes(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(3).fill(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_made_is_what_is_expected_and_each_block_is_looked_at() {
        let (mut reads, mut random) = (Inspection::new(Some(7), false), fastrand::Rng::with_seed(4));
        let mut bytes = random_bytes(4 * BLOCK);
        reads.make(&mut bytes, 8 * BLOCK as u64, &mut random);
        (0..8).for_each(|_| reads.look(&bytes, 8 * BLOCK as u64));
        assert_eq!((reads.seen, reads.wrong), (8, 0));
        bytes[3 * BLOCK + 100] ^= 1;
        (0..8).for_each(|_| reads.look(&bytes, 8 * BLOCK as u64));
        assert_eq!((reads.seen, reads.wrong, reads.first_wrong), (16, 2, Some(11)));
        reads.look(&bytes, 80 * BLOCK as u64);
        assert_eq!(reads.wrong, 3, "a good block in another's place is wrong");
    }

    #[test]
    fn one_that_is_wrong_while_others_write_has_a_second_chance() {
        let mut reads = Inspection::new(Some(7), true);
        let mut bytes = random_bytes(BLOCK);
        reads.look(&bytes, 0);
        assert_eq!((reads.wrong, reads.suspects()), (0, vec![0]));
        reads.look_again(&bytes, 0);
        assert_eq!(reads.wrong, 1);
        reads.make(&mut bytes, 0, &mut fastrand::Rng::with_seed(4));
        reads.look_again(&bytes, 0);
        assert_eq!(reads.wrong, 1);
    }

    #[test]
    fn one_in_sixteen_is_looked_at_and_small_ones_never() {
        let mut reads = Inspection::new(None, false);
        assert_eq!((0..160).filter(|_| reads.wants_one()).count(), 10);
        reads.look(&[0; 512], 512);
        assert_eq!(reads.seen, 0);
        reads.look(&[0; 2 * BLOCK], 512);
        assert_eq!((reads.seen, reads.zeros), (1, 1));
    }
}
