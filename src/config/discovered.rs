//! From disks that were found to targets: what they are called.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::resolve::{LONGEST_NAME, MOST_TARGETS};
use super::{DiscoverPlan, TargetPlan};
use crate::target::{Found, Kind};

/// Marks a name that a target of the config has already.
const ALSO: &str = " (found)";

impl DiscoverPlan {
    /// A target for each disk that was found, in their order, as long as there are not too many with the `named` ones. Their names
    /// are their paths, and are the same whenever `named` is.
    pub fn targets(&self, found: &[Found], named: &[TargetPlan]) -> Vec<TargetPlan> {
        let room = MOST_TARGETS.saturating_sub(named.len());
        found.iter().take(room).map(|found| self.target(found, named)).collect()
    }

    fn target(&self, found: &Found, named: &[TargetPlan]) -> TargetPlan {
        let mut target = TargetPlan {
            name: short(&found.path),
            path: found.path.clone(),
            commit: self.like.commit.clone().filter(|_| found.kind == Kind::Directory),
            ..self.like.clone()
        };
        // Each round makes it longer, so at last it is nobody's.
        while named.iter().any(|other| other.name == target.name) {
            target.name += ALSO;
        }
        target
    }
}

/// A path as a name; one that is too long or no text ends in a number of its own, so that no two are alike.
fn short(path: &Path) -> String {
    const ROOM: usize = LONGEST_NAME - 40;
    match path.to_str() {
        Some(text) if text.len() <= ROOM => text.to_owned(),
        _ => {
            let text = path.to_string_lossy();
            let end = (0..=ROOM.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            format!("{}… {:016x}", &text[..end], xxh3_64(path.as_os_str().as_encoded_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Plan;
    use super::*;

    fn found(path: &str, kind: Kind) -> Found {
        Found { path: PathBuf::from(path), kind, number: (8, 1), leaves: vec![] }
    }

    fn plan(text: &str) -> Plan {
        Plan::parse("t.yml", text, &[]).unwrap()
    }

    #[test]
    fn they_are_named_after_their_paths_and_probed_alike() {
        let plan = plan(
            "{targets: [{name: /srv, path: /other}], discover: {labels: {a: b}, commit: {interval: 5s}, block_devices: true}}",
        );
        let discover = plan.discover.unwrap();
        let disks = [
            found("/srv", Kind::Directory),
            found("/dev/sdb", Kind::BlockDevice),
            found("/", Kind::Directory),
        ];
        let targets = discover.targets(&disks, &plan.targets);
        let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["/srv (found)", "/dev/sdb", "/"]);
        assert_eq!(targets[0].path, PathBuf::from("/srv"));
        assert!(targets.iter().all(|target| target.labels["a"] == "b" && target.read.is_some()));
        assert_eq!(targets[0].commit.as_ref().unwrap().interval, crate::units::Span::seconds(5));
        assert_eq!(targets[1].commit, None);
    }

    #[test]
    fn long_paths_differ_and_there_are_never_too_many() {
        let discover = plan("discover:").discover.unwrap();
        let long = |last: &str| found(&format!("/{}/{last}", "日".repeat(100)), Kind::Directory);
        let targets = discover.targets(&[long("a"), long("b")], &[]);
        assert_ne!(targets[0].name, targets[1].name);
        assert!(
            targets.iter().all(|target| target.name.len() <= LONGEST_NAME && target.name.starts_with("/日"))
        );
        let many: Vec<Found> = (0..300).map(|n| found(&format!("/{n:03}"), Kind::Directory)).collect();
        let named = [TargetPlan::at("a", PathBuf::from("/a"))];
        let targets = discover.targets(&many, &named);
        assert_eq!((targets.len(), targets[254].name.as_str()), (255, "/254"));
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let alone = plan("discover:").discover.unwrap();
        assert_eq!(Some(&alone), plan("discover: {}").discover.as_ref());
        let written = plan("discover: {file_systems: [ext4, xfs, btrfs], block_devices: false, include: []}");
        assert_eq!(Some(&alone), written.discover.as_ref());
        assert_eq!(plan("targets: [{name: a, path: /a}]").discover, None);
    }
}
