//! What the disks below a target have done, read on either side of a run.

use crate::probe::truth::{Total, Underneath};
use crate::target::{CounterFile, Counters, Roots, Target};

/// The counters of a target's leaves, kept open; empty when one cannot be had or stands still by the administrator's will.
#[derive(Debug, Default)]
pub(super) struct Totals(Vec<CounterFile>);

impl Totals {
    pub(super) fn of(target: &Target, roots: &Roots) -> Self {
        if target.leaves.iter().any(|leaf| leaf.settings.iostats == Some(false)) {
            return Self::default();
        }
        let all: Result<Vec<_>, _> = target.leaves.iter().map(|leaf| CounterFile::of(leaf, roots)).collect();
        Self(all.unwrap_or_default())
    }

    /// The sum over all leaves now; `None` when one of them cannot be read, or there are none.
    pub(super) fn read(&mut self) -> Option<Total> {
        let all: Option<Vec<Counters>> = self.0.iter_mut().map(|file| file.read().ok()).collect();
        Total::of(&all?)
    }
}

/// What is known of the devices below a target, but for their counters.
pub(super) fn underneath(target: &Target) -> Underneath {
    let settings = || target.leaves.iter().map(|leaf| &leaf.settings);
    let cached: Option<Vec<bool>> = settings().map(|s| s.volatile_cache()).collect();
    let mount = target.mount.as_ref();
    let option = ["nobarrier", "barrier=0"].iter().find(|o| mount.is_some_and(|m| m.has_option(o)));
    Underneath {
        volatile_cache: cached.filter(|all| !all.is_empty()).map(|all| all.contains(&true)),
        forced_writes: settings().all(|s| s.fua == Some(true)),
        no_barrier: option.map(ToString::to_string),
        ..Underneath::default()
    }
}
