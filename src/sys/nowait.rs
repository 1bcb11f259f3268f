//! Whether reads of a file can be started without a thread that waits.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno as Raw, ReadWriteFlags, preadv2};

/// Far behind the end of anything, and aligned for any device: a read there is answered without the disk.
const BEHIND_THE_END: u64 = 1 << 62;

/// `EAGAIN` may also mean that the disk is busy just now, so it is asked a few times.
const MOST_TRIES: u32 = 3;

/// Whether a read of the file can be started without waiting (`RWF_NOWAIT`), found out by doing: first behind the
/// end, where the file system answers, then at its beginning, where the block device answers too. Where it is
/// `false` a ring would hand each operation to a worker thread of the kernel. `block` is an aligned buffer.
pub fn answers_without_waiting(fd: BorrowedFd<'_>, block: &mut [u8]) -> bool {
    let mut read = |offset| preadv2(fd, &mut [IoSliceMut::new(block)], offset, ReadWriteFlags::NOWAIT);
    if read(BEHIND_THE_END).is_err_and(refused) {
        return false;
    }
    (0..MOST_TRIES).any(|_| !read(0).is_err_and(|e| refused(e) || e == Raw::AGAIN))
}

fn refused(errno: Raw) -> bool {
    errno == Raw::OPNOTSUPP || errno == Raw::NOSYS
}

/// One read that is answered only from what needs no waiting (`RWF_NOWAIT`): `EAGAIN` when the disk would have to be asked,
/// `EOPNOTSUPP` where that cannot be told.
pub fn read_without_waiting(fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, super::Errno> {
    Ok(preadv2(fd, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT)?)
}
