use std::f64::consts::TAU;

use proptest::prelude::*;

use super::*;

/// Bell-shaped numbers, the same ones for the same seed.
struct Noise(fastrand::Rng);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn next(&mut self) -> f64 {
        let (a, b) = (1.0 - self.0.f64(), self.0.f64());
        (-2.0 * a.ln()).sqrt() * (TAU * b).cos()
    }

    /// Each depends on the one before; standard deviation 1.
    fn connected(&mut self, n: usize, r: f64) -> Vec<f64> {
        let mut last = self.next();
        let mut step = || {
            last = r * last + (1.0 - r * r).sqrt() * self.next();
            last
        };
        (0..n).map(|_| step()).collect()
    }
}

fn counts(rates: impl Iterator<Item = f64>) -> Vec<u64> {
    rates.map(|rate| rate.max(0.0).round() as u64).collect()
}

/// A dip of `width` seconds each `period` seconds, from `phase` on: which share of a span of a second lies in one.
fn in_dip(second: usize, period: f64, phase: f64, width: f64) -> f64 {
    let parts = 20;
    let inside = |part: usize| {
        let time = second as f64 + (part as f64 + 0.5) / f64::from(parts as u32);
        (time - phase).rem_euclid(period) < width
    };
    (0..parts).filter(|part| inside(*part)).count() as f64 / f64::from(parts as u32)
}

#[test]
fn nothing_shows_nothing() {
    for counts in [&[][..], &[0, 0, 0], &[0; 100]] {
        assert_eq!(shape(counts, 1.0), ShapeFigures::default());
    }
    let one = shape(&[5], 1.0);
    assert_eq!((one.halves_ratio, one.variation, one.noise, one.decline), (None, None, None, None));
}

#[test]
fn a_constant_series_has_no_noise_and_no_troughs() {
    let flat = shape(&[500; 600], 1.0);
    assert_eq!(flat.halves_ratio, Some(1.0));
    assert_eq!((flat.variation, flat.noise), (Some(0.0), Some(0.0)));
    assert!(flat.decline.unwrap().abs() < 1e-9 && flat.troughs.is_none(), "{flat:?}");
}

#[test]
fn a_quarter_less_in_the_second_half_is_said() {
    let figures = shape(&[[400; 50], [300; 50]].concat(), 0.5);
    assert_eq!(figures.halves_ratio, Some(0.75));
    assert!((figures.variation.unwrap() - 50.0 / 350.0).abs() < 0.002);
}

/// A fall of half within 40 ms was one write-back, not the disk; so a short series has no figures that one would take for the disk's.
#[test]
fn a_short_series_tells_of_noise_and_halves_alone() {
    let falling: Vec<u64> = (0..100).map(|at| 200 - at).collect();
    let none = |figures: ShapeFigures| {
        (figures.variation, figures.decline, figures.troughs) == (None, None, None)
            && figures.noise.is_some()
            && figures.halves_ratio.is_some()
    };
    for (spans, seconds) in [(100, 0.0004), (100, 0.05), (100, 0.29), (47, 1.0), (8, 60.0)] {
        assert!(none(shape(&falling[..spans], seconds)), "{spans} spans of {seconds} s");
    }
    let long = shape(&falling, 0.3);
    assert!((long.decline.unwrap() - 0.5).abs() < 0.01 && long.variation.is_some(), "{long:?}");
    // A recording of 30 s in spans of 0.61 s, of which the last is not whole.
    assert!(shape(&falling[..49], 0.61).decline.is_some());
}

/// What a disk shows in half a minute that falls by 4 % and dips each 3 s: what one sees that has no half hour.
#[test]
fn half_a_minute_is_enough_for_a_quiet_disk() {
    let mut noise = Noise::new(12);
    for phase in [0.0, 0.7, 1.3, 2.2] {
        let series = counts((0..62).map(|at| {
            let line = 1.0 - 0.04 * f64::from(at) / 62.0;
            200.0
                * line
                * (1.0 - 0.5 * in_dip(at as usize, 6.0, phase * 2.0, 1.0))
                * (1.0 + 0.005 * noise.next())
        }));
        let figures = shape(&series, 0.5);
        assert!((figures.decline.unwrap() - 0.04).abs() < 0.01, "{phase}: {figures:?}");
        let period = figures.troughs.and_then(|troughs| troughs.period_seconds);
        assert!((period.unwrap() - 3.0).abs() < 0.1, "{phase}: {figures:?}");
    }
}

#[test]
fn the_true_mean_is_within_the_noise_also_when_spans_depend_on_each_other() {
    for (r, spans) in [(0.0, 40), (0.5, 40), (0.8, 100), (0.9, 400)] {
        let mut noise = Noise::new(7);
        let runs = 400;
        let inside = (0..runs)
            .filter(|_| {
                let series = counts(noise.connected(spans, r).iter().map(|x| 10_000.0 * (1.0 + 0.1 * x)));
                let seen = series.iter().sum::<u64>() as f64 / series.len() as f64;
                (seen / 10_000.0 - 1.0).abs() <= shape(&series, 0.5).noise.unwrap()
            })
            .count();
        assert!(inside * 100 >= runs * 91, "correlation {r}, {spans} spans: {inside} of {runs}");
    }
}

