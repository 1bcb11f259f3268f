//! Whether reads of a file can be started without a thread that waits.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno as Raw, ReadWriteFlags, preadv2};

/// Far behind the end of anything, and aligned for any device: a read there is answered without the disk.
const BEHIND_THE_END: u64 = 1 << 62;

/// Whether a read of the file can be started without waiting (`RWF_NOWAIT`), found out by doing: first behind the
/// end, where the file system answers, then at its beginning, where the block device answers too. Where it is
/// `false` a ring is no ring: the kernel hands each operation to a worker thread, or, for a file that can be polled
/// (FUSE), carries it out inside the submit, one after the other. `block` is an aligned buffer.
pub fn answers_without_waiting(fd: BorrowedFd<'_>, block: &mut [u8]) -> bool {
    let mut read = |offset| preadv2(fd, &mut [IoSliceMut::new(block)], offset, ReadWriteFlags::NOWAIT);
    !read(BEHIND_THE_END).is_err_and(refused) && !read(0).is_err_and(refused)
}

/// `EAGAIN` is no refusal: the disk is busy, or the page not in the cache.
fn refused(errno: Raw) -> bool {
    errno == Raw::OPNOTSUPP || errno == Raw::NOSYS
}

/// One read that is answered only from what needs no waiting (`RWF_NOWAIT`): `EAGAIN` when the disk would have to be asked,
/// `EOPNOTSUPP` where that cannot be told.
pub fn read_without_waiting(fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, super::Errno> {
    Ok(preadv2(fd, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT)?)
}
