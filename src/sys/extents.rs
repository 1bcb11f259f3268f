//! `FIEMAP`: which bytes of a file lie in extents that were really written.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::{Errno, Extents};

/// Extents asked for at a time.
const ROOM: usize = 128;
/// `_IOWR('f', 11, struct fiemap)`, the same number on every architecture that we build for.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
const FLAG_SYNC: u32 = 1;
const LAST: u32 = 0x1;
/// Unknown place, delayed allocation, or unwritten: a read of these bytes does not reach the disk.
const NOT_ON_DISK: u32 = 0x2 | 0x4 | 0x800;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Query {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; ROOM],
}

pub(super) fn of(fd: BorrowedFd<'_>, size: u64) -> Result<Extents, Errno> {
    let mut covered = 0;
    while covered < size {
        let found = match ask(fd, covered, size - covered) {
            Ok(found) => found,
            Err(Errno::EOPNOTSUPP | Errno::ENOTTY | Errno::ENOSYS | Errno::EINVAL) => {
                return Ok(Extents::Unknown);
            }
            Err(e) => return Err(e),
        };
        let mapped = &found.extents[..(found.mapped as usize).min(ROOM)];
        if mapped.is_empty() {
            return Ok(Extents::Unwritten);
        }
        for extent in mapped {
            if extent.logical > covered || extent.flags & NOT_ON_DISK != 0 {
                return Ok(Extents::Unwritten);
            }
            covered = covered.max(extent.logical.saturating_add(extent.length));
            if extent.flags & LAST != 0 {
                return Ok(if covered >= size { Extents::Written } else { Extents::Unwritten });
            }
        }
    }
    Ok(Extents::Written)
}

fn ask(fd: BorrowedFd<'_>, start: u64, length: u64) -> Result<Box<Query>, Errno> {
    let mut query = Box::new(Query {
        start,
        length,
        flags: FLAG_SYNC,
        mapped: 0,
        count: ROOM as u32,
        reserved: 0,
        extents: [Extent::default(); ROOM],
    });
    // SAFETY: the descriptor is open, and the kernel writes at most `count` extents behind the header,
    // which is the room that the structure has.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut *query) };
    if result == 0 { Ok(query) } else { Err(std::io::Error::last_os_error().into()) }
}
