//! Probe files: laid out with real writes at a limited rate, marked complete only after they are durable, and known again
//! after a restart, also one in the middle of a layout.
//!
//! Block 0 is the head: a sealed block whose body says how long the file is, how long it was wished, and whether it is
//! complete. Blocks 1 to n − 1 are sealed random bytes. `fallocate` is never used: a read of an extent that was
//! allocated but never written does not reach the disk.

use std::path::Path;
use std::time::Duration;

pub use super::head::Head;

use super::content::{self, BLOCK, Stamp};
use super::head::{self, Ours};
use super::home::{self, Home};
use super::{Cost, Stage, Trouble};
use crate::clock::Tick;
use crate::io::{Inflight, MOST_RETRIES, Op};
use crate::sys::{Buffer, Dir, Direct, Errno, Extents, File, Space};
use crate::units::Bytes;

/// Bytes written between two looks at the clock: a lane is held for one slice.
pub const SLICE: u64 = 4 << 20;
/// Bytes a second at which the read file is laid out. The commit file comes first and unhindered, so that commits move within
/// seconds; it is small.
pub const RATE: Bytes = Bytes::mib(64);
/// Bytes of one write.
pub(in crate::probe) const CHUNK: usize = 256 << 10;

/// Which probe file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The commit probe's.
    Commits,
    /// The read probe's.
    Reads,
}

impl Role {
    /// Its name in `.diskcanary`.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Commits => "commits",
            Self::Reads => "reads",
        }
    }

    /// The least size that is worth probing.
    pub const fn minimum(self) -> Bytes {
        match self {
            Self::Commits => Bytes::mib(4),
            Self::Reads => Bytes::mib(64),
        }
    }
}

/// How big a probe file should be, and what must stay free beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The size configured.
    pub size: Bytes,
    /// What must stay free; `None`: the smaller of 5 % of the file system and 10 GiB.
    pub reserve: Option<Bytes>,
}

/// What lies where a probe file should be.
#[derive(Debug)]
pub enum Found {
    /// A complete file of ours, of the size wished.
    Ready(Head),
    /// Nothing, or something of ours that must be laid out anew.
    Lay,
}

/// The head of a complete file of ours in the `.diskcanary` in `parent`, whatever its size; `None` where there is none that
/// we can see. Takes no lock and makes nothing, so that it can be asked beside a running daemon.
pub fn there(parent: &Path, role: Role) -> Option<Head> {
    let home = Dir::open(parent).and_then(|above| above.subdirectory(home::NAME)).ok()?;
    let file = home.open_file(role.file_name(), Direct::No).ok()?;
    let mut block = [0; BLOCK];
    let read = file.read_at(&mut block, 0).ok()?;
    let head = Head::read_from(&block[..read])?;
    (head.complete && head.size == file.stat().ok()?.size).then_some(head)
}

/// Looks at the file of `role`. A file that we did not make is an error, and is left alone. One of ours that was never
/// finished, and for which there is no room any more, is removed: it would hold space for nothing.
pub fn look(home: &Home, role: Role, wish: Wish, cost: &mut Cost) -> Result<Found, Trouble> {
    let there = head::look(home.dir(), home.path(), role.file_name(), cost)?;
    if let Some(Ours { stat, head: Some(head) }) = there
        && (head.complete && head.size == stat.size && head.wished == wish.size.get())
    {
        return Ok(Found::Ready(head));
    }
    let space = home.space()?;
    let held = there.as_ref().map_or(0, |ours| ours.stat.size);
    let available = space.available.saturating_add(held).min(space.total);
    let fits = size_for(Space { available, ..space }, role, wish);
    if fits.is_err() && there.is_some_and(|ours| !ours.head.is_some_and(|head| head.complete)) {
        head::remove(home.dir(), home.path(), role.file_name(), cost)?;
    }
    fits.map(|_| Found::Lay)
}

