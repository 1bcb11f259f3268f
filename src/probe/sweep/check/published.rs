//! Tables that people published, through the same checks.

use serde::Deserialize;

use super::*;
use crate::probe::sweep::fixture::cell;

const TABLES: &str = include_str!("../../../../tests/data/published-tables.yml");
const MEGA: f64 = 1e6;
const GIB: u64 = 1 << 30;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    pattern: Pattern,
    block_size: u32,
    points: Vec<Point>,
    best_sequential_mbps: Option<f64>,
    promised_iops: Option<f64>,
    instance_iops: Option<f64>,
    instance_burst_iops: Option<f64>,
    size_gib: Option<u64>,
    least_size_gib: Option<u64>,
    faults: Vec<SweepFault>,
}

/// What is printed of a cell. What is not follows from Little's law.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    outstanding: Option<u16>,
    iops: Option<f64>,
    mean_us: Option<f64>,
    mbps: Option<f64>,
}

impl Point {
    fn cell(&self, row: &Row) -> CellResult {
        let by_size = self.mbps.map(|mbps| mbps * MEGA / f64::from(row.block_size));
        let depth = self.outstanding.unwrap_or(1);
        let by_law = || f64::from(depth) / (self.mean_us.unwrap() / 1e6);
        let mut cell = cell(row.pattern, row.block_size, depth, self.iops.or(by_size).unwrap_or_else(by_law));
        match (self.outstanding, self.mean_us) {
            (None, _) => cell.latency_ns.clear(),
            (_, None) => {}
            (_, Some(mean)) => cell.latency_ns.values_mut().for_each(|l| l.mean = mean * 1e3),
        }
        cell
    }
}

impl Row {
    fn faults(&self) -> Vec<SweepFault> {
        let mut cells: Vec<_> = self.points.iter().map(|point| point.cell(self)).collect();
        let sequential = if self.pattern.writes() { Pattern::SeqWrite } else { Pattern::SeqRead };
        let best = self.best_sequential_mbps.map(|mbps| mbps * MEGA / f64::from(1 << 20));
        cells.extend(best.map(|iops| cell(sequential, 1 << 20, 128, iops)));
        let promise = Promise {
            iops: self.promised_iops,
            instance_iops: self.instance_iops,
            instance_burst_iops: self.instance_burst_iops,
            size: self.size_gib.map(|size| size * GIB),
            sizes: self.least_size_gib.map(|least| (least * GIB, u64::MAX)),
            ..Promise::default()
        };
        judge(&mut cells, &promise);
        let mut found: Vec<_> = cells.into_iter().flat_map(|cell| cell.faults).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[test]
fn each_published_table_has_exactly_the_faults_that_its_row_names() {
    let rows: Vec<Row> = serde_yaml::from_str(TABLES).unwrap();
    assert!(rows.len() >= 13);
    assert!(rows.iter().any(|row| row.faults.is_empty()), "one that is right belongs to them");
    for row in rows {
        let mut named = row.faults.clone();
        named.sort_unstable();
        assert_eq!(row.faults(), named, "{}", row.name);
    }
}
