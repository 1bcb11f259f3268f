//! Regular files of ours, and what can be asked of them. Every call is one system call: what it says of
//! its time is the kernel's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    Advice, AtFlags, FlockOperation, SeekFrom, Stat, StatxFlags, fadvise, fdatasync, flock, fstat, fsync,
    seek, statx,
};
use rustix::io::{pread, pwrite};

use super::Errno;

/// An open regular file.
#[derive(Debug)]
pub struct File(OwnedFd);

/// What direct I/O must be aligned to, in bytes, as `statx` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Of the buffer's address.
    pub memory: u32,
    /// Of offset and length.
    pub offset: u32,
}

/// What stands behind a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extents {
    /// Every byte lies in a written extent.
    Written,
    /// Some bytes lie in a hole or in an extent that was never written: reads there never reach the disk.
    Unwritten,
    /// The file system does not say.
    Unknown,
}

/// Identity and size of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Bytes.
    pub size: u64,
    /// Device that holds it.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Names that it has; 0 once it is deleted.
    pub links: u64,
    /// User id of the owner.
    pub uid: u32,
}

impl FileStat {
    /// Device and inode: which file it is, whatever its name.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

impl From<Stat> for FileStat {
    fn from(s: Stat) -> Self {
        let size = u64::try_from(s.st_size).unwrap_or(0);
        Self { size, device: s.st_dev, inode: s.st_ino, links: s.st_nlink, uid: s.st_uid }
    }
}

impl File {
    pub(super) fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// The descriptor, for engines that register or share it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Another handle on the same open file.
    pub fn duplicate(&self) -> Result<Self, Errno> {
        Ok(Self(rustix::io::fcntl_dupfd_cloexec(&self.0, 3)?))
    }

    /// One `pread`: how many bytes came, which may be fewer than asked for.
    #[inline]
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        Ok(pread(&self.0, into, offset)?)
    }

    /// One `pwrite`: how many bytes were taken, which may be fewer than given.
    #[inline]
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<usize, Errno> {
        Ok(pwrite(&self.0, from, offset)?)
    }

    /// One `fdatasync`.
    #[inline]
    pub fn fdatasync(&self) -> Result<(), Errno> {
        Ok(fdatasync(&self.0)?)
    }

    /// One `fsync`.
    #[inline]
    pub fn fsync(&self) -> Result<(), Errno> {
        Ok(fsync(&self.0)?)
    }

    /// Takes the exclusive lock, without waiting; `false` when another open file has it. It lasts until every
    /// duplicate of this handle is closed.
    pub fn try_lock(&self) -> Result<bool, Errno> {
        match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Identity and size.
    pub fn stat(&self) -> Result<FileStat, Errno> {
        Ok(FileStat::from(fstat(&self.0)?))
    }

    /// The next run of bytes at or behind `from` that are no hole, as their begin and end; `None` when only holes follow.
    /// Extents that were allocated and never written are holes. Where the file system does not tell, all is data.
    pub fn data_from(&self, from: u64) -> Result<Option<(u64, u64)>, Errno> {
        let begin = match seek(&self.0, SeekFrom::Data(from)) {
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            other => other?,
        };
        Ok(Some((begin, seek(&self.0, SeekFrom::Hole(begin))?)))
    }

    /// What direct I/O on this file must be aligned to; `None` where the file system does not say.
    pub fn direct_alignment(&self) -> Option<Alignment> {
        alignment(self.fd())
    }

    /// Tells the kernel that we do not need its cached pages of this file.
    pub fn drop_cached(&self) -> Result<(), Errno> {
        Ok(fadvise(&self.0, 0, None, Advice::DontNeed)?)
    }

    /// Tells the kernel that nothing but what is asked for should be read.
    pub fn read_nothing_ahead(&self) -> Result<(), Errno> {
        Ok(fadvise(&self.0, 0, None, Advice::Random)?)
    }

    /// Whether all of the file's bytes were really written (`FIEMAP`).
    pub fn extents(&self) -> Result<Extents, Errno> {
        let size = self.stat()?.size;
        super::extents::of(self.fd(), size)
    }
}

/// `STATX_DIOALIGN` of any descriptor (Linux 6.1 and later).
pub(super) fn alignment(fd: BorrowedFd<'_>) -> Option<Alignment> {
    let found =
        statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::from_bits_retain(libc::STATX_DIOALIGN)).ok()?;
    let said = found.stx_mask & libc::STATX_DIOALIGN != 0 && found.stx_dio_offset_align != 0;
    said.then_some(Alignment { memory: found.stx_dio_mem_align, offset: found.stx_dio_offset_align })
}
