//! The way to the control thread. What needs an answer wakes it; a good run, which is nearly all that lanes ever report, is left
//! for it to find when it wakes anyway, at the latest after a second: a wake-up costs a guest on an idle machine more than the
//! run's bookkeeping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::control::Message;

/// A message to a control thread that is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone;

/// Where messages go in; clones lead to the same control thread.
#[derive(Clone)]
pub(super) struct Outbox {
    waking: Sender<Message>,
    quiet: Sender<Message>,
    impatient: Arc<AtomicBool>,
}

/// Where they come out.
pub(super) struct Inbox {
    waking: Receiver<Message>,
    quiet: Receiver<Message>,
    impatient: Arc<AtomicBool>,
}

/// Both ends.
pub(super) fn inbox() -> (Outbox, Inbox) {
    let ((waking, woken), (quiet, left)) = (channel(), channel());
    let impatient = Arc::new(AtomicBool::new(false));
    let out = Outbox { waking, quiet, impatient: Arc::clone(&impatient) };
    (out, Inbox { waking: woken, quiet: left, impatient })
}

impl Outbox {
    /// Wakes the control thread.
    pub(super) fn send(&self, message: Message) -> Result<(), Gone> {
        self.waking.send(message).map_err(|_| Gone)
    }

    /// Leaves a message for when it wakes; wakes it only while it waits for somebody to be done.
    pub(super) fn leave(&self, message: Message) {
        // A control thread that is gone needs no reports.
        let _ = self.quiet.send(message);
        if self.impatient.load(SeqCst) {
            let _ = self.waking.send(Message::Wake);
        }
    }
}

impl Inbox {
    /// What was left.
    pub(super) fn left(&self) -> Option<Message> {
        self.quiet.try_recv().ok()
    }

    /// The next message, at most `wait` from now. With `impatient` one that is only left counts too. A lane leaves first and then
    /// looks whether we are impatient, we say so first and then look what is left: one of the two sees the other.
    pub(super) fn wait(&self, impatient: bool, wait: Duration) -> Result<Message, RecvTimeoutError> {
        self.impatient.store(impatient, SeqCst);
        match self.left() {
            Some(message) => Ok(message),
            None => self.waking.recv_timeout(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn what_is_left_is_found_before_anything_is_waited_for() {
        let (out, inbox) = inbox();
        out.leave(Message::Wake);
        assert!(inbox.wait(false, LONG).is_ok());
        assert!(inbox.wait(false, Duration::ZERO).is_err());
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test measures how long it waited")]
    fn only_the_impatient_are_woken_by_what_is_left() {
        let (out, inbox) = inbox();
        for impatient in [false, true] {
            let start = Instant::now();
            let late = out.clone();
            let leaver = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                late.leave(Message::Wake);
            });
            let got = inbox.wait(impatient, if impatient { LONG } else { Duration::from_secs(1) });
            assert_eq!(got.is_ok(), impatient);
            assert!(start.elapsed() < LONG);
            leaver.join().unwrap();
            while inbox.left().is_some() {}
        }
    }
}
