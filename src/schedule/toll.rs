//! What a run of a probe costs a disk, at the disk: before it has run, from what is known of profile and file system; after it,
//! from the disk's own counters.
//!
//! What the counters moved by is another's work too. So a run is charged with no more than its profile is known to take at most
//! on that file system: on a busy disk the rest is not ours.

use std::time::Duration;

use super::budget::Toll;
use crate::probe::commit::COMMITS;
use crate::probe::content::BLOCK;
use crate::probe::read::{AT_DEPTH, SINGLES};
use crate::probe::{Method, Outcome, Row};

/// Pages reach the disk whole.
const PAGE: u64 = 4096;

/// What a file system adds to the data of a commit, in bytes and requests at the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Adds {
    /// Names in mountinfo.
    names: &'static [&'static str],
    /// To an fsync, on average and at most.
    to_fsync: (f64, f64),
    /// To an fdatasync or a durable write, on average and at most.
    to_fdatasync: (f64, f64),
    /// Requests beside one for the data and one for the flush: to an fsync, and to an fdatasync or a durable write.
    requests: (f64, f64),
    /// Its flushes come with a write that has data; one that stands alone is counted as a write by the kernel.
    flushes_with_data: bool,
    /// Written later for what has changed in between (the time of the last change), at most once in `every`.
    later: f64,
    every: Duration,
}

const KIB: f64 = 1024.0;

/// ext4 and xfs as in docs/profiles.md: an fsync on ext4 takes a journal block of the descriptor, one of the inode table and a
/// commit block for most commits; what comes later is jbd2's commit each 5 s with the block that it is for (16 KiB by the counters of
/// a loop device, for a run that stood alone), and xfs' log each 30 s. btrfs: 30 to 40 times a commit of 4 KiB, in 7.1 writes and 2
/// flushes (docs/device.md); others that copy on write are taken for it. A file system that is not in the list is taken for ext4.
const ADDS: [Adds; 3] = [
    Adds {
        names: &["ext4"],
        to_fsync: (10.0 * KIB, 12.0 * KIB),
        to_fdatasync: (0.0, 0.0),
        requests: (LATER_REQUESTS, 0.0),
        flushes_with_data: false,
        later: 16.0 * KIB,
        every: Duration::from_secs(5),
    },
    Adds {
        names: &["xfs"],
        to_fsync: (KIB, 4.0 * KIB),
        to_fdatasync: (0.0, 0.0),
        requests: (LATER_REQUESTS, 0.0),
        flushes_with_data: false,
        later: 12.0 * KIB,
        every: Duration::from_secs(30),
    },
    Adds {
        names: &["btrfs", "zfs", "bcachefs"],
        to_fsync: (116.0 * KIB, 156.0 * KIB),
        to_fdatasync: (116.0 * KIB, 156.0 * KIB),
        requests: (7.1, 7.1),
        flushes_with_data: true,
        later: 156.0 * KIB,
        every: Duration::from_secs(30),
    },
];

/// Requests of one commit at most, those that a file system always adds apart: its data in two parts, two flushes.
const MOST_REQUESTS: f64 = 4.0;
/// Requests of a journal's commit that comes later.
const LATER_REQUESTS: f64 = 3.0;

fn adds(file_system: Option<&str>) -> &'static Adds {
    let name = file_system.unwrap_or_default();
    ADDS.iter().find(|adds| adds.names.contains(&name)).unwrap_or(&ADDS[0])
}

/// How commits are made on a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Commits {
    /// The profile's row.
    pub row: &'static Row,
    /// What makes them durable.
    pub method: Method,
    /// From run to run.
    pub interval: Duration,
}

impl Commits {
    /// Bytes of the pages that one commit writes: on average, and at most.
    fn data(&self) -> (f64, f64) {
        let (size, alignment) = (u64::from(self.row.block_size), u64::from(self.row.alignment));
        let starts = PAGE / alignment.min(PAGE);
        let pages = (0..starts).map(|n| (n * alignment % PAGE + size).div_ceil(PAGE));
        let mean = pages.clone().sum::<u64>() as f64 / starts as f64;
        (mean * PAGE as f64, pages.max().unwrap_or(1) as f64 * PAGE as f64)
    }

