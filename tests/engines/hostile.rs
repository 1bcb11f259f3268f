//! Where rings are forbidden, or too dear: containers, sandboxes, limits.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use diskcanary::io::{EngineKind, Source, Wait, Wish, open};
use diskcanary::sys::{Dir, Direct, Errno};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::support::{BLOCK, Kind, as_root, file, image, read, real, reap_all};

/// From here on, `call` ends with `action` on this thread and those that it starts.
fn forbid(call: libc::c_long, action: SeccompAction) {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let rules = [(call, vec![])].into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

fn temporary_file() -> (tempfile::TempDir, Source) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = Source::File(file(folder.path(), &image()));
    (folder, source)
}

#[test]
fn whatever_forbids_a_ring_gives_threads_and_the_reason() {
    let errnos = ["EPERM", "ENOSYS", "ENOMEM", "EINVAL", "EOPNOTSUPP"];
    let raw = [libc::EPERM, libc::ENOSYS, libc::ENOMEM, libc::EINVAL, libc::EOPNOTSUPP];
    let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_register, libc::SYS_io_uring_enter];
    for call in calls {
        for (name, errno) in errnos.into_iter().zip(raw) {
            // An entry that is short of something is tried again; the first one is not waited for.
            let (_folder, source) = temporary_file();
            thread::spawn(move || {
                forbid(call, SeccompAction::Errno(errno as u32));
                let opened = open(source, 4, BLOCK, Wish::Auto, Wait::Sleep).unwrap();
                assert_eq!(opened.reason.label(), name);
                assert!(opened.reason.to_string().contains(name), "{}", opened.reason);
                let mut engine = opened.engine;
                assert_eq!(engine.kind(), EngineKind::Threads);
                assert_eq!(engine.single(read(0, 0, BLOCK)).result, Ok(BLOCK));
                (0..4).for_each(|slot| engine.submit(read(slot, 0, BLOCK)).unwrap());
                assert!(reap_all(&mut *engine).iter().all(|done| done.result == Ok(BLOCK)));
                assert!(engine.buffer(3).unwrap() == &image()[..BLOCK as usize]);
            })
            .join()
            .unwrap();
        }
    }
}

#[test]
fn a_ring_that_is_forbidden_later_ends_with_the_errno() {
    for kind in [Kind::Ring, Kind::SpinningRing] {
        let (_folder, source) = temporary_file();
        thread::spawn(move || {
            let mut engine = real(kind, source, 2).engine;
            forbid(libc::SYS_io_uring_enter, SeccompAction::Errno(libc::EPERM as u32));
            assert_eq!(engine.single(read(0, 0, BLOCK)).result, Err(Errno::EPERM));
            assert_eq!(engine.submit(read(1, 0, BLOCK)), Err(Errno::EPERM));
            assert_eq!(engine.outstanding(), 0);
            assert!(engine.buffer(0).is_none(), "what was handed over stays out");
        })
        .join()
        .unwrap();
    }
}

static ENTRIES: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_entry(_: libc::c_int) {
    ENTRIES.fetch_add(1, SeqCst);
}

/// Waiting inside a ring shows as iowait and I/O pressure of the whole host: with nothing outstanding the kernel
/// must not even be entered.
#[test]
fn with_nothing_outstanding_the_kernel_is_not_entered() {
    for kind in [Kind::Ring, Kind::SpinningRing] {
        let (_folder, source) = temporary_file();
        thread::spawn(move || {
            let mut engine = real(kind, source, 2).engine;
            // SAFETY: the handler adds to an atomic and does nothing else.
            unsafe { libc::signal(libc::SIGSYS, count_entry as extern "C" fn(libc::c_int) as usize) };
            ENTRIES.store(0, SeqCst);
            forbid(libc::SYS_io_uring_enter, SeccompAction::Trap);
            let mut done = Vec::new();
            (0..1000).for_each(|_| engine.reap(&mut done));
            assert_eq!((ENTRIES.load(SeqCst), done.len()), (0, 0), "{kind:?}");
            let _ = engine.submit(read(0, 0, BLOCK));
            assert!(ENTRIES.load(SeqCst) > 0, "{kind:?}: the filter sees entries");
        })
        .join()
        .unwrap();
    }
}

const CHILD: &str = "DISKCANARY_TEST_ENGINES_FOR";

/// What the child does as a user whose limit of locked memory does not do for eight rings and their buffers.
#[test]
fn child_opens_eight_engines() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let dir = Dir::open(folder.as_ref()).unwrap();
    let mut engines = Vec::new();
    for number in 0..8 {
        let source = Source::File(dir.open_file("data", Direct::No).unwrap());
        let mut opened = open(source, 4, BLOCK, Wish::Auto, Wait::Sleep).unwrap();
        assert_eq!(opened.engine.single(read(0, 0, BLOCK)).result, Ok(BLOCK));
        (0..4).for_each(|slot| opened.engine.submit(read(slot, 0, BLOCK)).unwrap());
        assert!(reap_all(&mut *opened.engine).iter().all(|done| done.result == Ok(BLOCK)));
        println!("engine {number}: {}: {}: {:?}", opened.engine.kind(), opened.reason, opened.engine);
        engines.push(opened);
    }
    println!("all eight work");
}

#[test]
fn eight_engines_work_for_a_user_with_little_locked_memory() {
    if !as_root("eight_engines_work_for_a_user_with_little_locked_memory") {
        return;
    }
    let folder = tempfile::Builder::new().prefix("diskcanary-engines-").tempdir().unwrap();
    let open_to_all = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    drop(file(folder.path(), &image()));
    open_to_all(folder.path(), 0o755);
    open_to_all(&folder.path().join("data"), 0o644);
    // Where this binary lies, others may not be let in.
    let program = folder.path().join("engines");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = Command::new(&program);
    child.args(["--exact", "hostile::child_opens_eight_engines", "--nocapture"]);
    child.env(CHILD, folder.path()).current_dir("/").uid(65534).gid(65534);
    let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
    // SAFETY: one system call between fork and exec.
    unsafe {
        child.pre_exec(move || match libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("all eight work"));
}
