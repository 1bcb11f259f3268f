//! The thread that looks at the machine once a second. It shares two slots with the control thread, which wakes nobody and waits
//! for nobody: if this thread hangs in the kernel, all that happens is that what it saw last grows old, and says how old it is.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::Error;
use super::seats::Key;
use crate::clock;
use crate::device::{Files, View};
use crate::probe::sweep::Watch;
use crate::record::Book;
use crate::target::Roots;

/// From one look to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// Enough for the deepest call; the texts lie on the heap.
const STACK: usize = 128 << 10;

/// A value that one thread puts down and another takes up. The lock is held for the copy of a pointer, never over a system call.
#[derive(Debug)]
struct Slot<T: ?Sized>(Mutex<Arc<T>>);

impl<T: ?Sized> Slot<T> {
    fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, value: Arc<T>) {
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), value);
        // Outside of the lock: it may be the last of it.
        drop(before);
    }
}

/// What the control thread has of the sampler.
#[derive(Debug)]
pub(super) struct Sampling(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The devices to look at.
    devices: Slot<[Arc<str>]>,
    /// The sweeps to look at in the same moment.
    sweeps: Slot<[(Key, Arc<Watch>)]>,
    seen: Slot<Seen>,
}

/// What was seen in one moment.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) view: Arc<View>,
    /// Operations and bytes of the sweeps that are under way.
    moved: Vec<(Key, (u64, u64))>,
}

impl Seen {
    /// What the sweep of this target had done by then; `None` where it was not looked at.
    pub(super) fn moved(&self, key: Key) -> Option<(u64, u64)> {
        self.moved.iter().find(|(known, _)| *known == key).map(|(_, moved)| *moved)
    }
}

impl Sampling {
    /// Starts the thread. It ends soon after this is dropped.
    pub(super) fn start(roots: &Roots) -> Result<Self, Error> {
        let (devices, seen) = (Slot(Mutex::new(Arc::from([]))), Slot(Mutex::new(Arc::default())));
        let shared = Arc::new(Shared { devices, sweeps: Slot(Mutex::new(Arc::from([]))), seen });
        let (files, theirs) = (Files::below(roots), Arc::downgrade(&shared));
        let look = move || sample(files, &theirs);
        let thread = thread::Builder::new().name("sampler".into()).stack_size(STACK).spawn(look);
        thread.map_err(|e| Error::Start("the sampler", e.into()))?;
        Ok(Self(shared))
    }

    /// Gives the books what was seen last, and learns from them which devices are of interest.
    pub(super) fn exchange(&self, book: &mut Book) -> Arc<Seen> {
        self.0.devices.put(book.devices());
        let seen = self.0.seen.get();
        book.set_context(Arc::clone(&seen.view));
        seen
    }

    /// These sweeps are looked at from now on, in the same moment as the devices.
    pub(super) fn watch(&self, sweeps: Arc<[(Key, Arc<Watch>)]>) {
        self.0.sweeps.put(sweeps);
    }
}

fn sample(mut files: Files, shared: &std::sync::Weak<Shared>) {
    let mut watched: Arc<[Arc<str>]> = Arc::from([]);
    let mut next = clock::now();
    while let Some(shared) = shared.upgrade() {
        let devices = shared.devices.get();
        if !Arc::ptr_eq(&devices, &watched) {
            files.watch(&devices);
            watched = devices;
        }
        let view = Arc::new(files.sample(clock::now));
        let moved = shared.sweeps.get().iter().map(|(key, watch)| (*key, watch.moved())).collect();
        shared.seen.put(Arc::new(Seen { view, moved }));
        drop(shared);
        // What was missed is not caught up on.
        let now = clock::now();
        next = if now < next + PERIOD { next + PERIOD } else { now + PERIOD };
        thread::sleep(next.since(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Facts, Plan};

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a fixture")]
    fn what_is_seen_comes_without_anybody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        std::fs::create_dir(&proc).unwrap();
        let roots = Roots { proc: proc.clone(), ..Roots::default() };
        // Whoever opens this pipe waits until there is a writer: a kernel that does not answer.
        let pipe = proc.join("diskstats");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let sampling = Sampling::start(&roots).unwrap();
        let mut book = Book::new();
        let id = book.add_target(Plan::new("a", "/", Arc::default()));
        book.set_facts(id, Facts { device: "sda".into(), ..Facts::default() });
        for _ in 0..20 {
            sampling.exchange(&mut book);
            assert_eq!(book.snapshot(clock::now()).context.taken, None);
            thread::sleep(Duration::from_millis(10));
        }
        // The kernel answers again: the pipe is a file by the time that its end of file is there.
        std::fs::rename(&pipe, proc.join("pipe")).unwrap();
        std::fs::write(&pipe, "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n").unwrap();
        let writer = std::fs::OpenOptions::new().write(true).open(proc.join("pipe")).unwrap();
        let seen = (0..500).any(|_| {
            thread::sleep(Duration::from_millis(20));
            sampling.exchange(&mut book);
            !book.snapshot(clock::now()).context.disks.is_empty()
        });
        drop(writer);
        assert!(seen);
    }
}
