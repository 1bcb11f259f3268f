//! What a product and its machine promise, and the checks that hold a cell against it.

use std::time::Duration;

use super::check::{Found, Ground, IN_A_SHORT_WHILE, enough, totals};
use super::{CellResult, Operation, Pattern, SweepFault};
use crate::units::Bytes;
use crate::units::figures::{count, duration, rate};

/// More than this much above a promise is more than rounding and a throttle's slack.
const SLACK: f64 = 1.1;
/// Up to this size the promise of IOPS is the one that binds, whatever the throughput is.
const SMALL: u32 = 16 << 10;
/// From this size on it is the promise of throughput.
const LARGE: u32 = 128 << 10;

/// What is promised, as far as it is known. IOPS and throughput (bytes) are per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Promise {
    /// For ever.
    pub iops: Option<f64>,
    /// For ever.
    pub throughput: Option<f64>,
    /// Whether more than that may be had for a while, also where it is not known how much.
    pub may_burst: bool,
    /// For a while, where that is part of what was bought.
    pub burst_iops: Option<f64>,
    /// For a while, where that is part of what was bought.
    pub burst_throughput: Option<f64>,
    /// What the machine lets through to all its disks.
    pub instance_iops: Option<f64>,
    /// What the machine lets through to all its disks.
    pub instance_throughput: Option<f64>,
    /// What the machine lets through for a while.
    pub instance_burst_iops: Option<f64>,
    /// What the machine lets through for a while.
    pub instance_burst_throughput: Option<f64>,
    /// The least latency that the product states.
    pub latency: Option<Duration>,
    /// Bytes of the disk.
    pub size: Option<u64>,
    /// Least and most bytes that the product is sold in.
    pub sizes: Option<(u64, u64)>,
}

impl Promise {
    /// How many operations of this size a second are promised for ever; `None` where what is known does not say.
    pub fn iops_at(&self, block_size: u32) -> Option<f64> {
        let by_throughput = self.throughput.map(|bytes| bytes / f64::from(block_size.max(1)));
        match (self.iops, by_throughput) {
            (Some(iops), Some(other)) => Some(iops.min(other)),
            (Some(iops), None) => (block_size <= SMALL).then_some(iops),
            (None, other) => other.filter(|_| block_size >= LARGE),
        }
    }

    /// Writes the promise beside what a cell delivered.
    pub(super) fn note(&self, cell: &mut CellResult) {
        if cell.pattern.loaded() {
            return;
        }
        cell.promised_iops = self.iops_at(cell.block_size).filter(|promised| *promised > 0.0);
        cell.delivered_ratio = cell.promised_iops.map(|promised| cell.iops / promised);
    }
}

/// More than the product promises.
pub(super) fn over_promise(cell: &CellResult, ground: &Ground) -> Found {
    let promise = ground.promise;
    let at_most =
        |burst: Option<f64>, for_ever: Option<f64>| burst.or(for_ever.filter(|_| !promise.may_burst));
    let iops = at_most(promise.burst_iops, promise.iops);
    let throughput = at_most(promise.burst_throughput, promise.throughput);
    let over = over(cell, iops, throughput)?;
    Some((SweepFault::OverPromise, format!("{over} that the product promises at most")))
}

/// More than the machine lets through.
pub(super) fn over_instance(cell: &CellResult, ground: &Ground) -> Found {
    let promise = ground.promise;
    let iops = promise.instance_burst_iops.or(promise.instance_iops);
    let throughput = promise.instance_burst_throughput.or(promise.instance_throughput);
    let over = over(cell, iops, throughput)?;
    Some((
        SweepFault::OverInstance,
        format!("{over} that this kind of machine lets through to all its disks"),
    ))
}

fn over(cell: &CellResult, iops: Option<f64>, throughput: Option<f64>) -> Option<String> {
    // A throttle lets a short run pass that it would hold back a second later.
    if cell.seconds_each() < IN_A_SHORT_WHILE || !enough(cell) {
        return None;
    }
    let (did, moved) = totals(cell);
    let share = |of: f64, limit: Option<f64>| limit.filter(|limit| of > limit * SLACK && *limit > 0.0);
    if let Some(limit) = share(did, iops) {
        let times = did / limit;
        return Some(format!(
            "{} IOPS are {times:.2} times the {} IOPS",
            count(did.round() as u64),
            count(limit.round() as u64)
        ));
    }
    let limit = share(moved, throughput)?;
    Some(format!("{} are {:.2} times the {}", rate(moved), moved / limit, rate(limit)))
}

/// Not sold in this size.
pub(super) fn size_out_of_range(_: &CellResult, ground: &Ground) -> Found {
    let ((least, most), size) = (ground.promise.sizes?, ground.promise.size?);
    let range = match size {
        small if small < least => format!("from {} on", Bytes::new(least)),
        large if large > most => format!("up to {}", Bytes::new(most)),
        _ => return None,
    };
    let sentence =
        format!("the disk has {}, but the product is sold only in sizes {range}", Bytes::new(size));
    Some((SweepFault::SizeOutOfRange, sentence))
}

/// Quicker than the product can be: something nearer than the disk answers.
pub(super) fn quicker_than_the_product(cell: &CellResult, ground: &Ground) -> Found {
    let least = ground.promise.latency?.as_nanos() as u64;
    let reads = cell.latency_ns.get(&Operation::Read)?;
    let alone = matches!(cell.pattern, Pattern::RandRead) && cell.depth == 1 && cell.jobs == 1;
    if !alone || reads.count < 100 || reads.p50 >= least / 2 {
        return None;
    }
    let sentence = format!(
        "half of the reads took no longer than {}, but the product states {} at least: a cache outside of this machine answers",
        duration(reads.p50),
        duration(least)
    );
    Some((SweepFault::HostCached, sentence))
}
