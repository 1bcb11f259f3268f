use super::*;
use crate::schedule::budget::BUDGET;
use crate::schedule::calendar::time_zone;
use crate::schedule::guard::Reason;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// 1 December 2026, 00:00 in Shanghai.
const MIDNIGHT: Duration = Duration::from_secs(1_796_054_400);

fn settings(schedule: &str) -> Settings {
    let zone = time_zone(Some("Asia/Shanghai")).unwrap();
    Settings { calendar: Some(Calendar::new(schedule, zone).unwrap()), later: Duration::ZERO, rest: None }
}

fn world(at: Duration) -> World {
    World { now: Tick::default() + at, wall: MIDNIGHT + at, held: None, verdict: Verdict::Run, budget: true }
}

/// Looks each second from `from` on, until something is to be done.
fn until_order(
    course: &mut Course,
    from: Duration,
    to: Duration,
    world: impl Fn(Duration) -> World,
) -> Option<(Duration, Order)> {
    let seconds = (0..).map(|n| from + SECOND * n).take_while(|at| *at <= to);
    seconds.map(|at| (at, course.look(&world(at)))).find(|(_, order)| *order != Order::Wait)
}

fn opened(schedule: &str) -> (Course, Duration) {
    let mut course = Course::new(settings(schedule));
    let (at, order) = until_order(&mut course, Duration::ZERO, 24 * HOUR, world).unwrap();
    assert_eq!(order, Order::Open);
    course.opened(Tick::default() + at);
    (course, at)
}

#[test]
fn it_begins_at_its_instant_and_goes_cell_by_cell() {
    let (mut course, at) = opened("30 3 * * *");
    assert_eq!(at, HOUR * 7 / 2);
    for _ in 0..3 {
        assert_eq!(course.look(&world(at)), Order::Cell { light: false });
        course.began();
        assert_eq!(course.look(&world(at)), Order::Wait);
        course.done(1000, 1000 << 12, SECOND, None, Tick::default() + at);
    }
    course.complete(Tick::default() + at);
    assert_eq!(course.look(&world(at)), Order::End(Ending::Complete));
    course.ended(MIDNIGHT + at);
    assert_eq!(course.next(), Some(MIDNIGHT + at + 24 * HOUR));
    assert!(course.take_passed().is_empty());
}

#[test]
fn a_spread_makes_it_later_by_always_the_same() {
    let later = Duration::from_secs(1234);
    let mut course = Course::new(Settings { later, ..settings("30 3 * * *") });
    // Started between the instant of the schedule and its own.
    let start = HOUR * 7 / 2 + SECOND * 60;
    let (at, _) = until_order(&mut course, start, 24 * HOUR, world).unwrap();
    assert_eq!(at, HOUR * 7 / 2 + later);
}

#[test]
fn it_is_offered_again_until_it_may_begin_or_has_passed() {
    let busy = |until: Duration| {
        move |at: Duration| World {
            verdict: if at < until { Verdict::Skip(Reason::Workload) } else { Verdict::Run },
            ..world(at)
        }
    };
    let mut course = Course::new(settings("30 3 * * *"));
    let begin = HOUR * 7 / 2;
    let (at, _) = until_order(&mut course, Duration::ZERO, 24 * HOUR, busy(begin + HOUR)).unwrap();
    assert_eq!(at, begin + HOUR);
    let mut course = Course::new(settings("30 3 * * *"));
    assert_eq!(
        until_order(&mut course, Duration::ZERO, 24 * HOUR, busy(begin + 5 * HOUR)),
        None,
        "not at noon"
    );
    assert_eq!((course.take_passed(), course.why()), (vec![("workload", 1)], None));
    assert_eq!(course.next(), Some(MIDNIGHT + begin + 24 * HOUR));
}

