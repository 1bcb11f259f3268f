//! On a disk that is slow, fails or hangs: a FUSE file system in this process, whose reads wait at a gate.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use diskcanary::clock::now;
use diskcanary::io::{Engine, EngineKind, Source, Wait, Wish, open};
use diskcanary::sys::{Buffer, Dir, Direct, Errno, File};
use fuser::{
    BackgroundSession, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};

use crate::support::{BLOCK, Kind, as_root, image, read, reap_all};

const DEPTH: u16 = 16;
const PATIENCE: Duration = Duration::from_secs(20);

/// The side of the file system that the test holds.
#[derive(Default)]
struct Control {
    closed: Mutex<bool>,
    moved: Condvar,
    inside: AtomicUsize,
    broken: AtomicBool,
}

impl Control {
    fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.moved.notify_all();
    }

    /// Waits until `n` reads are at the gate at the same time, which tells whether they came.
    fn came(&self, n: usize) -> bool {
        let began = now();
        while self.inside.load(SeqCst) != n && now().since(began) < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.inside.load(SeqCst) == n
    }

    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        self.inside.fetch_add(1, SeqCst);
        while *closed {
            closed = self.moved.wait(closed).unwrap();
        }
        drop(closed);
        self.inside.fetch_sub(1, SeqCst);
    }
}

struct Disk {
    image: Vec<u8>,
    control: Arc<Control>,
}

const TTL: Duration = Duration::from_secs(1);

impl Disk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let file = u64::from(inode) != 1;
        let epoch = std::time::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size: if file { self.image.len() as u64 } else { 0 },
            blocks: 1,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.entry(&TTL, &self.attributes(INodeNo(2)), Generation(0));
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.control.pass();
        if self.control.broken.load(SeqCst) {
            return reply.error(fuser::Errno::EIO);
        }
        let from = (offset as usize).min(self.image.len());
        let to = (from + len as usize).min(self.image.len());
        reply.data(&self.image[from..to]);
    }
}

struct Mounted {
    control: Arc<Control>,
    session: Option<BackgroundSession>,
    folder: tempfile::TempDir,
}

impl Mounted {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("diskcanary-engines-").tempdir().unwrap();
        let control = Arc::new(Control::default());
        let mut config = Config::default();
        config.n_threads = Some(usize::from(DEPTH) + 4);
        let disk = Disk { image: image(), control: Arc::clone(&control) };
        let session = fuser::spawn_mount(disk, folder.path(), &config).unwrap();
        Self { control, session: Some(session), folder }
    }

    fn file(&self) -> File {
        let dir = Dir::open(&self.folder.path().canonicalize().unwrap()).unwrap();
        dir.open_file("data", Direct::Yes).unwrap()
    }
}

/// A ring on FUSE would carry out one read after the other inside the submit, so that every wish gives threads.
fn on(disk: &Mounted, kind: Kind, depth: u16) -> Box<dyn Engine> {
    let wish = if kind == Kind::Threads { Wish::Threads } else { Wish::Auto };
    let opened = open(Source::File(disk.file()), depth, BLOCK, wish, Wait::Sleep).unwrap();
    assert_eq!(opened.reason.label(), if kind == Kind::Threads { "asked" } else { "waits" });
    assert_eq!(opened.engine.kind(), EngineKind::Threads);
    opened.engine
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.control.open();
        // Lazily: an engine that was dropped while it hung keeps its file open.
        let path = std::ffi::CString::new(self.folder.path().as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a path that ends in NUL.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        drop(self.session.take());
    }
}

#[test]
fn as_many_are_with_the_disk_as_were_submitted() {
    if !as_root("as_many_are_with_the_disk_as_were_submitted") {
        return;
    }
    let disk = Mounted::new();
    for kind in [Kind::Ring, Kind::Threads] {
        let mut engine = on(&disk, kind, DEPTH);
        disk.control.close();
        for slot in 0..DEPTH {
            engine.submit(read(slot, u64::from(slot) * u64::from(BLOCK), BLOCK)).unwrap();
        }
        let all = disk.control.came(usize::from(DEPTH));
        let came = disk.control.inside.load(SeqCst);
        disk.control.open();
        assert!(all, "{kind:?}: {came} of {DEPTH} at the disk");
        for done in reap_all(&mut *engine) {
            assert_eq!(done.result, Ok(BLOCK), "{kind:?}");
            let from = usize::from(done.slot) * BLOCK as usize;
            assert!(engine.buffer(done.slot).unwrap() == &image()[from..from + BLOCK as usize], "{kind:?}");
        }
    }
}

#[test]
fn a_failing_disk_is_a_value() {
    if !as_root("a_failing_disk_is_a_value") {
        return;
    }
    let disk = Mounted::new();
    for kind in [Kind::Ring, Kind::Threads] {
        let mut engine = on(&disk, kind, 2);
        disk.control.broken.store(true, SeqCst);
        assert_eq!(engine.single(read(0, 0, BLOCK)).result, Err(Errno::EIO), "{kind:?}");
        engine.submit(read(1, 0, BLOCK)).unwrap();
        assert_eq!(reap_all(&mut *engine)[0].result, Err(Errno::EIO), "{kind:?}");
        disk.control.broken.store(false, SeqCst);
        assert_eq!(engine.single(read(0, 0, BLOCK)).result, Ok(BLOCK), "{kind:?}: it recovers");
    }
}

#[test]
fn an_engine_that_is_dropped_while_it_hangs_frees_nothing() {
    if !as_root("an_engine_that_is_dropped_while_it_hangs_frees_nothing") {
        return;
    }
    let disk = Mounted::new();
    for kind in [Kind::Ring, Kind::Threads] {
        let mut engine = on(&disk, kind, 2);
        let theirs: Vec<*const u8> = (0..2).map(|slot| engine.buffer(slot).unwrap().as_ptr()).collect();
        disk.control.close();
        (0..2).for_each(|slot| engine.submit(read(slot, 0, BLOCK)).unwrap());
        assert!(disk.control.came(2), "{kind:?}");
        let began = now();
        drop(engine);
        assert!(now().since(began) < PATIENCE / 2, "{kind:?}: the drop waited for the disk");

        // Had the buffers been freed, these would get their addresses, and then the disk's late answer.
        let mut canaries: Vec<Buffer> = (0..64).map(|_| Buffer::new(BLOCK as usize).unwrap()).collect();
        canaries.iter_mut().for_each(|canary| canary.fill(0xc4));
        assert!(canaries.iter().all(|canary| !theirs.contains(&canary.as_ptr())), "{kind:?}: freed");
        disk.control.open();
        assert!(disk.control.came(0), "{kind:?}");
        std::thread::sleep(Duration::from_millis(100));
        assert!(canaries.iter().all(|canary| canary.iter().all(|b| *b == 0xc4)), "{kind:?}: overwritten");
    }
}
