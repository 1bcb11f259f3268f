//! The lane that writes: finds the target, owns our directory there, lays out the probe files, and commits. A frozen file
//! system stops this lane and no other.

use std::path::{Path, PathBuf};

use super::lane::{CommitSpec, Context, Direction, Job, Lane, Mounted, Report, Worker};
use super::totals::{self, Totals};
use crate::clock;
use crate::io::{Durability, Op};
use crate::probe::commit::{COMMITS, CommitProbe};
use crate::probe::home::{self, Home};
use crate::probe::layout::{self, Found, Head, Layout, Progress, Role, Wish};
use crate::probe::truth::{self, Underneath};
use crate::probe::{Failure, Outcome, PerCommit, Spent, Stage, State, Trouble};
use crate::sys::{Dir, Errno};
use crate::target::{self, Kind, Refusal, Target};

impl FileState {
    /// Where there are no descriptors left, we let go of those that we have: a scrape needs one more than a target that fails.
    fn must_not_starve_others(&self) -> Result<(), Trouble> {
        match self {
            Self::Trouble(trouble) if matches!(trouble.failure.errno, Errno::EMFILE | Errno::ENFILE) => {
                Err(trouble.clone())
            }
            _ => Ok(()),
        }
    }
}

/// What a look at the target found.
#[derive(Debug)]
pub struct Prepared {
    /// The target, resolved.
    pub target: Target,
    /// Our directory; `None` for a block device, where nothing is written.
    pub home: Option<PathBuf>,
    /// Whether this look had to make it.
    pub made: bool,
    /// Why our directory is not below the target's path.
    pub note: Option<String>,
    /// The commit file; `None` when the probe is off.
    pub commits: Option<FileState>,
    /// The read file; `None` when the probe is off.
    pub reads: Option<FileState>,
}

/// What a probe file is.
#[derive(Clone, Debug)]
pub enum FileState {
    /// Complete.
    Ready(Head),
    /// To be laid out.
    Lay,
    /// Neither: why.
    Trouble(Trouble),
}

/// The writing lane of a target.
pub fn spawn(context: Context, report: impl Fn(Report, Spent) + Send + 'static) -> Result<Lane, Errno> {
    Lane::spawn(Direction::Write, context, |context| Writer::new(context.clone()), report)
}

/// Of so many runs one is held against the disks' counters, the first after each look among them; what it says holds for those that
/// follow. To read them before and after a run takes a sixth of the CPU time of the whole run.
const MEASURED: u32 = 5;

struct Writer {
    context: Context,
    random: fastrand::Rng,
    target: Option<Target>,
    totals: Totals,
    /// What a commit of the last measured run cost the disks, and runs from its begin on.
    measured: Option<PerCommit>,
    since_measured: u32,
    home: Option<Home>,
    layout: Option<Layout>,
    commits: Option<CommitProbe>,
    /// A commit was not made durable: what the file holds is not known.
    suspect: bool,
    spent: Spent,
}

impl Worker for Writer {
    fn work(&mut self, job: Job) -> Report {
        match job {
            Job::Prepare { was } => match self.prepare(was.as_ref()) {
                Ok(prepared) => Report::Prepared(Box::new(prepared)),
                Err(trouble) => Report::Failed(trouble),
            },
            Job::Layout(role) => self.lay(role).unwrap_or_else(Report::Failed),
            Job::Commit { planned } => self.commit(planned),
            Job::Close => {
                self.context.inflight.begin(Op::Open, clock::now());
                self.let_go();
                self.context.inflight.end(Op::Open);
                Report::Closed
            }
            Job::OpenFile { .. }
            | Job::OpenDevice
            | Job::Read { .. }
            | Job::OpenSweep(_)
            | Job::Cell { .. }
            | Job::Carry { .. } => Report::Failed(not_here()),
        }
    }

    fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }
}

impl Writer {
    fn new(context: Context) -> Self {
        let random = fastrand::Rng::with_seed(context.seed ^ clock::now().nanos());
        Self {
            context,
            random,
            target: None,
            totals: Totals::default(),
            measured: None,
            since_measured: 0,
            home: None,
            layout: None,
            commits: None,
            suspect: false,
            spent: Spent::default(),
        }
    }

    /// Looks at everything anew, and keeps what is as it was: the lock, the open commit file, a layout in progress.
    fn prepare(&mut self, was: Option<&Mounted>) -> Result<Prepared, Trouble> {
        self.context.inflight.begin(Op::Open, clock::now());
        let prepared = self.look(was);
        if prepared.is_err() {
            self.let_go();
        }
        self.context.inflight.end(Op::Open);
        prepared
    }

    /// Closes everything. Which file system it was is still known.
    fn let_go(&mut self) {
        (self.commits, self.layout, self.home) = (None, None, None);
    }

