//! The directory `.diskcanary` on a target: ours alone, marked, and locked against a second daemon.
//!
//! It is made beside what the user has, never inside a database's own directory (the caller decides where). Nothing in
//! it is written to unless we made it: the directory carries our tag and our user id, files have one name only.

use std::path::{Path, PathBuf};

use super::{Stage, Trouble};
use crate::io::{Inflight, Op};
use crate::sys::{self, Dir, Direct, EntryKind, Errno, File, Space};

/// The directory's name.
pub const NAME: &str = ".diskcanary";

/// Backup tools that know the cache directory convention leave a directory with this file alone.
const TAG_NAME: &str = "CACHEDIR.TAG";
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This directory was made by diskcanary, which probes the disk here.\n\
    # Its files hold nothing of value; `diskcanary clean PATH` removes them.\n\
    # The convention of this tag: https://bford.info/cachedir/\n";
const NEW_TAG: &str = "tag.new";
const LOCK_NAME: &str = "lock";

/// An open `.diskcanary` that no other process holds.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    dir: Dir,
    _lock: File,
}

impl Home {
    /// Opens or makes `.diskcanary` in `parent` (whose links were resolved before) and takes its lock.
    pub fn open(parent: &Path, inflight: &Inflight, now: crate::clock::Tick) -> Result<Self, Trouble> {
        inflight.begin(Op::Open, now);
        let home = Self::open_or_make(parent);
        inflight.end(Op::Open);
        home
    }

