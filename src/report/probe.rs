//! What `diskcanary probe PATH` found: a table for people, JSON for programs.

mod json;
mod table;

pub use json::{json, schema};
pub use table::table;

use crate::probe::{Method, Profile};

/// What was probed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// As it was asked for.
    pub path: String,
    /// Where the probe files lie; `None` for a block device.
    pub files: Option<String>,
    /// Kind of file system, where there is one.
    pub file_system: Option<String>,
    /// The device below, by its kernel name, where it is known.
    pub device: Option<String>,
    /// The device's model, where it says.
    pub model: Option<String>,
    /// Which engine read; `None` when nothing was read.
    pub engine: Option<String>,
    /// Why that engine, in a few words.
    pub engine_reason: Option<String>,
    /// Whether reads bypass the kernel's cache: `true`, `false`, or `bypassed` where direct I/O is taken and the cache
    /// answers all the same.
    pub direct: Option<String>,
    /// Whose commits, and what made them durable; `None` when none were asked for.
    pub commit: Option<(Profile, Method)>,
}

#[cfg(test)]
mod tests;
