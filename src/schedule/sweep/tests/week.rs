//! Seven nights on a small burst volume, by the very course, walk, rest, calendar and budget that the daemon goes by. Only the disk is
//! made up, and the time.

use super::*;
use crate::probe::sweep::{Cell, Limits, Plan, Preset, Step, Walk, Way};
use crate::probe::sweep::{Load, WarmUp};
use crate::schedule::allowance::{Allowance, Bill};
use crate::schedule::budget::Limit;

const MIB: f64 = 1_048_576.0;
const CREDIT: f64 = 262_144.0;
/// What the example of `config/burst-volume.yml` allows.
const A_DAY: f64 = 2048.0 * MIB;

/// 100 GiB of a general purpose volume: 300 operations a second for ever, 3,000 on credit, 5.4 million credits, 128 MiB/s, a
/// millisecond each.
struct Volume {
    credits: f64,
    at: Duration,
}

impl Volume {
    const RATE: f64 = 300.0;
    const CAPACITY: f64 = 5_400_000.0;

    fn pass(&mut self, at: Duration) {
        let seconds = at.saturating_sub(self.at).as_secs_f64();
        (self.credits, self.at) = ((self.credits + seconds * Self::RATE).min(Self::CAPACITY), at);
    }

    /// Operations of this size that it does in a second at this depth, on credit.
    fn rate(block: f64, depth: f64) -> f64 {
        let credits = (block / CREDIT).ceil().max(1.0);
        (3000.0 / credits).min(128.0 * MIB / block).min(depth / 0.001)
    }

    /// So many operations of this size: how long they take.
    fn run(&mut self, operations: f64, block: f64, depth: f64, at: Duration) -> Duration {
        self.pass(at);
        let credits = operations * (block / CREDIT).ceil().max(1.0);
        assert!(self.credits > credits, "a sweep never runs out");
        self.credits -= credits;
        Duration::from_secs_f64(operations / Self::rate(block, depth))
    }
}

/// Operations that a cell does there, its warm-up included, and the part of them that are reads.
fn work(cell: &Cell, limits: Limits) -> (f64, f64) {
    let (block, depth) = (f64::from(cell.block_size), f64::from(cell.outstanding()));
    let WarmUp::Completions(each) = limits.warm_up else { panic!("nightly counts completions") };
    let by_bytes = limits.bytes.map_or(f64::INFINITY, |bytes| bytes as f64 / block);
    let by_count = limits.operations.map_or(f64::INFINITY, |n| n as f64);
    let by_time = limits.time.as_secs_f64() * Volume::rate(block, depth);
    let part = |load| if let Load::Percent(n) = load { f64::from(n) / 100.0 } else { 1.0 };
    let reads = cell.pattern.streams().iter().filter(|s| s.way == Way::Read).map(|s| part(s.load)).sum();
    (by_bytes.min(by_count).min(by_time) + f64::from(each) * depth, reads)
}

#[derive(Clone, Copy, Debug, Default)]
struct Night {
    began: Duration,
    took: Duration,
    operations: f64,
    bill: Bill,
}

struct Week {
    course: Course,
    walk: Option<Walk>,
    last: Option<Step>,
    /// When the cell that runs ends, and what is told of it then.
    running: Option<(Duration, u64, u64, Duration)>,
    volume: Volume,
    allowance: Allowance,
    least: f64,
    night: Night,
    nights: Vec<Night>,
}

impl Week {
    fn new(needs: Bill) -> Self {
        let rest = Some(Rest { rate: 300, capacity: 5_400_000 });
        let settings = Settings { later: Duration::from_secs(2000), rest, ..settings("30 3 * * *") };
        let mut allowance = Allowance::new();
        allowance.place(1, &["xvdf".into()], [Limit::Written(A_DAY), Limit::Default(needs.read * 2.0)]);
        let volume = Volume { credits: Volume::CAPACITY, at: Duration::ZERO };
        let (night, nights) = (Night::default(), Vec::new());
        let (walk, last, running, least) = (None, None, None, f64::INFINITY);
        Self { course: Course::new(settings), walk, last, running, volume, allowance, least, night, nights }
    }

    fn pass(&mut self, at: Duration, plan: &Plan, needs: Bill) {
        let wall = MIDNIGHT + at;
        let more = if self.course.is_on() { Bill::default() } else { needs };
        let budget = self.allowance.allows(1, more, wall);
        match self.course.look(&World { budget, ..world(at) }) {
            Order::Wait => {}
            Order::Open => {
                (self.walk, self.last) = (Some(Walk::new(plan.clone())), None);
                self.night = Night { began: at, ..Night::default() };
                self.course.opened(Tick::default() + at);
            }
            Order::Cell { light } => {
                assert!(!light);
                self.cell(at);
            }
            Order::Stop(why) => panic!("{why}"),
            Order::End(ending) => {
                assert_eq!(ending, Ending::Complete);
                self.nights.push(Night { took: at - self.night.began, ..self.night });
                self.course.ended(wall);
            }
        }
        if let Some((end, operations, bytes, took)) = self.running.take_if(|(end, ..)| *end <= at) {
            self.course.done(operations, bytes, took, None, Tick::default() + end);
        }
        self.volume.pass(at);
        self.least = self.least.min(self.volume.credits);
    }

    fn cell(&mut self, at: Duration) {
        let Some((cell, limits)) = self.walk.as_mut().and_then(|walk| walk.next(self.last.take())) else {
            return self.course.complete(Tick::default() + at);
        };
        let ((operations, reads), block) = (work(&cell, limits), f64::from(cell.block_size));
        let took = self.volume.run(operations, block, f64::from(cell.outstanding()), at);
        let bytes = operations * block;
        let bill = Bill { written: bytes * (1.0 - reads), read: bytes * reads };
        self.allowance.spend(1, bill, MIDNIGHT + at);
        self.night.operations += operations;
        self.night.bill.written += bill.written;
        self.night.bill.read += bill.read;
        self.last = Some(Step { iops: operations / took.as_secs_f64(), noise: 0.0, cut: false });
        self.running = Some((at + took, operations as u64, bytes as u64, took));
        self.course.began();
    }
}

#[test]
fn seven_nights_fit_a_small_burst_volume() {
    let plan = Plan::from(Preset::Nightly);
    let demand = plan.demand((3000.0, 128.0 * MIB));
    let needs = Bill { written: demand.written_bytes as f64, read: demand.read_bytes as f64 };
    let mut week = Week::new(needs);
    let quarters = (0..7 * 24 * 3600 * 4).map(|n| Duration::from_millis(n * 250));
    quarters.for_each(|at| week.pass(at, &plan, needs));
    for night in &week.nights {
        let Night { began, took, operations, bill } = night;
        println!(
            "night at {} s: {operations:.0} operations, {:.0} MiB written, {:.0} MiB read, {} s",
            began.as_secs(),
            bill.written / MIB,
            bill.read / MIB,
            took.as_secs()
        );
        assert!(bill.written <= needs.written && bill.read <= needs.read && bill.written <= A_DAY);
        assert!(*operations <= (demand.reads + demand.writes) as f64);
    }
    println!("least credits {:.0} of {:.0}", week.least, Volume::CAPACITY);
    assert_eq!((week.nights.len(), week.course.take_passed()), (7, Vec::new()));
    // What a cell takes is paid back before the next, so the credits are the workload's.
    assert!(week.least > Volume::CAPACITY * 0.99, "{}", week.least);
}
