//! Budgets over simulated time.

use super::*;
use proptest::prelude::*;

const DAY: f64 = 86_400.0;
const MIB: f64 = 1_048_576.0;

fn at(seconds: f64) -> Tick {
    Tick::from_nanos(1_000_000_000 + (seconds * 1e9) as u64)
}

fn disk(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

fn limits(write: f64) -> Limits {
    [Limit::Written(write), Limit::Written(1e18), Limit::Written(1e9)]
}

fn write(bytes: f64) -> Toll {
    Toll { write: bytes, ..Toll::default() }
}

/// Asks `seconds` apart until `end`, and runs whenever it may; the instants of the runs.
fn demand(budgets: &mut Budgets, payer: Payer, toll: &Toll, seconds: f64, from: f64, end: f64) -> Vec<f64> {
    let mut runs = Vec::new();
    let mut now = from;
    while now < end {
        if budgets.may_run(payer, &[Kind::Write, Kind::Operations], at(now)) == Verdict::Run {
            budgets.spend(payer, toll, at(now));
            runs.push(now);
        }
        now += seconds;
    }
    runs
}

#[test]
fn a_budget_that_is_too_small_is_spread_over_the_day() {
    let mut budgets = Budgets::new();
    budgets.place(1, &disk("a"), limits(48.0 * MIB), at(0.0));
    let runs = demand(&mut budgets, 1, &write(0.1 * MIB), 10.0, 0.0, DAY);
    let spent = runs.len() as f64 * 0.1;
    assert!((44.0..=48.0).contains(&spent), "{spent} MiB");
    for hour in 1..24 {
        let within =
            runs.iter().filter(|t| **t >= f64::from(hour) * 3600.0 && **t < f64::from(hour + 1) * 3600.0);
        let spent = within.count() as f64 * 0.1;
        assert!((1.7..=2.1).contains(&spent), "{spent} MiB in hour {hour}");
    }
}

#[test]
fn what_is_spent_and_what_is_there_again_is_told_once() {
    let mut budgets = Budgets::new();
    budgets.place(1, &disk("a"), limits(48.0 * MIB), at(0.0));
    let toll = write(0.1 * MIB);
    demand(&mut budgets, 1, &toll, 1.0, 0.0, 7200.0);
    let turn = |spent| Turn { device: "a".into(), kind: Kind::Write, spent };
    assert_eq!(budgets.turns(), [turn(true)], "two hours of too much, one word");
    // Nothing asks for a while, then seldom.
    demand(&mut budgets, 1, &toll, 600.0, 9000.0, 20_000.0);
    assert_eq!(budgets.turns(), [turn(false)]);
    assert_eq!(budgets.turns(), []);
}

#[test]
fn the_strictest_limit_that_is_written_holds_for_the_disk_and_defaults_add_up() {
    use Limit::{Default, Written};
    assert_eq!(together([Default(2.0), Default(2.0)].into_iter()), 4.0);
    assert_eq!(together([Default(2.0), Written(5.0), Written(3.0)].into_iter()), 3.0);
    let mut budgets = Budgets::new();
    budgets.place(1, &disk("a"), limits(480.0 * MIB), at(0.0));
    budgets.place(2, &disk("a"), limits(48.0 * MIB), at(0.0));
    budgets.place(3, &disk("b"), limits(480.0 * MIB), at(0.0));
    for payer in [1, 3] {
        budgets.spend(payer, &write(2.0 * MIB), at(1.0));
    }
    let kinds = [Kind::Write];
    assert_eq!(budgets.may_run(1, &kinds, at(2.0)), Verdict::Skip(BUDGET));
    assert_eq!(budgets.may_run(2, &kinds, at(2.0)), Verdict::Skip(BUDGET));
    assert_eq!(budgets.may_run(3, &kinds, at(2.0)), Verdict::Run, "another disk");
    assert_eq!(budgets.may_run(1, &[Kind::Read], at(2.0)), Verdict::Run, "another kind");
    assert_eq!(budgets.may_run(9, &kinds, at(2.0)), Verdict::Run, "nobody knows it");
    budgets.leave(2, at(2.0));
    let left = budgets.levels(1, at(2.0)).unwrap()[Kind::Write as usize].ratio(at(2.0));
    assert_eq!(left, 0.0, "a limit that is gone gives nothing at once");
    assert_eq!(budgets.may_run(1, &kinds, at(400.0)), Verdict::Run);
}

#[test]
fn every_disk_of_an_array_must_have_something_left() {
    let mut budgets = Budgets::new();
    budgets.place(1, &["a".into(), "b".into()], limits(48.0 * MIB), at(0.0));
    budgets.place(2, &disk("b"), limits(48.0 * MIB), at(0.0));
    budgets.spend(2, &write(2.0 * MIB), at(0.0));
    assert_eq!(budgets.may_run(1, &[Kind::Write], at(1.0)), Verdict::Skip(BUDGET));
    assert_eq!(budgets.levels(1, at(1.0)).unwrap()[0].ratio(at(1.0)), 0.0);
}

#[test]
fn a_restart_gives_the_idle_time_and_nothing_more() {
    let wall = Duration::from_secs(1_750_000_000);
    let before = || {
        let mut budgets = Budgets::new();
        budgets.place(1, &disk("a"), limits(48.0 * MIB), at(0.0));
        budgets.spend(1, &write(2.0 * MIB), at(0.0));
        let state = budgets.state(at(0.0), wall);
        let text = serde_json::to_string(&state).unwrap();
        serde_json::from_str::<State>(&text).unwrap()
    };
    let after = |idle: f64, wall: Duration| {
        let mut budgets = Budgets::new();
        budgets.restore(before(), at(5.0), wall + Duration::from_secs_f64(idle));
        budgets.place(1, &disk("a"), limits(48.0 * MIB), at(5.0));
        budgets.levels(1, at(5.0)).unwrap()[Kind::Write as usize]
    };
    // 1 MiB too much was spent; 46 MiB come in a day.
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert!(near(after(0.0, wall).balance, -MIB));
    assert!(near(after(DAY / 46.0, wall).balance, 0.0));
    assert!(near(after(30.0 * DAY, wall).balance, MIB), "never more than it holds");
    assert!(near(after(0.0, wall - Duration::from_secs(86_400)).balance, -MIB), "a clock that went back");
    let mut late = Budgets::new();
    late.place(1, &disk("a"), limits(48.0 * MIB), at(0.0));
    late.restore(before(), at(5.0), wall);
    let level = late.levels(1, at(5.0)).unwrap()[Kind::Write as usize];
    assert!(near(level.balance, -MIB), "a debt that is found late is owed");
    let full = Budgets::new().state(at(0.0), wall);
    assert!(full.devices.is_empty());
}

#[test]
fn disks_that_nobody_is_on_are_forgotten_when_they_owe_nothing() {
    let wall = Duration::from_secs(1_750_000_000);
    let mut budgets = Budgets::new();
    for payer in 0..100 {
        budgets.place(payer, &disk(&format!("target {payer}")), limits(48.0 * MIB), at(0.0));
        budgets.spend(payer, &write(0.5 * MIB), at(0.0));
        if payer > 0 {
            budgets.leave(payer, at(0.0));
        }
    }
    assert_eq!((budgets.state(at(1.0), wall).devices.len(), budgets.accounts.len()), (100, 100));
    assert_eq!(budgets.state(at(3600.0), wall).devices.len(), 0);
    assert_eq!(budgets.accounts.keys().collect::<Vec<_>>(), ["target 0"], "somebody is on it");
}

#[test]
fn a_state_that_cannot_be_is_not_believed() {
    let bucket = |balance: f64| Bucket { balance, capacity: 10.0, refill: 1.0, spent: false };
    for bad in [f64::NAN, f64::INFINITY, 11.0] {
        let state =
            State { wall: Duration::ZERO, devices: BTreeMap::from([("a".to_owned(), [bucket(bad); 3])]) };
        let mut budgets = Budgets::new();
        budgets.restore(state, at(0.0), Duration::ZERO);
        budgets.place(1, &disk("a"), limits(48.0 * MIB), at(0.0));
        assert_eq!(budgets.levels(1, at(0.0)).unwrap()[0].ratio(at(0.0)), 1.0);
    }
}

proptest! {
    /// Whoever asks how often for runs of whatever cost: never more than a bucket, its refill and one run in any window, and
    /// never more than the limit in any day.
    #[test]
    fn never_above_the_budget_in_any_window(
        costs in proptest::collection::vec(0.001f64..1.0, 1..5),
        gaps in proptest::collection::vec(1.0f64..400.0, 1..30),
    ) {
        let limit = 48.0 * MIB;
        let mut budgets = Budgets::new();
        for payer in 0..costs.len() {
            budgets.place(payer as Payer, &disk("a"), limits(limit), at(0.0));
        }
        let (mut now, mut runs) = (0.0, Vec::new());
        for (n, gap) in gaps.iter().cycle().enumerate().take(2_000) {
            now += gap;
            let payer = n % costs.len();
            if budgets.may_run(payer as Payer, &[Kind::Write], at(now)) == Verdict::Run {
                budgets.spend(payer as Payer, &write(costs[payer] * MIB), at(now));
                runs.push((now, costs[payer] * MIB));
            }
        }
        let dearest = costs.iter().fold(0.0, |a: f64, b| a.max(*b)) * MIB;
        for window in [60.0, 3600.0, 6.0 * 3600.0, DAY] {
            let mut first = 0;
            let mut within = 0.0;
            for (at, cost) in &runs {
                within += cost;
                while runs[first].0 < at - window {
                    within -= runs[first].1;
                    first += 1;
                }
                let most = Kind::Write.capacity(limit) + Kind::Write.refill(limit) * window + dearest;
                prop_assert!(within <= most + 1.0, "{within} in {window} s");
                prop_assert!(window < DAY || within <= limit + 1.0, "{within} in a day");
            }
        }
    }
}
