mod facts;

use std::collections::BTreeMap;

use super::*;
use crate::probe::sweep::check::judge;
use crate::probe::sweep::fixture::cell;
use crate::probe::sweep::{
    CellResult, Environment, Latency, Operation, Pattern, Point, Promise, Rounds, SCHEMA_VERSION, Shape,
    Skipped, Stopped, Subject, SweepFault, Trough,
};
use crate::stats::Histogram;

/// Two humps, a tail, and as many samples as the cell has operations.
fn distribution(median: f64, n: u64) -> String {
    let mut all = Histogram::fine();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..n.min(20_000) {
        let bell = (0..6).map(|_| random.f64()).sum::<f64>() / 3.0 - 1.0;
        let hump = if random.u32(0..5) == 0 { 2.5 } else { 1.0 };
        all.record((median * hump * (1.0 + bell / 3.0)) as u64);
    }
    all.encode()
}

fn drawn(pattern: Pattern, block: u32, depth: u16, iops: f64) -> CellResult {
    let mut cell = cell(pattern, block, depth, iops);
    for (operation, latency) in &cell.latency_ns {
        cell.histogram.insert(*operation, distribution(latency.p50 as f64, latency.count));
    }
    cell.rounds = Some(Rounds { count: 3, iops_min: iops * 0.94, iops_max: iops * 1.05 });
    cell
}

fn ladder(pattern: Pattern, block: u32, alone: f64, most: f64) -> Vec<CellResult> {
    let at = |depth: u16| {
        let wanted = f64::from(depth) * alone;
        drawn(pattern, block, depth, wanted * most / (wanted.powi(4) + most.powi(4)).powf(0.25))
    };
    [1, 2, 4, 8, 16, 32, 64].map(at).to_vec()
}

fn backup() -> CellResult {
    let quiet =
        Latency { count: 5000, p50: 700_000, p99: Some(1_400_000), mean: 750_000.0, ..Latency::default() };
    let ratios = BTreeMap::from([("p50".to_owned(), 1.4), ("p99".to_owned(), 3.2)]);
    let mut cell = drawn(Pattern::Backup, 1 << 20, 2, 900.0);
    if let Some(latency) = cell.latency_ns.get_mut(&Operation::Commit) {
        (latency.p50, latency.p99) = (980_000, Some(4_480_000));
    }
    CellResult {
        quiet: Some(BTreeMap::from([(Operation::Commit, quiet)])),
        loaded_ratio: Some(BTreeMap::from([(Operation::Commit, ratios)])),
        ..cell
    }
}

fn long() -> CellResult {
    let iops =
        |second: f64| (1.0 - 0.04 * second / 600.0) * 9_000.0 * if second % 30.0 < 1.0 { 0.5 } else { 1.0 };
    let point = |n: u32| {
        let second = f64::from(n);
        Point { second, iops: iops(second), mean_ns: 1e6, max_ns: 9_000_000 }
    };
    let troughs = Trough { count: 20, period_seconds: Some(30.0), depth_ratio: 0.5 };
    CellResult {
        seconds: 600.0,
        series: Some((0..600).map(point).collect()),
        shape: Shape {
            decline: Some(0.04),
            variation: Some(0.09),
            troughs: Some(troughs),
            ..Shape::default()
        },
        ..drawn(Pattern::RandRw70, 4096, 32, 8_800.0)
    }
}

/// A disk such as one may rent, with a page of everything that can be said.
fn whole() -> Sweep {
    let mut cells = [
        ladder(Pattern::RandRead, 4096, 1_900.0, 16_000.0),
        ladder(Pattern::RandWrite, 4096, 1_300.0, 15_500.0),
        ladder(Pattern::SeqRead, 1 << 20, 180.0, 240.0),
        ladder(Pattern::SeqWrite, 1 << 20, 150.0, 235.0),
        vec![drawn(Pattern::RandRead, 16_384, 16, 14_100.0), drawn(Pattern::RandWrite, 16_384, 16, 12_345.0)],
        vec![backup(), long()],
    ]
    .concat();
    cells[6].shape.halves_ratio = Some(0.6);
    cells[20].latency_ns.values_mut().for_each(|latency| latency.mean *= 0.3);
    let promise = Promise { iops: Some(16_000.0), throughput: Some(250e6), ..Promise::default() };
    // As the lane says it of a device whose cache forgets.
    let writes = |cell: &&mut CellResult| matches!(cell.pattern, Pattern::RandWrite | Pattern::SeqWrite);
    cells.iter_mut().filter(writes).for_each(|cell| cell.fault(SweepFault::VolatileCache, "in the cache"));
    judge(&mut cells, &promise);
    Sweep {
        schema_version: SCHEMA_VERSION,
        target: Subject {
            path: "/srv/<data>".into(),
            file_system: Some("ext4".into()),
            device: Some("nvme1n1".into()),
            disks: vec!["nvme1n1".into()],
            model: Some("Amazon Elastic Block Store".into()),
            serial: Some("vol0123".into()),
            size: Some(500 << 30),
            engine: "uring".into(),
            direct: "true".into(),
        },
        environment: Environment {
            version: "0.1.0".into(),
            kernel: "6.12.1".into(),
            cpu: "Some CPU @ 2.5 GHz".into(),
            cpus: 8,
            memory: 32 << 30,
            settings: BTreeMap::from([
                ("scheduler".into(), "none".into()),
                ("write_cache".into(), "write back".into()),
            ]),
        },
        started: "2026-11-30T03:30:00Z".into(),
        seconds: 4_321.0,
        preset: Some("full".into()),
        product: Some("aws/gp3".into()),
        cells,
        skipped: vec![Skipped {
            pattern: Pattern::SeqRw50,
            block_size: 128 << 10,
            depth: 64,
            jobs: 1,
            method: None,
            reason: "memory".into(),
            message: "not run: it needs 128MiB, `memory` allows 96MiB".into(),
        }],
        stopped: Some(Stopped::Interrupt),
    }
}

