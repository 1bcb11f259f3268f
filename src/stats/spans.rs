//! A run cut into equal spans, each with what a comparison needs: how many operations, their mean, and how many took longer than the
//! run's median and p99. Operations of a disk depend on each other, so how far off a run may be is not told by how many there
//! were, only by how much such spans differ.
//!
//! How long a run will be is not known when it begins. So spans are short at first, and when there are too many, each two become one:
//! memory stays the same, and recording costs a few nanoseconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spans of a run, at most.
const MOST: usize = 40;
/// Each doubling of the duration has so many steps (1/16 is 6 %).
const STEPS: u32 = 16;
/// From 2⁶ ns to 2⁴² ns (73 minutes).
const LEAST_POWER: u32 = 6;
const BUCKETS: usize = (36 * STEPS) as usize;

/// What is known of each span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanFigures {
    /// How long each is; an unfinished one at the end is left out.
    pub seconds: f64,
    /// Completions in each.
    pub operations: Vec<u32>,
    /// Their mean duration, 0 where there are none.
    pub mean_ns: Vec<u64>,
    /// How many of them took longer than about the median of the whole run, which is the same for all.
    pub above_p50: Vec<u32>,
    /// The same with the p99; empty below 100 operations.
    pub above_p99: Vec<u32>,
    /// The median of this round, where it is one of several; else null.
    #[serde(default)]
    pub p50_ns: Option<u64>,
    /// The p99 of this round, where it is one of several with 100 operations or more each; else null.
    #[serde(default)]
    pub p99_ns: Option<u64>,
}

/// Cuts a run into spans while it goes on.
#[derive(Clone, Debug)]
pub struct Spans {
    length: u64,
    spans: Vec<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    operations: u32,
    sum: u64,
    buckets: Vec<u32>,
}

impl Span {
    fn add(&mut self, other: &Self) {
        self.operations = self.operations.saturating_add(other.operations);
        self.sum = self.sum.saturating_add(other.sum);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(to, from)| *to = to.saturating_add(*from));
    }

    fn clear(&mut self) {
        (self.operations, self.sum) = (0, 0);
        self.buckets.fill(0);
    }
}

impl Default for Spans {
    /// Begins with spans of a millisecond.
    fn default() -> Self {
        let span = Span { operations: 0, sum: 0, buckets: vec![0; BUCKETS] };
        Self { length: 1_000_000, spans: vec![span; MOST] }
    }
}

impl Spans {
    /// Counts an operation that came back `at` nanoseconds after the start of the recording and had taken `nanos`. No memory is
    /// taken.
    pub fn record(&mut self, at: u64, nanos: u64) {
        while at / self.length >= MOST as u64 {
            self.halve();
        }
        let span = &mut self.spans[(at / self.length) as usize];
        span.operations = span.operations.saturating_add(1);
        span.sum = span.sum.saturating_add(nanos);
        span.buckets[bucket(nanos)] += 1;
    }

    /// Takes in what another thread recorded from the same start on.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.length < other.length {
            self.halve();
        }
        while other.length < self.length {
            other.halve();
        }
        self.spans.iter_mut().zip(&other.spans).for_each(|(into, span)| into.add(span));
    }

    /// Each two become one.
    fn halve(&mut self) {
        self.length = self.length.saturating_mul(2);
        for to in 0..MOST / 2 {
            let (into, rest) = self.spans[to..].split_at_mut(1);
            // The first stays in its place and takes the second; each other moves down.
            let pair = if to == 0 { &rest[..1] } else { &rest[to - 1..=to] };
            if to > 0 {
                into[0].clear();
            }
            pair.iter().for_each(|part| into[0].add(part));
        }
        self.spans[MOST / 2..].iter_mut().for_each(Span::clear);
    }

    /// The spans that are over when the recording ends `end` nanoseconds after its start; of less than two, nothing.
    pub fn figures(&self, end: u64) -> Option<SpanFigures> {
        let whole = usize::try_from(end / self.length).unwrap_or(MOST).min(MOST);
        let spans = &self.spans[..whole];
        let total: u64 = spans.iter().map(|span| u64::from(span.operations)).sum();
        if whole < 2 || total == 0 {
            return None;
        }
        let above = |thousandths: u64| -> Vec<u32> {
            let edge = edge(spans, total * (1000 - thousandths) / 1000);
            spans.iter().map(|span| span.buckets[edge..].iter().sum()).collect()
        };
        Some(SpanFigures {
            seconds: self.length as f64 / 1e9,
            operations: spans.iter().map(|span| span.operations).collect(),
            mean_ns: spans.iter().map(|span| span.sum / u64::from(span.operations.max(1))).collect(),
            above_p50: above(500),
            above_p99: if total < 100 { Vec::new() } else { above(990) },
            ..SpanFigures::default()
        })
    }
}

