//! A disk or directory with something that can befall it.

use super::patient::Patient;
use std::path::{Path, PathBuf};

/// What the ward does with a target. `pid` is the daemon's.
pub(super) trait Case {
    /// The target's path.
    fn path(&self) -> &Path;
    /// The rest of the target's keys.
    fn keys(&self) -> &str;
    /// Whether it is not well from the start, so that there is nothing to strike.
    fn starts_ill(&self) -> bool;
    fn strike(&mut self, pid: u32);
    fn lift(&mut self, pid: u32);
    /// What must hold when all is over, beside the signs.
    fn verdict(&mut self, patient: &Patient<'_>);
}

/// A case by its parts.
pub(super) struct Acted<D> {
    disk: D,
    path: PathBuf,
    keys: &'static str,
    starts_ill: bool,
    strike: fn(&mut D, u32),
    lift: fn(&mut D, u32),
    verdict: fn(&mut D, &Patient<'_>),
}

impl<D> Acted<D> {
    pub(super) fn on(disk: D, path: &Path, keys: &'static str) -> Self {
        let (starts_ill, path) = (false, path.to_owned());
        Self { disk, path, keys, starts_ill, strike: |_, _| {}, lift: |_, _| {}, verdict: |_, _| {} }
    }

    pub(super) fn struck(mut self, strike: fn(&mut D, u32)) -> Self {
        self.strike = strike;
        self
    }

    pub(super) fn ill(mut self) -> Self {
        self.starts_ill = true;
        self
    }

    /// As [`Self::ill`], made so here.
    pub(super) fn ill_by(mut self, strike: fn(&mut D)) -> Self {
        strike(&mut self.disk);
        self.ill()
    }

    pub(super) fn lifted(mut self, lift: fn(&mut D, u32)) -> Self {
        self.lift = lift;
        self
    }

    pub(super) fn judged(mut self, verdict: fn(&mut D, &Patient<'_>)) -> Self {
        self.verdict = verdict;
        self
    }
}

impl<D: 'static> Acted<D> {
    pub(super) fn boxed(self) -> Box<dyn Case> {
        Box::new(self)
    }
}

impl<D> Case for Acted<D> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn keys(&self) -> &str {
        self.keys
    }

    fn starts_ill(&self) -> bool {
        self.starts_ill
    }

    fn strike(&mut self, pid: u32) {
        (self.strike)(&mut self.disk, pid);
    }

    fn lift(&mut self, pid: u32) {
        (self.lift)(&mut self.disk, pid);
    }

    fn verdict(&mut self, patient: &Patient<'_>) {
        (self.verdict)(&mut self.disk, patient);
    }
}
