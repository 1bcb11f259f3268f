//! A lane: one long-lived OS thread that does what may never return, for one target and direction. Jobs go in, reports come
//! out; nobody waits for it, joins it or replaces it. A panic in it is caught, counted, and its worker made anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use super::reader::OpenedReads;
use super::writer::Prepared;
use crate::clock::Tick;
use crate::io::{Inflight, Wait, Wish};
use crate::probe::heartbeat::Heartbeat;
use crate::probe::layout::{Head, Role};
use crate::probe::{Cost, Finding, Method, Outcome, Profile, Trouble};
use crate::sys;
use crate::target::Roots;
use crate::units::Bytes;

/// Enough for the deepest call of a lane (measured: under 40 KiB in an unoptimised build); untouched pages cost nothing.
const STACK: usize = 256 << 10;

/// What is to be probed at a target, as resolved by the config.
#[derive(Clone, Debug)]
pub struct Spec {
    /// A directory or a block device.
    pub path: PathBuf,
    /// Where the probe files go instead of below `path`.
    pub probe_dir: Option<PathBuf>,
    /// Which engine reads.
    pub engine: Wish,
    /// The commit probe, when it is on.
    pub commit: Option<CommitSpec>,
    /// The read probe, when it is on.
    pub read: Option<ReadSpec>,
    /// Space that must stay free; `None`: the default of the layout.
    pub reserve: Option<Bytes>,
}

/// How commits are probed.
#[derive(Clone, Copy, Debug)]
pub struct CommitSpec {
    /// Whose commits.
    pub profile: Profile,
    /// What makes them durable.
    pub method: Method,
    /// Size of the commit file.
    pub file_size: Bytes,
}

/// How reads are probed.
#[derive(Clone, Copy, Debug)]
pub struct ReadSpec {
    /// How a completion is waited for.
    pub wait: Wait,
    /// Size of the read file.
    pub file_size: Bytes,
}

/// What the lanes of a target share with the rest of the daemon.
#[derive(Clone, Debug)]
pub struct Context {
    /// What is to be probed.
    pub spec: Arc<Spec>,
    /// What is out, for whoever looks.
    pub inflight: Arc<Inflight>,
    /// Whether we ran.
    pub heart: Arc<Heartbeat>,
    /// Where the kernel's trees are.
    pub roots: Arc<Roots>,
    /// Makes offsets and content.
    pub seed: u64,
}

/// Something for a lane to do.
#[derive(Clone, Debug)]
pub enum Job {
    /// Writer: look at the target, open or make our directory, look at the probe files.
    Prepare,
    /// Writer: write the next slice of this probe file.
    Layout(Role),
    /// Writer: one run of commits.
    Commit {
        /// The instant that was drawn.
        planned: Tick,
    },
    /// Reader: open the read file of the directory.
    OpenFile {
        /// Our directory.
        home: PathBuf,
        /// The file's head.
        head: Head,
    },
    /// Reader: open the block device that the path is.
    OpenDevice,
    /// Reader: one run of reads.
    Read {
        /// The instant that was drawn.
        planned: Tick,
    },
}

/// What came of a job.
#[derive(Debug)]
pub enum Report {
    /// The target was looked at.
    Prepared(Box<Prepared>),
    /// A slice was written.
    Laying {
        /// Of which file.
        role: Role,
        /// Bytes so far.
        done: u64,
        /// Of how many.
        total: u64,
        /// What the slice cost.
        cost: Cost,
    },
    /// A probe file is complete.
    Laid {
        /// Which.
        role: Role,
        /// Its head.
        head: Head,
        /// What the last slice cost.
        cost: Cost,
        /// Whether its extents are written.
        finding: Finding,
    },
    /// Reads can begin.
    Opened(Box<OpenedReads>),
    /// A run came back, good or not.
    Ran(Box<Outcome>),
    /// The job failed before there was a run.
    Failed(Trouble),
    /// The lane's worker panicked, with this message.
    Panicked(String),
}

/// Does a lane's jobs. Made and used on the lane's own thread.
pub(super) trait Worker {
    /// One job from start to end.
    fn work(&mut self, job: Job) -> Report;
}

/// The way to a lane's thread.
#[derive(Debug)]
pub struct Lane {
    jobs: SyncSender<Job>,
}

impl Lane {
    pub(super) fn spawn<W: Worker>(
        name: &str,
        make: impl Fn() -> W + Send + 'static,
        report: impl Fn(Report) + Send + 'static,
    ) -> Result<Self, sys::Errno> {
        let (jobs, inbox) = sync_channel(1);
        let short = name.to_owned();
        thread::Builder::new().stack_size(STACK).spawn(move || {
            sys::name_thread(&short);
            serve(&inbox, &make, &report);
        })?;
        Ok(Self { jobs })
    }

    /// Hands a job over without waiting; `false` when the lane has one already or its thread is gone.
    pub fn give(&self, job: Job) -> bool {
        !matches!(self.jobs.try_send(job), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }
}

fn serve<W: Worker>(inbox: &Receiver<Job>, make: &dyn Fn() -> W, report: &dyn Fn(Report)) {
    let mut worker = make();
    while let Ok(job) = inbox.recv() {
        // The worker is thrown away after a panic, so nothing half-done of it is seen again.
        match catch_unwind(AssertUnwindSafe(|| worker.work(job))) {
            Ok(done) => report(done),
            Err(panic) => {
                worker = make();
                report(Report::Panicked(message(&*panic)));
            }
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    struct Fragile(u32);

    impl Worker for Fragile {
        fn work(&mut self, _: Job) -> Report {
            self.0 += 1;
            assert!(self.0 < 2, "the second job of a worker");
            Report::Laying { role: Role::Reads, done: 0, total: 0, cost: Cost::default() }
        }
    }

    #[test]
    fn a_panic_is_told_and_the_lane_goes_on_with_a_new_worker() {
        let (tell, told) = channel();
        let lane = Lane::spawn("test", || Fragile(0), move |r| drop(tell.send(r))).unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            assert!(lane.give(Job::Prepare));
            seen.push(told.recv_timeout(Duration::from_secs(20)).unwrap());
        }
        assert!(matches!(seen[0], Report::Laying { .. }));
        assert!(matches!(&seen[1], Report::Panicked(m) if m.contains("second job")));
        assert!(matches!(seen[2], Report::Laying { .. }));
    }
}
