//! The read probe: a short burst of random reads. First some at depth 1, the headline, then more at depth 4, for the burst's
//! IOPS alone. Each block read is checked outside the timed section.

use super::content::{self, BLOCK, Stamp};
use super::heartbeat::{Heartbeat, starved};
use super::layout::Head;
use super::{Burst, Failure, Fault, Finding, Invalid, Outcome, Phase, Probe, ReadSample, Stage, Verdict};
use crate::clock::Tick;
use crate::io::{self, Completion, Engine, EngineKind, Inflight};
use crate::sys::{Errno, SchedWait};

/// Reads at depth 1 in a run.
pub const SINGLES: u64 = 16;
/// Reads at depth in a run.
pub const AT_DEPTH: u64 = 48;
/// The depth.
pub const DEPTH: u16 = 4;
/// Slots that the engine needs.
pub const SLOTS: u16 = DEPTH + 1;

/// What the blocks must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// A probe file of ours.
    File(Head),
    /// Somebody's raw device, of so many whole blocks.
    Device {
        /// Blocks of 4 KiB.
        blocks: u64,
    },
}

/// The probe on its engine. It belongs to the thread that runs it.
#[derive(Debug)]
pub struct ReadProbe {
    engine: Box<dyn Engine>,
    expect: Expect,
    burst: io::Burst,
    random: fastrand::Rng,
    wait: SchedWait,
}

/// What was found in the blocks of a run.
#[derive(Default)]
struct Checked {
    wrong: u64,
    first_wrong: Option<u64>,
    zeros: u64,
    blocks: u64,
}

impl ReadProbe {
    /// Reads through `engine`, which has [`SLOTS`] slots of one block.
    pub fn new(engine: Box<dyn Engine>, expect: Expect, random: fastrand::Rng) -> Self {
        Self { engine, expect, burst: io::Burst::new(DEPTH, BLOCK as u32), random, wait: SchedWait::open() }
    }

    /// The engine in use.
    pub fn engine(&self) -> EngineKind {
        self.engine.kind()
    }

    /// One run. The caller stamps its end.
    pub fn run(&mut self, planned: Tick, now: Tick, inflight: &Inflight, heart: &Heartbeat) -> Outcome {
        let mut outcome = Outcome::begin(Probe::Read, planned, now);
        outcome.reads.reserve_exact(SINGLES as usize);
        let mut checked = Checked::default();
        self.wait.since_last();
        for at in 0..SINGLES {
            if !self.single(at, &mut outcome, &mut checked, inflight, heart) {
                break;
            }
        }
        if outcome.result.is_ok() {
            self.at_depth(&mut outcome, &mut checked, inflight, heart);
        }
        self.judge(&checked, &mut outcome);
        outcome.judge_starved();
        outcome
    }

    fn single(
        &mut self,
        at: u64,
        outcome: &mut Outcome,
        checked: &mut Checked,
        inflight: &Inflight,
        heart: &Heartbeat,
    ) -> bool {
        let offset = draw(&mut self.random, self.expect);
        let back = io::single(&mut *self.engine, offset, BLOCK as u32, inflight);
        let waited = self.wait.since_last();
        outcome.retries += u64::from(back.retries);
        match back.result {
            Ok(n) if n as usize == BLOCK => {}
            Ok(n) => {
                outcome.cost.reads += 1;
                outcome.cost.read_bytes += u64::from(n);
                outcome.count_invalid(Invalid::ShortIo);
                outcome.result = Err(short(offset, n));
                return false;
            }
            Err(e) => {
                outcome.cost.reads += 1;
                outcome.result = Err(failed(offset, e));
                return false;
            }
        }
        outcome.cost.reads += 1;
        outcome.cost.read_bytes += BLOCK as u64;
        sample(at, &back, waited, outcome, heart);
        if let Some(bytes) = self.engine.buffer(0) {
            checked.look(self.expect, offset, bytes);
        }
        true
    }

