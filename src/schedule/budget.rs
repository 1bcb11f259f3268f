//! Budgets: what all probes together may cost a disk. Each disk has a token bucket for each kind of cost, which holds half an
//! hour's share and refills all the time, so that a budget that is too small is spread over the day instead of being gone at
//! noon. A run may start while there is something in the bucket and is charged when it is back, with what it really cost; it
//! may leave a debt, never more than one run's. Together: never more than the limit in any day, as long as one run costs no
//! more than half an hour's share.
//!
//! A limit that was written for one target holds for the disk, and for all targets on it together; of several the strictest
//! does. Where none is written, each target brings its own default. Sweeps have budgets of their own: another [`Budgets`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Tick;

/// Why a slot was skipped when the budget was spent.
pub const BUDGET: &str = "budget";

/// What a bucket holds, as a part of what is allowed in a period.
const SHARE: f64 = 1.0 / 48.0;
/// Two shares are never paid out: a full bucket and one run's debt come on top of the refill of a period.
const REFILL: f64 = 1.0 - 2.0 * SHARE;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes written at the disk.
    Write,
    /// Bytes read at the disk.
    Read,
    /// Requests at the disk.
    Operations,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Operations];

    /// As metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Operations => "operations",
        }
    }

    /// The key of the config that limits it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Write => "write_per_day",
            Self::Read => "read_per_day",
            Self::Operations => "operations_per_second",
        }
    }

    /// Seconds over which a limit holds, and how many of its units of time they are.
    const fn period(self) -> (f64, f64) {
        match self {
            Self::Write | Self::Read => (86_400.0, 1.0),
            Self::Operations => (1_800.0, 1_800.0),
        }
    }

    /// A rate per second in the units of a limit: bytes a day, or operations a second.
    pub fn in_units(self, per_second: f64) -> f64 {
        let (seconds, units) = self.period();
        per_second * seconds / units
    }

    /// What a bucket of this limit gives in the long run, per second.
    pub fn refill(self, limit: f64) -> f64 {
        let (seconds, units) = self.period();
        limit * units * REFILL / seconds
    }

    /// What a bucket of this limit holds.
    pub fn capacity(self, limit: f64) -> f64 {
        limit * self.period().1 * SHARE
    }
}

/// What runs cost a disk, at the disk: bytes, bytes and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Toll {
    /// Bytes written.
    pub write: f64,
    /// Bytes read.
    pub read: f64,
    /// Requests.
    pub operations: f64,
}

impl Toll {
    /// Of one kind.
    pub const fn of(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Write => self.write,
            Kind::Read => self.read,
            Kind::Operations => self.operations,
        }
    }

    /// Of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            write: self.write + other.write,
            read: self.read + other.read,
            operations: self.operations + other.operations,
        }
    }

    /// So often.
    #[must_use]
    pub fn times(self, n: f64) -> Self {
        Self { write: self.write * n, read: self.read * n, operations: self.operations * n }
    }
}

/// A limit: bytes a day, or operations a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Somebody wrote it down: it holds for the disk.
    Written(f64),
    /// Nobody did: what one target is given.
    Default(f64),
}

/// The limit that holds for a disk, by those of the targets on it.
pub fn together(limits: impl Iterator<Item = Limit> + Clone) -> f64 {
    let written = limits.clone().filter_map(|l| if let Limit::Written(n) = l { Some(n) } else { None });
    let given = limits.filter_map(|l| if let Limit::Default(n) = l { Some(n) } else { None });
    written.reduce(f64::min).unwrap_or_else(|| given.sum())
}

/// Whose runs are paid for: a number that the caller keeps for each target.
pub type Payer = u64;

/// The limits of one target, in the order of [`Kind::ALL`].
pub type Limits = [Limit; Kind::ALL.len()];

/// Whether a run may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Run,
    /// Not in this slot: why.
    Skip(&'static str),
}

/// A budget was spent, or there is enough again. Told once, not for each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Of which disk.
    pub device: String,
    /// Of what.
    pub kind: Kind,
    /// Spent: from now on runs are skipped until the bucket has refilled; else the bucket is half full again.
    pub spent: bool,
}

/// One bucket, to be looked at later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    balance: f64,
    capacity: f64,
    refill: f64,
    at: Tick,
}

