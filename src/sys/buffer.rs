//! Page-aligned memory that may be handed to the kernel.

use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::Errno;

/// Zeroed memory of its own pages. It is owned by exactly one place at a time: whoever hands it to an
/// operation gives it away until the operation is back, so that nobody can free or reuse it meanwhile.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    mapped: usize,
    /// Given back when the memory is.
    #[allow(dead_code, reason = "held for its end")]
    share: Option<Share>,
}

/// A bound on the memory of many buffers. A buffer that an operation keeps for ever keeps its share of the bound too.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Bound>);

#[derive(Debug)]
struct Bound {
    limit: u64,
    used: AtomicU64,
}

/// So many bytes of a bound.
#[derive(Debug)]
struct Share {
    of: Arc<Bound>,
    bytes: u64,
}

impl Pool {
    /// Of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Bound { limit, used: AtomicU64::new(0) }))
    }

    /// As many as the machine gives.
    pub fn unbounded() -> Self {
        Self::new(u64::MAX)
    }

    /// The bound, in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.0.limit.saturating_sub(self.0.used.load(Relaxed))
    }

    /// What a buffer of `len` bytes takes of the bound: whole pages.
    pub fn takes(len: usize) -> u64 {
        len.max(1).next_multiple_of(super::page_size()) as u64
    }

    /// As [`Buffer::new`]; `ENOMEM` also when less than this is left.
    pub fn buffer(&self, len: usize) -> Result<Buffer, Errno> {
        let bytes = Self::takes(len);
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.0.limit);
        self.0.used.fetch_update(Relaxed, Relaxed, more).map_err(|_| Errno::ENOMEM)?;
        let share = Share { of: Arc::clone(&self.0), bytes };
        let mut buffer = Buffer::new(len)?;
        buffer.share = Some(share);
        Ok(buffer)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.bytes, Relaxed);
    }
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
        Ok(Self { start, len, mapped, share: None })
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

    #[test]
    fn a_pool_gives_no_more_than_its_bound() {
        let page = super::super::page_size();
        let pool = Pool::new(3 * page as u64);
        let (first, second) = (pool.buffer(1).unwrap(), pool.buffer(page + 1).unwrap());
        assert_eq!((pool.left(), pool.buffer(1).unwrap_err()), (0, Errno::ENOMEM));
        drop(second);
        assert_eq!(pool.left(), 2 * page as u64);
        drop(first);
        assert_eq!(pool.left(), pool.limit());
        assert_eq!(pool.buffer(4 * page).unwrap_err(), Errno::ENOMEM);
    }
}
