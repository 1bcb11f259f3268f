//! diskcanary: a daemon that asks every disk, all day and gently, how long a commit and a random read
//! take right now, and answers in Prometheus metrics.
//!
//! The crate is built in floors; a module imports only from floors strictly below its own
//! (`tests/architecture.rs` holds that, `ARCHITECTURE.md` draws it).

pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod device;
pub mod expose;
pub mod http;
pub mod io;
pub mod page;
pub mod persist;
pub mod probe;
pub mod record;
pub mod report;
pub mod schedule;
pub mod stats;
pub mod sys;
pub mod target;
pub mod units;
