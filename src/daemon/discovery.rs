//! Looking for disks, on a thread of its own: it reads procfs and sysfs, which may hang like anything else, and then nothing but
//! this waits. How old its last result is, is a metric.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use prometheus::Gauge;

use super::Error;
use crate::clock;
use crate::config::{DiscoverPlan, Plan, TargetPlan};
use crate::expose::OwnCounters;
use crate::sys::{MountWatch, Waker};
use crate::target::{self, Found, Roots, Taken};

/// From one look to the next, where no mount comes or goes.
const PERIOD: Duration = Duration::from_secs(30);
/// Before each look: mounts seldom come alone, and at the start the lanes find out where the targets of the config are.
const REST: Duration = Duration::from_secs(1);

/// What is told of a look: for which plan it was, and the targets that are to be, each with the (major, minor) of its file
/// system or device.
pub(super) type Tell = dyn Fn(u64, Vec<Sighting>) + Send;

/// A disk that is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sighting {
    pub(super) target: TargetPlan,
    pub(super) number: (u32, u32),
}

/// The thread that looks, told what for. It begins with the first plan that wants it, and stays.
pub(super) struct Discovery {
    /// Of the last plan; answers for an earlier one are out of date.
    pub(super) number: u64,
    roots: Arc<Roots>,
    own: OwnCounters,
    tell: Option<Box<Tell>>,
    running: Option<(Arc<Mutex<Wish>>, Waker)>,
}

/// What is looked for, and for which plan; a later plan has a higher number.
#[derive(Clone)]
struct Wish {
    number: u64,
    discover: Option<DiscoverPlan>,
    named: Vec<TargetPlan>,
}

impl Discovery {
    /// Nothing is looked for yet. `tell` is called by the thread after each look.
    pub(super) fn new(roots: &Arc<Roots>, own: &OwnCounters, tell: Box<Tell>) -> Self {
        Self { number: 0, roots: Arc::clone(roots), own: own.clone(), tell: Some(tell), running: None }
    }

    /// From now on looks for what this plan says.
    pub(super) fn set(&mut self, plan: &Plan) -> Result<(), Error> {
        self.number += 1;
        let wish = Wish { number: self.number, discover: plan.discover.clone(), named: plan.targets.clone() };
        if let Some((theirs, waker)) = &self.running {
            *locked(theirs) = wish;
            waker.wake();
        } else if plan.discover.is_some()
            && let Some(tell) = self.tell.take()
        {
            self.running = Some(self.start(wish, tell)?);
        }
        Ok(())
    }

    fn start(&self, wish: Wish, tell: Box<Tell>) -> Result<(Arc<Mutex<Wish>>, Waker), Error> {
        let watch = MountWatch::new(&self.roots.proc.join("self/mountinfo"))
            .map_err(|e| Error::Start("discovery", e))?;
        let (wish, waker) = (Arc::new(Mutex::new(wish)), watch.waker());
        let theirs = Arc::clone(&wish);
        let mut looker = Looker {
            roots: Arc::clone(&self.roots),
            last: self.own.discovery(),
            found: Vec::new(),
            named: BTreeSet::new(),
            failed: None,
        };
        let work = move || {
            loop {
                thread::sleep(REST);
                let wish = locked(&theirs).clone();
                looker.look(&wish, &*tell);
                watch.wait(PERIOD);
            }
        };
        thread::Builder::new()
            .name("discover".into())
            .stack_size(256 << 10)
            .spawn(work)
            .map_err(|e| Error::Start("the discovery thread", e.into()))?;
        Ok((wish, waker))
    }
}

/// Values are only ever replaced as a whole, so one that a panic left is whole too.
fn locked(wish: &Mutex<Wish>) -> MutexGuard<'_, Wish> {
    wish.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Looker {
    roots: Arc<Roots>,
    last: Gauge,
    /// What the last look that succeeded has found, and the places that had a name then.
    found: Vec<Found>,
    named: BTreeSet<PathBuf>,
    /// What was logged of a look that failed.
    failed: Option<String>,
}

impl Looker {
    fn look(&mut self, wish: &Wish, tell: &Tell) {
        let Some(discover) = &wish.discover else {
            // Should it be wanted again, what is there then counts.
            self.found.clear();
            return;
        };
        let is_new = |path| !self.named.contains(path);
        let named = wish.named.iter().map(|t| Taken { name: &t.name, path: &t.path, new: is_new(&t.path) });
        let taken: Vec<Taken<'_>> = named.collect();
        match target::discover(&discover.wishes, &taken, &self.found, &self.roots) {
            Ok(discovery) => {
                self.found = discovery.found;
                self.named = wish.named.iter().map(|target| target.path.clone()).collect();
                self.failed = None;
                self.last.set(clock::wall().as_secs_f64());
                let targets = discover.targets(&self.found, &wish.named).into_iter();
                let numbers = self.found.iter().map(|found| found.number);
                tell(
                    wish.number,
                    targets.zip(numbers).map(|(target, number)| Sighting { target, number }).collect(),
                );
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
