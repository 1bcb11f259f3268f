//! The timed loop of a sweep: keeps a depth of operations outstanding. Per wake it drains all that is ready under one stamp, puts as
//! many new ones on their way, and only then looks at what came. Allocates nothing.

mod timed;

use std::sync::Arc;
use std::time::Duration;

use super::super::Way;
use super::content::Inspection;
use super::course::{Course, Leg, Phase};
use super::extent::Cursor;
use super::tally::{Recorder, Sample};
use crate::clock::{self, Tick};
use crate::io::{Completion, Direction, Engine, Inflight, Op, Request};
use crate::probe::{Cost, Stage, Trouble};
use crate::sys::Errno;

/// How often the age of the oldest operation is shown anew.
const SHOW_EVERY: Duration = Duration::from_millis(1);

/// One stream of a thread.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// What it does: reads or writes.
    pub(super) way: Way,
    /// Bytes of an operation.
    pub(super) block: u32,
    /// Of a hundred operations, how many are its.
    pub(super) percent: u8,
    /// Where they go.
    pub(super) cursor: Cursor,
    /// What is recorded.
    pub(super) recorder: Recorder<'a>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    line: usize,
    offset: u64,
    since: Option<Tick>,
    /// When it was to begin, which may be before it could.
    due: Option<Tick>,
}

/// What came back at a wake.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    now: Tick,
    good: u64,
    bytes: u64,
    nanos: u64,
}

/// Keeps the depth.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    engine: Box<dyn Engine>,
    course: Arc<Course>,
    leg: Leg,
    inflight: &'a Inflight,
    lines: Vec<Line<'a>>,
    inspection: Inspection,
    depth: u16,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Slots that hold what is written next, with its place.
    prepared: Vec<u16>,
    /// How many of these there are to be.
    to_prepare: usize,
    /// What came back, and of which line each is.
    done: Vec<Completion>,
    lines_of_done: Vec<usize>,
    /// When each of them was to begin, where that was due at an instant.
    due_of_done: Vec<Option<Tick>>,
    /// One that was read and is to be looked at.
    kept: Option<u16>,
    random: fastrand::Rng,
    over: bool,
    shown: Tick,
    cost: Cost,
}

impl<'a> Keeper<'a> {
    /// Keeps `depth` outstanding of an engine that may have slots beside them. Prepares what is written first.
    pub(super) fn new(
        engine: Box<dyn Engine>,
        depth: u16,
        lines: Vec<Line<'a>>,
        inspection: Inspection,
        (course, leg): (Arc<Course>, Leg),
        inflight: &'a Inflight,
        random: fastrand::Rng,
    ) -> Self {
        let slots = usize::from(engine.depth());
        let reads_alone = lines.iter().all(|line| line.way == Way::Read);
        let mut keeper = Self {
            engine,
            course,
            leg,
            inflight,
            lines,
            inspection,
            depth,
            slots: vec![Slot::default(); slots],
            free: (0..slots as u16).rev().collect(),
            prepared: Vec::with_capacity(slots),
            to_prepare: if reads_alone { 0 } else { slots },
            done: Vec::with_capacity(slots),
            lines_of_done: Vec::with_capacity(slots),
            due_of_done: Vec::with_capacity(slots),
            kept: None,
            random,
            over: false,
            shown: Tick::default(),
            cost: Cost::default(),
        };
        for slot in (0..keeper.to_prepare).filter_map(|slot| u16::try_from(slot).ok()) {
            if let Some(bytes) = keeper.engine.buffer(slot) {
                keeper.random.fill(bytes);
            }
        }
        keeper.prepare();
        keeper.to_prepare = keeper.to_prepare.min(slots.saturating_sub(usize::from(depth)).max(1));
        keeper
    }

    /// Until the course is over and all is back.
    pub(super) fn keep(&mut self) {
        let now = clock::now();
        self.fill(now);
        // A file system that is frozen keeps the very first submit.
        self.show_oldest(now);
        self.engine.flush();
        while self.engine.outstanding() > 0 {
            let batch = self.reap();
            let phase = self.pass(batch);
            if phase.go_on {
                self.fill(batch.now);
            }
            if self.kept.is_some() || self.prepared.len() < self.to_prepare {
                self.engine.flush();
            }
            self.record(phase);
            self.look();
            self.prepare();
            self.show_oldest(batch.now);
        }
        self.close();
    }

