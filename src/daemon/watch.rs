//! The watchdog of one target: judges by the age of what its latency probes have out, and counts a stall while it lasts. Pure; what a lane says when
//! it is back only settles the account, so that in the end the sums are those of the operations themselves.

use std::time::Duration;

use crate::clock::Tick;
use crate::io::{Inflight, Op};
use crate::probe::Outcome;
use crate::record::Thresholds;

/// What has been told of the operations that are out, by kind.
#[derive(Debug, Default)]
pub(super) struct Watch([Option<Stall>; Op::ALL.len()]);

#[derive(Clone, Copy, Debug)]
struct Stall {
    since: Tick,
    threshold: Duration,
    told: Duration,
}

/// Something to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) op: Op,
    /// Operations that passed the threshold and were not counted yet.
    pub(super) timeouts: u64,
    /// Time beyond the threshold that was not counted yet.
    pub(super) beyond: Duration,
}

impl Watch {
    /// What is out for too long at `now`.
    pub(super) fn look(&mut self, inflight: &Inflight, thresholds: &Thresholds, now: Tick) -> Vec<News> {
        let mut news = Vec::new();
        for op in Op::ALL {
            let Some(since) = inflight.since_by_probes(op) else { continue };
            let known = self.0[op as usize].filter(|stall| stall.since == since);
            let threshold = known.map_or(thresholds.of(op), |stall| stall.threshold);
            let age = now.since(since);
            if age < threshold {
                continue;
            }
            let beyond = age - threshold;
            let told = known.map_or(Duration::ZERO, |stall| stall.told);
            self.0[op as usize] = Some(Stall { since, threshold, told: beyond });
            let timeouts = u64::from(known.is_none());
            news.push(News { op, timeouts, beyond: beyond.saturating_sub(told) });
        }
        news
    }

    /// What a run that is back leaves to count: stalls too short for a look, and the rest of those that were seen.
    pub(super) fn ran(&mut self, outcome: &Outcome, thresholds: &Thresholds) -> Vec<News> {
        let writes = outcome.commits.iter().map(|c| (Op::Write, c.write));
        let syncs = outcome.commits.iter().filter_map(|c| Some((Op::Sync, c.sync?)));
        let reads = outcome.reads.iter().map(|r| (Op::Read, r.nanos));
        let all: Vec<(Op, Duration)> =
            writes.chain(syncs).chain(reads).map(|(op, nanos)| (op, Duration::from_nanos(nanos))).collect();
        let mut news = Vec::new();
        for op in [Op::Write, Op::Sync, Op::Read] {
            if !all.iter().any(|(o, _)| *o == op) {
                continue;
            }
            let seen = self.0[op as usize].take();
            let threshold = seen.map_or(thresholds.of(op), |stall| stall.threshold);
            let beyond =
                all.iter().filter(|(o, _)| *o == op).filter_map(|(_, took)| took.checked_sub(threshold));
            let (timeouts, beyond) = beyond.fold((0u64, Duration::ZERO), |(n, sum), d| (n + 1, sum + d));
            let told = seen.map_or(Duration::ZERO, |stall| stall.told);
            let left = News {
                op,
                timeouts: timeouts.saturating_sub(u64::from(seen.is_some())),
                beyond: beyond.saturating_sub(told),
            };
            if left.timeouts > 0 || !left.beyond.is_zero() {
                news.push(left);
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{CommitSample, Phase, Probe};

    const THRESHOLD: Duration = Duration::from_secs(2);

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    fn run(sync_millis: &[u64]) -> Outcome {
        let mut run = Outcome::begin(Probe::Commit, at(0), at(0));
        let sample = |ms: &u64| CommitSample {
            phase: Phase::Warm,
            write: 1,
            sync: Some(ms * 1_000_000),
            commit: ms * 1_000_000,
        };
        run.commits = sync_millis.iter().map(sample).collect();
        run
    }

    fn sum(news: &[News]) -> (u64, Duration) {
        (news.iter().map(|n| n.timeouts).sum(), news.iter().map(|n| n.beyond).sum())
    }

    #[test]
    fn a_stall_is_counted_once_while_it_lasts_and_its_end_settles_the_account() {
        let (mut watch, inflight, thresholds) =
            (Watch::default(), Inflight::default(), Thresholds::new(Some(THRESHOLD)));
        inflight.begin(Op::Sync, at(500));
        assert_eq!(watch.look(&inflight, &thresholds, at(2_400)), []);
        assert_eq!(sum(&watch.look(&inflight, &thresholds, at(3_500))), (1, Duration::from_secs(1)));
        assert_eq!(sum(&watch.look(&inflight, &thresholds, at(5_500))), (0, Duration::from_secs(2)));
        inflight.end(Op::Sync);
        assert_eq!(watch.look(&inflight, &thresholds, at(7_000)), []);
        // Out for 6 s, 4 s beyond; 3 s are told.
        assert_eq!(sum(&watch.ran(&run(&[1, 6_000, 1]), &thresholds)), (0, Duration::from_secs(1)));
        assert_eq!(watch.ran(&run(&[1, 1]), &thresholds), []);
    }

    #[test]
    fn what_no_look_saw_is_counted_when_it_is_back() {
        let (mut watch, thresholds) = (Watch::default(), Thresholds::new(Some(THRESHOLD)));
        assert_eq!(sum(&watch.ran(&run(&[2_500, 1, 3_000]), &thresholds)), (2, Duration::from_millis(1_500)));
    }

    #[test]
    fn another_operation_out_is_another_stall() {
        let (mut watch, inflight, thresholds) =
            (Watch::default(), Inflight::default(), Thresholds::new(Some(THRESHOLD)));
        inflight.begin(Op::Open, at(0));
        assert_eq!(sum(&watch.look(&inflight, &thresholds, at(2_000))), (1, Duration::ZERO));
        inflight.begin(Op::Open, at(2_500));
        assert_eq!(watch.look(&inflight, &thresholds, at(3_000)), []);
        assert_eq!(sum(&watch.look(&inflight, &thresholds, at(5_000))), (1, Duration::from_millis(500)));
    }

    #[test]
    fn a_threshold_that_moves_does_not_count_a_stall_twice() {
        let (mut watch, inflight) = (Watch::default(), Inflight::default());
        let (low, high) = (Thresholds::new(Some(THRESHOLD)), Thresholds::new(None));
        inflight.begin(Op::Read, at(0));
        assert_eq!(sum(&watch.look(&inflight, &low, at(3_000))), (1, Duration::from_secs(1)));
        assert_eq!(sum(&watch.look(&inflight, &high, at(4_000))), (0, Duration::from_secs(1)));
    }
}
