//! What is taken from a child before it runs: io_uring, root, locked memory, its place outside a cgroup.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{Error, Result, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The child's io_uring_setup answers with this errno, as container runtimes and old kernels do.
pub fn deny_io_uring(command: &mut Command, errno: i32) -> &mut Command {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let rules = [(libc::SYS_io_uring_setup, Vec::new())].into_iter().collect();
    let deny = SeccompAction::Errno(errno.unsigned_abs());
    let here = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, deny, here).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    before_exec(command, move || {
        seccompiler::apply_filter(&program).map_err(|_| Error::from_raw_os_error(libc::EINVAL))
    })
}

/// The child runs as this user of the system, in this user's group alone. Panics if there is no such user.
pub fn as_user<'a>(command: &'a mut Command, user: &str) -> &'a mut Command {
    let (uid, gid) = user_ids(user).unwrap_or_else(|| panic!("no user `{user}` on this machine"));
    before_exec(command, move || become_user(uid, gid))
}

/// The child runs as nobody, with this many bytes of memory that it may lock.
pub fn as_nobody_with_memlock(command: &mut Command, bytes: u64) -> &mut Command {
    before_exec(command, move || {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: `limit` is a valid rlimit for the length of the call.
        check(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) })?;
        become_user(65534, 65534)
    })
}

/// The child starts inside the cgroup that has this directory (first hierarchy).
pub fn in_cgroup<'a>(command: &'a mut Command, directory: &Path) -> &'a mut Command {
    let mut procs = OpenOptions::new().write(true).open(directory.join("cgroup.procs")).unwrap();
    before_exec(command, move || procs.write_all(b"0"))
}

/// The child goes before all others on the CPU (a niceness would do so within its own session only), so that a busy
/// machine stays out of what it measures. Where that is forbidden it runs as any other.
pub fn first_on_the_cpu(command: &mut Command) -> &mut Command {
    before_exec(command, || {
        we_are_first_on_the_cpu();
        Ok(())
    })
}

/// The calling thread, and those that it starts from here on, go before all others on the CPU, where that is allowed.
pub fn we_are_first_on_the_cpu() {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: `least` is a valid parameter for the length of the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const least) };
}

/// The child sees no FUSE mount, neither a test's nor anyone's: `mkfs.xfs` asks every mount of the machine for its
/// attributes, and one that hangs, as they do here, would hang it.
pub(super) fn away_from_fuse(command: &mut Command) -> &mut Command {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fuse: Vec<CString> = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| fields[2].starts_with("fuse") && fields[2] != "fusectl")
        .map(|fields| CString::new(fields[1]).unwrap())
        .collect();
    before_exec(command, move || {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: every pointer is null where the call allows it, or a C string that lives on.
        unsafe {
            check(libc::unshare(libc::CLONE_NEWNS))?;
            check(libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()))?;
            for mount in &fuse {
                let _ = libc::umount2(mount.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW);
            }
        }
        Ok(())
    })
}

/// The child is killed when the thread that started it ends, however it ends. To be asked for last: a change of user
/// would undo it.
pub fn dies_with_us(command: &mut Command) -> &mut Command {
    before_exec(command, || {
        // SAFETY: prctl with these arguments touches no memory of ours.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
    })
}

/// Numeric user and group of a name in `/etc/passwd`.
pub(super) fn user_ids(name: &str) -> Option<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields: Vec<&str> =
        passwd.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|f| f[0] == name)?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

fn become_user(uid: u32, gid: u32) -> Result<()> {
    // SAFETY: an empty list of groups needs no memory; the other two calls take plain numbers.
    unsafe {
        check(libc::setgroups(0, std::ptr::null()))?;
        check(libc::setgid(gid))?;
        check(libc::setuid(uid))
    }
}

fn before_exec(
    command: &mut Command,
    act: impl FnMut() -> Result<()> + Send + Sync + 'static,
) -> &mut Command {
    // SAFETY: everything given here makes system calls on what was prepared before the fork: it neither allocates
    // nor takes a lock.
    unsafe { command.pre_exec(act) }
}

fn check(result: i32) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