    /// What it cost, what the looks at the content found, and the window's ends.
    pub(super) fn end(self) -> (Cost, Inspection, Option<(Tick, Tick)>) {
        (self.cost, self.inspection, self.leg.window())
    }

    /// As many as are missing from the depth.
    fn fill(&mut self, now: Tick) {
        while !self.over && self.engine.outstanding() < self.depth && self.issue(now) {}
    }

    fn issue(&mut self, now: Tick) -> bool {
        self.issue_due(now, None)
    }

    fn issue_due(&mut self, now: Tick, due: Option<Tick>) -> bool {
        let line = self.draw_line();
        let Some(slot) = self.slot_for(line) else { return false };
        let Slot { offset, .. } = self.slots[usize::from(slot)];
        let direction = if self.lines[line].way == Way::Read { Direction::Read } else { Direction::Write };
        (self.slots[usize::from(slot)].since, self.slots[usize::from(slot)].due) = (Some(now), due);
        match self.engine.queue(Request { direction, slot, offset, len: self.lines[line].block }) {
            Ok(()) => true,
            Err(e) => {
                self.fail(line, offset, e);
                false
            }
        }
    }

    fn draw_line(&mut self) -> usize {
        if self.lines.len() < 2 {
            return 0;
        }
        let mut drawn = self.random.u8(0..100);
        for (at, line) in self.lines.iter().enumerate() {
            if drawn < line.percent {
                return at;
            }
            drawn -= line.percent;
        }
        0
    }

    /// A slot that is ready for an operation of this line.
    fn slot_for(&mut self, line: usize) -> Option<u16> {
        if self.lines[line].way != Way::Read {
            return self.prepared.pop().or_else(|| {
                let slot = self.free.pop()?;
                self.prepare_one(slot);
                Some(slot)
            });
        }
        let slot = self.free.pop().or_else(|| {
            // What was prepared in it is not written.
            let slot = self.prepared.pop()?;
            let Slot { line, offset, .. } = self.slots[usize::from(slot)];
            self.lines[line].cursor.is_over(offset);
            Some(slot)
        })?;
        let offset = self.lines[line].cursor.next();
        self.slots[usize::from(slot)] = Slot { line, offset, ..Slot::default() };
        Some(slot)
    }

    fn reap(&mut self) -> Batch {
        self.done.clear();
        self.engine.reap(&mut self.done);
        self.sort()
    }

    fn reap_before(&mut self, deadline: Tick) -> Batch {
        self.done.clear();
        self.engine.reap_before(&mut self.done, deadline);
        self.sort()
    }

    /// Frees the slots of what came back.
    fn sort(&mut self) -> Batch {
        self.lines_of_done.clear();
        self.due_of_done.clear();
        let mut batch = Batch::default();
        for at in 0..self.done.len() {
            let back = self.done[at];
            let slot = &mut self.slots[usize::from(back.slot)];
            slot.since = None;
            let Slot { line, offset, due, .. } = *slot;
            self.lines_of_done.push(line);
            self.due_of_done.push(due);
            batch.now = batch.now.max(back.completed);
            self.free_slot(back, line, offset);
            match back.result {
                Ok(n) if n == self.lines[line].block => {
                    batch.good += 1;
                    batch.bytes += u64::from(n);
                    batch.nanos += nanos(&back, due);
                }
                Ok(n) => self.fail_short(line, offset, n),
                Err(e) => self.fail(line, offset, e),
            }
        }
        batch
    }

    fn free_slot(&mut self, back: Completion, line: usize, offset: u64) {
        let moved = back.result.unwrap_or(0) as usize;
        if self.lines[line].way == Way::Read {
            let _ = self.cost.read(Ok::<_, Errno>(moved));
            let whole = back.result == Ok(self.lines[line].block);
            let spare = !self.free.is_empty() || !self.prepared.is_empty();
            if self.kept.is_none() && whole && spare && self.inspection.wants_one() {
                self.kept = Some(back.slot);
                return;
            }
        } else {
            let _ = self.cost.write(Ok::<_, Errno>(moved));
            self.lines[line].cursor.is_over(offset);
        }
        self.free.push(back.slot);
    }

    /// What is to be done with a batch. Once it is over, what comes back is no part of it.
    fn pass(&mut self, batch: Batch) -> Phase {
        if self.over {
            self.course.watch.pass(batch.good, batch.bytes);
            return Phase { record_after: None, go_on: false };
        }
        let phase = self.leg.pass(batch.now, batch.good, batch.bytes, batch.nanos);
        self.over = !phase.go_on;
        phase
    }

