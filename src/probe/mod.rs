//! One measurement: a commit, a burst of reads, and the probe files that they need. A probe returns an
//! [`Outcome`]; a failed I/O is a value in it, never an error that unwinds.

pub mod commit;
pub mod content;
mod head;
pub mod heartbeat;
pub mod home;
pub mod layout;
mod outcome;
mod profile;
pub mod read;
pub mod seat;
pub mod sweep;
mod trouble;
pub mod truth;

pub use outcome::{
    Burst, CommitSample, Cost, Failure, Fault, Finding, Invalid, Outcome, PerCommit, Phase, Probe,
    ReadSample, Spent, Stage, State, Verdict,
};
pub use profile::{Layout, Method, Profile, Row};
pub use trouble::{Trouble, state_after};
