//! What is concluded from cells, and which of them are shown first.

use std::collections::BTreeMap;

use super::super::{facts, html, text, words};
use super::{backup, whole};
use crate::probe::sweep::fixture::cell;
use crate::probe::sweep::{
    CellResult, Latency, Operation, Pattern, Point, Rounds, StreamResult, Sweep, SweepFault,
};

fn of(cells: Vec<CellResult>) -> Sweep {
    Sweep { cells, skipped: Vec::new(), stopped: None, ..whole() }
}

#[test]
fn throughput_is_named_as_the_limit_only_by_a_witness() {
    let binds = |cells: Vec<CellResult>| {
        let sweep = of(cells);
        facts::losses(&sweep).iter().map(|loss| loss.binds).collect::<Vec<_>>()
    };
    let small = || cell(Pattern::RandRead, 4096, 4, 10_000.0);
    let large = |iops| cell(Pattern::RandRead, 16_384, 4, iops);
    let sequential = |bytes: f64| cell(Pattern::SeqRead, 1 << 20, 4, bytes / f64::from(1 << 20));
    let operations = "operations: the size costs little";
    assert_eq!(binds(vec![small(), large(9_900.0)]), [operations]);
    assert_eq!(binds(vec![small(), large(9_900.0), sequential(160e6)]), [operations]);
    assert_eq!(binds(vec![small(), large(5_000.0), sequential(85e6)]), ["throughput"]);
    assert_eq!(binds(vec![small(), large(5_000.0), sequential(400e6)]), ["the time of each operation"]);
    let unknown = "the time of each operation, or throughput: no sequential cell tells";
    assert_eq!(binds(vec![small(), large(5_000.0)]), [unknown]);
    let cached = CellResult { faults: vec![SweepFault::Cached], ..sequential(85e6) };
    assert_eq!(binds(vec![small(), large(5_000.0), cached]), [unknown]);
    let promised = |cell: CellResult, iops| CellResult { promised_iops: Some(iops), ..cell };
    assert_eq!(binds(vec![promised(small(), 16_000.0), promised(large(5_000.0), 5_100.0)]), ["throughput"]);
}

#[test]
fn the_best_throughput_is_that_with_the_most_bytes() {
    let quick = cell(Pattern::SeqRead, 1 << 20, 8, 500.0);
    let heavy = cell(Pattern::SeqRead, 4 << 20, 8, 200.0);
    let promised = |cell| CellResult { promised_iops: Some(1000.0), ..cell };
    let sweep = of(vec![promised(heavy), promised(quick)]);
    let held: Vec<u32> = facts::held(&sweep).iter().map(|held| held.cell.block_size).collect();
    let headlines: Vec<u32> = facts::headlines(&sweep).iter().map(|one| one.cell.block_size).collect();
    assert_eq!((held, headlines), (vec![4 << 20], vec![4 << 20]));
}

#[test]
fn what_is_copied_and_shown_first_is_sound_or_says_that_it_is_not() {
    let at = |iops, fault: Option<SweepFault>| CellResult {
        faults: fault.into_iter().collect(),
        seconds: 120.0,
        ..cell(Pattern::RandWrite, 16_384, 16, iops)
    };
    let copied = |cells: Vec<CellResult>| {
        let sweep = of(cells);
        let flushing = facts::flushing(&sweep).unwrap();
        (flushing.peak, words::of_copies(flushing.cell))
    };
    let (peak, warning) = copied(vec![at(90_000.0, Some(SweepFault::Cached)), at(12_000.0, None)]);
    assert_eq!((peak, warning), (12_000, None));
    let short = CellResult { seconds: 2.0, ..at(90_000.0, Some(SweepFault::Cached)) };
    let (peak, warning) = copied(vec![short]);
    assert_eq!(peak, 90_000);
    assert!(warning.unwrap().contains("That cell is in doubt"), "the doubt comes first");
    let volatile = copied(vec![at(12_000.0, Some(SweepFault::VolatileCache))]).1.unwrap();
    assert!(volatile.contains("Nothing flushed these writes"), "{volatile}");
    let read = |iops, faults| CellResult { faults, ..cell(Pattern::RandRead, 4096, 1, iops) };
    let page = html(&of(vec![read(9e5, vec![SweepFault::Cached])]));
    assert!(page.contains("900,000 IOPS") && page.contains("depth 1; is in doubt"), "{page}");
    let page = html(&of(vec![read(9e5, vec![SweepFault::Cached]), read(4_000.0, Vec::new())]));
    assert!(!page.contains("is in doubt") && page.contains("<dd class=\"big\">4,000 IOPS"), "{page}");
}

