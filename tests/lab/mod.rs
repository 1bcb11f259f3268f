//! The test lab: slow, hanging, throttled, lying and vanishing disks, the witnesses that tell the truth about
//! them (block trace, strace, kernel counters), and the peers that read what we say (Prometheus, a browser).
//!
//! # How to use it
//!
//! ```ignore
//! #[path = "../lab/mod.rs"]
//! mod lab;
//! use lab::{Daemon, FuseDisk, Need, Op};
//!
//! #[test]
//! fn a_slow_write_is_measured() {
//!     if lab::lacks(&[Need::Root, Need::Fuse]) {
//!         return;
//!     }
//!     let disk = FuseDisk::new();
//!     disk.delay(Op::Write, Duration::from_millis(5));
//!     let config = format!("targets:\n  - {{name: slow, path: {}}}\n", disk.path().display());
//!     let daemon = Daemon::new().config(&config).start();
//!     lab::eventually("commits are counted", || {
//!         daemon.scrape().sum("diskcanary_write_duration_seconds_count", &[("target", "slow")]) > 3.0
//!     });
//! }
//! ```
//!
//! * The first line of each test asks [`lacks`] for what it needs. By hand, a test whose needs are not met says so
//!   and passes; under `DISKCANARY_TESTS_STRICT` (which `tests/run` sets) it fails.
//! * Everything made here undoes itself in `Drop`, also after a panic: disks thaw, gates open, mounts, loop devices,
//!   cgroups and trace instances go, children are killed by their id. All carry the prefix `dclab-PID-N`; what a run
//!   that was itself killed left behind is swept by the next one, recognised by a PID that no longer lives.
//! * Declare the disk before the daemon: locals are dropped in reverse, and a disk in use cannot be unmounted cleanly.
//! * A process that must not outlive the test is started from the test's own thread (it dies with that thread).
//! * Tests run beside each other on a noisy machine: wait with [`eventually`], assert lower bounds of time, never speed.
//!   [`full`] says whether long trials are to run whole.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test target and bench uses its own part of the lab"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a lab that cannot be built fails its test"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a skipped test says why")]
#![allow(
    clippy::disallowed_methods,
    reason = "the lab stands outside the house: it opens files and reads clocks"
)]

mod blktrace;
mod cgroup;
mod chromium;
mod command;
mod confine;
mod daemon;
mod direct;
mod fuse;
mod http;
mod loops;
mod metrics;
mod mounts;
mod needs;
mod postgres;
mod prometheus;
mod rules;
mod schema;
mod scratch;
mod strace;
mod sweeping;
mod wait;
mod zram;

pub use blktrace::{BlockTrace, Request};
pub use cgroup::{Blkio, Cpu, Devices, Direction, Freezer, Memory};
pub use chromium::Chromium;
pub use command::{output_within, run, run_as, try_run};
pub use confine::{
    as_nobody_with_memlock, as_user, deny_io_uring, dies_with_us, first_on_the_cpu, in_cgroup,
    we_are_first_on_the_cpu,
};
pub use daemon::{Daemon, Running, free_port};
pub use direct::{Aligned, open_direct};
pub use fuse::{FuseDisk, FuseServer, Touched, serve_if_asked};
pub use http::{Response, get, request};
pub use loops::{Loop, LoopOptions};
pub use metrics::{Histogram, Metrics, Sample};
pub use mounts::{FileSystem, Frozen, Mounted, is_mounted, mount_options};
pub use needs::{Need, full, lacks};
pub use postgres::{Postgres, postgres_program};
pub use prometheus::{
    Prometheus, Series, promtool_check_config, promtool_check_metrics, promtool_test_rules,
};
pub use rules::{Count, Credits, Hang, Op, Pace};
pub use schema::assert_valid;
pub use scratch::{Scratch, checksum};
pub use strace::{Call, Strace, StraceLog};
pub use sweeping::{Opening, Sweeping, cell, lasting, lay};
pub use wait::{eventually, eventually_within, within};
pub use zram::Zram;
