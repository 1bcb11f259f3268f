//! Drives the sweeps: asks each target's course what is to be done, holds its disks, hands cells to its lane, charges what they cost
//! and enters what they found. It never waits for a disk: what does not answer is given up, and its lane comes back in its own time.

mod giving_back;

use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::sampler::Seen;
use super::seats::Key;
use super::sweeping::{self, Sweeping};
use super::target::PAUSED;
use super::work::Work;
use crate::clock::{self, Tick};
use crate::config::TargetPlan;
use crate::probe::sweep::{Left, Stopped, Sweep, SweepGround, Watch};
use crate::probe::{Cost, Spent};
use crate::record::Last;
use crate::schedule::guard::Verdict;
use crate::schedule::sweep::{Ending, Order, RUNNING, SWEEP, World};
use crate::schedule::{Job, Report, Start, When};
use crate::units::Bytes;

/// Why a sweep waits: there is no laid-out read file, or the target is in trouble.
pub(super) const NOT_READY: &str = "not_ready";
/// Why a sweep waits: other sweeps have the buffers.
pub(super) const MEMORY: &str = "memory";

impl Control {
    /// The target is swept by its plan from now on, or never.
    pub(super) fn plan_sweeps(&mut self, key: Key, config: &TargetPlan) {
        let seed = self.seed(&config.name);
        match (&config.sweep, self.sweeps.get_mut(&key)) {
            (Some(plan), Some(sweeping)) => {
                if sweeping.leaving.take().is_some() {
                    sweeping.results = self.keeper.sweeps.take(&config.name);
                }
                sweeping.set(plan, seed);
            }
            (Some(plan), None) => {
                let mut sweeping = Sweeping::new(plan, seed);
                sweeping.results = self.keeper.sweeps.take(&config.name);
                self.sweeps.insert(key, sweeping);
            }
            (None, Some(_)) => self.drop_sweeps(key),
            (None, None) => {}
        }
    }

    /// What was kept is there only now: it is taken up where nothing newer is known.
    pub(super) fn restore_sweeps(&mut self) {
        let names: Vec<(Key, String)> =
            self.targets.iter().map(|(key, target)| (*key, target.name.clone())).collect();
        for (key, name) in names {
            if let Some(sweeping) = self.sweeps.get_mut(&key).filter(|sweeping| sweeping.results.is_none()) {
                sweeping.results = self.keeper.sweeps.take(&name);
            }
        }
    }

    /// A latency probe has done so much on the disks of this target.
    pub(super) fn account(&mut self, key: Key, operations: f64, bytes: f64) {
        let Some(disks) = self.targets.get(&key).map(|target| target.disks().to_vec()) else { return };
        for (other, sweeping) in &mut self.sweeps {
            let shares =
                self.targets.get(other).is_some_and(|t| t.disks().iter().any(|disk| disks.contains(disk)));
            if shares {
                sweeping.ours.operations += operations as u64;
                sweeping.ours.bytes += bytes;
            }
        }
    }

    /// Looks at all sweeps, once a second.
    pub(super) fn look_at_sweeps(&mut self, seen: &Arc<Seen>) {
        self.seen = Arc::clone(seen);
        self.look_for_what_is_stuck();
        for key in self.sweeps.keys().copied().collect::<Vec<_>>() {
            self.see(key);
            self.drive(key);
        }
        let watched =
            self.sweeps.iter().filter_map(|(key, s)| Some((*key, Arc::clone(&s.now.as_ref()?.watch))));
        let watched: Vec<(Key, Arc<Watch>)> = watched.collect();
        if watched.len() != self.watched || !watched.is_empty() {
            self.watched = watched.len();
            self.sampling.watch(watched.into());
        }
    }

    fn see(&mut self, key: Key) {
        let Some((sweeping, target)) = self.sweeps.get_mut(&key).zip(self.targets.get(&key)) else { return };
        let Some(device) = target.found().and_then(sweeping::witness) else { return };
        if let Some((at, done)) = sweeping::done(&self.seen.view, device) {
            let amplification = target.amplification(sweeping.now.as_ref().and_then(|now| now.cell));
            sweeping.see(at, done, self.seen.moved(key), amplification);
        }
    }