    fn look(&mut self, was: Option<&Mounted>) -> Result<Prepared, Trouble> {
        let (target, place) = self.find(was)?;
        let Some(place) = place else {
            self.let_go();
            return Ok(Prepared { target, home: None, made: false, note: None, commits: None, reads: None });
        };
        let (home, made) = match self.home.take().filter(|home| is_at(home, &place.dir)) {
            Some(home) => (home, false),
            None => {
                // Closed first: the lock may be our own.
                (self.commits, self.layout) = (None, None);
                let home = Home::open(&place.dir, &self.context.inflight, clock::now())?;
                self.context.inflight.begin(Op::Open, clock::now());
                let made = home.made();
                (home, made)
            }
        };
        let spec = self.context.spec.clone();
        let commits = spec.commit.map(|commit| self.look_at_commits(&home, commit));
        let wish = |size| Wish { size, reserve: spec.reserve };
        let reads = spec.read.map(|read| match self.laying(Role::Reads) {
            true => FileState::Lay,
            false => {
                let cost = &mut self.spent.reads;
                state(layout::look(&home, Role::Reads, wish(read.file_size), cost))
            }
        });
        for state in commits.iter().chain(&reads) {
            state.must_not_starve_others()?;
        }
        let path = home.path().to_owned();
        self.totals = Totals::of(&target, &self.context.roots);
        (self.measured, self.since_measured) = (None, 0);
        (self.home, self.target) = (Some(home), Some(target.clone()));
        Ok(Prepared { target, home: Some(path), made, note: place.note, commits, reads })
    }

    fn laying(&self, role: Role) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.role() == role)
    }

    fn find(&self, was: Option<&Mounted>) -> Result<(Target, Option<target::Place>), Trouble> {
        let spec = &self.context.spec;
        let target = target::resolve(&spec.path, &self.context.roots).map_err(|e| unresolved(&e))?;
        if target.kind == Kind::BlockDevice {
            return Ok((target, None));
        }
        still_mounted(was, &target)?;
        let place = target::place(&target, spec.probe_dir.as_deref(), &self.context.roots)
            .map_err(|e| refused(&e))?;
        refuse_memory(&place.dir)?;
        Ok((target, Some(place)))
    }

    fn look_at_commits(&mut self, home: &Home, spec: CommitSpec) -> FileState {
        if self.laying(Role::Commits) {
            return FileState::Lay;
        }
        let wish = Wish { size: spec.file_size, reserve: self.context.spec.reserve };
        match layout::look(home, Role::Commits, wish, &mut self.spent.commits) {
            Ok(Found::Ready(_)) if self.suspect => FileState::Lay,
            Ok(Found::Ready(head)) if self.commits.as_ref().is_some_and(|open| open.head() == head) => {
                FileState::Ready(head)
            }
            Ok(Found::Ready(head)) => match self.open_commits(home, head, spec) {
                Ok(()) => FileState::Ready(head),
                Err(trouble) => FileState::Trouble(trouble),
            },
            other => state(other),
        }
    }

    fn open_commits(&mut self, home: &Home, head: Head, spec: CommitSpec) -> Result<(), Trouble> {
        let random = self.random.fork();
        let (row, method, cost) = (spec.profile.row(), Some(spec.method), &mut self.spent.commits);
        let probe = CommitProbe::open(home, head, row, method, COMMITS, random, cost)?;
        (self.commits, self.suspect) = (Some(probe), false);
        Ok(())
    }

    /// One slice of a layout, begun if it is not going on.
    fn lay(&mut self, role: Role) -> Result<Report, Trouble> {
        let home = self.home.as_ref().ok_or_else(not_here)?;
        let spec = &self.context.spec;
        let cost = match role {
            Role::Commits => &mut self.spent.commits,
            Role::Reads => &mut self.spent.reads,
        };
        let size = match role {
            Role::Commits => spec.commit.map(|c| c.file_size),
            Role::Reads => spec.read.map(|r| r.file_size),
        };
        let mut layout = match self.layout.take().filter(|l| l.role() == role) {
            Some(going_on) => going_on,
            None => {
                let wish = Wish { size: size.ok_or_else(not_here)?, reserve: spec.reserve };
                self.context.inflight.begin(Op::Layout, clock::now());
                if role == Role::Commits {
                    self.commits = None;
                }
                let begun = Layout::begin(home, role, wish, self.random.fork(), cost);
                self.context.inflight.end(Op::Layout);
                begun?
            }
        };
        match layout.step(home, clock::now(), &self.context.inflight, cost)? {
            Progress::Going(done, total) => {
                self.layout = Some(layout);
                Ok(Report::Laying { role, done, total })
            }
            Progress::Done(head, extents) => {
                if let (Role::Commits, Some(commit)) = (role, spec.commit) {
                    // The lock is in it, so it is given back whatever comes.
                    let home = self.home.take().ok_or_else(not_here)?;
                    self.context.inflight.begin(Op::Open, clock::now());
                    let opened = self.open_commits(&home, head, commit);
                    self.context.inflight.end(Op::Open);
                    self.home = Some(home);
                    opened?;
                }
                Ok(Report::Laid { role, head, finding: truth::unwritten(Ok(extents)) })
            }
        }
    }

    fn commit(&mut self, planned: clock::Tick) -> Report {
        let mut under = (self.since_measured == 0).then(|| self.underneath());
        let Some(probe) = &mut self.commits else { return Report::Failed(not_here()) };
        self.since_measured = (self.since_measured + 1) % MEASURED;
        if let Some(under) = &mut under {
            under.before = self.totals.read();
        }
        let mut outcome = probe.run(planned, clock::now(), &self.context.inflight, &self.context.heart);
        outcome.finished = clock::now();
        if let Some(under) = &mut under {
            under.after = self.totals.read();
            let done = usize::try_from(outcome.cost.writes).unwrap_or(0);
            self.measured = under.per_commit(done);
            outcome.findings.extend(under.unflushed(done, probe.durability()));
        }
        outcome.per_commit = self.measured;
        // Afterwards, so that no access of ours wakes the disk before it is timed.
        if outcome.result.is_ok() {
            self.context.inflight.begin(Op::Open, clock::now());
            outcome.result = probe.seat().check().map_err(|trouble| trouble.failure);
            self.context.inflight.end(Op::Open);
        }
        self.after(outcome)
    }

    /// What a failed run leaves behind: after a failed sync, or a failed write that was to be durable, nothing of the file is to be trusted, and after any failure it
    /// is opened anew.
    fn after(&mut self, outcome: Outcome) -> Report {
        if let Err(failure) = &outcome.result {
            let durable_write =
                self.commits.as_ref().is_some_and(|c| c.durability() == Durability::WriteThrough);
            self.suspect |= failure.stage == Stage::Sync || (durable_write && failure.stage == Stage::Write);
            self.context.inflight.begin(Op::Open, clock::now());
            self.commits = None;
            self.context.inflight.end(Op::Open);
        }
        Report::Ran(Box::new(outcome))
    }

    fn underneath(&self) -> Underneath {
        self.target.as_ref().map(totals::underneath).unwrap_or_default()
    }
}

