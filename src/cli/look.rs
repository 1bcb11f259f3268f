//! A look at where a target would be probed. Nothing is made or written; of a block device it is seen whether we may read it.

use std::path::Path;

use crate::config::TargetPlan;
use crate::probe::layout::{self, Role, Wish};
use crate::report::explain::File;
use crate::sys::Dir;
use crate::target::{self, ErrorKind, Kind, Place, Roots, Target};
use crate::units::Bytes;

/// What a look at a target's path found.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// A directory, and where our files go.
    Files(Box<Target>, Place),
    /// A block device that we may read.
    Device(Box<Target>),
    /// Not now: a path that is missing or closed to us may be there later.
    Down(String),
    /// Never, as it is written: what is wrong and what would be right.
    Refused(String),
}

impl Look {
    /// What was found, if it is there.
    pub(super) fn found(&self) -> Option<&Target> {
        match self {
            Self::Files(target, _) | Self::Device(target) => Some(target),
            Self::Down(_) | Self::Refused(_) => None,
        }
    }
}

/// Looks at a target of a config.
pub(super) fn at(plan: &TargetPlan) -> Look {
    at_path(&plan.path, plan.probe_dir.as_deref())
}

/// Looks at a path, as `run` does when it starts. This waits as long as the disk does.
pub(super) fn at_path(path: &Path, probe_dir: Option<&Path>) -> Look {
    let roots = Roots::default();
    let fault = |error: target::Error| match error.kind() {
        ErrorKind::NotADirectoryOrDevice => Look::Refused(error.to_string()),
        ErrorKind::Missing | ErrorKind::Permission | ErrorKind::Io(_) => Look::Down(error.to_string()),
    };
    let target = match target::resolve(path, &roots) {
        Ok(target) => Box::new(target),
        Err(error) => return fault(error),
    };
    if target.kind == Kind::BlockDevice {
        return target.try_open().map_or_else(fault, |()| Look::Device(target));
    }
    match target::place(&target, probe_dir, &roots) {
        Ok(place) => Look::Files(target, place),
        Err(refusal) if refusal.may_pass() => Look::Down(refusal.to_string()),
        Err(refusal) => Look::Refused(refusal.to_string()),
    }
}

/// The probe files of a target, as the space rules decide now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// The commit file; `None` when commits are off.
    pub(super) commits: Option<File>,
    /// The read file; `None` when reads are off.
    pub(super) reads: Option<File>,
    /// What is free when they are laid out; `None` where the file system does not tell.
    pub(super) free: Option<Bytes>,
}

/// What becomes of the probe files in `place`.
pub(super) fn files(plan: &TargetPlan, place: &Place) -> Files {
    let mut space = Dir::open(&place.dir).and_then(|dir| dir.space()).ok();
    let mut file = |role, size: Bytes| {
        let there = layout::there(&place.dir, role);
        if let Some(head) = there.filter(|head| head.wished == size.get()) {
            return File::There(Bytes::new(head.size));
        }
        let Some(space) = &mut space else { return File::Wished(size) };
        // One of another size is removed first.
        space.available += there.map_or(0, |head| head.size);
        match layout::size_for(*space, role, Wish { size, reserve: plan.reserve }) {
            Ok(bytes) => {
                space.available -= bytes;
                File::Lay(Bytes::new(bytes))
            }
            Err(trouble) => File::NoRoom(trouble.failure.message),
        }
    };
    let commits = plan.commit.as_ref().map(|commit| file(Role::Commits, commit.file_size));
    let reads = plan.read.as_ref().map(|read| file(Role::Reads, read.file_size));
    Files { commits, reads, free: space.map(|space| Bytes::new(space.available)) }
}

/// The disk, for people: `ext4 on vda1 (SomeModel)`.
pub(super) fn disk(target: &Target) -> String {
    let device = target.device.as_ref().map(|device| match &device.identity.model {
        Some(model) => format!("{} ({model})", device.name),
        None => device.name.clone(),
    });
    match (target.file_system(), device) {
        (Some(kind), Some(device)) => format!("{kind} on {device}"),
        (Some(kind), None) => format!("{kind}, on no block device that we can see"),
        (None, Some(device)) => device,
        (None, None) => "not known".to_owned(),
    }
}

/// What the numbers mean where the disk is not this machine's, in a sentence; `None` where they mean what they mean elsewhere.
pub(super) fn limits(target: &Target) -> Option<String> {
    let kind = target.file_system()?;
    let whose = match kind {
        _ if target::is_network(kind) => "this machine's, the network's and the server's together",
        _ if kind.starts_with("fuse") && target.leaves.is_empty() => {
            "those of the program that answers for it, and of all behind it"
        }
        _ => return None,
    };
    Some(format!(
        "{kind}: the times are {whose}; no device counter tells here whether a sync reached a disk (`unflushed` is unknown); docs/network.md"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test lays out what is looked at")]
    fn a_path_is_looked_at_and_nothing_is_made() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let here = |name: &str| TargetPlan::at("a", folder.path().join(name));
        std::fs::create_dir(folder.path().join("dir")).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(
            matches!(at(&here("dir")), Look::Files(_, place) if place.dir.ends_with("dir") && place.note.is_none())
        );
        assert!(matches!(at(&here("file")), Look::Refused(m) if m.contains("is a regular file")));
        assert!(matches!(at(&here("none")), Look::Down(m) if m.contains("does not exist")));
        assert!(matches!(at(&here("file/x")), Look::Refused(_)));
        assert!(matches!(at(&TargetPlan::at("a", PathBuf::from("/dev/null"))), Look::Refused(_)));
        let mut moved = here("dir");
        moved.probe_dir = Some(folder.path().join("none"));
        assert!(matches!(at(&moved), Look::Down(m) if m.starts_with("probe_dir")));
        moved.probe_dir = Some(folder.path().join("file"));
        assert!(matches!(at(&moved), Look::Refused(m) if m.starts_with("probe_dir")));
        moved.probe_dir = Some(folder.path().to_owned());
        assert!(matches!(at(&moved), Look::Files(_, place) if place.note.is_some()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_database_moves_the_files_up_and_memory_is_refused() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let pgdata = folder.path().join("15/main");
        std::fs::create_dir_all(pgdata.join("base")).unwrap();
        std::fs::create_dir(pgdata.join("PG_VERSION")).unwrap();
        let Look::Files(_, place) = at_path(&pgdata.join("base"), None) else { panic!() };
        assert!(place.dir.ends_with("15") && place.note.unwrap().contains("PostgreSQL"));
        if crate::sys::metadata(Path::new("/dev/shm")).is_ok() {
            assert!(
                matches!(at_path(Path::new("/dev/shm"), None), Look::Refused(m) if m.contains("directory on a disk"))
            );
        }
    }

    #[test]
    fn files_follow_the_space_rules() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut plan = TargetPlan::at("a", folder.path().to_owned());
        let place = Place { dir: folder.path().to_owned(), note: None };
        plan.commit.as_mut().unwrap().file_size = Bytes::mib(4);
        plan.reserve = Some(Bytes::gib(1 << 20));
        let none = files(&plan, &place);
        assert!(matches!(none.commits, Some(File::NoRoom(m)) if m.contains("reserve")));
        plan.reserve = Some(Bytes::mib(1));
        assert_eq!(files(&plan, &place).commits, Some(File::Lay(Bytes::mib(4))));
        plan.commit = None;
        assert_eq!(files(&plan, &place).commits, None);
    }
}
