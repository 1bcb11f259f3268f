//! Facts of the machine and of our own threads.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;

use rustix::system::uname;

use super::Errno;

/// Bytes in a page of memory.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Whether we run as root (effective user id 0).
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The effective user id.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A number that stays the same on this host: from the machine id, else from the host's name. It seeds the
/// schedule, so that a fleet does not probe in step.
pub fn hostname_hash() -> u64 {
    let id = super::read_text(std::path::Path::new("/etc/machine-id")).unwrap_or_default();
    let seed = if id.trim().is_empty() { uname().nodename().to_bytes().to_vec() } else { id.trim().into() };
    xxhash_rust::xxh3::xxh3_64(&seed)
}

/// The machine, in the words that a report has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the CPU; empty where the kernel does not tell.
    pub cpu: String,
    /// How many CPUs we may use.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
}

/// The machine that we run on, by `/proc` and the kernel.
pub fn host() -> Host {
    let text = |path: &str| super::read_text(std::path::Path::new(path)).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory =
        value(&text("/proc/meminfo"), "MemTotal").and_then(|kib| kib.split(' ').next()?.parse::<u64>().ok());
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Host {
        kernel: uname().release().to_string_lossy().into_owned(),
        cpu: value(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory: memory.unwrap_or(0) << 10,
    }
}

/// Names the calling thread, at most 15 bytes, as `top -H` and `/proc/self/task` show it.
pub fn name_thread(name: &str) {
    let mut short: Vec<u8> = name.bytes().filter(|b| *b != 0).take(15).collect();
    short.push(0);
    if let Ok(name) = std::ffi::CStr::from_bytes_with_nul(&short) {
        let _ = rustix::thread::set_name(name);
    }
}

/// How long the calling thread has waited for a CPU, from its own `schedstat` (no privilege, no kernel
/// option needed). Opened once by the thread itself, read before and after a timed section.
#[derive(Debug)]
pub struct SchedWait {
    file: Option<fs::File>,
    last: Option<u64>,
}

impl SchedWait {
    /// Opens the calling thread's own counters.
    #[allow(clippy::disallowed_methods, reason = "this is the door")]
    pub fn open() -> Self {
        Self { file: fs::File::open("/proc/thread-self/schedstat").ok(), last: None }
    }

    /// Nanoseconds of waiting since the call before; `None` at the first call, and where the kernel does not tell.
    pub fn since_last(&mut self) -> Option<u64> {
        let now = self.nanos();
        let last = std::mem::replace(&mut self.last, now);
        now.zip(last).map(|(now, last)| now.saturating_sub(last))
    }

    /// Nanoseconds spent ready to run but not running, since the thread began.
    fn nanos(&self) -> Option<u64> {
        let mut text = [0u8; 96];
        let n = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let mut words = text.get(..n)?.split(|b| *b == b' ');
        std::str::from_utf8(words.nth(1)?).ok()?.parse().ok()
    }
}

/// Fills `bytes` with the kernel's randomness.
pub fn random(bytes: &mut [u8]) -> Result<(), Errno> {
    #[allow(clippy::disallowed_methods, reason = "this is the door")]
    let mut source = fs::File::open("/dev/urandom")?;
    Ok(source.read_exact(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_read_its_own_wait() {
        let mut wait = SchedWait::open();
        assert_eq!(wait.since_last(), None);
        std::thread::yield_now();
        assert!(wait.since_last().is_some());
    }
}
