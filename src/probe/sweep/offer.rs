//! A load that is offered whatever the disk does: which one, and whether it was carried.

use std::str::FromStr;
use std::time::Duration;

use super::{Access, Latency, Left, Load, Stream, Way};
use crate::probe::Cost;
use crate::units::Bytes;

/// Operations of one kind at a fixed rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Reads or writes.
    pub way: Way,
    /// Where.
    pub access: Access,
    /// Bytes of an operation.
    pub block_size: u32,
    /// Operations per second.
    pub iops: f64,
}

/// What became of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// Whether all of it was done, and within the objective.
    pub carried: bool,
    /// How long it was offered, warm-up not counted.
    pub seconds: f64,
    /// Each part of it, in the order in which it was given.
    pub parts: Vec<CarriedPart>,
}

/// What became of one part of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct CarriedPart {
    /// Which.
    pub offer: Offer,
    /// Operations per second that were done.
    pub iops: f64,
    /// From when each was to begin, whether it could or not.
    pub latency: Latency,
    /// Whether enough of it was done.
    pub delivered: bool,
    /// Whether its p99 kept the objective.
    pub within: bool,
}

/// What came of offering a load.
#[derive(Clone, Debug, PartialEq)]
pub struct CarryReport {
    /// What was measured, or why nothing was.
    pub outcome: Result<Carried, Left>,
    /// What it cost.
    pub cost: Cost,
}

/// Less than this part of what was offered is not all of it.
const ALL: f64 = 0.99;

impl Offer {
    pub(super) fn stream(self) -> Stream {
        Stream { way: self.way, access: self.access, block_size: Some(self.block_size), load: Load::Fixed(1) }
    }

    /// What is to be said of `iops` and `latency` that came of it.
    pub(super) fn judge(self, iops: f64, latency: Latency, p99: Duration) -> CarriedPart {
        let limit = u64::try_from(p99.as_nanos()).unwrap_or(u64::MAX);
        CarriedPart {
            offer: self,
            iops,
            latency,
            delivered: iops >= ALL * self.iops,
            within: latency.count > 0 && latency.p99.unwrap_or(latency.max) <= limit,
        }
    }
}

impl FromStr for Offer {
    type Err = String;

    /// As in `randread:8KiB=15000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let right = || format!("`{text}` is no load: one is written as in `randread:8KiB=15000`");
        let (what, iops) = text.split_once('=').ok_or_else(right)?;
        let (pattern, block) = what.split_once(':').ok_or_else(right)?;
        let (way, access) = match pattern {
            "randread" => (Way::Read, Access::Random),
            "randwrite" => (Way::Write, Access::Random),
            "seqread" => (Way::Read, Access::Sequential),
            "seqwrite" => (Way::Write, Access::Sequential),
            _ => {
                return Err(format!(
                    "`{pattern}` in `{text}` is not one of randread, randwrite, seqread, seqwrite"
                ));
            }
        };
        let block: Bytes = block.parse().map_err(|e| format!("`{text}`: {e}"))?;
        let block_size = u32::try_from(block.get()).ok().filter(|block| *block > 0).ok_or_else(right)?;
        let iops: f64 = iops.parse().map_err(|_| right())?;
        if !(0.001..=1e7).contains(&iops) {
            return Err(format!("`{text}`: {iops} operations per second cannot be offered"));
        }
        Ok(Self { way, access, block_size, iops })
    }
}

/// Looks for the most IOPS whose p99 keeps an objective, between two steps of a ladder. Pure: it says which rate to offer next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// This much was carried.
    low: f64,
    /// This much was not; `None`: nothing was too much.
    high: Option<f64>,
    left: u8,
}

/// A search ends when what it does not know is less than this part of what it does.
const CLOSE: f64 = 0.03;
/// Rates that are offered at most.
const MOST_TRIES: u8 = 8;

