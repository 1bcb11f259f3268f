//! What the benches share, and what the test of docs/performance.md needs of them.

pub mod claim;
pub mod cost;
pub mod impact;
pub mod postgres;
pub mod profiles;
pub mod raw;
pub mod scrape;
pub mod tables;
