//! What a fault-injecting disk does with each kind of operation: late, never, wrong or short; and its counts.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A kind of operation that rules and counts know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Finding a name, its attributes, listing a directory.
    Lookup,
    /// Opening what exists.
    Open,
    /// Making a file or a directory.
    Create,
    /// Reading data.
    Read,
    /// Writing data.
    Write,
    /// fsync and fdatasync.
    Sync,
    /// Space on the file system.
    Statfs,
    /// Changing size, mode or owner; fallocate.
    Change,
    /// Removing and renaming.
    Remove,
}

impl Op {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Lookup,
        Self::Open,
        Self::Create,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Statfs,
        Self::Change,
        Self::Remove,
    ];
}

/// What arrived at the disk so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Operations that arrived.
    pub operations: u64,
    /// Bytes read or written by those that succeeded.
    pub bytes: u64,
    /// Operations answered with an injected error.
    pub failed: u64,
    /// Operations that arrived and are not answered yet.
    pub inside: u64,
}

/// Keeps operations hanging; lets them go when dropped.
#[derive(Debug)]
pub struct Hang {
    rules: Arc<Rules>,
    ops: Vec<Op>,
}

impl Drop for Hang {
    fn drop(&mut self) {
        self.rules.release(&self.ops);
    }
}

/// Burst credits as cloud disks have them: each read and write takes one, a large one each 256 KiB. With credits left the disk does
/// `burst` of them a second, without any `rate`, which is also what comes back.
#[derive(Clone, Copy, Debug)]
pub struct Credits {
    /// Credits a second that come back.
    pub rate: f64,
    /// Credits a second that can be spent.
    pub burst: f64,
    /// Credits that it holds, and has at the beginning.
    pub capacity: f64,
}

/// How many operations a second a disk does over time, however many are asked for: a rate that declines, with dips.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Reads and writes a second, at the beginning.
    pub rate: f64,
    /// The part of that which is lost …
    pub decline: f64,
    /// … by then; it goes on at that.
    pub over: Duration,
    /// From one dip to the next; the first lies in the middle of the first such time.
    pub dip_each: Duration,
    /// How long it lasts.
    pub dip: Duration,
    /// What is left of the rate in it.
    pub dip_to: f64,
}

impl Pace {
    /// The rate so many seconds after the beginning.
    fn at(&self, seconds: f64) -> f64 {
        let line = 1.0 - self.decline * seconds / self.over.as_secs_f64();
        let each = self.dip_each.as_secs_f64();
        let in_dip = (seconds + each / 2.0).rem_euclid(each) < self.dip.as_secs_f64();
        self.rate * line.max(0.01) * if in_dip { self.dip_to } else { 1.0 }
    }
}

#[derive(Debug)]
struct Paced {
    pace: Pace,
    since: Instant,
    /// Until when it is busy with what it has taken on.
    busy: Instant,
}

impl Paced {
    fn take(&mut self, now: Instant) -> Duration {
        self.busy = self.busy.max(now);
        let rate = self.pace.at(self.busy.saturating_duration_since(self.since).as_secs_f64());
        self.busy += Duration::from_secs_f64(1.0 / rate);
        self.busy.saturating_duration_since(now)
    }
}

/// What reads and writes wait for, beside their delays.
#[derive(Debug)]
enum Limit {
    Credits(Bucket),
    Pace(Paced),
}

#[derive(Debug)]
struct Bucket {
    credits: Credits,
    balance: f64,
    least: f64,
    at: Instant,
    /// Until when it is busy with what it has taken on.
    busy: Instant,
}

impl Bucket {
    fn pass(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.balance = (self.balance + self.credits.rate * seconds).min(self.credits.capacity);
        self.at = self.at.max(now);
    }

    /// Takes an operation of so many bytes on: how long until it is done.
    fn take(&mut self, bytes: usize, now: Instant) -> Duration {
        self.pass(now);
        let credits = bytes.div_ceil(256 << 10).max(1) as f64;
        let speed = if self.balance >= credits { self.credits.burst } else { self.credits.rate };
        self.balance = (self.balance - credits).max(0.0);
        self.least = self.least.min(self.balance);
        self.busy = self.busy.max(now) + Duration::from_secs_f64(credits / speed);
        self.busy.saturating_duration_since(now)
    }
}

/// One rule per kind, changed while the disk runs.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Mutex<[Rule; Op::ALL.len()]>,
    opened: Condvar,
    limit: Mutex<Option<Limit>>,
    cache: Mutex<Option<Cache>>,
}

/// A RAM cache before a slow store: it keeps what is read, and what is written goes past it.
#[derive(Debug)]
struct Cache {
    store: Duration,
    kept: HashSet<u64>,
}

/// Bytes that it keeps at once.
const LINE: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct Rule {
    pub(super) delay: Duration,
    pub(super) delay_per_inside: Duration,
    pub(super) delay_while: Option<(Op, Duration)>,
    pub(super) delay_beside: Option<(Op, Duration)>,
    pub(super) error: Option<(i32, u64)>,
    pub(super) short: Option<(usize, u64)>,
    hung: bool,
    count: Count,
}

/// What was decided for one operation as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    op: Op,
    delay: Duration,
    hung: bool,
    /// It takes credits, or its turn, which are waited for.
    paid: bool,
    /// It may have to be fetched from the store.
    cached: bool,
    /// The errno to answer with.
    pub(super) error: Option<i32>,
    /// Bytes to serve at most.
    pub(super) at_most: usize,
}

