//! Faults, end to end against the real binary: each strikes one target of a daemon that also has healthy ones on other disks. What
//! the metrics must show while it lasts, that the healthy ones keep their rate, that every scrape is answered, and that the
//! target comes back by itself are asserted for every row of the table; `docs/reliability.md` is made from the same rows.
//!
//! Faults of one ward strike its daemon at the same time, each on a disk or directory of its own. `DISKCANARY_SCENARIO=NAME` in the
//! environment picks one.

mod case;
mod errors;
mod files;
mod hangs;
mod mounts;
mod nobody;
mod ourselves;
mod patient;
mod raw;
mod room;
mod sign;
mod table;
mod ward;
mod watch;
mod witness;

use crate::lab::{self, Need};
use std::time::Duration;
use table::Scenario;
use ward::Ward;

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Fuse,
    Need::Tool("mkfs.ext4"),
    Need::Tool("mkfs.xfs"),
    Need::Tool("losetup"),
    Need::Tool("chattr"),
    Need::Tool("fsfreeze"),
    Need::Cgroup("blkio"),
    Need::Cgroup("freezer"),
];

fn run(scenarios: &[Scenario], ward: Ward) {
    let picked = std::env::var("DISKCANARY_SCENARIO").ok();
    let chosen: Vec<&Scenario> =
        scenarios.iter().filter(|s| picked.as_ref().is_none_or(|name| name == s.name)).collect();
    if chosen.is_empty() || lab::lacks(NEEDS) {
        return;
    }
    ward.run(&chosen);
}

#[test]
fn disks_that_answer_with_errors() {
    // The waits between two looks grow to a minute.
    run(errors::SCENARIOS, Ward { whole: Duration::from_secs(150), ..Ward::default() });
}

#[test]
fn disks_that_hang_or_crawl() {
    run(hangs::SCENARIOS, Ward { whole: Duration::from_secs(600), ..Ward::default() });
}

#[test]
fn files_and_directories_that_others_touch() {
    run(files::SCENARIOS, Ward::default());
}

#[test]
fn file_systems_that_come_and_go() {
    run(mounts::SCENARIOS, Ward::default());
}

#[test]
fn block_devices_that_shrink_and_change() {
    run(raw::SCENARIOS, Ward::default());
}

#[test]
fn what_is_forbidden_to_nobody() {
    run(nobody::SCENARIOS, Ward { nobody: true, ..Ward::default() });
}

/// Served here when another test starts this program for it.
#[test]
fn file_server_of_the_other_tests() {
    lab::serve_if_asked();
}
