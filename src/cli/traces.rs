//! What the commands that measure once leave behind, and how they do not wait for a disk that hangs.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::config::TargetPlan;
use crate::io::Op;
use crate::probe::home;
use crate::probe::layout::{self, Role};
use crate::sys;
use crate::target::Place;
use crate::units::Bytes;

/// What lay there before us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    home: bool,
    commits: Option<Bytes>,
    reads: Option<Bytes>,
}

/// Looks, on the thread that runs it.
pub(super) fn before(dir: PathBuf) -> impl FnOnce() -> Before + Send + 'static {
    move || {
        let wished = |role| layout::there(&dir, role).map(|head| Bytes::new(head.wished));
        Before {
            home: sys::metadata(&dir.join(home::NAME)).is_ok(),
            commits: wished(Role::Commits),
            reads: wished(Role::Reads),
        }
    }
}

impl Before {
    /// A file that is there is used as it is: to lay it out in another size would take it from the daemon that owns it.
    pub(super) fn use_in(&self, plan: &mut TargetPlan) {
        if let (Some(commit), Some(size)) = (&mut plan.commit, self.commits) {
            commit.file_size = size;
        }
        if let (Some(read), Some(size)) = (&mut plan.read, self.reads) {
            read.file_size = size;
        }
    }

    /// Removes what was laid out for this command alone; what is left, if something is. `released`: nobody has it open any more.
    pub(super) fn tidy(&self, place: &Place, laid: &[Role], released: bool) -> Option<String> {
        let (dir, all, laid) = (place.dir.clone(), !self.home, laid.to_vec());
        let at = dir.join(home::NAME);
        let left = |why: &str| {
            Some(format!(
                "the probe files are left in {} ({why}); `diskcanary clean` removes them",
                at.display()
            ))
        };
        if !released {
            return left("an operation on them is still out");
        }
        let removed = within(Duration::from_secs(10), move || match all {
            true => home::clean(&dir).map(drop),
            false => laid.iter().try_for_each(|role| home::remove(&dir, *role)),
        });
        match removed {
            None => left("removing them takes too long"),
            Some(Err(why)) => left(&why),
            Some(Ok(())) => None,
        }
    }
}

/// Runs what may never return on a thread of its own; `None` when it takes longer than we wait.
pub(super) fn within<T: Send + 'static>(
    patience: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = channel();
    // Nobody may wait for the answer any more.
    thread::Builder::new().spawn(move || drop(tell.send(act()))).ok()?;
    told.recv_timeout(patience).ok()
}

/// An operation, in a sentence.
pub(super) fn what(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Sync => "sync",
        Op::Open => "look at the probe files",
        Op::Layout => "write of the probe file",
    }
}

/// That something does not come back.
pub(super) fn hung(what: &str, age: Duration) -> String {
    format!(
        "the disk does not answer: {what} has been out for {:.1} s and is given up; `dmesg` may say why",
        age.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_comes_back_is_not_waited_for() {
        assert_eq!(within(Duration::from_secs(20), || 7), Some(7));
        let (_keep, never) = channel::<()>();
        assert_eq!(within(Duration::from_millis(20), move || never.recv().is_ok()), None);
        assert!(hung("a sync", Duration::from_millis(30_040)).contains("a sync has been out for 30.0 s"));
    }
}
