//! The threads of a sweep. They are made when they are first needed and kept; one whose disk hangs is waited for by its lane, so
//! that no other ever takes its place.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::sys::{self, Errno};

/// Enough for the deepest call of a committer or a loop; untouched pages cost nothing.
const STACK: usize = 256 << 10;

type Task = Box<dyn FnOnce() + Send>;

/// The threads, each with room for one task.
#[derive(Debug, Default)]
pub(super) struct Crew(Vec<SyncSender<Task>>);

impl Crew {
    /// Runs each task on a thread of its own, one alone on the caller's, and waits for all of them. What a task panicked with goes on
    /// in the caller once all others are back. An error: there is no thread to be had, and nothing was run.
    pub(super) fn run<T: Send + 'static>(
        &mut self,
        mut tasks: Vec<Box<dyn FnOnce() -> T + Send>>,
    ) -> Result<Vec<T>, Errno> {
        if tasks.len() == 1 {
            return Ok(tasks.drain(..).map(|task| task()).collect());
        }
        while self.0.len() < tasks.len() {
            self.0.push(hire(self.0.len())?);
        }
        let (tell, told) = channel();
        for ((number, task), hand) in tasks.into_iter().enumerate().zip(&self.0) {
            let tell = tell.clone();
            let task: Task = Box::new(move || {
                let _ = tell.send((number, catch_unwind(AssertUnwindSafe(task))));
            });
            hand.send(task).map_err(|_| Errno::ESRCH)?;
        }
        drop(tell);
        let mut all: Vec<(usize, thread::Result<T>)> = told.iter().collect();
        all.sort_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, result)| result.unwrap_or_else(|panic| resume_unwind(panic))).collect())
    }
}

fn hire(number: usize) -> Result<SyncSender<Task>, Errno> {
    let (hand, tasks) = sync_channel::<Task>(1);
    let work = move || {
        sys::name_thread(&format!("sweep-{number}"));
        tasks.iter().for_each(|task| task());
    };
    thread::Builder::new().stack_size(STACK).spawn(work)?;
    Ok(hand)
}

/// Where the threads of a cell meet before it begins, so that none works alone.
#[derive(Debug)]
pub(super) struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    missing: usize,
    failed: bool,
}

/// A thread's place there. One that is given up without having come lets the others go home.
#[derive(Debug)]
pub(super) struct Invitation<'a> {
    to: &'a Meeting,
    used: bool,
}

impl Meeting {
    /// Of so many threads.
    pub(super) fn of(threads: usize) -> Self {
        Self { state: Mutex::new(State { missing: threads, failed: false }), changed: Condvar::new() }
    }

    /// For one of them.
    pub(super) fn invite(&self) -> Invitation<'_> {
        Invitation { to: self, used: false }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

impl Invitation<'_> {
    /// Ready: waits for all others. `false`: one of them will not come.
    pub(super) fn meet(mut self) -> bool {
        self.used = true;
        self.to.change(|state| state.missing -= 1);
        let state = self.to.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |state: &mut State| state.missing > 0 && !state.failed;
        let state = self.to.changed.wait_while(state, waiting);
        !state.unwrap_or_else(PoisonError::into_inner).failed
    }
}

impl Drop for Invitation<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.to.change(|state| state.failed = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn task<T: 'static>(work: impl FnOnce() -> T + Send + 'static) -> Box<dyn FnOnce() -> T + Send> {
        Box::new(work)
    }

    #[test]
    fn all_meet_and_their_threads_are_kept() {
        let mut crew = Crew::default();
        let mut seen = std::collections::HashSet::new();
        for round in 0..3 {
            let meeting = Arc::new(Meeting::of(4));
            let tasks = (0..4).map(|number| {
                let meeting = Arc::clone(&meeting);
                task(move || (number, meeting.invite().meet(), thread::current().id()))
            });
            for (at, (number, met, thread)) in crew.run(tasks.collect()).unwrap().into_iter().enumerate() {
                assert_eq!((number, met), (at, true), "{round}");
                seen.insert(thread);
            }
        }
        assert_eq!(seen.len(), 4);
        let here = crew.run(vec![task(|| thread::current().id())]).unwrap();
        assert_eq!(here, [thread::current().id()]);
    }

    #[test]
    fn one_that_panics_does_not_keep_the_others() {
        let meeting = Arc::new(Meeting::of(2));
        let (comes, fails) = (Arc::clone(&meeting), Arc::clone(&meeting));
        let tasks = vec![
            task(move || assert!(!comes.invite().meet())),
            task(move || {
                let _invitation = fails.invite();
                panic!("on purpose");
            }),
        ];
        let panic = catch_unwind(AssertUnwindSafe(|| Crew::default().run(tasks))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
    }
}