    /// Requests of one commit on this file system: on average, and at most. Any may have to write a journal.
    fn requests(&self, adds: &Adds) -> (f64, f64) {
        let mean = match self.method {
            Method::Fsync => adds.requests.0,
            Method::Fdatasync | Method::ODsync => adds.requests.1,
        };
        (2.0 + mean, MOST_REQUESTS + mean.max(LATER_REQUESTS))
    }

    fn added(&self, adds: &Adds) -> (f64, f64) {
        match self.method {
            Method::Fsync => adds.to_fsync,
            Method::Fdatasync | Method::ODsync => adds.to_fdatasync,
        }
    }

    /// What a run is expected to cost on this file system, its share of what the journal writes later included.
    pub fn expected(&self, file_system: Option<&str>) -> Toll {
        self.run(adds(file_system), Some(self.interval))
    }

    /// The same for a run that is long after the one before.
    pub fn alone(&self, file_system: Option<&str>) -> Toll {
        self.run(adds(file_system), None)
    }

    fn run(&self, adds: &Adds, since: Option<Duration>) -> Toll {
        let (data, added) = (self.data().0, self.added(adds).0);
        let operations = self.requests(adds).0;
        let run = Toll { write: data + added, read: 0.0, operations }.times(COMMITS as f64);
        run.and(self.later(adds, since))
    }

    /// What the file system writes some time after a run that began `since` the one before. An fsync leaves nothing to be
    /// written.
    fn later(&self, adds: &Adds, since: Option<Duration>) -> Toll {
        if self.method == Method::Fsync {
            return Toll::default();
        }
        let part = since.map_or(1.0, |since| (since.as_secs_f64() / adds.every.as_secs_f64()).min(1.0));
        Toll { write: adds.later, read: 0.0, operations: LATER_REQUESTS }.times(part)
    }

    /// What a run is charged that is back. `since`: from the end of the one before to its own. The counters of an array were
    /// added up over its `disks`, each of which pays its part.
    pub fn charged(
        &self,
        outcome: &Outcome,
        file_system: Option<&str>,
        since: Option<Duration>,
        disks: usize,
    ) -> Toll {
        let adds = adds(file_system);
        let (commits, disks) = (outcome.cost.writes as f64, disks.max(1) as f64);
        let (most, most_requests) = (self.data().1 + self.added(adds).1, self.requests(adds).1);
        let (write, operations) = match &outcome.per_commit {
            Some(at_disk) => {
                let flushes = if adds.flushes_with_data { at_disk.flushes } else { 0.0 };
                (at_disk.bytes / disks, (at_disk.writes + flushes) / disks)
            }
            None => (most, most_requests),
        };
        let each = Toll { write: write.min(most), read: 0.0, operations: operations.min(most_requests) };
        // Pages that a commit covers in part are fetched before it.
        let fetched =
            Toll { write: 0.0, read: outcome.cost.read_bytes as f64, operations: outcome.cost.reads as f64 };
        each.times(commits).and(self.later(adds, since)).and(fetched)
    }
}

/// How many bytes reach the disk for one that a sweep writes, on average: of plain writes past the cache those alone; of commits (whose
/// method is not known here) what an fsync of 4 KiB adds too.
pub fn amplification(file_system: Option<&str>, commits: bool) -> f64 {
    if commits { 1.0 + adds(file_system).to_fsync.0 / PAGE as f64 } else { 1.0 }
}

/// What a run of reads costs.
pub fn reads() -> Toll {
    let reads = (SINGLES + AT_DEPTH) as f64;
    Toll { write: 0.0, read: reads * BLOCK as f64, operations: reads }
}

/// What a run is charged of which nothing is known but what it issued: all there is to know of reads.
pub fn issued(outcome: &Outcome) -> Toll {
    let cost = &outcome.cost;
    Toll {
        write: cost.written_bytes as f64,
        read: cost.read_bytes as f64,
        operations: (cost.reads + cost.writes + cost.syncs) as f64,
    }
}