    /// Does what the course of this target's sweeps says.
    pub(super) fn drive(&mut self, key: Key) {
        for _ in 0..MOST_ORDERS {
            let Some(world) = self.world(key) else { return };
            let Some(sweeping) = self.sweeps.get_mut(&key).filter(|s| s.leaving.is_none()) else { return };
            match sweeping.course.look(&world) {
                Order::Wait => break,
                Order::Open => self.open_sweep(key, &world),
                Order::Cell { light } => self.next_cell(key, light, world.now),
                Order::Stop(why) => {
                    sweeping.now.iter().for_each(|now| now.watch.stop(why));
                    break;
                }
                Order::End(ending) => self.end_sweep(key, ending, world.now, world.wall),
            }
        }
        self.show_sweeps(key);
    }

    fn show_sweeps(&mut self, key: Key) {
        let left = self.purse.sweeps_left(key, clock::wall());
        let Some((sweeping, target)) = self.sweeps.get_mut(&key).zip(self.targets.get(&key)) else { return };
        sweeping.count_passed(&target.name);
        self.book.set_sweeps(target.id, Some(sweeping.view(left)));
    }

    fn world(&mut self, key: Key) -> Option<World> {
        let (now, wall) = (clock::now(), clock::wall());
        if !self.sweeps.get(&key)?.is_due(wall) {
            // All that counts is the time.
            return Some(World { now, wall, held: None, verdict: Verdict::Run, budget: true });
        }
        let held = self.held(key);
        let target = self.targets.get(&key)?;
        let sweeping = self.sweeps.get_mut(&key)?;
        let device = target.is_device();
        let verdict =
            sweeping.verdict(&self.seen.view, target.is_read_only(), target.config.baseline_iops, now);
        let bill = sweeping.bill(device);
        let budget = self.purse.allows(key, bill, wall);
        Some(World { now, wall, held, verdict, budget })
    }

