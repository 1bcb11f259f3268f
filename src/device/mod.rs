//! What the machine does while we probe: the disks' own counters, the kernel's pressure figures, and what both mean for whether a
//! heavy measurement may run now.
//!
//! [`Sampler`] is pure: once a second it is fed the texts of `/proc` and the time, and gives a [`View`]. [`Files`] reads those texts.

mod conditions;
mod disk;
mod files;
mod grown;
mod host;
mod sampler;
mod view;

pub use conditions::{Conditions, Ours};
pub use files::Files;
pub use sampler::{Sampler, Texts};
pub use view::{DiskView, Host, Means, Pressure, View};

#[cfg(test)]
mod tests;
