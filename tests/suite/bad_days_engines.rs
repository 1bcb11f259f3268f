//! No io_uring, and hardly any memory that may be locked: reads go on, and it is said.

use crate::lab::{self, Daemon, Loop, LoopOptions, Need, Scratch};
use crate::targets::{COMMITS, READS, assert_sound, await_runs, config};
use std::os::unix::fs::chown;

#[test]
fn whatever_io_uring_setup_answers_reads_go_through_threads() {
    if lab::lacks(&[Need::Root]) {
        return;
    }
    let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(4 << 20) });
    let yaml = config(&[("disk", disk.device(), READS)]);
    let errnos = [
        ("EPERM", libc::EPERM),
        ("ENOSYS", libc::ENOSYS),
        ("ENOMEM", libc::ENOMEM),
        ("EINVAL", libc::EINVAL),
        ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ];
    let start = |errno| Daemon::new().config(&yaml).with(|c| _ = lab::deny_io_uring(c, errno)).start();
    let daemons = errnos.map(|(name, errno)| (name, start(errno)));
    for (errno, daemon) in &daemons {
        await_runs(daemon, "disk", "read", 3.0);
        let log = daemon.stderr();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("reads go without a ring")).collect();
        assert!(lines.len() == 1 && lines[0].contains(errno), "{errno}: {log}");
        let now = daemon.scrape();
        let why = now.all("diskcanary_target_engine_info", &[("target", "disk")]);
        assert_eq!(why.len(), 1, "{errno}");
        assert_eq!((why[0].labels["engine"].as_str(), why[0].labels["reason"].as_str()), ("threads", *errno));
        assert_eq!(now.value("diskcanary_target_up", &[("target", "disk")]), Some(1.0));
        assert_sound(daemon);
    }
}

#[test]
fn nobody_with_64_kib_to_lock_reads_eight_disks() {
    if lab::lacks(&[Need::Root]) {
        return;
    }
    let scratch = Scratch::new();
    let disks: Vec<_> =
        (0..8).map(|_| Loop::with(LoopOptions { filled: true, ..LoopOptions::of(1 << 20) })).collect();
    let mut targets = Vec::new();
    for (at, disk) in disks.iter().enumerate() {
        let node = scratch.path().join(format!("node{at}"));
        let (major, minor) = disk.number();
        let numbers = [major.to_string(), minor.to_string()];
        lab::run("mknod", &["-m", "0444", node.to_str().unwrap(), "b", &numbers[0], &numbers[1]]);
        targets.push((format!("disk{at}"), node, READS));
    }
    let place = scratch.dir("place");
    chown(&place, Some(65534), Some(65534)).unwrap();
    targets.push(("place".to_owned(), place, COMMITS));
    let listed: Vec<_> =
        targets.iter().map(|(name, path, keys)| (name.as_str(), path.as_path(), *keys)).collect();
    let daemon = Daemon::new()
        .config(&config(&listed))
        .with(|command| _ = lab::as_nobody_with_memlock(command, 64 << 10))
        .start();
    await_runs(&daemon, "place", "commit", 2.0);
    for (name, ..) in &targets[..8] {
        await_runs(&daemon, name, "read", 2.0);
        let now = daemon.scrape();
        assert_eq!(now.value("diskcanary_target_up", &[("target", name)]), Some(1.0), "{name}");
        assert_eq!(now.all("diskcanary_target_engine_info", &[("target", name)]).len(), 1, "{name}");
    }
    assert_sound(&daemon);
}
