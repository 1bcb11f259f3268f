//! Between the control thread and the thread that keeps the state: what changed is handed over, and that it is not on the disk is
//! shown.

mod sweeps;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use prometheus::Gauge;

use super::budget::Purse;
use super::control::Control;
use super::seats::Key;
use super::target::Target;
use super::work::Desk;
use crate::clock::{self, Tick};
use crate::expose::OwnCounters;
use crate::http::LONGEST_PAUSE;
use crate::persist::{self, Handle, Known, State};
use crate::schedule::{allowance, budget};
use sweeps::KeptSweeps;

/// From this age on a change that is not on the disk is worth a line in the log.
const STUCK: Duration = Duration::from_secs(60);

/// How often what is left of the budgets is kept where nothing else changes: as much may be spent twice after a power cut.
const BUDGETS_EVERY: Duration = Duration::from_secs(300);

/// Of how many targets that are not in the config now something is kept: where targets come and go for years, names do not end.
const MOST_ABSENT: usize = 1000;

/// The keys of the latency probes' budgets, and of the sweeps'.
const DISKS: &str = "disks";
const SWEEPS: &str = "sweeps";

/// Has the state kept.
pub(super) struct Keeper {
    handle: Handle,
    /// What was left of the budgets before the start.
    budgets: BTreeMap<String, serde_json::Value>,
    absent: Absent,
    pub(super) sweeps: KeptSweeps,
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
        let (budgets, absent) = (BTreeMap::new(), Absent::default());
        let sweeps = KeptSweeps::default();
        let mut keeper = Self { handle, budgets, absent, sweeps, budgets_kept, unsaved, said: false };
        keeper.join(before);
        keeper
    }

    /// What was kept before the start. What came about since is newer.
    fn join(&mut self, before: State) {
        self.budgets = before.budgets;
        self.absent.join(before.targets, before.pauses);
        self.sweeps.join(before.sweeps, |name| self.absent.knows(name));
    }

    /// Whether what was kept before the start is there only now.
    fn join_late(&mut self) -> bool {
        let late = self.handle.late();
        let found = late.is_some();
        late.into_iter().for_each(|before| self.join(before));
        found
    }

    /// What was left of the budgets; none where that is not known, or in words that we do not know.
    pub(super) fn budgets(&self) -> Option<budget::State> {
        serde_json::from_value(self.budgets.get(DISKS)?.clone()).ok()
    }

    /// The same of the sweeps' budgets.
    pub(super) fn sweep_budgets(&self) -> Option<allowance::State> {
        serde_json::from_value(self.budgets.get(SWEEPS)?.clone()).ok()
    }

    /// The way to the thread that writes.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Gives a target what was kept of it. One that is paused already was paused since.
    pub(super) fn restore(&mut self, target: &mut Target, desk: &mut Desk<'_>) {
        self.sweeps.see(&target.name);
        if let Some(known) = self.absent.take_known(&target.name) {
            target.remember(known, desk);
        }
        let until = self.absent.pauses.remove(&target.name);
        if let Some(until) = until.filter(|_| target.pause_left(desk.now).is_none()) {
            // A clock that was set must not make a pause longer than any can be.
            let left = Duration::from_secs(until).saturating_sub(desk.wall).min(LONGEST_PAUSE.get());
            if !left.is_zero() {
                target.pause(left, desk);
            }
        }
    }

    /// A target was taken away; should it come again, it finds what was kept of it.
    pub(super) fn release(&mut self, target: &Target, now: Tick, wall: Duration) {
        if let Some(known) = target.known() {
            self.absent.know(target.name.clone(), known);
        }
        if let Some(left) = target.pause_left(now) {
            self.absent.pause(target.name.clone(), left, wall);
        }
    }

    /// Somebody ended whatever pause the target has, also one that is read only later.
    pub(super) fn resumed(&mut self, name: &str) {
        self.absent.pauses.insert(name.to_owned(), 0);
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
        self.sweeps.trim();
        if changed || self.sweeps.has_new() || now.since(self.budgets_kept) >= BUDGETS_EVERY {
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
        let disks = serde_json::to_value(purse.state(now, wall)).ok();
        let sweeps = serde_json::to_value(purse.sweep_state(wall)).ok();
        let budgets = [(DISKS, disks), (SWEEPS, sweeps)];
        let budgets = budgets.into_iter().filter_map(|(key, left)| Some((key.to_owned(), left?))).collect();
        let state = self.state(targets, budgets, now, wall);
        self.handle.save(state, now);
    }

    fn state(
        &mut self,
        targets: &BTreeMap<Key, Target>,
        budgets: BTreeMap<String, serde_json::Value>,
        now: Tick,
        wall: Duration,
    ) -> State {
        let until = |left: Duration| (wall + left).as_secs();
        let absent = &self.absent;
        let known = |name: &str| targets.values().any(|target| target.name == name) || absent.knows(name);
        State {
            sweeps: self.sweeps.hand_over(known),
            pauses: targets
                .values()
                .filter_map(|target| Some((target.name.clone(), until(target.pause_left(now)?))))
                .chain(self.absent.paused(wall))
                .collect(),
            budgets,
            targets: targets
                .values()
                .filter_map(|target| Some((target.name.clone(), target.known()?)))
                .chain(self.absent.latest())
                .collect(),
        }
    }
}

