//! A daemon that runs as nobody with little memory to lock: what root would not meet.

use super::case::Acted;
use super::sign::Sign::{Engine, Error, GoesOn, Skipped, State};
use super::table::Scenario;
use crate::targets::{BOTH, COMMITS};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

const NOBODY: u32 = 65534;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "mode_bits_taken",
        kind: "permission taken away",
        made: "`chmod 0` on the directory above the target, which is root's, while the daemon runs as nobody",
        seen: &[State("permission"), Error("commit", "open", "EACCES"), Skipped("commit", "permission")],
        recovers: "found at the next look after the bits are back",
        after: &[],
        make: |room| {
            let above = room.directory("mode_bits_taken");
            let path = above.join("inside");
            fs::create_dir(&path).unwrap();
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            chown(&above, Some(0), Some(0)).unwrap();
            Acted::on(above, &path, COMMITS)
                .struck(|above, _| fs::set_permissions(above, fs::Permissions::from_mode(0o000)).unwrap())
                .lifted(|above, _| fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap())
                .boxed()
        },
    },
    Scenario {
        name: "no_memory_for_a_ring",
        kind: "io_uring refused: ENOMEM",
        made: "io_uring_setup answers ENOMEM (seccomp), and 64 KiB of memory may be locked",
        seen: &[Engine("threads", "ENOMEM"), GoesOn("read"), State("ready")],
        recovers: "no harm: reads go through threads, and the reason is in a metric and one line of the log",
        after: &[],
        make: |room| {
            let disk = room.ext4();
            let path = disk.path().to_owned();
            Acted::on(disk, &path, BOTH).boxed()
        },
    },
];
