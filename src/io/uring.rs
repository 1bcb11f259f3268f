//! The engine over a ring (io_uring).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Completion, Direction, Engine, EngineKind, MOST_RETRIES, Request, Wait};
use crate::clock::{self, Tick};
use crate::sys::{Delivery, Errno, Memory, Ring, RingFailure, Transfer};

/// How long a spinning wait polls before it sleeps. To be woken costs a few microseconds: after a millisecond
/// that is less than a hundredth of what is measured, and polling on would only burn a CPU.
const SPIN_FOR: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Uring {
    ring: Ring,
    writable: bool,
    wait: Wait,
    block: u32,
    out: Vec<Option<Out>>,
    outstanding: u16,
    /// Slots of operations that are to be stamped and handed over.
    queued: Vec<u16>,
}

/// An operation that was submitted and not reaped.
#[derive(Clone, Copy, Debug)]
struct Out {
    request: Request,
    submitted: Tick,
    retries: u16,
}

impl Uring {
    /// The ring keeps the file open by itself.
    pub(super) fn open(
        file: BorrowedFd<'_>,
        writable: bool,
        depth: u16,
        block: u32,
        wait: Wait,
        memory: &Memory,
    ) -> Result<Self, RingFailure> {
        let delivery = match wait {
            Wait::Sleep => Delivery::WhenAsked,
            Wait::Spin => Delivery::Anytime,
        };
        let ring = Ring::new(file, depth, block, delivery, memory)?;
        let out = vec![None; usize::from(depth)];
        let queued = Vec::with_capacity(usize::from(depth));
        Ok(Self { ring, writable, wait, block, out, outstanding: 0, queued })
    }

    fn check(&self, request: Request) -> Result<(), Errno> {
        request.check(self.depth(), self.block, self.writable)?;
        if self.out[usize::from(request.slot)].is_some() { Err(Errno::EBUSY) } else { Ok(()) }
    }

    fn push(&mut self, request: Request) -> Result<(), Errno> {
        let transfer = match request.direction {
            Direction::Read => Transfer::Read,
            Direction::Write => Transfer::Write,
        };
        self.ring.push(transfer, request.slot, request.offset, request.len)
    }

    /// Remembers what was pushed.
    fn note(&mut self, request: Request, submitted: Tick) {
        self.out[usize::from(request.slot)] = Some(Out { request, submitted, retries: 0 });
        self.outstanding += 1;
    }

    /// One instant for all that is queued: they enter the kernel together.
    fn stamp_queued(&mut self) {
        if self.queued.is_empty() {
            return;
        }
        let now = clock::now();
        for slot in self.queued.drain(..) {
            if let Some(out) = &mut self.out[usize::from(slot)] {
                out.submitted = now;
            }
        }
    }

    /// Waits until something is back: how many, and the instant at which that was seen. An error says that the
    /// ring is lost.
    fn wait_for_some(&mut self) -> Result<(usize, Tick), Errno> {
        self.stamp_queued();
        if self.ring.ready() > 0 {
            self.ring.submit()?;
        }
        if self.wait == Wait::Spin {
            self.ring.submit()?;
            let end = clock::now() + SPIN_FOR;
            while self.ring.ready() == 0 && clock::now() < end {
                std::hint::spin_loop();
            }
        }
        self.ring.wait()?;
        Ok((self.ring.ready(), clock::now()))
    }

    /// Takes the `ready` completions that were seen at `now`. An answer of `EAGAIN` goes out again and is not back.
    fn drain(&mut self, ready: usize, now: Tick, mut done: impl FnMut(Completion)) {
        for _ in 0..ready {
            let Some((slot, result)) = self.ring.take() else { break };
            let Some(mut out) = self.out[usize::from(slot)].take() else { continue };
            if result == Err(Errno::EAGAIN) && out.retries < MOST_RETRIES && self.push(out.request).is_ok() {
                out.retries += 1;
                self.out[usize::from(slot)] = Some(out);
                continue;
            }
            self.outstanding -= 1;
            let Out { submitted, retries, .. } = out;
            done(Completion { slot, submitted, completed: now, result, retries });
        }
        // Should the ring be lost over this, the next wait says so.
        let _ = self.ring.submit();
    }

    /// Waits for at least one completion. When the ring is lost, all that is out ends with the reason, while
    /// the ring keeps its memory.
    fn collect(&mut self, mut done: impl FnMut(Completion)) {
        let mut came = false;
        while self.outstanding > 0 && !came {
            match self.wait_for_some() {
                Ok((ready, now)) => self.drain(ready, now, |completion| {
                    came = true;
                    done(completion);
                }),
                Err(errno) => self.give_up(errno, &mut done),
            }
        }
    }

