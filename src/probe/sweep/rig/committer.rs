//! A committer of a sweep: one commit after the other, each a block of its own file and what makes it durable.

use std::sync::Arc;

use super::content::Inspection;
use super::course::{Course, Leg};
use super::extent::Cursor;
use super::tally::{Recorder, Sample};
use crate::io::{Committed, Durability, Inflight, commit};
use crate::probe::{Cost, Stage, Trouble};
use crate::sys::{Buffer, Errno, File};

/// Commits on its own file.
#[derive(Debug)]
pub(super) struct Committer<'a> {
    /// Its file.
    pub(super) file: File,
    /// What makes a write durable.
    pub(super) how: Durability,
    /// A block.
    pub(super) buffer: Buffer,
    /// Where commits go.
    pub(super) cursor: Cursor,
    /// What is recorded.
    pub(super) recorder: Recorder<'a>,
    /// When it ends.
    pub(super) course: Arc<Course>,
    /// This thread's way to there.
    pub(super) leg: Leg,
    /// What is out.
    pub(super) inflight: &'a Inflight,
    /// Makes content.
    pub(super) inspection: Inspection,
    /// Makes randomness.
    pub(super) random: fastrand::Rng,
    /// What it cost.
    pub(super) cost: Cost,
}

impl Committer<'_> {
    /// Until the course is over.
    pub(super) fn run(&mut self) {
        self.random.fill(&mut self.buffer);
        loop {
            let offset = self.cursor.next();
            self.inspection.make(&mut self.buffer, offset, &mut self.random);
            let done = commit(&self.file, &self.buffer, offset, self.how, self.inflight);
            let _ = self.cost.write(done.write);
            if let Some(sync) = done.sync {
                let _ = self.cost.sync(sync);
            }
            if let Err(trouble) = self.judge(&done) {
                self.course.fail(trouble);
                break;
            }
            let nanos = done.durable.nanos_since(done.started);
            let phase = self.leg.pass(done.durable, 1, self.buffer.len() as u64, nanos);
            if let Some(from) = phase.record_after {
                self.leg.hear(done.durable, 0);
                let write = done.written.nanos_since(done.started);
                let sync = done.sync.map(|_| done.durable.nanos_since(done.written));
                self.recorder.record(from, Sample { at: done.durable, nanos, parts: Some((write, sync)) });
            }
            if !phase.go_on {
                break;
            }
        }
        self.recorder.close(self.leg.recorded(), 0);
    }

    fn judge(&self, done: &Committed) -> Result<(), Trouble> {
        match (done.write, done.sync) {
            (Err(e), _) => Err(Trouble::io(Stage::Write, "a commit's write failed", e)),
            (Ok(n), _) if n < self.buffer.len() => {
                let doing = format_args!("a commit's write of {} bytes wrote {n}", self.buffer.len());
                Err(Trouble::io(Stage::Write, doing, Errno::EIO))
            }
            (_, Some(Err(e))) => Err(Trouble::io(Stage::Sync, "a commit was not made durable", e)),
            _ => Ok(()),
        }
    }
}
