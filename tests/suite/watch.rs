//! How the tests of the daemon look at it: targets in a config, counts in a scrape.

use crate::lab::{FileSystem, Histogram, LoopOptions, Metrics, Mounted, Running, eventually_within};
use std::path::Path;
use std::time::Duration;

/// Under load the first results may take their time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// An ext4 on which the smallest probe files fit (each takes at most 5 % of what is free), on a sparse loop device.
pub(crate) fn small_ext4() -> Mounted {
    let disk = crate::lab::Loop::with(LoopOptions::of(2 << 30));
    Mounted::on(FileSystem::Ext4, disk, &["-J", "size=16"], "")
}

/// One target with the smallest probe files.
pub(crate) fn target(name: &str, path: &Path, commit_interval: &str, read_interval: &str) -> String {
    format!(
        "  - name: {name}\n    path: {}\n    commit: {{interval: {commit_interval}, file_size: 4MiB}}\n    \
         read: {{interval: {read_interval}, file_size: 64MiB}}\n",
        path.display()
    )
}

/// What a scrape says about one target.
pub(crate) struct Seen(pub(crate) Metrics);

impl Seen {
    pub(crate) fn of(daemon: &Running) -> Self {
        Self(daemon.scrape())
    }

    fn sum(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        self.0.sum(&format!("diskcanary_{family}"), labels)
    }

    /// Samples in the histogram `commit_duration_seconds`, `read_duration_seconds` …
    pub(crate) fn samples(&self, target: &str, op: &str) -> f64 {
        self.sum(&format!("{op}_duration_seconds_count"), &[("target", target)])
    }

    pub(crate) fn histogram(&self, target: &str, op: &str) -> Histogram {
        let family = format!("diskcanary_{op}_duration_seconds");
        self.0.histogram(&family, &[("target", target)]).unwrap_or_else(|| panic!("no {family} of {target}"))
    }

    /// Samples longer than `seconds`, which must be a bucket's bound.
    pub(crate) fn longer_than(&self, target: &str, op: &str, seconds: f64) -> f64 {
        let histogram = self.histogram(target, op);
        let below = histogram.buckets.iter().find(|(le, _)| *le == seconds).expect("a bound");
        histogram.count - below.1
    }

    /// A counter that is kept per probe, its other labels added up: `runs`, `missed`, `skipped`, `errors`, `operations`.
    pub(crate) fn probe(&self, what: &str, target: &str, probe: &str) -> f64 {
        self.sum(&format!("probe_{what}_total"), &[("target", target), ("probe", probe)])
    }

    /// Slots that are accounted for: run, missed or skipped.
    pub(crate) fn slots(&self, target: &str, probe: &str) -> f64 {
        ["runs", "missed", "skipped"].iter().map(|what| self.probe(what, target, probe)).sum()
    }

    pub(crate) fn errors(&self, target: &str, probe: &str, stage: &str, errno: &str) -> f64 {
        let labels = [("target", target), ("probe", probe), ("stage", stage), ("errno", errno)];
        self.sum("probe_errors_total", &labels)
    }

    pub(crate) fn invalid(&self, target: &str, probe: &str, reason: &str) -> f64 {
        self.sum("samples_invalid_total", &[("target", target), ("probe", probe), ("reason", reason)])
    }

    pub(crate) fn age(&self, target: &str, op: &str) -> f64 {
        let labels = [("target", target), ("op", op)];
        self.0.value("diskcanary_inflight_age_seconds", &labels).expect("every op has its age")
    }

    pub(crate) fn up(&self, target: &str) -> Option<f64> {
        self.0.value("diskcanary_target_up", &[("target", target)])
    }

    pub(crate) fn is_in(&self, target: &str, state: &str) -> bool {
        let labels = [("target", target), ("state", state)];
        self.0.value("diskcanary_target_state", &labels) == Some(1.0)
    }

    /// Whether a truth check holds; none when that is not known.
    pub(crate) fn fault(&self, target: &str, probe: &str, fault: &str) -> Option<bool> {
        let labels = [("target", target), ("probe", probe), ("fault", fault)];
        self.0.value("diskcanary_measurement_fault", &labels).map(|value| value == 1.0)
    }
}

/// Waits until the condition holds of a scrape, and returns that scrape.
pub(crate) fn seen_when(daemon: &Running, what: &str, condition: impl Fn(&Seen) -> bool) -> Seen {
    let mut last = None;
    let deadline = std::time::Instant::now() + PATIENCE;
    eventually_within(PATIENCE, what, || {
        let seen = Seen::of(daemon);
        let holds = condition(&seen);
        if !holds && std::time::Instant::now() > deadline {
            let lines =
                seen.0.text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
            panic!("{what}\n{}\n{}", daemon.stderr(), lines.collect::<Vec<_>>().join("\n"));
        }
        last = Some(seen);
        holds
    });
    last.unwrap()
}

/// Waits until each of these operations has samples at each of these targets.
pub(crate) fn all_measured(daemon: &Running, targets: &[&str], ops: &[&str]) -> Seen {
    seen_when(daemon, &format!("{ops:?} are measured at {targets:?}"), |seen| {
        targets.iter().all(|t| ops.iter().all(|op| seen.samples(t, op) >= 1.0))
    })
}
