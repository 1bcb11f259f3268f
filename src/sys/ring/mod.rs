//! A ring (io_uring), the buffers that its operations use, and its hold on the file they go to.
//!
//! Invariant: a buffer whose operation is out is not handed out, not used for another operation and not freed.
//! A ring that is dropped while operations are out is leaked with all it owns: an operation on a disk cannot be
//! called back, and whenever it ends, the kernel still writes into the memory it was given.

mod setup;

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

pub use setup::{RingFailure, RingStep};

use super::{Buffer, Errno, Pool};

/// When the kernel puts completions where [`Ring::ready`] sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// In [`Ring::wait`] alone: the thread is not interrupted for each of them.
    WhenAsked,
    /// At any time, so that one can poll for them without a system call.
    Anytime,
}

/// Where the memory of a ring comes from.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Its buffers.
    pub pool: Pool,
    /// What registered buffers may take of the locked memory that the user's processes have in all, as a divisor. A registered
    /// buffer saves little, and a ring that finds the limit used up is none.
    pub part_of_locked: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self { pool: Pool::unbounded(), part_of_locked: 64 }
    }
}

/// Which way the bytes of an operation go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// From the file into the slot's buffer.
    Read,
    /// From the slot's buffer into the file.
    Write,
}

struct Slot {
    buffer: Buffer,
    /// Counts the slot's operations, so that each has a number of its own.
    generation: u32,
    out: bool,
}

enum Handle {
    Registered,
    Descriptor(OwnedFd),
}

/// A ring over one file. It stays on the thread that made it: the kernel takes submissions of that one only.
pub struct Ring {
    ring: ManuallyDrop<IoUring>,
    slots: ManuallyDrop<Vec<Slot>>,
    source: ManuallyDrop<Handle>,
    registered_buffers: bool,
    outstanding: u16,
    /// Set once the kernel refuses to be entered: whatever is out then stays out.
    lost: Option<Errno>,
    on_one_thread: PhantomData<*const ()>,
    #[cfg(test)]
    read_flags: i32,
}

/// How often, and how far apart, a kernel that is short of memory (`EAGAIN`, `EBUSY`) is asked again.
const MOST_TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

