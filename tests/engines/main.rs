//! What every engine must do, checked on each of them: the ring (asleep and spinning), the threads, the fake.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod conformance;
mod hostile;
mod late;
mod memcheck;
mod sequences;
mod slow;
mod support;
