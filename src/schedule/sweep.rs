//! When a sweep runs: it waits for its slot, is offered to the guard, opens, and goes cell by cell, with a look at the guard and the
//! budget before each and a rest after it. Pure: told the time and what the world is like, it says what to do next.

use std::time::Duration;

use super::calendar::Calendar;
use super::guard::{Slot, Verdict};
use crate::clock::Tick;
use crate::probe::sweep::Stopped;

/// Why probes pause and other sweeps wait.
pub const SWEEP: &str = "sweep";
/// Why a slot passed: the sweep before was still under way.
pub const RUNNING: &str = "running";

/// Why a slot passed: it was over before anybody could look.
pub const MISSED: &str = "missed";

/// How long a sweep that may not begin is offered again; less where the next one is due before.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// From one offer to the next at most.
const AGAIN: Duration = Duration::from_secs(60);
/// A large operation takes a credit for each of these, as EBS counts on its general purpose volumes.
const CREDIT: u64 = 256 << 10;

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// All cells were run, or left out for a reason of their own.
    Complete,
    /// Others needed the disk.
    Guard,
    /// The budget was spent.
    Budget,
    /// Somebody paused the target, changed its config or ended the daemon.
    Interrupt,
    /// The disk failed, or the files are not there.
    Error,
    /// The disk did not answer for too long.
    Stalled,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Complete, Self::Guard, Self::Budget, Self::Interrupt, Self::Error, Self::Stalled];

    /// As metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Guard => "guard",
            Self::Budget => "budget",
            Self::Interrupt => "interrupt",
            Self::Error => "error",
            Self::Stalled => "stalled",
        }
    }

    /// As it stands in the result; `None` where all was done.
    pub const fn stopped(self) -> Option<Stopped> {
        match self {
            Self::Complete => None,
            Self::Guard => Some(Stopped::Guard),
            Self::Budget => Some(Stopped::Budget),
            Self::Interrupt => Some(Stopped::Interrupt),
            Self::Error | Self::Stalled => Some(Stopped::Error),
        }
    }
}

/// A bucket of burst credits, given by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Credits a second that come back.
    pub rate: u32,
    /// Credits that it holds.
    pub capacity: u64,
}

impl Rest {
    /// How long to wait after a cell that took this much in this time: until what it took above the rate is earned back. Nobody can owe
    /// more than the bucket holds.
    pub fn after(&self, operations: u64, bytes: u64, took: Duration) -> Duration {
        let (rate, taken) = (f64::from(self.rate.max(1)), operations.max(bytes.div_ceil(CREDIT)) as f64);
        let above = (taken - rate * took.as_secs_f64()).clamp(0.0, self.capacity as f64);
        Duration::from_secs_f64(above / rate)
    }
}

/// What a target's sweeps go by.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// When; `None`: never.
    pub calendar: Option<Calendar>,
    /// How much later than that on this host and target.
    pub later: Duration,
    /// What is waited for after a cell.
    pub rest: Option<Rest>,
}

/// What the world is like.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Now.
    pub now: Tick,
    /// The same on the wall, since 1970.
    pub wall: Duration,
    /// Why there may be no sweep, whatever the guard says: the target is paused, not ready, or another sweep has the disk.
    pub held: Option<&'static str>,
    /// What the guard says.
    pub verdict: Verdict,
    /// Whether the budget allows it: before the sweep all of it, between cells the next one.
    pub budget: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    Wait,
    /// Take the disk, and have the lane open it. To be answered by [`Course::opened`] or [`Course::failed`].
    Open,
    /// Give the lane the next cell, by [`Course::began`]; where only a `light` one may run, leave out one that is not.
    Cell {
        /// Others are at work, but not much.
        light: bool,
    },
    /// Have the lane stop the cell that runs. It is told once.
    Stop(Stopped),
    /// Enter what there is, close, and give the disk back.
    End(Ending),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Opening,
    /// No cell runs, and none may before this instant.
    Between(Tick),
    /// Whether it was told to stop.
    Running(bool),
}