/// Writes a probe file in slices.
#[derive(Debug)]
pub struct Layout {
    role: Role,
    laying: Laying,
}

/// How far a layout is.
#[derive(Debug)]
pub enum Progress {
    /// Bytes written so far, of how many.
    Going(u64, u64),
    /// Complete and durable. Extents say whether the file system agrees that all was written.
    Done(Head, Extents),
}

impl Layout {
    /// Removes what was there, decides the size by the space that is free, and begins. `random` must differ from
    /// run to run.
    pub fn begin(
        home: &Home,
        role: Role,
        wish: Wish,
        random: fastrand::Rng,
        cost: &mut Cost,
    ) -> Result<Self, Trouble> {
        // Long after it was looked at: somebody may have put his own there since.
        head::remove(home.dir(), home.path(), role.file_name(), cost)?;
        let size = size_for(home.space()?, role, wish)?;
        let sizes = Sizes { size, wished: wish.size.get() };
        let laying = Laying::begin(home.dir(), home.path(), role.file_name(), sizes, random, cost)?;
        Ok(Self { role, laying })
    }

    /// Which file it is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Writes the next slice and makes it durable, so that what the device's cache holds of it does not fall into the
    /// next commit's time. A failure ends the layout and gives its space back; drop it and begin again. `EBADMSG`: somebody
    /// else had his hands in the file.
    pub fn step(
        &mut self,
        home: &Home,
        now: Tick,
        inflight: &Inflight,
        cost: &mut Cost,
    ) -> Result<Progress, Trouble> {
        self.laying.step(home.dir(), home.path(), now, inflight, cost)
    }
}

/// Bytes of a file that is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// That it gets.
    pub(super) size: u64,
    /// That were asked for.
    pub(super) wished: u64,
}

/// A file of ours that is being laid out, of whatever name and size.
#[derive(Debug)]
pub(super) struct Laying {
    name: String,
    head: Head,
    file: File,
    buffer: Buffer,
    random: fastrand::Rng,
    written: u64,
}

impl Laying {
    /// Removes what was there and begins. `random` must differ from run to run.
    pub(super) fn begin(
        dir: &Dir,
        path: &Path,
        name: &str,
        Sizes { size, wished }: Sizes,
        mut random: fastrand::Rng,
        cost: &mut Cost,
    ) -> Result<Self, Trouble> {
        let fail = |e| Trouble::below(Stage::Layout, "cannot create", path, name, e);
        head::remove(dir, path, name, cost)?;
        let file = match dir.create_file(name, Direct::Yes) {
            // Some file systems create the file before they refuse O_DIRECT.
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => {
                head::remove(dir, path, name, cost)?;
                dir.create_file(name, Direct::No)
            }
            other => other,
        }
        .map_err(fail)?;
        let head = Head { file: random.u64(1..), size, wished, complete: false };
        let buffer = Buffer::new(CHUNK).map_err(fail)?;
        Ok(Self { name: name.to_owned(), head, file, buffer, random, written: 0 })
    }

    /// As [`Layout::step`].
    pub(super) fn step(
        &mut self,
        dir: &Dir,
        path: &Path,
        now: Tick,
        inflight: &Inflight,
        cost: &mut Cost,
    ) -> Result<Progress, Trouble> {
        inflight.begin(Op::Layout, now);
        let progress = self.write_slice(dir, cost);
        if progress.is_err() {
            self.give_back(dir);
        }
        inflight.end(Op::Layout);
        progress.map_err(|e| {
            let at = path.join(&self.name);
            let why = if e == Errno::EBADMSG { ", which was changed or removed meanwhile" } else { "" };
            Trouble::io(Stage::Layout, format_args!("cannot write the probe file {}{why}", at.display()), e)
        })
    }

