//! What sweeps may cost a disk: bytes written and read in any 24 hours. Unlike the latency probes' budgets, which are spread over
//! the day, a night's worth may be spent in minutes; so what was spent is remembered for a day. Pure, on the wall clock: a night is
//! one after a restart too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budget::{Limit, Payer, together};

const DAY: Duration = Duration::from_secs(86_400);
/// What is spent within this time is remembered as one, from its end on.
const TOGETHER: Duration = Duration::from_secs(300);

/// Bytes, written and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// Bytes written.
    pub written: f64,
    /// Bytes read.
    pub read: f64,
}

impl Bill {
    /// As `[written, read]`.
    const fn parts(self) -> [f64; 2] {
        [self.written, self.read]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Spent {
    /// Since 1970, of its last part.
    at: Duration,
    /// Of its first part.
    since: Duration,
    bill: Bill,
}

/// What was spent in the last day, by disk; to be kept over a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct State(BTreeMap<String, VecDeque<Spent>>);

impl State {
    fn spend(&mut self, disks: &[String], bill: Bill, wall: Duration) {
        for disk in disks {
            let all = self.0.entry(disk.clone()).or_default();
            match all.back_mut().filter(|last| wall.saturating_sub(last.since) < TOGETHER) {
                Some(last) => {
                    last.at = last.at.max(wall);
                    last.bill =
                        Bill { written: last.bill.written + bill.written, read: last.bill.read + bill.read };
                }
                None => all.push_back(Spent { at: wall, since: wall, bill }),
            }
        }
    }
}

/// The sweep budgets of all disks.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    spent: State,
    members: BTreeMap<Payer, (Vec<String>, [Limit; 2])>,
}

impl Allowance {
    /// Without disks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The payer's disks, and its limits of bytes written and read in a day, from now on.
    pub fn place(&mut self, payer: Payer, disks: &[String], limits: [Limit; 2]) {
        self.members.insert(payer, (disks.to_vec(), limits));
    }

    /// The payer is gone.
    pub fn leave(&mut self, payer: Payer) {
        self.members.remove(&payer);
    }

    /// Whether so much more may be spent, by every disk of the payer. `wall` is time since 1970.
    pub fn allows(&self, payer: Payer, more: Bill, wall: Duration) -> bool {
        let fits = |disk: &String| {
            let (limits, spent) = (self.limits(disk), self.spent_on(disk, wall));
            let parts = spent.parts().into_iter().zip(more.parts()).zip(limits);
            parts.into_iter().all(|((spent, more), limit)| more <= 0.0 || spent + more <= limit)
        };
        self.members.get(&payer).is_none_or(|(disks, _)| disks.iter().all(fits))
    }

    /// Charges every disk of the payer.
    pub fn spend(&mut self, payer: Payer, bill: Bill, wall: Duration) {
        if let Some((disks, _)) = self.members.get(&payer) {
            self.spent.spend(disks, bill, wall);
        }
    }

    /// Charges these disks, whoever lies on them.
    pub fn spend_on(&mut self, disks: &[String], bill: Bill, wall: Duration) {
        self.spent.spend(disks, bill, wall);
    }

    /// The parts of what may be written and read in a day that are left, of several disks the least each; `None` without a disk.
    pub fn left(&self, payer: Payer, wall: Duration) -> Option<[f64; 2]> {
        let (disks, _) = self.members.get(&payer)?;
        let left = |disk: &String| {
            let (spent, limits) = (self.spent_on(disk, wall).parts(), self.limits(disk));
            [0, 1]
                .map(|at| if limits[at] > 0.0 { (1.0 - spent[at] / limits[at]).clamp(0.0, 1.0) } else { 0.0 })
        };
        disks.iter().map(left).reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])])
    }

    /// What is to outlive a restart; what is older than a day is forgotten.
    pub fn state(&mut self, wall: Duration) -> State {
        self.spent.0.retain(|_, all| {
            all.retain(|spent| counts(spent, wall));
            !all.is_empty()
        });
        self.spent.clone()
    }

    /// Takes up what an earlier daemon left.
    pub fn restore(&mut self, state: State) {
        for (disk, before) in state.0 {
            let sound = |spent: &Spent| spent.bill.parts().iter().all(|n| n.is_finite() && *n >= 0.0);
            let all = self.spent.0.entry(disk).or_default();
            all.extend(before.into_iter().filter(sound));
            all.make_contiguous().sort_by_key(|spent| spent.at);
        }
    }

    fn limits(&self, disk: &str) -> [f64; 2] {
        let on = || self.members.values().filter(|(disks, _)| disks.iter().any(|d| d == disk));
        [0, 1].map(|at| together(on().map(|(_, limits)| limits[at]).collect::<Vec<_>>().into_iter()))
    }

    fn spent_on(&self, disk: &str, wall: Duration) -> Bill {
        let all = self.spent.0.get(disk).into_iter().flatten().filter(|spent| counts(spent, wall));
        all.fold(Bill::default(), |sum, Spent { bill, .. }| Bill {
            written: sum.written + bill.written,
            read: sum.read + bill.read,
        })
    }
}

