//! A load that is offered at fixed rates, whatever comes back.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Carried, CarryReport, Left, Limits, Offer, Skipped, Stream, Way};
use super::parts::{Duty, Part};
use super::tally::Records;
use super::work::PartEnd;
use super::{Rig, Source, Tally, add, sum};
use crate::probe::{Cost, Stage, Trouble};

/// Operations of a part of a load that wait at most: behind them nothing would be learnt.
const MOST_WAITING: u64 = 128;

impl Rig {
    /// Offers a load for the time of `limits` and says whether the disk carried it: all of it, with a p99 of each part, counted from
    /// when each operation was to begin, within `p99`.
    pub fn carry(&mut self, offers: &[Offer], limits: Limits, p99: Duration) -> CarryReport {
        let mut cost = Cost::default();
        let outcome = self.try_carry(offers, limits, p99, &mut cost);
        CarryReport { outcome, cost }
    }

    fn try_carry(
        &mut self,
        offers: &[Offer],
        limits: Limits,
        p99: Duration,
        cost: &mut Cost,
    ) -> Result<Carried, Left> {
        self.watch.begin();
        let streams: Vec<Stream> = offers.iter().map(|offer| offer.stream()).collect();
        let parts = self.offered(offers);
        self.can_carry(offers, &streams, &parts).map_err(Left::Skipped)?;
        let fail = |e| Left::Failed(Trouble::io(Stage::Open, "cannot get ready for the load", e));
        let course = self.course(&parts, limits, None);
        let named = ("the load".to_owned(), 1, None);
        let work = Arc::new(self.work_of(named, streams, (parts.len(), course), limits).map_err(fail)?);
        let mut tasks: Vec<Box<dyn FnOnce() -> PartEnd + Send>> = Vec::new();
        for (number, part) in parts.into_iter().enumerate() {
            let (work, seed) = (Arc::clone(&work), self.random.u64(..));
            tasks.push(Box::new(move || work.run(&part, None, number, seed)));
        }
        let ends = self.crew.run(tasks).map_err(fail)?;
        ends.iter().for_each(|end| add(cost, end.cost));
        if let Some(trouble) = work.course.trouble() {
            return Err(Left::Failed(trouble));
        }
        if let Some(why) = work.course.watch.stopped() {
            return Err(Left::Skipped(left(offers, why.label(), "stopped before it was known".to_owned())));
        }
        let writes = offers.iter().any(|offer| offer.way == Way::Write);
        self.settle(writes, cost).map_err(Left::Failed)?;
        let records: Vec<Records> = work.tallies.iter().map(Tally::records).collect();
        let each = offers.iter().zip(&records);
        let parts: Vec<_> = each
            .map(|(offer, records)| offer.judge(records.iops, sum::latency(&records.whole), p99))
            .collect();
        Ok(Carried {
            carried: parts.iter().all(|part| part.delivered && part.within),
            seconds: records.iter().map(|records| records.seconds).fold(0.0, f64::max),
            parts,
        })
    }

    /// A thread for each part of the load, with as many slots as its share of the memory has room for.
    fn offered(&self, offers: &[Offer]) -> Vec<Part> {
        let share = self.pool.left() / offers.len().max(1) as u64;
        let part = |(stream, offer): (usize, &Offer)| {
            let room = (share / super::Pool::takes(offer.block_size as usize)).saturating_sub(1);
            let blocks = match offer.way {
                Way::Read => u64::MAX,
                Way::Write | Way::Commit => self.extent.blocks(offer.block_size).saturating_sub(2),
            };
            let slots = room.min(MOST_WAITING).min(blocks).max(1) as u16;
            let per_thousand_seconds = (offer.iops * 1000.0).round() as u64;
            Part { duty: Duty::Offer { stream, per_thousand_seconds, slots }, job: 0 }
        };
        offers.iter().enumerate().map(part).collect()
    }

    fn can_carry(&self, offers: &[Offer], streams: &[Stream], parts: &[Part]) -> Result<(), Skipped> {
        let skip = |reason: &str, message: String| left(offers, reason, message);
        if offers.iter().any(|offer| offer.way != Way::Read) && matches!(self.source, Source::Device(_)) {
            return Err(skip("read_only", "a block device is only ever read".to_owned()));
        }
        self.block_fits(streams).map_err(|message| skip("block_size", message))?;
        self.memory_fits(streams, parts).map_err(|message| skip("memory", message))?;
        self.size_fits(streams, parts).map_err(|message| skip("space", message))?;
        self.threads_fit(parts).map_err(|message| skip("no_ring", message))?;
        if offers.is_empty() {
            return Err(skip("depth", "no load was given".to_owned()));
        }
        Ok(())
    }
}

/// A load that was not offered is told as a cell of its first part.
fn left(offers: &[Offer], reason: &str, message: String) -> Skipped {
    use super::super::{Cell, Pattern};
    let writes = offers.first().is_some_and(|offer| offer.way == Way::Write);
    let pattern = if writes { Pattern::RandWrite } else { Pattern::RandRead };
    let block_size = offers.first().map_or(0, |offer| offer.block_size);
    Cell { pattern, block_size, depth: 1, jobs: 1, method: None }.skipped(reason, message)
}
