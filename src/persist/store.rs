//! The thread that reads the state once and then writes the newest, and the slot in which it finds it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::State;
use super::file::{Before, Fault, Place};
use crate::clock::{self, Tick};

/// How long the start waits for the state of before.
const LOAD_WITHIN: Duration = Duration::from_secs(3);
/// Between two writes: what changes often must not wear the disk.
const REST: Duration = Duration::from_secs(10);
/// The same where somebody asked for a pause: it is to be there after a crash too.
const SHORT_REST: Duration = Duration::from_secs(1);
/// After a failure the next try waits, at most so long.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// Touched pages of it: about 12 KiB.
const STACK: usize = 128 << 10;

/// Hands states over to the thread that writes them. Clones lead to the same one.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    slot: Mutex<Slot>,
    changed: Condvar,
}

/// Held for moments only, never over a system call that may wait.
#[derive(Debug, Default)]
struct Slot {
    /// The newest state, and since when it waits.
    pending: Option<(State, Tick)>,
    /// Since when the one that is being written had waited.
    writing: Option<Tick>,
    /// Whether a rest is to be cut short.
    hurry: bool,
    /// Whether nobody will ever write.
    nowhere: bool,
    /// Whether the first look for the state of before is not over.
    loading: bool,
    /// The state of before, until it is taken.
    before: Option<State>,
    /// Whether what waits to be written was handed over without knowing the state of before: it is not written.
    ignorant: bool,
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what was kept in `dir`, for at most three seconds, and starts the thread that keeps what comes from now on. What is read
/// later can be had from [`Handle::late`], and nothing is written before. Whatever goes wrong is logged and begins with an empty state.
/// `failed` is called for each write that failed.
pub fn open(dir: PathBuf, failed: impl Fn() + Send + 'static) -> (State, Handle) {
    open_within(LOAD_WITHIN, Place::new(dir), Place::load, failed)
}

/// `load` reads the state of before.
pub(super) fn open_within(
    patience: Duration,
    place: Place,
    load: impl Fn(&mut Place) -> Loaded + Send + 'static,
    failed: impl Fn() + Send + 'static,
) -> (State, Handle) {
    let shared = Arc::new(Shared::default());
    shared.slot().loading = true;
    let theirs = Arc::clone(&shared);
    let shown = place.path().display().to_string();
    let keep = move || keep(place, &load, &theirs, &failed);
    if let Err(error) = thread::Builder::new().name("state".into()).stack_size(STACK).spawn(keep) {
        tracing::warn!(%error, "no thread for the state: pauses and budgets will not outlive this process");
        return (State::default(), Handle::nowhere());
    }
    let waited = shared.changed.wait_timeout_while(shared.slot(), patience, |slot| slot.loading);
    let (mut slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if slot.loading {
        let seconds = patience.as_secs();
        tracing::warn!(
            dir = shown,
            seconds,
            "the state directory did not answer in time; beginning without it until it does"
        );
    }
    let state = slot.before.take().unwrap_or_default();
    slot.ignorant = false;
    drop(slot);
    (state, Handle { shared })
}

impl Handle {
    /// Where there is no state directory: what is handed over is never written, and grows older.
    pub fn nowhere() -> Self {
        let handle = Self { shared: Arc::default() };
        handle.shared.slot().nowhere = true;
        handle
    }

    /// To be written when it can be; takes the place of a state that still waits.
    pub fn save(&self, state: State, now: Tick) {
        let mut slot = self.shared.slot();
        let (mut state, mut since) = (state, now);
        if let Some((older, waiting)) = slot.pending.take() {
            state.inherit(older);
            since = waiting;
        }
        slot.pending = Some((state, since));
        // Whoever has taken the state of before knows it.
        slot.ignorant &= slot.before.is_some();
        drop(slot);
        self.shared.changed.notify_all();
    }

    /// The state of before, when it was found after [`open`] gave up waiting; told once. What is saved from then on is to hold it.
    pub fn late(&self) -> Option<State> {
        self.shared.slot().before.take()
    }

    /// How long the oldest change that is not on the disk has been waiting; zero when all is.
    pub fn unsaved(&self, now: Tick) -> Duration {
        let slot = self.shared.slot();
        let oldest = slot.writing.or(slot.pending.as_ref().map(|(_, since)| *since));
        oldest.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Has what waits written now, and waits for that at most `patience`. Whether all is on the disk.
    pub fn flush(&self, patience: Duration) -> bool {
        let mut slot = self.shared.slot();
        let open = |slot: &mut Slot| slot.hurry && (slot.pending.is_some() || slot.writing.is_some());
        slot.hurry = !slot.nowhere;
        self.shared.changed.notify_all();
        let (mut slot, _) = self
            .shared
            .changed
            .wait_timeout_while(slot, patience, open)
            .unwrap_or_else(PoisonError::into_inner);
        slot.hurry = false;
        slot.pending.is_none() && slot.writing.is_none()
    }
}

pub(super) type Loaded = Result<Before, Fault>;
type Load = dyn Fn(&mut Place) -> Loaded;
/// The pauses that were written last.
type Pauses = BTreeMap<String, u64>;

fn keep(mut place: Place, load: &Load, shared: &Shared, failed: &dyn Fn()) {
    let before = match load(&mut place) {
        Ok(before) => before.tell(),
        Err(fault) => {
            tracing::warn!(%fault, "the state of before cannot be had; it is tried again, and not written over");
            State::default()
        }
    };
    let (mut written, mut last, mut failures) = (before.pauses.clone(), None, 0);
    tell(shared, Some(before).filter(|state| *state != State::default()));
    loop {
        let (state, since) = next(shared, &written, last, failures);
        let saved = save(&mut place, load, shared, &state);
        last = Some(clock::now());
        match saved {
            Ok(Saved::Written) => {
                if failures > 0 {
                    tracing::info!(dir = %place.path().display(), "the state is kept again");
                }
                (written, failures) = (state.pauses, 0);
                done(shared, None);
            }
            Ok(Saved::Found) => done(shared, Some((state, since))),
            Err(fault) => {
                failed();
                if failures == 0 {
                    tracing::warn!(%fault, "the state is not kept: pauses and budgets may not outlive this process");
                }
                failures += 1;
                done(shared, Some((state, since)));
            }
        }
    }
}

enum Saved {
    Written,
    /// Nothing was written, since the state of before was found.
    Found,
}

fn save(place: &mut Place, load: &Load, shared: &Shared, state: &State) -> Result<Saved, Fault> {
    if !place.is_read() {
        let before = load(place)?.tell();
        if before != State::default() {
            tell(shared, Some(before));
            return Ok(Saved::Found);
        }
    }
    place.save(state).map(|()| Saved::Written)
}

/// The look for the state of before is over: what waits does not know of what was found.
fn tell(shared: &Shared, before: Option<State>) {
    let mut slot = shared.slot();
    slot.loading = false;
    slot.ignorant = before.is_some();
    slot.before = before;
    drop(slot);
    shared.changed.notify_all();
}

/// Waits for a state, and then until it is time to write it.
fn next(shared: &Shared, written: &Pauses, last: Option<Tick>, failures: u32) -> (State, Tick) {
    let mut slot = shared.slot();
    loop {
        let now = clock::now();
        let due = |state: &State| {
            let rest = match failures {
                0 if state.pauses != *written => SHORT_REST,
                n => REST.saturating_mul(1 << n.min(8)).min(if n == 0 { REST } else { LONGEST_REST }),
            };
            last.map_or(now, |last| last + rest)
        };
        let wait = match &slot.pending {
            Some(_) if slot.ignorant => Duration::MAX,
            Some(_) if slot.hurry => Duration::ZERO,
            Some((state, _)) => due(state).since(now),
            None => Duration::MAX,
        };
        if wait.is_zero()
            && let Some((state, since)) = slot.pending.take()
        {
            slot.writing = Some(since);
            return (state, since);
        }
        slot = if wait == Duration::MAX {
            shared.changed.wait(slot).unwrap_or_else(PoisonError::into_inner)
        } else {
            shared.changed.wait_timeout(slot, wait).unwrap_or_else(PoisonError::into_inner).0
        };
    }
}

/// A write came back; what `failed` waits on, unless a newer one is there.
fn done(shared: &Shared, failed: Option<(State, Tick)>) {
    let mut slot = shared.slot();
    slot.writing = None;
    if let Some((older, since)) = failed {
        let state = match slot.pending.take() {
            Some((mut newer, _)) => {
                newer.inherit(older);
                newer
            }
            None => older,
        };
        slot.pending = Some((state, since));
        // Whoever hurries us has seen one try.
        slot.hurry = false;
    }
    drop(slot);
    shared.changed.notify_all();
}
