//! The guard on each side of each of its edges, and a day of a sweep's slots.

use super::*;
use crate::schedule::{LaneId, Planner, When};
use proptest::prelude::*;

fn idle() -> Conditions {
    Conditions {
        workload_iops: Some(0.0),
        queue_depth: Some(0.0),
        io_pressure: Some(0.0),
        ..Conditions::default()
    }
}

fn says(change: impl FnOnce(&mut Conditions)) -> Verdict {
    promised(None, change)
}

fn promised(iops: Option<f64>, change: impl FnOnce(&mut Conditions)) -> Verdict {
    let mut conditions = idle();
    change(&mut conditions);
    judge(&conditions, iops, &Thresholds::default())
}

/// The next number above.
fn above(n: f64) -> f64 {
    f64::from_bits(n.to_bits() + 1)
}

#[test]
fn an_idle_disk_may_be_swept() {
    assert_eq!(says(|_| {}), Verdict::Run);
}

#[test]
fn each_threshold_on_either_side() {
    type Set = fn(&mut Conditions, f64);
    let edges: [(Reason, f64, Set); 5] = [
        (Reason::Workload, 50.0, |c, n| c.workload_iops = Some(n)),
        (Reason::Workload, 300.0, |c, n| (c.workload_iops, c.peak_iops) = (Some(n), Some(3000.0))),
        (Reason::QueueDepth, 1.0, |c, n| c.queue_depth = Some(n)),
        (Reason::IoPressure, 0.05, |c, n| c.io_pressure = Some(n)),
        (Reason::Workload, 10.0, |c, n| (c.workload_iops, c.peak_iops) = (Some(n), Some(100.0))),
    ];
    for (reason, edge, set) in edges {
        assert_eq!(says(|c| set(c, edge / 2.0)), Verdict::Run, "half of {edge}");
        assert_eq!(says(|c| set(c, above(edge / 2.0))), Verdict::Shrink, "just above half of {edge}");
        assert_eq!(says(|c| set(c, edge)), Verdict::Shrink, "at {edge}");
        assert_eq!(says(|c| set(c, above(edge))), Verdict::Skip(reason), "just above {edge}");
        assert_eq!(says(|c| set(c, f64::NAN)), Verdict::Skip(reason));
    }
}

#[test]
fn a_promise_stands_in_for_a_peak_that_is_not_known() {
    let workload = |n: f64| move |c: &mut Conditions| c.workload_iops = Some(n);
    assert_eq!(promised(Some(1000.0), workload(100.0)), Verdict::Shrink);
    assert_eq!(promised(Some(1000.0), workload(above(100.0))), Verdict::Skip(Reason::Workload));
    let known = |c: &mut Conditions| (c.workload_iops, c.peak_iops) = (Some(60.0), Some(500.0));
    assert_eq!(promised(Some(1000.0), known), Verdict::Skip(Reason::Workload), "the peak goes first");
}

#[test]
fn what_takes_no_writes_or_has_few_credits_is_left_alone() {
    assert_eq!(says(|c| c.read_only = true), Verdict::Skip(Reason::ReadOnly));
    assert_eq!(says(|c| c.credits_low = Some(true)), Verdict::Skip(Reason::CreditsLow));
    assert_eq!(says(|c| c.credits_low = Some(false)), Verdict::Run);
}

#[test]
fn load_that_cannot_be_seen_is_no_reason_to_run() {
    assert_eq!(says(|c| c.workload_iops = None), Verdict::Skip(Reason::Unseen));
    assert_eq!(says(|c| c.queue_depth = None), Verdict::Skip(Reason::Unseen));
    assert_eq!(says(|c| c.io_pressure = None), Verdict::Run, "a kernel without pressure figures");
    assert_eq!(judge(&Conditions::default(), None, &Thresholds::default()), Verdict::Skip(Reason::Unseen));
}

#[test]
fn thresholds_can_be_set() {
    let patient = Thresholds { queue_depth: 8.0, ..Thresholds::default() };
    let busy = Conditions { queue_depth: Some(3.0), ..idle() };
    assert_eq!(judge(&busy, None, &patient), Verdict::Run);
    assert_eq!(judge(&busy, None, &Thresholds::default()), Verdict::Skip(Reason::QueueDepth));
}

const HOUR: Duration = Duration::from_secs(3600);

/// A lab day: a nightly sweep under the planner, with the guard asked at each offer. When the sweep began, if it did.
fn lab_day(busy: &[bool], opens: Duration, again: Duration) -> Option<Tick> {
    let day = 24 * HOUR;
    let midnight = Tick::from_nanos(1);
    let slot = Slot { opens: midnight + opens, closes: midnight + opens + day, again };
    let mut planner = Planner::new(Duration::from_secs(1_750_000_000), Duration::from_secs(10));
    let sweep = planner.add(LaneId(0), 1);
    planner.set_devices(sweep, &["sda".to_owned()]);
    planner.set(sweep, When::At(slot.opens), midnight);
    let mut now = midnight;
    loop {
        let decision = planner.decide(now);
        for start in decision.start {
            let hour = (now.since(midnight).as_secs() / 3600) as usize % busy.len();
            let load = if busy[hour] { 800.0 } else { 3.0 };
            let seen = Conditions { workload_iops: Some(load), peak_iops: Some(3000.0), ..idle() };
            match slot.offer(now, judge(&seen, None, &Thresholds::default())) {
                Offer::Begin { .. } => return Some(now),
                Offer::Again(at, reason) => {
                    assert_eq!(reason, Reason::Workload);
                    planner.finished(start.task);
                    planner.set(sweep, When::At(at), now);
                }
                Offer::Passed(_) => return None,
            }
        }
        now = planner.next(sweep)?;
    }
}

proptest! {
    /// Whichever twelve hours of the day are busy and whenever the slot opens: one sweep begins, in a quiet hour, before the next
    /// day's slot.
    #[test]
    fn a_day_that_is_half_busy_has_its_sweep(
        order in Just((0..24usize).collect::<Vec<_>>()).prop_shuffle(),
        opens in 0u64..86_400,
        again in 60u64..1800,
    ) {
        let mut busy = [false; 24];
        order[..12].iter().for_each(|hour| busy[*hour] = true);
        let opens = Duration::from_secs(opens);
        let began = lab_day(&busy, opens, Duration::from_secs(again));
        prop_assert!(began.is_some());
        let since = began.unwrap().since(Tick::from_nanos(1));
        prop_assert!(!busy[(since.as_secs() / 3600) as usize % 24]);
        prop_assert!(since >= opens && since < opens + 24 * HOUR);
    }
}

#[test]
fn a_day_that_is_busy_to_the_end_has_none_and_says_why() {
    assert_eq!(lab_day(&[true; 24], 3 * HOUR, HOUR), None);
    let slot = Slot { opens: Tick::from_nanos(0), closes: Tick::from_nanos(0) + HOUR, again: HOUR / 2 };
    let busy = Verdict::Skip(Reason::QueueDepth);
    assert_eq!(slot.offer(slot.opens, busy), Offer::Again(slot.opens + HOUR / 2, Reason::QueueDepth));
    assert_eq!(slot.offer(slot.opens + HOUR / 2, busy), Offer::Passed(Reason::QueueDepth));
    assert_eq!(slot.offer(slot.opens, Verdict::Shrink), Offer::Begin { light: true });
}
