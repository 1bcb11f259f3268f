//! Someone who is not the daemon and commits to a healthy disk in the same slots: what the machine took from both is not the
//! daemon's doing, and no target's.

use super::watch::INTERVAL;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAME: &str = "witness";
/// What takes longer than this on a healthy disk in memory is kept from a CPU, it or the disk: the two probes of a target, of which only
/// one is out at a time, then get into each other's way.
const LONG: Duration = Duration::from_millis(10);

pub(super) struct Witness {
    path: PathBuf,
    over: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Witness {
    pub(super) fn on(directory: &Path) -> Self {
        let path = directory.join(NAME);
        let file = File::create(&path).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_all().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || missed(&file, &stop));
        Self { path, over, thread }
    }

    /// How many slots had no commit of its own that began and ended in time, and that was quick.
    pub(super) fn end(self) -> u32 {
        self.over.store(true, SeqCst);
        let missed = self.thread.join().expect("a healthy disk takes commits");
        fs::remove_file(self.path).unwrap();
        missed
    }
}

/// A commit in the middle of each slot until it is over; a slot is missed that has passed before its turn came, or whose commit was long.
fn missed(file: &File, over: &AtomicBool) -> u32 {
    let interval = Duration::from_secs_f64(INTERVAL);
    let mut missed = 0;
    let mut due = Instant::now() + interval / 2;
    while !over.load(SeqCst) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_data().unwrap();
        missed += u32::from(began.elapsed() > LONG);
        due += interval;
        while due + interval / 2 < Instant::now() {
            missed += 1;
            due += interval;
        }
    }
    missed
}
