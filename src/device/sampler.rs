//! From the texts of `/proc` to a [`View`], once a second. Pure: texts and time come in, numbers go out.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::disk::Disk;
use super::host::Machine;
use super::view::View;
use crate::clock::Tick;
use crate::target::{Counters, parse_counters};

/// What the kernel said this second; `None` is a file that is not there or could not be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Texts<'a> {
    /// `/proc/diskstats`.
    pub diskstats: Option<&'a str>,
    /// `/proc/stat`.
    pub stat: Option<&'a str>,
    /// `/proc/vmstat`.
    pub vmstat: Option<&'a str>,
    /// `/proc/pressure/io`.
    pub io_pressure: Option<&'a str>,
    /// `/proc/pressure/cpu`.
    pub cpu_pressure: Option<&'a str>,
    /// `/proc/pressure/memory`.
    pub memory_pressure: Option<&'a str>,
}

/// How many devices that are not followed any more are remembered.
const REMEMBERED: usize = 1000;

/// Follows the devices of interest and the machine.
#[derive(Debug, Default)]
pub struct Sampler {
    /// Sorted by name.
    disks: Vec<Disk>,
    /// Not followed any more, the latest at the end: should one come again, its counters go on where they were.
    left: VecDeque<Disk>,
    machine: Machine,
}

impl Sampler {
    /// With nothing to follow yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kernel's names of the devices to follow from now on, in any order. Those that were followed before go on; of those that
    /// are not named what they showed last is remembered, of the latest thousand.
    pub fn watch(&mut self, names: &[Arc<str>]) {
        let names: BTreeSet<&Arc<str>> = names.iter().collect();
        self.left.extend(std::mem::take(&mut self.disks));
        let mut known = |name: &Arc<str>| {
            let at = self.left.iter().position(|disk| disk.name == *name)?;
            self.left.remove(at)
        };
        let disk = |name: &Arc<str>| known(name).unwrap_or_else(|| Disk::new(Arc::clone(name)));
        self.disks = names.into_iter().map(disk).collect();
        self.left.iter_mut().for_each(Disk::leave);
        self.left.drain(..self.left.len().saturating_sub(REMEMBERED));
    }

    /// What is seen at `now`. `sequence` gives the kernel's number of the disk that bears a name now (`diskseq`), where it has one.
    pub fn sample(
        &mut self,
        now: Tick,
        texts: &Texts<'_>,
        mut sequence: impl FnMut(&str) -> Option<u64>,
    ) -> View {
        let mut said: Vec<Option<Counters>> = vec![None; self.disks.len()];
        for line in texts.diskstats.unwrap_or_default().lines() {
            let Some((name, counters)) = named(line) else { continue };
            if let Ok(at) = self.disks.binary_search_by(|disk| (*disk.name).cmp(name)) {
                said[at] = parse_counters(counters);
            }
        }
        for (disk, said) in self.disks.iter_mut().zip(said) {
            let sequence = said.and_then(|_| sequence(&disk.name));
            disk.look(now, said, sequence);
        }
        View {
            taken: Some(now),
            disks: self.disks.iter().filter_map(|disk| disk.view(now)).collect(),
            host: self.machine.look(now, texts),
        }
    }
}

/// A line of `/proc/diskstats`: behind major and minor number the device's name, and behind that the fields of its `stat` file.
fn named(line: &str) -> Option<(&str, &str)> {
    let mut rest = line.trim_start();
    for _ in 0..2 {
        rest = rest.split_once(' ')?.1.trim_start();
    }
    rest.split_once(' ')
}
