//! What is taken from a child is truly gone: io_uring, root, locked memory, its freedom to run.

use crate::lab::{
    Freezer, Need, as_nobody_with_memlock, deny_io_uring, dies_with_us, eventually, in_cgroup, lacks,
};
use std::fs;
use std::process::{Command, Stdio};

/// Not a test of its own: the child's part in the tests below, which start this program again with the variable set.
#[test]
fn child_sets_up_a_ring() {
    if std::env::var_os("LAB_CHILD_SETS_UP_A_RING").is_none() {
        return;
    }
    let said = io_uring::IoUring::new(8).map_or_else(|error| error.raw_os_error().unwrap_or(0), |_| 0);
    println!("ring={said}.");
}

fn ring_child(change: impl FnOnce(&mut Command)) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "lab_children::child_sets_up_a_ring", "--nocapture"]).current_dir("/");
    command.env("LAB_CHILD_SETS_UP_A_RING", "1");
    change(&mut command);
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

#[test]
fn a_filter_answers_io_uring_setup_with_any_errno() {
    if lacks(&[]) {
        return;
    }
    for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM, libc::EINVAL, libc::EOPNOTSUPP] {
        let said = ring_child(|command| {
            deny_io_uring(command, errno);
        });
        assert!(said.contains(&format!("ring={errno}.")), "errno {errno}: {said}");
    }
}

#[test]
fn nobody_has_no_rights_and_little_locked_memory() {
    if lacks(&[Need::Root, Need::Tool("sh")]) {
        return;
    }
    let mut command = Command::new("sh");
    command.args(["-c", "cat /proc/self/limits /proc/self/status"]).current_dir("/");
    as_nobody_with_memlock(&mut command, 65536);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = |start: &str| {
        let line = said.lines().find(|line| line.starts_with(start)).unwrap();
        line[start.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("Max locked memory")[..2], ["65536", "65536"]);
    assert_eq!(line("Uid:"), ["65534"; 4]);
    assert_eq!(line("Gid:"), ["65534"; 4]);
    assert_eq!(line("CapEff:"), ["0000000000000000"]);
    assert!(line("Groups:").is_empty());
}

#[test]
fn a_freezer_stops_its_processes_and_lets_them_go_on() {
    if lacks(&[Need::Root, Need::Cgroup("freezer"), Need::Tool("dd")]) {
        return;
    }
    let group = Freezer::new();
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "of=/dev/null", "bs=4k", "status=none"]).stdin(Stdio::null());
    in_cgroup(&mut command, group.path());
    dies_with_us(&mut command);
    let mut child = command.spawn().unwrap();
    let calls = || {
        let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
        io.lines().find_map(|line| line.strip_prefix("syscw: ")).unwrap().parse::<u64>().unwrap()
    };
    eventually("it writes", || calls() > 0);
    group.freeze();
    let frozen = calls();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(calls(), frozen, "a frozen process went on");
    group.thaw();
    eventually("it writes again", || calls() > frozen);
    child.kill().unwrap();
    child.wait().unwrap();
    let path = group.path().to_owned();
    drop(group);
    assert!(!path.exists());
}

#[test]
fn a_child_dies_with_the_thread_that_started_it() {
    if lacks(&[Need::Tool("sleep")]) {
        return;
    }
    let starter = std::thread::spawn(|| {
        let mut command = Command::new("sleep");
        dies_with_us(command.arg("600").stdin(Stdio::null()));
        command.spawn().unwrap()
    });
    let mut child = starter.join().unwrap();
    eventually("the child is gone", || child.try_wait().unwrap().is_some());
}