#[test]
fn seconds_are_those_of_a_round() {
    let rounds = Some(Rounds { count: 3, iops_min: 900.0, iops_max: 1100.0 });
    let merged = |seconds: f64| CellResult {
        rounds,
        seconds: 3.0 * seconds,
        warm_up_seconds: 3.0 * 0.8,
        ..cell(Pattern::RandWrite, 16_384, 16, 1000.0)
    };
    let said = words::conditions(&of(vec![merged(0.5)])).unwrap();
    assert!(said.starts_with("0.5 s a cell after 0.8 s of warm-up, 3 rounds of it"), "{said}");
    let warning = words::of_copies(&merged(20.0)).unwrap();
    assert!(warning.starts_with("Measured for 20 s at a time only"), "{warning}");
    let series = Some(vec![Point::default(); 120]);
    let drawn = of(vec![CellResult { series: series.clone(), ..merged(120.0) }]);
    assert!(facts::courses(&drawn).is_empty(), "three rounds of 120 s are no run of 360 s");
    let long = of(vec![CellResult { series, ..merged(400.0) }]);
    assert_eq!(facts::courses(&long).len(), 1);
    assert!(html(&long).contains("IOPS in the last of 3 rounds"));
}

#[test]
fn a_check_that_was_not_made_is_not_passed() {
    let said = |cells| words::checked(&of(cells));
    let whole = || cell(Pattern::RandRead, 4096, 4, 1000.0);
    let short = CellResult { seconds: 0.5, ..whole() };
    let thin = CellResult { operations: 20, ..whole() };
    let promised = CellResult { promised_iops: Some(2000.0), ..whole() };
    assert_eq!(said(vec![promised.clone()]), ["No check found a fault"]);
    let told = said(vec![short, thin, promised]).join("|");
    assert!(
        told.contains("2 of 3 cells are too short or too thin for all checks")
            && !told.contains("No promise"),
        "{told}"
    );
    assert!(said(vec![whole()])[1].starts_with("No promise is known"));
    let faulty = CellResult { faults: vec![SweepFault::Cached], ..whole() };
    assert!(!said(vec![faulty.clone()]).join("|").contains("No check found"));
    for report in [text(&of(vec![faulty.clone()]), 200), html(&of(vec![faulty]))] {
        assert!(report.contains("No promise is known"), "said beside a fault too: {report}");
    }
}

#[test]
fn bars_are_as_long_as_their_stream_is_quick() {
    let mut mixed = backup();
    let stream =
        |iops| StreamResult { block_size: 4096, operations: 100, iops, bytes_per_second: iops * 4096.0 };
    mixed.streams = BTreeMap::from([(Operation::Commit, stream(500.0)), (Operation::Read, stream(1000.0))]);
    mixed.latency_ns.insert(Operation::Read, Latency { count: 100, ..Latency::default() });
    mixed.iops = 500.0;
    let text = text(&of(vec![mixed]), 200);
    let bar = |operation: &str| {
        let line = text.lines().find(|line| line.contains(operation) && line.contains('█')).unwrap();
        line.matches('█').count()
    };
    assert_eq!((bar("commit"), bar("read ")), (8, 16), "{text}");
}
