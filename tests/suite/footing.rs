//! The daemon's own footing: a scrape needs no disk, not even the one that holds the program.

use crate::lab::{
    Call, Daemon, FuseDisk, Need, Op, Running, Scratch, Strace, as_nobody_with_memlock, full, get, lacks,
    within,
};
use crate::targets::{COMMITS, await_runs, config};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Whatever opens or reads a file.
const CALLS: &str = "open,openat,openat2,read,pread64,readv,preadv,preadv2,sendfile,mmap,stat,lstat,newfstatat,statx,\
    readlink,readlinkat,access,faccessat,faccessat2,getdents64";

#[test]
fn a_scrape_opens_and_reads_nothing_but_what_the_kernel_says_of_us() {
    if lacks(&[Need::Root, Need::Fuse, Need::Tool("strace")]) {
        return;
    }
    let disk = FuseDisk::new();
    let daemon = Daemon::new().config(&config(&[("a", disk.path(), COMMITS)])).start();
    await_runs(&daemon, "a", "commit", 2.0);
    let ours = threads(daemon.pid(), &["control", "diskcanary"]);
    assert_eq!(ours.len(), 2, "{ours:?}");
    let strace = Strace::attach(daemon.pid(), CALLS);
    let faults = major_faults(daemon.pid(), &ours);
    for _ in 0..20 {
        daemon.scrape();
        daemon.get("/");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(major_faults(daemon.pid(), &ours), faults, "a page was read from a disk");
    let calls: Vec<Call> = strace.stop().into_iter().filter(|call| ours.contains(&call.thread)).collect();
    assert!(
        calls.iter().filter(|call| call.arguments.contains("/proc/self/stat")).count() >= 20,
        "{calls:?}"
    );
    let harmless = |call: &&Call| {
        let of_memory = ["</proc/", "\"/proc/", "<socket:", "<TCP", "<anon_inode:", "<pipe:", "<UNIX"];
        let anonymous = call.name == "mmap" && call.arguments.contains("MAP_ANONYMOUS");
        anonymous || of_memory.iter().any(|kind| call.arguments.contains(kind))
    };
    let others: Vec<&Call> = calls.iter().filter(|call| !harmless(call)).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn scrapes_go_on_while_the_disk_with_the_program_hangs() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (program, disk) = (FuseDisk::new(), FuseDisk::new());
    let daemon =
        Daemon::started_by(carried(&program)).config(&config(&[("a", disk.path(), COMMITS)])).start();
    await_runs(&daemon, "a", "commit", 2.0);
    assert_eq!(locked(&daemon), (Some(1.0), Some(1.0)), "{}", daemon.stderr());
    let resident = resident_of(daemon.pid(), program.path());
    let hang = program.hang(&Op::ALL);
    let evicted = evict(daemon.pid());
    assert!(resident > 1 << 20 && resident_of(daemon.pid(), program.path()) == resident, "{evicted:?}");

    let (begun, long) = (Instant::now(), Duration::from_secs(if full() { 600 } else { 20 }));
    let mut scrapes = 0;
    while begun.elapsed() < long {
        let asked = Instant::now();
        let seen = daemon.scrape();
        assert!(daemon.get("/").status == 200 && daemon.get("/-/healthy").status == 200);
        assert!(asked.elapsed() < Duration::from_secs(1), "a scrape took {:?}", asked.elapsed());
        assert_eq!(seen.value("diskcanary_target_up", &[("target", "a")]), Some(1.0));
        if scrapes % 10 == 0 {
            evict(daemon.pid());
        }
        scrapes += 1;
        std::thread::sleep(Duration::from_millis(500));
    }
    // The probes go on too, and a log line and an error answer are there.
    await_runs(&daemon, "a", "commit", 2.0);
    assert_eq!(daemon.get("/nowhere").status, 404);
    assert_eq!(program.count(Op::Read).inside, 0, "something was asked of the disk with the program");
    drop(hang);
    assert_eq!(daemon.stop().0.code(), Some(0));
}

/// Also the proof that the eviction above is one: here it bites.
#[test]
fn without_the_right_to_lock_it_says_so_and_goes_on() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    for limit in [0, 64 << 10] {
        let (program, disk) = (FuseDisk::new(), FuseDisk::new());
        open_to_all(disk.backing());
        let daemon = Daemon::started_by(carried(&program))
            .config(&config(&[("a", disk.path(), COMMITS)]))
            .with(|c| {
                as_nobody_with_memlock(c, limit);
            })
            .start();
        await_runs(&daemon, "a", "commit", 2.0);
        assert_eq!(locked(&daemon), (Some(0.0), Some(0.0)));
        let log = daemon.stderr();
        assert_eq!(log.matches("not locked in memory").count(), 1, "{log}");
        assert!(
            log.contains("LimitMEMLOCK=") && log.contains(&format!("limit=\"{} KiB\"", limit >> 10)),
            "{log}"
        );

        let resident = resident_of(daemon.pid(), program.path());
        let hang = program.hang(&[Op::Read]);
        evict(daemon.pid());
        let left = resident_of(daemon.pid(), program.path());
        assert!(left < resident / 2, "{left} of {resident} bytes are still there");
        let address = daemon.address();
        let answer = within(Duration::from_secs(2), move || get(address, "/metrics").is_ok());
        assert_eq!(answer, None, "it answered without its program");
        drop(hang);
        assert_eq!(daemon.get("/-/healthy").status, 200, "and is well again");
        assert_eq!(daemon.stop().0.code(), Some(0));
    }
}

