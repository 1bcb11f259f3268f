//! Another plan under way: what is as before goes on without a gap, what has changed is told its lanes, what is gone leaves its
//! books, and a lane that is stuck is waited for by nobody.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use tokio::sync::oneshot;

use super::Error;
use super::control::{Control, Message};
use super::inbox::Outbox;
use super::seats::{Key, Place};
use super::target::Target;
use super::work::{Desk, Work};
use crate::clock;
use crate::config::{Plan, TargetPlan};
use crate::expose::OwnCounters;
use crate::schedule::{Direction, TaskId};

/// How many lanes may be stuck in targets that were taken away, before a plan is refused that would leave more: each keeps a
/// thread, for as long as its disk hangs.
const MOST_STUCK: usize = 64;

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    kept: usize,
    changed: usize,
    added: usize,
    removed: usize,
    /// New targets that could not be started, and why.
    failed: Vec<String>,
}

/// Reads the config anew.
pub type Load = dyn Fn() -> Result<Plan, String> + Send;

/// Asks for reloads; they are done one after the other, on a thread that a hung disk under the config file stops alone.
#[derive(Clone, Debug)]
pub(super) struct Reloader(SyncSender<()>);

impl Reloader {
    pub(super) fn start(load: Box<Load>, messages: Outbox, own: OwnCounters) -> Result<Self, Error> {
        let (ask, asked) = sync_channel(1);
        let work = move || {
            while asked.recv().is_ok() {
                let done = load().and_then(|plan| apply(&messages, plan));
                own.reloaded(done.as_ref().is_ok_and(|done| done.failed.is_empty()), clock::wall());
                match done {
                    Ok(Changes { kept, changed, added, removed, failed }) => {
                        tracing::info!(kept, changed, added, removed, "the config is reloaded");
                        for why in failed {
                            tracing::error!(reason = why, "a new target is left out; reload to try again");
                        }
                    }
                    Err(why) => {
                        tracing::error!(reason = why, "the config is not reloaded; what ran goes on");
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("reload".into()).spawn(work);
        thread.map(|_| Self(ask)).map_err(|e| Error::Start("the reload thread", e.into()))
    }

    /// Reloads soon. While one reload waits for its turn, that does for all who ask.
    pub(super) fn ask(&self) {
        if let Err(TrySendError::Disconnected(())) = self.0.try_send(()) {
            tracing::error!("the config is not reloaded: the thread that does it is gone");
        }
    }
}

fn apply(messages: &Outbox, plan: Plan) -> Result<Changes, String> {
    let (tell, told) = oneshot::channel();
    let gone = || "the daemon is ending".to_owned();
    messages.send(Message::Reload(Box::new(plan), tell)).map_err(|_| gone())?;
    told.blocking_recv().map_err(|_| gone())?
}

impl Control {
    /// Goes by these targets from now on.
    pub(super) fn apply(&mut self, plan: &[TargetPlan]) -> Result<Changes, String> {
        let stays = |target: &Target| {
            plan.iter().find(|new| new.name == target.name && place(new) == place(&target.config))
        };
        let gone: Vec<Key> =
            self.targets.iter().filter(|(_, target)| stays(target).is_none()).map(|(key, _)| *key).collect();
        let places: Vec<Place> = plan.iter().map(place).collect();
        let stuck = self.seats.stuck_without(&gone, &places);
        if stuck > MOST_STUCK {
            return Err(format!(
                "{stuck} operations would be out on targets that are not in the config any more, and each keeps a thread; \
                 keep the targets, or wait until their disks answer"
            ));
        }
        let mut changes = Changes { removed: gone.len(), ..Changes::default() };
        gone.iter().for_each(|key| self.remove(*key));
        for new in plan {
            let known = self.targets.iter().find(|(_, target)| target.name == new.name);
            match known.map(|(key, target)| (*key, target.config == *new)) {
                Some((_, true)) => changes.kept += 1,
                Some((key, false)) => {
                    self.change(key, new);
                    changes.changed += 1;
                }
                // Most likely there are too many threads; that must not cost the others anything.
                None => match self.add(new) {
                    Ok(()) => changes.added += 1,
                    Err(why) => changes.failed.push(format!("target `{}`: {why}", new.name)),
                },
            }
        }
        self.seats.tidy();
        let order = plan.iter().filter_map(|new| self.targets.values().find(|t| t.name == new.name));
        let order: Vec<_> = order.map(|target| target.id).collect();
        self.book.arrange(&order);
        Ok(changes)
    }

    fn remove(&mut self, key: Key) {
        self.drop_sweeps(key);
        let swept = self.sweeps.get(&key).and_then(|sweeping| sweeping.seat);
        let Some(target) = self.targets.remove(&key) else { return };
        for task in target.tasks {
            self.planner.remove(task);
            self.works.remove(&task);
        }
        self.keeper.release(&target, clock::now(), clock::wall());
        self.book.remove_target(target.id);
        self.seats.leave(key);
        let out = target.lanes.into_iter().chain(swept.map(|(lane, _)| lane));
        let out = out.filter_map(|lane| self.seats.out(lane));
        let own =
            |task: &TaskId| target.tasks.contains(task) || swept.is_some_and(|(_, swept)| swept == *task);
        self.purse.remove(key, out.filter(own), clock::now());
        target.say_goodbye();
    }

    fn change(&mut self, key: Key, config: &TargetPlan) {
        let Some(target) = self.targets.get(&key) else { return };
        let out = |direction: Direction| {
            let task = self.seats.out(target.lanes[direction as usize]);
            // A lane may still be out for a target that was here before; that report finds nobody.
            task.is_some_and(|task| target.tasks.contains(&task))
        };
        let busy = [out(Direction::Write), out(Direction::Read)];
        let other_files = super::control::spec(config) != **target.spec();
        self.purse.change(key, config, clock::now());
        self.with(key, |target, desk| target.replan(config, busy, desk));
        self.plan_sweeps(key, config);
        if other_files {
            // A lane that hears of another spec closes what it has open: its sweep ends before, with what it found.
            self.sweeps.get_mut(&key).into_iter().for_each(|sweeping| sweeping.course.interrupt());
        }
        self.drive(key);
    }

    /// A target with lanes; the first look at it is due at once.
    pub(super) fn add(&mut self, config: &TargetPlan) -> Result<(), Error> {
        let now = clock::now();
        let key = Key(self.next_key);
        self.next_key += 1;
        let spec = Arc::new(super::control::spec(config));
        let seed = self.seed(&config.name);
        let (lanes, inflight) = self.seats.take(key, &spec, seed)?;
        let tasks = Work::ALL.map(|work| {
            let task = self.planner.add(lanes[work.direction() as usize], seed.wrapping_add(work as u64));
            self.works.insert(task, (key, work));
            task
        });
        let books = super::control::books(config, &inflight);
        let id = self.book.add_target(books.clone());
        let target = Target::new(id, config.clone(), spec, books, lanes, tasks, seed);
        self.purse.add(key, config);
        target.begin(&mut self.planner, now);
        self.targets.insert(key, target);
        let mut desk = Desk { planner: &mut self.planner, book: &mut self.book, now, wall: clock::wall() };
        self.targets.get_mut(&key).into_iter().for_each(|target| self.keeper.restore(target, &mut desk));
        self.plan_sweeps(key, config);
        Ok(())
    }
}

fn place(config: &TargetPlan) -> Place {
    Place::of(&super::control::spec(config))
}
