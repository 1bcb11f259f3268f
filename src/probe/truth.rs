//! Truth checks: what can make a number look right and be wrong. Each says that it holds only where two things agree, and
//! `unknown`, not `fine`, where a witness cannot be had.

use super::content::BLOCK;
use super::{Cost, Fault, Finding, PerCommit, Verdict};
use crate::io::{Durability, Source};
use crate::sys::{Buffer, Errno, Extents, read_without_waiting};
use crate::target::Counters;

/// Reads that a witness is asked about.
const WITNESSES: usize = 16;

impl Finding {
    pub(super) fn fine(fault: Fault) -> Self {
        Self { fault, verdict: Verdict::Fine, evidence: String::new() }
    }

    pub(super) fn holds(fault: Fault, evidence: impl Into<String>) -> Self {
        Self { fault, verdict: Verdict::Holds, evidence: evidence.into() }
    }

    pub(super) fn unknown(fault: Fault, evidence: impl Into<String>) -> Self {
        Self { fault, verdict: Verdict::Unknown, evidence: evidence.into() }
    }
}

/// Whether every byte of the file was really written.
pub fn unwritten(extents: Result<Extents, Errno>) -> Finding {
    match extents {
        Ok(Extents::Written) => Finding::fine(Fault::Unwritten),
        Ok(Extents::Unwritten) => Finding::holds(
            Fault::Unwritten,
            "parts of the probe file lie in extents that were never written: reads there do not reach the disk",
        ),
        Ok(Extents::Unknown) => {
            Finding::unknown(Fault::Unwritten, "the file system does not tell its extents (FIEMAP)")
        }
        Err(e) => Finding::unknown(Fault::Unwritten, format!("the file's extents could not be read: {e}")),
    }
}

/// Whether direct reads are answered by the kernel's cache. A read into an odd address must be refused by direct I/O; where
/// it succeeds, a second witness decides on blocks that were read just before: the device's own read counter
/// (`device_reads`), or a read that may not wait.
pub fn cached(
    source: &Source,
    blocks: u64,
    random: &mut fastrand::Rng,
    device_reads: &mut dyn FnMut() -> Option<u64>,
    cost: &mut Cost,
) -> Finding {
    let Ok(mut buffer) = Buffer::new(BLOCK + 1) else {
        return Finding::unknown(Fault::Cached, "no memory for the check");
    };
    let place = |random: &mut fastrand::Rng| random.u64(0..blocks.max(1)) * BLOCK as u64;
    match cost.read(source.read_at(&mut buffer[1..], place(random))) {
        Err(Errno::EINVAL | Errno::EFAULT) => return Finding::fine(Fault::Cached),
        Err(e) => return Finding::unknown(Fault::Cached, format!("the check's read failed: {e}")),
        Ok(_) => {}
    }
    let places: Vec<u64> = (0..WITNESSES).map(|_| place(random)).collect();
    let mut read_all = || {
        let mut whole = |at: u64| cost.read(source.read_at(&mut buffer[..BLOCK], at)) == Ok(BLOCK);
        places.iter().filter(|at| whole(**at)).count()
    };
    read_all();
    if let Some(before) = device_reads() {
        let good = read_all();
        let moved = device_reads().map_or(0, |after| after.saturating_sub(before));
        return match moved {
            0 if good > 0 => Finding::holds(
                Fault::Cached,
                format!(
                    "a misaligned direct read succeeds, and {good} blocks read a second time moved the device's read counter by none"
                ),
            ),
            _ => Finding::fine(Fault::Cached),
        };
    }
    by_hits(source, &mut buffer, &places)
}

fn by_hits(source: &Source, buffer: &mut [u8], places: &[u64]) -> Finding {
    let mut hits = 0;
    for at in places {
        match read_without_waiting(source.fd(), &mut buffer[..BLOCK], *at) {
            Ok(_) => hits += 1,
            Err(Errno::EAGAIN) => {}
            Err(_) => {
                let why = "a misaligned direct read succeeds, but neither a device counter nor RWF_NOWAIT can tell what it means";
                return Finding::unknown(Fault::Cached, why);
            }
        }
    }
    if hits * 2 > WITNESSES {
        let why = format!(
            "a misaligned direct read succeeds, and {hits} of {WITNESSES} blocks read a second time were there without waiting"
        );
        Finding::holds(Fault::Cached, why)
    } else {
        Finding::fine(Fault::Cached)
    }
}

/// What is known of the device under a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Underneath {
    /// Counters of the leaf devices, before a run; the sum over all.
    pub before: Option<Total>,
    /// The same, after the run.
    pub after: Option<Total>,
    /// Whether the kernel believes that the device has a volatile cache; `None` where it does not say.
    pub volatile_cache: Option<bool>,
    /// Whether single writes can be forced through it.
    pub forced_writes: bool,
    /// A mount option that turns flushes off.
    pub no_barrier: Option<String>,
}

/// Counters of several devices, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Writes, as the kernel counts them: a flush without data is one too.
    pub writes: u64,
    /// Flushes; `None` where one of the kernels' counters has none.
    pub flushes: Option<u64>,
    /// Bytes written.
    pub bytes: u64,
    /// Reads.
    pub reads: u64,
}

impl Total {
    /// The sum of `all`; `None` when there are none.
    pub fn of(all: &[Counters]) -> Option<Self> {
        let (first, rest) = all.split_first()?;
        Some(rest.iter().fold(Self::one(first), |sum, next| {
            let next = Self::one(next);
            Self {
                writes: sum.writes + next.writes,
                flushes: sum.flushes.zip(next.flushes).map(|(a, b)| a + b),
                bytes: sum.bytes + next.bytes,
                reads: sum.reads + next.reads,
            }
        }))
    }

