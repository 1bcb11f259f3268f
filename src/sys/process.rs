//! What this process costs the machine, as its kernel counts it.

use std::path::Path;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};

use super::{entries, page_size, read_text, stat};

/// The numbers of the conventional `process_*` metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessStats {
    /// User and system CPU time in seconds.
    pub cpu_seconds: f64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// The most file descriptors, `None` when unlimited.
    pub max_fds: Option<u64>,
    /// Virtual memory in bytes.
    pub virtual_bytes: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Wall-clock seconds since 1970 at which the process started.
    pub start_time_seconds: f64,
    /// Threads.
    pub threads: u64,
}

impl ProcessStats {
    /// Reads them for this process; `None` where `/proc` is not mounted.
    pub fn read() -> Option<Self> {
        let stat = read_text(Path::new("/proc/self/stat")).ok()?;
        let booted = read_text(Path::new("/proc/stat")).ok()?;
        let hertz = clock_ticks_per_second() as f64;
        let stats = Self::parse(&stat, &booted, hertz, page_size() as u64)?;
        Some(Self { open_fds: open_fds()?, max_fds: getrlimit(Resource::Nofile).current, ..stats })
    }

    fn parse(stat: &str, booted: &str, hertz: f64, page: u64) -> Option<Self> {
        // The second field is the program's name in parentheses and may hold anything; field numbers of proc(5) begin
        // behind it with 3.
        let (_, after) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let boot_time: f64 =
            booted.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / hertz,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)?.saturating_mul(page),
            start_time_seconds: boot_time + field(22)? as f64 / hertz,
            threads: field(20)?,
            ..Self::default()
        })
    }
}

/// Linux 6.2 and later tell it as the size of the directory, which spares a look at each of them.
fn open_fds() -> Option<u64> {
    let all = Path::new("/proc/self/fd");
    match stat(all).ok()?.size {
        // One of them is the directory that is being read.
        0 => Some(entries(all).ok()?.len().saturating_sub(1) as u64),
        told => Some(told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_more_is_one_more_and_both_ways_agree() {
        // Other tests open and close files beside this one.
        let agree = || {
            let before = entries(Path::new("/proc/self/fd")).unwrap().len() as u64 - 1;
            let held = std::io::pipe().unwrap();
            let now = open_fds().unwrap();
            drop(held);
            now == before + 2
        };
        assert!((0..1000).any(|_| agree()));
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat =
            "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 7 0 1234 8192 3 18446744073709551615 1";
        let stats = ProcessStats::parse(stat, "cpu 1 2\nbtime 1000\n", 100.0, 4096).unwrap();
        assert_eq!((stats.cpu_seconds, stats.threads, stats.start_time_seconds), (2.0, 7, 1012.34));
        assert_eq!((stats.virtual_bytes, stats.resident_bytes), (8192, 3 * 4096));
        assert_eq!(ProcessStats::parse("42 (x) S", "btime 1\n", 100.0, 4096), None);
    }

    #[test]
    fn reads_this_process() {
        let stats = ProcessStats::read().unwrap();
        assert!(stats.threads >= 1 && stats.open_fds >= 3 && stats.resident_bytes > 100_000);
        let wall = crate::clock::wall().as_secs_f64();
        assert!(stats.start_time_seconds > wall - 3600.0 && stats.start_time_seconds <= wall + 2.0);
    }
}
