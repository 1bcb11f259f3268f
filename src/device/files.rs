//! The files that the sampler is fed from: kept open, each read once a second.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::sampler::{Sampler, Texts};
use super::view::View;
use crate::clock::Tick;
use crate::sys::Reread;
use crate::target::Roots;

/// A [`Sampler`] and its files.
#[derive(Debug)]
pub struct Files {
    sampler: Sampler,
    roots: Roots,
    proc: Proc,
    sequences: BTreeMap<Arc<str>, Reread>,
}

#[derive(Debug)]
struct Proc {
    diskstats: Reread,
    stat: Reread,
    vmstat: Reread,
    pressure: [Reread; 3],
}

impl Files {
    /// The files below these roots; nothing is opened yet.
    pub fn below(roots: &Roots) -> Self {
        let file = |name: &str| Reread::file(roots.proc.join(name));
        let proc = Proc {
            diskstats: file("diskstats"),
            stat: file("stat"),
            vmstat: file("vmstat"),
            // Two short lines, which the kernel gives to one read.
            pressure: ["pressure/io", "pressure/cpu", "pressure/memory"]
                .map(|name| Reread::attribute(roots.proc.join(name))),
        };
        Self { sampler: Sampler::new(), roots: roots.clone(), proc, sequences: BTreeMap::new() }
    }

    /// The kernel's names of the devices to follow from now on; see [`Sampler::watch`].
    pub fn watch(&mut self, names: &[Arc<str>]) {
        self.sampler.watch(names);
        let file = |name: &Arc<str>| {
            let dir = self.roots.sys.join("class/block").join(name.replace('/', "!"));
            Reread::attribute(dir.join("diskseq"))
        };
        self.sequences = names.iter().map(|name| (Arc::clone(name), file(name))).collect();
    }

    /// Reads everything once. `now` is asked when the disks' counters have been read. This can take as long as the kernel likes.
    pub fn sample(&mut self, now: impl FnOnce() -> Tick) -> View {
        let diskstats = self.proc.diskstats.read().ok();
        let now = now();
        let (stat, vmstat) = (self.proc.stat.read().ok(), self.proc.vmstat.read().ok());
        let [io, cpu, memory] = self.proc.pressure.each_mut().map(|file| file.read().ok());
        let texts = Texts {
            diskstats: text(&diskstats),
            stat: text(&stat),
            vmstat: text(&vmstat),
            io_pressure: text(&io),
            cpu_pressure: text(&cpu),
            memory_pressure: text(&memory),
        };
        let sequences = &mut self.sequences;
        // After the counters: a disk that is swapped in between is taken for a new one once too often, not for the old one.
        self.sampler.sample(now, &texts, |name| sequences.get_mut(name)?.read().ok()?.trim().parse().ok())
    }
}

fn text<'a>(read: &'a Option<Cow<'_, str>>) -> Option<&'a str> {
    read.as_deref()
}
