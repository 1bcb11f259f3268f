//! From where to where the rates of a thread's streams are taken.
//!
//! A throttled disk lets a burst through, is silent, and lets the next through. A window that began or ended anywhere in that would hold
//! one burst too many or too few: three per cent at 500 operations a second in five seconds. So, where bursts can be told, the window is
//! cut to whole ones: from the completion that ended a silence near its beginning to the one that ended a silence near its end, which
//! itself is no longer counted. Operations, seconds and rate are all of this stretch. Where no bursts can be told, nothing is cut.

use std::time::Duration;

use crate::clock::Tick;

/// Near an end is within two slices of it: a tenth of a cell's time, or two seconds.
const SLICES: u64 = 20;
const LONGEST_SLICE: u64 = 1_000_000_000;
/// A silence between bursts is at least so many times the mean time between completions,
const MEANS: u64 = 8;
/// and at least this part of the window, since a shorter one moves the rate by less,
const PART: u64 = 1000;
/// and the two are alike: the longer is at most so many times the shorter.
const ALIKE: u64 = 2;

/// Streams that one thread serves at most.
const STREAMS: usize = 2;

/// How much came from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its first instant.
    pub(super) from: Tick,
    /// Its last.
    pub(super) to: Tick,
    /// Completions, of each stream.
    pub(super) operations: [u64; STREAMS],
}

/// The longest silence of a slice, and what there was when it was over.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    slice: u64,
    /// Nanoseconds.
    length: u64,
    over: Tick,
    /// Completions of each stream before it was over.
    before: [u64; STREAMS],
}

/// Listens for silences while completions come.
#[derive(Debug)]
pub(super) struct Bursts {
    /// Nanoseconds.
    slice: u64,
    last: Option<Tick>,
    count: [u64; STREAMS],
    /// Of the first two slices, and of the last two so far.
    first: [Silence; 2],
    latest: [Silence; 2],
}

impl Bursts {
    /// For a window that is to last so long at most.
    pub(super) fn new(time: Duration) -> Self {
        let slice = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / SLICES;
        let slice = slice.clamp(1, LONGEST_SLICE);
        Self { slice, last: None, count: [0; STREAMS], first: Default::default(), latest: Default::default() }
    }

    /// One of a stream came `at`, in a window that began at `from`. They come in their order; those of one instant are one burst.
    pub(super) fn hear(&mut self, from: Tick, at: Tick, stream: usize) {
        if at <= from {
            return;
        }
        let length = at.nanos_since(self.last.unwrap_or(from));
        let slice = at.nanos_since(from) / self.slice;
        let silence = Silence { slice, length, over: at, before: self.count };
        if let Some(first) = usize::try_from(slice).ok().and_then(|slice| self.first.get_mut(slice))
            && length > first.length
        {
            *first = silence;
        }
        if slice > self.latest[1].slice {
            self.latest = [self.latest[1], silence];
        } else if length >= self.latest[1].length {
            self.latest[1] = silence;
        }
        self.last = self.last.max(Some(at));
        self.count[stream.min(STREAMS - 1)] += 1;
    }

    /// Of all that came between the ends of the window, that in whole bursts; all of it where bursts cannot be told.
    pub(super) fn whole(&self, from: Tick, to: Tick) -> Stretch {
        let all = Stretch { from, to, operations: self.count };
        let mut latest = self.latest;
        let window = to.nanos_since(from);
        latest.iter_mut().filter(|s| s.slice + 1 < window / self.slice).for_each(|s| *s = Silence::default());
        let (begin, end) = (outer(self.first[0], self.first[1]), outer(latest[1], latest[0]));
        let mean = window / self.count.iter().sum::<u64>().max(1);
        let least = (window / PART).max(mean.saturating_mul(MEANS)).max(1);
        let (shorter, longer) = (begin.length.min(end.length), begin.length.max(end.length));
        let told = shorter >= least && longer <= shorter.saturating_mul(ALIKE);
        if !told || end.over <= begin.over {
            return all;
        }
        let operations = std::array::from_fn(|stream| end.before[stream] - begin.before[stream]);
        Stretch { from: begin.over, to: end.over, operations }
    }
}

