//! What the benches share, and what the test of docs/performance.md needs of them.

pub mod claim;
pub mod raw;
pub mod tables;
