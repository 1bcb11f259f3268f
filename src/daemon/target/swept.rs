//! What whoever sweeps a target must know of it.

use std::sync::Arc;

use super::Target;
use crate::clock::Tick;
use crate::probe::Probe;
use crate::probe::sweep::{Cell, Place};
use crate::schedule::{Spec, toll};
use crate::target;

impl Target {
    /// What may be swept now; `None` while the read file is not there, or something is wrong.
    pub(in crate::daemon) fn sweepable(&self) -> Option<Place> {
        let [_, read] = &self.parts;
        if self.whole.is_some() || read.is_some() || !self.to_lay.is_empty() || self.opened.is_none() {
            return None;
        }
        self.intervals[Probe::Read as usize]?;
        match &self.home {
            Some(home) => Some(Place::File { home: home.clone(), head: self.read_head? }),
            None => self.is_device().then_some(Place::Device),
        }
    }

    /// What was found at its path.
    pub(in crate::daemon) fn found(&self) -> Option<&target::Target> {
        self.found.as_ref()
    }

    /// Its physical disks, in the planner's words.
    pub(in crate::daemon) fn disks(&self) -> &[String] {
        &self.devices
    }

    /// What its lanes go by.
    pub(in crate::daemon) fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Whether it is a block device, which is only read.
    pub(in crate::daemon) fn is_device(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.kind == target::Kind::BlockDevice)
    }

    /// Whether its file system is mounted read-only.
    pub(in crate::daemon) fn is_read_only(&self) -> bool {
        let mount = self.found.as_ref().and_then(|found| found.mount.as_ref());
        mount.is_some_and(|mount| mount.has_option("ro"))
    }

    /// How many bytes reach the disk at most for one of a cell that runs.
    pub(in crate::daemon) fn amplification(&self, cell: Option<(Cell, Tick)>) -> f64 {
        let file_system = self.found.as_ref().and_then(|found| found.file_system());
        let commits = cell.is_some_and(|(cell, _)| cell.pattern.commits());
        toll::amplification(file_system, commits) * SLACK
    }
}

/// What a file system writes of its own while its files are written: times, maps, the journal of both.
const SLACK: f64 = 1.02;
