//! Lines on their way to standard error. Whoever logs only leaves them here; one thread writes them, and waits for whoever
//! reads as long as it must: a log that lies on a disk that hangs may not stop what tells of that disk.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use prometheus::IntCounter;

/// Lines that wait at most; one more is dropped.
const MOST_LINES: usize = 1024;
/// Bytes of lines that wait at most.
const MOST_BYTES: usize = 1 << 20;
/// Rest before a pipe that is full and does not block is tried again.
const REST: Duration = Duration::from_millis(10);

/// Lines that wait to be written, bounded.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    dropped: IntCounter,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    bytes: usize,
    writing: bool,
}

enum Entry {
    Line(Vec<u8>),
    /// So many lines would stand here.
    Dropped(u64),
}

impl Queue {
    /// Empty; nobody writes yet. `dropped` counts the lines that are lost.
    pub(super) fn new(dropped: IntCounter) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), dropped })
    }

    /// Starts the thread that writes to `to`. `note` makes the line that says how many were dropped.
    pub(super) fn start(
        self: &Arc<Self>,
        to: impl Write + Send + 'static,
        note: impl Fn(u64) -> Vec<u8> + Send + 'static,
    ) -> io::Result<()> {
        let queue = Arc::clone(self);
        let write = move || queue.write_on(to, note);
        thread::Builder::new().name("log".into()).stack_size(256 << 10).spawn(write).map(drop)
    }

    /// Takes one whole line, or drops and counts it when there is no room. The lock is held by nobody who writes.
    pub(super) fn push(&self, line: &[u8]) {
        let line = line.to_vec();
        let mut state = self.lock();
        if state.entries.len() < MOST_LINES && state.bytes + line.len() <= MOST_BYTES {
            state.bytes += line.len();
            state.entries.push_back(Entry::Line(line));
        } else {
            self.dropped.inc();
            match state.entries.back_mut() {
                Some(Entry::Dropped(lines)) => *lines += 1,
                _ => state.entries.push_back(Entry::Dropped(1)),
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until everything is written, but no longer than this.
    pub(super) fn flush(&self, within: Duration) {
        let busy = |state: &mut State| state.writing || !state.entries.is_empty();
        drop(self.changed.wait_timeout_while(self.lock(), within, busy));
    }

    fn write_on(&self, to: impl Write, note: impl Fn(u64) -> Vec<u8>) {
        let mut lines = Lines { to, torn: false };
        let mut unsaid = 0;
        loop {
            match self.next() {
                Entry::Dropped(count) => unsaid += count,
                Entry::Line(line) => {
                    if lines.write(&line).is_err() {
                        self.dropped.inc();
                        unsaid += 1;
                    }
                }
            }
            if unsaid > 0 && lines.write(&note(unsaid)).is_ok() {
                unsaid = 0;
            }
        }
    }

    fn next(&self) -> Entry {
        let mut state = self.lock();
        state.writing = false;
        self.changed.notify_all();
        loop {
            if let Some(entry) = state.entries.pop_front() {
                if let Entry::Line(line) = &entry {
                    state.bytes -= line.len();
                }
                state.writing = true;
                return entry;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes lines whole: one that broke off is ended before the next.
struct Lines<W> {
    to: W,
    torn: bool,
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.all(b"\n")?;
        }
        self.all(line)
    }

    fn all(&mut self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.torn = n < rest.len();
                    rest = &rest[n..];
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(REST),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

    use super::*;

    fn queue() -> Arc<Queue> {
        Queue::new(IntCounter::new("dropped", "Dropped.").unwrap())
    }

    fn note(lines: u64) -> Vec<u8> {
        format!("{lines} dropped\n").into_bytes()
    }

    /// Takes what is written only when the other side asks.
    struct Reader(SyncSender<Vec<u8>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn started() -> (Arc<Queue>, Receiver<Vec<u8>>) {
        let (queue, (to, from)) = (queue(), sync_channel(0));
        queue.start(Reader(to), note).unwrap();
        (queue, from)
    }

    fn line(from: &Receiver<Vec<u8>>) -> String {
        String::from_utf8(from.recv_timeout(Duration::from_secs(10)).unwrap()).unwrap()
    }

    #[test]
    fn what_finds_no_room_is_counted_and_said_in_its_place() {
        let (queue, from) = started();
        queue.push(b"first\n");
        // The writer holds the first line, and nobody reads.
        while !queue.lock().writing {
            thread::yield_now();
        }
        for n in 0..MOST_LINES + 5 {
            queue.push(format!("{n}\n").as_bytes());
        }
        assert_eq!(queue.dropped.get(), 5);
        assert_eq!(line(&from), "first\n");
        for n in 0..MOST_LINES {
            assert_eq!(line(&from), format!("{n}\n"));
        }
        assert_eq!(line(&from), "5 dropped\n");
        queue.push(b"later\n");
        assert_eq!(line(&from), "later\n");
        queue.flush(Duration::from_secs(10));
        assert!(!queue.lock().writing);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let queue = queue();
        let long = vec![b'x'; MOST_BYTES / 2];
        (0..3).for_each(|_| queue.push(&long));
        assert_eq!((queue.dropped.get(), queue.lock().bytes), (1, MOST_BYTES));
    }

    #[test]
    fn flush_gives_up_when_nobody_reads() {
        let (queue, from) = started();
        queue.push(b"stuck\n");
        let (tell, told) = channel();
        let waiter = Arc::clone(&queue);
        thread::spawn(move || {
            waiter.flush(Duration::from_millis(50));
            tell.send(())
        });
        told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(line(&from), "stuck\n");
    }

    /// Plays what it is told for each write: so many bytes taken, or an error; then takes everything.
    struct Played(VecDeque<Result<usize, ErrorKind>>, Vec<u8>);

    impl Write for Played {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = self.0.pop_front().unwrap_or(Ok(bytes.len()))?;
            self.1.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_broke_off_is_ended_before_the_next() {
        let full = [Ok(2), Err(ErrorKind::WouldBlock), Ok(1), Err(ErrorKind::StorageFull)];
        let mut lines = Lines { to: Played(full.into(), Vec::new()), torn: false };
        assert_eq!(lines.write(b"broken\n").unwrap_err().kind(), ErrorKind::StorageFull);
        lines.write(b"whole\n").unwrap();
        lines.write(b"whole too\n").unwrap();
        assert_eq!(String::from_utf8(lines.to.1).unwrap(), "bro\nwhole\nwhole too\n");
    }
}
