//! Completions over time, in equal spans. How long a cell will take is not known beforehand: the spans begin short, and where there
//! come to be too many of them, neighbours become one.

/// Nanoseconds of a span, from short to long. Each is a whole number of those before, and whole numbers of all up to a second
/// make a second.
const SPANS: [u64; 12] = [
    390_625,
    1_562_500,
    6_250_000,
    25_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    4_000_000_000,
    16_000_000_000,
    64_000_000_000,
    256_000_000_000,
];
/// A cell of two hours has spans of a second.
const MOST: usize = 8192;

/// What came back in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// Operations.
    pub(super) count: u64,
    /// What they took, together.
    pub(super) nanos: u64,
    /// What the longest of them took.
    pub(super) max: u64,
}

impl Span {
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.max = self.max.max(other.max);
    }
}

/// Spans from the beginning of the recording on.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// Which of [`SPANS`].
    length: usize,
    spans: Vec<Span>,
}

impl Series {
    /// For a recording that is expected to last so many seconds at most. A longer one is told apart less finely, not wrongly.
    pub(super) fn new(seconds: f64) -> Self {
        // Room for all, so that nothing is allocated while it is measured.
        let room = (seconds.clamp(0.0, 1e6) * 1.25) as usize + 256;
        Self { length: 0, spans: Vec::with_capacity(room.min(MOST)) }
    }

    /// An operation that took `nanos` was back `at` nanoseconds after the beginning.
    pub(super) fn record(&mut self, at: u64, nanos: u64) {
        let mut place = usize::try_from(at / self.nanos()).unwrap_or(usize::MAX);
        while place >= self.spans.capacity() && self.length + 1 < SPANS.len() {
            self.lengthen();
            place = usize::try_from(at / self.nanos()).unwrap_or(usize::MAX);
        }
        let place = place.min(self.spans.capacity() - 1);
        if self.spans.len() <= place {
            self.spans.resize(place + 1, Span::default());
        }
        self.spans[place].add(Span { count: 1, nanos, max: nanos });
    }

    /// Whole spans of at least `shortest` nanoseconds within the first `nanos`, and how long each is.
    pub(super) fn whole(&self, shortest: u64, nanos: u64) -> (u64, Vec<Span>) {
        let together = shortest.div_ceil(self.nanos()).max(1);
        let length = together * self.nanos();
        let spans = (0..nanos / length).map(|at| {
            let from = usize::try_from(at * together).unwrap_or(usize::MAX).min(self.spans.len());
            let to = usize::try_from((at + 1) * together).unwrap_or(usize::MAX).min(self.spans.len());
            let mut sum = Span::default();
            self.spans[from..to].iter().for_each(|span| sum.add(*span));
            sum
        });
        (length, spans.collect())
    }

    fn nanos(&self) -> u64 {
        SPANS[self.length]
    }

    fn lengthen(&mut self) {
        let together = (SPANS[self.length + 1] / SPANS[self.length]) as usize;
        self.length += 1;
        let count = self.spans.len().div_ceil(together);
        for at in 0..count {
            let mut sum = Span::default();
            let to = ((at + 1) * together).min(self.spans.len());
            self.spans[at * together..to].iter().for_each(|span| sum.add(*span));
            self.spans[at] = sum;
        }
        self.spans.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_fit_into_each_other_and_into_a_second() {
        for pair in SPANS.windows(2) {
            assert_eq!(pair[1] % pair[0], 0);
        }
        assert!(SPANS.iter().all(|span| 1_000_000_000 % span == 0 || span % 1_000_000_000 == 0));
    }

    #[test]
    fn two_hours_are_told_apart_by_the_second() {
        let mut series = Series::new(7200.0);
        (0..7200).for_each(|second| series.record(second * 1_000_000_000 + 5, second));
        let (length, spans) = series.whole(1_000_000_000, 7_200_000_000_000);
        assert_eq!((length, spans.len()), (1_000_000_000, 7200));
        assert!(spans.iter().zip(0..).all(|(span, second)| span.count == 1 && span.max == second));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_long_it_takes(
            times in proptest::collection::vec((0u32..44, 0u64..1 << 44).prop_map(|(s, v)| v >> s), 1..200),
        ) {
            let mut series = Series::new(0.0);
            let room = series.spans.capacity();
            times.iter().for_each(|at| series.record(*at, 7));
            let end = times.iter().max().unwrap() + 1;
            let (length, spans) = series.whole(1, end.next_multiple_of(SPANS[series.length]));
            prop_assert_eq!(spans.iter().map(|s| s.count).sum::<u64>(), times.len() as u64);
            prop_assert_eq!(spans.iter().map(|s| s.nanos).sum::<u64>(), 7 * times.len() as u64);
            for (span, at) in spans.iter().zip(0u64..) {
                let inside = times.iter().filter(|t| **t / length == at).count() as u64;
                prop_assert_eq!(span.count, inside);
            }
            prop_assert_eq!(series.spans.capacity(), room);
        }
    }
}
