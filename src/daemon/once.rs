//! Every probe of one target a number of times, one after the other, for a person who waits. The lanes are those of the
//! daemon, so that a disk which hangs holds a lane, and we can say since when.

use std::path::PathBuf;
use std::time::Duration;

use super::lanes::Lanes;
use crate::clock;
use crate::config::TargetPlan;
use crate::io::Op;
use crate::probe::layout::{self, Head, Role};
use crate::probe::{Finding, Outcome, Probe, Trouble};
use crate::schedule::reader::OpenedReads;
use crate::schedule::writer::{FileState, Prepared};
use crate::schedule::{Job, Report};
use crate::sys::Errno;
use crate::target::Target;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Once {
    /// Where and how.
    pub plan: TargetPlan,
    /// Runs of each probe.
    pub rounds: u32,
    /// Rest before each run, so that its first operation is a first one.
    pub pause: Duration,
    /// How long one step may be out.
    pub patience: Duration,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes of a probe file are written, of so many.
    LayingOut(Role, u64, u64),
    /// So many runs of each probe are done.
    Measuring(u32),
}

/// Why it ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// This has not come back: an operation, if one is out, and for how long.
    Hung(Option<Op>, Duration),
    /// A signal said so.
    Interrupted,
    /// Nothing could be measured.
    Failed(Trouble),
    /// A lane panicked with this message.
    Panicked(String),
    /// A thread or signal handler could not be had.
    Start(Errno),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Ended {
    /// The target; `None` when it was not even looked at.
    pub target: Option<Target>,
    /// Our directory on it; `None` on a block device.
    pub home: Option<PathBuf>,
    /// How reads were done; `None` when there were none.
    pub opened: Option<OpenedReads>,
    /// Runs of the commit probe, in their order.
    pub commits: Vec<Outcome>,
    /// Runs of the read probe, in their order.
    pub reads: Vec<Outcome>,
    /// Probe files that were begun to be laid out.
    pub laid: Vec<Role>,
    /// Why it ended early, if it did.
    pub halt: Option<Halt>,
    /// Whether the lanes are gone, and with them every open file and the lock.
    pub released: bool,
}

/// Looks at the target, lays out what is missing, and runs each probe. `tell` hears what is being done.
pub fn once(wish: &Once, tell: &mut dyn FnMut(Step)) -> Ended {
    let mut ended = Ended::default();
    let mut lanes = match Lanes::start(&wish.plan, wish.patience, false) {
        Ok(lanes) => lanes,
        Err(errno) => return Ended { halt: Some(Halt::Start(errno)), released: true, ..ended },
    };
    ended.halt = all(wish, &mut lanes, &mut ended, tell).err();
    ended.released = lanes.release();
    ended
}

fn all(wish: &Once, lanes: &mut Lanes, ended: &mut Ended, tell: &mut dyn FnMut(Step)) -> Result<(), Halt> {
    let prepared = match lanes.ask(Job::Prepare { was: None })? {
        Report::Prepared(prepared) => *prepared,
        other => return Err(failed(other)),
    };
    (ended.target, ended.home) = (Some(prepared.target.clone()), prepared.home.clone());
    let mut found = Vec::new();
    let [commits, reads] = files(&prepared, lanes, ended, &mut found, tell)?;
    let wants_reads = wish.plan.read.is_some() && (prepared.home.is_none() || reads.is_some());
    let reading = wants_reads && open(prepared.home, reads, lanes, ended)?;
    let rounds = measure(wish, [commits.is_some(), reading], lanes, ended, tell);
    let opened = ended.opened.iter().flat_map(|o| &o.findings).map(|f| (Probe::Read, f.clone()));
    found.extend(opened.collect::<Vec<_>>());
    for (probe, finding) in found {
        let runs = if probe == Probe::Commit { &mut ended.commits } else { &mut ended.reads };
        if let Some(run) = runs.first_mut() {
            run.findings.push(finding);
        }
    }
    rounds
}