    fn at_depth(
        &mut self,
        outcome: &mut Outcome,
        checked: &mut Checked,
        inflight: &Inflight,
        heart: &Heartbeat,
    ) {
        let (expect, random) = (self.expect, &mut self.random);
        self.wait.since_last();
        let result = self.burst.run(
            &mut *self.engine,
            AT_DEPTH,
            &mut || draw(random, expect),
            &mut |offset, bytes| checked.look(expect, offset, bytes),
            inflight,
        );
        outcome.retries += result.retries;
        outcome.cost.reads += result.completed;
        outcome.cost.read_bytes += result.bytes;
        // Of the time from its first submit to its last completion, as of a single read's.
        let waited = self.wait.since_last();
        let ours = starved(result.to.nanos_since(result.from), waited, heart.silent(result.from, result.to));
        if ours {
            outcome.count_invalid(Invalid::Starved);
        }
        outcome.burst =
            result.iops.filter(|_| !ours).map(|iops| Burst { block_size: BLOCK as u32, depth: DEPTH, iops });
        for _ in 0..result.short {
            outcome.count_invalid(Invalid::ShortIo);
        }
        if let Some(e) = result.error {
            outcome.result = Err(Failure {
                stage: Stage::Read,
                errno: e,
                message: format!("a read at depth failed: {e}"),
            });
        } else if result.short > 0 {
            let message = format!("{} reads at depth came back short", result.short);
            outcome.result = Err(Failure { stage: Stage::Read, errno: Errno::EIO, message });
        }
    }

    /// Wrong bytes are an event of their own, not a failed run: the disk answered, and the answer was false.
    fn judge(&self, checked: &Checked, outcome: &mut Outcome) {
        for _ in 0..checked.wrong {
            outcome.count_invalid(Invalid::Corruption);
        }
        if checked.blocks == 0 {
            return;
        }
        let (fault, holds, evidence) = match self.expect {
            Expect::File(_) => (Fault::Corruption, checked.wrong > 0, checked.corruption()),
            Expect::Device { .. } => (Fault::Zeros, checked.zeros == checked.blocks, checked.all_zeros()),
        };
        let verdict = if holds { Verdict::Holds } else { Verdict::Fine };
        let evidence = if holds { evidence } else { String::new() };
        outcome.findings.push(Finding { fault, verdict, evidence });
    }
}

impl Checked {
    fn look(&mut self, expect: Expect, offset: u64, bytes: &[u8]) {
        self.blocks += 1;
        match expect {
            Expect::File(head) => {
                let stamp = Stamp { file: head.file, number: offset / BLOCK as u64, generation: 0 };
                if content::check(bytes, stamp).is_err() {
                    self.wrong += 1;
                    self.first_wrong = self.first_wrong.or(Some(stamp.number));
                }
            }
            Expect::Device { .. } => self.zeros += u64::from(bytes.iter().all(|b| *b == 0)),
        }
    }

    fn corruption(&self) -> String {
        let block = self.first_wrong.unwrap_or_default();
        format!(
            "{} of {} blocks read are not what was written there, the first of them block {block}",
            self.wrong, self.blocks
        )
    }

    fn all_zeros(&self) -> String {
        format!(
            "all {} blocks read hold only zeros: they may never have been written, and a read of such a block need not \
             reach the medium",
            self.blocks
        )
    }
}

/// A block that is no head, each as likely as the other.
fn draw(random: &mut fastrand::Rng, expect: Expect) -> u64 {
    let block = match expect {
        Expect::File(head) => random.u64(1..head.blocks().max(2)),
        Expect::Device { blocks } => random.u64(0..blocks.max(1)),
    };
    block * BLOCK as u64
}

fn sample(at: u64, back: &Completion, waited: Option<u64>, outcome: &mut Outcome, heart: &Heartbeat) {
    let nanos = back.nanos();
    if starved(nanos, waited, heart.silent(back.submitted, back.completed)) {
        outcome.count_invalid(Invalid::Starved);
    } else if nanos == 0 {
        outcome.count_invalid(Invalid::Clock);
    } else {
        let phase = if at == 0 { Phase::First } else { Phase::Warm };
        outcome.reads.push(ReadSample { phase, nanos });
    }
}

fn short(offset: u64, n: u32) -> Failure {
    let message = format!("a read of {BLOCK} bytes at {offset} brought {n}: the file or device has shrunk");
    Failure { stage: Stage::Read, errno: Errno::EIO, message }
}

fn failed(offset: u64, e: Errno) -> Failure {
    Failure { stage: Stage::Read, errno: e, message: format!("a read at {offset} failed: {e}") }
}