impl Ring {
    /// A ring with `depth` slots, each with a buffer of `block` bytes, for operations on `fd`. Any failure, of
    /// whatever step, says that there is no ring to be had here; that file or buffers cannot be registered is none.
    pub fn new(
        fd: BorrowedFd<'_>,
        depth: u16,
        block: u32,
        delivery: Delivery,
        memory: &Memory,
    ) -> Result<Self, RingFailure> {
        let no_memory = |errno| RingFailure { step: RingStep::Memory, errno };
        let buffers = memory.pool.buffers(usize::from(depth), block as usize).map_err(no_memory)?;
        let slot = |buffer| Slot { buffer, generation: 0, out: false };
        let mut slots: Vec<Slot> = buffers.into_iter().map(slot).collect();
        let fd = setup::duplicate(fd).map_err(no_memory)?;
        let ring = setup::ring(depth, delivery)?;
        let source = setup::register_source(&ring, fd);
        let registered_buffers = setup::register_buffers(&ring, &mut slots, memory.part_of_locked);
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            slots: ManuallyDrop::new(slots),
            source: ManuallyDrop::new(source),
            registered_buffers,
            outstanding: 0,
            lost: None,
            on_one_thread: PhantomData,
            #[cfg(test)]
            read_flags: 0,
        })
    }

    /// From here on, reads that would have to wait are answered `EAGAIN`.
    #[cfg(test)]
    pub(crate) fn never_wait(&mut self) {
        self.read_flags = libc::RWF_NOWAIT;
    }

    /// The slot's buffer; `None` while the kernel may use it, and for a slot that does not exist.
    pub fn buffer(&mut self, slot: u16) -> Option<&mut [u8]> {
        let slot = self.slots.get_mut(usize::from(slot))?;
        (!slot.out).then_some(&mut *slot.buffer)
    }

    /// Queues an operation; the kernel takes it with the next [`Ring::submit`] or [`Ring::wait`]. `EBUSY`: the
    /// slot is out; `EINVAL`: no such slot, or longer than its buffer; `EAGAIN`: the queue is full.
    pub fn push(&mut self, transfer: Transfer, slot: u16, offset: u64, len: u32) -> Result<(), Errno> {
        if let Some(errno) = self.lost {
            return Err(errno);
        }
        let fixed = self.registered_buffers;
        let Some(its) = self.slots.get_mut(usize::from(slot)) else { return Err(Errno::EINVAL) };
        if its.out {
            return Err(Errno::EBUSY);
        }
        if len as usize > its.buffer.len() {
            return Err(Errno::EINVAL);
        }
        let (start, name) = (its.buffer.as_mut_ptr(), number(slot, its.generation.wrapping_add(1)));
        let (fd, flags) = match &*self.source {
            Handle::Registered => (Fd(0), squeue::Flags::FIXED_FILE),
            Handle::Descriptor(fd) => (Fd(fd.as_raw_fd()), squeue::Flags::empty()),
        };
        let entry = match (transfer, fixed) {
            (Transfer::Read, true) => opcode::ReadFixed::new(fd, start, len, slot).offset(offset).build(),
            (Transfer::Read, false) => opcode::Read::new(fd, start, len).offset(offset).build(),
            (Transfer::Write, true) => opcode::WriteFixed::new(fd, start, len, slot).offset(offset).build(),
            (Transfer::Write, false) => opcode::Write::new(fd, start, len).offset(offset).build(),
        };
        #[cfg(test)]
        let entry = match transfer {
            Transfer::Read if self.read_flags != 0 => {
                opcode::Read::new(fd, start, len).rw_flags(self.read_flags).offset(offset).build()
            }
            _ => entry,
        };
        // SAFETY: the buffer holds `len` bytes and belongs to the slot, which is marked as out until the
        // operation's completion is taken; until then nothing reads, writes or frees it (see `Drop`).
        unsafe { self.ring.submission().push(&entry.flags(flags).user_data(name)) }
            .map_err(|_| Errno::EAGAIN)?;
        its.generation = its.generation.wrapping_add(1);
        its.out = true;
        self.outstanding += 1;
        Ok(())
    }

    /// Hands what is queued to the kernel; with nothing queued, no system call. Where the kernel is short of memory
    /// the operations stay queued, and the next entry into the kernel takes them. An error says that the ring is lost.
    pub fn submit(&mut self) -> Result<(), Errno> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match again_if_interrupted(|| self.ring.submit()) {
            Err(errno) if !short_of_memory(errno) => {
                self.lost = Some(errno);
                Err(errno)
            }
            _ => Ok(()),
        }
    }

    /// Returns as soon as an operation is back, having handed what is queued to the kernel if none was. With
    /// nothing outstanding it returns without a system call: a thread that waits in a ring counts as waiting for
    /// a disk, and the whole host would look it. An error says that the ring is lost.
    pub fn wait(&mut self) -> Result<(), Errno> {
        let mut tries = 0;
        while self.outstanding > 0 && self.ready() == 0 {
            if let Some(errno) = self.lost {
                return Err(errno);
            }
            match again_if_interrupted(|| self.ring.submit_and_wait(1)) {
                Ok(()) => {}
                Err(errno) if tries < MOST_TRIES && short_of_memory(errno) => {
                    tries += 1;
                    std::thread::sleep(BETWEEN_TRIES);
                }
                Err(errno) => self.lost = Some(errno),
            }
        }
        Ok(())
    }

    /// Returns as soon as an operation is back, or after `time`. What is queued must be submitted before. An error says that the ring
    /// is lost.
    pub fn wait_for(&mut self, time: Duration) -> Result<(), Errno> {
        if self.outstanding == 0 || self.ready() > 0 {
            return Ok(());
        }
        if let Some(errno) = self.lost {
            return Err(errno);
        }
        if !self.ring.params().is_feature_ext_arg() {
            // A kernel that cannot wait for so long (before 5.11) is looked at again and again.
            std::thread::sleep(time.min(BETWEEN_TRIES));
            return Ok(());
        }
        let time = Timespec::from(time);
        let until = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &until).map_err(Errno::from) {
            Err(Errno::ETIME | Errno::EINTR | Errno::EAGAIN | Errno::EBUSY) | Ok(_) => Ok(()),
            Err(errno) => {
                self.lost = Some(errno);
                Err(errno)
            }
        }
    }

    /// How many completions [`Ring::take`] has to give. No system call.
    #[inline]
    pub fn ready(&mut self) -> usize {
        self.ring.completion().len()
    }

    /// The next completion: its slot, which is free again, and its result.
    #[inline]
    pub fn take(&mut self) -> Option<(u16, Result<u32, Errno>)> {
        loop {
            let done = self.ring.completion().next()?;
            let slot = (done.user_data() & 0xffff) as u16;
            let Some(its) = self.slots.get_mut(usize::from(slot)) else { continue };
            // Only the completion of the very operation that is out frees the slot.
            if !its.out || number(slot, its.generation) != done.user_data() {
                continue;
            }
            its.out = false;
            self.outstanding -= 1;
            let result = done.result();
            return Some((slot, u32::try_from(result).map_err(|_| Errno::from_raw(-result))));
        }
    }
}

/// An operation's own number.
fn number(slot: u16, generation: u32) -> u64 {
    u64::from(generation) << 16 | u64::from(slot)
}

fn short_of_memory(errno: Errno) -> bool {
    errno == Errno::EAGAIN || errno == Errno::EBUSY
}

/// Calls again as long as a signal ends the call.
fn again_if_interrupted(mut call: impl FnMut() -> std::io::Result<usize>) -> Result<(), Errno> {
    loop {
        match call().map_err(Errno::from) {
            Err(Errno::EINTR) => {}
            answer => return answer.map(drop),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.outstanding > 0 {
            return;
        }
        // The kernel takes a ring apart in its own time; file and locked memory are wanted back now.
        let _ = self.ring.submitter().unregister_files();
        let _ = self.ring.submitter().unregister_buffers();
        // SAFETY: each is dropped once, here, and not used after; no operation is out that could use them.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.slots);
            ManuallyDrop::drop(&mut self.source);
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("depth", &self.slots.len())
            .field("outstanding", &self.outstanding)
            .field("registered_source", &matches!(*self.source, Handle::Registered))
            .field("registered_buffers", &self.registered_buffers)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
