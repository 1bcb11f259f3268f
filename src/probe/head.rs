//! The head of a probe file: what it says, and whether a file that lies where ours should be is ours to remove.

use std::path::Path;

use super::content::{self, BLOCK, Stamp, Wrong};
use super::{Cost, Stage, Trouble};
use crate::sys::{self, Buffer, Dir, Direct, EntryKind, Errno, File, FileStat};

/// The head's body: format, complete, size, wished, each 8 bytes little endian.
const FORMAT: u64 = 1;
/// Written zeros that are looked through. A file of ours without a durable head has a first slice at most, which is far
/// less; who has more zeros than this keeps them.
const MOST_ZEROS: u64 = 64 << 20;
/// Bytes of one read of them.
const CHUNK: usize = 256 << 10;

/// What a probe file's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The file's random number, in the header of each of its blocks.
    pub file: u64,
    /// Bytes, the head included.
    pub size: u64,
    /// The size that was configured when it was laid out.
    pub wished: u64,
    /// Whether every block is written and durable.
    pub complete: bool,
}

impl Head {
    /// Blocks, the head included.
    pub const fn blocks(&self) -> u64 {
        self.size / BLOCK as u64
    }

    pub(super) fn seal_into(&self, block: &mut [u8]) {
        block.fill(0);
        for (word, at) in
            [FORMAT, u64::from(self.complete), self.size, self.wished].iter().zip((0..).step_by(8))
        {
            content::body_mut(block)[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        content::seal(block, Stamp { file: self.file, number: 0, generation: 0 });
    }

    pub(super) fn read_from(block: &[u8]) -> Option<Self> {
        let stamp = content::open(block).ok()?;
        let mut words = content::body(block)
            .chunks_exact(8)
            .map(|w| w.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)));
        let (format, complete, size, wished) = (words.next()?, words.next()?, words.next()?, words.next()?);
        (format == FORMAT && stamp.number == 0).then_some(Self {
            file: stamp.file,
            size,
            wished,
            complete: complete == 1,
        })
    }

    /// Makes sure that an open file is the one whose head this is, whatever its name meant when it was looked at. `at` is
    /// for the message. `EBADMSG`: it is another file, or was changed; looking again mends it.
    pub fn confirm(&self, file: &File, at: &Path, cost: &mut Cost) -> Result<(), Trouble> {
        let fail = |e| Trouble::io(Stage::Open, format_args!("cannot look at {}", at.display()), e);
        let stat = file.stat().map_err(fail)?;
        // Direct I/O may want more than a block.
        let room = file.direct_alignment().map_or(BLOCK, |needed| BLOCK.max(needed.offset as usize));
        let mut block = Buffer::new(room).map_err(fail)?;
        let read = cost.read(file.read_at(&mut block, 0)).map_err(fail)?;
        let _ = file.drop_cached();
        let now = Self::read_from(&block[..read.min(BLOCK)]);
        let why = match stranger(&stat) {
            Some(why) => why.to_owned(),
            None if stat.size != self.size => format!("it has {} bytes, not {}", stat.size, self.size),
            None if now != Some(*self) => "its head is another".to_owned(),
            None => return Ok(()),
        };
        let doing = format_args!("{} is not the file that was looked at: {why}", at.display());
        Err(Trouble::io(Stage::Open, doing, Errno::EBADMSG))
    }
}

/// A file that is ours, or nobody's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    /// Which file, and its size.
    pub(super) stat: FileStat,
    /// `None` when it has no head that can be read.
    pub(super) head: Option<Head>,
}

/// Why a file is not one of ours.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Somebody else made it, as this shows.
    Foreign(&'static str),
    /// It could not be looked at.
    Io(Errno),
}

impl From<Errno> for Refusal {
    fn from(e: Errno) -> Self {
        Self::Io(e)
    }
}

