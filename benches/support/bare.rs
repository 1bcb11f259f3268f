//! The operations of the daemon at its default intervals, by threads that do nothing else: what a machine takes for them whoever
//! asks. Each thread sleeps to a random instant in each of its slots, as a lane of the daemon is woken at one.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use diskcanary::probe::commit::COMMITS;
use diskcanary::probe::read::{AT_DEPTH, SINGLES};

use super::lab::Mounted;
use super::raw::{Bare, Threads};

const BLOCK: usize = 4096;
/// Far more than a run touches, so that no two operations meet.
const FILE: u64 = 16 << 20;

/// From commit run to commit run, and from read run to read run: the daemon's defaults.
const COMMIT_EVERY: Duration = Duration::from_secs(2);
const READ_EVERY: Duration = Duration::from_secs(30);

/// Commits and reads on all disks for about so long, in whole slots. The depth of the daemon's reads is left out: they come one after the
/// other here.
pub fn measure(disks: &[Mounted], span: Duration) -> Bare {
    let span = READ_EVERY * (span.as_secs_f64() / READ_EVERY.as_secs_f64()).round().max(1.0) as u32;
    let files = disks.iter().map(|disk| ["bare-commits", "bare-reads"].map(|name| disk.path().join(name)));
    let files: Vec<_> = files.inspect(|pair| pair.iter().for_each(|path| lay(path))).collect();
    let each = (SINGLES + AT_DEPTH) as usize;
    let start = |[commits, reads]: [PathBuf; 2]| {
        (
            thread::spawn(move || slots(&commits, COMMIT_EVERY, span, COMMITS, commit)),
            thread::spawn(move || slots(&reads, READ_EVERY, span, each, read)),
        )
    };
    let (writers, readers): (Vec<_>, Vec<_>) = files.into_iter().map(start).unzip();
    let together = |name: &str, threads: Vec<thread::JoinHandle<(f64, u64)>>| {
        let count = threads.len();
        let each = threads.into_iter().map(|thread| thread.join().unwrap());
        let (cpu_seconds, sleeps) = each.fold((0.0, 0), |(cpu, sleeps), (c, s)| (cpu + c, sleeps + s));
        Threads { name: name.to_owned(), count, cpu_seconds, sleeps }
    };
    let (commits, reads) = (together("commits", writers), together("reads", readers));
    Bare { targets: disks.len(), seconds: span.as_secs_f64(), commits, reads }
}

fn lay(path: &Path) {
    let mut bytes = vec![0; FILE as usize];
    fastrand::fill(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    File::open(path).unwrap().sync_all().unwrap();
}

/// One run of `each` operations in every slot. What this thread has cost in CPU seconds, and how often it slept.
fn slots(
    path: &Path,
    slot: Duration,
    span: Duration,
    each: usize,
    operation: fn(&File, &mut [u8], u64),
) -> (f64, u64) {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let mut room = vec![0; 2 * BLOCK];
    let aligned = room.as_ptr().align_offset(BLOCK);
    let bytes = &mut room[aligned..aligned + BLOCK];
    fastrand::fill(bytes);
    let (began, before) = (Instant::now(), own());
    let slots = (span.as_secs_f64() / slot.as_secs_f64()).round() as u32;
    for number in 0..slots {
        let instant = slot * number + slot.mul_f64(fastrand::f64());
        thread::sleep(instant.saturating_sub(began.elapsed()));
        for _ in 0..each {
            operation(&file, bytes, fastrand::u64(0..FILE / BLOCK as u64) * BLOCK as u64);
        }
    }
    let after = own();
    drop(file);
    std::fs::remove_file(path).unwrap();
    (after.0 - before.0, after.1 - before.1)
}

fn commit(file: &File, bytes: &mut [u8], at: u64) {
    file.write_all_at(bytes, at).unwrap();
    file.sync_data().unwrap();
}

fn read(file: &File, bytes: &mut [u8], at: u64) {
    file.read_exact_at(bytes, at).unwrap();
}

/// CPU seconds and sleeps of the calling thread.
fn own() -> (f64, u64) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/{name}")).unwrap();
    let nanos: f64 = read("schedstat").split(' ').next().unwrap().parse().unwrap();
    let status = read("status");
    let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    (nanos / 1e9, sleeps.trim().parse().unwrap())
}
