//! What a run of a probe hands upward.

use crate::clock::Tick;
use crate::sys::Errno;

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$var_doc:meta])* $variant:ident = $label:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$var_doc])* $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As metric label and in reports.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.label())
            }
        }
    };
}

pub(super) use labels;

labels! {
    /// The probes of a daemon.
    Probe {
        /// Write and make durable.
        Commit = "commit",
        /// Random reads.
        Read = "read",
    }
}

labels! {
    /// Where in its burst an operation stands. A disk that is asked rarely answers the first one several times slower.
    Phase {
        /// Submitted before the run's first completion.
        First = "first",
        /// All others.
        Warm = "warm",
    }
}

labels! {
    /// What a target can do at the moment.
    State {
        /// It is probed.
        Ready = "ready",
        /// Its probe files are being written.
        LayingOut = "laying_out",
        /// An operation is out for longer than its threshold.
        Stalled = "stalled",
        /// The file system is read-only.
        ReadOnly = "read_only",
        /// No room for the probe files.
        NoSpace = "no_space",
        /// The path, device or probe file is not there, or fails.
        Gone = "gone",
        /// We may not.
        Permission = "permission",
        /// It cannot be measured honestly here, or another daemon has it.
        Unsupported = "unsupported",
    }
}

labels! {
    /// The step of a run that failed.
    Stage {
        /// Opening or looking at it.
        Open = "open",
        /// Writing a probe file.
        Layout = "layout",
        /// A commit's write.
        Write = "write",
        /// A commit's fsync or fdatasync.
        Sync = "sync",
        /// A read.
        Read = "read",
    }
}

labels! {
    /// Why a measured operation is not a sample of the disk.
    Invalid {
        /// We were stopped, frozen or starved of CPU.
        Starved = "starved",
        /// Fewer bytes moved than asked for.
        ShortIo = "short_io",
        /// The bytes read are not those written.
        Corruption = "corruption",
        /// The clock did not move.
        Clock = "clock",
    }
}

labels! {
    /// Truth checks: what can make a number right-looking and wrong.
    Fault {
        /// The extent was never written: the read never reaches the disk.
        Unwritten = "unwritten",
        /// The kernel's cache answers although direct I/O was asked for.
        Cached = "cached",
        /// A raw device answers with zeros only.
        Zeros = "zeros",
        /// A commit reached no flush, or no write, on a device with a volatile cache.
        Unflushed = "unflushed",
        /// Bytes read are not those written.
        Corruption = "corruption",
        /// The last run's samples were ours, not the disk's.
        Starved = "starved",
    }
}

labels! {
    /// What a truth check found.
    Verdict {
        /// Nothing wrong.
        Fine = "fine",
        /// It holds.
        Holds = "holds",
        /// It cannot be told here.
        Unknown = "unknown",
    }
}

/// A truth check's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which check.
    pub fault: Fault,
    /// What it found.
    pub verdict: Verdict,
    /// Why, in one sentence for people; may be empty when fine.
    pub evidence: String,
}

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// At which step.
    pub stage: Stage,
    /// What the kernel said.
    pub errno: Errno,
    /// One sentence for people: what, where, what to do.
    pub message: String,
}

/// One commit, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitSample {
    /// Where in the run.
    pub phase: Phase,
    /// The write call.
    pub write: u64,
    /// The fsync or fdatasync call; `None` where the write itself is durable (`O_DSYNC`).
    pub sync: Option<u64>,
    /// From before the write to after the sync.
    pub commit: u64,
}

/// One read at depth 1, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSample {
    /// Where in the run.
    pub phase: Phase,
    /// From before submit to after reap.
    pub nanos: u64,
}

/// The IOPS of a burst at depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Bytes of a read.
    pub block_size: u32,
    /// Configured operations outstanding.
    pub depth: u16,
    /// Operations per second.
    pub iops: f64,
}

/// What was issued for a probe on its file or device: runs, layout, looks at a file's head, truth checks. What failed or came back
/// short has cost as much as what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// fsync and fdatasync calls.
    pub syncs: u64,
}

/// What a lane's job cost beside a run, which brings its own [`Cost`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On the commit file.
    pub commits: Cost,
    /// On the read file, or on the device that is read.
    pub reads: Cost,
}

impl Cost {
    /// Counts a read that was issued, and hands on what came of it.
    pub fn read<E>(&mut self, came: Result<usize, E>) -> Result<usize, E> {
        self.reads += 1;
        self.read_bytes += came.as_ref().map_or(0, |n| *n as u64);
        came
    }

    /// Counts a write that was issued, and hands on what came of it.
    pub fn write<E>(&mut self, came: Result<usize, E>) -> Result<usize, E> {
        self.writes += 1;
        self.written_bytes += came.as_ref().map_or(0, |n| *n as u64);
        came
    }

    /// Counts a sync that was issued, and hands on what came of it.
    pub fn sync<E>(&mut self, came: Result<(), E>) -> Result<(), E> {
        self.syncs += 1;
        came
    }
}

/// What one run of a probe found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Which probe.
    pub probe: Probe,
    /// The instant that the schedule had drawn.
    pub planned: Tick,
    /// When the lane began.
    pub started: Tick,
    /// When the lane was done.
    pub finished: Tick,
    /// Valid commits, in their order.
    pub commits: Vec<CommitSample>,
    /// Valid reads at depth 1, in their order.
    pub reads: Vec<ReadSample>,
    /// The burst at depth, where one was complete.
    pub burst: Option<Burst>,
    /// Operations that are no samples, by reason.
    pub invalid: Vec<(Invalid, u64)>,
    /// `EAGAIN` answers.
    pub retries: u64,
    /// What it cost.
    pub cost: Cost,
    /// Truth checks that were made in this run; those not named keep their last verdict.
    pub findings: Vec<Finding>,
    /// Device requests that one commit causes, where counters tell: by this run, or by the last one that was held against them.
    pub per_commit: Option<PerCommit>,
    /// Whether the run was good.
    pub result: Result<(), Failure>,
}

/// What one commit costs the device, from its own counters (the whole device's: another's writes count too).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerCommit {
    /// Write requests.
    pub writes: f64,
    /// Flush requests.
    pub flushes: f64,
    /// Bytes written.
    pub bytes: f64,
}

impl Outcome {
    /// An outcome without anything in it yet.
    pub fn begin(probe: Probe, planned: Tick, started: Tick) -> Self {
        Self {
            probe,
            planned,
            started,
            finished: started,
            commits: Vec::new(),
            reads: Vec::new(),
            burst: None,
            invalid: Vec::new(),
            retries: 0,
            cost: Cost::default(),
            findings: Vec::new(),
            per_commit: None,
            result: Ok(()),
        }
    }

    /// Counts an operation that is no sample.
    pub fn count_invalid(&mut self, reason: Invalid) {
        match self.invalid.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, n)) => *n += 1,
            None => self.invalid.push((reason, 1)),
        }
    }
}
