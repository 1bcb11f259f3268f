//! One daemon with healthy targets and sick ones, from the moment the faults strike until all is well again.

use super::case::Case;
use super::patient::{Chart, Patient};
use super::room::Room;
use super::table::Scenario;
use super::watch::{HEALTHY, Healthy, Watch};
use crate::lab::{self, Daemon, Running};
use crate::targets;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How the daemon of a ward is run.
#[derive(Default)]
pub(super) struct Ward {
    /// As nobody, with 64 KiB of memory that it may lock, and no ring.
    pub(super) nobody: bool,
    /// How long the faults last at least when long trials run whole (`tests/run --full`).
    pub(super) whole: Duration,
}

/// The shortest time that a fault lasts: at least 100 slots of the healthy.
const LEAST: Duration = Duration::from_millis(10_200);
/// Signs show within this time, and a target is well again within that.
const SIGNS: Duration = Duration::from_secs(60);
const CURE: Duration = Duration::from_secs(100);
/// Of the log about one target, from the start on: a state is said once, not with each attempt.
const MOST_LINES: usize = 16;

/// What a target that is well has open: directory, lock, two probe files, a ring, and what tells of waiting for a CPU.
const MOST_DESCRIPTORS: usize = 9;

struct Bed<'a> {
    scenario: &'a Scenario,
    case: Box<dyn Case>,
    seen: Vec<bool>,
}

impl Ward {
    pub(super) fn run(self, scenarios: &[&Scenario]) {
        // What stands in for disks must not be slow because the machine is busy, nor may the daemon be.
        lab::we_are_first_on_the_cpu();
        let room = Room::new(self.nobody);
        let healthy = Healthy::new(&room);
        let mut beds: Vec<Bed<'_>> = scenarios
            .iter()
            .map(|s| Bed { scenario: s, case: (s.make)(&room), seen: vec![false; s.seen.len()] })
            .collect();
        let daemon = self.start(&healthy, &beds);
        await_all_measured(&daemon, &beds);

        // What looks at the machine once a second has opened its files.
        std::thread::sleep(Duration::from_secs(2));
        let watch = Watch::start(&healthy, daemon.address());
        let (size, open) = (footprint(&daemon), open_files(&daemon));
        let before = Chart::of(daemon.scrape());
        let began = Instant::now();
        for bed in beds.iter_mut().filter(|bed| !bed.case.starts_ill()) {
            bed.case.strike(daemon.pid());
        }
        await_signs(&daemon, &mut beds, &before);
        let least = if lab::full() { LEAST.max(self.whole) } else { LEAST };
        std::thread::sleep(least.saturating_sub(began.elapsed()));
        let during = footprint(&daemon);
        assert!(during.0 <= size.0 && during.1 <= size.1, "threads, descriptors: {during:?} after {size:?}");
        for bed in &mut beds {
            bed.case.lift(daemon.pid());
        }
        let lifted = Chart::of(daemon.scrape());
        await_cure(&daemon, &mut beds, &before, &lifted);
        watch.end();
        let after = footprint(&daemon);
        let opened = beds.iter().filter(|bed| bed.case.starts_ill()).count() * MOST_DESCRIPTORS;
        assert!(
            after.0 <= size.0 && after.1 <= size.1 + opened,
            "threads, descriptors: {after:?} after {size:?}\n{open:#?}\n{:#?}",
            open_files(&daemon)
        );
        log_is_short(&daemon, &beds);
        targets::assert_sound(&daemon);
    }