    fn give_up(&mut self, errno: Errno, mut done: impl FnMut(Completion)) {
        let now = clock::now();
        for out in self.out.iter_mut().filter_map(Option::take) {
            let Out { request, submitted, retries } = out;
            done(Completion { slot: request.slot, submitted, completed: now, result: Err(errno), retries });
        }
        self.outstanding = 0;
    }
}

impl Engine for Uring {
    fn kind(&self) -> EngineKind {
        EngineKind::Uring
    }

    fn depth(&self) -> u16 {
        self.out.len() as u16
    }

    fn outstanding(&self) -> u16 {
        self.outstanding
    }

    fn buffer(&mut self, slot: u16) -> Option<&mut [u8]> {
        self.ring.buffer(slot)
    }

    fn submit(&mut self, request: Request) -> Result<(), Errno> {
        self.check(request)?;
        self.flush();
        let submitted = clock::now();
        self.push(request)?;
        self.ring.submit()?;
        self.note(request, submitted);
        Ok(())
    }

    fn queue(&mut self, request: Request) -> Result<(), Errno> {
        self.check(request)?;
        match self.push(request) {
            Err(Errno::EAGAIN) => {
                self.flush();
                self.push(request)?;
            }
            other => other?,
        }
        self.note(request, Tick::default());
        self.queued.push(request.slot);
        Ok(())
    }

    fn flush(&mut self) {
        self.stamp_queued();
        // Should the ring be lost over this, the next wait says so.
        let _ = self.ring.submit();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.collect(|completion| done.push(completion));
    }

    fn reap_before(&mut self, done: &mut Vec<Completion>, deadline: Tick) {
        self.flush();
        if self.outstanding == 0 {
            return;
        }
        match self.ring.wait_for(deadline.since(clock::now())) {
            Ok(()) => {
                let (ready, now) = (self.ring.ready(), clock::now());
                self.drain(ready, now, |completion| done.push(completion));
            }
            Err(errno) => self.give_up(errno, |completion| done.push(completion)),
        }
    }

    fn single(&mut self, request: Request) -> Completion {
        let refusal = if self.outstanding > 0 { Err(Errno::EBUSY) } else { self.check(request) };
        if let Err(errno) = refusal {
            return request.refused(clock::now(), errno);
        }
        let submitted = clock::now();
        if let Err(errno) = self.push(request) {
            return request.refused(submitted, errno);
        }
        // The entry into the kernel that hands it over waits for it too.
        self.note(request, submitted);
        let mut single = request.refused(submitted, Errno::EIO);
        self.collect(|completion| single = completion);
        single
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    /// Reads that may not wait (`RWF_NOWAIT`) of an empty pipe: each try is answered `EAGAIN`.
    #[test]
    fn what_always_says_again_is_not_asked_for_ever() {
        for wait in [Wait::Sleep, Wait::Spin] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut engine = Uring::open(reader.as_fd(), false, 2, 512, wait, &Memory::default()).unwrap();
            engine.ring.never_wait();
            let read = |slot| Request { direction: Direction::Read, slot, offset: 0, len: 512 };
            let before = clock::now();
            (0..2).for_each(|slot| engine.submit(read(slot)).unwrap());
            let between = clock::now();
            let mut done = Vec::new();
            while engine.outstanding() > 0 {
                engine.reap(&mut done);
            }
            assert_eq!(done.len(), 2);
            done.push(engine.single(read(0)));
            for done in &done {
                assert_eq!((done.result, done.retries), (Err(Errno::EAGAIN), MOST_RETRIES), "{wait:?}");
            }
            for done in &done[..2] {
                assert!(before <= done.submitted && done.submitted <= between, "the first start is kept");
                assert!(between <= done.completed);
            }
            writer.write_all(b"now").unwrap();
            let good = engine.single(read(1));
            assert_eq!((good.result, good.retries), (Ok(3), 0), "{wait:?}");
            assert!(engine.buffer(1).unwrap().starts_with(b"now"));
        }
    }

    #[test]
    fn one_that_hangs_holds_up_no_other_and_no_drop() {
        for wait in [Wait::Sleep, Wait::Spin] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut engine = Uring::open(reader.as_fd(), false, 4, 512, wait, &Memory::default()).unwrap();
            for slot in 0..4 {
                engine.submit(Request { direction: Direction::Read, slot, offset: 0, len: 512 }).unwrap();
            }
            writer.write_all(&[5; 512]).unwrap();
            let mut done = Vec::new();
            engine.reap(&mut done);
            assert_eq!((done.len(), engine.outstanding()), (1, 3), "{wait:?}");
            assert_eq!(engine.buffer(done[0].slot).unwrap(), [5; 512], "{wait:?}");
            drop(engine);
        }
    }
}
