//! Page-aligned memory that may be handed to the kernel.

use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::Errno;

/// Zeroed memory of its own pages. It is owned by exactly one place at a time: whoever hands it to an
/// operation gives it away until the operation is back, so that nobody can free or reuse it meanwhile.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    mapped: usize,
}

// SAFETY: the memory belongs to this value alone, as with `Box<[u8]>`.
unsafe impl Send for Buffer {}

impl Buffer {
    /// At least `len` bytes, rounded up to whole pages, zeroed; the pages are touched, so that a timed
    /// section never faults them in.
    pub fn new(len: usize) -> Result<Self, Errno> {
        let mapped = len.max(1).next_multiple_of(super::page_size());
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let start = unsafe {
            mmap_anonymous(null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::ENOMEM)?;
        // SAFETY: `mapped` bytes from `start` were just mapped for writing.
        unsafe { start.as_ptr().write_bytes(0, mapped) };
        Ok(Self { start, len, mapped })
    }

    /// Address of the first byte, for operations that the kernel carries out.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len <= mapped` initialised bytes, owned by `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len <= mapped` initialised bytes, owned by `self`, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this address and length, and owned by this value alone.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_page_and_zeroed() {
        let mut buffer = Buffer::new(5000).unwrap();
        assert_eq!(buffer.as_mut_ptr() as usize % super::super::page_size(), 0);
        assert_eq!(buffer.len(), 5000);
        assert!(buffer.iter().all(|b| *b == 0));
        buffer[4999] = 7;
        assert_eq!(buffer[4999], 7);
    }
}