#[test]
fn noise_is_no_wider_than_it_must_be() {
    let mut noise = Noise::new(8);
    let mut widths: Vec<f64> = (0..200)
        .map(|_| shape(&counts(noise.connected(100, 0.0).iter().map(|x| 10_000.0 * (1.0 + 0.1 * x))), 1.0))
        .map(|figures| figures.noise.unwrap())
        .collect();
    // Independent spans: 1.98 × 10 % ÷ √100.
    let typical = median(&mut widths).unwrap();
    assert!((0.0198..0.035).contains(&typical), "{typical}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// 4 % less at the end, with noise of 5 %, or a tenth of that on a quiet disk, and a dip each half minute.
    #[test]
    fn a_decline_and_a_dip_each_half_minute_are_found(
        seed in any::<u64>(), phase in 0.0..30.0f64, width in 1.0..4.0f64, depth in 0.4..0.95f64,
        scatter in 0.002..0.05f64, spans in 600usize..1500, rate in 500.0..50_000.0f64,
    ) {
        let mut noise = Noise::new(seed);
        let series = counts((0..spans).map(|second| {
            let line = 1.0 - 0.04 * second as f64 / spans as f64;
            rate * line * (1.0 - depth * in_dip(second, 30.0, phase, width)) * (1.0 + scatter * noise.next())
        }));
        let figures = shape(&series, 1.0);
        // Five standard errors of the best line where the noise alone is more than the point: three are passed by chance now and then.
        let allowed = (5.0 * 3.6 * scatter / (spans as f64).sqrt()).max(0.01);
        prop_assert!((figures.decline.unwrap() - 0.04).abs() <= allowed, "{figures:?}");
        let troughs = figures.troughs.unwrap();
        prop_assert!((troughs.period_seconds.unwrap() - 30.0).abs() < 0.3, "{troughs:?}");
        let expected = spans as f64 / 30.0;
        prop_assert!((f64::from(troughs.count) - expected).abs() <= 1.0 + 0.05 * expected, "{troughs:?}");
        // A dip of little more than one span touches up to three, and its ratio is their mean.
        prop_assert!(troughs.depth_ratio < 1.0 - depth / 3.0 + 0.1 && troughs.depth_ratio > 1.0 - depth - 0.1, "{troughs:?}");
    }

    /// Other periods, spans and lengths; one dip in ten is missing, and stalls at other times come in between.
    #[test]
    fn other_periods_are_found_among_other_stalls(
        seed in any::<u64>(), period in 8.0..40.0f64, span in 0.25..4.0f64,
    ) {
        let mut noise = Noise::new(seed);
        let missing: Vec<bool> = (0..200).map(|_| noise.0.f64() < 0.1).collect();
        let series = counts((0..1200).map(|at| {
            let number = (at as f64 / period) as usize;
            let dip = if missing[number % 200] { 0.0 } else { in_dip(at, period, 0.3 * period, 2.0) };
            let stall = if noise.0.f64() < 0.003 { 0.7 } else { 0.0 };
            4000.0 * (1.0 - (0.6 * dip).max(stall)) * (1.0 + 0.04 * noise.next())
        }));
        let troughs = shape(&series, span).troughs.unwrap();
        let found = troughs.period_seconds.unwrap() / span;
        prop_assert!((found / period - 1.0).abs() < 0.01, "{found} for {period}: {troughs:?}");
    }

    #[test]
    fn any_series_has_sound_figures(
        counts in proptest::collection::vec(prop_oneof![0u64..5, 0..1_000_000u64, Just(u64::MAX)], 0..200),
        span in 0.0..10.0f64,
    ) {
        let figures = shape(&counts, span);
        let all = [figures.halves_ratio, figures.variation, figures.noise, figures.decline];
        prop_assert!(all.into_iter().flatten().all(f64::is_finite), "{figures:?}");
        if let Some(troughs) = figures.troughs {
            prop_assert!(troughs.count >= 3 && troughs.depth_ratio.is_finite() && troughs.depth_ratio < 1.0);
        }
    }
}

#[test]
fn noise_alone_has_no_troughs() {
    let mut noise = Noise::new(9);
    for (r, scatter, rate) in [(0.0, 0.05, 5000.0), (0.0, 0.2, 5000.0), (0.7, 0.1, 5000.0), (0.0, 0.0, 30.0)]
    {
        let found = (0..200)
            .filter(|_| {
                let rates: Vec<f64> = noise.connected(600, r);
                let series = counts(rates.iter().map(|x| {
                    let by_count: f64 = if scatter == 0.0 { x / f64::sqrt(30.0) } else { scatter * x };
                    rate * (1.0 + by_count)
                }));
                shape(&series, 1.0).troughs.is_some()
            })
            .count();
        assert!(found <= 4, "correlation {r}, scatter {scatter}: {found} of 200");
    }
}

#[test]
fn stalls_at_any_time_have_no_period() {
    let mut noise = Noise::new(10);
    let mut regular = 0;
    for _ in 0..200 {
        let series = counts(
            (0..600)
                .map(|_| if noise.0.f64() < 0.03 { 1000.0 } else { 5000.0 * (1.0 + 0.03 * noise.next()) }),
        );
        let troughs = shape(&series, 1.0).troughs.unwrap();
        regular += u32::from(troughs.period_seconds.is_some());
        assert!(troughs.count >= 3 && troughs.depth_ratio < 0.5, "{troughs:?}");
    }
    assert!(regular <= 4, "{regular} of 200");
}

#[test]
fn a_thin_series_has_its_decline_too() {
    // Ten operations in a span, so that single spans cannot show a loss of 4 %.
    let mut noise = Noise::new(11);
    let series = counts((0..3000).map(|at| {
        let rate = 10.0 * (1.0 - 0.2 * f64::from(at) / 3000.0);
        rate + rate.sqrt() * noise.next()
    }));
    let decline = shape(&series, 1.0).decline.unwrap();
    assert!((decline - 0.2).abs() < 0.03, "{decline}");
}
