//! Why a path cannot be probed, said to people.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::sys::{self, Errno, Metadata};

/// Why a path cannot be a target. Prints as one sentence: what, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    path: PathBuf,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// The first part of the path that is not there.
    Missing(PathBuf),
    WrongKind(&'static str),
    /// A part before the last is no directory.
    NotADirectory,
    Permission {
        errno: Errno,
        /// What refused: the path, or the directory above it that may not be searched.
        at: PathBuf,
        about: Option<Metadata>,
        user: u32,
    },
    Io(Errno),
}

/// What kind of trouble it is, apart from its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// It does not exist, now.
    Missing,
    /// It exists and can never be a target.
    NotADirectoryOrDevice,
    /// We may not.
    Permission,
    /// The kernel answered with another error.
    Io(Errno),
}

impl Error {
    /// From what a system call on `path` answered, whether it looked at the path or opened it.
    pub fn of(path: &Path, errno: Errno) -> Self {
        let why = match errno {
            Errno::ENOENT => Why::Missing(first_missing(path)),
            Errno::ENOTDIR => Why::NotADirectory,
            Errno::EACCES | Errno::EPERM => {
                let (at, about) = what_refused(path);
                Why::Permission { errno, at, about, user: sys::user_id() }
            }
            other => Why::Io(other),
        };
        Self { path: path.to_owned(), why }
    }

    pub(super) fn wrong_kind(path: &Path, is: &'static str) -> Self {
        Self { path: path.to_owned(), why: Why::WrongKind(is) }
    }

    /// The kind of trouble.
    pub fn kind(&self) -> ErrorKind {
        match self.why {
            Why::Missing(_) => ErrorKind::Missing,
            Why::WrongKind(_) | Why::NotADirectory => ErrorKind::NotADirectoryOrDevice,
            Why::Permission { .. } => ErrorKind::Permission,
            Why::Io(errno) => ErrorKind::Io(errno),
        }
    }

    /// What the kernel answered, or would have: for labels.
    pub fn errno(&self) -> Errno {
        match self.why {
            Why::Missing(_) => Errno::ENOENT,
            Why::WrongKind(_) | Why::NotADirectory => Errno::ENOTDIR,
            Why::Permission { errno, .. } | Why::Io(errno) => errno,
        }
    }

    /// The path that it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The shortest part of `path` that does not exist; `path` itself when it is a link to nothing.
fn first_missing(path: &Path) -> PathBuf {
    path.ancestors()
        .filter(|part| !part.as_os_str().is_empty())
        .take_while(|part| sys::metadata(part).is_err())
        .last()
        .unwrap_or(path)
        .to_owned()
}

/// The deepest part of `path` that can be looked at: where it is not the path itself, it is the directory that
/// may not be searched.
fn what_refused(path: &Path) -> (PathBuf, Option<Metadata>) {
    path.ancestors()
        .find_map(|part| Some((part.to_owned(), Some(sys::metadata(part).ok()?))))
        .unwrap_or_else(|| (path.to_owned(), None))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.why {
            Why::Missing(part) => missing(f, &self.path, part),
            Why::WrongKind(is) => {
                write!(f, "{path} is {is}; a target is a directory on the disk, or the disk's block device")
            }
            Why::NotADirectory => {
                write!(
                    f,
                    "{path} leads through something that is no directory; a target is a directory or a block device"
                )
            }
            Why::Permission { errno, at, about, user } => {
                permission(f, &self.path, (*errno, at, about.as_ref(), *user))
            }
            Why::Io(errno) => write!(f, "{path} cannot be used: {errno}"),
        }
    }
}

fn missing(f: &mut fmt::Formatter<'_>, path: &Path, part: &Path) -> fmt::Result {
    let shown = path.display();
    if let Ok(goal) = sys::read_link(part) {
        return write!(
            f,
            "{shown} does not exist: {} is a link to {}, where nothing is; mount the disk or mend the link",
            part.display(),
            goal.display()
        );
    }
    if path.starts_with("/dev") {
        return write!(
            f,
            "{shown} does not exist, and nothing is ever created there; `lsblk -p` lists the block devices of this machine"
        );
    }
    write!(f, "{shown} does not exist")?;
    if part != path {
        write!(f, " (nor does {})", part.display())?;
    }
    write!(f, ", and is not created; name a directory that is on the disk, or the disk's block device")
}

fn permission(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    (errno, at, about, user): (Errno, &Path, Option<&Metadata>, u32),
) -> fmt::Result {
    write!(f, "{} may not be used by user id {user}: {errno}; ", path.display())?;
    if let Some(m) = about {
        let (at, uid, gid, mode) = (at.display(), m.uid, m.gid, m.mode);
        write!(f, "{at} belongs to uid {uid}, gid {gid}, mode {mode:04o}")?;
        if m.kind == sys::Kind::BlockDevice {
            write!(f, ", device {}:{}", m.is.0, m.is.1)?;
        }
        f.write_str(": ")?;
    }
    f.write_str(match (errno, about.map(|m| m.kind)) {
        (Errno::EACCES, _) => "the mode bits (or an ACL) forbid it: run as a user or group that may",
        (_, Some(sys::Kind::Directory)) => {
            "not the mode bits forbid it, but an immutable flag (`lsattr -d` shows it) or a security module"
        }
        _ => {
            "not the mode bits forbid it, but a device cgroup or a security module: allow the device for this container or service"
        }
    })
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_named_and_not_created() {
        let path = Path::new("/dev/nvme9n9");
        let error = super::super::resolve(path, &super::super::Roots::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert!(error.to_string().starts_with("/dev/nvme9n9 does not exist, and nothing is ever created"));
        assert!(!path.exists());
    }

    #[test]
    fn the_first_missing_part_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c");
        let error = Error::of(&path, Errno::ENOENT);
        assert!(error.to_string().contains(&format!("(nor does {})", folder.path().join("a").display())));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
        assert!(Error::of(&link, Errno::ENOENT).to_string().contains("is a link to /nowhere/at/all"));
    }

    #[test]
    fn eacces_and_eperm_read_differently() {
        let folder = tempfile::tempdir().unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(folder.path(), private).unwrap();
        let mode_bits = Error::of(folder.path(), Errno::EACCES);
        let cgroup = Error::of(Path::new("/dev/null"), Errno::EPERM);
        assert_eq!((mode_bits.kind(), cgroup.kind()), (ErrorKind::Permission, ErrorKind::Permission));
        assert!(mode_bits.to_string().contains("mode 0700"), "{mode_bits}");
        assert!(mode_bits.to_string().contains("the mode bits (or an ACL) forbid it"));
        assert!(cgroup.to_string().contains("device cgroup or a security module"));
    }

    #[test]
    fn files_and_character_devices_are_refused() {
        let roots = super::super::Roots::default();
        for (path, is) in [("/etc/passwd", "a regular file"), ("/dev/null", "a character device")] {
            let error = super::super::resolve(Path::new(path), &roots).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotADirectoryOrDevice);
            assert!(error.to_string().contains(is), "{error}");
        }
        let through = super::super::resolve(Path::new("/etc/passwd/x"), &roots).unwrap_err();
        assert_eq!(through.kind(), ErrorKind::NotADirectoryOrDevice);
    }
}