    fn start(&self, healthy: &Healthy, beds: &[Bed<'_>]) -> Running {
        let all: Vec<_> =
            beds.iter().map(|bed| (bed.scenario.name, bed.case.path(), bed.case.keys())).collect();
        let yaml = targets::config(&all) + &healthy.config();
        let nobody = self.nobody;
        let daemon = Daemon::new().config(&yaml).with(|command| {
            lab::first_on_the_cpu(command);
            if nobody {
                lab::deny_io_uring(command, libc::ENOMEM);
                lab::as_nobody_with_memlock(command, 64 << 10);
            }
        });
        daemon.start()
    }
}

/// What the daemon has open, and how often each.
fn open_files(daemon: &Running) -> std::collections::BTreeMap<String, usize> {
    let mut all = std::collections::BTreeMap::new();
    for fd in std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().flatten() {
        if let Ok(path) = std::fs::read_link(fd.path()) {
            *all.entry(path.display().to_string()).or_default() += 1;
        }
    }
    all
}

/// Waits until the condition holds at each target that it is asked about; says of which it does not.
fn await_each<'a>(
    daemon: &Running,
    patience: Duration,
    what: &str,
    before: &Chart,
    mut holds: impl FnMut(&Chart) -> Vec<&'a str>,
) {
    let deadline = Instant::now() + patience;
    loop {
        let now = Chart::of(daemon.scrape());
        let missing = holds(&now);
        if missing.is_empty() {
            return;
        }
        if Instant::now() > deadline {
            let stories: Vec<String> = missing
                .iter()
                .map(|name| {
                    let story = Patient::of(name, before, &now).map(|p| p.story()).unwrap_or_default();
                    let log = daemon.stderr();
                    let lines: Vec<&str> =
                        log.lines().filter(|line| line.contains(&format!("name={name} "))).collect();
                    format!("{name}:\n{story}\n{}", lines.join("\n"))
                })
                .collect();
            panic!("not within {patience:?}: {what}: {missing:?}\n{}", stories.join("\n"));
        }
        std::thread::sleep(Duration::from_millis(150));
    }
}

fn await_all_measured(daemon: &Running, beds: &[Bed<'_>]) {
    let nothing = Chart::default();
    let names: Vec<&str> = beds.iter().filter(|b| !b.case.starts_ill()).map(|b| b.scenario.name).collect();
    await_each(daemon, CURE, "measured", &nothing, |now| {
        let well = |name: &&str| Patient::of(name, &nothing, now).is_some_and(|p| p.is_well());
        names.iter().copied().chain(HEALTHY).filter(|name| !well(name)).collect()
    });
}

/// Each sign is to be seen at least once, not all in one moment: a state passes.
fn await_signs(daemon: &Running, beds: &mut [Bed<'_>], before: &Chart) {
    let nothing = Chart::default();
    let what = "signs";
    await_each(daemon, SIGNS, what, before, |now| {
        let mut missing = Vec::new();
        for bed in beds.iter_mut() {
            let name = bed.scenario.name;
            let before = if bed.case.starts_ill() { &nothing } else { before };
            if let Some(patient) = Patient::of(name, before, now) {
                for (sign, seen) in bed.scenario.seen.iter().zip(&mut bed.seen) {
                    *seen |= sign.shows(&patient);
                }
            }
            if bed.seen.contains(&false) {
                missing.push(name);
            }
        }
        missing
    });
}

fn await_cure(daemon: &Running, beds: &mut [Bed<'_>], before: &Chart, lifted: &Chart) {
    let mut last: BTreeMap<&str, bool> = BTreeMap::new();
    await_each(daemon, CURE, "well, with all signs of what happened", before, |now| {
        for bed in beds.iter() {
            let name = bed.scenario.name;
            let since_lifted = Patient::of(name, lifted, now);
            let well = since_lifted.is_some_and(|p| p.is_well());
            let signs = Patient::of(name, before, now)
                .is_some_and(|p| bed.scenario.after.iter().all(|s| s.shows(&p)));
            last.insert(name, well && signs);
        }
        last.iter().filter(|(_, well)| !**well).map(|(name, _)| *name).collect()
    });
    let now = Chart::of(daemon.scrape());
    for bed in beds {
        let patient = Patient::of(bed.scenario.name, before, &now).expect("it is in every scrape");
        bed.case.verdict(&patient);
    }
}

/// Threads and descriptors: the least of several looks, since runs open files of the kernel and scrapes connections for a moment.
fn footprint(daemon: &Running) -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", daemon.pid())).unwrap().count();
    let looks = (0..20).map(|_| {
        std::thread::sleep(Duration::from_millis(7));
        (count("task"), count("fd"))
    });
    looks.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).unwrap()
}

fn log_is_short(daemon: &Running, beds: &[Bed<'_>]) {
    let log = daemon.stderr();
    for bed in beds {
        let about = format!("name={} ", bed.scenario.name);
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&about)).collect();
        assert!(lines.len() <= MOST_LINES, "{} lines:\n{}", lines.len(), lines.join("\n"));
    }
}
