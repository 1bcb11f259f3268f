//! What is to be probed: the targets that the config names, and those that were found since.

use std::sync::Arc;

use super::Error;
use super::control::{Control, Message};
use super::discovery::{Discovery, Sighting};
use super::inbox::Outbox;
use super::reload::Changes;
use crate::config::{Plan, TargetPlan};
use crate::expose::OwnCounters;
use crate::target::Roots;

/// Both kinds of targets, and the thread that finds the one.
pub(super) struct Wanted {
    named: Vec<TargetPlan>,
    found: Vec<TargetPlan>,
    discovery: Discovery,
    /// Nothing has a name, and the first look has not brought anything yet.
    waiting: bool,
}

impl Wanted {
    pub(super) fn new(
        plan: &Plan,
        roots: &Arc<Roots>,
        messages: &Outbox,
        own: &OwnCounters,
    ) -> Result<Self, Error> {
        let messages = messages.clone();
        // A control thread that is gone needs to know of nothing.
        let tell = move |number, found| {
            let _ = messages.send(Message::Discovered(number, found));
        };
        let mut discovery = Discovery::new(roots, own, Box::new(tell));
        discovery.set(plan)?;
        let waiting = plan.discover.is_some() && plan.targets.is_empty();
        Ok(Self { named: plan.targets.clone(), found: Vec::new(), discovery, waiting })
    }

    /// Why nothing is measured yet, in words.
    pub(super) fn not_ready(&self) -> Option<String> {
        self.waiting.then(|| "disks are being looked for".to_owned())
    }
}

impl Control {
    /// Goes by this config from now on. What was found stays until the next look, unless it has a name now.
    pub(super) fn reload(&mut self, plan: &Plan) -> Result<Changes, String> {
        let has_name =
            |found: &TargetPlan| plan.targets.iter().any(|t| t.name == found.name || t.path == found.path);
        let mut found = if plan.discover.is_some() { self.wanted.found.clone() } else { Vec::new() };
        found.retain(|found| !has_name(found));
        self.memory = plan.memory;
        let changes = self.apply(&[plan.targets.as_slice(), &found].concat())?;
        (self.wanted.named, self.wanted.found) = (plan.targets.clone(), found);
        // That look may hang, or nobody wants it any more.
        self.wanted.waiting &= plan.discover.is_some() && plan.targets.is_empty();
        self.wanted.discovery.set(plan).map_err(|e| e.to_string())?;
        Ok(changes)
    }

    /// Goes by what was found from now on, unless it was found for another config.
    pub(super) fn discovered(&mut self, number: u64, found: &[Sighting]) {
        if number != self.wanted.discovery.number {
            return;
        }
        self.wanted.waiting = false;
        let known = |name: &str| self.wanted.found.iter().any(|before| before.name == name);
        // Their lanes have followed the links in the paths of those with a name, which the look has not; also only after the first look.
        let is_probed = |sighting: &Sighting| {
            let named = |target: &&super::target::Target| !known(&target.name);
            self.targets.values().filter(named).any(|target| target.lies_in(sighting.number))
        };
        let found: Vec<TargetPlan> = found
            .iter()
            .filter(|sighting| !is_probed(sighting))
            .map(|sighting| sighting.target.clone())
            .collect();
        if found == self.wanted.found {
            return;
        }
        match self.apply(&[self.wanted.named.as_slice(), &found].concat()) {
            Ok(_) => {
                tell(&found, &self.wanted.found, "found, and probed from now on");
                tell(
                    &self.wanted.found,
                    &found,
                    "not there any more, or probed by a target with a name: forgotten",
                );
                self.wanted.found = found;
            }
            Err(why) => tracing::warn!(reason = why, "what was found is not taken over; it is tried again"),
        }
    }
}

/// A line for each target that is among these and not among the others.
fn tell(these: &[TargetPlan], others: &[TargetPlan], what: &str) {
    for target in these.iter().filter(|target| others.iter().all(|other| other.name != target.name)) {
        tracing::info!(name = target.name, "{what}");
    }
}

#[cfg(test)]
mod tests;