/// The probe files that are complete in the end. One that cannot be had is a failed run of its probe.
fn files(
    prepared: &Prepared,
    lanes: &mut Lanes,
    ended: &mut Ended,
    found: &mut Vec<(Probe, Finding)>,
    tell: &mut dyn FnMut(Step),
) -> Result<[Option<Head>; 2], Halt> {
    let mut heads = [None, None];
    let each =
        [(Role::Commits, Probe::Commit, &prepared.commits), (Role::Reads, Probe::Read, &prepared.reads)];
    for (head, (role, probe, state)) in heads.iter_mut().zip(each) {
        let laid = match state {
            None => continue,
            Some(FileState::Ready(ready)) => Ok(*ready),
            Some(FileState::Trouble(trouble)) => Err(trouble.clone()),
            Some(FileState::Lay) => {
                ended.laid.push(role);
                lay(role, lanes, tell)?.map(|(head, finding)| {
                    found.push((probe, finding));
                    head
                })
            }
        };
        match laid {
            Ok(ready) => *head = Some(ready),
            Err(trouble) => fail(probe, trouble, ended),
        }
    }
    Ok(heads)
}

pub(super) fn lay(
    role: Role,
    lanes: &mut Lanes,
    tell: &mut dyn FnMut(Step),
) -> Result<Result<(Head, Finding), Trouble>, Halt> {
    loop {
        let began = clock::now();
        match lanes.ask(Job::Layout(role))? {
            Report::Laying { done, total, .. } => tell(Step::LayingOut(role, done, total)),
            Report::Laid { head, finding, .. } => return Ok(Ok((head, finding))),
            Report::Failed(trouble) => return Ok(Err(trouble)),
            other => return Err(failed(other)),
        }
        if role == Role::Reads {
            lanes.rest(layout::pace(layout::RATE).saturating_sub(clock::now().since(began)))?;
        }
    }
}

/// Whether reads can begin.
fn open(
    home: Option<PathBuf>,
    head: Option<Head>,
    lanes: &mut Lanes,
    ended: &mut Ended,
) -> Result<bool, Halt> {
    let job = match (home, head) {
        (Some(home), Some(head)) => Job::OpenFile { home, head },
        _ => Job::OpenDevice,
    };
    match lanes.ask(job)? {
        Report::Opened(opened) => ended.opened = Some(*opened),
        Report::Failed(trouble) => fail(Probe::Read, trouble, ended),
        other => return Err(failed(other)),
    }
    Ok(ended.opened.is_some())
}

/// A probe that failed is not run again: what it said is what there is to say.
fn measure(
    wish: &Once,
    mut on: [bool; 2],
    lanes: &mut Lanes,
    ended: &mut Ended,
    tell: &mut dyn FnMut(Step),
) -> Result<(), Halt> {
    for round in 0..wish.rounds {
        tell(Step::Measuring(round));
        for probe in Probe::ALL.iter().copied() {
            if !on[probe as usize] {
                continue;
            }
            lanes.rest(wish.pause)?;
            let planned = clock::now();
            let commits = probe == Probe::Commit;
            match lanes.ask(if commits { Job::Commit { planned } } else { Job::Read { planned } })? {
                Report::Ran(outcome) => {
                    on[probe as usize] = outcome.result.is_ok();
                    if commits { &mut ended.commits } else { &mut ended.reads }.push(*outcome);
                }
                Report::Failed(trouble) => {
                    on[probe as usize] = false;
                    fail(probe, trouble, ended);
                }
                other => return Err(failed(other)),
            }
        }
    }
    Ok(())
}

fn fail(probe: Probe, trouble: Trouble, ended: &mut Ended) {
    let now = clock::now();
    let mut run = Outcome::begin(probe, now, now);
    run.result = Err(trouble.failure);
    if probe == Probe::Commit { &mut ended.commits } else { &mut ended.reads }.push(run);
}

pub(super) fn failed(report: Report) -> Halt {
    match report {
        Report::Failed(trouble) => Halt::Failed(trouble),
        Report::Panicked(message) => Halt::Panicked(message),
        other => Halt::Panicked(format!("the lane answered something else: {other:?}")),
    }
}
