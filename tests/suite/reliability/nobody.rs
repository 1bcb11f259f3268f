//! A daemon that runs as nobody with little memory to lock: what root would not meet.

use super::case::{Acted, Case};
use super::room::Room;
use super::sign::Sign::{Engine, Error, GoesOn, Skipped, State};
use super::table::Scenario;
use crate::lab::Mounted;
use crate::targets::{BOTH, COMMITS};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

const NOBODY: u32 = 65534;

fn limit(disk: &Mounted, bytes: u64) {
    const USERS: i32 = 0;
    const BLOCK_LIMITS: u32 = 1;
    // SAFETY: a structure of plain numbers, for which zero is a value.
    let mut quota: libc::dqblk = unsafe { std::mem::zeroed() };
    (quota.dqb_bhardlimit, quota.dqb_bsoftlimit, quota.dqb_valid) =
        (bytes / 1024, bytes / 1024, BLOCK_LIMITS);
    let device = CString::new(disk.disk().device().to_str().unwrap()).unwrap();
    let set = libc::QCMD(libc::Q_SETQUOTA, USERS);
    // SAFETY: a C string and a structure of the kind that this command reads, both alive for the length of the call.
    let done = unsafe { libc::quotactl(set, device.as_ptr(), NOBODY as i32, (&raw mut quota).cast()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn quota(room: &Room) -> Box<dyn Case> {
    let disk = room.ext4_with(&["-O", "quota", "-E", "quotatype=usrquota"], "usrquota");
    limit(&disk, 2 << 20);
    let path = disk.path().to_owned();
    Acted::on(disk, &path, COMMITS).ill().lifted(|disk, _| limit(disk, 1 << 30)).boxed()
}

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
                .struck(|above, _| fs::set_permissions(above, fs::Permissions::from_mode(0)).unwrap())
                .lifted(|above, _| fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap())
                .boxed()
        },
    },
    Scenario {
        name: "quota_at_layout",
        kind: "quota",
        made: "ext4 with a quota of 2 MiB for the daemon's user",
        seen: &[Error("commit", "layout", "EDQUOT"), State("no_space")],
        recovers: "when the quota is raised; until then a layout is tried less and less often, and gives its room back",
        after: &[],
        make: quota,
    },
    Scenario {
        name: "no_memory_for_a_ring",
        kind: "io_uring refused: ENOMEM",
        made: "RLIMIT_MEMLOCK of 64 KiB, as nobody",
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
