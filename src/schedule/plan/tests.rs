//! The planner over simulated time.

use super::*;
use proptest::prelude::*;

mod fleet;
use std::collections::BTreeMap;

const EPOCH: Duration = Duration::from_secs(1_750_000_000);
const LEASE: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Tick {
    Tick::from_nanos(1_000_000_000 + millis * 1_000_000)
}

fn planner() -> Planner {
    Planner::new(EPOCH, LEASE)
}

/// A task on its own lane, due every second from `at(0)`.
fn task(planner: &mut Planner, lane: usize, devices: &[&str]) -> TaskId {
    let id = planner.add(LaneId(lane), lane as u64);
    planner.set_devices(id, &devices.iter().map(ToString::to_string).collect::<Vec<_>>());
    planner.set(id, When::Every(SECOND), at(0));
    id
}

#[test]
fn one_run_in_each_slot_at_an_instant_that_wanders() {
    let mut planner = planner();
    let id = task(&mut planner, 0, &[]);
    let mut seen = Vec::new();
    for millis in 0..100_000 {
        for start in planner.decide(at(millis)).start {
            seen.push(start.planned);
            planner.finished(start.task);
        }
    }
    assert!((99..=101).contains(&seen.len()), "{}", seen.len());
    let slots: Vec<u64> = seen.iter().map(|t| slot_of(*t, SECOND, EPOCH)).collect();
    assert!(slots.windows(2).all(|w| w[1] == w[0] + 1), "each slot once, in order");
    let part = |t: &Tick| t.since(start_of(slot_of(*t, SECOND, EPOCH), SECOND, EPOCH)).as_secs_f64();
    let mean = seen.iter().map(part).sum::<f64>() / seen.len() as f64;
    assert!((0.4..0.6).contains(&mean), "uniform in the slot: {mean}");
    assert!(planner.next(id).is_some());
}

#[test]
fn the_same_seed_draws_the_same_instants_after_a_restart() {
    let next = |from| {
        let mut planner = planner();
        let id = planner.add(LaneId(0), 77);
        planner.set(id, When::Every(SECOND), at(from));
        planner.decide(planner.next(id).unwrap());
        planner.next(id)
    };
    assert_eq!(next(1), next(2));
}

#[test]
fn a_lane_that_is_out_misses_its_slots_and_catches_nothing_up() {
    let mut planner = planner();
    let id = task(&mut planner, 0, &["sda"]);
    let first = planner.next(id).unwrap();
    assert_eq!(planner.decide(first).start.len(), 1);
    let back = first + Duration::from_secs(30);
    let mut missed = 0;
    let mut now = first;
    while now < back {
        now = now + Duration::from_millis(50);
        let decision = planner.decide(now);
        assert!(decision.start.is_empty() && decision.skipped.is_empty());
        missed += decision.missed.iter().map(|(_, n)| n).sum::<u64>();
    }
    assert!((28..=30).contains(&missed), "{missed}");
    planner.finished(id);
    let runs: usize = (0..20).map(|i| planner.decide(back + Duration::from_millis(i * 50)).start.len()).sum();
    assert!(runs <= 1, "{runs}");
}

#[test]
fn nobody_asking_for_a_while_counts_as_missed() {
    let mut planner = planner();
    let id = task(&mut planner, 0, &[]);
    let first = planner.next(id).unwrap();
    let decision = planner.decide(first + Duration::from_secs(30));
    assert_eq!(decision.missed.iter().map(|(_, n)| n).sum::<u64>(), 30);
    assert!(decision.start.len() <= 1);
}

#[test]
fn a_device_has_one_probe_at_a_time_and_a_stuck_one_forfeits_it() {
    let mut planner = planner();
    let (a, b) = (task(&mut planner, 0, &["sda", "sdb"]), task(&mut planner, 1, &["sdb"]));
    let both = planner.next(a).unwrap().max(planner.next(b).unwrap());
    let first = planner.decide(both).start;
    assert_eq!(first.len(), 1);
    let (stuck, other) = if first[0].task == a { (a, b) } else { (b, a) };
    // The other's slot passes: it is skipped because the device is taken, not missed.
    let mut skipped = 0;
    for millis in 0..9_000 {
        let decision = planner.decide(both + Duration::from_millis(millis));
        assert!(decision.start.is_empty());
        skipped += decision.skipped.iter().filter(|(id, why, _)| *id == other && *why == DEVICE_BUSY).count();
    }
    assert!(skipped >= 8);
    let runs = (9_000..13_000).flat_map(|ms| {
        let start = planner.decide(both + Duration::from_millis(ms)).start;
        start.iter().for_each(|s| planner.finished(s.task));
        start
    });
    assert!(runs.filter(|s| s.task == other).count() >= 2);
    planner.finished(stuck);
}

#[test]
fn a_held_task_says_why_it_skips() {
    let mut planner = planner();
    let id = task(&mut planner, 0, &[]);
    planner.hold(id, Some("laying_out"));
    let mut skipped = 0;
    for millis in 0..10_000 {
        let decision = planner.decide(at(millis));
        assert!(decision.start.is_empty() && decision.missed.is_empty());
        skipped += decision.skipped.iter().map(|(_, _, n)| n).sum::<u64>();
    }
    assert!((9..=10).contains(&skipped), "{skipped}");
}

#[test]
fn once_is_once() {
    let mut planner = planner();
    let id = planner.add(LaneId(0), 1);
    planner.set(id, When::At(at(50)), at(0));
    let decision = planner.decide(at(0));
    assert_eq!((decision.start.len(), decision.wake), (0, Some(at(50))));
    assert_eq!(planner.decide(at(60)).start, [Start { task: id, planned: at(50) }]);
    planner.finished(id);
    assert_eq!(planner.decide(at(1_000_000)), Decision::default());
}

proptest! {
    /// Whatever takes how long: never two runs on a device or a lane, and each slot is run, missed or skipped once.
    #[test]
    fn claims_and_sums_hold(
        devices in proptest::collection::vec(0..3usize, 2..6),
        lengths in proptest::collection::vec(1u64..1500, 1..40),
    ) {
        let mut planner = planner();
        let ids: Vec<TaskId> = devices.iter().enumerate().map(|(lane, d)| task(&mut planner, lane, &[["a", "b", "c"][*d]])).collect();
        let mut out: BTreeMap<TaskId, Tick> = BTreeMap::new();
        let mut counted: BTreeMap<TaskId, u64> = BTreeMap::new();
        let mut lengths = lengths.iter().cycle();
        for millis in (0..20_000).step_by(7) {
            let now = at(millis);
            let back: Vec<TaskId> = out.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect();
            for id in back {
                out.remove(&id);
                planner.finished(id);
            }
            let decision = planner.decide(now);
            for start in &decision.start {
                let device = |id: &TaskId| devices[ids.iter().position(|i| i == id).unwrap()];
                prop_assert!(out.keys().all(|id| device(id) != device(&start.task)));
                out.insert(start.task, now + Duration::from_millis(*lengths.next().unwrap()));
                *counted.entry(start.task).or_default() += 1;
            }
            for (id, n) in &decision.missed { *counted.entry(*id).or_default() += n; }
            for (id, _, n) in &decision.skipped { *counted.entry(*id).or_default() += n; }
            prop_assert!(decision.wake.is_none_or(|wake| wake > now));
        }
        for id in &ids {
            let n = counted.get(id).copied().unwrap_or(0);
            prop_assert!((19..=21).contains(&n), "{n}");
        }
    }
}