impl Refusal {
    fn at(self, dir: &Path, name: &str) -> Trouble {
        match self {
            Self::Io(e) => Trouble::below(Stage::Open, "cannot look at", dir, name, e),
            Self::Foreign(why) => {
                let at = dir.join(name);
                let message =
                    format!("{} is not ours: {why}. It was not touched; move it away", at.display());
                Trouble::unsupported(Stage::Open, Errno::EEXIST, message)
            }
        }
    }
}

/// The file of this name in our directory; `None` when there is none. A foreign one is an error, and is left alone.
pub(super) fn look(dir: &Dir, path: &Path, name: &str, cost: &mut Cost) -> Result<Option<Ours>, Trouble> {
    examine(dir, name, cost).map_err(|refusal| refusal.at(path, name))
}

/// Removes the file of this name after a look at it in this very moment; `false` when there is none.
pub(super) fn remove(dir: &Dir, path: &Path, name: &str, cost: &mut Cost) -> Result<bool, Trouble> {
    let Some(ours) = look(dir, path, name, cost)? else { return Ok(false) };
    match dir.stat(name) {
        Ok(named) if named.identity() == ours.stat.identity() => {}
        Ok(_) => return Err(Refusal::Foreign("it was put there this moment").at(path, name)),
        Err(Errno::ENOENT) => return Ok(false),
        Err(e) => return Err(Refusal::Io(e).at(path, name)),
    }
    match dir.remove_file(name) {
        Ok(()) => Ok(true),
        Err(Errno::ENOENT) => Ok(false),
        Err(e) => Err(Trouble::below(Stage::Open, "cannot remove", path, name, e)),
    }
}

/// As [`look`], with the reason apart.
pub(super) fn examine(dir: &Dir, name: &str, cost: &mut Cost) -> Result<Option<Ours>, Refusal> {
    match dir.kind(name) {
        Err(Errno::ENOENT) => return Ok(None),
        Ok(EntryKind::File) => {}
        Ok(_) => return Err(Refusal::Foreign("it is no regular file")),
        Err(e) => return Err(e.into()),
    }
    let file = dir.open_file(name, Direct::No)?;
    let stat = file.stat()?;
    if let Some(why) = stranger(&stat) {
        return Err(Refusal::Foreign(why));
    }
    let mut block = [0; BLOCK];
    let read = cost.read(file.read_at(&mut block, 0))?;
    let head = Head::read_from(&block[..read]);
    // Left by a crash before its head was durable, or put there empty: no byte of it is anybody's. Or our magic over broken
    // bytes: ours, and not to be trusted.
    let ours =
        head.is_some() || content::open(&block[..read]) == Err(Wrong::Checksum) || all_zero(&file, cost)?;
    // The head must be read from the disk the next time too, not from the page cache.
    let _ = file.drop_cached();
    if ours {
        Ok(Some(Ours { stat, head }))
    } else {
        Err(Refusal::Foreign("it does not begin with our mark"))
    }
}

fn stranger(stat: &FileStat) -> Option<&'static str> {
    match stat {
        _ if stat.uid != sys::user_id() => Some("it belongs to another user"),
        _ if stat.links > 1 => Some("it has a second name elsewhere"),
        _ if stat.links == 0 => Some("it was removed"),
        _ => None,
    }
}

/// Whether no byte of the file was ever anything but zero, as far as [`MOST_ZEROS`] of written ones; holes cost nothing.
fn all_zero(file: &File, cost: &mut Cost) -> Result<bool, Errno> {
    let mut chunk = Buffer::new(CHUNK)?;
    let (mut at, mut looked) = (0, 0);
    while let Some((begin, end)) = file.data_from(at)? {
        at = begin;
        while at < end {
            let len = CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK));
            let read = cost.read(file.read_at(&mut chunk[..len], at))?;
            looked += read as u64;
            if chunk[..read].iter().any(|b| *b != 0) || looked > MOST_ZEROS {
                return Ok(false);
            }
            if read == 0 {
                return Ok(true);
            }
            at += read as u64;
        }
    }
    Ok(true)
}