impl Level {
    /// What is in the bucket at `now`, as a part of what it holds: 0 to 1.
    pub fn ratio(&self, now: Tick) -> f64 {
        let balance = self.balance + self.refill * now.since(self.at).as_secs_f64();
        if self.capacity > 0.0 { (balance / self.capacity).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The budgets of all disks.
#[derive(Debug, Default)]
pub struct Budgets {
    accounts: BTreeMap<String, Account>,
    members: BTreeMap<Payer, Member>,
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Member {
    devices: Vec<String>,
    limits: Limits,
}

#[derive(Clone, Debug)]
struct Account {
    buckets: [Bucket; Kind::ALL.len()],
    at: Tick,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Bucket {
    balance: f64,
    capacity: f64,
    /// Per second.
    refill: f64,
    /// It was found empty and has not been half full since.
    #[serde(default)]
    spent: bool,
}

/// What outlives a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Wall-clock time since 1970 when it was taken.
    wall: Duration,
    devices: BTreeMap<String, [Bucket; Kind::ALL.len()]>,
}

impl Budgets {
    /// Without disks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The payer's disks and limits from now on. A disk that was not known begins with full buckets; a limit that shrinks takes
    /// away what does not fit, and one that grows gives nothing at once.
    pub fn place(&mut self, payer: Payer, devices: &[String], limits: Limits, now: Tick) {
        let before = self.members.get(&payer).map(|m| m.devices.clone()).unwrap_or_default();
        if before == devices && self.members.get(&payer).is_some_and(|m| m.limits == limits) {
            return;
        }
        self.members.insert(payer, Member { devices: devices.to_vec(), limits });
        before.iter().chain(devices).for_each(|device| self.limit(device, now));
    }

    /// The payer is gone. What its disks owe stays owed.
    pub fn leave(&mut self, payer: Payer, now: Tick) {
        if let Some(member) = self.members.remove(&payer) {
            member.devices.iter().for_each(|device| self.limit(device, now));
        }
    }

    /// Sets what holds for a disk with those who are on it now.
    fn limit(&mut self, device: &str, now: Tick) {
        let on: Vec<&Member> =
            self.members.values().filter(|m| m.devices.iter().any(|d| d == device)).collect();
        if on.is_empty() {
            return;
        }
        let limits = Kind::ALL.map(|kind| together(on.iter().map(|m| m.limits[kind as usize])));
        let fresh = || Account::full(limits, now);
        let account = self.accounts.entry(device.to_owned()).or_insert_with(fresh);
        account.pass(now);
        for kind in Kind::ALL {
            account.buckets[kind as usize].set(kind, limits[kind as usize]);
        }
    }

    /// Whether a run that costs these kinds may start now, by every disk of the payer. One that has no disks runs.
    pub fn may_run(&mut self, payer: Payer, kinds: &[Kind], now: Tick) -> Verdict {
        let Some(member) = self.members.get(&payer) else { return Verdict::Run };
        let mut verdict = Verdict::Run;
        for device in &member.devices {
            let Some(account) = self.accounts.get_mut(device) else { continue };
            account.pass(now);
            for kind in kinds {
                let bucket = &mut account.buckets[*kind as usize];
                let empty = bucket.balance <= 0.0;
                if empty {
                    verdict = Verdict::Skip(BUDGET);
                }
                if empty != bucket.spent && (empty || bucket.balance >= bucket.capacity / 2.0) {
                    bucket.spent = empty;
                    self.turns.push(Turn { device: device.clone(), kind: *kind, spent: empty });
                }
            }
        }
        verdict
    }

    /// Charges a run to every disk of the payer.
    pub fn spend(&mut self, payer: Payer, toll: &Toll, now: Tick) {
        if let Some(member) = self.members.get(&payer) {
            charge(&mut self.accounts, &member.devices, toll, now);
        }
    }

    /// Charges a run of a payer that is gone to the disks that it was on.
    pub fn spend_on(&mut self, devices: &[String], toll: &Toll, now: Tick) {
        charge(&mut self.accounts, devices, toll, now);
    }

    /// What has been spent or is there again since the last call.
    pub fn turns(&mut self) -> Vec<Turn> {
        std::mem::take(&mut self.turns)
    }

    /// The payer's buckets, of several disks the emptiest each, in the order of [`Kind::ALL`]; `None` without a disk.
    pub fn levels(&self, payer: Payer, now: Tick) -> Option<[Level; Kind::ALL.len()]> {
        let member = self.members.get(&payer)?;
        let accounts = || member.devices.iter().filter_map(|device| self.accounts.get(device));
        accounts().next()?;
        let least = |kind: Kind| {
            let levels = accounts().map(|account| account.level(kind));
            levels.min_by(|a, b| a.ratio(now).total_cmp(&b.ratio(now)))
        };
        let all = Kind::ALL.map(least);
        Some([all[0]?, all[1]?, all[2]?])
    }

    /// What is to outlive a restart. `wall` is the wall-clock time since 1970 at `now`. A disk whose buckets are full needs no
    /// memory; when nobody is on it any more, it is forgotten here too.
    pub fn state(&mut self, now: Tick, wall: Duration) -> State {
        self.accounts.values_mut().for_each(|account| account.pass(now));
        let used: BTreeSet<&String> = self.members.values().flat_map(|member| &member.devices).collect();
        self.accounts.retain(|device, account| used.contains(device) || !account.is_full());
        let owing = self.accounts.iter().filter(|(_, account)| !account.is_full());
        State { wall, devices: owing.map(|(device, account)| (device.clone(), account.buckets)).collect() }
    }

    /// Takes up what an earlier daemon left: what it had, and the refill of the time since, never more than a bucket holds. A clock
    /// that went back gives nothing. A disk that is known already keeps the lesser.
    pub fn restore(&mut self, state: State, now: Tick, wall: Duration) {
        let idle = wall.saturating_sub(state.wall).as_secs_f64();
        for (device, buckets) in state.devices {
            if !buckets.iter().all(Bucket::is_sound) {
                continue;
            }
            let mut account = Account { buckets, at: now };
            account.buckets.iter_mut().for_each(|bucket| bucket.pass(idle));
            match self.accounts.get_mut(&device) {
                Some(known) => known.owe(&account, now),
                None => drop(self.accounts.insert(device, account)),
            }
        }
    }
}

fn charge(accounts: &mut BTreeMap<String, Account>, devices: &[String], toll: &Toll, now: Tick) {
    for device in devices {
        let Some(account) = accounts.get_mut(device) else { continue };
        account.pass(now);
        for kind in Kind::ALL {
            account.buckets[kind as usize].balance -= toll.of(kind).max(0.0);
        }
    }
}

impl Account {
    fn full(limits: [f64; Kind::ALL.len()], now: Tick) -> Self {
        let full = |kind: Kind| {
            let limit = limits[kind as usize];
            let capacity = kind.capacity(limit);
            Bucket { balance: capacity, capacity, refill: kind.refill(limit), spent: false }
        };
        Self { buckets: Kind::ALL.map(full), at: now }
    }

    fn pass(&mut self, now: Tick) {
        let seconds = now.since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.buckets.iter_mut().for_each(|bucket| bucket.pass(seconds));
    }

    fn is_full(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.balance >= bucket.capacity)
    }

    /// Holds no more than `other`.
    fn owe(&mut self, other: &Self, now: Tick) {
        self.pass(now);
        for (bucket, other) in self.buckets.iter_mut().zip(&other.buckets) {
            bucket.balance = bucket.balance.min(other.balance);
        }
    }

    fn level(&self, kind: Kind) -> Level {
        let Bucket { balance, capacity, refill, .. } = self.buckets[kind as usize];
        Level { balance, capacity, refill, at: self.at }
    }
}

impl Bucket {
    fn pass(&mut self, seconds: f64) {
        self.balance = (self.balance + self.refill * seconds).min(self.capacity);
    }

    fn set(&mut self, kind: Kind, limit: f64) {
        (self.capacity, self.refill) = (kind.capacity(limit), kind.refill(limit));
        self.balance = self.balance.min(self.capacity);
    }

    /// What can be believed of a bucket that comes from a file.
    fn is_sound(&self) -> bool {
        let finite = [self.balance, self.capacity, self.refill].iter().all(|n| n.is_finite());
        finite && self.capacity >= 0.0 && self.refill >= 0.0 && self.balance <= self.capacity
    }
}

#[cfg(test)]
mod tests;