    fn open_or_make(parent: &Path) -> Result<Self, Trouble> {
        let path = parent.join(NAME);
        let io =
            |doing: &str, at: &Path, e| Trouble::io(Stage::Open, format_args!("{doing} {}", at.display()), e);
        let above = Dir::open(parent).map_err(|e| io("cannot open the directory", parent, e))?;
        match above.make_directory(NAME) {
            Ok(()) | Err(Errno::EEXIST) => {}
            // A file system that is read-only now may hold our directory from before.
            Err(Errno::EROFS) if above.kind(NAME).is_ok() => {}
            Err(e) => return Err(io("cannot make the directory", &path, e)),
        }
        let dir = match above.subdirectory(NAME) {
            Err(Errno::ENOTDIR | Errno::ELOOP) => return Err(not_ours(&path, "it is no directory")),
            other => other.map_err(|e| io("cannot open our directory", &path, e))?,
        };
        let marked = is_ours(&dir, &path)?;
        let lock = take_lock(&dir, &path)?;
        // Under the lock, so that two that start at once do not take the unfinished tag from each other.
        if !marked {
            mark(&dir).map_err(|e| Trouble::below(Stage::Open, "cannot write", &path, TAG_NAME, e))?;
        }
        Ok(Self { path, dir, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Space on its file system.
    pub fn space(&self) -> Result<Space, Trouble> {
        self.dir.space().map_err(|e| {
            Trouble::io(Stage::Open, format_args!("cannot ask for the space at {}", self.path.display()), e)
        })
    }
}

/// Removes everything of ours below `parent`; says what was removed. Errors are text for people.
pub fn clean(parent: &Path) -> Result<Vec<PathBuf>, String> {
    let path = parent.join(NAME);
    let say = |e: Errno| format!("cannot clean {}: {e}", path.display());
    let above = Dir::open(parent).map_err(|e| format!("cannot open {}: {e}", parent.display()))?;
    let dir = match above.subdirectory(NAME) {
        Err(Errno::ENOENT) => return Ok(Vec::new()),
        other => other.map_err(say)?,
    };
    is_ours(&dir, &path).map_err(|t| t.failure.message)?;
    let lock = take_lock(&dir, &path).map_err(|t| t.failure.message)?;
    let mut removed = Vec::new();
    let names = dir.names().map_err(say)?;
    if let Some(foreign) = names.iter().find(|name| !is_name_of_ours(name)) {
        return Err(format!(
            "{} holds `{}`, which diskcanary never makes; nothing was removed: move it away first",
            path.display(),
            foreign.escape_debug()
        ));
    }
    // The tag goes last: a clean that is cut off can be taken up again.
    for name in names.iter().filter(|n| *n != TAG_NAME).chain(names.iter().filter(|n| *n == TAG_NAME)) {
        dir.remove_file(name).map_err(say)?;
        removed.push(path.join(name));
    }
    drop(lock);
    above.remove_directory(NAME).map_err(say)?;
    removed.push(path);
    Ok(removed)
}

fn is_name_of_ours(name: &str) -> bool {
    let files =
        [super::layout::Role::Commits, super::layout::Role::Reads].map(super::layout::Role::file_name);
    name == TAG_NAME || name == LOCK_NAME || name == NEW_TAG || files.contains(&name)
}

/// Removes one probe file and leaves the rest. Errors are text for people; that it is gone already is none.
pub fn remove(parent: &Path, role: super::layout::Role) -> Result<(), String> {
    let path = parent.join(NAME);
    let say = |e: Errno| format!("cannot remove {}: {e}", path.join(role.file_name()).display());
    let dir = Dir::open(parent).and_then(|above| above.subdirectory(NAME)).map_err(say)?;
    is_ours(&dir, &path).map_err(|t| t.failure.message)?;
    let _lock = take_lock(&dir, &path).map_err(|t| t.failure.message)?;
    match dir.remove_file(role.file_name()) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(e) => Err(say(e)),
    }
}

/// Whether the directory carries our mark; `false` for an empty one, which may be marked. One that somebody else made or
/// filled is an error.
fn is_ours(dir: &Dir, path: &Path) -> Result<bool, Trouble> {
    let fail = |e| Trouble::below(Stage::Open, "cannot look into", path, "", e);
    if dir.owner().map_err(fail)? != sys::user_id() {
        return Err(not_ours(path, "it belongs to another user"));
    }
    match dir.kind(TAG_NAME) {
        Ok(EntryKind::File) => Ok(true),
        Ok(_) => Err(not_ours(path, "its CACHEDIR.TAG is no regular file")),
        Err(Errno::ENOENT) if dir.names().map_err(fail)?.iter().all(|n| n == LOCK_NAME || n == NEW_TAG) => {
            Ok(false)
        }
        Err(Errno::ENOENT) => Err(not_ours(path, "it holds files but not our CACHEDIR.TAG")),
        Err(e) => Err(fail(e)),
    }
}

fn not_ours(path: &Path, why: &str) -> Trouble {
    let message = format!(
        "{} is not ours: {why}. Nothing there was touched; move it away, or choose another place with `probe_dir:`",
        path.display()
    );
    Trouble::unsupported(Stage::Open, Errno::EEXIST, message)
}

/// Written under another name first: a tag that is there is whole.
fn mark(dir: &Dir) -> Result<(), Errno> {
    match dir.remove_file(NEW_TAG) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(e) => return Err(e),
    }
    let file = dir.create_file(NEW_TAG, Direct::No)?;
    if file.write_at(TAG.as_bytes(), 0)? != TAG.len() {
        return Err(Errno::ENOSPC);
    }
    file.fsync()?;
    dir.rename(NEW_TAG, TAG_NAME)?;
    dir.sync()
}

fn take_lock(dir: &Dir, path: &Path) -> Result<File, Trouble> {
    let opened = match dir.create_file(LOCK_NAME, Direct::No) {
        Err(Errno::EEXIST | Errno::EROFS | Errno::ENOSPC) => dir.open_file(LOCK_NAME, Direct::No),
        other => other,
    };
    if let Err(Errno::ELOOP | Errno::EISDIR | Errno::EINVAL) = opened {
        return Err(not_ours(path, "its lock is no regular file"));
    }
    let lock = opened.map_err(|e| Trouble::below(Stage::Open, "cannot open", path, LOCK_NAME, e))?;
    match lock.try_lock() {
        Ok(true) => Ok(lock),
        Ok(false) => Err(Trouble::unsupported(
            Stage::Open,
            Errno::EBUSY,
            format!("{} is in use by another diskcanary; two must not probe one directory", path.display()),
        )),
        // A file system without locks: we are alone as far as anybody can tell.
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => Ok(lock),
        Err(e) => Err(Trouble::below(Stage::Open, "cannot lock", path, LOCK_NAME, e)),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests look at files from outside")]
mod tests;
