//! What stands in a probe file: incompressible bytes, unique in every block, under a header that tells later whether
//! the disk gave back what it was given.
//!
//! A block: magic (8 bytes), file id, block number, generation (8 bytes each, little endian), checksum (xxh3, over all
//! the rest of the block), then random bytes.

use xxhash_rust::xxh3::Xxh3Default;

/// Bytes in a block of a probe file: the unit of headers, layout and reads.
pub const BLOCK: usize = 4096;

const MAGIC: [u8; 8] = *b"DCANARY1";
const CHECKSUM_AT: usize = 32;
const BODY_AT: usize = 40;

/// What makes a block ours and this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The file's random number.
    pub file: u64,
    /// Which block of the file, or which record of the log.
    pub number: u64,
    /// Which writing of it.
    pub generation: u64,
}

/// Why a block is not the one that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It does not begin with our magic.
    NotOurs,
    /// Its checksum does not fit its bytes.
    Checksum,
    /// It is a good block, but another one: misplaced, stale, or of another file.
    Other(Stamp),
}

/// Fills a block (at least 40 bytes) with a header and fresh random bytes.
pub fn fill(block: &mut [u8], stamp: Stamp, random: &mut fastrand::Rng) {
    random.fill(&mut block[BODY_AT..]);
    seal(block, stamp);
}

/// Makes new random bytes of a block's own by a random word, and seals it: as unlike what stood there as [`fill`], at a fraction of
/// the time. Two blocks that began alike stay alike.
pub fn refresh(block: &mut [u8], stamp: Stamp, word: u64) {
    let word = word.to_ne_bytes();
    for eight in block[BODY_AT..].chunks_mut(8) {
        eight.iter_mut().zip(word).for_each(|(byte, other)| *byte ^= other);
    }
    seal(block, stamp);
}

/// Writes the header over a block whose body is set.
pub fn seal(block: &mut [u8], stamp: Stamp) {
    block[..8].copy_from_slice(&MAGIC);
    block[8..16].copy_from_slice(&stamp.file.to_le_bytes());
    block[16..24].copy_from_slice(&stamp.number.to_le_bytes());
    block[24..CHECKSUM_AT].copy_from_slice(&stamp.generation.to_le_bytes());
    let sum = checksum(block);
    block[CHECKSUM_AT..BODY_AT].copy_from_slice(&sum.to_le_bytes());
}

/// Whether a block is exactly the one that `stamp` names.
pub fn check(block: &[u8], stamp: Stamp) -> Result<(), Wrong> {
    match open(block)? {
        found if found == stamp => Ok(()),
        found => Err(Wrong::Other(found)),
    }
}

/// The header of a good block of ours.
pub fn open(block: &[u8]) -> Result<Stamp, Wrong> {
    if block.len() < BODY_AT || block[..8] != MAGIC {
        return Err(Wrong::NotOurs);
    }
    if word(block, CHECKSUM_AT) != checksum(block) {
        return Err(Wrong::Checksum);
    }
    Ok(Stamp { file: word(block, 8), number: word(block, 16), generation: word(block, 24) })
}

/// Where a sealed block's own bytes begin.
pub fn body(block: &[u8]) -> &[u8] {
    &block[BODY_AT..]
}

/// As [`body`], to write before [`seal`].
pub fn body_mut(block: &mut [u8]) -> &mut [u8] {
    &mut block[BODY_AT..]
}

fn word(block: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&block[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn checksum(block: &[u8]) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&block[..CHECKSUM_AT]);
    hash.update(&block[BODY_AT..]);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { file: 7, number: 42, generation: 3 };

    fn block() -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        fill(&mut block, STAMP, &mut fastrand::Rng::with_seed(1));
        block
    }

    #[test]
    fn a_block_knows_itself() {
        assert_eq!(check(&block(), STAMP), Ok(()));
        let other = Stamp { number: 43, ..STAMP };
        assert_eq!(check(&block(), other), Err(Wrong::Other(STAMP)));
        assert_eq!(check(&vec![0; BLOCK], STAMP), Err(Wrong::NotOurs));
        assert_eq!(check(&[], STAMP), Err(Wrong::NotOurs));
    }

    #[test]
    fn two_blocks_share_nothing_that_a_store_could_fold() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut a, mut b) = (vec![0; BLOCK], vec![0; BLOCK]);
        fill(&mut a, STAMP, &mut random);
        fill(&mut b, STAMP, &mut random);
        let same = a.chunks(64).filter(|chunk| b.chunks(64).any(|other| other == *chunk)).count();
        assert_eq!(same, 0);
    }

    #[test]
    fn a_refreshed_block_shares_nothing_with_what_it_was() {
        let mut random = fastrand::Rng::with_seed(1);
        let was = block();
        let mut is = was.clone();
        refresh(&mut is, Stamp { number: 43, ..STAMP }, random.u64(..));
        assert_eq!(check(&is, Stamp { number: 43, ..STAMP }), Ok(()));
        let same = was.chunks(64).filter(|chunk| is.chunks(64).any(|other| other == *chunk)).count();
        assert_eq!(same, 0);
    }

    proptest! {
        #[test]
        fn every_flipped_bit_is_found(at in 0..BLOCK, bit in 0..8u8) {
            let mut block = block();
            block[at] ^= 1 << bit;
            prop_assert!(check(&block, STAMP).is_err());
        }
    }
}
