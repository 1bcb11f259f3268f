//! Whole fleets under the planner and the budgets: disks with partitions on them, volumes and arrays that span several.

use super::{EPOCH, LEASE};
use crate::clock::Tick;
use crate::schedule::budget::{self, Budgets, Kind, Limit, Toll, Verdict};
use crate::schedule::{LaneId, Planner, TaskId, When};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One probe of a target.
#[derive(Clone, Debug)]
struct Member {
    /// The whole disks below it: one for a partition, several for a volume or an array.
    disks: BTreeSet<usize>,
    interval: Duration,
    /// How long each run takes.
    length: Duration,
    /// Bytes that it writes.
    cost: f64,
}

/// A run, and when it became due.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    member: usize,
    due: Tick,
    from: Tick,
    to: Tick,
}

struct Course<'a> {
    fleet: &'a [Member],
    seed: u64,
    /// Bytes a day that may be written on each disk; `None`: no budgets.
    limit: Option<f64>,
    /// Runs on this disk never come back from the given instant on.
    stuck: Option<(usize, Tick)>,
    length: Duration,
}

fn name(disk: usize) -> String {
    format!("sd{disk}")
}

fn start() -> Tick {
    Tick::from_nanos(1_000_000_000)
}

impl Course<'_> {
    /// All runs in the order of their beginning.
    fn take(&self) -> Vec<Run> {
        let mut planner = Planner::new(EPOCH, LEASE);
        let mut budgets = Budgets::new();
        let mut members: BTreeMap<TaskId, usize> = BTreeMap::new();
        for (n, member) in self.fleet.iter().enumerate() {
            let task = planner.add(LaneId(n), self.seed.wrapping_add(n as u64));
            let disks: Vec<String> = member.disks.iter().map(|disk| name(*disk)).collect();
            planner.set_devices(task, &disks);
            planner.set(task, When::Every(member.interval), start());
            members.insert(task, n);
            if let Some(limit) = self.limit {
                let limits = [Limit::Written(limit), Limit::Written(1e18), Limit::Written(1e9)];
                budgets.place(n as u64, &disks, limits, start());
            }
        }
        let (mut now, mut out, mut runs): (_, BTreeMap<TaskId, Tick>, _) =
            (start(), BTreeMap::new(), Vec::new());
        // From when on each member has waited.
        let mut due: BTreeMap<usize, Tick> = BTreeMap::new();
        while now < start() + self.length {
            let back: Vec<TaskId> = out.iter().filter(|(_, to)| **to <= now).map(|(task, _)| *task).collect();
            for task in back {
                out.remove(&task);
                planner.finished(task);
                budgets.spend(members[&task] as u64, &write(self.fleet[members[&task]].cost), now);
            }
            let decision = planner.decide(now);
            let mut gave_back = false;
            for begun in decision.start {
                let n = members[&begun.task];
                if budgets.may_run(n as u64, &[Kind::Write], now) != Verdict::Run {
                    planner.finished(begun.task);
                    due.entry(n).or_insert(begun.planned);
                    gave_back = true;
                    continue;
                }
                let hangs =
                    self.stuck.is_some_and(|(disk, at)| self.fleet[n].disks.contains(&disk) && now >= at);
                let to = if hangs { Tick::from_nanos(u64::MAX) } else { now + self.fleet[n].length };
                out.insert(begun.task, to);
                let due = due.remove(&n).unwrap_or(begun.planned);
                runs.push(Run { member: n, due, from: now, to });
            }
            for (task, _, _) in &decision.skipped {
                due.entry(members[task]).or_insert(now);
            }
            let next = out.values().copied().chain(decision.wake).min().unwrap_or(start() + self.length);
            now = if gave_back { now } else { next.max(now + Duration::from_nanos(1)) };
        }
        runs
    }
}

fn write(bytes: f64) -> Toll {
    Toll { write: bytes, ..Toll::default() }
}

fn fleet(longest: u64) -> impl Strategy<Value = Vec<Member>> {
    let member = (proptest::collection::btree_set(0..4usize, 1..3), 100u64..5_000, 1..=longest, 1u64..64);
    let member = member.prop_map(|(disks, interval, length, kib)| Member {
        disks,
        interval: Duration::from_millis(interval),
        length: Duration::from_millis(length),
        cost: kib as f64 * 1024.0,
    });
    proptest::collection::vec(member, 2..9)
}

fn course(fleet: &[Member], seed: u64, seconds: u64) -> Course<'_> {
    Course { fleet, seed, limit: None, stuck: None, length: Duration::from_secs(seconds) }
}

