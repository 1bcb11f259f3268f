//! The sweep: what a disk does at each block size, depth and mix, one cell at a time. The words of it are here: patterns, cells,
//! presets, which cell is next, and what a cell came to; and the rig, which runs a cell on a disk.

mod cell;
pub mod check;
mod collect;
pub(super) mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod ground;
mod offer;
mod pattern;
mod plan;
mod preset;
mod promise;
mod result;
mod rig;
mod rounds;
mod walk;
mod watch;

pub use cell::{Cell, Limits, WarmUp};
pub use collect::{About, Collector};
pub use ground::{CellReport, Left, MEMORY, Place, SweepGround, SweepReady};
pub use offer::{Carried, CarriedPart, CarryReport, Offer, Search};
pub use pattern::{Access, Load, Pattern, Stream, Way};
pub use plan::{Demand, Ladder, Plan};
pub use preset::{COMMITTERS, DEPTHS, Preset, PresetRow};
pub use promise::Promise;
pub use result::{
    CellResult, Environment, Latency, Operation, Point, Regime, Rounds, SCHEMA_VERSION, Shape, Skipped,
    Stopped, StreamResult, Subject, Sweep, SweepFault, Trough,
};
pub use rig::{Rig, Surroundings};
pub use walk::{Step, Walk};
pub use watch::{Progress, Watch};