impl Control {
    /// Takes up what was kept before the start, where its disk was too slow to have it there at the start.
    pub(super) fn take_up_late(&mut self) {
        if !self.keeper.join_late() {
            return;
        }
        let (now, wall) = (clock::now(), clock::wall());
        tracing::info!("the state of before is there after all: pauses and budgets hold again");
        if let Some(left) = self.keeper.budgets() {
            self.purse.restore(left, now, wall);
        }
        if let Some(spent) = self.keeper.sweep_budgets() {
            self.purse.restore_sweeps(spent);
        }
        self.restore_sweeps();
        for target in self.targets.values_mut() {
            let mut desk = Desk { planner: &mut self.planner, book: &mut self.book, now, wall };
            self.keeper.restore(target, &mut desk);
        }
        self.keeper.save(&self.targets, &mut self.purse, now, wall);
    }
}

/// What is kept of targets that are not in the config now: they may come again.
#[derive(Debug, Default)]
struct Absent {
    /// Their probe files; who left first is first.
    known: VecDeque<(String, Known)>,
    /// When their pauses end, in seconds since 1970.
    pauses: BTreeMap<String, u64>,
}

impl Absent {
    fn know(&mut self, name: String, known: Known) {
        self.known.retain(|(other, _)| *other != name);
        self.known.push_back((name, known));
        if self.known.len() > MOST_ABSENT {
            self.known.pop_front();
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.known.iter().any(|(other, _)| other == name)
    }

    fn take_known(&mut self, name: &str) -> Option<Known> {
        let at = self.known.iter().position(|(other, _)| other == name)?;
        self.known.remove(at).map(|(_, known)| known)
    }

    /// Those that ended are forgotten; of too many, the one that ends first.
    fn pause(&mut self, name: String, left: Duration, wall: Duration) {
        self.pauses.retain(|_, until| *until > wall.as_secs());
        self.pauses.insert(name, (wall + left).as_secs());
        if self.pauses.len() > MOST_ABSENT
            && let Some((first, _)) = self.pauses.iter().min_by_key(|(_, until)| **until)
        {
            let first = first.clone();
            self.pauses.remove(&first);
        }
    }

    /// Takes in what is older than all that is here.
    fn join(&mut self, known: BTreeMap<String, Known>, pauses: BTreeMap<String, u64>) {
        for (name, known) in known {
            if self.known.iter().all(|(other, _)| *other != name) {
                self.known.push_front((name, known));
            }
        }
        for (name, until) in pauses {
            self.pauses.entry(name).or_insert(until);
        }
    }

    fn latest(&self) -> impl Iterator<Item = (String, Known)> {
        self.known.iter().rev().take(MOST_ABSENT).cloned()
    }

    fn paused(&self, wall: Duration) -> impl Iterator<Item = (String, u64)> {
        let pauses = self.pauses.iter().map(|(name, until)| (name.clone(), *until));
        pauses.filter(move |(_, until)| *until > wall.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Duration = Duration::from_secs(1_800_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn known(home: &str) -> Known {
        Known { home: home.to_owned(), ..Known::default() }
    }

    fn before(name: &str, until: u64) -> State {
        State {
            pauses: [(name.to_owned(), until)].into(),
            targets: [(name.to_owned(), known("/before"))].into(),
            ..State::default()
        }
    }

    fn keeper() -> Keeper {
        Keeper::open(None, &OwnCounters::new().unwrap())
    }

    fn kept(keeper: &mut Keeper) -> State {
        keeper.state(&BTreeMap::new(), BTreeMap::new(), Tick::default(), WALL)
    }

    #[test]
    fn what_is_known_of_absent_targets_is_kept_over_a_restart() {
        let mut keeper = keeper();
        keeper.join(before("a", WALL.as_secs() + 60));
        assert_eq!(kept(&mut keeper), before("a", WALL.as_secs() + 60));
        keeper.absent.know("a".into(), known("/since"));
        assert_eq!(kept(&mut keeper).targets["a"], known("/since"));
        assert_eq!(keeper.absent.take_known("a"), Some(known("/since")));
        assert!(kept(&mut keeper).targets.is_empty());
    }

    #[test]
    fn a_state_that_comes_late_changes_nothing_that_is_newer() {
        let mut keeper = keeper();
        keeper.absent.know("a".into(), known("/since"));
        keeper.absent.pause("a".into(), HOUR, WALL);
        keeper.resumed("b");
        keeper.join(before("a", WALL.as_secs() + 60));
        keeper.join(before("b", WALL.as_secs() + 60));
        keeper.join(before("c", WALL.as_secs() + 60));
        let kept = kept(&mut keeper);
        assert_eq!(kept.targets["a"], known("/since"));
        let left = [("a".to_owned(), (WALL + HOUR).as_secs()), ("c".to_owned(), WALL.as_secs() + 60)];
        assert_eq!(kept.pauses, left.into(), "the pause of b was ended meanwhile");
    }

    #[test]
    fn names_without_end_are_forgotten_in_the_order_in_which_they_left() {
        let mut absent = Absent::default();
        absent.join((0..3000).map(|n| (format!("old-{n}"), known("/"))).collect(), BTreeMap::new());
        assert_eq!(absent.latest().count(), MOST_ABSENT, "a state may hold more");
        let mut absent = Absent::default();
        for n in 0..3 * MOST_ABSENT {
            absent.know(n.to_string(), known("/"));
            absent.know("again".into(), known("/"));
            absent.pause(n.to_string(), HOUR + Duration::from_secs(n as u64), WALL);
        }
        assert_eq!((absent.known.len(), absent.pauses.len()), (MOST_ABSENT, MOST_ABSENT));
        assert!(absent.take_known("again").is_some() && absent.take_known("2999").is_some());
        assert!(absent.take_known("0").is_none() && !absent.pauses.contains_key("0"));
        absent.pause("last".into(), HOUR, WALL + 2 * HOUR);
        assert_eq!(absent.pauses.len(), 1, "the others have ended");
    }
}
