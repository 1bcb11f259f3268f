//! Sockets, limits and routes: what is shown to whoever asks over HTTP, and the few things that may be asked for.
//!
//! No path through this room touches a disk or waits for a lane. What is shown comes from a [`Content`], which
//! answers from values that it already has; should it not answer in time, the client gets 503.
//!
//! Each resource that a client can take has a bound: the bytes of a request's head and the time for it, the time
//! to take an answer, the number of connections, and the number of answers that are held in memory at once.

mod address;
mod client;
mod command;
mod deadline;
mod listen;
mod query;
mod serve;
mod site;

pub use address::{ListenAddress, TelemetryPath};
pub use client::{Url, ask};
pub use command::{Command, LONGEST_PAUSE, NoTarget, PAUSE, parse_pause};
pub use listen::{Error, Listeners, bind};
pub use serve::serve;
pub use site::{Content, Pending, Unavailable};

use std::time::Duration;

/// The port that is listened on where none is given.
pub const DEFAULT_PORT: u16 = 10074;

/// Where to listen and what to show where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// All of them are listened on. Default: `:10074`.
    pub addresses: Vec<ListenAddress>,
    /// Where the metrics are. Default: `/metrics`.
    pub telemetry_path: TelemetryPath,
    /// What a client can take.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addresses: vec![ListenAddress::Any(DEFAULT_PORT)],
            telemetry_path: TelemetryPath::default(),
            limits: Limits::default(),
        }
    }
}

/// What a client can take before it is refused or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is closed as it comes.
    pub connections: usize,
    /// Answers with content at a time, until the client has taken them; one more is refused with 503.
    pub answers: usize,
    /// Bytes of a request's head, from 8192; a larger one is refused with 431.
    pub head_bytes: usize,
    /// For a request's head to arrive whole; also how long an idle connection is kept.
    pub head_within: Duration,
    /// For [`Content`] to answer.
    pub content_within: Duration,
    /// For the client to take an answer.
    pub taken_within: Duration,
    /// For answers in flight to be taken once a shutdown has begun.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            answers: 16,
            head_bytes: 16 * 1024,
            head_within: Duration::from_secs(30),
            content_within: Duration::from_secs(5),
            taken_within: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests;
