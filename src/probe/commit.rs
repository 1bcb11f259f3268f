//! The commit probe: what a write-ahead log does, a few commits back to back, each timed in two parts.
//!
//! Everything that is not the write and the sync happens before or after: bytes are made and pages fetched first, clocks
//! are turned into samples last. A failed sync makes the file suspect: the caller lays it out anew, since a second sync of
//! the same pages may say "fine" although the bytes are lost (fsync(2), since Linux 4.13).

use super::content::{self, BLOCK, Stamp};
use super::heartbeat::{Heartbeat, starved};
use super::home::Home;
use super::layout::{Head, Role};
use super::profile::{Layout, Method, Row};
use super::seat::Seat;
use super::{CommitSample, Cost, Failure, Invalid, Outcome, Phase, Probe, Stage, Trouble};
use crate::clock::Tick;
use crate::io::{self, Committed, Durability, Inflight, commit};
use crate::sys::{self, Buffer, Direct, Errno, File, SchedWait};

/// Commits of one run.
pub const COMMITS: usize = 3;

/// The probe on its file. It belongs to the thread that runs it.
#[derive(Debug)]
pub struct CommitProbe {
    file: File,
    seat: Seat,
    direct: Direct,
    row: &'static Row,
    durability: Durability,
    head: Head,
    unit: u64,
    next: u64,
    serial: u64,
    records: Vec<Record>,
    /// Room for a page that a commit covers in part; `None` where none does.
    page: Option<Buffer>,
    random: fastrand::Rng,
    wait: SchedWait,
}

#[derive(Debug)]
struct Record {
    bytes: Buffer,
    offset: u64,
    done: Option<Committed>,
    waited: Option<u64>,
}

impl CommitProbe {
    /// Opens the commit file as the profile's row says, with another method if one is configured. Where the file system
    /// refuses direct I/O the writes are buffered, which [`CommitProbe::direct`] tells.
    pub fn open(
        home: &Home,
        head: Head,
        row: &'static Row,
        method: Option<Method>,
        commits: usize,
        random: fastrand::Rng,
        cost: &mut Cost,
    ) -> Result<Self, Trouble> {
        let durability = match method.unwrap_or(row.method) {
            Method::Fdatasync => Durability::Fdatasync,
            Method::Fsync => Durability::Fsync,
            Method::ODsync => Durability::WriteThrough,
        };
        let fail = |e| Trouble::below(Stage::Open, "cannot open", home.path(), Role::Commits.file_name(), e);
        let wish = if row.direct { Direct::Yes } else { Direct::No };
        let (file, direct) = open_for(home, durability, wish).map_err(fail)?;
        let unit = unit(row, &file, direct)?;
        let room = u64::from(row.block_size).next_multiple_of(unit);
        let records = (0..commits)
            .map(|_| Ok(Record { bytes: Buffer::new(room as usize)?, offset: 0, done: None, waited: None }))
            .collect::<Result<Vec<_>, Errno>>()
            .map_err(fail)?;
        let at = home.path().join(Role::Commits.file_name());
        head.confirm(&file, &at, cost)?;
        let seat = Seat::of(&file, at).map_err(fail)?;
        let size = sys::page_size();
        let partial = direct == Direct::No && row.partial_pages(u32::try_from(size).unwrap_or(u32::MAX));
        let page = partial.then(|| Buffer::new(size)).transpose().map_err(fail)?;
        if partial {
            // What a fetch costs is to be what it says.
            let _ = file.read_nothing_ahead();
        }
        let mut probe = Self {
            file,
            seat,
            direct,
            row,
            durability,
            head,
            unit,
            next: 0,
            serial: 0,
            records,
            page,
            random,
            wait: SchedWait::open(),
        };
        probe.next = probe.first();
        Ok(probe)
    }

    /// The file's head as it was when it was opened.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Where the file is to lie.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Whether the writes bypass the page cache.
    pub fn direct(&self) -> Direct {
        self.direct
    }

    /// How the commits are made durable.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// One run. The caller stamps its end.
    pub fn run(&mut self, planned: Tick, now: Tick, inflight: &Inflight, heart: &Heartbeat) -> Outcome {
        let mut outcome = Outcome::begin(Probe::Commit, planned, now);
        outcome.commits.reserve_exact(self.records.len());
        if let Err(e) = self.prepare(inflight, &mut outcome.cost) {
            outcome.result =
                Err(failure(Stage::Write, "cannot read the page that the commit will write to", e));
            return outcome;
        }
        self.timed(inflight);
        for at in 0..self.records.len() {
            if !self.account(at, &mut outcome, heart) {
                break;
            }
        }
        outcome.judge_starved();
        outcome
    }

    /// Makes the bytes and finds the place of each commit. A write that covers a page in part makes the kernel read that
    /// page first; a log that was freshly preallocated is spared that, so it is done here, untimed.
    fn prepare(&mut self, inflight: &Inflight, cost: &mut Cost) -> Result<(), Errno> {
        for at in 0..self.records.len() {
            let offset = self.place();
            let stamp = Stamp { file: self.head.file, number: self.serial, generation: 1 };
            self.serial += 1;
            let record = &mut self.records[at];
            (record.offset, record.done, record.waited) = (offset, None, None);
            if let Some(page) = &mut self.page {
                let end = offset + record.bytes.len() as u64;
                for at in partial(offset, end, page.len() as u64).into_iter().flatten() {
                    fetch(&self.file, page, at, inflight, cost)?;
                }
            }
            content::fill(&mut record.bytes, stamp, &mut self.random);
        }
        Ok(())
    }