/// What lies in the future counts too: the clock was set back.
fn counts(spent: &Spent, wall: Duration) -> bool {
    spent.at + DAY > wall
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    const NOON: Duration = Duration::from_secs(1_800_000_000);

    fn bill(n: f64) -> Bill {
        Bill { written: n, read: n / 2.0 }
    }

    fn one(limit: Limit) -> Allowance {
        let mut allowance = Allowance::new();
        allowance.place(1, &["sda".into()], [limit, Limit::Default(1e12)]);
        allowance
    }

    #[test]
    fn a_night_is_spent_at_once_and_comes_back_after_a_day() {
        let mut allowance = one(Limit::Written(100.0));
        assert!(allowance.allows(1, bill(100.0), NOON) && !allowance.allows(1, bill(101.0), NOON));
        allowance.spend(1, bill(60.0), NOON);
        allowance.spend(1, bill(30.0), NOON + Duration::from_secs(200));
        assert!(allowance.allows(1, bill(10.0), NOON) && !allowance.allows(1, bill(11.0), NOON));
        assert_eq!(allowance.left(1, NOON).map(|left| (left[0] * 10.0).round()), Some(1.0));
        assert!(!allowance.allows(1, bill(11.0), NOON + DAY), "the end of it is not a day ago");
        assert!(allowance.allows(1, bill(100.0), NOON + DAY + Duration::from_secs(200)));
    }

    #[test]
    fn what_shares_a_disk_shares_what_was_written_down_and_adds_what_was_not() {
        let mut allowance = one(Limit::Default(100.0));
        allowance.place(2, &["sda".into()], [Limit::Default(50.0), Limit::Default(1e12)]);
        assert!(allowance.allows(1, bill(150.0), NOON) && !allowance.allows(2, bill(151.0), NOON));
        allowance.place(2, &["sda".into()], [Limit::Written(20.0), Limit::Default(1e12)]);
        assert!(!allowance.allows(1, bill(21.0), NOON));
        allowance.leave(2);
        assert!(allowance.allows(1, bill(100.0), NOON) && allowance.allows(7, bill(1e30), NOON));
    }

    #[test]
    fn a_restart_forgets_nothing_of_the_day() {
        let mut allowance = one(Limit::Written(100.0));
        allowance.spend(1, bill(80.0), NOON);
        let kept = serde_json::to_string(&allowance.state(NOON)).unwrap();
        let mut after = one(Limit::Written(100.0));
        after.restore(serde_json::from_str(&kept).unwrap());
        assert!(after.allows(1, bill(20.0), NOON) && !after.allows(1, bill(21.0), NOON));
        assert_eq!(after.state(NOON + DAY), State::default());
    }

    proptest! {
        /// Whenever and however much is asked for: no 24 hours ever hold more than the limit.
        #[test]
        fn no_day_has_more_than_the_limit(asks in proptest::collection::vec((0u64..20_000, 1u32..60), 1..120)) {
            let (mut allowance, mut at, mut spent) = (one(Limit::Written(100.0)), NOON, Vec::new());
            for (wait, more) in asks {
                at += Duration::from_secs(wait);
                let more = bill(f64::from(more));
                if allowance.allows(1, more, at) {
                    allowance.spend(1, more, at);
                    spent.push((at, more.written));
                }
                let day: f64 = spent.iter().filter(|(then, _)| *then + DAY > at).map(|(_, n)| n).sum();
                prop_assert!(day <= 100.0, "{day}");
            }
        }
    }
}
