//! What a scrape or a page sees: plain numbers, copied from the books.

use std::sync::Arc;
use std::time::Duration;

use super::facts::{Facts, Plan};
use super::stall::Thresholds;
use super::sweep::SweepView;
use crate::clock::Tick;
use crate::device::View;
use crate::io::{Inflight, Op};
use crate::probe::{Burst, Cost, Failure, Fault, Invalid, PerCommit, Phase, Probe, Stage, State, Verdict};
use crate::schedule::budget::{Kind, Level};
use crate::stats::{Buckets, Summary};
use crate::sys::Errno;

/// The sliding windows, by the text of their `window` label.
pub const WINDOWS: [(&str, Duration); 3] =
    [("1m", Duration::from_secs(60)), ("10m", Duration::from_secs(600)), ("1h", Duration::from_secs(3600))];

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Write and sync of a commit together.
    Commit,
    /// A commit's write.
    Write,
    /// A commit's sync.
    Sync,
    /// A read.
    Read,
}

impl Timed {
    /// The probe that times it.
    pub const fn probe(self) -> Probe {
        match self {
            Self::Commit | Self::Write | Self::Sync => Probe::Commit,
            Self::Read => Probe::Read,
        }
    }

    /// As metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Read => "read",
        }
    }
}

/// Everything, at one moment. Cheap to share; nothing in it leads back into the books.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken.
    pub taken: Tick,
    /// The daemon's version.
    pub version: &'static str,
    /// The targets, in the order in which they were added.
    pub targets: Vec<Arc<TargetView>>,
    /// The devices and the machine, as they were last looked at.
    pub context: Arc<View>,
}

/// One target.
#[derive(Clone, Debug)]
pub struct TargetView {
    /// As configured.
    pub plan: Arc<Plan>,
    /// As found; all empty until a lane has looked.
    pub facts: Arc<Facts>,
    /// What it can do at the moment, `None` until a lane has looked.
    pub state: Option<State>,
    /// One entry for each duration and phase that its probes can have.
    pub series: Vec<SeriesView>,
    /// One entry for each probe that is on.
    pub probes: Vec<ProbeView>,
    /// The last read run's burst at depth, where it had a complete one.
    pub burst: Option<BurstView>,
    /// What a commit costs the device, when that was last measured.
    pub per_commit: Option<PerCommit>,
    /// What is left of its disks' budgets, in the order of [`Kind::ALL`]; `None` until it is known where it lies.
    pub budget: Option<[Level; Kind::ALL.len()]>,
    /// How often another disk was found under this name.
    pub device_changes: u64,
    /// How often the probe files that were there before were not there any more.
    pub files_lost: u64,
    /// When the target goes on, where it is paused.
    pub paused: Option<Tick>,
    /// How often a lane of this target panicked.
    pub lane_panics: u64,
    /// From which age on an operation is stalled.
    pub thresholds: Thresholds,
    /// Its sweeps; `None` where there never are any.
    pub sweeps: Option<SweepView>,
}

/// A burst and when it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstView {
    /// Its numbers.
    pub burst: Burst,
    /// When its run was done.
    pub at: Tick,
}

/// The samples of one duration in one phase.
#[derive(Clone, Debug)]
pub struct SeriesView {
    /// What is timed.
    pub timed: Timed,
    /// In which phase.
    pub phase: Phase,
    /// All samples since the target was added.
    pub buckets: Buckets,
    /// The sliding windows in the order of [`WINDOWS`].
    pub windows: [Option<Summary>; WINDOWS.len()],
    /// When the newest sample came.
    pub newest: Option<Tick>,
    /// All samples since the target was added, for commits and reads; `None` for their parts and while there are none.
    pub ever: Option<Ever>,
}

/// A series since its target was added, to 1 %; the maximum is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ever {
    /// Median in nanoseconds.
    pub p50: u64,
    /// 99.9 % quantile in nanoseconds, from 1000 samples on.
    pub p999: Option<u64>,
    /// Greatest in nanoseconds.
    pub max: u64,
}

