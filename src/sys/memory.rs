//! Our own memory: kept in RAM, so that no page fault of ours waits for a disk.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::{Errno, read_text};

/// Has the C library's allocator keep at most `heaps` heaps. Another allocator, or one that refuses, goes on as it is.
pub fn limit_heaps(heaps: u16) {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes plain numbers; the allocator guards itself.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, heaps.into());
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = heaps;
}

/// Locks everything that is mapped from files, which is the program and its libraries, and reads in what is not there yet. What
/// was locked before the first failure stays so.
pub fn lock_program() -> Result<(), Errno> {
    let maps = read_text(Path::new("/proc/self/maps"))?;
    for (begin, end) in from_files(&maps) {
        // SAFETY: locking changes where pages are, not what they hold; a range that is no longer mapped is an error.
        let result = unsafe { libc::mlock(begin as *const libc::c_void, end - begin) };
        if result != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    Ok(())
}

/// Has every page of what is mapped now locked, if it is in memory at once, else when it is touched first. What is mapped later
/// is not.
pub fn lock_data() -> Result<(), Errno> {
    // SAFETY: takes plain numbers, and changes where pages are, not what they hold.
    match unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Bytes that we may lock without a privilege; `None`: any number.
pub fn lock_limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// The ranges of `/proc/self/maps` that lie over files and can be read. What the program shares with others (rings, say) is no
/// part of it.
fn from_files(maps: &str) -> Vec<(usize, usize)> {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let path = words.nth(3)?;
        let (begin, end) = range.split_once('-')?;
        let ours = path.starts_with('/') && rights.starts_with('r') && rights.ends_with('p');
        let number = |text| usize::from_str_radix(text, 16).ok();
        ours.then_some((number(begin)?, number(end)?))
    };
    maps.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_from_what_it_works_with() {
        let maps = "\
            1000-2000 r--p 00000000 fd:00 12 /usr/bin/disk canary (deleted)\n\
            2000-5000 r-xp 00001000 fd:00 12 /usr/bin/disk canary (deleted)\n\
            5000-6000 ---p 00001000 fd:00 13 /lib/x.so\n\
            6000-7000 rw-s 00000000 00:0e 14 anon_inode:[io_uring]\n\
            7000-8000 rw-s 00000000 00:0e 14 /dev/shm/x\n\
            9000-a000 rw-p 00000000 00:00 0 [heap]\n\
            a000-b000 rw-p 00000000 00:00 0\n";
        assert_eq!(from_files(maps), [(0x1000, 0x2000), (0x2000, 0x5000)]);
    }
}
