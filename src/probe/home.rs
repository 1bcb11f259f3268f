//! The directory `.diskcanary` on a target: ours alone, marked, and locked against a second daemon.
//!
//! It is made beside what the user has, never inside a database's own directory (the caller decides where). Nothing in
//! it is written to unless we made it: the directory carries our tag and our user id, files have one name only.

use std::path::{Path, PathBuf};

use super::head::{self, Refusal};
use super::layout::Role;
use super::sweep::files;
use super::{Cost, Stage, Trouble};
use crate::io::{Inflight, Op};
use crate::sys::{self, Dir, Direct, Errno, File, Space};

/// The directory's name.
pub const NAME: &str = ".diskcanary";

/// Backup tools that know the cache directory convention leave a directory with this file alone.
const TAG_NAME: &str = "CACHEDIR.TAG";
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This directory was made by diskcanary, which probes the disk here.\n\
    # Its files hold nothing of value; `diskcanary clean PATH` removes them.\n\
    # The convention of this tag: https://bford.info/cachedir/\n";
/// Of its lines, those that say whose directory it is: other programs have the signature too.
const MARK_LINES: usize = 2;
const NEW_TAG: &str = "tag.new";
const LOCK_NAME: &str = "lock";
/// How often a lock is taken anew that was removed while we took it.
const LOCK_TRIES: u32 = 8;

