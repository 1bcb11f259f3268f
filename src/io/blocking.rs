//! One operation by a blocking system call.

use std::os::fd::BorrowedFd;

use super::{Completion, Direction, MOST_RETRIES, Request, Source};
use crate::clock;
use crate::sys::Errno;

impl Source {
    /// Whether it may be written to.
    pub(super) fn writable(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.fd(),
            Self::Device(device) => device.fd(),
        }
    }

    /// One `pread`: how many bytes came, which may be fewer than asked for.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self {
            Self::File(file) => file.read_at(into, offset),
            Self::Device(device) => device.read_at(into, offset),
        }
    }

    /// Another handle on the same open file.
    pub fn duplicate(&self) -> Result<Self, Errno> {
        match self {
            Self::File(file) => Ok(Self::File(file.duplicate()?)),
            Self::Device(device) => Ok(Self::Device(device.duplicate()?)),
        }
    }

    fn transfer(&self, direction: Direction, block: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match (self, direction) {
            (Self::File(file), Direction::Read) => file.read_at(block, offset),
            (Self::File(file), Direction::Write) => file.write_at(block, offset),
            (Self::Device(device), Direction::Read) => device.read_at(block, offset),
            (Self::Device(_), Direction::Write) => Err(Errno::EBADF),
        }
    }

    /// Carries out `request` with `buffer`, stamped right before and right after the system call.
    pub(super) fn run(&self, request: Request, buffer: &mut [u8]) -> Completion {
        let block = &mut buffer[..request.len as usize];
        let mut retries = 0;
        let submitted = clock::now();
        let answer = loop {
            match self.transfer(request.direction, block, request.offset) {
                // No signal of ours interrupts a system call: a disk that says so for ever must not have us ask for ever.
                Err(Errno::EAGAIN | Errno::EINTR) if retries < MOST_RETRIES => retries += 1,
                answer => break answer,
            }
        };
        let completed = clock::now();
        // No more than `len`, which is a u32, can have been transferred.
        let result = answer.map(|bytes| bytes as u32);
        Completion { slot: request.slot, submitted, completed, result, retries }
    }
}
