//! Looking for disks, on a thread of its own: it reads procfs and sysfs, which may hang like anything else, and then nothing but
//! this waits. How old its last result is, is a metric.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use prometheus::Gauge;

use super::Error;
use crate::clock;
use crate::config::{DiscoverPlan, Plan, TargetPlan};
use crate::sys::{MountWatch, Waker};
use crate::target::{self, Found, Roots, Taken};

/// From one look to the next, where no mount comes or goes.
const PERIOD: Duration = Duration::from_secs(30);
/// Before each look: mounts seldom come alone, and at the start the lanes find out where the targets of the config are.
const REST: Duration = Duration::from_secs(1);

/// The thread that looks, told what for.
pub(super) struct Discovery {
    wish: Arc<Mutex<Wish>>,
    waker: Waker,
}

/// What is looked for, and for which plan; a later plan has a higher number.
#[derive(Clone, Default)]
struct Wish {
    number: u64,
    discover: Option<DiscoverPlan>,
    named: Vec<TargetPlan>,
}

impl Wish {
    fn is_as(&self, other: &Self) -> bool {
        let places =
            |wish: &Self| wish.named.iter().map(|t| (t.name.clone(), t.path.clone())).collect::<Vec<_>>();
        let wishes = |wish: &Self| wish.discover.as_ref().map(|discover| discover.wishes.clone());
        wishes(self) == wishes(other) && places(self) == places(other)
    }
}

impl Discovery {
    /// Starts the thread. It calls `tell` with all that is there, after each look that brought another result than the one before, and
    /// the number of the plan that it looked for.
    pub(super) fn start(
        roots: Arc<Roots>,
        last: Gauge,
        tell: impl Fn(u64, Vec<TargetPlan>) + Send + 'static,
    ) -> Result<Self, Error> {
        let watch =
            MountWatch::new(&roots.proc.join("self/mountinfo")).map_err(|e| Error::Start("discovery", e))?;
        let (wish, waker) = (Arc::new(Mutex::new(Wish::default())), watch.waker());
        let theirs = Arc::clone(&wish);
        let work = move || {
            let mut looker =
                Looker { roots, last, wish: Wish::default(), found: Vec::new(), told: None, failed: None };
            loop {
                thread::sleep(REST);
                let wish = locked(&theirs).clone();
                looker.look(wish, &tell);
                watch.wait(PERIOD);
            }
        };
        thread::Builder::new()
            .name("discover".into())
            .stack_size(256 << 10)
            .spawn(work)
            .map_err(|e| Error::Start("the discovery thread", e.into()))?;
        Ok(Self { wish, waker })
    }

    /// From now on looks for what this plan says.
    pub(super) fn set(&self, plan: &Plan) {
        let mut wish = locked(&self.wish);
        *wish =
            Wish { number: wish.number + 1, discover: plan.discover.clone(), named: plan.targets.clone() };
        drop(wish);
        self.waker.wake();
    }
}

/// Values are only ever replaced as a whole, so one that a panic left is whole too.
fn locked(wish: &Mutex<Wish>) -> MutexGuard<'_, Wish> {
    wish.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Looker {
    roots: Arc<Roots>,
    last: Gauge,
    wish: Wish,
    found: Vec<Found>,
    /// For which plan what was told.
    told: Option<(u64, Vec<TargetPlan>)>,
    /// What was logged of a look that failed.
    failed: Option<String>,
}

impl Looker {
    fn look(&mut self, wish: Wish, tell: &dyn Fn(u64, Vec<TargetPlan>)) {
        if !wish.is_as(&self.wish) {
            // What was good for the last plan may not be for this one.
            self.found.clear();
        }
        self.wish = wish;
        let Some(discover) = &self.wish.discover else { return };
        let taken: Vec<Taken<'_>> =
            self.wish.named.iter().map(|target| Taken { name: &target.name, path: &target.path }).collect();
        match target::discover(&discover.wishes, &taken, &self.found, &self.roots) {
            Ok(discovery) => {
                self.found = discovery.found;
                self.failed = None;
                self.last.set(clock::wall().as_secs_f64());
                let now = (self.wish.number, discover.targets(&self.found, &self.wish.named));
                if self.told.as_ref() != Some(&now) {
                    tell(now.0, now.1.clone());
                }
                self.told = Some(now);
            }
            Err(errno) => {
                let why = errno.to_string();
                if self.failed.as_ref() != Some(&why) {
                    tracing::warn!(
                        reason = why,
                        "the mounts of this machine cannot be read: what was found stays"
                    );
                }
                self.failed = Some(why);
            }
        }
    }
}

#[cfg(test)]
mod tests;
