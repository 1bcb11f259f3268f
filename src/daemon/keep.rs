//! Between the control thread and the thread that keeps the state: what changed is handed over, and that it is not on the disk is
//! shown.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use prometheus::Gauge;

use super::budget::Purse;
use super::seats::Key;
use super::target::Target;
use super::work::Desk;
use crate::clock::Tick;
use crate::expose::OwnCounters;
use crate::http::LONGEST_PAUSE;
use crate::persist::{self, Handle, State};
use crate::schedule::budget;

/// From this age on a change that is not on the disk is worth a line in the log.
const STUCK: Duration = Duration::from_secs(60);

/// How often what is left of the budgets is kept where nothing else changes: as much may be spent twice after a power cut.
const BUDGETS_EVERY: Duration = Duration::from_secs(300);

/// The key of the latency probes' budgets.
const DISKS: &str = "disks";

/// Has the state kept.
pub(super) struct Keeper {
    handle: Handle,
    /// What was kept before the start, until the targets have taken it. A pause of one that the config does not name now is kept
    /// until it ends.
    before: State,
    /// When what is left of the budgets was last handed over.
    budgets_kept: Tick,
    unsaved: Gauge,
    said: bool,
}

impl Keeper {
    /// Takes up what was kept in `dir`.
    pub(super) fn open(dir: Option<PathBuf>, own: &OwnCounters) -> Self {
        let (before, handle) = match dir {
            Some(dir) => {
                let errors = own.state_save_errors.clone();
                persist::open(dir, move || errors.inc())
            }
            None => {
                tracing::warn!(
                    "no state directory, since $STATE_DIRECTORY and $HOME are no absolute paths: pauses and budgets will \
                     not outlive this process"
                );
                (State::default(), Handle::nowhere())
            }
        };
        let (budgets_kept, unsaved) = (Tick::default(), own.state_unsaved.clone());
        Self { handle, before, budgets_kept, unsaved, said: false }
    }

    /// What was left of the budgets; none where that is not known, or in words that we do not know.
    pub(super) fn budgets(&self) -> Option<budget::State> {
        serde_json::from_value(self.before.budgets.get(DISKS)?.clone()).ok()
    }

    /// The way to the thread that writes.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Gives a new target what was kept of it.
    pub(super) fn restore(&mut self, target: &mut Target, desk: &mut Desk<'_>) {
        if let Some(known) = self.before.targets.remove(&target.name) {
            target.remember(known, desk);
        }
        if let Some(until) = self.before.pauses.remove(&target.name) {
            // A clock that was set must not make a pause longer than any can be.
            let left = Duration::from_secs(until).saturating_sub(desk.wall).min(LONGEST_PAUSE.get());
            if !left.is_zero() {
                target.pause(left, desk);
            }
        }
    }

    /// A target was taken away; should it come again, it finds what was kept of it.
    pub(super) fn release(&mut self, target: &Target, now: Tick, wall: Duration) {
        self.before.targets.extend(target.known().map(|known| (target.name.clone(), known)));
        let left = target.pause_left(now).map(|left| (target.name.clone(), (wall + left).as_secs()));
        self.before.pauses.extend(left);
    }

    /// Hands over what changed since the last look.
    pub(super) fn look(
        &mut self,
        targets: &mut BTreeMap<Key, Target>,
        purse: &mut Purse,
        now: Tick,
        wall: Duration,
    ) {
        let changed = targets.values_mut().fold(false, |changed, target| target.take_to_keep() | changed);
        if changed || now.since(self.budgets_kept) >= BUDGETS_EVERY {
            self.save(targets, purse, now, wall);
        }
        let age = self.handle.unsaved(now);
        self.unsaved.set(age.as_secs_f64());
        if age >= STUCK && !self.said {
            let seconds = age.as_secs();
            tracing::warn!(
                seconds,
                "the state is not on the disk yet: pauses and budgets may not outlive this process"
            );
        }
        self.said = age >= STUCK;
    }

    /// Hands everything over as it is.
    pub(super) fn save(
        &mut self,
        targets: &BTreeMap<Key, Target>,
        purse: &mut Purse,
        now: Tick,
        wall: Duration,
    ) {
        self.budgets_kept = now;
        let left = serde_json::to_value(purse.state(now, wall)).ok();
        let budgets = left.map(|left| (DISKS.to_owned(), left)).into_iter().collect();
        self.handle.save(self.state(targets, budgets, now, wall), now);
    }

    fn state(
        &self,
        targets: &BTreeMap<Key, Target>,
        budgets: BTreeMap<String, serde_json::Value>,
        now: Tick,
        wall: Duration,
    ) -> State {
        let until = |left: Duration| (wall + left).as_secs();
        State {
            pauses: targets
                .values()
                .filter_map(|target| Some((target.name.clone(), until(target.pause_left(now)?))))
                .chain(self.before.pauses.clone().into_iter().filter(|(_, until)| *until > wall.as_secs()))
                .collect(),
            budgets,
            targets: targets
                .values()
                .filter_map(|target| Some((target.name.clone(), target.known()?)))
                .collect(),
        }
    }
}