#[test]
fn the_text_says_all_that_the_page_says() {
    let (wide, page) = (text(&whole(), 120), html(&whole()));
    for part in [
        "4KiB randread",
        "primary-key lookups",
        "16,000 IOPS",
        "innodb_io_capacity = 11000",
        "innodb_io_capacity_max = 12000",
        "3.20 times what it is alone",
        "20 troughs down to 50 % of the level around them, one each 30 s",
        "littles_law",
        "unsteady",
        "volatile_cache",
        "not run: it needs 128MiB",
        "it was interrupted",
        "scheduler",
        "Amazon Elastic Block Store",
        "% fewer IOPS",
    ] {
        assert!(wide.contains(part), "{part} is missing in:\n{wide}");
        assert!(page.contains(part), "{part} is missing in the page");
    }
}

#[test]
fn a_narrow_terminal_breaks_no_line_of_a_table() {
    for width in [60, 80, 120] {
        let text = text(&whole(), width);
        let too_long = |line: &&str| line.chars().count() > width;
        // Paths, settings and the like stand on one line, whatever their length.
        let body: Vec<_> = text.lines().skip_while(|line| !line.is_empty()).filter(too_long).collect();
        let tables: Vec<_> = body.iter().filter(|line| line.contains("µs") || line.contains("B/s")).collect();
        assert!(width == 60 || tables.is_empty(), "{width}: {tables:#?}");
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_escapes_all_that_came_from_there() {
    let page = html(&whole());
    for outside in ["<script", "http://", "https://", "url(", "@import", "<img", "<data>", "NaN", "inf\""] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("/srv/&lt;data&gt;"));
    assert_eq!(page.matches("<svg").count(), page.matches("<title>").count() - 1, "each chart has its title");
    assert!(page.matches("<details>").count() >= 4, "tables stand behind the charts");
    assert!(page.len() < 300_000, "{}", page.len());
}

#[test]
fn json_is_the_sweep_and_csv_has_a_line_for_each_operation() {
    let sweep = whole();
    let back = serde_json::from_str::<Sweep>(&json(&sweep)).unwrap();
    assert_eq!((&back.target, &back.skipped, back.stopped), (&sweep.target, &sweep.skipped, sweep.stopped));
    // A parser may lose the last bit of a float; all that is whole comes back.
    let whole = |sweep: &Sweep| {
        let one = |c: &CellResult| {
            (c.pattern, c.depth, c.operations, c.faults.clone(), c.evidence.clone(), c.histogram.clone())
        };
        sweep.cells.iter().map(one).collect::<Vec<_>>()
    };
    assert!(whole(&back) == whole(&sweep));
    let csv = csv(&sweep);
    let columns = |line: &str| line.split(',').count();
    assert!(csv.lines().all(|line| columns(line) == columns(csv.lines().next().unwrap())));
    assert_eq!(csv.lines().count(), 1 + sweep.cells.len());
    assert!(csv.contains("\nrandread,4096,1,1,,read,30,2,"), "{csv}");
}

#[test]
fn a_sweep_without_a_cell_is_said_to_be_one() {
    let empty = Sweep { cells: Vec::new(), ..whole() };
    assert!(text(&empty, 80).contains("No cell has a result"));
    assert!(html(&empty).contains("No cell has a result"));
    assert_eq!(csv(&empty).lines().count(), 1);
}

#[test]
fn the_cells_of_a_doubt_are_named() {
    let at = |depth| cell(Pattern::RandWrite, 4096, depth, 1000.0);
    let (one, two, three) = (at(1), at(2), cell(Pattern::SeqRead, 1 << 20, 8, 100.0));
    let said = |cells: &[&CellResult]| words::cells(cells);
    assert_eq!(said(&[&one]), "4KiB randwrite, depth 1");
    assert_eq!(said(&[&one, &two]), "4KiB randwrite, depth 1 and depth 2");
    assert_eq!(said(&[&one, &three]), "4KiB randwrite, depth 1 and 1MiB seqread, depth 8");
    assert_eq!(said(&[&one, &two, &three]), "4KiB randwrite, depth 1 and depth 2 and 1 other cell");
    assert!(said(&[&one, &two, &three, &one]).ends_with("depth 2 and 2 other cells"));
}
