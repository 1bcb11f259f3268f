//! The config file: strict YAML in, a [`Plan`] out, before anything is opened. Whatever is wrong becomes one message
//! that names file, line, path, and the nearest valid word.

mod budget;
mod discovered;
mod error;
mod plan;
mod raw;
mod reference;
mod resolve;
mod section;
mod sweep;
mod word;
mod yaml;

pub use budget::{A_DAY, BudgetPlan, OPERATIONS};
pub use error::Error;
pub use plan::{CommitPlan, DiscoverPlan, NoStateDirectory, Plan, ReadPlan, TargetPlan, state_directory};
pub use reference::reference;
pub use sweep::{ASSUMED, SweepPlan};

#[cfg(test)]
mod tests;
