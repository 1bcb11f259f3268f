//! How long to wait before what failed is tried again.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The wait after so many failures in a row (0: after the first): doubled each time up to `longest`, of which between half and the
/// whole, drawn by `seed`. Targets that fell together do not come back together, and a seed always draws the same.
pub(super) fn wait(first: Duration, longest: Duration, failures: u32, seed: u64) -> Duration {
    let whole = first.saturating_mul(1 << failures.min(30)).min(longest);
    let drawn = xxh3_64_with_seed(&failures.to_le_bytes(), seed) >> 11;
    (whole / 2).mul_f64(1.0 + drawn as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    const FIRST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(60);

    proptest! {
        #[test]
        fn it_lies_between_half_and_the_whole(failures in any::<u32>(), seed in any::<u64>()) {
            let waited = wait(FIRST, LONGEST, failures, seed);
            let whole = FIRST.as_secs_f64() * 2f64.powi(failures.min(30).cast_signed());
            let whole = whole.min(LONGEST.as_secs_f64());
            prop_assert!(waited.as_secs_f64() >= whole / 2.0 && waited.as_secs_f64() <= whole);
            prop_assert_eq!(waited, wait(FIRST, LONGEST, failures, seed));
        }
    }

    #[test]
    fn targets_that_fell_together_come_back_spread_out() {
        let mut waits: Vec<_> = (0..100).map(|seed| wait(FIRST, LONGEST, 10, seed)).collect();
        waits.sort();
        assert!(waits[0] < Duration::from_secs(33) && waits[99] > Duration::from_secs(57), "{waits:?}");
        let gaps = waits.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.max().unwrap() < Duration::from_secs(3), "{waits:?}");
    }
}