/// The course of a target's sweeps.
#[derive(Clone, Debug)]
pub struct Course {
    settings: Settings,
    stage: Stage,
    /// The slot that is waited for or used, in wall-clock time since 1970.
    slot: Option<Slot>,
    /// Before this time on the wall it is not offered again.
    again: Tick,
    /// Why it was not used when it was last offered.
    why: Option<&'static str>,
    ending: Option<Ending>,
    passed: Vec<(&'static str, u64)>,
}

impl Course {
    /// Its first sweep is the next one that is planned.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            stage: Stage::Waiting,
            slot: None,
            again: Tick::default(),
            why: None,
            ending: None,
            passed: Vec::new(),
        }
    }

    /// Goes by these from now on. A sweep that is under way ends.
    pub fn set(&mut self, settings: Settings) {
        if settings == self.settings {
            return;
        }
        self.settings = settings;
        if !self.is_on() {
            self.slot = None;
        }
        self.interrupt();
    }

    /// A sweep that is under way ends, with what it has: what it works on is to be another from now on.
    pub fn interrupt(&mut self) {
        if self.is_on() {
            self.ending = self.ending.or(Some(Ending::Interrupt));
        }
    }

    /// Whether a sweep is under way.
    pub fn is_on(&self) -> bool {
        self.stage != Stage::Waiting
    }

    /// Whether a cell runs.
    pub fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    /// When the next sweep is planned, in wall-clock time since 1970; one whose slot is open and that may not begin is planned since then.
    pub fn next(&self) -> Option<Duration> {
        let planned =
            self.slot.filter(|_| !self.is_on()).map(|slot| Duration::from_nanos(slot.opens.nanos()));
        planned.or_else(|| self.after(self.slot.map(|slot| slot.opens).unwrap_or_default()))
    }

    /// Why the slot that is open is not used.
    pub fn why(&self) -> Option<&'static str> {
        self.why.filter(|_| !self.is_on())
    }

    /// Slots that passed unused since this was last asked, and why.
    pub fn take_passed(&mut self) -> Vec<(&'static str, u64)> {
        std::mem::take(&mut self.passed)
    }

    /// What to do now.
    pub fn look(&mut self, world: &World) -> Order {
        match self.stage {
            Stage::Waiting => self.wait(world),
            Stage::Opening => self.stop(world),
            Stage::Running(false) => match self.stop(world) {
                Order::Stop(why) => {
                    self.stage = Stage::Running(true);
                    Order::Stop(why)
                }
                other => other,
            },
            Stage::Running(true) => Order::Wait,
            Stage::Between(until) => match self.ending.or_else(|| against(world)) {
                Some(ending) => Order::End(ending),
                None if world.now < until => Order::Wait,
                None if !world.budget => Order::End(Ending::Budget),
                None => Order::Cell { light: world.verdict == Verdict::Shrink },
            },
        }
    }

    fn wait(&mut self, world: &World) -> Order {
        let now = on_the_wall(world.wall);
        let slot = match self.slot {
            Some(slot) if slot.closes > now => slot,
            Some(slot) => {
                // Nobody asked in time: we were stopped, or the clock was set.
                self.pass(self.why.unwrap_or(MISSED), slot, now);
                return Order::Wait;
            }
            None => {
                self.plan(now);
                return Order::Wait;
            }
        };
        if now < slot.opens.max(self.again) {
            return Order::Wait;
        }
        let why = match (world.held, world.verdict) {
            (Some(why), _) => why,
            (None, _) if !world.budget => super::budget::BUDGET,
            (None, Verdict::Skip(reason)) => reason.label(),
            (None, Verdict::Run | Verdict::Shrink) => {
                (self.stage, self.ending, self.why) = (Stage::Opening, None, None);
                return Order::Open;
            }
        };
        self.why = Some(why);
        match slot.later(now) {
            Some(again) => self.again = again,
            None => self.pass(why, slot, now),
        }
        Order::Wait
    }

    fn stop(&mut self, world: &World) -> Order {
        match self.ending.or_else(|| against(world)) {
            Some(ending) if self.ending != Some(ending) || self.is_running() => {
                self.ending = Some(ending);
                ending.stopped().map_or(Order::Wait, Order::Stop)
            }
            _ => Order::Wait,
        }
    }

    /// The disk is open.
    pub fn opened(&mut self, now: Tick) {
        if self.stage == Stage::Opening {
            self.stage = Stage::Between(now);
        }
    }

    /// It could not be opened, or the lane had no result: the sweep ends.
    pub fn failed(&mut self, now: Tick) {
        if self.is_on() {
            self.ending = self.ending.or(Some(Ending::Error));
            self.stage = Stage::Between(now);
        }
    }

    /// A cell was given to the lane.
    pub fn began(&mut self) {
        self.stage = Stage::Running(false);
    }

    /// The cell is back: what it took of the disk, and for how long. `stopped`: why before its time.
    pub fn done(&mut self, operations: u64, bytes: u64, took: Duration, stopped: Option<Stopped>, now: Tick) {
        if !self.is_running() {
            return;
        }
        let ending = match stopped {
            None | Some(Stopped::Cut) => None,
            Some(Stopped::Guard) => Some(Ending::Guard),
            Some(Stopped::Budget) => Some(Ending::Budget),
            Some(Stopped::Interrupt) => Some(Ending::Interrupt),
            Some(Stopped::Error) => Some(Ending::Error),
        };
        self.ending = self.ending.or(ending);
        let rest = self.settings.rest.map_or(Duration::ZERO, |rest| rest.after(operations, bytes, took));
        self.stage = Stage::Between(now + rest);
    }

    /// There are no more cells.
    pub fn complete(&mut self, now: Tick) {
        self.ending = self.ending.or(Some(Ending::Complete));
        self.stage = Stage::Between(now);
    }

    /// The disk does not answer: nobody waits for it, and what there is is all there will be.
    pub fn stalled(&mut self, now: Tick) {
        if self.is_on() {
            self.ending = Some(Ending::Stalled);
            self.stage = Stage::Between(now);
        }
    }

    /// The sweep is over, and the next one is waited for.
    pub fn ended(&mut self, wall: Duration) {
        (self.stage, self.ending) = (Stage::Waiting, None);
        let now = on_the_wall(wall);
        let used = self.slot.take().map_or(now, |slot| slot.opens);
        self.skip_to(used, now, RUNNING);
    }

    fn pass(&mut self, why: &'static str, slot: Slot, now: Tick) {
        self.passed.push((why, 1));
        self.skip_to(slot.opens, now, why);
    }

    /// Plans the next after `used`, the ones that began since then passed over.
    fn skip_to(&mut self, used: Tick, now: Tick, why: &'static str) {
        let began = |from: &Tick| *from <= now;
        let since = std::iter::successors(self.after(used).map(on_the_wall), |last| {
            self.after(*last).map(on_the_wall)
        });
        let passed = since.take_while(began).take(MOST_PASSED).count() as u64;
        if passed > 0 {
            self.passed.push((why, passed));
        }
        self.why = None;
        self.plan(used.max(now));
    }

    /// The slot that opens next after `from`.
    fn plan(&mut self, from: Tick) {
        self.slot = self.after(from).map(|opens| {
            let opens = on_the_wall(opens);
            let next = self.after(opens).map_or(opens + PATIENCE, on_the_wall);
            let closes = next.min(opens + PATIENCE);
            Slot { opens, closes, again: AGAIN.min(closes.since(opens) / 10) }
        });
        self.again = Tick::default();
    }

    /// The first planned instant after this time on the wall.
    fn after(&self, from: Tick) -> Option<Duration> {
        let from = Duration::from_nanos(from.nanos()).saturating_sub(self.settings.later);
        Some(self.settings.calendar.as_ref()?.next(from)? + self.settings.later)
    }
}

/// A week of minutes: after a longer gap the count says no more.
const MOST_PASSED: usize = 10_080;

/// What speaks against a sweep that is under way.
fn against(world: &World) -> Option<Ending> {
    match (world.held, world.verdict) {
        (Some(_), _) => Some(Ending::Interrupt),
        (None, Verdict::Skip(_)) => Some(Ending::Guard),
        (None, _) => None,
    }
}

/// Time since 1970 on the axis of a slot.
fn on_the_wall(wall: Duration) -> Tick {
    Tick::default() + wall
}

#[cfg(test)]
mod tests;
