//! The daemon's books: outcomes of probes become counters, histograms and windows, and these become a
//! [`Snapshot`] that pages and scrapes read. Pure; owned by one thread, the snapshot shared by all.

mod book;
mod context;
mod entry;
mod facts;
mod stall;
mod sweep;
mod view;

pub use book::{Book, Renewed, TargetId};
pub use facts::{DeviceSettings, EngineChoice, Facts, Plan, ProbePlan};
pub use stall::Thresholds;
pub use sweep::{LEFT_OUT, Last, Results, SweepView, partial};
pub use view::{BurstView, Check, Ever, ProbeView, SeriesView, Snapshot, TargetView, Timed, WINDOWS};

#[cfg(test)]
mod tests;
