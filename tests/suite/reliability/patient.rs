//! One target in a scrape, beside what it was when the fault struck.

use crate::lab::{Metrics, Sample};
use std::collections::BTreeMap;

/// The samples of one scrape by target.
#[derive(Default)]
pub(super) struct Chart(BTreeMap<String, Metrics>);

impl Chart {
    pub(super) fn of(metrics: Metrics) -> Self {
        let mut chart = Self::default();
        for sample in metrics.samples {
            let target = sample.labels.get("target").cloned().unwrap_or_default();
            chart.0.entry(target).or_default().samples.push(sample);
        }
        chart
    }

    fn target(&self, name: &str) -> Option<&Metrics> {
        self.0.get(name)
    }
}

/// One target, before and now.
pub(super) struct Patient<'a> {
    pub(super) name: &'a str,
    before: Option<&'a Metrics>,
    now: &'a Metrics,
}

impl<'a> Patient<'a> {
    /// None while there is nothing of the target in the scrape.
    pub(super) fn of(name: &'a str, before: &'a Chart, now: &'a Chart) -> Option<Self> {
        Some(Self { name, before: before.target(name), now: now.target(name)? })
    }

    pub(super) fn value(&self, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.now.value(&format!("diskcanary_{family}"), labels)
    }

    /// What was added, over all series of the family with these labels.
    pub(super) fn more(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        let name = format!("diskcanary_{family}");
        self.now.sum(&name, labels) - self.before.map_or(0.0, |before| before.sum(&name, labels))
    }

    pub(super) fn state(&self) -> Option<String> {
        let all = self.now.all("diskcanary_target_state", &[]);
        let on: Vec<&&Sample> = all.iter().filter(|sample| sample.value == 1.0).collect();
        assert!(on.len() < 2, "{} is in several states: {on:?}", self.name);
        on.first().map(|sample| sample.labels["state"].clone())
    }

    pub(super) fn good_runs(&self, probe: &str) -> f64 {
        self.more("probe_runs_total", &[("probe", probe), ("result", "ok")])
    }

    /// Probes that the target has.
    pub(super) fn probes(&self) -> Vec<&'static str> {
        let has = |probe: &&str| self.value("probe_interval_seconds", &[("probe", probe)]).is_some();
        ["commit", "read"].into_iter().filter(has).collect()
    }

    /// Samples above a bound, of those that were added.
    pub(super) fn longer_than(&self, op: &str, seconds: f64) -> f64 {
        let above = |metrics: &Metrics| {
            let histogram = metrics.histogram(&format!("diskcanary_{op}_duration_seconds"), &[]);
            histogram.map_or(0.0, |h| {
                let below = h.buckets.iter().find(|(le, _)| *le == seconds).expect("a bucket's bound");
                h.count - below.1
            })
        };
        above(self.now) - self.before.map_or(0.0, above)
    }

    /// Ready, up, and measured anew since the chart it is compared with.
    pub(super) fn is_well(&self) -> bool {
        let probes = self.probes();
        self.state().as_deref() == Some("ready")
            && self.value("target_up", &[]) == Some(1.0)
            && !probes.is_empty()
            && probes.iter().all(|probe| self.good_runs(probe) >= 3.0)
    }

    /// What a person would want to see when this is not as it should be.
    pub(super) fn story(&self) -> String {
        let telling = |s: &&Sample| {
            let errors = s.name.ends_with("errors_total") && s.value > 0.0;
            let counts = ["runs_total", "missed_total", "invalid_total", "skipped_total", "changes_total"];
            let counted = s.value > 0.0 && counts.iter().any(|end| s.name.ends_with(end));
            let states = s.name.ends_with("target_state") && s.value > 0.0;
            errors || counted || states || s.name.ends_with("target_up") || s.name.contains("inflight_age")
        };
        let lines: Vec<String> = self
            .now
            .samples
            .iter()
            .filter(telling)
            .map(|s| format!("    {}{:?} {}", s.name.trim_start_matches("diskcanary_"), s.labels, s.value))
            .collect();
        lines.join("\n")
    }
}