impl Fate {
    /// Whether the answer has to wait, so that it must not be given on the thread that reads requests.
    pub(super) fn waits(self) -> bool {
        self.hung || self.paid || self.cached || !self.delay.is_zero()
    }
}

impl Rules {
    pub(super) fn change(&self, op: Op, change: impl FnOnce(&mut Rule)) {
        change(&mut self.rules.lock().unwrap()[op as usize]);
    }

    pub(super) fn count(&self, op: Op) -> Count {
        self.rules.lock().unwrap()[op as usize].count
    }

    pub(super) fn hang(self: &Arc<Self>, ops: &[Op]) -> Hang {
        for op in ops {
            self.change(*op, |rule| rule.hung = true);
        }
        Hang { rules: Arc::clone(self), ops: ops.to_vec() }
    }

    pub(super) fn release(&self, ops: &[Op]) {
        for op in ops {
            self.change(*op, |rule| rule.hung = false);
        }
        self.opened.notify_all();
    }

    pub(super) fn limit(&self, credits: Credits) {
        let (balance, now) = (credits.capacity, Instant::now());
        let bucket = Bucket { credits, balance, least: balance, at: now, busy: now };
        *self.limit.lock().unwrap() = Some(Limit::Credits(bucket));
    }

    pub(super) fn pace(&self, pace: Pace) {
        let now = Instant::now();
        *self.limit.lock().unwrap() = Some(Limit::Pace(Paced { pace, since: now, busy: now }));
    }

    /// Credits that are left, and the fewest that there ever were.
    pub(super) fn credits(&self) -> Option<(f64, f64)> {
        match self.limit.lock().unwrap().as_mut()? {
            Limit::Credits(bucket) => {
                bucket.pass(Instant::now());
                Some((bucket.balance, bucket.least))
            }
            Limit::Pace(_) => None,
        }
    }

    /// A RAM cache that keeps what is read stands before a store that takes so long.
    pub(super) fn cache(&self, store: Duration) {
        *self.cache.lock().unwrap() = Some(Cache { store, kept: HashSet::new() });
    }

    /// Waits for the store, where the cache does not have all of this.
    pub(super) fn fetch(&self, offset: u64, bytes: u64) {
        let mut cache = self.cache.lock().unwrap();
        let Some(Cache { store, kept }) = cache.as_mut() else { return };
        let lines = offset / LINE..(offset + bytes).div_ceil(LINE);
        let missed = lines.filter(|line| kept.insert(*line)).count() > 0;
        let wait = if missed { *store } else { Duration::ZERO };
        drop(cache);
        std::thread::sleep(wait);
    }

    /// Waits until it is the turn of an operation of so many bytes.
    pub(super) fn pay(&self, fate: Fate, bytes: usize) {
        if fate.paid {
            let wait = self.limit.lock().unwrap().as_mut().map(|limit| match limit {
                Limit::Credits(bucket) => bucket.take(bytes, Instant::now()),
                Limit::Pace(paced) => paced.take(Instant::now()),
            });
            std::thread::sleep(wait.unwrap_or_default());
        }
    }

    pub(super) fn arrive(&self, op: Op) -> Fate {
        let limited = self.limit.lock().unwrap().is_some();
        let cached = op == Op::Read && self.cache.lock().unwrap().is_some();
        let mut rules = self.rules.lock().unwrap();
        let inside = |other: Op| u32::try_from(rules[other as usize].count.inside).unwrap_or(u32::MAX);
        let whilst = |(other, delay): (Op, Duration)| if inside(other) > 0 { delay } else { Duration::ZERO };
        let rule = &rules[op as usize];
        let beside = rule.delay_while.map_or(Duration::ZERO, whilst)
            + rule.delay_beside.map_or(Duration::ZERO, |(other, each)| each * inside(other));
        let rule = &mut rules[op as usize];
        rule.count.operations += 1;
        rule.count.inside += 1;
        let inside = u32::try_from(rule.count.inside).unwrap_or(u32::MAX);
        let number = rule.count.operations;
        let due = |every: u64| number.is_multiple_of(every);
        Fate {
            op,
            delay: rule.delay + rule.delay_per_inside * inside + beside,
            hung: rule.hung,
            paid: limited && matches!(op, Op::Read | Op::Write),
            cached,
            error: rule.error.filter(|(_, every)| due(*every)).map(|(errno, _)| errno),
            at_most: rule.short.filter(|(_, every)| due(*every)).map_or(usize::MAX, |(bytes, _)| bytes),
        }
    }

    /// Sleeps the delay, then waits while the gate is closed.
    pub(super) fn wait(&self, fate: Fate) {
        std::thread::sleep(fate.delay);
        if fate.hung {
            let rules = self.rules.lock().unwrap();
            drop(self.opened.wait_while(rules, |rules| rules[fate.op as usize].hung).unwrap());
        }
    }

    /// The operation is about to be answered, with this many bytes served.
    pub(super) fn leave(&self, fate: Fate, bytes: usize) {
        self.change(fate.op, |rule| {
            rule.count.inside -= 1;
            rule.count.bytes += bytes as u64;
            rule.count.failed += u64::from(fate.error.is_some());
        });
    }
}
