//! Full measurements by a schedule: when, how much they take, and whether that fits what they may.

use crate::probe::sweep::{Demand, Plan, Preset};
use crate::schedule::budget::Limit;
use crate::schedule::calendar::{self, Calendar};
use crate::schedule::guard::Thresholds;
use crate::schedule::sweep::Rest;
use crate::units::{Bytes, Span};

use super::TargetPlan;
use super::budget::ROOM;
use super::raw::{RawGuard, RawRest, RawSweep};
use super::resolve::{Fault, fault};
use super::section::Section;
use super::word;
use super::yaml::Place;

/// What a disk is taken to do at most, where what a cell takes depends on it: operations and bytes a second.
pub const ASSUMED: (f64, f64) = (100_000.0, (1u64 << 30) as f64);

const LONGEST_SPREAD: Span = Span::seconds(12 * 3600);
const CEILING: (Span, Span) = (Span::millis(1), Span::seconds(3600));

/// When a target is measured in full, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPlan {
    /// What is measured.
    pub preset: Preset,
    /// When; `None`: never.
    pub calendar: Option<Calendar>,
    /// Each host and target is later by a part of this that is its own.
    pub spread: Span,
    /// A cell whose mean latency passes this is cut short.
    pub ceiling: Span,
    /// What is waited for between cells.
    pub rest: Option<Rest>,
    /// When others need the disk more.
    pub guard: Thresholds,
}

impl SweepPlan {
    /// What a sweep does; a block device is only read.
    pub fn cells(&self, device: bool) -> Plan {
        let plan = Plan { ceiling: Some(self.ceiling.get()), ..Plan::from(self.preset) };
        if device { plan.for_reads_alone() } else { plan }
    }

    /// The most that the sweeps of one day take, and how many they are. Where that depends on the disk, it is taken to be as quick as
    /// [`ASSUMED`].
    pub fn a_day(&self, device: bool) -> (Demand, usize) {
        let times = self.calendar.as_ref().map_or(0, Calendar::most_in_a_day);
        let (one, mut all) = (self.cells(device).demand(ASSUMED), Demand::default());
        (0..times).for_each(|_| all += one);
        (all, times)
    }
}

/// What sweeps may take in a day where the file says nothing: what one `nightly` does. It does not grow with the schedule, so that
/// nobody writes more than that by a slip in a cron field.
fn one_night(device: bool) -> Demand {
    let plan = Plan::from(Preset::Nightly);
    if device { plan.for_reads_alone() } else { plan }.demand(ASSUMED)
}

impl TargetPlan {
    /// What its sweeps may write and read in a day at its disk: as the file says, else twice what one `nightly` needs, so that one that
    /// came late does not keep the next from coming early.
    pub fn sweep_limits(&self, device: bool) -> [Limit; 2] {
        let night = one_night(device);
        let limit = |written: Option<Bytes>, needs: u64| match written {
            Some(bytes) => Limit::Written(bytes.get() as f64),
            None => Limit::Default(needs as f64 * ROOM),
        };
        [
            limit(self.budget.sweep_write_per_day, night.written_bytes),
            limit(self.budget.sweep_read_per_day, night.read_bytes),
        ]
    }
}

pub(super) fn resolve(raw: RawSweep, at: &Place) -> Result<SweepPlan, Fault> {
    let zone = calendar::time_zone(raw.time_zone.as_deref()).or_else(|known| {
        no_zone(raw.time_zone.as_deref().unwrap_or_default(), &known, at.key("time_zone"))
    })?;
    let calendar = raw.schedule.map(|text| Calendar::new(&text, zone)).transpose();
    let calendar = calendar.or_else(|why| fault(at.key("schedule"), why))?;
    if raw.spread > LONGEST_SPREAD {
        return fault(
            at.key("spread"),
            format!("`{}` is out of range; write a time from 0s to 12h", raw.spread),
        );
    }
    if !(CEILING.0..=CEILING.1).contains(&raw.ceiling) {
        return fault(
            at.key("ceiling"),
            format!("`{}` is out of range; write a time from 1ms to 1h", raw.ceiling),
        );
    }
    let rest = raw.rest.map(|Section(raw)| rest(&raw, &at.key("rest"))).transpose()?;
    let guard = guard(&raw.guard.0, &at.key("guard"))?;
    Ok(SweepPlan { preset: raw.preset, calendar, spread: raw.spread, ceiling: raw.ceiling, rest, guard })
}

fn no_zone<T>(name: &str, known: &[String], at: Place) -> Result<T, Fault> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let near = word::nearest(name, &known).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    fault(at, format!("`{name}` is no time zone; {near}write a name such as `Europe/Berlin` or `UTC`"))
}