/// An open `.diskcanary` that no other process holds.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    dir: Dir,
    made: bool,
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
        let made = above.make_directory(NAME);
        match made {
            Ok(()) | Err(Errno::EEXIST) => {}
            // A file system that is read-only now may hold our directory from before.
            Err(Errno::EROFS) if above.kind(NAME).is_ok() => {}
            Err(e) => return Err(io("cannot make the directory", &path, e)),
        }
        let dir = match above.subdirectory(NAME) {
            Err(Errno::ENOTDIR | Errno::ELOOP) => return Err(not_ours(&path, "it is no directory")),
            other => other.map_err(|e| io("cannot open our directory", &path, e))?,
        };
        let lock = lock_ours(&dir, &path)?;
        if standing(&dir, &path)? == Standing::Unmarked {
            mark(&dir).map_err(|e| Trouble::below(Stage::Open, "cannot write", &path, TAG_NAME, e))?;
        }
        Ok(Self { path, dir, made: made.is_ok(), _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was not there before.
    pub fn made(&self) -> bool {
        self.made
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

/// Removes everything of ours below `parent`; says what was removed. What we did not make stays, and then all stays. Errors
/// are text for people, and name what remains.
pub fn clean(parent: &Path) -> Result<Vec<PathBuf>, String> {
    let path = parent.join(NAME);
    let say = |e: Errno| format!("cannot clean {}: {e}", path.display());
    let above = Dir::open(parent).map_err(|e| format!("cannot open {}: {e}", parent.display()))?;
    let dir = match above.subdirectory(NAME) {
        Err(Errno::ENOENT) => return Ok(Vec::new()),
        other => other.map_err(say)?,
    };
    let lock = lock_ours(&dir, &path).map_err(|t| t.failure.message)?;
    let foreign: Vec<_> = dir.names().map_err(say)?.iter().filter_map(|name| foreign(&dir, name)).collect();
    if !foreign.is_empty() {
        let what = foreign.join("; ");
        return Err(format!("{} holds {what}; nothing was removed: move it away first", path.display()));
    }
    let mut removed = Vec::new();
    empty(&dir, &path, &lock, &mut removed)
        .and_then(|()| above.remove_directory(NAME).map_err(say))
        .map_err(|why| {
            let names = dir.names().unwrap_or_default();
            format!("{why}; in {} remain: {}", path.display(), names.join(", "))
        })?;
    removed.push(path);
    Ok(removed)
}

/// Whether a file of this name begins with a head: the two that are kept, and those of a sweep, which are there while it runs.
fn is_probe_file(name: &str) -> bool {
    [Role::Commits, Role::Reads].iter().any(|role| role.file_name() == name) || files::is_of_a_sweep(name)
}

/// Removes our files, each after another look at it. The tag goes late, so that a clean that is cut off can be taken up again,
/// and the lock last: until then no other process can hold it.
fn empty(dir: &Dir, path: &Path, lock: &File, removed: &mut Vec<PathBuf>) -> Result<(), String> {
    let names = dir.names().map_err(|e| format!("cannot look into {}: {e}", path.display()))?;
    for name in names.iter().filter(|name| is_probe_file(name)) {
        if head::remove(dir, path, name, &mut Cost::default()).map_err(|t| t.failure.message)? {
            removed.push(path.join(name));
        }
    }
    for name in [NEW_TAG, TAG_NAME, LOCK_NAME] {
        match foreign(dir, name) {
            Some(what) => return Err(format!("there is {what} now")),
            None if name == LOCK_NAME && !is_named(dir, lock) => {
                return Err("the lock was replaced".to_owned());
            }
            None => {}
        }
        match dir.remove_file(name) {
            Ok(()) => removed.push(path.join(name)),
            Err(Errno::ENOENT) => {}
            Err(e) => return Err(format!("cannot remove {}: {e}", path.join(name).display())),
        }
    }
    Ok(())
}

/// What stands under this name that we did not make, in words; `None` where it is ours, or gone.
fn foreign(dir: &Dir, name: &str) -> Option<String> {
    let not_ours = |why: &str| Some(format!("`{}`, which is not ours: {why}", name.escape_debug()));
    if is_probe_file(name) {
        return match head::examine(dir, name, &mut Cost::default()) {
            Ok(_) => None,
            Err(Refusal::Foreign(why)) => not_ours(why),
            Err(Refusal::Io(e)) => not_ours(&format!("it cannot be looked at: {e}")),
        };
    }
    let text = || dir.open_file(name, Direct::No).and_then(|file| text(&file));
    match name {
        TAG_NAME | NEW_TAG | LOCK_NAME => match text() {
            Err(Errno::ENOENT) => None,
            Err(e) => not_ours(&format!("it cannot be read: {e}")),
            Ok(text) if name == TAG_NAME && is_our_mark(&text) => None,
            Ok(text) if name == NEW_TAG && is_half_made(&text) => None,
            Ok(text) if name == LOCK_NAME && text.is_empty() => None,
            Ok(_) => not_ours("it holds another text"),
        },
        _ => Some(format!("`{}`, which diskcanary never makes", name.escape_debug())),
    }
}

/// Removes one probe file and leaves the rest. Errors are text for people; that it is gone already is none.
pub fn remove(parent: &Path, role: Role) -> Result<(), String> {
    let path = parent.join(NAME);
    let say = |e: Errno| format!("cannot remove {}: {e}", path.join(role.file_name()).display());
    let dir = Dir::open(parent).and_then(|above| above.subdirectory(NAME)).map_err(say)?;
    let removed = lock_ours(&dir, &path).and_then(|_lock| {
        head::remove(&dir, &path, role.file_name(), &mut Cost::default()).map(|_removed| ())
    });
    removed.map_err(|t| t.failure.message)
}

/// What may be used as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It carries our tag.
    Marked,
    /// It is empty, but for what we leave when we are cut off before it is marked.
    Unmarked,
}

/// Whether the directory is ours, or nobody's; one that somebody else made or filled is an error. Changes nothing.
fn standing(dir: &Dir, path: &Path) -> Result<Standing, Trouble> {
    let fail = |e| Trouble::below(Stage::Open, "cannot look into", path, "", e);
    if dir.owner().map_err(fail)? != sys::user_id() {
        return Err(not_ours(path, "it belongs to another user"));
    }
    match dir.open_file(TAG_NAME, Direct::No) {
        Ok(tag) if is_our_mark(&text(&tag).map_err(fail)?) => Ok(Standing::Marked),
        Ok(_) => Err(not_ours(path, "its CACHEDIR.TAG is another's")),
        Err(Errno::ENOENT) => {
            let names = dir.names().map_err(fail)?;
            // Another process of ours has marked it between two calls of ours.
            if names.iter().any(|name| name == TAG_NAME) {
                return standing(dir, path);
            }
            let left_by_us =
                |name: &str| [LOCK_NAME, NEW_TAG].contains(&name) && foreign(dir, name).is_none();
            match names.iter().all(|name| left_by_us(name)) {
                true => Ok(Standing::Unmarked),
                false => Err(not_ours(path, "it holds files but not our CACHEDIR.TAG")),
            }
        }
        Err(Errno::ELOOP | Errno::EISDIR | Errno::EINVAL) => {
            Err(not_ours(path, "its CACHEDIR.TAG is no regular file"))
        }
        Err(e) => Err(fail(e)),
    }
}

/// The first bytes of a file, a few more than a tag of ours has.
fn text(file: &File) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; TAG.len() + 64];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn is_our_mark(text: &[u8]) -> bool {
    let lines =
        |text: &[u8]| text.split_inclusive(|b| *b == b'\n').take(MARK_LINES).flatten().copied().collect();
    let (theirs, ours): (Vec<u8>, Vec<u8>) = (lines(text), lines(TAG.as_bytes()));
    theirs == ours
}

/// A crash leaves a tag cut off, or with zeros where its text is not durable.
fn is_half_made(text: &[u8]) -> bool {
    text.len() <= TAG.len() && text.iter().zip(TAG.as_bytes()).all(|(is, should)| is == should || *is == 0)
}

fn not_ours(path: &Path, why: &str) -> Trouble {
    let message = format!(
        "{} is not ours: {why}. Nothing there was touched; move it away, or choose another place with `probe_dir:`",
        path.display()
    );
    Trouble::unsupported(Stage::Open, Errno::EEXIST, message)
}

/// Written under another name first: a tag that is there is whole. Only under the lock.
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

/// The lock of a directory that is ours, or nobody's.
fn lock_ours(dir: &Dir, path: &Path) -> Result<File, Trouble> {
    standing(dir, path)?;
    take_lock(dir, path, &mut |_| {})
}

/// A lock counts only while its name stands for it: one that was removed before we had it (`clean`) locks out nobody.
/// `opened` is told of each file before it is locked.
fn take_lock(dir: &Dir, path: &Path, opened: &mut dyn FnMut(&File)) -> Result<File, Trouble> {
    let mut failed = Errno::EBUSY;
    for _ in 0..LOCK_TRIES {
        let lock = match open_lock(dir) {
            Ok(lock) => lock,
            Err(Errno::ELOOP | Errno::EISDIR | Errno::EINVAL) => {
                return Err(not_ours(path, "its lock is no regular file"));
            }
            // Between two calls of ours it was removed.
            Err(Errno::ENOENT) => {
                failed = Errno::ENOENT;
                continue;
            }
            Err(e) => return Err(Trouble::below(Stage::Open, "cannot open", path, LOCK_NAME, e)),
        };
        opened(&lock);
        match lock.try_lock() {
            // A file system without locks: we are alone as far as anybody can tell.
            Ok(true) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) if is_named(dir, &lock) => {
                let foreign = foreign(dir, LOCK_NAME);
                return foreign.map_or(Ok(lock), |what| Err(not_ours(path, &format!("it holds {what}"))));
            }
            Ok(true) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => {}
            Ok(false) => return Err(in_use(path)),
            Err(e) => return Err(Trouble::below(Stage::Open, "cannot lock", path, LOCK_NAME, e)),
        }
    }
    Err(match failed {
        Errno::EBUSY => in_use(path),
        e => Trouble::below(Stage::Open, "cannot open", path, LOCK_NAME, e),
    })
}

fn open_lock(dir: &Dir) -> Result<File, Errno> {
    match dir.create_file(LOCK_NAME, Direct::No) {
        Err(Errno::EEXIST | Errno::EROFS | Errno::ENOSPC) => dir.open_file(LOCK_NAME, Direct::No),
        other => other,
    }
}

/// Whether the lock's name stands for this file.
fn is_named(dir: &Dir, lock: &File) -> bool {
    let named = dir.stat(LOCK_NAME);
    named.is_ok_and(|named| lock.stat().is_ok_and(|own| own.identity() == named.identity()))
}

fn in_use(path: &Path) -> Trouble {
    let message =
        format!("{} is in use by another diskcanary; two must not probe one directory", path.display());
    Trouble::unsupported(Stage::Open, Errno::EBUSY, message)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests look at files from outside")]
mod tests;
