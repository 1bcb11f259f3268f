//! File systems whose disks are elsewhere. No server of NFS runs here: a FUSE file system, which has no device either and waits,
//! fails and comes back in the same ways, stands in for it.

use crate::lab::{self, Daemon, FuseDisk, Need, Op};
use crate::targets::{
    BOTH, assert_sound, await_runs, await_state, await_that, config, errors, state, verdict,
};
use std::process::Command;

#[test]
fn what_cannot_be_known_there_is_unknown_and_explained() {
    if lab::lacks(&[Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let text = config(&[("remote", disk.path(), BOTH)]);
    let daemon = Daemon::new().config(&text).start();
    await_runs(&daemon, "remote", "commit", 2.0);
    await_runs(&daemon, "remote", "read", 1.0);
    let metrics = daemon.scrape();
    assert_eq!(verdict(&metrics, "remote", "commit", "unflushed"), "unknown");
    assert_eq!(verdict(&metrics, "remote", "read", "unwritten"), "unknown");
    for family in
        ["diskcanary_target_device_info", "diskcanary_device_setting_info", "diskcanary_commit_device_writes"]
    {
        assert!(metrics.all(family, &[("target", "remote")]).is_empty(), "{family}");
    }
    let file = daemon.directory().join("diskcanary.yaml");
    let said = Command::new(env!("CARGO_BIN_EXE_diskcanary")).arg("explain").arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("  limits   fuse") && said.contains("`unflushed` is unknown"), "{said}");
}

/// As a `soft` mount does, or a client that the server threw out.
#[test]
fn a_server_that_gives_up_is_counted_and_comes_back() {
    if lab::lacks(&[Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let daemon = Daemon::new().config(&config(&[("remote", disk.path(), BOTH)])).start();
    await_runs(&daemon, "remote", "read", 1.0);
    for (errno, name) in [(libc::ETIMEDOUT, "ETIMEDOUT"), (libc::ESTALE, "ESTALE")] {
        [Op::Write, Op::Read, Op::Sync].into_iter().for_each(|op| disk.fail(op, errno, 1));
        await_that(&daemon, &format!("{name} is counted"), |m| errors(m, "remote", name) > 0.0);
        await_that(&daemon, &format!("{name} is a state"), |m| {
            state(m, "remote").is_some_and(|s| s != "ready")
        });
        [Op::Write, Op::Read, Op::Sync].into_iter().for_each(|op| disk.heal(op));
        await_state(&daemon, "remote", "ready");
        await_runs(&daemon, "remote", "commit", 2.0);
    }
    assert_sound(&daemon);
}
