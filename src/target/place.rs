//! Where our files may go: in no directory of a database, and never on another disk than the one asked for.

use std::fmt;
use std::path::{Path, PathBuf};

use super::marks::{self, Mark};
use super::{Error, ErrorKind, Kind, Roots, Target, mounts};
use crate::sys::{self, Errno};

/// Where our files go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory, without links, in which our own directory is made.
    pub dir: PathBuf,
    /// Why it is not the target's path, in a sentence for people.
    pub note: Option<String>,
}

/// Why no place was found. Prints as what is wrong, and the ways out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The target is no disk; the sentence says why.
    Memory(String),
    /// A block device is only ever read: nothing is written to it, so there is no place to find.
    OnlyRead(PathBuf),
    /// The whole mount lies in a database's directory.
    Database {
        /// The target's path.
        path: PathBuf,
        /// Which directory is whose, in words.
        mark: String,
        /// Where the mount begins, if known.
        mount: Option<PathBuf>,
    },
    /// A directory fails, now: whether it belongs to a database cannot be seen.
    Unreadable {
        /// Which one.
        dir: PathBuf,
        /// How it fails.
        errno: Errno,
    },
    /// `probe_dir` lies in a database's directory.
    ProbeDirInDatabase {
        /// `probe_dir`.
        dir: PathBuf,
        /// Which directory is whose, in words.
        mark: String,
    },
    /// `probe_dir` is not on the target's file system.
    ProbeDirElsewhere {
        /// `probe_dir`.
        dir: PathBuf,
        /// The target's path.
        path: PathBuf,
    },
    /// `probe_dir` cannot be used: why.
    ProbeDir(Error),
}

/// Finds the directory in which our own goes: the target's path, or where that lies in or below a database's
/// directory the nearest one above it on the same mount; or `probe_dir`, if it is on the same file system and in no
/// database's directory. Nothing is opened for writing and nothing is created.
pub fn place(target: &Target, probe_dir: Option<&Path>, roots: &Roots) -> Result<Place, Refusal> {
    if let Some(why) = &target.memory_only {
        return Err(Refusal::Memory(why.clone()));
    }
    if target.kind == Kind::BlockDevice {
        return Err(Refusal::OnlyRead(target.path.clone()));
    }
    match probe_dir {
        Some(dir) => chosen(target, dir, roots),
        None => nearest(target, roots),
    }
}

fn nearest(target: &Target, roots: &Roots) -> Result<Place, Refusal> {
    let Some(mark) = outermost(&target.path)? else {
        return Ok(Place { dir: target.path.clone(), note: None });
    };
    let mounts = mounts::read(roots);
    match mark.dir.parent() {
        Some(above) if same_mount(target, above, &mounts) => {
            Ok(Place { dir: above.to_owned(), note: Some(note(above, &mark)) })
        }
        _ => Err(Refusal::Database {
            path: target.path.clone(),
            mark: mark.to_string(),
            mount: target.mount.as_ref().map(|mount| mount.point.clone()),
        }),
    }
}

fn outermost(path: &Path) -> Result<Option<Mark>, Refusal> {
    marks::outermost(path).map_err(|(dir, errno)| Refusal::Unreadable { dir, errno })
}

fn note(above: &Path, mark: &Mark) -> String {
    format!(
        "our files go to {}, since {mark} and foreign files there would break its backups",
        above.display()
    )
}

fn chosen(target: &Target, given: &Path, roots: &Roots) -> Result<Place, Refusal> {
    let fault = |errno| Refusal::ProbeDir(Error::of(given, errno));
    let dir = sys::resolve_links(given).map_err(fault)?;
    if sys::metadata(&dir).map_err(fault)?.kind != sys::Kind::Directory {
        return Err(Refusal::ProbeDir(Error::wrong_kind(given, "not a directory")));
    }
    if !same_file_system(target, &dir, roots) {
        return Err(Refusal::ProbeDirElsewhere { dir, path: target.path.clone() });
    }
    if let Some(mark) = outermost(&dir)? {
        return Err(Refusal::ProbeDirInDatabase { dir, mark: mark.to_string() });
    }
    let note = (dir != target.path).then(|| format!("our files go to {}, as probe_dir says", dir.display()));
    Ok(Place { dir, note })
}

/// Whether a directory above the target lies on its mount; where no mount is known, on its device.
fn same_mount(target: &Target, above: &Path, mounts: &[super::Mount]) -> bool {
    match (&target.mount, mounts::find(mounts, above)) {
        (Some(mine), Some(other)) => mine.id == other.id,
        _ => same_device(&target.path, above),
    }
}

/// Whether a directory lies on the target's file system. Subvolumes have devices of their own, and one file
/// system can be mounted twice: the mounts tell then.
fn same_file_system(target: &Target, dir: &Path, roots: &Roots) -> bool {
    let mounts = mounts::read(roots);
    let by_mount = match (&target.mount, mounts::find(&mounts, dir)) {
        (Some(mine), Some(other)) => mine.device == other.device,
        _ => false,
    };
    by_mount || same_device(&target.path, dir)
}

fn same_device(a: &Path, b: &Path) -> bool {
    match (sys::metadata(a), sys::metadata(b)) {
        (Ok(a), Ok(b)) => a.on == b.on,
        _ => false,
    }
}

impl Refusal {
    /// Whether it may be otherwise later without a change of the config: something is missing, closed to us, or fails now.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreadable { .. } => true,
            Self::ProbeDir(error) => error.kind() != ErrorKind::NotADirectoryOrDevice,
            _ => false,
        }
    }
}

const WAYS_OUT: &str = "move the database one directory down on its mount, or set `probe_dir` to a directory outside \
     it on the same file system, or name the block device as `path` (it is only read then)";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(why) => write!(f, "{why}; name a directory on a disk"),
            Self::OnlyRead(path) => {
                write!(
                    f,
                    "{} is a block device and is only read; name a directory on it to measure commits",
                    path.display()
                )
            }
            Self::Database { path, mark, mount } => {
                write!(f, "there is no place for our files beside {}: {mark}", path.display())?;
                if let Some(mount) = mount {
                    write!(f, ", and its disk, mounted at {}, has no directory above that", mount.display())?;
                }
                write!(f, "; {WAYS_OUT}")
            }
            Self::Unreadable { dir, errno } => {
                write!(
                    f,
                    "{} cannot be read, so whether it belongs to a database is not known: {errno}",
                    dir.display()
                )
            }
            Self::ProbeDirInDatabase { dir, mark } => {
                write!(
                    f,
                    "probe_dir {} cannot be used: {mark}; name a directory outside of it",
                    dir.display()
                )
            }
            Self::ProbeDirElsewhere { dir, path } => write!(
                f,
                "probe_dir {} is not on the file system of {}, so another disk would be measured; name a directory on the same one",
                dir.display(),
                path.display()
            ),
            Self::ProbeDir(why) => write!(f, "probe_dir cannot be used: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests;
