//! Waiting for what a noisy machine does in its own time.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Waits up to 30 s until the condition holds, asking every 20 ms; panics with `what` if it never does.
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(Duration::from_secs(30), what, condition);
}

/// As [`eventually`], with its own patience.
pub fn eventually_within(patience: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs `work` on its own thread and returns its result if it ends in time; otherwise the thread is left where it is
/// (it may be stuck in the kernel, where nothing reaches it).
pub fn within<T: Send + 'static>(patience: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(patience).ok()
}