    fn write_slice(&mut self, dir: &Dir, cost: &mut Cost) -> Result<Progress, Errno> {
        self.still_ours(dir)?;
        let end = (self.written + SLICE).min(self.head.size);
        while self.written < end {
            let len = CHUNK.min(usize::try_from(self.head.size - self.written).unwrap_or(CHUNK));
            self.fill(len);
            write_all(&self.file, &self.buffer[..len], self.written, cost)?;
            self.written += len as u64;
        }
        cost.sync(self.file.fdatasync())?;
        if self.written < self.head.size {
            return Ok(Progress::Going(self.written, self.head.size));
        }
        cost.sync(self.file.fsync())?;
        let extents = self.file.extents()?;
        self.still_ours(dir)?;
        self.head.complete = true;
        self.head.seal_into(&mut self.buffer[..BLOCK]);
        write_all(&self.file, &self.buffer[..BLOCK], 0, cost)?;
        cost.sync(self.file.fsync())?;
        let _ = self.file.drop_cached();
        Ok(Progress::Done(self.head, extents))
    }

    /// `EBADMSG` unless the file has its one name yet, and the length that we gave it.
    fn still_ours(&self, dir: &Dir) -> Result<(), Errno> {
        let stat = self.file.stat()?;
        let named = self.is_named(dir);
        if named && stat.links == 1 && stat.size == self.written { Ok(()) } else { Err(Errno::EBADMSG) }
    }

    fn is_named(&self, dir: &Dir) -> bool {
        let under_name = dir.stat(&self.name);
        under_name.is_ok_and(|named| self.file.stat().is_ok_and(|own| own.identity() == named.identity()))
    }

    /// Half a file is of no use. What the name stands for by now may be somebody else's.
    pub(super) fn give_back(&self, dir: &Dir) {
        if self.is_named(dir) {
            let _ = dir.remove_file(&self.name);
        }
    }

    fn fill(&mut self, len: usize) {
        let first = self.written / BLOCK as u64;
        for (block, number) in self.buffer[..len].chunks_exact_mut(BLOCK).zip(first..) {
            if number == 0 {
                self.head.seal_into(block);
            } else {
                content::fill(block, Stamp { file: self.head.file, number, generation: 0 }, &mut self.random);
            }
        }
    }
}

/// How long a slice may take at most, to stay below `rate` bytes a second.
pub fn pace(rate: Bytes) -> Duration {
    Duration::from_secs_f64(SLICE as f64 / (rate.get().max(1)) as f64)
}

fn write_all(file: &File, mut bytes: &[u8], mut at: u64, cost: &mut Cost) -> Result<(), Errno> {
    let mut interrupted = 0;
    while !bytes.is_empty() {
        let n = match cost.write(file.write_at(bytes, at)) {
            Ok(0) => return Err(Errno::ENOSPC),
            Err(Errno::EINTR) if interrupted < MOST_RETRIES => {
                interrupted += 1;
                continue;
            }
            other => other?,
        };
        bytes = &bytes[n..];
        at += n as u64;
    }
    Ok(())
}

/// The bytes that a probe file gets: what is wished, at most 5 % of the free space, whole blocks, and only when the
/// reserve stays free; else why there is no room, with the numbers.
pub fn size_for(space: Space, role: Role, wish: Wish) -> Result<u64, Trouble> {
    let size = wish.size.get().min(space.available / 20) / BLOCK as u64 * BLOCK as u64;
    let reserve = wish.reserve.map_or((space.total / 20).min(10 << 30), Bytes::get);
    let name = role.file_name();
    let free = Bytes::new(space.available);
    if size < role.minimum().get() {
        return Err(Trouble::no_space(format!(
            "no room for the probe file `{name}`: it takes at most 5 % of the {free} free, and at least {}",
            role.minimum()
        )));
    }
    if space.available - size < reserve {
        return Err(Trouble::no_space(format!(
            "no room for the probe file `{name}` of {}: of {free} free, the reserve of {} must stay",
            Bytes::new(size),
            Bytes::new(reserve)
        )));
    }
    Ok(size)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests look at files from outside")]
mod tests;