#[test]
fn what_speaks_against_it_is_said_while_it_waits() {
    let mut course = Course::new(settings("30 3 * * *"));
    let poor = |at| World { budget: false, ..world(at) };
    assert_eq!(until_order(&mut course, Duration::ZERO, 4 * HOUR, poor), None);
    assert_eq!((course.why(), course.take_passed()), (Some(BUDGET), Vec::new()));
    let paused = |at| World { held: Some("paused"), ..world(at) };
    assert_eq!(until_order(&mut course, 4 * HOUR, 24 * HOUR, paused), None);
    assert_eq!(course.take_passed(), [("paused", 1)]);
}

#[test]
fn a_workload_that_wakes_up_stops_the_cell_once_and_then_all() {
    let (mut course, at) = opened("30 3 * * *");
    assert_eq!(course.look(&world(at)), Order::Cell { light: false });
    course.began();
    let busy = World { verdict: Verdict::Skip(Reason::Workload), ..world(at) };
    assert_eq!(course.look(&busy), Order::Stop(Stopped::Guard));
    assert_eq!(course.look(&busy), Order::Wait);
    course.done(10, 10 << 12, SECOND, Some(Stopped::Guard), Tick::default() + at);
    assert_eq!(course.look(&world(at)), Order::End(Ending::Guard), "though it is quiet again");
}

#[test]
fn between_cells_the_guard_the_budget_and_a_pause_end_it() {
    for (change, ending) in [
        (World { verdict: Verdict::Skip(Reason::QueueDepth), ..world(SECOND) }, Ending::Guard),
        (World { budget: false, ..world(SECOND) }, Ending::Budget),
        (World { held: Some("paused"), ..world(SECOND) }, Ending::Interrupt),
    ] {
        let (mut course, at) = opened("30 3 * * *");
        let changed = World { now: Tick::default() + at, wall: MIDNIGHT + at, ..change };
        assert_eq!(course.look(&changed), Order::End(ending));
    }
    let (mut course, at) = opened("30 3 * * *");
    let some = World { verdict: Verdict::Shrink, ..world(at) };
    assert_eq!(course.look(&some), Order::Cell { light: true });
}

#[test]
fn other_settings_end_what_is_under_way_and_plan_anew() {
    let (mut course, at) = opened("30 3 * * *");
    course.set(settings("0 12 * * *"));
    assert_eq!(course.look(&world(at)), Order::End(Ending::Interrupt));
    course.ended(MIDNIGHT + at);
    assert_eq!(course.next(), Some(MIDNIGHT + 12 * HOUR));
    course.set(Settings { calendar: None, ..settings("0 12 * * *") });
    assert_eq!((course.look(&world(at)), course.next()), (Order::Wait, None));
}

#[test]
fn an_interrupt_ends_a_cell_once_and_says_nothing_where_none_runs() {
    let (mut course, at) = opened("30 3 * * *");
    assert_eq!(course.look(&world(at)), Order::Cell { light: false });
    course.began();
    course.interrupt();
    assert_eq!(course.look(&world(at)), Order::Stop(Stopped::Interrupt));
    assert_eq!(course.look(&world(at)), Order::Wait);
    course.done(10, 40_960, SECOND, Some(Stopped::Interrupt), Tick::default() + at);
    assert_eq!(course.look(&world(at)), Order::End(Ending::Interrupt));
    course.ended(MIDNIGHT + at);
    course.interrupt();
    assert_eq!(course.look(&world(at)), Order::Wait);
    let (again, order) = until_order(&mut course, at, at + 24 * HOUR, world).unwrap();
    assert_eq!((again, order), (at + 24 * HOUR, Order::Open), "the next night comes as ever");
}

#[test]
fn slots_that_begin_while_one_runs_pass_and_are_counted() {
    let (mut course, at) = opened("* * * * *");
    course.complete(Tick::default() + at);
    assert_eq!(course.look(&world(at)), Order::End(Ending::Complete));
    course.ended(MIDNIGHT + at + 150 * SECOND);
    assert_eq!(course.take_passed(), [(RUNNING, 2)]);
    assert_eq!(course.next(), Some(MIDNIGHT + at + 180 * SECOND));
}