fn rest(raw: &RawRest, at: &Place) -> Result<Rest, Fault> {
    if !(1..=100_000_000).contains(&raw.rate) {
        let message = format!("`{}` is out of range; write a number from 1 to 100000000", raw.rate);
        return fault(at.key("rate"), message);
    }
    if !(1..=1_000_000_000_000).contains(&raw.capacity) {
        let message = format!("`{}` is out of range; write a number from 1 to 1000000000000", raw.capacity);
        return fault(at.key("capacity"), message);
    }
    Ok(Rest { rate: raw.rate, capacity: raw.capacity })
}

fn guard(raw: &RawGuard, at: &Place) -> Result<Thresholds, Fault> {
    let RawGuard { workload_share, workload_iops, queue_depth, io_pressure } = *raw;
    let parts = [
        ("workload_share", workload_share, 1.0),
        ("workload_iops", workload_iops, f64::MAX),
        ("queue_depth", queue_depth, f64::MAX),
        ("io_pressure", io_pressure, 1.0),
    ];
    for (key, value, most) in parts {
        if !(value > 0.0 && value <= most) {
            let right = if most == 1.0 { "above 0, at most 1" } else { "above 0" };
            return fault(at.key(key), format!("`{value}` is out of range; write a number {right}"));
        }
    }
    Ok(Thresholds { workload_share, workload_iops, queue_depth, io_pressure })
}

/// A sweep that could never run must not look like one that does.
pub(super) fn fits(plan: &TargetPlan, at: &Place) -> Result<(), Fault> {
    let Some(sweep) = &plan.sweep else { return Ok(()) };
    let Some(calendar) = &sweep.calendar else { return Ok(()) };
    if plan.read.is_none() {
        return fault(
            at.key("sweep"),
            "sweeps read and write the file of the read probe, and `read` is off; turn one of them round",
        );
    }
    in_time(sweep, calendar, &at.key("sweep").key("schedule"))?;
    in_budget(plan, sweep, at)
}

/// Each must be over before the next is due.
fn in_time(sweep: &SweepPlan, calendar: &Calendar, at: &Place) -> Result<(), Fault> {
    let takes = sweep.cells(false).demand(ASSUMED).time;
    match calendar.least_apart() {
        Some(apart) if takes > apart => {
            let (takes, apart) = (Span::from(takes), Span::from(apart));
            let message = format!(
                "`{}` comes each {apart}, and a sweep of `{}` takes up to {takes}; write a schedule that comes less often, as in \
                 `30 3 * * *`",
                calendar.text(),
                sweep.preset,
            );
            fault(at.clone(), message)
        }
        _ => Ok(()),
    }
}

fn in_budget(plan: &TargetPlan, sweep: &SweepPlan, at: &Place) -> Result<(), Fault> {
    let ((needs, times), night, budget) = (sweep.a_day(false), one_night(false), &plan.budget);
    let often = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    let parts = [
        (
            "sweep_write_per_day",
            budget.sweep_write_per_day,
            needs.written_bytes,
            night.written_bytes,
            "write",
        ),
        ("sweep_read_per_day", budget.sweep_read_per_day, needs.read_bytes, night.read_bytes, "read"),
    ];
    for (key, written, needs, _, verb) in parts {
        if let Some(limit) = written.filter(|limit| limit.get() < needs) {
            let message = format!(
                "`{limit}` is too little for `sweep`: `{}` {often} in a day may {verb} {}; write at least that, or a smaller preset, or a \
                 schedule that comes less often",
                sweep.preset,
                to_copy(needs),
            );
            return fault(at.key("budget").key(key), message);
        }
    }
    let more = parts.iter().filter(|(_, written, needs, night, _)| written.is_none() && needs > night);
    let (may, missing): (Vec<_>, Vec<_>) = more
        .map(|(key, _, needs, _, verb)| {
            (format!("{verb} {}", to_copy(*needs)), format!("`{key}: {}`", to_copy(*needs)))
        })
        .unzip();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "`{}` {often} in a day may {}, and without a word in `budget` sweeps take no more than one `nightly` does; write {} there, or a \
         smaller preset, or a schedule that comes less often",
        sweep.preset,
        may.join(" and "),
        missing.join(" and "),
    );
    fault(at.key("sweep"), message)
}

/// In whole MiB or GiB and no less, so that what is copied is enough.
fn to_copy(bytes: u64) -> String {
    let (unit, name) = if bytes > 100 << 30 { (1 << 30, "GiB") } else { (1 << 20, "MiB") };
    format!("{}{name}", bytes.div_ceil(unit))
}
