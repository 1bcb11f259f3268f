//! When each probe runs, and the threads that run them: a pure planner that says what is to start now, and the lanes, one
//! thread per target and direction, that do what may never return.

pub mod allowance;
pub mod budget;
pub mod calendar;
pub mod guard;
mod lane;
pub mod others;
mod plan;
pub mod reader;
pub mod share;
pub mod sweep;
pub mod sweeper;
pub mod toll;
mod totals;
pub mod writer;

pub use lane::{CommitSpec, Context, Direction, Job, Lane, Mounted, ReadSpec, Report, Spec};
pub use plan::{DEVICE_BUSY, Decision, LaneId, Planner, Start, TaskId, When};