    /// Why there may be no sweep of this target now, whatever the guard says.
    fn held(&self, key: Key) -> Option<&'static str> {
        let (sweeping, target) = self.sweeps.get(&key).zip(self.targets.get(&key))?;
        if target.pause_left(clock::now()).is_some() || self.draining {
            return Some(PAUSED);
        }
        if sweeping.course.is_on() {
            return None;
        }
        if sweeping.closing || sweeping.seat.is_some_and(|(lane, _)| self.seats.out(lane).is_some()) {
            return Some(RUNNING);
        }
        if target.sweepable().is_none() {
            return Some(NOT_READY);
        }
        if let Some(why) = self.planner.holder_of(target.disks(), sweeping.seat.map(|(_, task)| task)) {
            return Some(why);
        }
        let taken: u64 = self.sweeps.values().map(|sweeping| sweeping.memory.get()).sum();
        let wanted = sweeping.needs(self.memory).get();
        (taken > 0 && taken + wanted > self.memory.get()).then_some(MEMORY)
    }

    fn open_sweep(&mut self, key: Key, world: &World) {
        if let Err(why) = self.try_open_sweep(key, world) {
            let name = self.targets.get(&key).map(|target| target.name.as_str()).unwrap_or_default();
            tracing::error!(name, reason = why, "a sweep cannot begin");
            self.sweeps.get_mut(&key).into_iter().for_each(|s| s.course.failed(world.now));
        }
    }

    fn try_open_sweep(&mut self, key: Key, world: &World) -> Result<(), String> {
        let target = self.targets.get(&key).ok_or("the target is gone")?;
        let place = target.sweepable().ok_or("there is nothing to sweep")?;
        let (spec, disks) = (Arc::clone(target.spec()), target.disks().to_vec());
        let (name, device, baseline) = (target.name.clone(), target.is_device(), target.config.baseline_iops);
        let seed = self.seed(&name);
        let seat = match self.sweeps.get(&key).and_then(|s| s.seat) {
            Some(seat) => seat,
            None => {
                let lane = self.seats.take_sweeper(key, &spec, seed).map_err(|e| e.to_string())?;
                let task = self.planner.add(lane, seed.wrapping_add(Work::Sweep as u64));
                self.works.insert(task, (key, Work::Sweep));
                (lane, task)
            }
        };
        let (memory, sweeping) = (self.memory, self.sweeps.get_mut(&key).ok_or("its sweeps are gone")?);
        sweeping.seat = Some(seat);
        if self.seats.out(seat.0).is_some() {
            return Err("the lane of a sweep before does not answer".to_owned());
        }
        self.planner.set_devices(seat.1, &disks);
        if !self.planner.seize(seat.1, SWEEP) {
            return Err("another sweep holds the disk".to_owned());
        }
        let memory: Bytes = sweeping.needs(memory);
        let ground = SweepGround { place, file_size: None, memory, watch: Arc::default() };
        sweeping.begin(ground, device, baseline, world.now, world.wall);
        tracing::info!(name, preset = %sweeping.plan.preset, "a sweep begins; the probes on its disk pause");
        self.planner.set(seat.1, When::At(world.now), world.now);
        Ok(())
    }

    fn next_cell(&mut self, key: Key, light: bool, now: Tick) {
        let Some(sweeping) = self.sweeps.get_mut(&key) else { return };
        let ceiling = sweeping.plan.ceiling.get();
        let more = sweeping.now.as_mut().is_some_and(|sweep| sweep.take_cell(light, ceiling, now));
        match (more, sweeping.seat) {
            (true, Some((_, task))) => {
                sweeping.course.began();
                self.planner.set(task, When::At(now), now);
            }
            _ => sweeping.course.complete(now),
        }
    }

    /// Gives the lane of a sweep its next job; `false` when there is none.
    pub(super) fn start_sweep(&mut self, key: Key, start: Start) -> bool {
        let Some(sweeping) = self.sweeps.get_mut(&key) else { return false };
        let Some((lane, task)) = sweeping.seat else { return false };
        let job = match &mut sweeping.now {
            Some(now) => now.job.take(),
            None => sweeping.closing.then_some(Job::Close),
        };
        let Some(job) = job else { return false };
        let spec = self.targets.get(&key).map(|target| Arc::clone(target.spec()));
        let new = spec.filter(|spec| sweeping.told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, spec)));
        sweeping.told = new.clone().or(sweeping.told.take());
        let given = self.seats.give(lane, new, job, start.task);
        if given {
            // From here on, not from when it was planned: the disk may have been waited for.
            sweeping.now.iter_mut().for_each(|now| now.started(clock::now()));
        } else {
            tracing::error!(task = ?task, "a sweeping lane takes no job");
            sweeping.course.failed(clock::now());
        }
        given
    }

    /// Takes in what the lane of a sweep says.
    pub(super) fn sweep_report(&mut self, key: Key, report: Report, spent: &Spent) {
        let now = clock::now();
        self.charge_report(key, &report, spent, now);
        if let (Report::Panicked(message), Some(target)) = (&report, self.targets.get(&key)) {
            tracing::error!(name = target.name, message, "a lane panicked; it goes on with a new worker");
            self.book.lane_panicked(target.id);
            target.plan.inflight.clear_crew();
        }
        if self.sweeps.get(&key).is_some_and(|sweeping| sweeping.now.is_none()) {
            self.sweep_is_over(key, &report, now);
            return;
        }
        let Some((sweeping, target)) = self.sweeps.get_mut(&key).zip(self.targets.get(&key)) else { return };
        let Some(sweep) = &mut sweeping.now else { return };
        match report {
            Report::SweepReady(ready) => {
                sweep.ready = Some(*ready);
                sweeping.course.opened(now);
            }
            Report::Cell(cell) => {
                let (operations, bytes) = taken(&cell.cost);
                let stopped = match &cell.outcome {
                    Ok(result) => result.stopped,
                    Err(Left::Skipped(_)) => sweep.watch.stopped(),
                    Err(Left::Failed(trouble)) => {
                        let reason = trouble.failure.message.as_str();
                        tracing::warn!(name = target.name, cell = %cell.cell, reason, "a sweep's cell failed");
                        Some(Stopped::Error)
                    }
                };
                let took = sweep.done(*cell, now).unwrap_or_default();
                sweeping.course.done(operations, bytes, took, stopped, now);
            }
            Report::Failed(trouble) => {
                tracing::warn!(name = target.name, reason = trouble.failure.message, "a sweep failed");
                sweeping.course.failed(now);
            }
            _ => sweeping.course.failed(now),
        }
        self.drive(key);
    }

    fn charge_report(&mut self, key: Key, report: &Report, spent: &Spent, now: Tick) {
        if !self.targets.contains_key(&key) {
            let task = self.sweeps.get(&key).and_then(|sweeping| sweeping.seat);
            task.into_iter().for_each(|(_, task)| self.purse.charge_late(task, report, now, clock::wall()));
            return;
        }
        if let Report::Cell(cell) = report {
            self.charge_sweep(key, &cell.cost, cell.cell.pattern.commits());
        }
        self.charge_sweep(key, &spent.reads, false);
    }

    fn charge_sweep(&mut self, key: Key, cost: &Cost, commits: bool) {
        if *cost == Cost::default() {
            return;
        }
        self.purse.charge_sweep(key, cost, commits, clock::wall());
        if let Some(sweeping) = self.sweeps.get_mut(&key) {
            let all = &mut sweeping.cost;
            all.reads += cost.reads;
            all.read_bytes += cost.read_bytes;
            all.writes += cost.writes;
            all.written_bytes += cost.written_bytes;
            all.syncs += cost.syncs;
        }
    }

    fn end_sweep(&mut self, key: Key, ending: Ending, at: Tick, wall: Duration) {
        let Some((sweeping, target)) = self.sweeps.get_mut(&key).zip(self.targets.get(&key)) else { return };
        sweeping.endings[ending as usize] += 1;
        sweeping.course.ended(wall);
        // One that could not even be begun leaves what is known of the one before.
        let Some(mut now) = sweeping.now.take() else { return };
        sweeping.last = sweeping.last.map(|last| Last { ended: Some((wall, ending)), ..last });
        now.watch.stop(ending.stopped().unwrap_or(Stopped::Interrupt));
        let amplification = target.amplification(now.cell);
        sweeping.account(Some(now.watch.moved()), amplification);
        if ending == Ending::Stalled {
            now.leave_out_the_rest("stalled", "not run: the disk did not answer");
        }
        let (began, seconds) = (now.began_wall, at.since(now.began).as_secs_f64());
        let about =
            super::about::about(&target.plan.path, target.found(), now.ready.as_ref(), began, seconds);
        let sweep = now.finish().finish(about, ending.stopped());
        let kept = sweeping.keep(&sweep, wall);
        say(&target.name, ending, &sweep, kept);
        if kept {
            self.keeper.sweeps.keep(&target.name, &sweep, wall);
        }
        self.close_sweep(key, ending, at);
    }

    /// The daemon ends: what sweeps have so far is all there will be.
    pub(super) fn stop_sweeps(&mut self) {
        for key in self.sweeps.keys().copied().collect::<Vec<_>>() {
            self.drive(key);
        }
    }
}

/// Longer than any course goes on without waiting.
const MOST_ORDERS: usize = 8;

/// Operations and bytes that the disk was asked for.
fn taken(cost: &Cost) -> (u64, u64) {
    (cost.reads + cost.writes, cost.read_bytes + cost.written_bytes)
}

fn say(name: &str, ending: Ending, sweep: &Sweep, kept: bool) {
    let (cells, skipped) = (sweep.cells.len(), sweep.skipped.len());
    // From its beginning to its end, as the lines of the log have them.
    let seconds = (sweep.seconds * 100.0).round() / 100.0;
    if ending == Ending::Complete {
        tracing::info!(name, cells, skipped, seconds, "a sweep is complete");
    } else {
        let shown =
            if kept { "what it found is shown, as partial" } else { "the last complete one stays shown" };
        tracing::warn!(
            name,
            result = ending.label(),
            cells,
            skipped,
            seconds,
            "a sweep was stopped; {shown}"
        );
    }
}
