use proptest::prelude::*;

use super::*;

const LENGTHS: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(600), Duration::from_secs(3600)];

fn at(millis: u64) -> Tick {
    Tick::from_nanos(millis * 1_000_000)
}

fn naive(mut samples: Vec<u64>) -> Option<Summary> {
    samples.sort_unstable();
    let n = samples.len();
    let q = |q: f64| samples[((q * n as f64 / 1000.0).ceil() as usize).clamp(1, n) - 1];
    let mean = samples.iter().map(|s| *s as f64).sum::<f64>() / n as f64;
    let variance = samples.iter().map(|s| (*s as f64 - mean).powi(2)).sum::<f64>() / n as f64;
    (n > 0).then(|| Summary {
        count: n as u32,
        min: samples[0],
        p50: q(500.0),
        p90: q(900.0),
        p99: (n >= 100).then(|| q(990.0)),
        p999: (n >= 1000).then(|| q(999.0)),
        max: samples[n - 1],
        mean,
        stddev: variance.sqrt(),
    })
}

fn assert_same(found: Option<Summary>, expected: Option<Summary>) -> Result<(), TestCaseError> {
    let (Some(found), Some(expected)) = (found, expected) else {
        prop_assert_eq!(found, expected);
        return Ok(());
    };
    let exact = Summary { mean: expected.mean, stddev: expected.stddev, ..found };
    prop_assert_eq!(exact, expected);
    prop_assert!((found.mean - expected.mean).abs() <= 1e-9 * expected.mean + 1e-9);
    prop_assert!((found.stddev - expected.stddev).abs() <= 1e-6 * expected.max as f64 + 1e-6);
    prop_assert!(found.min <= found.p50 && found.p50 <= found.p90 && found.p90 <= found.max);
    prop_assert!(found.p99.is_none_or(|p| found.p90 <= p && p <= found.max));
    prop_assert!(found.mean.is_finite() && found.stddev.is_finite());
    Ok(())
}

/// What a window of `length` holds after these events, by the definition.
fn expected(events: &[(u64, u64)], now: u64, length: Duration) -> Option<Summary> {
    let coarse = |millis: u64| (millis * 1_000_000) >> 24;
    let length = length.as_nanos() as u64 >> 24;
    let newest = events.len().saturating_sub(Windows::MOST);
    let fresh = events[newest..].iter().filter(|(t, _)| coarse(now) - coarse(*t) < length);
    naive(fresh.map(|(_, v)| (*v).min(HIGHEST)).collect())
}

proptest! {
    #[test]
    fn equals_a_recomputation(
        steps in proptest::collection::vec((0u64..40_000, 0u32..64, any::<u64>()), 1..400),
        start in prop_oneof![Just(0u64), Just(((1u64 << 56) / 1_000_000) - 3_000_000)],
        pause in 0u64..5_000_000,
    ) {
        let (mut windows, mut now, mut events) = (Windows::new(&LENGTHS), start, Vec::new());
        // Few distinct values, so that equals meet; and some of any size.
        for (step, shift, value) in steps {
            now += step;
            let value = if shift < 32 { value % 7 } else { value >> (shift - 32) };
            windows.record(at(now), value);
            events.push((now, value));
            for (i, length) in LENGTHS.into_iter().enumerate() {
                assert_same(windows.summary(i), expected(&events, now, length))?;
            }
        }
        now += pause;
        windows.expire(at(now));
        for (i, length) in LENGTHS.into_iter().enumerate() {
            assert_same(windows.summary(i), expected(&events, now, length))?;
        }
    }
}

#[test]
fn a_throttled_disk_shows_within_a_window_and_is_forgotten_after_it() {
    let mut windows = Windows::new(&LENGTHS);
    let mut feed = |from: u64, to: u64, value: u64| {
        (from..to).step_by(500).for_each(|t| windows.record(at(t), value));
        (windows.summary(0).unwrap().p99.unwrap(), windows.summary(2).unwrap().max)
    };
    assert_eq!(feed(0, 600_000, 1).0, 1);
    assert_eq!(feed(600_000, 660_000, 50).0, 50);
    assert_eq!(feed(660_000, 721_000, 1), (1, 50));
    assert_eq!(feed(721_000, 4_400_000, 1), (1, 1));
    windows.expire(at(4_470_000));
    assert!(windows.summary(0).is_none() && windows.summary(1).is_some());
    windows.clear();
    assert!(windows.summary(2).is_none());
}

#[test]
fn a_flood_is_capped() {
    let mut windows = Windows::new(&LENGTHS);
    let total = Windows::MOST as u64 + 5000;
    (0..total).for_each(|i| windows.record(at(i * 10), i));
    let hour = windows.summary(2).unwrap();
    assert_eq!((hour.count as usize, hour.min, hour.max), (Windows::MOST, 5000, total - 1));
    assert!(windows.allocated() < Windows::MOST * 24);
}

#[test]
fn a_targets_hour_stays_below_400_kib() {
    // Every 2 s one first and two warm commits in three durations; every 30 s one first and 15 warm reads.
    let series = |per_run: u64, every: u64| {
        let mut windows = Windows::new(&LENGTHS);
        for run in 0..(2 * 3600 / every) {
            (0..per_run).for_each(|i| windows.record(at(run * every * 1000), (run * 7919 + i) % 5003));
        }
        windows.allocated()
    };
    let bytes = 3 * (series(1, 2) + series(2, 2)) + series(1, 30) + series(15, 30);
    assert!(bytes < 400 * 1024, "{bytes}");
    println!("{} KiB", bytes / 1024);
}