#[test]
fn what_is_locked_is_small() {
    if lacks(&[Need::Root]) {
        return;
    }
    let place = Scratch::new();
    let places: Vec<(String, PathBuf)> =
        (0..20).map(|n| (format!("t{n}"), place.dir(&format!("t{n}")))).collect();
    let targets: Vec<(&str, &Path, &str)> =
        places.iter().map(|(name, path)| (name.as_str(), path.as_path(), COMMITS)).collect();
    let daemon = Daemon::new().config(&config(&targets)).start();
    for (name, _) in &places {
        await_runs(&daemon, name, "commit", 1.0);
    }
    for _ in 0..20 {
        daemon.scrape();
    }
    let seen = daemon.scrape();
    assert_eq!(locked(&daemon), (Some(1.0), Some(1.0)), "{}", daemon.stderr());
    let resident = seen.value("process_resident_memory_bytes", &[]).unwrap();
    println!("resident with 20 targets: {:.1} MiB", resident / f64::from(1 << 20));
    assert!(resident < f64::from(32 << 20), "{resident} bytes");
}

/// The program with its libraries and its loader, all on that disk.
fn carried(disk: &FuseDisk) -> Command {
    let program = env!("CARGO_BIN_EXE_diskcanary");
    let listing = Command::new("ldd").arg(program).output().unwrap();
    let mut loader = None;
    let copy = |from: &str| {
        let name = Path::new(from).file_name().unwrap();
        fs::copy(from, disk.backing().join(name)).unwrap();
        fs::set_permissions(disk.backing().join(name), fs::Permissions::from_mode(0o755)).unwrap();
        disk.path().join(name)
    };
    for line in String::from_utf8(listing.stdout).unwrap().lines() {
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        let Some(path) = path else { continue };
        let copied = copy(path);
        if path.contains("ld-linux") {
            loader = Some(copied);
        }
    }
    let program = copy(program);
    open_to_all(disk.backing());
    let mut command = Command::new(loader.expect("a loader in what ldd lists"));
    command.arg("--library-path").arg(disk.path()).arg(program);
    command
}

fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
}

fn locked(daemon: &Running) -> (Option<f64>, Option<f64>) {
    let seen = daemon.scrape();
    (seen.value("diskcanary_program_locked", &[]), seen.value("diskcanary_data_locked", &[]))
}

/// Asks the kernel to take every page of the process out of memory; the errors, by number.
fn evict(pid: u32) -> Vec<i32> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    // SAFETY: plain numbers; the descriptor is closed below.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    assert!(process >= 0);
    let mut errors = Vec::new();
    for line in maps.lines() {
        let (begin, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        let (begin, end) = (number(begin), number(end));
        let range = libc::iovec { iov_base: begin as *mut libc::c_void, iov_len: end - begin };
        // SAFETY: the range is one of the other process; nothing of ours is touched.
        let done = unsafe {
            libc::syscall(libc::SYS_process_madvise, process, &raw const range, 1, libc::MADV_PAGEOUT, 0)
        };
        if done < 0 {
            errors.push(std::io::Error::last_os_error().raw_os_error().unwrap());
        }
    }
    // SAFETY: it is ours.
    unsafe { libc::close(process as i32) };
    errors
}

/// Bytes in memory of what the process has mapped from below this directory.
fn resident_of(pid: u32, directory: &Path) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut inside, mut kilobytes) = (false, 0);
    for line in smaps.lines() {
        if let Some(rest) = line.strip_prefix("Rss:").filter(|_| inside) {
            kilobytes += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        } else if line.split(' ').next().is_some_and(|word| word.contains('-')) {
            inside = line.contains(directory.to_str().unwrap());
        }
    }
    kilobytes << 10
}

/// The threads of these names.
fn threads(pid: u32, names: &[&str]) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let all = tasks.map(|task| task.unwrap().path());
    let named = |task: &PathBuf| names.contains(&fs::read_to_string(task.join("comm")).unwrap().trim());
    all.filter(named).map(|task| task.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// Page faults of these threads that waited for a disk.
fn major_faults(pid: u32, threads: &[u32]) -> u64 {
    let one = |thread: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).unwrap();
        let (_, after) = stat.rsplit_once(')').unwrap();
        after.split_whitespace().nth(9).unwrap().parse::<u64>().unwrap()
    };
    threads.iter().map(one).sum()
}
