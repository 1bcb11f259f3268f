//! A look at where a target would be probed, before anything is opened.

use crate::config::TargetPlan;
use crate::report::explain::Place;
use crate::sys::{self, Errno, Kind};

/// What a look at a target's path found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It can be probed here.
    At(Place),
    /// Not now: a path that is missing or closed to us may be there later.
    Down(String),
    /// Never, as it is written: what is wrong and what would be right.
    Refused(String),
}

/// Looks at a target's path and its `probe_dir`.
pub(super) fn at(target: &TargetPlan) -> Look {
    let path = target.path.display();
    match sys::metadata(&target.path).map(|found| found.kind) {
        Ok(Kind::BlockDevice) => Look::At(Place::Device),
        Ok(Kind::Directory) => directory(target),
        Ok(Kind::File) => Look::Refused(format!("{path} is a file; name the directory that it is in")),
        Ok(Kind::Other) => Look::Refused(format!("{path} is neither a directory nor a block device")),
        Err(errno) => Look::Down(format!("{path}: {}", why(errno))),
    }
}

fn directory(target: &TargetPlan) -> Look {
    let Some(dir) = &target.probe_dir else {
        let directory = target.path.join(".diskcanary").display().to_string();
        return Look::At(Place::Files { directory, moved: None });
    };
    match sys::metadata(dir).map(|found| found.kind) {
        Ok(Kind::Directory) => Look::At(Place::Files {
            directory: dir.join(".diskcanary").display().to_string(),
            moved: Some("there because of `probe_dir`".to_owned()),
        }),
        Ok(_) => Look::Refused(format!("probe_dir {} is not a directory", dir.display())),
        Err(errno) => Look::Down(format!("probe_dir {}: {}", dir.display(), why(errno))),
    }
}

fn why(errno: Errno) -> String {
    match errno {
        Errno::ENOENT => "there is no such path now; the target is down until it appears".to_owned(),
        Errno::EACCES => {
            "EACCES: this user may not look there; run as one who may, or open the way".to_owned()
        }
        Errno::ENOTDIR => "ENOTDIR: a part of the path is a file".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test lays out what is looked at")]
    fn a_path_is_looked_at_and_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let here = |name: &str| TargetPlan::at("a", folder.path().join(name));
        std::fs::create_dir(folder.path().join("dir")).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let Look::At(Place::Files { directory, moved: None }) = at(&here("dir")) else { panic!() };
        assert!(directory.ends_with("dir/.diskcanary"));
        assert!(matches!(at(&here("file")), Look::Refused(m) if m.contains("is a file")));
        assert!(matches!(at(&here("none")), Look::Down(m) if m.contains("no such path")));
        assert!(matches!(at(&here("file/x")), Look::Down(m) if m.contains("ENOTDIR")));
        assert!(matches!(at(&TargetPlan::at("a", PathBuf::from("/dev/null"))), Look::Refused(_)));
        let mut moved = here("dir");
        moved.probe_dir = Some(folder.path().join("none"));
        assert!(matches!(at(&moved), Look::Down(m) if m.starts_with("probe_dir")));
        moved.probe_dir = Some(folder.path().to_owned());
        assert!(matches!(at(&moved), Look::At(Place::Files { moved: Some(_), .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
