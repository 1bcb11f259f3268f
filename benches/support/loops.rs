//! The loops that are compared, in this process: the engine of our read probe, a bare `pread` loop, and commits.

use std::path::Path;
use std::time::Duration;

use diskcanary::clock;
use diskcanary::io::{self, Direction, Request, Source, Wait, Wish};
use diskcanary::sys::{Buffer, Dir, Direct};

/// Bytes of a read and of a commit.
pub const BLOCK: u32 = 4096;
/// Room for samples, so that the loop does not allocate.
const ROOM: usize = 1 << 18;

/// One read.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Where in the file.
    pub offset: u64,
    /// As timed by the reader.
    pub nanos: u64,
}

/// What a turn of reads gave.
#[derive(Debug)]
pub struct Turn {
    /// In their order.
    pub samples: Vec<Sample>,
    /// CPU of the whole process, workers of the kernel included, in nanoseconds.
    pub cpu: Option<u64>,
    /// How our engine went.
    pub path: Option<&'static str>,
}

/// The engine of the read probe, as a lane uses it.
pub fn ours(dir: &Path, name: &str, size: u64, length: Duration, wait: Wait) -> Turn {
    let file = Dir::open(dir).unwrap().open_file(name, Direct::Yes).unwrap();
    let mut opened = io::open(Source::File(file), 1, BLOCK, Wish::Auto, wait).unwrap();
    let engine = &mut opened.engine;
    let turn = random_reads(size, length, |offset| {
        let request = Request { direction: Direction::Read, slot: 0, offset, len: BLOCK };
        let done = engine.single(request);
        assert_eq!(done.result, Ok(BLOCK));
        done.nanos()
    });
    Turn { path: Some(engine.kind().label()), ..turn }
}

/// `pread` between two readings of the clock, and nothing else.
pub fn bare(dir: &Path, name: &str, size: u64, length: Duration) -> Turn {
    let file = Dir::open(dir).unwrap().open_file(name, Direct::Yes).unwrap();
    let mut buffer = Buffer::new(BLOCK as usize).unwrap();
    random_reads(size, length, |offset| {
        let before = clock::now();
        let read = rustix::io::pread(file.fd(), &mut *buffer, offset);
        let after = clock::now();
        assert_eq!(read, Ok(BLOCK as usize));
        after.nanos_since(before)
    })
}

fn random_reads(size: u64, length: Duration, mut read: impl FnMut(u64) -> u64) -> Turn {
    let mut samples = Vec::with_capacity(ROOM);
    let mut random = fastrand::Rng::new();
    let end = clock::now() + length;
    let before = cpu();
    while clock::now() < end && samples.len() < ROOM {
        let offset = random.u64(..size / u64::from(BLOCK)) * u64::from(BLOCK);
        samples.push(Sample { offset, nanos: read(offset) });
    }
    Turn { cpu: Some(cpu() - before), samples, path: None }
}

/// Write and fdatasync of each commit, in nanoseconds: a 4 KiB overwrite of a file that was written before.
pub fn commits(dir: &Path, name: &str, size: u64, length: Duration) -> (Vec<i64>, Vec<i64>) {
    let file = Dir::open(dir).unwrap().open_file_for_writing(name, Direct::Yes).unwrap();
    let mut buffer = Buffer::new(BLOCK as usize).unwrap();
    let (mut writes, mut syncs) = (Vec::with_capacity(ROOM), Vec::with_capacity(ROOM));
    let mut random = fastrand::Rng::new();
    let end = clock::now() + length;
    for block in (0..size / u64::from(BLOCK)).cycle() {
        random.fill(&mut buffer);
        let begun = clock::now();
        let written = file.write_at(&buffer, block * u64::from(BLOCK));
        let middle = clock::now();
        let synced = file.fdatasync();
        let done = clock::now();
        assert_eq!((written, synced), (Ok(BLOCK as usize), Ok(())));
        writes.push(middle.nanos_since(begun) as i64);
        syncs.push(done.nanos_since(middle) as i64);
        if done >= end || writes.len() == ROOM {
            break;
        }
    }
    (writes, syncs)
}

fn cpu() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}