/// A file system that was there before and is not mounted any more leaves a bare directory behind, on another disk: that is not the
/// one to be measured, and nothing of ours belongs there.
fn still_mounted(was: Option<&Mounted>, now: &Target) -> Result<(), Trouble> {
    let Some((was, is)) = was.zip(now.mount.as_ref()) else { return Ok(()) };
    if is.point == was.point || !was.point.starts_with(&is.point) {
        return Ok(());
    }
    let doing = format_args!(
        "{} of {} is not mounted any more, and {} would be on the disk of {}; if that disk is meant now, give the target \
         another name",
        was.point.display(),
        was.source,
        now.path.display(),
        is.point.display()
    );
    Err(Trouble::io(Stage::Open, doing, Errno::ENODEV))
}

/// Whether our directory is still the one below `parent`, by device and inode: not removed, replaced, or hidden by a mount.
fn is_at(home: &Home, parent: &Path) -> bool {
    let there = Dir::open(parent).and_then(|dir| dir.subdirectory(home::NAME)).and_then(|dir| dir.identity());
    there.is_ok_and(|there| home.dir().identity() == Ok(there))
}

fn state(found: Result<Found, Trouble>) -> FileState {
    match found {
        Ok(Found::Ready(head)) => FileState::Ready(head),
        Ok(Found::Lay) => FileState::Lay,
        Err(trouble) => FileState::Trouble(trouble),
    }
}

/// A path that cannot be a target: missing ones may come, forbidden ones may be allowed, others never will be right.
pub(super) fn unresolved(error: &target::Error) -> Trouble {
    let state = match error.kind() {
        target::ErrorKind::Missing => State::Gone,
        target::ErrorKind::NotADirectoryOrDevice => State::Unsupported,
        target::ErrorKind::Permission => State::Permission,
        target::ErrorKind::Io(errno) => crate::probe::state_after(errno),
    };
    let failure = Failure { stage: Stage::Open, errno: error.errno(), message: error.to_string() };
    Trouble { state, failure }
}

/// Memory is known by what the file system says of itself too, where no mount could be found that tells.
fn refuse_memory(dir: &Path) -> Result<(), Trouble> {
    let space = Dir::open(dir).and_then(|opened| opened.space());
    let at = dir.display();
    let doing = format_args!("cannot ask for the space at {at}");
    if space.map_err(|e| Trouble::io(Stage::Open, doing, e))?.is_memory() {
        let why = format!("{} lies on a file system in memory: there is no disk to measure", dir.display());
        return Err(refused(&Refusal::Memory(why)));
    }
    Ok(())
}

fn refused(refusal: &Refusal) -> Trouble {
    match refusal {
        // It may be known at the next look; that somebody may not know it stays.
        Refusal::Unreadable { errno, .. } if !matches!(*errno, Errno::EACCES | Errno::EPERM) => Trouble {
            state: crate::probe::state_after(*errno),
            failure: Failure { stage: Stage::Open, errno: *errno, message: refusal.to_string() },
        },
        _ => Trouble::unsupported(Stage::Open, Errno::EOPNOTSUPP, refusal.to_string()),
    }
}

/// A job that does not fit what the lane holds: the planner and the lane disagree, and looking again mends it.
fn not_here() -> Trouble {
    let message = "the lane has not been prepared for this".to_owned();
    Trouble { state: State::Gone, failure: Failure { stage: Stage::Open, errno: Errno::EBADFD, message } }
}
