//! What the machine does while we probe: the disks' own counters, the kernel's pressure figures, and what both mean for whether a
//! heavy measurement may run now.

mod conditions;

pub use conditions::Conditions;
