//! O_DIRECT as a test needs it: an aligned buffer and a file opened past the page cache.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A buffer of `LEN` bytes at an address that is a multiple of 4096.
#[derive(Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// One of this many bytes, all `fill`.
    pub fn new(length: usize, fill: u8) -> Self {
        let memory = vec![fill; length + 4096];
        let start = memory.as_ptr().align_offset(4096);
        Self { memory, start, length }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Opens for reading, and for writing too if asked, past the page cache. A missing file is made when writable.
pub fn open_direct(path: &Path, write: bool) -> std::io::Result<fs::File> {
    fs::OpenOptions::new()
        .read(true)
        .write(write)
        .create(write)
        .truncate(false)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}
