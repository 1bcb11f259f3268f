//! What a test needs of the machine, and what happens where it is missing.

use super::command::find;
use std::io::Write;
use std::path::Path;

/// One thing a test cannot do without.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The effective user is root.
    Root,
    /// A program in `PATH` or in the system's `sbin` directories.
    Tool(&'static str),
    /// `/dev/fuse`, and the right to mount.
    Fuse,
    /// The kernel knows the file system `tracefs`.
    Tracefs,
    /// A controller of the first cgroup hierarchy, by name: `blkio`, `freezer`.
    Cgroup(&'static str),
    /// zram devices can be made.
    Zram,
    /// The server programs of PostgreSQL, and the user `postgres`.
    Postgres,
}

impl Need {
    fn is_met(self) -> bool {
        match self {
            Self::Root => rustix::process::geteuid().is_root(),
            Self::Tool(name) => find(name).is_some(),
            Self::Fuse => Path::new("/dev/fuse").exists() && Self::Root.is_met(),
            Self::Tracefs => listed("/proc/filesystems", "tracefs"),
            Self::Cgroup(name) => Path::new("/sys/fs/cgroup").join(name).join("cgroup.procs").exists(),
            Self::Zram => Path::new("/sys/class/zram-control/hot_add").exists(),
            Self::Postgres => super::postgres::programs().is_some() && listed_user("postgres"),
        }
    }
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Tool(name) => write!(f, "the program `{name}`"),
            Self::Fuse => f.write_str("/dev/fuse and root"),
            Self::Tracefs => f.write_str("tracefs in the kernel"),
            Self::Cgroup(name) => write!(f, "the cgroup v1 controller `{name}`"),
            Self::Zram => f.write_str("zram in the kernel"),
            Self::Postgres => f.write_str("PostgreSQL's server programs (package `postgresql`)"),
        }
    }
}

/// Whether something is missing, in which case the test returns at once. Prints what; with `DISKCANARY_TESTS_STRICT`
/// in the environment a missing thing is a failure instead.
pub fn lacks(needs: &[Need]) -> bool {
    let missing: Vec<String> = needs.iter().filter(|n| !n.is_met()).map(Need::to_string).collect();
    if missing.is_empty() {
        return false;
    }
    let thread = std::thread::current();
    let message = format!("skipped: {} needs {}", thread.name().unwrap_or("test"), missing.join(", "));
    assert!(!is_set("DISKCANARY_TESTS_STRICT"), "{message}; nothing may be skipped here");
    // Written past the harness, which shows what a test prints only when it fails.
    let _ = writeln!(std::io::stderr(), "{message}");
    true
}

/// Whether long trials are to run whole (`tests/run --full`).
pub fn full() -> bool {
    is_set("DISKCANARY_TESTS_FULL")
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

fn listed(file: &str, word: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|w| w == word))
}

fn listed_user(name: &str) -> bool {
    super::confine::user_ids(name).is_some()
}