    fn one(c: &Counters) -> Self {
        let flushes = c.flushes.map(|f| f.operations);
        Self { writes: c.writes.operations, flushes, bytes: c.writes.bytes, reads: c.reads.operations }
    }
}

impl Underneath {
    /// What one of `commits` commits cost the devices; whatever else wrote there meanwhile counts too.
    pub fn per_commit(&self, commits: usize) -> Option<PerCommit> {
        let ((before, after), n) = (self.before.zip(self.after)?, commits as f64);
        let part = |after: u64, before: u64| after.saturating_sub(before) as f64 / n;
        (commits > 0).then(|| PerCommit {
            writes: part(after.writes, before.writes),
            flushes: part(after.flushes.unwrap_or(0), before.flushes.unwrap_or(0)),
            bytes: part(after.bytes, before.bytes),
        })
    }

    /// Whether the commits of a run reached a device with a volatile cache without being flushed through it.
    pub fn unflushed(&self, commits: usize, how: Durability) -> Option<Finding> {
        if commits == 0 {
            return None;
        }
        Some(match self.volatile_cache {
            None => Finding::unknown(
                Fault::Unflushed,
                "there is no block device here whose cache and counters could tell",
            ),
            Some(false) => self.write_through(),
            Some(true) => self.write_back(commits, how),
        })
    }

    /// Not a fault: no flush is due where the kernel believes that writes go through.
    fn write_through(&self) -> Finding {
        let mut fine = Finding::fine(Fault::Unflushed);
        fine.evidence =
            "no flush is sent here: the kernel believes that the device writes through its cache".into();
        fine
    }

    fn write_back(&self, commits: usize, how: Durability) -> Finding {
        if let Some(option) = &self.no_barrier {
            let why = format!(
                "the file system is mounted with {option} on a device with a volatile cache: a commit is in that cache only"
            );
            return Finding::holds(Fault::Unflushed, why);
        }
        let (Some(before), Some(after)) = (self.before, self.after) else {
            return Finding::unknown(Fault::Unflushed, "the device's counters could not be read");
        };
        if after.writes <= before.writes {
            return Finding::holds(
                Fault::Unflushed,
                "the device's write counter did not move over a run of commits",
            );
        }
        if how == Durability::WriteThrough && self.forced_writes {
            return Finding::fine(Fault::Unflushed);
        }
        match before.flushes.zip(after.flushes) {
            None => Finding::unknown(Fault::Unflushed, "this kernel does not count flushes"),
            Some((before, after)) if after <= before => Finding::holds(
                Fault::Unflushed,
                "the device has a volatile cache, and its flush counter did not move over a run of commits",
            ),
            // Another program's flushes count too, and the kernel may join several into one.
            Some((before, after)) if after - before < commits as u64 => Finding::unknown(
                Fault::Unflushed,
                format!(
                    "{commits} commits came with {} flushes of the device: too few to tell whose they were",
                    after - before
                ),
            ),
            Some(_) => Finding::fine(Fault::Unflushed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(flushes: (u64, u64), writes: (u64, u64)) -> Underneath {
        let total = |w, f| Some(Total { writes: w, flushes: Some(f), bytes: w * 4096, reads: 0 });
        Underneath {
            before: total(writes.0, flushes.0),
            after: total(writes.1, flushes.1),
            volatile_cache: Some(true),
            ..Underneath::default()
        }
    }

    fn verdict(under: &Underneath) -> Verdict {
        under.unflushed(3, Durability::Fdatasync).unwrap().verdict
    }

    #[test]
    fn a_flush_and_a_write_for_the_run_are_what_is_asked() {
        assert_eq!(verdict(&under((5, 8), (10, 16))), Verdict::Fine);
        assert_eq!(verdict(&under((5, 5), (10, 16))), Verdict::Holds);
        assert_eq!(verdict(&under((5, 8), (10, 10))), Verdict::Holds);
        assert_eq!(verdict(&under((5, 7), (10, 16))), Verdict::Unknown);
    }

    #[test]
    fn no_barrier_holds_whatever_else_flushes() {
        let nobarrier = Underneath { no_barrier: Some("nobarrier".into()), ..under((5, 8), (10, 16)) };
        let found = nobarrier.unflushed(3, Durability::Fdatasync).unwrap();
        assert_eq!(found.verdict, Verdict::Holds);
        assert!(found.evidence.contains("nobarrier"));
    }

    #[test]
    fn write_through_is_said_and_no_device_is_unknown() {
        let through = Underneath { volatile_cache: Some(false), ..under((5, 5), (10, 16)) };
        let found = through.unflushed(3, Durability::Fdatasync).unwrap();
        assert_eq!(found.verdict, Verdict::Fine);
        assert!(found.evidence.contains("no flush is sent"));
        assert_eq!(verdict(&Underneath::default()), Verdict::Unknown);
        assert_eq!(Underneath::default().unflushed(0, Durability::Fsync), None);
    }

    #[test]
    fn a_forced_write_needs_no_flush() {
        let fua = Underneath { forced_writes: true, ..under((5, 5), (10, 16)) };
        assert_eq!(fua.unflushed(3, Durability::WriteThrough).unwrap().verdict, Verdict::Fine);
        assert_eq!(fua.unflushed(3, Durability::Fdatasync).unwrap().verdict, Verdict::Holds);
    }

    #[test]
    fn what_a_commit_costs_is_the_difference_by_its_number() {
        let cost = under((5, 8), (10, 16)).per_commit(3).unwrap();
        assert_eq!((cost.writes, cost.flushes, cost.bytes), (2.0, 1.0, 8192.0));
    }
}
