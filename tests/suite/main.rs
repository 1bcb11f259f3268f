//! Tests against real disks, kernels and servers, built from the lab in `tests/lab`. The first ones prove the lab.

#![allow(
    clippy::disallowed_methods,
    reason = "tests stand outside the house: they open files and read clocks"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "also in the helpers of a test")]

#[path = "../lab/mod.rs"]
mod lab;

mod agreement;
mod bad_days_config;
mod bad_days_databases;
mod bad_days_engines;
mod bad_days_file_systems;
mod bad_days_home;
mod bad_days_memory;
mod bad_days_paths;
mod bad_days_read_only;
mod bad_days_space;
mod budgets;
mod cadence;
mod context;
mod discovery;
mod faults;
mod first_light;
mod footing;
mod from_fio;
mod hangs;
mod lab_children;
mod lab_cleanup;
mod lab_disks;
mod lab_fuse;
mod lab_servers;
mod lab_witnesses;
mod logging;
mod network;
mod once;
mod pauses;
mod postgres_latency;
mod profiles;
mod reliability;
mod reload;
mod safety;
mod scheduled_sweeps;
mod soak;
mod stalls;
mod starvation;
mod state;
mod sweep_claims;
mod sweep_trials;
mod sweeps;
mod targets;
mod truths;
mod watch;
