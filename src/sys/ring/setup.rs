//! Making a ring, step by step, each step proven by doing it: a kernel's version says nothing about what a
//! container, a sandbox or a limit allows.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use io_uring::{IoUring, Probe, opcode};
use rustix::process::{Resource, getrlimit};

use super::{Delivery, Handle, Slot};
use crate::sys::{Errno, is_root};

/// At which step the making of a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingStep {
    /// Buffers, or another handle on the source.
    Memory,
    /// `io_uring_setup` and the mapping of its memory.
    Setup,
    /// Asking which operations it knows (it must read and write).
    Operations,
    /// The first operation, which does nothing.
    FirstOperation,
}

/// Why there is no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFailure {
    /// At which step.
    pub step: RingStep,
    /// What the kernel said.
    pub errno: Errno,
}

impl fmt::Display for RingFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            RingStep::Memory => "its buffers",
            RingStep::Setup => "set-up",
            RingStep::Operations => "the list of operations",
            RingStep::FirstOperation => "the first operation",
        };
        write!(f, "{} at {step}", self.errno)?;
        match self.errno {
            Errno::ENOMEM => f.write_str("; the locked-memory limit (ulimit -l) is used up"),
            Errno::EPERM => {
                f.write_str("; a container's seccomp profile or kernel.io_uring_disabled forbids it")
            }
            Errno::ENOSYS => f.write_str("; this kernel has none"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for RingFailure {}

/// The submission queue is emptied at each submit, so it may be smaller than the depth. Up to 64 entries a ring
/// takes two pages, the least there is: with fewer entries it would not become smaller.
const MOST_ENTRIES: u32 = 64;

pub(super) fn ring(depth: u16, delivery: Delivery) -> Result<IoUring, RingFailure> {
    let fail = |step| move |e: std::io::Error| RingFailure { step, errno: e.into() };
    let mut ring = build(u32::from(depth), delivery).map_err(fail(RingStep::Setup))?;
    let mut known = Probe::new();
    ring.submitter().register_probe(&mut known).map_err(fail(RingStep::Operations))?;
    if !known.is_supported(opcode::Read::CODE) || !known.is_supported(opcode::Write::CODE) {
        return Err(RingFailure { step: RingStep::Operations, errno: Errno::EOPNOTSUPP });
    }
    first_operation(&mut ring).map_err(|errno| RingFailure { step: RingStep::FirstOperation, errno })?;
    Ok(ring)
}

/// Two kinds of ring, the quicker first. Any refusal of the first may be one of its flags alone, which is why
/// the plain ring is tried whatever the errno was.
fn build(depth: u32, delivery: Delivery) -> std::io::Result<IoUring> {
    let entries = depth.next_power_of_two().min(MOST_ENTRIES);
    let completions = depth.next_power_of_two() * 2;
    let mut plain = IoUring::builder();
    plain.setup_cqsize(completions);
    match delivery {
        Delivery::Anytime => plain.build(entries),
        Delivery::WhenAsked => plain
            .clone()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| plain.build(entries)),
    }
}

fn first_operation(ring: &mut IoUring) -> Result<(), Errno> {
    // SAFETY: the operation uses no memory.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(|_| Errno::EBUSY)?;
    super::again_if_interrupted(|| ring.submit_and_wait(1))?;
    match ring.completion().next().map(|done| done.result()) {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw(-error)),
        None => Err(Errno::EIO),
    }
}

/// Registers the source with the ring, which saves its look-up at each operation and a descriptor; where the
/// kernel refuses, the ring goes on with the descriptor.
pub(super) fn register_source(ring: &IoUring, fd: OwnedFd) -> Handle {
    match ring.submitter().register_files(&[fd.as_raw_fd()]) {
        Ok(()) => Handle::Registered,
        Err(_) => Handle::Descriptor(fd),
    }
}

/// Registers the buffers, which saves pinning them at each operation; `false` where locked memory is scarce or the
/// kernel refuses.
pub(super) fn register_buffers(ring: &IoUring, slots: &mut [Slot], part_of_locked: u64) -> bool {
    let bytes: usize = slots.iter().map(|slot| slot.buffer.len()).sum();
    let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    if !is_root() && bytes as u64 > limit / part_of_locked.max(1) {
        return false;
    }
    let vectors: Vec<libc::iovec> = slots
        .iter_mut()
        .map(|slot| libc::iovec { iov_base: slot.buffer.as_mut_ptr().cast(), iov_len: slot.buffer.len() })
        .collect();
    // SAFETY: the buffers belong to the `Ring` and are freed only after the ring is, or never.
    unsafe { ring.submitter().register_buffers(&vectors) }.is_ok()
}

pub(super) fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}