/// The one nearer to its end, so that little is cut, unless only the other can be one between bursts.
fn outer(near: Silence, other: Silence) -> Silence {
    if other.length > near.length.saturating_mul(ALIKE) { other } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// What is measured in a window of `time` from `from` on, which ends with the first completion after it.
    fn measured(from: u64, time: u64, times: impl Iterator<Item = u64>) -> (Stretch, Stretch) {
        let mut bursts = Bursts::new(Duration::from_nanos(time));
        let mut to = from;
        for at in times.skip_while(|at| *at <= from) {
            bursts.hear(Tick::from_nanos(from), Tick::from_nanos(at), (at % 3 == 0).into());
            to = at;
            if at - from >= time {
                break;
            }
        }
        let (from, to) = (Tick::from_nanos(from), Tick::from_nanos(to));
        (bursts.whole(from, to), Stretch { from, to, operations: bursts.count })
    }

    fn operations(stretch: Stretch) -> u64 {
        stretch.operations.iter().sum()
    }

    fn rate(stretch: Stretch) -> f64 {
        operations(stretch) as f64 / stretch.to.since(stretch.from).as_secs_f64()
    }

    /// Bursts of `size`, `apart` from each other in one of `every`, in batches of `batch`.
    fn bursts(size: u64, every: u64, apart: u64, batch: u64) -> impl Iterator<Item = u64> {
        (0..).map(move |n| n / size * every + n % size / batch * apart)
    }

    #[test]
    fn a_throttle_at_500_is_found_where_the_plain_rate_is_off_by_more_than_a_per_cent() {
        let mut worst: f64 = 0.0;
        for offset in 0..100 {
            let from = SECOND + offset * 1_000_000;
            let (whole, plain) = measured(from, 5 * SECOND / 2, bursts(50, SECOND / 10, 20_000, 1));
            assert!((rate(whole) / 500.0 - 1.0).abs() < 1e-6, "{offset}: {whole:?}");
            worst = worst.max((rate(plain) / 500.0 - 1.0).abs());
        }
        assert!(worst > 0.01, "{worst}");
    }

    #[test]
    fn one_that_hangs_at_the_end_is_no_burst() {
        let steady = (1..).map(|n| n * 1_000_000).take_while(|at| *at < 900_000_000);
        let (whole, plain) = measured(0, SECOND, steady.chain([8 * SECOND]));
        assert_eq!(whole, plain);
        assert_eq!(plain.to, Tick::from_nanos(8 * SECOND));
    }

    #[test]
    fn one_hiccup_is_no_burst_and_too_little_is_not_enough() {
        let hiccup = (1..).map(|n| n * 1_000_000 + if n > 50 { 40_000_000 } else { 0 });
        let (whole, plain) = measured(0, SECOND, hiccup);
        assert_eq!(whole, plain);
        let (whole, plain) = measured(0, SECOND, [SECOND / 2, SECOND].into_iter());
        assert_eq!(whole, plain);
        assert_eq!(Bursts::new(Duration::ZERO).whole(Tick::default(), Tick::default()).operations, [0, 0]);
    }

    #[test]
    fn a_cell_that_ends_long_before_its_time_has_ends_too() {
        // A thousand operations in at most five seconds, of a disk that gives 500.
        let some = bursts(50, SECOND / 10, 1000, 1).take(2 * 500 + 37);
        let (whole, plain) = measured(SECOND / 100, 5 * SECOND, some);
        assert!((rate(whole) / 500.0 - 1.0).abs() < 1e-6, "{whole:?}");
        assert!(operations(plain) - operations(whole) <= 250, "{whole:?}");
    }

    proptest! {
        #[test]
        fn whole_bursts_have_the_rate_of_the_disk(
            size in 10u64..400, every in 20u64..150, batch in 1u64..50, from in 0u64..SECOND, seconds in 4u64..30,
        ) {
            let every = every * 1_000_000;
            let (whole, plain) = measured(from, seconds * SECOND, bursts(size, every, 1000, batch));
            let truth = size as f64 * SECOND as f64 / every as f64;
            // A silence shorter than a thousandth of the window may be none, and moves the rate by no more.
            prop_assert!((rate(whole) / truth - 1.0).abs() < 1.1e-3, "{:?} {}", whole, truth);
            prop_assert!(plain.from <= whole.from && whole.to <= plain.to && operations(whole) <= operations(plain));
        }

        #[test]
        fn of_a_steady_disk_nothing_is_cut(
            gaps in proptest::collection::vec(50u64..150, 200..2000), from in 0u64..1000, batch in 1u64..8,
        ) {
            let times: Vec<u64> = gaps.iter().scan(0, |sum, gap| { *sum += gap; Some(*sum) }).collect();
            let last = times[times.len() - 1];
            let times = times.into_iter().flat_map(|at| std::iter::repeat_n(at, batch as usize / 2 + 1));
            let (whole, plain) = measured(from, last * 9 / 10, times);
            prop_assert_eq!(whole, plain);
        }
    }
}
