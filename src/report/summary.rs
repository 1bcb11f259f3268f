//! Runs of a probe, put together: exact figures over the raw samples, and what was found untrue.

use schemars::JsonSchema;
use serde::Serialize;

use crate::probe::{CommitSample, Failure, Fault, Invalid, Outcome, Phase, Probe, Verdict};

/// Fewer samples than this say nothing about the hundredth.
pub(super) const SAMPLES_FOR_P99: usize = 100;

/// A distribution, in nanoseconds. Quantiles are samples, by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Figures {
    /// How many.
    pub(super) samples: usize,
    /// Their mean.
    pub(super) mean: f64,
    /// The shortest.
    pub(super) min: u64,
    /// The median.
    pub(super) p50: u64,
    /// The 90th percentile.
    pub(super) p90: u64,
    /// The 99th percentile; null below 100 samples.
    pub(super) p99: Option<u64>,
    /// The longest.
    pub(super) max: u64,
}

impl Figures {
    /// `None` without samples.
    pub(super) fn of(samples: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = samples.into_iter().collect();
        sorted.sort_unstable();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let sum: u128 = sorted.iter().map(|n| u128::from(*n)).sum();
        Some(Self {
            samples: sorted.len(),
            mean: sum as f64 / sorted.len() as f64,
            min,
            p50: nearest_rank(&sorted, 50),
            p90: nearest_rank(&sorted, 90),
            p99: (sorted.len() >= SAMPLES_FOR_P99).then(|| nearest_rank(&sorted, 99)),
            max,
        })
    }
}

/// The smallest sample that at least `percent` (1 to 100) of all are not above. `sorted` is not empty.
fn nearest_rank(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// A distribution apart by phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct ByPhase {
    /// Submitted before the run's first completion.
    pub(super) first: Option<Figures>,
    /// All others.
    pub(super) warm: Option<Figures>,
}

impl ByPhase {
    fn of(samples: impl Iterator<Item = (Phase, u64)> + Clone) -> Self {
        let only = |phase| Figures::of(samples.clone().filter(move |(p, _)| *p == phase).map(|(_, n)| n));
        Self { first: only(Phase::First), warm: only(Phase::Warm) }
    }

    /// Phase and figures, those without samples left out.
    pub(super) fn each(&self) -> impl Iterator<Item = (Phase, Figures)> {
        [(Phase::First, self.first), (Phase::Warm, self.warm)]
            .into_iter()
            .filter_map(|(phase, figures)| Some((phase, figures?)))
    }
}

/// Commits of all runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Commits {
    /// The write.
    pub(super) write: ByPhase,
    /// What made it durable; null with `o_dsync`.
    pub(super) sync: ByPhase,
    /// Both together.
    pub(super) commit: ByPhase,
}

impl Commits {
    pub(super) fn of(runs: &[Outcome]) -> Self {
        let each = |pick: fn(&CommitSample) -> Option<u64>| {
            ByPhase::of(
                runs.iter()
                    .flat_map(|run| &run.commits)
                    .filter_map(move |sample| Some((sample.phase, pick(sample)?))),
            )
        };
        Self { write: each(|s| Some(s.write)), sync: each(|s| s.sync), commit: each(|s| Some(s.commit)) }
    }
}

/// Reads at depth 1 of all runs.
pub(super) fn reads(runs: &[Outcome]) -> ByPhase {
    ByPhase::of(runs.iter().flat_map(|run| &run.reads).map(|sample| (sample.phase, sample.nanos)))
}

/// The bursts at depth of all runs, which share block size and depth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Bursts {
    /// Bytes of a read.
    pub(super) block_size: u32,
    /// Reads kept outstanding.
    pub(super) depth: u16,
    /// How many bursts.
    pub(super) bursts: usize,
    /// The slowest.
    pub(super) iops_min: f64,
    /// The median.
    pub(super) iops_p50: f64,
    /// The fastest.
    pub(super) iops_max: f64,
}

