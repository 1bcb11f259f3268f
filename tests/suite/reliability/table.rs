//! The one table of faults, and the page that is made from it.

use super::case::Case;
use super::room::Room;
use super::sign::Sign;
use super::{errors, files, hangs, mounts, nobody, ourselves, raw};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A fault and what comes of it.
pub(super) struct Scenario {
    /// Also the name of its target.
    pub(super) name: &'static str,
    /// Faults of one kind are one thing in several places.
    pub(super) kind: &'static str,
    /// How it is made.
    pub(super) made: &'static str,
    /// What must show while it lasts.
    pub(super) seen: &'static [Sign],
    /// What brings it back.
    pub(super) recovers: &'static str,
    /// What must show when it is over.
    pub(super) after: &'static [Sign],
    /// Who makes it.
    pub(super) make: fn(&Room) -> Box<dyn Case>,
}

/// A fault of the daemon's own: it is no target's, and has a test of its own.
pub(super) struct Own {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) made: &'static str,
    /// What is asserted, in words.
    pub(super) seen: &'static str,
    pub(super) recovers: &'static str,
}

fn of_targets() -> impl Iterator<Item = &'static Scenario> {
    [
        errors::SCENARIOS,
        hangs::SCENARIOS,
        files::SCENARIOS,
        mounts::SCENARIOS,
        raw::SCENARIOS,
        nobody::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}

/// Name, kind, how, seen, recovers.
fn rows() -> Vec<[String; 5]> {
    let targets = of_targets().map(|s| {
        let after =
            if s.after.is_empty() { String::new() } else { format!("; then {}", Sign::list(s.after)) };
        [s.name, s.kind, s.made, &Sign::list(s.seen), &format!("{}{after}", s.recovers)].map(str::to_owned)
    });
    let own =
        ourselves::SCENARIOS.iter().map(|s| [s.name, s.kind, s.made, s.seen, s.recovers].map(str::to_owned));
    targets.chain(own).collect()
}

fn page() -> String {
    let rows = rows();
    let kinds: BTreeSet<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    let mut page = format!(
        "# What was broken, and what came of it\n\n\
        Each row is a fault that `tests/run` makes on a real disk: a loop device, a FUSE file system, a cgroup, a stopped process. \
        {} faults of {} kinds. This page is made from the table in `tests/suite/reliability` and fails the tests when it differs; \
        what a row says is seen is what its test asserts.\n\n\
        One of them alone, as root:\n\n\
        ```sh\n\
        DISKCANARY_SCENARIO=eio_on_write tests/run --test suite reliability\n\
        ```\n\n\
        With every fault of a target, from the moment it strikes until the target has come back:\n\n\
        - three healthy targets on other disks (two ext4 on loop devices, one FUSE file system) keep their rate: each probe of \
        theirs is due every 100 ms, at least 100 of its slots pass, all of them are accounted for, and at least 95 % of them are runs;\n\
        - `/metrics` is asked once a second and answers within one second each time;\n\
        - the daemon has no more threads and descriptors than before, and no panic;\n\
        - when the fault is lifted the target is `ready` and up again, with new good runs of each probe, and nobody has restarted \
        anything. After a failure a target is looked at anew after about 1, 2, 4 … s, at the longest after 60 s, so that may take a moment;\n\
        - the log has a few lines about it, however long it lasts.\n\n\
        Faults last for 10 s at least; with `tests/run --full` disks hang for 10 minutes, and errors last until the waits have grown to a \
        minute.\n\n\
        Errors are counted in `diskcanary_probe_errors_total{{probe,stage,errno}}`, states are `diskcanary_target_state{{state}}`. \
        Faults of the daemon itself are at the end of the table, with what is asserted there in words.\n\n\
        | fault | kind | how it is made | what is seen | how it ends |\n|---|---|---|---|---|\n",
        rows.len(),
        kinds.len()
    );
    for [name, kind, made, seen, recovers] in &rows {
        writeln!(page, "| `{name}` | {kind} | {made} | {seen} | {recovers} |").unwrap();
    }
    page
}

#[test]
fn the_page_is_what_the_table_says() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reliability.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page(),
        "docs/reliability.md is stale: BLESS=1 cargo test --test suite reliability::table"
    );
}

#[test]
fn there_are_enough_faults_and_each_has_a_name() {
    let rows = rows();
    let names: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let kinds: BTreeSet<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(names.len(), rows.len(), "a name is used twice");
    assert!(rows.len() >= 40 && kinds.len() >= 25, "{} faults of {} kinds", rows.len(), kinds.len());
}
