use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::probe::sweep::fixture::cell;
use crate::probe::sweep::{Shape, Stopped};

fn judged(mut cells: Vec<CellResult>, promise: &Promise) -> Vec<CellResult> {
    judge(&mut cells, promise);
    cells
}

fn faults_of(cell: CellResult) -> Vec<SweepFault> {
    judged(vec![cell], &Promise::default()).remove(0).faults
}

/// A disk with a least latency, a most of operations and a most of bytes, at all depths, and what it would be promised.
fn table(least: f64, most: f64, throughput: f64) -> (Vec<CellResult>, Promise) {
    let one = |pattern, block_size: u32| {
        [1u16, 2, 4, 8, 16, 32, 64].map(|depth| {
            let by_depth = f64::from(depth) / least;
            cell(pattern, block_size, depth, by_depth.min(most).min(throughput / f64::from(block_size)))
        })
    };
    let rows = [
        (Pattern::RandRead, 4096),
        (Pattern::RandWrite, 4096),
        (Pattern::RandRead, 16384),
        (Pattern::SeqRead, 1 << 20),
        (Pattern::SeqWrite, 1 << 20),
    ];
    let promise = Promise { iops: Some(most), throughput: Some(throughput), ..Promise::default() };
    (rows.into_iter().flat_map(|(pattern, block)| one(pattern, block)).collect(), promise)
}

#[test]
fn ten_tables_of_littles_law_are_clean() {
    // From a cloud's smallest disk to a local one: latency in seconds, IOPS, bytes a second.
    let disks = [
        (8e-3, 100.0, 90e6),
        (1.5e-3, 500.0, 60e6),
        (800e-6, 3_000.0, 125e6),
        (600e-6, 5_000.0, 200e6),
        (500e-6, 16_000.0, 250e6),
        (300e-6, 26_800.0, 350e6),
        (250e-6, 50_000.0, 750e6),
        (200e-6, 160_000.0, 4_000e6),
        (120e-6, 256_000.0, 4_000e6),
        (80e-6, 700_000.0, 6_500e6),
    ];
    for (least, most, throughput) in disks {
        let (cells, promise) = table(least, most, throughput);
        for cell in judged(cells, &promise) {
            assert!(cell.faults.is_empty(), "{least} {most}: {:?}", cell.evidence);
            assert!(cell.delivered_ratio.unwrap() <= 1.0 + 1e-9);
        }
    }
}

proptest! {
    #[test]
    fn a_consistent_table_is_clean_and_each_wrong_number_in_it_is_found(
        least in 50e-6..10e-3f64, most in 200.0..500_000.0f64, throughput in 20e6..8e9f64,
        pick in 0usize..35, off in prop_oneof![0.3..0.8f64, 1.2..3.0f64],
    ) {
        let (mut cells, promise) = table(least, most, throughput);
        for cell in judged(cells.clone(), &promise) {
            prop_assert!(cell.faults.is_empty(), "{:?}", cell.evidence);
        }
        cells[pick].iops *= off;
        cells[pick].bytes_per_second *= off;
        let cell = judged(cells, &promise).swap_remove(pick);
        // A slow disk has done too few large operations in that time to speak of.
        let few = cell.operations < LEAST.max(10 * u64::from(cell.depth));
        prop_assert!(few || cell.faults.contains(&SweepFault::LittlesLaw));
        for fault in &cell.faults {
            prop_assert!(cell.evidence[fault].len() > 20);
        }
    }
}

#[test]
fn littles_law_has_numbers_and_knows_where_to_be_silent() {
    let wrong = || {
        let mut cell = cell(Pattern::RandRead, 4096, 128, 49_000.0);
        cell.latency_ns.get_mut(&Operation::Read).unwrap().mean = 600_000.0;
        cell
    };
    let cell = judged(vec![wrong()], &Promise::default()).remove(0);
    assert_eq!(
        cell.evidence[&SweepFault::LittlesLaw],
        "49,000 IOPS at a mean of 600 µs are 29.4 operations outstanding, but 128 were configured"
    );
    let silent: [fn(&mut CellResult); 5] = [
        |cell| cell.stopped = Some(Stopped::Cut),
        |cell| cell.operations = 99,
        |cell| cell.operations = 1279,
        |cell| cell.faults.push(SweepFault::CpuBound),
        |cell| cell.latency_ns.get_mut(&Operation::Read).unwrap().mean = 19_000.0,
    ];
    for change in silent {
        let mut cell = wrong();
        change(&mut cell);
        assert!(!faults_of(cell).contains(&SweepFault::LittlesLaw));
    }
    let loaded = CellResult { pattern: Pattern::Oltp, ..wrong() };
    assert!(!faults_of(loaded).contains(&SweepFault::LittlesLaw));
}

