//! The guard: whether heavy work may run on a disk now, by what others do there. It is asked before a sweep and before each of its
//! cells. And the slot of a sweep, which is offered again until the guard lets it or the next one begins.

use std::time::Duration;

use crate::clock::Tick;
use crate::device::Conditions;

/// From where on heavy work is not to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Operations per second of others, as a part of the most that the disk is known to do.
    pub workload_share: f64,
    /// Operations per second of others where neither a peak nor a promise is known.
    pub workload_iops: f64,
    /// Requests of others in the disk, on average.
    pub queue_depth: f64,
    /// The kernel's I/O pressure (`some avg10`), from 0 to 1.
    pub io_pressure: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { workload_share: 0.10, workload_iops: 50.0, queue_depth: 1.0, io_pressure: 0.05 }
    }
}

/// Above this part of a threshold heavy work is made lighter.
const SHRINK: f64 = 0.5;

/// What the guard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it may run.
    Run,
    /// Only what is light: others are there, but not much.
    Shrink,
    /// None of it: why.
    Skip(Reason),
}

/// Why heavy work does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The file system or its device takes no writes.
    ReadOnly,
    /// Burst credits are low: they belong to the workload.
    CreditsLow,
    /// What others do cannot be seen, so that it cannot be spared.
    Unseen,
    /// Others do too many operations.
    Workload,
    /// Others have too many requests in the disk.
    QueueDepth,
    /// Others wait for I/O too much.
    IoPressure,
}

impl Reason {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 6] =
        [Self::ReadOnly, Self::CreditsLow, Self::Unseen, Self::Workload, Self::QueueDepth, Self::IoPressure];

    /// As metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::CreditsLow => "credits_low",
            Self::Unseen => "unseen",
            Self::Workload => "workload",
            Self::QueueDepth => "queue_depth",
            Self::IoPressure => "io_pressure",
        }
    }
}

/// Judges a disk's last ten seconds. `promised_iops` is the baseline of the disk's product, where that is known.
///
/// Load that cannot be seen is a reason not to run; a kernel without pressure figures is not, since the disk's own counters speak
/// too.
pub fn judge(conditions: &Conditions, promised_iops: Option<f64>, thresholds: &Thresholds) -> Verdict {
    if conditions.read_only {
        return Verdict::Skip(Reason::ReadOnly);
    }
    if conditions.credits_low == Some(true) {
        return Verdict::Skip(Reason::CreditsLow);
    }
    let (Some(workload), Some(depth)) = (conditions.workload_iops, conditions.queue_depth) else {
        return Verdict::Skip(Reason::Unseen);
    };
    let most = conditions.peak_iops.or(promised_iops);
    let most_workload = most.map_or(thresholds.workload_iops, |most| most * thresholds.workload_share);
    let parts = [
        (Reason::Workload, workload, most_workload),
        (Reason::QueueDepth, depth, thresholds.queue_depth),
        (Reason::IoPressure, conditions.io_pressure.unwrap_or(0.0), thresholds.io_pressure),
    ];
    // What is not a number is above every threshold.
    let above = |value: f64, limit: f64| value > limit || value.is_nan();
    match parts.iter().find(|(_, value, limit)| above(*value, *limit)) {
        Some((reason, ..)) => Verdict::Skip(*reason),
        None if parts.iter().any(|(_, value, limit)| *value > limit * SHRINK) => Verdict::Shrink,
        None => Verdict::Run,
    }
}

/// The slot of a sweep: it may begin from one instant on and is offered again each while, until the next one's begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The first instant.
    pub opens: Tick,
    /// From here on it has passed.
    pub closes: Tick,
    /// From one offer to the next.
    pub again: Duration,
}

/// What becomes of a slot that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The sweep begins now; lighter than it was asked for if the guard says so.
    Begin {
        /// Only what is light.
        light: bool,
    },
    /// To be offered again at this instant.
    Again(Tick, Reason),
    /// It has passed unused: why, the last time.
    Passed(Reason),
}

impl Slot {
    /// What becomes of it at `now`, by the guard's verdict.
    pub fn offer(&self, now: Tick, verdict: Verdict) -> Offer {
        match verdict {
            Verdict::Run => Offer::Begin { light: false },
            Verdict::Shrink => Offer::Begin { light: true },
            Verdict::Skip(reason) => {
                self.later(now).map_or(Offer::Passed(reason), |again| Offer::Again(again, reason))
            }
        }
    }

    /// When it is offered again after an offer at `now` that came to nothing; `None`: it has passed.
    pub fn later(&self, now: Tick) -> Option<Tick> {
        let again = (now + self.again).max(self.opens);
        (again < self.closes).then_some(again)
    }
}

#[cfg(test)]
mod tests;