/// What a day of runs costs.
pub fn a_day(run: Toll, interval: Duration) -> Toll {
    run.times(86_400.0 / interval.as_secs_f64().max(1e-3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Tick;
    use crate::probe::{Cost, PerCommit, Probe, Profile};

    fn commits(profile: Profile) -> Commits {
        let row = profile.row();
        Commits { row, method: row.method, interval: Duration::from_secs(2) }
    }

    fn outcome(per_commit: Option<PerCommit>) -> Outcome {
        let cost = Cost { writes: 3, written_bytes: 12_288, syncs: 3, ..Cost::default() };
        Outcome { cost, per_commit, ..Outcome::begin(Probe::Commit, Tick::default(), Tick::default()) }
    }

    #[test]
    fn pages_are_counted_whole() {
        let data = |profile| commits(profile).data();
        assert_eq!(data(Profile::Overwrite), (4096.0, 4096.0));
        assert_eq!(data(Profile::Postgres), (8192.0, 8192.0));
        assert_eq!(data(Profile::Innodb), (4096.0, 4096.0));
        assert_eq!(data(Profile::Mongodb).1, 8192.0);
        let (mean, most) = data(Profile::Etcd);
        assert!(mean > 6000.0 && mean < 6500.0 && most == 8192.0, "{mean}");
    }

    #[test]
    fn what_the_disk_counted_is_charged_up_to_what_can_be_ours() {
        let run = commits(Profile::Overwrite);
        let at_disk = |bytes| Some(PerCommit { writes: 2.0, flushes: 1.0, bytes });
        let charged =
            |bytes| run.charged(&outcome(at_disk(bytes)), Some("ext4"), Some(Duration::ZERO), 1).write;
        assert_eq!(charged(4000.0), 12_000.0);
        assert_eq!(charged(1e9), 3.0 * 4096.0, "a database beside us");
        assert_eq!(
            run.charged(&outcome(None), None, Some(Duration::ZERO), 1).write,
            3.0 * 4096.0,
            "no counters to be had"
        );
        let half = run.charged(&outcome(at_disk(8192.0)), Some("ext4"), Some(Duration::ZERO), 2);
        assert_eq!((half.write, half.operations), (3.0 * 4096.0, 3.0), "a mirror pays half on each side");
    }

    #[test]
    fn a_commit_on_btrfs_is_reckoned_and_charged_with_the_requests_that_were_measured() {
        let run = commits(Profile::Overwrite);
        let on = |file_system| run.alone(Some(file_system)).operations;
        assert_eq!((on("ext4"), on("xfs")), (3.0 * 2.0 + 3.0, 3.0 * 2.0 + 3.0));
        assert!((on("btrfs") - (3.0 * 9.1 + 3.0)).abs() < 1e-9, "{}", on("btrfs"));
        let at_disk = |writes| outcome(Some(PerCommit { writes, flushes: 2.0, bytes: 75_407.0 }));
        let charged =
            |writes| run.charged(&at_disk(writes), Some("btrfs"), Some(Duration::ZERO), 1).operations / 3.0;
        assert!((charged(7.0) - 9.0).abs() < 1e-9, "{}", charged(7.0));
        assert!((charged(500.0) - 11.1).abs() < 1e-9, "another's work: {}", charged(500.0));
    }

    #[test]
    fn a_sweep_is_charged_what_its_file_system_adds() {
        assert_eq!((amplification(Some("ext4"), false), amplification(Some("ext4"), true)), (1.0, 3.5));
        assert_eq!((amplification(Some("btrfs"), true), amplification(None, false)), (30.0, 1.0));
    }

    #[test]
    fn a_journal_that_comes_later_is_charged_once_in_its_time() {
        let later = |profile, since| {
            let at_disk = Some(PerCommit { writes: 2.0, flushes: 1.0, bytes: 0.0 });
            let run = commits(profile);
            run.charged(&outcome(at_disk), Some("ext4"), since, 1).write
        };
        assert_eq!(later(Profile::Overwrite, None), 16.0 * KIB);
        assert_eq!(later(Profile::Overwrite, Some(Duration::from_secs(60))), 16.0 * KIB);
        assert_eq!(later(Profile::Overwrite, Some(Duration::from_millis(2500))), 8.0 * KIB);
        assert_eq!(later(Profile::Innodb, None), 0.0, "an fsync has written it");
    }
}
