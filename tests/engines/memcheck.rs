//! The other tests of this program once more, under valgrind's memcheck: every access to memory is looked at, and so is what
//! each system call is given, those of the ring included. What the kernel writes late, when nobody is in a call any more,
//! memcheck does not see; for that the tests keep canaries where freed memory would come back.
//!
//! The tests on a FUSE file system that this process serves itself are left out: valgrind runs one thread at a time, and one that
//! waits for the file system in a call that valgrind does not take for a waiting one keeps the file system from running.

use std::process::{Command, Output};

/// In a run that memcheck watches already.
const WATCHED: &str = "DISKCANARY_TEST_ENGINES_WATCHED";

fn watched() -> bool {
    std::env::var_os(WATCHED).is_some()
}

/// Whether to go on; without valgrind the test is left out, by name, and under `DISKCANARY_TESTS_STRICT` it fails.
fn has_valgrind() -> bool {
    let there =
        Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        assert!(
            std::env::var_os("DISKCANARY_TESTS_STRICT").is_none(),
            "memcheck needs the program `valgrind`"
        );
        println!("skipped: memcheck needs the program `valgrind`");
    }
    there
}

fn memcheck(tests: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args([
        "--kill-after=5",
        "400",
        "valgrind",
        "--error-exitcode=9",
        "--fair-sched=yes",
        "--leak-check=no",
        "--num-callers=40",
    ]);
    command.arg(std::env::current_exe().unwrap()).args(["--test-threads=1", "--nocapture"]).args(tests);
    command.env(WATCHED, "1").output().unwrap()
}

#[test]
fn memcheck_finds_nothing() {
    if watched() || !has_valgrind() {
        return;
    }
    let output = memcheck(&["conformance::", "late::"]);
    let (said, report) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{report}", output.status);
    assert!(report.contains("ERROR SUMMARY: 0 errors from 0 contexts"), "{report}");
    // Those that check engines, rings and late answers did run.
    let passed = said.lines().filter(|line| line.starts_with("test ") && line.ends_with("... ok")).count();
    assert!(passed >= 11, "{said}");
}

/// What memcheck is to find, so that its silence means something.
#[test]
fn child_reads_what_was_freed() {
    if !watched() || std::env::var_os(WRONG).is_none() {
        return;
    }
    let freed = Box::into_raw(Box::new([7u8; 64]));
    // SAFETY: none: the read that follows is the fault that is wanted.
    let read = unsafe {
        drop(Box::from_raw(freed));
        freed.cast::<u8>().add(32).read_volatile()
    };
    println!("read {read}");
}

const WRONG: &str = "DISKCANARY_TEST_ENGINES_WRONG";

#[test]
fn memcheck_finds_what_is_wrong() {
    if watched() || !has_valgrind() {
        return;
    }
    let mut command = Command::new("valgrind");
    command.args(["--error-exitcode=9", "--leak-check=no"]).arg(std::env::current_exe().unwrap());
    command.args(["--test-threads=1", "--exact", "memcheck::child_reads_what_was_freed"]);
    let output = command.env(WATCHED, "1").env(WRONG, "1").output().unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(9), "{report}");
    assert!(report.contains("Invalid read"), "{report}");
}