/// All members that share a disk, directly or by others.
fn neighbours(fleet: &[Member]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(BTreeSet<usize>, Vec<usize>)> = Vec::new();
    for (n, member) in fleet.iter().enumerate() {
        let (mut disks, mut members) = (member.disks.clone(), vec![n]);
        let (near, far): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(theirs, _)| !theirs.is_disjoint(&member.disks));
        for (theirs, others) in near {
            disks.extend(theirs);
            members.extend(others);
        }
        groups = far;
        groups.push((disks, members));
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However long the runs take: never two at once on a disk, whatever lies on it.
    #[test]
    fn a_disk_never_has_two_runs_at_once(fleet in fleet(3_000), seed: u64) {
        let runs = course(&fleet, seed, 60).take();
        for (n, run) in runs.iter().enumerate() {
            for other in runs[..n].iter().filter(|other| other.to > run.from) {
                let shared = !fleet[run.member].disks.is_disjoint(&fleet[other.member].disks);
                prop_assert!(!shared, "{run:?} beside {other:?}");
            }
        }
    }

    /// Whatever a fleet wants: each disk is written no more than its bucket, the refill and one run in any window.
    #[test]
    fn a_disk_never_has_more_than_its_budget_in_any_window(
        fleet in fleet(50), seed: u64, mib in 1.0f64..100.0,
    ) {
        let limit = mib * 1_048_576.0;
        let runs = Course { limit: Some(limit), ..course(&fleet, seed, 120) }.take();
        for disk in 0..4 {
            let of_disk: Vec<&Run> = runs.iter().filter(|run| fleet[run.member].disks.contains(&disk)).collect();
            let dearest = of_disk.iter().map(|run| fleet[run.member].cost).fold(0.0, f64::max);
            for (n, first) in of_disk.iter().enumerate() {
                let mut spent = 0.0;
                for last in &of_disk[n..] {
                    spent += fleet[last.member].cost;
                    let window = last.to.since(first.from).as_secs_f64();
                    let most = Kind::Write.capacity(limit) + Kind::Write.refill(limit) * window + dearest;
                    prop_assert!(spent <= most + 1.0, "{spent} in {window} s of disk {disk}");
                }
            }
        }
    }

    /// A fleet whose runs take at most 80 % of its disks' time and budgets, and all of them on a disk together no longer than the
    /// shortest interval there: who is due is served within two of its intervals.
    #[test]
    fn who_is_due_is_served_within_two_intervals(mut fleet in fleet(400), seed: u64) {
        let groups = neighbours(&fleet);
        for group in &groups {
            let shortest = group.iter().map(|n| fleet[*n].interval).min().unwrap();
            let all: Duration = group.iter().map(|n| fleet[*n].length).sum();
            let load: f64 = group.iter().map(|n| fleet[*n].length.as_secs_f64() / fleet[*n].interval.as_secs_f64()).sum();
            let factor = (shortest.as_secs_f64() / all.as_secs_f64()).min(0.8 / load).min(1.0);
            group.iter().for_each(|n| fleet[*n].length = fleet[*n].length.mul_f64(factor));
        }
        let demand = |disk: usize| -> f64 {
            let on = fleet.iter().filter(|member| member.disks.contains(&disk));
            on.map(|member| member.cost / member.interval.as_secs_f64() * 86_400.0).sum()
        };
        let limit = (0..4).map(demand).fold(0.0, f64::max) / 0.8;
        let length = Duration::from_secs(60);
        let runs = Course { limit: Some(limit), ..course(&fleet, seed, 60) }.take();
        for (n, member) in fleet.iter().enumerate() {
            let mine: Vec<&Run> = runs.iter().filter(|run| run.member == n).collect();
            for run in &mine {
                let waited = run.from.since(run.due);
                prop_assert!(waited <= 2 * member.interval, "{member:?} waited {waited:?}: {run:?}");
            }
            let last = mine.last().map_or(start(), |run| run.from);
            let idle = (start() + length).since(last);
            prop_assert!(idle <= 4 * member.interval, "{member:?} has not run for {idle:?}");
        }
    }

    /// The same seed, the same runs at the same instants; another seed, others.
    #[test]
    fn a_seed_makes_a_course(fleet in fleet(200), seed: u64) {
        let take = |seed| Course { limit: Some(1e9), ..course(&fleet, seed, 20) }.take();
        prop_assert_eq!(take(seed), take(seed));
        prop_assert_ne!(take(seed), take(seed.wrapping_add(1_000_003)));
    }

    /// A disk that never answers again changes nothing for who shares nothing with it.
    #[test]
    fn a_stuck_disk_delays_nobody_elsewhere(fleet in fleet(300), seed: u64, disk in 0..4usize, after in 0u64..20) {
        let at = start() + Duration::from_secs(after);
        let well = course(&fleet, seed, 40).take();
        let stuck = Course { stuck: Some((disk, at)), ..course(&fleet, seed, 40) }.take();
        for group in neighbours(&fleet) {
            if group.iter().any(|n| fleet[*n].disks.contains(&disk)) {
                continue;
            }
            let theirs = |runs: &[Run]| -> Vec<Run> {
                runs.iter().filter(|run| group.contains(&run.member)).copied().collect()
            };
            prop_assert_eq!(theirs(&well), theirs(&stuck));
        }
    }
}

#[test]
fn budgets_are_the_caller_s_and_a_slot_that_they_take_is_lost() {
    let member = Member {
        disks: BTreeSet::from([0]),
        interval: Duration::from_millis(100),
        length: Duration::from_millis(1),
        cost: 1024.0,
    };
    let fleet = [member];
    let limit = 1_048_576.0;
    let runs = Course { limit: Some(limit), ..course(&fleet, 7, 120) }.take();
    let most = (budget::Kind::Write.capacity(limit) + budget::Kind::Write.refill(limit) * 120.0) / 1024.0;
    assert!((runs.len() as f64) <= most + 1.0 && runs.len() as f64 >= most - 1.0, "{} of {most}", runs.len());
}