    /// Nothing but the system calls and the clock, and after each commit a look at this thread's own wait for a CPU.
    fn timed(&mut self, inflight: &Inflight) {
        self.wait.since_last();
        for record in &mut self.records {
            let done = commit(&self.file, &record.bytes, record.offset, self.durability, inflight);
            record.waited = self.wait.since_last();
            record.done = Some(done);
            if done.write != Ok(record.bytes.len()) || matches!(done.sync, Some(Err(_))) {
                return;
            }
        }
    }

    /// Turns one commit into a sample or into what it was instead; `false` ends the run.
    fn account(&self, at: usize, outcome: &mut Outcome, heart: &Heartbeat) -> bool {
        let record = &self.records[at];
        let Some(done) = record.done else { return false };
        outcome.cost.writes += 1;
        outcome.cost.syncs += u64::from(done.sync.is_some());
        match (done.write, done.sync) {
            (Err(e), _) => {
                outcome.result = Err(failure(Stage::Write, "a commit's write failed", e));
                return false;
            }
            (Ok(n), _) if n < record.bytes.len() => {
                outcome.cost.written_bytes += n as u64;
                outcome.count_invalid(Invalid::ShortIo);
                let what = format!("a commit's write of {} bytes wrote {n}", record.bytes.len());
                outcome.result = Err(Failure { stage: Stage::Write, errno: Errno::EIO, message: what });
                return false;
            }
            (Ok(n), Some(Err(e))) => {
                outcome.cost.written_bytes += n as u64;
                outcome.result =
                    Err(failure(Stage::Sync, "a commit was not made durable; its file is suspect", e));
                return false;
            }
            (Ok(n), _) => outcome.cost.written_bytes += n as u64,
        }
        let commit = done.durable.nanos_since(done.started);
        if starved(commit, record.waited, heart.silent(done.started, done.durable)) {
            outcome.count_invalid(Invalid::Starved);
        } else if commit == 0 {
            outcome.count_invalid(Invalid::Clock);
        } else {
            outcome.commits.push(CommitSample {
                phase: if at == 0 { Phase::First } else { Phase::Warm },
                write: done.written.nanos_since(done.started),
                sync: done.sync.map(|_| done.durable.nanos_since(done.written)),
                commit,
            });
        }
        true
    }

    /// Where the next commit goes; the head is never written to.
    fn place(&mut self) -> u64 {
        let len = self.records[0].bytes.len() as u64;
        let first = self.first();
        match self.row.layout {
            Layout::Overwrite => {
                first + self.random.u64(0..=(self.head.size - first - len) / self.unit) * self.unit
            }
            Layout::AppendWrapping { segment } => {
                let end = self.head.size.min(first + segment);
                let at = if self.next + len > end { first } else { self.next };
                self.next = (at + len).next_multiple_of(self.unit);
                at
            }
        }
    }

    fn first(&self) -> u64 {
        (BLOCK as u64).next_multiple_of(self.unit)
    }
}

/// The pages of `size` bytes that a write from `offset` to `end` covers in part.
fn partial(offset: u64, end: u64, size: u64) -> [Option<u64>; 2] {
    let (first, last) = (offset / size * size, (end - 1) / size * size);
    let cut_first = offset > first || end < first + size;
    let cut_last = last != first && end < last + size;
    [cut_first.then_some(first), cut_last.then_some(last)]
}

/// Has a page in the kernel's cache: one that is there already, as that of the commit before mostly is, costs nothing.
fn fetch(file: &File, page: &mut Buffer, at: u64, inflight: &Inflight, cost: &mut Cost) -> Result<(), Errno> {
    if sys::read_without_waiting(file.fd(), &mut page[..1], at) == Ok(1) {
        return Ok(());
    }
    let read = cost.read(io::fetch(file, page, at, inflight))?;
    // The file has shrunk: the commit would make it grow.
    if read == 0 { Err(Errno::ENODATA) } else { Ok(()) }
}

fn failure(stage: Stage, what: &str, errno: Errno) -> Failure {
    Failure { stage, errno, message: format!("{what}: {errno}") }
}

fn open_for(home: &Home, durability: Durability, direct: Direct) -> Result<(File, Direct), Errno> {
    let name = Role::Commits.file_name();
    let opened = match durability {
        Durability::WriteThrough => home.dir().open_file_for_synchronous_writing(name, direct),
        Durability::Fdatasync | Durability::Fsync => home.dir().open_file_for_writing(name, direct),
    };
    match opened {
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) if direct == Direct::Yes => {
            open_for(home, durability, Direct::No)
        }
        other => other.map(|file| (file, direct)),
    }
}

/// What offsets are multiples of: the row's alignment, and where the page cache is bypassed also the file system's.
fn unit(row: &Row, file: &File, direct: Direct) -> Result<u64, Trouble> {
    let asked = u64::from(row.alignment);
    let Some(needed) = (direct == Direct::Yes).then(|| file.direct_alignment()).flatten() else {
        return Ok(asked);
    };
    let needed = u64::from(needed.offset.max(1));
    if needed > content::BLOCK as u64 * 16 {
        let message =
            format!("direct I/O here must be aligned to {needed} bytes, which is more than a commit writes");
        return Err(Trouble::unsupported(Stage::Open, Errno::EINVAL, message));
    }
    Ok(asked.max(needed).next_multiple_of(needed))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests look at files from outside")]
mod tests;