/// The runs of one probe.
#[derive(Clone, Debug)]
pub struct ProbeView {
    /// Which.
    pub probe: Probe,
    /// From slot to slot.
    pub interval: Duration,
    /// Good runs.
    pub good: u64,
    /// Failed runs.
    pub bad: u64,
    /// The last run's failure when it failed; kept until a good run.
    pub failure: Option<Arc<Failure>>,
    /// Failures by step and error.
    pub errors: Vec<(Stage, Errno, u64)>,
    /// Operations that were out for longer than the threshold; counted while they are out.
    pub timeouts: u64,
    /// How long operations were out beyond the threshold; counted while they are out.
    pub stalled_for: Duration,
    /// All samples as a client would have seen them who does this probe's operations evenly spread and waits for none.
    pub corrected: Buckets,
    /// Slots that passed unused because the run before was not back.
    pub missed: u64,
    /// Slots not used on purpose, by reason.
    pub skipped: Vec<(&'static str, u64)>,
    /// Start of a run − its planned instant.
    pub lateness: Buckets,
    /// Operations that are no samples.
    pub invalid: Vec<(Invalid, u64)>,
    /// `EAGAIN` answers.
    pub retries: u64,
    /// What it has cost.
    pub cost: Cost,
    /// Wall-clock time since 1970 of the last good run's end.
    pub last_success: Option<Duration>,
    /// The last verdict of each truth check that was made.
    pub checks: Vec<Check>,
    /// Bytes of its probe file written and wanted, once a layout is told.
    pub layout: Option<(u64, u64)>,
}

/// A truth check's last verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Which check.
    pub fault: Fault,
    /// What it found.
    pub verdict: Verdict,
    /// Why, for people; may be empty when fine.
    pub evidence: Arc<str>,
}

impl SeriesView {
    /// What the window holds; `None` as soon as its newest sample is older than it is long, whenever the snapshot was taken.
    pub fn window(&self, at: usize, now: Tick) -> Option<&Summary> {
        let (_, length) = WINDOWS.get(at)?;
        self.windows.get(at)?.as_ref().filter(|_| self.newest.is_some_and(|t| now.since(t) < *length))
    }
}

impl ProbeView {
    /// Whether the probe's file is being written.
    pub fn laying_out(&self) -> bool {
        self.layout.is_some_and(|(done, total)| done < total)
    }

    /// Whether its file could not be made for want of room: its slots are skipped, and that is no failed run.
    fn has_no_room(&self) -> bool {
        self.failure.as_ref().is_some_and(|f| (f.stage, f.errno) == (Stage::Layout, Errno::ENOSPC))
    }

    /// Whether the last run (or the layout after it) was good; `None` before the first.
    pub fn last_good(&self) -> Option<bool> {
        (self.failure.is_some() || self.good > 0).then_some(self.failure.is_none())
    }
}

impl TargetView {
    /// Ages of what is out.
    pub fn inflight(&self) -> &Inflight {
        &self.plan.inflight
    }

    /// The series of one duration and phase.
    pub fn series(&self, timed: Timed, phase: Phase) -> Option<&SeriesView> {
        self.series.iter().find(|s| s.timed == timed && s.phase == phase)
    }

    /// The probe, if it is on.
    pub fn probe(&self, probe: Probe) -> Option<&ProbeView> {
        self.probes.iter().find(|p| p.probe == probe)
    }

    /// The last burst, while its read probe is not stale: at most three intervals old.
    pub fn burst(&self, now: Tick) -> Option<Burst> {
        let interval = self.probe(Probe::Read)?.interval;
        self.burst.filter(|b| now.since(b.at) < 3 * interval).map(|b| b.burst)
    }

    /// The part of the probe files that is written, 0 to 1; `None` when no layout was told.
    pub fn layout_ratio(&self) -> Option<f64> {
        let mut parts = self.probes.iter().filter_map(|p| p.layout);
        let first = parts.next()?;
        let (done, total) =
            parts.fold(first, |(done, total), (d, t)| (done.saturating_add(d), total.saturating_add(t)));
        Some(if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) })
    }

    /// An operation that is out for longer than its threshold.
    pub fn stalled(&self, now: Tick) -> Option<Op> {
        self.thresholds.exceeded(&self.plan.inflight, now)
    }

    /// Whether the last run of each probe was good and nothing is stalled. A probe that is laying out counts as good,
    /// and so do, beside one that had a good run, one that had none yet and one that has no room for its file, and all of a paused target. A state in which
    /// nothing can be probed is down.
    /// `None` before there is anything to judge by.
    pub fn up(&self, now: Tick) -> Option<bool> {
        let judged = || self.probes.iter().filter(|p| !p.laying_out() && !p.has_no_room());
        let results = || judged().filter_map(ProbeView::last_good);
        let cannot = match self.state {
            _ if self.paused.is_some() => false,
            Some(State::Stalled | State::ReadOnly | State::Gone | State::Permission | State::Unsupported) => {
                true
            }
            Some(State::NoSpace) => !results().any(|good| good),
            Some(State::Ready | State::LayingOut) | None => false,
        };
        if cannot || self.stalled(now).is_some() {
            return Some(false);
        }
        let known = self.probes.iter().any(|p| p.last_good().is_some());
        if self.paused.is_some() {
            return known.then_some(true);
        }
        let hopeless = self.probes.iter().all(ProbeView::has_no_room);
        known.then(|| !hopeless && results().all(|good| good))
    }
}
