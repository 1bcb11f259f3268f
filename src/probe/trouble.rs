//! What went wrong, with the state that it puts the target in.

use std::path::Path;

use super::{Failure, Stage, State};
use crate::sys::Errno;

/// A failure and what the target is until it is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What the target is now.
    pub state: State,
    /// Why.
    pub failure: Failure,
}

impl Trouble {
    /// A system call failed: `doing` says what we were about ("cannot open the directory /x").
    pub fn io(stage: Stage, doing: impl std::fmt::Display, errno: Errno) -> Self {
        let message = format!("{doing}: {errno}{}", advice(errno));
        Self { state: state_after(errno), failure: Failure { stage, errno, message } }
    }

    /// It cannot be done honestly or safely here; `message` says why and names a way out.
    pub fn unsupported(stage: Stage, errno: Errno, message: String) -> Self {
        Self { state: State::Unsupported, failure: Failure { stage, errno, message } }
    }

    /// No room for a probe file; `message` has the numbers.
    pub fn no_space(message: String) -> Self {
        let failure = Failure { stage: Stage::Layout, errno: Errno::ENOSPC, message };
        Self { state: State::NoSpace, failure }
    }

    pub(super) fn below(stage: Stage, what: &str, dir: &Path, name: &str, errno: Errno) -> Self {
        Self::io(stage, format_args!("{what} {}", dir.join(name).display()), errno)
    }
}

/// The state that an error number puts a target in.
pub fn state_after(errno: Errno) -> State {
    match errno {
        Errno::EROFS => State::ReadOnly,
        Errno::ENOSPC | Errno::EDQUOT => State::NoSpace,
        Errno::EACCES | Errno::EPERM => State::Permission,
        Errno::EOPNOTSUPP | Errno::ENOSYS => State::Unsupported,
        _ => State::Gone,
    }
}

/// `EACCES` and `EPERM` have different cures.
fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::EACCES => "; the permission bits forbid it to the user that runs diskcanary",
        Errno::EPERM => {
            "; not the permission bits forbid it, but an immutable flag, a device cgroup or a security module"
        }
        _ => "",
    }
}