/// The bucket from which on there are as nearly as can be so many operations, and not none.
fn edge(spans: &[Span], wanted: u64) -> usize {
    let (mut above, mut best) = (0u64, (u64::MAX, 0));
    for edge in (0..BUCKETS).rev() {
        above += spans.iter().map(|span| u64::from(span.buckets[edge])).sum::<u64>();
        if above > 0 && above.abs_diff(wanted) < best.0 {
            best = (above.abs_diff(wanted), edge);
        }
    }
    best.1
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(1 << LEAST_POWER);
    let power = nanos.ilog2();
    let step = (nanos >> (power - STEPS.ilog2())) as u32 - STEPS;
    (((power - LEAST_POWER) * STEPS + step) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_rise_with_durations() {
        let mut last = 0;
        for nanos in (0..40).flat_map(|power| (0..8).map(move |step| (1u64 << power) + (step << power) / 8)) {
            assert!(bucket(nanos) >= last, "{nanos}");
            last = bucket(nanos);
        }
        assert_eq!((bucket(0), bucket(64), bucket(u64::MAX)), (0, 0, BUCKETS - 1));
    }

    #[test]
    fn a_slow_half_shows_in_its_spans() {
        let mut spans = Spans::default();
        (0..4000u64).for_each(|n| spans.record(n * 1_000_000, if n < 2000 { 100_000 } else { 300_000 }));
        let figures = spans.figures(4_000_000_000).unwrap();
        assert_eq!((figures.seconds, figures.operations.len()), (0.128, 31));
        assert_eq!((figures.mean_ns[0], figures.mean_ns[30]), (100_000, 300_000));
        assert_eq!((figures.above_p50[0], figures.above_p50[30]), (0, 128));
    }

    #[test]
    fn two_threads_are_one_run() {
        let (mut whole, mut parts) = (Spans::default(), [Spans::default(), Spans::default()]);
        for n in 0..3000u64 {
            let (at, nanos) = (n * n * 100, 1000 + n);
            whole.record(at, nanos);
            parts[usize::from(n > 100 && n % 3 == 0)].record(at, nanos);
        }
        let [mut one, other] = parts;
        one.add(&other);
        assert_eq!(one.figures(900_000_000), whole.figures(900_000_000));
    }

    #[test]
    fn too_little_has_no_spans() {
        let mut spans = Spans::default();
        assert_eq!(spans.figures(1_000_000_000), None);
        spans.record(10, 10);
        assert_eq!(spans.figures(1_500_000), None);
        assert!(spans.figures(3_000_000).is_some());
    }

    proptest! {
        #[test]
        fn nothing_is_lost(steps in proptest::collection::vec((0u64..50_000_000, 0u64..1 << 50), 100..400)) {
            let (mut spans, mut at, mut sum) = (Spans::default(), 0, 0u64);
            for (step, nanos) in &steps {
                at += step;
                spans.record(at, *nanos);
                sum += nanos;
            }
            prop_assert_eq!(spans.spans.iter().map(|s| s.operations as usize).sum::<usize>(), steps.len());
            prop_assert_eq!(spans.spans.iter().map(|s| s.sum).sum::<u64>(), sum);
            for span in &spans.spans {
                prop_assert_eq!(span.buckets.iter().sum::<u32>(), span.operations);
            }
            if let Some(figures) = spans.figures(u64::MAX) {
                prop_assert_eq!(figures.operations.iter().sum::<u32>() as usize, steps.len());
                prop_assert!(figures.above_p50.iter().zip(&figures.operations).all(|(above, all)| above <= all));
            }
        }
    }
}
