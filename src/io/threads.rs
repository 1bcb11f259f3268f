//! The engine of blocking threads, one for each slot, for where there is no ring.
//!
//! All threads start with the engine, so that their number never changes. A slot's buffer travels with the request
//! to its thread and back with the completion: while an operation is out, nobody else has it. A thread whose
//! operation never ends keeps it for ever and is never joined; others end by themselves when the engine is dropped.
//!
//! The threads stamp: an operation is handed to the kernel when its thread calls it and is back when that call
//! returns. To wake one thread and then another is this engine's cost, several microseconds of it, and none of the disk's.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::{Completion, Engine, EngineKind, Request, Source};
use crate::clock::{self, Tick};
use crate::sys::{Buffer, Errno, Pool};

/// Bytes. The deepest call is a `pread`; what a thread really touches is less than a tenth of it.
const STACK: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Threads {
    source: Arc<Source>,
    block: u32,
    slots: Vec<Slot>,
    back: Receiver<(Completion, Buffer)>,
    outstanding: u16,
    /// Queued with nothing else out: should it stay alone, the caller's own thread does it, and none must be woken.
    alone: Option<Request>,
}

#[derive(Debug)]
struct Slot {
    /// `None` while an operation is out.
    buffer: Option<Buffer>,
    worker: SyncSender<(Request, Buffer)>,
}

impl Threads {
    pub(super) fn open(source: Source, depth: u16, block: u32, pool: &Pool) -> Result<Self, Errno> {
        let source = Arc::new(source);
        let (to_engine, back) = sync_channel(usize::from(depth));
        let slot = |number| {
            let worker = start_worker(number, Arc::clone(&source), to_engine.clone())?;
            Ok(Slot { buffer: Some(pool.buffer(block as usize)?), worker })
        };
        let slots = (0..depth).map(slot).collect::<Result<Vec<_>, Errno>>()?;
        Ok(Self { source, block, slots, back, outstanding: 0, alone: None })
    }

    fn check(&self, request: Request) -> Result<(), Errno> {
        request.check(self.depth(), self.block, self.source.writable())
    }

    /// Hands a checked request to its thread.
    fn send(&mut self, request: Request) -> Result<(), Errno> {
        let slot = &mut self.slots[usize::from(request.slot)];
        let buffer = slot.buffer.take().ok_or(Errno::EBUSY)?;
        if let Err(unsent) = slot.worker.send((request, buffer)) {
            slot.buffer = Some(unsent.0.1);
            return Err(Errno::ECANCELED);
        }
        Ok(())
    }

    fn is_alone(&self, slot: u16) -> bool {
        self.alone.is_some_and(|alone| alone.slot == slot)
    }

    fn take(&mut self, (completion, buffer): (Completion, Buffer)) -> Completion {
        self.slots[usize::from(completion.slot)].buffer = Some(buffer);
        self.outstanding -= 1;
        completion
    }
}

fn start_worker(
    slot: u16,
    source: Arc<Source>,
    back: SyncSender<(Completion, Buffer)>,
) -> Result<SyncSender<(Request, Buffer)>, Errno> {
    let (worker, requests) = sync_channel::<(Request, Buffer)>(1);
    let work = move || {
        for (request, mut buffer) in requests {
            let completion = source.run(request, &mut buffer);
            if back.send((completion, buffer)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name(format!("io-{slot}")).stack_size(STACK).spawn(work)?;
    Ok(worker)
}

impl Engine for Threads {
    fn kind(&self) -> EngineKind {
        EngineKind::Threads
    }

    fn depth(&self) -> u16 {
        self.slots.len() as u16
    }

    fn outstanding(&self) -> u16 {
        self.outstanding
    }

    fn buffer(&mut self, slot: u16) -> Option<&mut [u8]> {
        if self.is_alone(slot) {
            return None;
        }
        self.slots.get_mut(usize::from(slot))?.buffer.as_deref_mut()
    }

    fn submit(&mut self, request: Request) -> Result<(), Errno> {
        self.check(request)?;
        if self.is_alone(request.slot) {
            return Err(Errno::EBUSY);
        }
        if let Some(alone) = self.alone.take() {
            self.send(alone)?;
        }
        self.send(request)?;
        self.outstanding += 1;
        Ok(())
    }

    fn queue(&mut self, request: Request) -> Result<(), Errno> {
        if self.outstanding > 0 {
            return self.submit(request);
        }
        self.check(request)?;
        (self.alone, self.outstanding) = (Some(request), 1);
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        if self.outstanding == 0 {
            return;
        }
        if let Some(request) = self.alone.take() {
            let buffer = self.slots[usize::from(request.slot)].buffer.as_mut();
            let refused = || request.refused(clock::now(), Errno::EBUSY);
            done.push(buffer.map_or_else(refused, |buffer| self.source.run(request, buffer)));
            self.outstanding -= 1;
            return;
        }
        let mut next = self.back.recv().ok();
        while let Some(back) = next {
            done.push(self.take(back));
            next = self.back.try_recv().ok();
        }
    }

    fn reap_before(&mut self, done: &mut Vec<Completion>, deadline: Tick) {
        if let Some(alone) = self.alone.take()
            && self.send(alone).is_err()
        {
            self.outstanding -= 1;
            done.push(alone.refused(clock::now(), Errno::ECANCELED));
            return;
        }
        let first = self.back.recv_timeout(deadline.since(clock::now()));
        let mut next = first.ok();
        while let Some(back) = next {
            done.push(self.take(back));
            next = self.back.try_recv().ok();
        }
    }

    fn single(&mut self, request: Request) -> Completion {
        let refusal = if self.outstanding > 0 { Err(Errno::EBUSY) } else { self.check(request) };
        let buffer = self.slots.get_mut(usize::from(request.slot)).and_then(|slot| slot.buffer.as_mut());
        match (refusal, buffer) {
            (Ok(()), Some(buffer)) => self.source.run(request, buffer),
            (Err(errno), _) => request.refused(clock::now(), errno),
            (Ok(()), None) => request.refused(clock::now(), Errno::EBUSY),
        }
    }
}
