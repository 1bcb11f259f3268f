//! What a file system costs: a result on a block device against one on files of the same disk.

use serde::Serialize;

use super::{Ground, Pair, Row, Side};
use crate::stats;

/// What the file system costs over all cells that both have: medians of the cells' ratios, files ÷ device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Kind of file system.
    pub file_system: String,
    /// Whether the first result is the device's (and the second the files').
    pub device_first: bool,
    /// Whether both are of one disk, as far as they say; null when one does not say.
    pub same_disk: Option<bool>,
    /// Cells.
    pub cells: usize,
    /// IOPS on files ÷ on the device.
    pub iops_ratio: Option<f64>,
    /// Nanoseconds that a median operation takes longer; negative when less.
    pub p50_added_ns: Option<f64>,
    /// The same of the p99.
    pub p99_added_ns: Option<f64>,
}

impl Cost {
    pub(super) fn of(a: &Side, b: &Side, rows: &[Row]) -> Option<Self> {
        let (file_system, device_first) = match (&a.ground, &b.ground) {
            (Ground::Device, Ground::Files(kind)) => (kind, true),
            (Ground::Files(kind), Ground::Device) => (kind, false),
            _ => return None,
        };
        let sign = if device_first { 1.0 } else { -1.0 };
        let median = |of: &dyn Fn(&Row) -> Option<f64>| {
            stats::median(&mut rows.iter().filter_map(of).collect::<Vec<_>>())
        };
        let added = |pair: &Option<Pair>| pair.as_ref().map(|pair| sign * (pair.b - pair.a));
        Some(Self {
            file_system: file_system.clone(),
            device_first,
            same_disk: a.disk.same(&b.disk),
            cells: rows.iter().filter(|row| row.iops.is_some()).count(),
            iops_ratio: median(&|row| row.iops.as_ref().map(|pair| pair.ratio.powf(sign))),
            p50_added_ns: median(&|row| added(&row.p50_ns)),
            p99_added_ns: median(&|row| added(&row.p99_ns)),
        })
    }
}
