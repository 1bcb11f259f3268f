//! What every engine must do, checked on each of them: the ring (asleep and spinning), the threads, the fake.

mod conformance;
mod hostile;
mod sequences;
mod slow;
mod support;
