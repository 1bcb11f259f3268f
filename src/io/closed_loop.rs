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
    /// Operations per second while the depth was kept: from when the first `depth` operations were back to when there was nothing left
    /// to submit. `None` when an operation failed or fell short.
    ///
    /// The end is left out because a burst that runs dry is no longer at its depth: one slow read at the end would count for the
    /// whole burst.
    pub iops: Option<f64>,
    /// When the first operation was submitted.
    pub from: Tick,
    /// When the last one was back.
    pub to: Tick,
    /// Operations that came back.
    pub completed: u64,
    /// Bytes that they moved.
    pub bytes: u64,
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
        let mut result = BurstResult::begun(clock::now());
        let (mut left, mut window) = (count, Window::default());
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
                self.look(engine, &back, look);
            }
            // All of a batch have one stamp, so the window begins and ends between batches.
            if let Some(last) = self.done.last() {
                result.to = last.completed;
                window.pass(last.completed, result.completed, u64::from(self.depth), left);
            }
            self.show_oldest(inflight);
        }
        inflight.end(Op::Read);
        result.iops = window.rate().filter(|_| result.error.is_none() && result.short == 0);
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
    fn begun(now: Tick) -> Self {
        Self { iops: None, from: now, to: now, completed: 0, bytes: 0, retries: 0, error: None, short: 0 }
    }

    fn account(&mut self, back: &Completion, len: u32) {
        self.completed += 1;
        self.retries += u64::from(back.retries);
        self.bytes += u64::from(back.result.unwrap_or(0));
        match back.result {
            Ok(n) if n == len => {}
            Ok(_) => self.short += 1,
            Err(e) => self.error = self.error.or(Some(e)),
        }
    }
}

/// The part of a burst in which the depth is kept: (instant, completions by then) at its two ends.
#[derive(Default)]
struct Window {
    from: Option<(Tick, u64)>,
    to: Option<(Tick, u64)>,
}

impl Window {
    fn pass(&mut self, now: Tick, completed: u64, depth: u64, left: u64) {
        if self.from.is_none() && completed >= depth {
            self.from = Some((now, completed));
        }
        if self.to.is_none() && left == 0 {
            self.to = Some((now, completed));
        }
    }

    fn rate(&self) -> Option<f64> {
        let ((from, before), (to, after)) = self.from.zip(self.to)?;
        let nanos = to.nanos_since(from);
        (nanos > 0 && after > before).then(|| (after - before) as f64 * 1e9 / nanos as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Tick {
        Tick::from_nanos(micros * 1000)
    }

    #[test]
    fn a_slow_last_read_does_not_count_for_the_whole_burst() {
        let mut window = Window::default();
        for done in 1..=48u64 {
            let end = if done == 48 { at(1_000_000) } else { at(done * 25) };
            window.pass(end, done, 4, 44u64.saturating_sub(done));
        }
        // 40 completions, one each 25 us.
        assert_eq!(window.rate().map(f64::round), Some(40_000.0));
    }

    #[test]
    fn completions_of_one_batch_are_on_one_side() {
        let mut window = Window::default();
        for batch in 1..=12u64 {
            window.pass(at(batch * 100), batch * 4, 4, 44u64.saturating_sub(batch * 4));
        }
        assert_eq!(window.rate().map(f64::round), Some(40_000.0));
    }

    #[test]
    fn a_burst_that_never_kept_its_depth_has_no_rate() {
        let mut window = Window::default();
        window.pass(at(100), 4, 4, 0);
        assert_eq!(window.rate(), None);
    }
}
