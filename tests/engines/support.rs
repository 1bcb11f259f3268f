//! One case for each engine: the engine, and what stands on its disk.

use std::path::Path;

use diskcanary::io::{
    Completion, Direction, Engine, Fake, Opened, Request, Script, Source, Step, Wait, Wish, open,
};
use diskcanary::sys::{Dir, Direct, File};

pub(crate) const BLOCK: u32 = 8192;
pub(crate) const BLOCKS: u64 = 64;
/// Behind the last whole block: what a read there brings is short.
pub(crate) const TAIL: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ring,
    SpinningRing,
    Threads,
    Fake,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Ring, Kind::SpinningRing, Kind::Threads, Kind::Fake];
pub(crate) const REAL: [Kind; 3] = [Kind::Ring, Kind::SpinningRing, Kind::Threads];

pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) image: Vec<u8>,
    _folder: Option<tempfile::TempDir>,
}

impl Case {
    pub(crate) fn new(kind: Kind, depth: u16) -> Self {
        let image = image();
        let (engine, folder): (Box<dyn Engine>, _) = if kind == Kind::Fake {
            let script = Script { image: image.clone(), read_only: false, steps: vec![], then: Step::good() };
            (Box::new(Fake::new(script, depth, BLOCK)), None)
        } else {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            (real(kind, Source::File(file(folder.path(), &image)), depth).engine, Some(folder))
        };
        Self { kind, engine, image, _folder: folder }
    }

    /// Whether `done` brought what stands on the disk at `offset`.
    pub(crate) fn check_data(&mut self, done: &Completion, offset: u64) {
        let kind = self.kind;
        let bytes = done.result.unwrap_or_else(|e| panic!("{kind:?}: {e}")) as usize;
        let expected = &self.image[offset as usize..offset as usize + bytes];
        let got = &self.engine.buffer(done.slot).unwrap()[..bytes];
        assert!(got == expected, "{kind:?}: other bytes than written at {offset}");
    }
}

/// Opens an engine of a real kind, and makes sure that it is that one.
pub(crate) fn real(kind: Kind, source: Source, depth: u16) -> Opened {
    let (wish, wait) = match kind {
        Kind::Ring => (Wish::Auto, Wait::Sleep),
        Kind::SpinningRing => (Wish::Auto, Wait::Spin),
        Kind::Threads => (Wish::Threads, Wait::Sleep),
        Kind::Fake => unreachable!("the fake is made from a script"),
    };
    let opened = open(source, depth, BLOCK, wish, wait).unwrap();
    let expected = if wish == Wish::Threads { "asked" } else { "best" };
    assert_eq!(opened.reason.label(), expected, "{kind:?}: {}", opened.reason);
    opened
}

/// Pseudo-random, so that no two blocks are alike.
pub(crate) fn image() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(5);
    (0..BLOCKS as usize * BLOCK as usize + TAIL).map(|_| random.u8(..)).collect()
}

/// A file with `image` in it, written to the disk, open for direct I/O where the file system does that.
pub(crate) fn file(folder: &Path, image: &[u8]) -> File {
    let dir = Dir::open(&folder.canonicalize().unwrap()).unwrap();
    let file = dir.create_file("data", Direct::No).unwrap();
    assert_eq!(file.write_at(image, 0), Ok(image.len()));
    file.fsync().unwrap();
    let direct = dir.open_file_for_writing("data", Direct::Yes);
    direct.or_else(|_| dir.open_file_for_writing("data", Direct::No)).unwrap()
}

pub(crate) fn read(slot: u16, offset: u64, len: u32) -> Request {
    Request { direction: Direction::Read, slot, offset, len }
}

pub(crate) fn write(slot: u16, offset: u64, len: u32) -> Request {
    Request { direction: Direction::Write, slot, offset, len }
}

/// Reaps until nothing is outstanding.
pub(crate) fn reap_all(engine: &mut dyn Engine) -> Vec<Completion> {
    let mut done = Vec::new();
    while engine.outstanding() > 0 {
        let before = done.len();
        engine.reap(&mut done);
        assert!(done.len() > before, "reap came back with nothing while operations were out");
    }
    done
}

/// Whether this process may mount and become somebody else. Without that the test is left out, by name; with
/// `DISKCANARY_TESTS_STRICT` set it fails instead.
pub(crate) fn as_root(test: &str) -> bool {
    let may = diskcanary::sys::is_root() && Path::new("/dev/fuse").exists();
    if !may {
        assert!(std::env::var_os("DISKCANARY_TESTS_STRICT").is_none(), "{test} needs root and /dev/fuse");
        println!("skipped: {test}: needs root and /dev/fuse");
    }
    may
}