impl Search {
    /// Between the steps of a ladder, each with its IOPS and p99, whatever their order: the most that kept the objective, and the
    /// least above it that did not. `None` where nothing was measured.
    pub fn between(steps: &[(f64, u64)], objective: Duration) -> Option<Self> {
        let limit = u64::try_from(objective.as_nanos()).unwrap_or(u64::MAX);
        let kept = steps.iter().filter(|(_, p99)| *p99 <= limit).map(|(iops, _)| *iops);
        let low = kept.fold(0.0, f64::max);
        // A step that brought no more and kept it not says nothing of rates: it only waited longer.
        let missed = steps.iter().filter(|(iops, p99)| *p99 > limit && *iops > low).map(|(iops, _)| *iops);
        let high = missed.reduce(f64::min);
        (!steps.is_empty()).then_some(Self { low, high, left: MOST_TRIES })
    }

    /// The rate to offer next; `None`: it is found.
    pub fn next(&self) -> Option<f64> {
        let high = self.high?;
        let close = high - self.low <= CLOSE * self.low;
        (!close && self.left > 0).then(|| self.low.midpoint(high))
    }

    /// Whether the rate that was offered was carried.
    pub fn tell(&mut self, iops: f64, carried: bool) {
        self.left = self.left.saturating_sub(1);
        if carried {
            self.low = self.low.max(iops);
        } else {
            self.high = Some(self.high.map_or(iops, |high| high.min(iops)));
        }
    }

    /// The most that was carried; 0 where nothing was.
    pub fn answer(&self) -> f64 {
        self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_load_is_read_as_it_is_written() {
        let offer: Offer = "randread:8KiB=15000".parse().unwrap();
        assert_eq!(offer, Offer { way: Way::Read, access: Access::Random, block_size: 8192, iops: 15000.0 });
        for bad in [
            "",
            "randread",
            "randread:8KiB",
            "randread:8=1",
            "oltp:8KiB=1",
            "seqread:8KiB=-1",
            "seqread:8KiB=x",
            "seqread:8KiB=NaN",
            "seqread:8KiB=1e9",
            "seqread:8GiB=1",
        ] {
            let error = bad.parse::<Offer>().unwrap_err();
            assert!(error.contains('`'), "{error}");
        }
    }

    #[test]
    fn all_of_it_must_be_done_in_time() {
        let offer: Offer = "randread:8KiB=100".parse().unwrap();
        let latency = Latency { count: 1000, p99: Some(5_000_000), max: 90_000_000, ..Latency::default() };
        let judged = |iops, p99| {
            let part = offer.judge(iops, latency, Duration::from_millis(p99));
            (part.delivered, part.within)
        };
        assert_eq!(judged(99.5, 5), (true, true));
        assert_eq!(judged(98.0, 4), (false, false));
        let nothing = offer.judge(0.0, Latency::default(), Duration::from_secs(1));
        assert_eq!((nothing.delivered, nothing.within), (false, false));
    }

    #[test]
    fn where_no_step_is_too_slow_nothing_is_searched() {
        let search = Search::between(&[(100.0, 5), (200.0, 7)], Duration::from_nanos(8)).unwrap();
        assert_eq!((search.next(), search.answer()), (None, 200.0));
        assert_eq!(Search::between(&[], Duration::from_nanos(8)), None);
        let flat = Search::between(&[(100.0, 5), (99.0, 70)], Duration::from_nanos(8)).unwrap();
        assert_eq!((flat.next(), flat.answer()), (None, 100.0));
    }

    proptest! {
        #[test]
        fn the_most_that_is_carried_is_found(truth in 1.0f64..1e6, gap in 1.01f64..4.0, from in 0.0f64..1.0) {
            // The disk carries `truth`; one step below and one above are known.
            let low = truth * (1.0 - from * 0.7);
            let high = truth * gap;
            let mut search = Search::between(&[(low, 1), (high, 100)], Duration::from_nanos(10)).unwrap();
            let mut tries = 0;
            while let Some(rate) = search.next() {
                search.tell(rate, rate <= truth);
                tries += 1;
            }
            prop_assert!(tries <= u32::from(MOST_TRIES));
            prop_assert!(search.answer() <= truth);
            prop_assert!(search.answer() >= truth / (1.0 + CLOSE) - (high - low) / 256.0, "{}", search.answer());
        }
    }
}
