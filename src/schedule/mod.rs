//! When each probe runs, and the threads that run them: a pure planner that says what is to start now, and the lanes, one
//! thread per target and direction, that do what may never return.

mod plan;

pub use plan::{DEVICE_BUSY, Decision, LaneId, Planner, Start, TaskId, When};