#[test]
fn a_slot_that_passed_while_we_slept_is_missed() {
    let mut course = Course::new(settings("30 3 * * *"));
    assert_eq!(course.look(&world(Duration::ZERO)), Order::Wait);
    assert_eq!(course.look(&world(9 * HOUR)), Order::Wait, "of four hours from half past three on");
    assert_eq!(course.take_passed(), [(MISSED, 1)]);
    assert_eq!(course.next(), Some(MIDNIGHT + 24 * HOUR + HOUR * 7 / 2));
}

#[test]
fn each_ending_stands_in_the_result_as_what_it_was() {
    let told = Ending::ALL.map(|ending| ending.stopped().map(Stopped::label));
    assert_eq!(told, [None, Some("guard"), Some("budget"), Some("interrupt"), Some("error"), Some("error")]);
}

#[test]
fn a_disk_that_does_not_answer_is_not_waited_for() {
    let (mut course, at) = opened("30 3 * * *");
    course.began();
    course.stalled(Tick::default() + at);
    assert_eq!(course.look(&world(at)), Order::End(Ending::Stalled));
    course.ended(MIDNIGHT + at);
    course.done(1, 1, SECOND, None, Tick::default() + at);
    assert!(!course.is_on(), "what comes back late begins nothing");
}

proptest! {
    /// Over a cell and the rest after it, the disk gives no more than its rate, unless it owes all that its bucket holds.
    #[test]
    fn a_rest_earns_back_what_was_above_the_rate(
        rate in 1u32..20_000, capacity in 1u64..10_000_000, operations in 0u64..10_000_000, bytes in 0u64..1 << 40, ms in 0u64..600_000,
    ) {
        let rest = Rest { rate, capacity };
        let took = Duration::from_millis(ms);
        let rested = rest.after(operations, bytes, took);
        let taken = operations.max(bytes.div_ceil(256 << 10)) as f64;
        let given = f64::from(rate) * (took + rested).as_secs_f64();
        let owed = f64::from(rate) * rested.as_secs_f64();
        prop_assert!(given + 1e-3 >= taken || owed + 1e-3 >= capacity as f64, "{given} {taken} {owed}");
        prop_assert!(owed <= capacity as f64 + 1e-3);
    }

    /// Whatever the world does, second by second: one thing at a time, a stop is told once and is the last of its sweep, an end follows each
    /// beginning, and each slot is used or passed once.
    #[test]
    fn no_world_confuses_it(steps in proptest::collection::vec((0u8..12, 1u64..400), 50..400), minutes in 1u8..10) {
        let mut course = Course::new(settings(&format!("*/{minutes} * * * *")));
        let (mut at, mut cell, mut begun, mut told, mut on) = (Duration::ZERO, false, 0u64, false, false);
        let mut passed = 0;
        for (what, wait) in steps {
            at += Duration::from_millis(wait * 100);
            let verdict = if what == 0 { Verdict::Skip(Reason::Workload) } else { Verdict::Run };
            let held = (what == 1).then_some("paused");
            let now = World { verdict, held, budget: what != 2, ..world(at) };
            match course.look(&now) {
                Order::Wait => {}
                Order::Open => {
                    prop_assert!(!on && what > 2);
                    (on, told, begun) = (true, false, begun + 1);
                    if what == 3 { course.failed(now.now) } else { course.opened(now.now) }
                }
                Order::Cell { .. } => {
                    prop_assert!(on && !cell && !told && what > 2);
                    if what == 4 { course.complete(now.now) } else { course.began(); cell = true; }
                }
                Order::Stop(_) => {
                    prop_assert!(on && !told);
                    told = true;
                }
                Order::End(_) => {
                    prop_assert!(on && !cell);
                    on = false;
                    course.ended(now.wall);
                }
            }
            if cell && what > 7 {
                course.done(100, 100 << 12, SECOND, told.then_some(Stopped::Guard), now.now);
                cell = false;
            }
            passed += course.take_passed().iter().map(|(_, n)| n).sum::<u64>();
            prop_assert_eq!(course.is_on(), on);
        }
        let slots = at.as_secs() / (u64::from(minutes) * 60) + 1;
        prop_assert!(begun + passed <= slots + 1, "{} + {} of {}", begun, passed, slots);
    }
}

mod week;
