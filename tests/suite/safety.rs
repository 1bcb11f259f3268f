//! What is never touched: a raw device, and whatever lies outside our own directory. Seen by strace from the daemon's
//! first system call on, and by the device's content. (strace does not see an open made by a ring; the daemon's rings are
//! given reads alone, as the engines' own tests hold.)

use crate::cadence::quiet;
use crate::lab::{Call, Daemon, Loop, LoopOptions, Need, Running, StraceLog, lacks};
use crate::watch::{all_measured, seen_when, small_ext4, target};
use std::path::Path;

/// Whatever opens a file, or changes a name or a file's size.
const CALLS: &str = "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,unlink,unlinkat,rmdir,rename,renameat,\
    renameat2,link,linkat,symlink,symlinkat,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,\
    fchownat,utimensat,setxattr,fsetxattr,mount,umount2,ioctl";

#[test]
fn a_raw_device_is_only_read_and_nothing_is_written_outside_our_directory() {
    if lacks(&[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("strace")]) {
        return;
    }
    let raw = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(64 << 20) });
    let disk = small_ext4();
    let directory = disk.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let (before, kernel) = (raw.checksum(), raw.counters());
    let config = format!(
        "targets:\n{}{}",
        target("raw", raw.device(), "100ms", "100ms"),
        target("dir", &directory, "100ms", "100ms")
    );
    let mut log = None;
    let daemon = Daemon::new();
    let state = daemon.state();
    let daemon = daemon.config(&config).with(|c| log = Some(StraceLog::of(c, CALLS))).start();
    let log = log.unwrap();
    all_measured(&daemon, &["dir"], &["commit", "read"]);
    seen_when(&daemon, "thousands of reads", |seen| seen.probe("operations", "raw", "read") > 3000.0);
    kernel_confirms(&raw, &daemon, kernel[0]);

    assert_eq!(daemon.stop().0.code(), Some(0));
    assert_eq!(raw.counters()[4], kernel[4], "the kernel counts writes to the raw device");
    assert_eq!(raw.checksum(), before);
    let calls = log.calls();
    only_reading(&calls, raw.device());
    only_at_home(&calls, &directory.join(".diskcanary"), &state);
}

/// The kernel has counted as many reads of the device as we say we made; beside them only the few that the truth check made
/// when it was opened.
fn kernel_confirms(raw: &Loop, daemon: &Running, at_start: u64) {
    let (reads, seen) = quiet(raw, daemon);
    let (kernel, ours) = ((reads - at_start) as f64, seen.probe("operations", "raw", "read"));
    assert!(kernel >= ours && kernel - ours <= 32.0, "the kernel counts {kernel} reads, we say {ours}");
}

fn only_reading(calls: &[Call], device: &Path) {
    let opens: Vec<&Call> = calls.iter().filter(|call| is_open(call)).collect();
    let of_dev = |call: &&&Call| call.arguments.contains("\"/dev") || in_dev(call);
    let dev: Vec<&&Call> = opens.iter().filter(of_dev).collect();
    for call in &dev {
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| call.arguments.contains(flag));
        assert!(call.arguments.contains("O_RDONLY") && !writes, "{call:?}");
    }
    let name = device.to_str().unwrap();
    let reached = |call: &&&&Call| call.result >= 0 && call.file.as_deref() == Some(name);
    assert!(dev.iter().filter(reached).count() > 0, "strace saw no open of {name}: {dev:?}");
}

fn in_dev(call: &Call) -> bool {
    call.file.as_deref().is_some_and(|file| file.starts_with("/dev/"))
}

fn is_open(call: &Call) -> bool {
    ["open", "openat", "openat2", "creat"].contains(&call.name.as_str())
}

/// Every file that was opened for writing, and every name that was made or removed, is in our directory, or is it, or is in the
/// state directory.
fn only_at_home(calls: &[Call], home: &Path, state: &Path) {
    let state = state.to_str().unwrap();
    let (home, parent) = (home.to_str().unwrap(), home.parent().unwrap().to_str().unwrap());
    let mut written = 0;
    for call in calls.iter().filter(|call| call.result >= 0) {
        if is_open(call) {
            let writes =
                ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|f| call.arguments.contains(f));
            let below = |file: &str| [home, state].iter().any(|dir| file.starts_with(&format!("{dir}/")));
            let at_home = call.file.as_deref().is_some_and(below);
            assert!(!writes || at_home, "{call:?}");
            written += u32::from(writes);
        } else if call.name != "ioctl" {
            let inside = [home, state].iter().any(|dir| call.arguments.contains(&format!("<{dir}>")));
            let is_it =
                call.arguments.contains(&format!("<{parent}>, \".diskcanary\"")) && call.name == "mkdirat";
            assert!(inside || is_it, "{call:?}");
        } else {
            // Terminals, FIEMAP, sizes: nothing that sets, discards or zeroes.
            let sets =
                ["BLKDISCARD", "BLKZEROOUT", "BLKROSET", "BLKFLSBUF", "FS_IOC_SET", "LOOP_", "FIFREEZE"];
            assert!(!sets.iter().any(|word| call.arguments.contains(word)), "{call:?}");
        }
    }
    assert!(written >= 3, "strace saw too little: {written} opens for writing");
    let allocated = calls.iter().find(|call| call.name == "fallocate");
    assert!(allocated.is_none(), "{allocated:?}");
}

#[test]
fn a_state_directory_that_is_made_is_no_one_elses_to_write() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let daemon = Daemon::new();
    let deep = daemon.state().join("a/b");
    let daemon = daemon
        .with(|command| {
            command.env("STATE_DIRECTORY", &deep);
            // SAFETY: `umask` is async-signal-safe and cannot fail.
            unsafe {
                command.pre_exec(|| {
                    libc::umask(0);
                    Ok(())
                });
            }
        })
        .start();
    for made in [deep.parent().unwrap(), &deep] {
        let mode = std::fs::metadata(made).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o755, "{}: {mode:o}", made.display());
    }
    drop(daemon);
}