#[test]
fn a_sequential_cell_that_had_less_under_way_proves_nothing() {
    let random = || cell(Pattern::RandRead, 16_384, 64, 100_000.0);
    let held = |sequential: CellResult| {
        let cells = judged(vec![random(), sequential], &Promise::default());
        cells[0].faults.contains(&SweepFault::Bandwidth)
    };
    assert!(held(cell(Pattern::SeqRead, 1 << 20, 1, 1_000.0)));
    assert!(!held(cell(Pattern::SeqRead, 128 << 10, 1, 1_000.0)), "too little under way");
    assert!(!held(cell(Pattern::SeqWrite, 1 << 20, 1, 1_000.0)), "another direction");
    assert!(!held(cell(Pattern::SeqRead, 1 << 20, 1, 1_500.0)), "as much");
    let cut = CellResult { stopped: Some(Stopped::Cut), ..cell(Pattern::SeqRead, 1 << 20, 1, 1_000.0) };
    assert!(!held(cut));
    let noisy = Shape { noise: Some(0.5), ..Shape::default() };
    assert!(!held(CellResult { shape: noisy, ..cell(Pattern::SeqRead, 1 << 20, 1, 1_000.0) }));
}

#[test]
fn a_mean_that_falls_a_little_is_a_disk_that_woke_up() {
    let at = |depth, mean: f64| cell(Pattern::RandWrite, 4096, depth, f64::from(depth) / mean);
    let held = |cells: [CellResult; 2]| {
        judged(cells.into(), &Promise::default())[1].faults.contains(&SweepFault::DepthInversion)
    };
    assert!(held([at(1, 300e-6), at(16, 100e-6)]));
    assert!(!held([at(1, 90e-6), at(4, 60e-6)]), "30 µs are a processor that woke up");
    assert!(!held([at(1, 1000e-6), at(4, 900e-6)]), "10 %");
    assert!(!held([CellResult { faults: vec![SweepFault::Starved], ..at(1, 300e-6) }, at(16, 100e-6)]));
    assert!(!held([CellResult { block_size: 8192, ..at(1, 300e-6) }, at(16, 100e-6)]));
    let regimes = [
        CellResult { regime: Regime::Throttled, ..at(1, 300e-6) },
        CellResult { regime: Regime::Burst, ..at(16, 100e-6) },
    ];
    assert!(!held(regimes));
}

#[test]
fn halves_are_held_against_their_noise() {
    let with = |halves_ratio, noise| {
        let shape = Shape { halves_ratio: Some(halves_ratio), noise: Some(noise), ..Shape::default() };
        faults_of(CellResult { shape, ..cell(Pattern::RandRead, 4096, 4, 4000.0) })
    };
    assert_eq!(with(0.7, 0.01), [SweepFault::Unsteady]);
    assert_eq!(with(1.3, 0.01), [SweepFault::Unsteady]);
    assert!(with(0.85, 0.01).is_empty());
    assert!(with(0.7, 0.2).is_empty());
    assert!(with(f64::NAN, 0.0).is_empty());
}

#[test]
fn sizes_and_what_the_rig_saw() {
    let mut odd = cell(Pattern::RandWrite, 4096, 4, 4000.0);
    odd.bytes_per_second *= 64.0;
    odd.faults.push(SweepFault::Starved);
    odd.evidence.insert(SweepFault::Starved, "seen".into());
    let mut cells = vec![odd, cell(Pattern::RandRead, 4096, 4, 4000.0)];
    judge(&mut cells, &Promise::default());
    judge(&mut cells, &Promise::default());
    assert_eq!(
        cells[0].faults,
        [SweepFault::SizeMismatch, SweepFault::Starved],
        "once each, however often it is judged"
    );
    assert_eq!(cells[0].evidence[&SweepFault::Starved], "seen");
    assert!(cells[0].evidence[&SweepFault::SizeMismatch].contains("262144 bytes on average"));
    assert!(cells[1].faults.is_empty());
}

#[test]
fn promises_bind_by_size() {
    let promise = Promise { iops: Some(3000.0), throughput: Some(128e6), ..Promise::default() };
    let iops = Promise { throughput: None, ..promise };
    let throughput = Promise { iops: None, ..promise };
    assert_eq!([4096, 1 << 20].map(|b| promise.iops_at(b).map(f64::round)), [Some(3000.0), Some(122.0)]);
    assert_eq!([4096, 1 << 20].map(|b| iops.iops_at(b)), [Some(3000.0), None]);
    assert_eq!([4096, 1 << 20].map(|b| throughput.iops_at(b).map(f64::round)), [None, Some(122.0)]);
    let over = |cell, promise: &Promise| judged(vec![cell], promise).remove(0).faults;
    let fast = || cell(Pattern::RandRead, 4096, 16, 4000.0);
    assert_eq!(over(fast(), &promise), [SweepFault::OverPromise]);
    assert!(over(fast(), &Promise { burst_iops: Some(4000.0), ..promise }).is_empty());
    assert!(over(CellResult { seconds: 0.3, ..fast() }, &promise).is_empty(), "a throttle's own burst");
    assert_eq!(over(cell(Pattern::SeqRead, 1 << 20, 16, 200.0), &promise), [SweepFault::OverPromise]);
    let cached = Promise { latency: Some(Duration::from_millis(1)), ..Promise::default() };
    assert_eq!(over(cell(Pattern::RandRead, 4096, 1, 5000.0), &cached), [SweepFault::HostCached]);
    assert!(over(cell(Pattern::RandRead, 4096, 1, 1500.0), &cached).is_empty());
}
