//! What a target can do at the moment: one verdict, for the books, the log and the readiness check.

use std::borrow::Cow;

use super::{Desk, Target};
use crate::clock::Tick;
use crate::probe::layout::Role;
use crate::probe::{Probe, State};
use crate::record::Thresholds;

impl Target {
    /// The state, told to the books, and to the log when it changes.
    pub(in crate::daemon) fn show(&mut self, desk: &mut Desk<'_>) {
        self.resume_when_due(desk);
        let Some((state, why)) = self.state(&desk.book.thresholds(self.id), desk.now) else { return };
        if self.shown == Some(state) && self.said == Some(state) {
            return;
        }
        let why = why.into_owned();
        if self.shown != Some(state) {
            self.shown = Some(state);
            self.lines.changed();
            desk.book.set_state(self.id, state);
        }
        if self.said != Some(state) {
            self.say(state, &why, desk.now);
        }
    }

    /// One line for each change, or, where they come too often, one for many.
    fn say(&mut self, state: State, why: &str, now: Tick) {
        let Some(unsaid) = self.lines.take(now) else { return };
        let unsaid = Some(unsaid).filter(|n| *n > 0);
        let (name, word) = (self.name.as_str(), state.label());
        match state {
            State::Ready | State::LayingOut => tracing::info!(name, state = word, unsaid, "target"),
            _ => tracing::warn!(name, state = word, reason = why, unsaid, "target"),
        }
        self.said = Some(state);
    }

    /// The state and, where it is a bad one, why.
    fn state(&self, thresholds: &Thresholds, now: Tick) -> Option<(State, Cow<'_, str>)> {
        if let Some(op) = thresholds.exceeded(&self.plan.inflight, now) {
            let seconds = self.plan.inflight.age(op, now).as_secs();
            return Some((
                State::Stalled,
                format!("a {} operation is out for {seconds} s", op.label()).into(),
            ));
        }
        let commit_off = self.intervals[Probe::Commit as usize].is_none();
        let [commit, read] = &self.parts;
        // With commits going on, reads that have no room are skipped and counted, and the target is as good as it can be.
        let read = read.as_ref().filter(|t| commit_off || t.state != State::NoSpace);
        if let Some(trouble) = self.whole.as_ref().or(commit.as_ref()).or(read) {
            return Some((trouble.state, trouble.failure.message.as_str().into()));
        }
        self.found.as_ref()?;
        let state = if self.to_lay.is_empty() { State::Ready } else { State::LayingOut };
        Some((state, "".into()))
    }

    /// Why the target is not measured yet, in words; `None` when it is, or is known to fail.
    pub(in crate::daemon) fn not_ready(&self) -> Option<String> {
        let settled =
            self.pause_ends.is_some() || self.whole.is_some() || self.parts.iter().any(Option::is_some);
        let waiting = !settled
            && self.shown.is_none_or(|s| s == State::LayingOut && self.to_lay.contains(&Role::Commits));
        waiting.then(|| format!("target `{}` is not measured yet", self.name))
    }
}