    fn record(&mut self, phase: Phase) {
        if let Some(from) = phase.record_after {
            self.record_each(from, true);
        }
    }

    fn record_each(&mut self, from: Tick, in_window: bool) {
        for ((back, line), due) in self.done.iter().zip(&self.lines_of_done).zip(&self.due_of_done) {
            if back.result == Ok(self.lines[*line].block) {
                let nanos = nanos(back, *due);
                if in_window {
                    self.leg.hear(back.completed, *line);
                }
                self.lines[*line].recorder.record(from, Sample { at: back.completed, nanos, parts: None });
            }
        }
    }

    fn look(&mut self) {
        let Some(slot) = self.kept.take() else { return };
        let Slot { line, offset, .. } = self.slots[usize::from(slot)];
        let len = self.lines[line].block as usize;
        if let Some(bytes) = self.engine.buffer(slot) {
            self.inspection.look(&bytes[..len], offset);
        }
        self.free.push(slot);
    }

    fn prepare(&mut self) {
        while self.prepared.len() < self.to_prepare {
            let Some(slot) = self.free.pop() else { return };
            self.prepare_one(slot);
            self.prepared.push(slot);
        }
    }

    /// Finds the place of a write and makes what is to stand there.
    fn prepare_one(&mut self, slot: u16) {
        let Some(line) = self.lines.iter().position(|line| line.way == Way::Write) else { return };
        let offset = self.lines[line].cursor.next();
        self.slots[usize::from(slot)] = Slot { line, offset, ..Slot::default() };
        let len = self.lines[line].block as usize;
        if let Some(bytes) = self.engine.buffer(slot) {
            self.inspection.make(&mut bytes[..len], offset, &mut self.random);
        }
    }

    fn fail(&mut self, line: usize, offset: u64, e: Errno) {
        let (stage, what) = self.named(line);
        let block = self.lines[line].block;
        let doing = format_args!("a {what} of {block} bytes at {offset} failed");
        self.course.fail(Trouble::io(stage, doing, e));
        self.over = true;
    }

    fn fail_short(&mut self, line: usize, offset: u64, n: u32) {
        let (stage, what) = self.named(line);
        let block = self.lines[line].block;
        let doing = format_args!(
            "a {what} of {block} bytes at {offset} moved {n}: the file or device has shrunk, or is full"
        );
        self.course.fail(Trouble::io(stage, doing, Errno::EIO));
        self.over = true;
    }

    fn named(&self, line: usize) -> (Stage, &'static str) {
        match self.lines[line].way {
            Way::Read => (Stage::Read, "read"),
            Way::Write | Way::Commit => (Stage::Write, "write"),
        }
    }

    fn show_oldest(&mut self, now: Tick) {
        if now.since(self.shown) < SHOW_EVERY && self.engine.outstanding() > 0 {
            return;
        }
        self.shown = now;
        for (op, way) in [(Op::Read, Way::Read), (Op::Write, Way::Write)] {
            let of = |slot: &&Slot| self.lines[slot.line].way == way;
            match self.slots.iter().filter(of).filter_map(|slot| slot.since).min() {
                Some(oldest) => self.inflight.begin(op, oldest),
                None => self.inflight.end(op),
            }
        }
    }

    /// All is back.
    fn close(&mut self) {
        self.inflight.end(Op::Read);
        self.inflight.end(Op::Write);
        let recorded = self.leg.recorded();
        self.lines.iter_mut().enumerate().for_each(|(at, line)| line.recorder.close(recorded, at));
        for offset in self.inspection.suspects() {
            let request = Request { direction: Direction::Read, slot: 0, offset, len: Inspection::LEN };
            let back = self.engine.single(request);
            let _ = self.cost.read(back.result.map(|n| n as usize));
            if let (Ok(Inspection::LEN), Some(bytes)) = (back.result, self.engine.buffer(0)) {
                self.inspection.look_again(&bytes[..Inspection::LEN as usize], offset);
            }
        }
    }
}

/// From when it was to begin; where that is not said, from when it did.
fn nanos(back: &Completion, due: Option<Tick>) -> u64 {
    due.map_or_else(|| back.nanos(), |due| back.completed.nanos_since(due))
}