impl Bursts {
    pub(super) fn of(runs: &[Outcome]) -> Option<Self> {
        let last = runs.iter().rev().find_map(|run| run.burst)?;
        let mut iops: Vec<f64> = runs
            .iter()
            .filter_map(|run| run.burst)
            .filter(|burst| (burst.block_size, burst.depth) == (last.block_size, last.depth))
            .map(|burst| burst.iops)
            .collect();
        iops.sort_unstable_by(f64::total_cmp);
        Some(Self {
            block_size: last.block_size,
            depth: last.depth,
            bursts: iops.len(),
            iops_min: iops[0],
            iops_p50: iops[(iops.len() - 1) / 2],
            iops_max: iops[iops.len() - 1],
        })
    }
}

/// A truth check over all runs of a probe: one run in which it held is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) probe: Probe,
    pub(super) fault: Fault,
    pub(super) verdict: Verdict,
    pub(super) evidence: String,
    /// In how many runs the verdict was this.
    pub(super) runs: usize,
}

/// Truth checks that were made, in the order of [`Fault::ALL`].
pub(super) fn checks(runs: &[&Outcome]) -> Vec<Checked> {
    let mut found = Vec::new();
    for (probe, fault) in Probe::ALL.iter().flat_map(|p| Fault::ALL.iter().map(move |f| (*p, *f))) {
        let made: Vec<_> = runs
            .iter()
            .filter(|run| run.probe == probe)
            .flat_map(|run| &run.findings)
            .filter(|finding| finding.fault == fault)
            .collect();
        let worst = [Verdict::Holds, Verdict::Unknown, Verdict::Fine]
            .into_iter()
            .find(|verdict| made.iter().any(|finding| finding.verdict == *verdict));
        let Some(verdict) = worst else { continue };
        let same: Vec<_> = made.iter().filter(|finding| finding.verdict == verdict).collect();
        let evidence = same.last().map(|finding| finding.evidence.clone()).unwrap_or_default();
        found.push(Checked { probe, fault, verdict, evidence, runs: same.len() });
    }
    found
}

/// Failures that are alike, and how many runs ended so.
pub(super) fn failures<'a>(runs: &[&'a Outcome]) -> Vec<(Probe, &'a Failure, usize)> {
    let mut found: Vec<(Probe, &Failure, usize)> = Vec::new();
    for run in runs {
        let Err(failure) = &run.result else { continue };
        let alike = |(probe, other, _): &&mut (Probe, &Failure, usize)| {
            *probe == run.probe && other.stage == failure.stage && other.errno == failure.errno
        };
        match found.iter_mut().find(alike) {
            Some((_, _, n)) => *n += 1,
            None => found.push((run.probe, failure, 1)),
        }
    }
    found
}

/// Operations that are no samples, summed.
pub(super) fn invalid(runs: &[&Outcome]) -> Vec<(Probe, Invalid, u64)> {
    let all = Probe::ALL.iter().flat_map(|p| Invalid::ALL.iter().map(move |r| (*p, *r)));
    all.map(|(probe, reason)| {
        let counts = runs.iter().filter(|run| run.probe == probe).flat_map(|run| &run.invalid);
        (probe, reason, counts.filter(|(r, _)| *r == reason).map(|(_, n)| n).sum())
    })
    .filter(|(_, _, n)| *n > 0)
    .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn p99_needs_a_hundred_samples() {
        assert_eq!(Figures::of(1..=99).unwrap().p99, None);
        let hundred = Figures::of((1..=100).rev()).unwrap();
        assert_eq!(
            (hundred.min, hundred.p50, hundred.p90, hundred.p99, hundred.max),
            (1, 50, 90, Some(99), 100)
        );
        assert_eq!(hundred.mean, 50.5);
        assert_eq!(Figures::of([]), None);
        assert_eq!(Figures::of([7]).unwrap().p90, 7);
    }

    proptest! {
        #[test]
        fn a_quantile_is_a_sample_with_enough_below_it(samples in prop::collection::vec(0u64..1000, 1..300)) {
            let figures = Figures::of(samples.iter().copied()).unwrap();
            for (percent, quantile) in [(50, figures.p50), (90, figures.p90)] {
                prop_assert!(samples.contains(&quantile));
                let at_most = samples.iter().filter(|n| **n <= quantile).count();
                let below = samples.iter().filter(|n| **n < quantile).count();
                prop_assert!(at_most * 100 >= percent * samples.len() && below * 100 < percent * samples.len());
            }
            prop_assert_eq!(figures.p99.is_some(), samples.len() >= 100);
        }
    }
}
