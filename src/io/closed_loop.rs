//! The timed loops over an engine: one operation at a time, and a burst that keeps a depth.

use crate::clock::{self, Tick};
use crate::sys::Errno;

use super::{Completion, Direction, Engine, Inflight, Op, Request};

/// One read at depth 1, `inflight` set before the engine is asked.
#[inline]
pub fn single(engine: &mut dyn Engine, offset: u64, len: u32, inflight: &Inflight) -> Completion {
    inflight.begin(Op::Read, clock::now());
    let done = engine.single(Request { direction: Direction::Read, slot: 0, offset, len });
    inflight.end(Op::Read);
    done
}

/// A burst of reads to keep `depth` of outstanding. The engine needs one slot more than that: the freed slot's bytes are
/// looked at only after the next operation is on its way.
#[derive(Debug)]
pub struct Burst {
    depth: u16,
    len: u32,
    done: Vec<Completion>,
    /// By slot: since when, and at which offset.
    out: Vec<Option<(Tick, u64)>>,
    free: Vec<u16>,
}

/// What a burst came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstResult {
    /// Operations per second over all but the first `depth` completions; `None` when an operation failed or fell short.
    pub iops: Option<f64>,
    /// Operations that came back.
    pub completed: u64,
    /// `EAGAIN` answers.
    pub retries: u64,
    /// The first failure.
    pub error: Option<Errno>,
    /// Operations that moved fewer bytes than asked for.
    pub short: u64,
}

impl Burst {
    /// Room for bursts of `len`-byte reads at `depth`, at most 63.
    pub fn new(depth: u16, len: u32) -> Self {
        let depth = depth.clamp(1, 63);
        let slots = usize::from(depth) + 1;
        let free = Vec::with_capacity(slots);
        Self { depth, len, done: Vec::with_capacity(slots), out: vec![None; slots], free }
    }

    /// Runs `count` reads at the offsets that `next` draws; `look` sees each good completion's offset and bytes. Stops to
    /// submit at the first failure and waits for what is out. Allocates nothing.
    pub fn run(
        &mut self,
        engine: &mut dyn Engine,
        count: u64,
        next: &mut dyn FnMut() -> u64,
        look: &mut dyn FnMut(u64, &[u8]),
        inflight: &Inflight,
    ) -> BurstResult {
        let mut result = BurstResult { iops: None, completed: 0, retries: 0, error: None, short: 0 };
        let (mut left, mut from, mut to) = (count, None, Tick::default());
        self.free.clear();
        self.free.extend((0..=self.depth).rev());
        loop {
            self.fill(engine, &mut left, next, &mut result, inflight);
            if engine.outstanding() == 0 {
                break;
            }
            self.done.clear();
            engine.reap(&mut self.done);
            for at in 0..self.done.len() {
                let back = self.done[at];
                // Resubmit first, look afterwards.
                self.fill(engine, &mut left, next, &mut result, inflight);
                result.account(&back, self.len);
                to = back.completed;
                if result.completed == u64::from(self.depth) {
                    from = Some(back.completed);
                }
                self.look(engine, &back, look);
            }
            self.show_oldest(inflight);
        }
        inflight.end(Op::Read);
        result.rate(from, to, count, u64::from(self.depth));
        result
    }

    fn fill(
        &mut self,
        engine: &mut dyn Engine,
        left: &mut u64,
        next: &mut dyn FnMut() -> u64,
        result: &mut BurstResult,
        inflight: &Inflight,
    ) {
        while *left > 0 && engine.outstanding() < self.depth && result.error.is_none() {
            let Some(slot) = self.free.pop() else { return };
            let (offset, now) = (next(), clock::now());
            if engine.outstanding() == 0 {
                inflight.begin(Op::Read, now);
            }
            *left -= 1;
            match engine.submit(Request { direction: Direction::Read, slot, offset, len: self.len }) {
                Ok(()) => self.out[usize::from(slot)] = Some((now, offset)),
                Err(e) => result.error = Some(e),
            }
        }
    }

    fn look(&mut self, engine: &mut dyn Engine, back: &Completion, look: &mut dyn FnMut(u64, &[u8])) {
        let was = self.out[usize::from(back.slot)].take();
        let whole = back.result == Ok(self.len);
        if let (true, Some((_, offset)), Some(bytes)) = (whole, was, engine.buffer(back.slot)) {
            look(offset, &bytes[..self.len as usize]);
        }
        self.free.push(back.slot);
    }

    fn show_oldest(&self, inflight: &Inflight) {
        match self.out.iter().flatten().map(|(since, _)| *since).min() {
            Some(oldest) => inflight.begin(Op::Read, oldest),
            None => inflight.end(Op::Read),
        }
    }
}

impl BurstResult {
    fn account(&mut self, back: &Completion, len: u32) {
        self.completed += 1;
        self.retries += u64::from(back.retries);
        match back.result {
            Ok(n) if n == len => {}
            Ok(_) => self.short += 1,
            Err(e) => self.error = self.error.or(Some(e)),
        }
    }

    fn rate(&mut self, from: Option<Tick>, to: Tick, count: u64, depth: u64) {
        let nanos = from.map_or(0, |from| to.nanos_since(from));
        if self.error.is_none() && self.short == 0 && self.completed == count && nanos > 0 {
            self.iops = Some((count - depth) as f64 * 1e9 / nanos as f64);
        }
    }
}
