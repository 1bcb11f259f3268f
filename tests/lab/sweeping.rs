//! A sweep in this process, on the lane of the daemon: for disks that look at who asks, and tests that look at one cell.

use diskcanary::clock;
use diskcanary::io::{Inflight, Wish};
use diskcanary::probe::heartbeat::Heartbeat;
use diskcanary::probe::home::Home;
use diskcanary::probe::layout::{Head, Layout, Progress, Role, Wish as Size};
use diskcanary::probe::sweep::{
    Cell, CellReport, CellResult, Limits, Pattern, Place, SweepGround, SweepReady, WarmUp, Watch,
};
use diskcanary::probe::{Cost, Method};
use diskcanary::schedule::{Context, Job, Lane, Report, Spec, sweeper};
use diskcanary::target::Roots;
use diskcanary::units::Bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether this process runs.
static HEART: LazyLock<Arc<Heartbeat>> = LazyLock::new(|| {
    let heart = Arc::new(Heartbeat::new(clock::now()));
    let beats = Arc::clone(&heart);
    std::thread::spawn(move || {
        loop {
            beats.beat(clock::now());
            std::thread::sleep(diskcanary::probe::heartbeat::PERIOD);
        }
    });
    heart
});

/// A lane that sweeps one place.
#[derive(Debug)]
pub struct Sweeping {
    lane: Lane,
    reports: Receiver<Report>,
    /// Shared with the lane.
    pub watch: Arc<Watch>,
    /// What is out.
    pub inflight: Arc<Inflight>,
    /// What the lane said of the place.
    pub ready: SweepReady,
    home: Option<Home>,
    closed: AtomicBool,
}

/// How a place is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Bytes of the read file.
    pub file: u64,
    /// What is worked on.
    pub file_size: Option<u64>,
    /// What buffers may take.
    pub memory: Bytes,
    /// Which engine is wanted.
    pub engine: Wish,
}

impl Default for Opening {
    fn default() -> Self {
        let memory = diskcanary::probe::sweep::MEMORY;
        Self { file: 64 << 20, file_size: None, memory, engine: Wish::Auto }
    }
}

impl Sweeping {
    /// On files in this directory.
    pub fn on(path: &Path, opening: Opening) -> Self {
        let path = path.canonicalize().unwrap();
        let (home, head) = lay(&path, opening.file);
        let place = Place::File { home: home.path().to_owned(), head };
        Self::open(&path, place, Some(home), opening).unwrap()
    }

    /// On the read file that lies in this directory.
    pub fn on_what_is_there(path: &Path, opening: Opening) -> Self {
        let path = path.canonicalize().unwrap();
        let home = Home::open(&path, &Inflight::default(), clock::now()).unwrap();
        let head = diskcanary::probe::layout::there(&path, Role::Reads).expect("a read file");
        let place = Place::File { home: home.path().to_owned(), head };
        Self::open(&path, place, Some(home), opening).unwrap()
    }

    /// On a block device.
    pub fn over(device: &Path, opening: Opening) -> Self {
        Self::open(device, Place::Device, None, opening).unwrap()
    }

    /// An error: the lane could not open it, for this reason.
    pub fn open(path: &Path, place: Place, home: Option<Home>, opening: Opening) -> Result<Self, String> {
        let (inflight, watch) = (Arc::<Inflight>::default(), Arc::<Watch>::default());
        let (commit, read, reserve, probe_dir) = (None, None, None, None);
        let spec = Spec { path: path.into(), probe_dir, engine: opening.engine, commit, read, reserve };
        let context = Context {
            spec: Arc::new(spec),
            inflight: Arc::clone(&inflight),
            heart: Arc::clone(&HEART),
            roots: Arc::new(Roots::default()),
            seed: 11,
        };
        let (tell, reports) = channel();
        let lane = sweeper::spawn(context, move |report, _| drop(tell.send(report))).unwrap();
        let ground = SweepGround {
            place,
            file_size: opening.file_size.map(Bytes::new),
            memory: opening.memory,
            watch: Arc::clone(&watch),
        };
        assert!(lane.give(None, Job::OpenSweep(Box::new(ground))));
        let ready = match reports.recv_timeout(PATIENCE).expect("the lane answers") {
            Report::SweepReady(ready) => *ready,
            Report::Failed(trouble) => return Err(trouble.failure.message),
            other => panic!("{other:?}"),
        };
        Ok(Self { lane, reports, watch, inflight, ready, home, closed: AtomicBool::new(false) })
    }

    /// Our directory.
    pub fn home(&self) -> PathBuf {
        self.home.as_ref().expect("files").path().to_owned()
    }

    /// Has a cell measured, without waiting for it.
    pub fn begin(&self, cell: Cell, limits: Limits, ceiling: Option<Duration>) {
        assert!(self.lane.give(None, Job::Cell { cell, limits, ceiling }), "the lane has nothing else to do");
    }

    /// Waits for the cell that was begun.
    pub fn end(&self, patience: Duration) -> Option<CellReport> {
        match self.reports.recv_timeout(patience).ok()? {
            Report::Cell(report) => Some(*report),
            other => panic!("{other:?}"),
        }
    }

    /// Has a cell measured.
    pub fn cell(&self, cell: Cell, limits: Limits) -> CellReport {
        self.begin(cell, limits, None);
        self.end(PATIENCE).expect("the cell comes back")
    }

    /// As [`Sweeping::cell`], which must have a result.
    pub fn result(&self, cell: Cell, limits: Limits) -> CellResult {
        self.cell(cell, limits).outcome.unwrap_or_else(|left| panic!("{cell}: {left:?}"))
    }

    /// Lets go of what is open.
    pub fn close(&self) {
        assert!(self.lane.give(None, Job::Close));
        let report = self.reports.recv_timeout(PATIENCE).expect("the lane answers");
        assert!(matches!(report, Report::Closed), "{report:?}");
        self.closed.store(true, Relaxed);
    }
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        // The file system below is unmounted next.
        if !self.closed.load(Relaxed) && self.lane.give(None, Job::Close) {
            let _ = self.reports.recv_timeout(Duration::from_secs(10));
        }
    }
}

/// A read file of at least 64 MiB, as the daemon makes it.
pub fn lay(path: &Path, size: u64) -> (Home, Head) {
    let (inflight, mut cost) = (Inflight::default(), Cost::default());
    let home = Home::open(path, &inflight, clock::now()).unwrap();
    let wish = Size { size: Bytes::new(size), reserve: Some(Bytes::new(0)) };
    let random = fastrand::Rng::with_seed(size);
    let mut laying = Layout::begin(&home, Role::Reads, wish, random, &mut cost).unwrap();
    loop {
        if let Progress::Done(head, _) = laying.step(&home, clock::now(), &inflight, &mut cost).unwrap() {
            return (home, head);
        }
    }
}

/// A cell of one job.
pub fn cell(pattern: Pattern, block_size: u32, depth: u16) -> Cell {
    let method = pattern.commits().then_some(Method::Fdatasync);
    Cell { pattern, block_size, depth, jobs: 1, method }
}

/// So long, at full depth from the beginning.
pub fn lasting(time: Duration) -> Limits {
    Limits { time, operations: None, bytes: None, warm_up: WarmUp::Completions(2) }
}
