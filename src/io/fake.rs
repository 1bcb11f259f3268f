//! The engine that follows a script, for tests of what stands above engines. Its data lie in memory, its time is
//! real, its results carry its own name: nothing that it says can pass for a disk's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Completion, Direction, Engine, EngineKind, MOST_RETRIES, Request};
use crate::clock::{self, Tick};
use crate::sys::Errno;

/// How often a closed gate is looked at.
const LOOK: Duration = Duration::from_micros(200);

/// Holds operations until somebody opens it; clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// Lets all operations behind it go, for good.
    pub fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Clone, Copy, Debug)]
enum End {
    Whole,
    Short(u32),
    Error(Errno),
}

/// What happens to one operation.
#[derive(Clone, Debug)]
pub struct Step {
    end: End,
    latency: Duration,
    again: u16,
    gate: Option<Gate>,
}

impl Step {
    /// It succeeds at once.
    pub fn good() -> Self {
        Self { end: End::Whole, latency: Duration::ZERO, again: 0, gate: None }
    }

    /// It transfers at most `bytes`.
    pub fn short(bytes: u32) -> Self {
        Self { end: End::Short(bytes), ..Self::good() }
    }

    /// It fails.
    pub fn error(errno: Errno) -> Self {
        Self { end: End::Error(errno), ..Self::good() }
    }

    /// It takes `latency`, however many others are out.
    pub fn after(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// The kernel answers `EAGAIN` so many times before; more than [`MOST_RETRIES`] times, and that is the result.
    pub fn again(self, times: u16) -> Self {
        Self { again: times, ..self }
    }

    /// It hangs until the gate is open.
    pub fn behind(self, gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }
}

/// What a [`Fake`] does.
#[derive(Clone, Debug)]
pub struct Script {
    /// What stands on the disk. Reads behind its end are short, and so are writes.
    pub image: Vec<u8>,
    /// Whether writes are refused, as on a device.
    pub read_only: bool,
    /// One step for each operation, in the order of submission.
    pub steps: Vec<Step>,
    /// The step of each operation after these.
    pub then: Step,
}

/// The scripted engine.
#[derive(Debug)]
pub struct Fake {
    script: Script,
    started: usize,
    block: u32,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    buffer: Vec<u8>,
    out: Option<Out>,
}

#[derive(Clone, Debug)]
struct Out {
    request: Request,
    submitted: Tick,
    step: Step,
}

impl Out {
    fn is_back(&self, now: Tick) -> bool {
        self.step.gate.as_ref().is_none_or(Gate::is_open) && now >= self.submitted + self.step.latency
    }

    /// How long to sleep before looking again.
    fn pause(&self, now: Tick) -> Duration {
        match (self.submitted + self.step.latency).since(now) {
            Duration::ZERO => LOOK,
            left => left,
        }
    }
}

impl Fake {
    /// `depth` slots of `block` bytes that follow `script`.
    pub fn new(script: Script, depth: u16, block: u32) -> Self {
        let slot = |_| Slot { buffer: vec![0; block as usize], out: None };
        Self { script, started: 0, block, slots: (0..depth).map(slot).collect() }
    }

    /// How many operations were started.
    pub fn started(&self) -> usize {
        self.started
    }

    /// Takes what is back at `now`.
    fn drain(&mut self, now: Tick, done: &mut Vec<Completion>) {
        for slot in &mut self.slots {
            if let Some(out) = slot.out.take_if(|out| out.is_back(now)) {
                let result = if out.step.again > MOST_RETRIES {
                    Err(Errno::EAGAIN)
                } else {
                    transfer(&mut self.script.image, &out, &mut slot.buffer)
                };
                let Out { request, submitted, step } = out;
                let retries = step.again.min(MOST_RETRIES);
                done.push(Completion { slot: request.slot, submitted, completed: now, result, retries });
            }
        }
    }
}

fn transfer(image: &mut [u8], out: &Out, buffer: &mut [u8]) -> Result<u32, Errno> {
    let len = match out.step.end {
        End::Whole => out.request.len,
        End::Short(bytes) => bytes.min(out.request.len),
        End::Error(errno) => return Err(errno),
    };
    let from = usize::try_from(out.request.offset).unwrap_or(usize::MAX).min(image.len());
    let len = (len as usize).min(image.len() - from);
    match out.request.direction {
        Direction::Read => buffer[..len].copy_from_slice(&image[from..from + len]),
        Direction::Write => image[from..from + len].copy_from_slice(&buffer[..len]),
    }
    Ok(len as u32)
}

impl Engine for Fake {
    fn kind(&self) -> EngineKind {
        EngineKind::Fake
    }

    fn depth(&self) -> u16 {
        self.slots.len() as u16
    }

    fn outstanding(&self) -> u16 {
        self.slots.iter().filter(|slot| slot.out.is_some()).count() as u16
    }

    fn buffer(&mut self, slot: u16) -> Option<&mut [u8]> {
        let slot = self.slots.get_mut(usize::from(slot))?;
        slot.out.is_none().then_some(&mut slot.buffer)
    }

    fn submit(&mut self, request: Request) -> Result<(), Errno> {
        request.check(self.depth(), self.block, !self.script.read_only)?;
        let slot = &mut self.slots[usize::from(request.slot)];
        if slot.out.is_some() {
            return Err(Errno::EBUSY);
        }
        let step = self.script.steps.get(self.started).unwrap_or(&self.script.then).clone();
        self.started += 1;
        slot.out = Some(Out { request, submitted: clock::now(), step });
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        loop {
            let now = clock::now();
            self.drain(now, done);
            let pauses = self.slots.iter().filter_map(|slot| Some(slot.out.as_ref()?.pause(now)));
            match pauses.min() {
                Some(pause) if done.len() == before => thread::sleep(pause),
                _ => return,
            }
        }
    }

    fn reap_before(&mut self, done: &mut Vec<Completion>, deadline: Tick) {
        let before = done.len();
        loop {
            let now = clock::now();
            self.drain(now, done);
            if done.len() > before || now >= deadline || self.outstanding() == 0 {
                return;
            }
            thread::sleep(LOOK.min(deadline.since(now)));
        }
    }

    fn single(&mut self, request: Request) -> Completion {
        let answer = if self.outstanding() > 0 { Err(Errno::EBUSY) } else { self.submit(request) };
        if let Err(errno) = answer {
            return request.refused(clock::now(), errno);
        }
        let mut done = Vec::with_capacity(1);
        self.reap(&mut done);
        done.pop().unwrap_or_else(|| request.refused(clock::now(), Errno::EIO))
    }
}
