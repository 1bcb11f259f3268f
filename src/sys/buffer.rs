//! Page-aligned memory that may be handed to the kernel.

use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::Errno;

/// From here on large pages are asked for.
const LARGE: usize = 2 << 20;

/// Zeroed memory of its own pages. It is owned by exactly one place at a time: whoever hands it to an
/// operation gives it away until the operation is back, so that nobody can free or reuse it meanwhile.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// Unmapped when the last buffer in it is gone.
    #[allow(dead_code, reason = "held for its end")]
    mapping: Arc<Mapping>,
}

/// Pages that belong to one buffer or to several.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
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

    /// As [`Buffer::new`], so many; `ENOMEM` also when less than this is left.
    pub fn buffers(&self, count: usize, len: usize) -> Result<Vec<Buffer>, Errno> {
        let bytes = Self::takes(len).checked_mul(count as u64).ok_or(Errno::ENOMEM)?;
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.0.limit);
        self.0.used.fetch_update(Relaxed, Relaxed, more).map_err(|_| Errno::ENOMEM)?;
        Buffer::several(count, len, Some(Share { of: Arc::clone(&self.0), bytes }))
    }

    /// One of them.
    pub fn buffer(&self, len: usize) -> Result<Buffer, Errno> {
        self.buffers(1, len)?.pop().ok_or(Errno::ENOMEM)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.bytes, Relaxed);
    }
}

// SAFETY: the memory belongs to this value alone, as with `Box<[u8]>`.
unsafe impl Send for Buffer {}

// SAFETY: nothing but its end is done with it, and that by the last who has it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Buffer {
    /// At least `len` bytes, rounded up to whole pages, zeroed; the pages are touched, so that a timed
    /// section never faults them in.
    pub fn new(len: usize) -> Result<Self, Errno> {
        Self::several(1, len, None)?.pop().ok_or(Errno::ENOMEM)
    }

    /// Several of them side by side, so that many small ones, or a few large ones, may lie in large pages: that is less work for
    /// the kernel at each operation.
    fn several(count: usize, len: usize, share: Option<Share>) -> Result<Vec<Self>, Errno> {
        let each = len.max(1).next_multiple_of(super::page_size());
        let mapping = Arc::new(Mapping::new(each.checked_mul(count).ok_or(Errno::ENOMEM)?, share)?);
        let one = |at| {
            // SAFETY: the mapping has `count` times `each` bytes.
            let start = unsafe { mapping.start.add(at * each) };
            Self { start, len, mapping: Arc::clone(&mapping) }
        };
        Ok((0..count).map(one).collect())
    }

    /// Address of the first byte, for operations that the kernel carries out.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Mapping {
    fn new(len: usize, share: Option<Share>) -> Result<Self, Errno> {
        let len = len.max(super::page_size());
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let start = unsafe {
            mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::ENOMEM)?;
        let mapping = Self { start, len, share };
        if len >= LARGE {
            // SAFETY: the range was just mapped, and how its pages are made changes nothing of what they hold.
            let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
        }
        // SAFETY: `len` bytes from `start` were just mapped for writing.
        unsafe { start.as_ptr().write_bytes(0, len) };
        Ok(mapping)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes, owned by `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialised bytes, owned by `self`, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this address and length; the last buffer in it is gone.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
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
    fn neighbours_do_not_overlap_and_outlive_each_other() {
        let pool = Pool::new(16 << 20);
        let mut buffers = pool.buffers(5, 1 << 20).unwrap();
        for (buffer, byte) in buffers.iter_mut().zip(1..) {
            assert!(buffer.len() == 1 << 20 && buffer.iter().all(|b| *b == 0));
            buffer.fill(byte);
        }
        let last = buffers.pop().unwrap();
        assert!(buffers.iter().zip(1..).all(|(buffer, byte)| buffer.iter().all(|b| *b == byte)));
        drop(buffers);
        assert!(last.iter().all(|b| *b == 5));
        assert_eq!(pool.left(), 11 << 20, "the pages go together");
        drop(last);
        assert_eq!(pool.left(), 16 << 20);
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
