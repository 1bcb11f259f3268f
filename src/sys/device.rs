//! Block devices, opened for reading. There is no other way to open one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, open, seek};
use rustix::io::pread;

use super::{Alignment, Errno};

/// Whether the page cache is bypassed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// `O_DIRECT`.
    Yes,
    /// Through the page cache.
    No,
}

impl Direct {
    pub(super) fn flag(self) -> OFlags {
        match self {
            Self::Yes => OFlags::DIRECT,
            Self::No => OFlags::empty(),
        }
    }
}

/// A block device, open for reading only.
#[derive(Debug)]
pub struct Device(OwnedFd);

impl Device {
    /// Opens a block device read-only. The node is pinned and looked at before it is opened: anything that
    /// is no block device is `ENOTBLK`, and nothing is ever created.
    pub fn open(path: &Path, direct: Direct) -> Result<Self, Errno> {
        let pinned = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&pinned)?.st_mode) != FileType::BlockDevice {
            return Err(Errno::ENOTBLK);
        }
        let again = format!("/proc/self/fd/{}", pinned.as_raw_fd());
        // Not O_NONBLOCK: a ring answers EAGAIN on such a descriptor instead of waiting for the disk.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | direct.flag();
        Ok(Self(open(again, flags, Mode::empty())?))
    }

    /// The descriptor, for engines that register or share it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Another handle on the same open device.
    pub fn duplicate(&self) -> Result<Self, Errno> {
        Ok(Self(rustix::io::fcntl_dupfd_cloexec(&self.0, 3)?))
    }

    /// The device's size in bytes.
    pub fn size(&self) -> Result<u64, Errno> {
        Ok(seek(&self.0, SeekFrom::End(0))?)
    }

    /// (major, minor) of the device.
    pub fn number(&self) -> Result<(u32, u32), Errno> {
        let dev = fstat(&self.0)?.st_rdev;
        Ok((libc::major(dev), libc::minor(dev)))
    }

    /// One `pread`: how many bytes came, which may be fewer than asked for.
    #[inline]
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        Ok(pread(&self.0, into, offset)?)
    }

    /// What direct I/O on this device must be aligned to; `None` where the kernel does not say.
    pub fn direct_alignment(&self) -> Option<Alignment> {
        super::file::alignment(self.fd())
    }
}
