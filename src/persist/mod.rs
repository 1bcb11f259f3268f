//! What outlives a restart: pauses, what is left of the budgets, which probe files lie where, and the last sweep of each target. One
//! small JSON file in the state directory, and one for each sweep, written by one thread that may hang: whoever hands a state over never waits, and a thread that is stuck
//! costs the one newest state that waits for it. A file that cannot be read or written is said in the log and counted; it never
//! ends the daemon.

mod file;
mod store;
mod sweeps;

pub use store::{Handle, open};

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// When each paused target goes on, by the target's name, in seconds since 1970.
    pub pauses: BTreeMap<String, u64>,
    /// What is left of the budgets, in the words of whoever keeps them: `disks`, those of the latency probes.
    pub budgets: BTreeMap<String, serde_json::Value>,
    /// The probe files of each target, by the target's name.
    pub targets: BTreeMap<String, Known>,
    /// The last sweep of each target, by the target's name, as JSON on one line in the words of whoever makes them; `None`: as it was handed
    /// over before. Each has a file of its own, which is written when there is a text, and goes when its name is not here.
    #[serde(skip)]
    pub sweeps: BTreeMap<String, Option<Arc<str>>>,
}

impl State {
    /// An older state was not written: the sweeps that came with it and are kept yet come with this one.
    fn inherit(&mut self, older: Self) {
        for (name, text) in older.sweeps {
            if let Some(sweep) = self.sweeps.get_mut(&name)
                && sweep.is_none()
            {
                *sweep = text;
            }
        }
    }
}

/// A target's probe files as they were last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Our directory there.
    pub home: String,
    /// What tells the disk from others, over a restart of the machine too; empty where nothing does.
    pub identity: String,
    /// Where the file system was mounted, and what it was, for people; empty where that is not known.
    pub mount: (String, String),
    /// The complete files, by name.
    pub files: BTreeMap<String, KnownFile>,
}

/// One probe file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFile {
    /// The number in its head, drawn when it was laid out.
    pub id: u64,
    /// Bytes.
    pub size: u64,
}

/// What is kept in this directory, for somebody beside the daemon: nothing is changed there. `None` where there is none, or
/// none that can be read.
pub fn peek(dir: &Path) -> Option<State> {
    file::Place::new(dir.to_owned()).peek()
}

#[cfg(test)]
mod tests;
