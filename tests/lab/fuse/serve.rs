//! The requests of the kernel, each judged by the rules and then done on the tree.

use super::super::rules::{Fate, Op, Rules};
use super::tally::{Key, Tally};
use super::tree::{Owner, Tree};
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The kernel asks anew each time, so that rules also meet lookups.
const NEVER_CACHED: Duration = Duration::ZERO;

pub(super) struct Disk {
    tree: Arc<Tree>,
    rules: Arc<Rules>,
    tally: Arc<Tally>,
}

impl Disk {
    pub(super) fn new(tree: Tree, rules: Arc<Rules>, tally: Arc<Tally>) -> Self {
        Self { tree: Arc::new(tree), rules, tally }
    }

    /// Answers at once, or from a thread of its own when the answer has to wait. `act` gives its result and the bytes
    /// that it served; `answer` gets either that or the error.
    fn serve<T: 'static>(
        &self,
        op: Op,
        act: impl FnOnce(&Tree, Fate) -> io::Result<(T, usize)> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        self.serve_counted(op, |_| (), act, answer);
    }

    /// As [`Disk::serve`]; `count` hears of the bytes served, be they none, before the answer is given.
    fn serve_counted<T: 'static>(
        &self,
        op: Op,
        count: impl FnOnce(usize) + Send + 'static,
        act: impl FnOnce(&Tree, Fate) -> io::Result<(T, usize)> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let fate = self.rules.arrive(op);
        let (tree, rules) = (Arc::clone(&self.tree), Arc::clone(&self.rules));
        let work = move || {
            rules.wait(fate);
            let done =
                fate.error.map_or_else(|| act(&tree, fate), |errno| Err(io::Error::from_raw_os_error(errno)));
            let bytes = done.as_ref().map_or(0, |(_, bytes)| *bytes);
            rules.pay(fate, bytes);
            count(bytes);
            rules.leave(fate, bytes);
            answer(done.map(|(value, _)| value).map_err(errno));
        };
        if fate.waits() {
            std::thread::spawn(work);
        } else {
            work();
        }
    }

    /// Enters an operation on the data of an open file in the tally.
    fn tallied(
        &self,
        op: Op,
        handle: FileHandle,
        offset: u64,
        size: usize,
    ) -> impl FnOnce(usize) + Send + 'static {
        let file = self.tree.name(handle).unwrap_or_default();
        let (key, tally) = (Key { file, op, at_start: offset == 0, size }, Arc::clone(&self.tally));
        move |bytes| tally.enter(key, bytes)
    }

    fn empty(&self, op: Op, act: impl FnOnce(&Tree) -> io::Result<()> + Send + 'static, reply: ReplyEmpty) {
        self.serve(
            op,
            |tree, _| act(tree).map(|()| ((), 0)),
            |done| match done {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            },
        );
    }

    fn entry(
        &self,
        op: Op,
        act: impl FnOnce(&Tree) -> io::Result<fuser::FileAttr> + Send + 'static,
        reply: ReplyEntry,
    ) {
        self.serve(
            op,
            |tree, _| act(tree).map(|attr| (attr, 0)),
            |done| match done {
                Ok(attr) => reply.entry(&NEVER_CACHED, &attr, Generation(0)),
                Err(error) => reply.error(error),
            },
        );
    }

    fn attr(
        &self,
        op: Op,
        act: impl FnOnce(&Tree) -> io::Result<fuser::FileAttr> + Send + 'static,
        reply: ReplyAttr,
    ) {
        self.serve(
            op,
            |tree, _| act(tree).map(|attr| (attr, 0)),
            |done| match done {
                Ok(attr) => reply.attr(&NEVER_CACHED, &attr),
                Err(error) => reply.error(error),
            },
        );
    }
}

impl Filesystem for Disk {
    /// The kernel's default of 12 requests in the background would cap the depth that a client reaches.
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_background(512);
        // One request for one system call, also for large ones.
        let _ = config.add_capabilities(fuser::InitFlags::FUSE_MAX_PAGES);
        let _ = config
            .add_capabilities(fuser::InitFlags::FUSE_ASYNC_DIO | fuser::InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.entry(Op::Lookup, move |tree| tree.lookup(parent, &name), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(Op::Lookup, move |tree| tree.attributes(ino), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.attr(Op::Change, move |tree| tree.change(ino, mode, (uid, gid), size), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (name, owner) = (name.to_owned(), owner(request));
        self.entry(Op::Create, move |tree| tree.make_directory(parent, &name, mode & !umask, owner), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.empty(Op::Remove, move |tree| tree.remove_file(parent, &name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.empty(Op::Remove, move |tree| tree.remove_directory(parent, &name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, to_name) = (name.to_owned(), to_name.to_owned());
        self.empty(
            Op::Remove,
            move |tree| tree.rename((parent, &name), (to_parent, &to_name), flags.bits()),
            reply,
        );
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve(
            Op::Open,
            move |tree, _| tree.open(ino).map(|handle| (handle, 0)),
            |done| match done {
                Ok(handle) => reply.opened(FileHandle(handle), direct()),
                Err(error) => reply.error(error),
            },
        );
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (name, owner) = (name.to_owned(), owner(request));
        let exclusive = flags & libc::O_EXCL != 0;
        self.serve(
            Op::Create,
            move |tree, _| tree.create(parent, &name, mode & !umask, exclusive, owner).map(|made| (made, 0)),
            |done| match done {
                Ok((attr, handle)) => {
                    reply.created(&NEVER_CACHED, &attr, Generation(0), FileHandle(handle), direct());
                }
                Err(error) => reply.error(error),
            },
        );
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let rules = Arc::clone(&self.rules);
        self.serve_counted(
            Op::Read,
            self.tallied(Op::Read, handle, offset, size as usize),
            move |tree, fate| {
                rules.fetch(offset, size.into());
                let mut data = vec![0; (size as usize).min(fate.at_most)];
                let length = read_fully(&*tree.file(handle)?, &mut data, offset)?;
                data.truncate(length);
                Ok((data, length))
            },
            |done| match done {
                Ok(data) => reply.data(&data),
                Err(error) => reply.error(error),
            },
        );
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        self.serve_counted(
            Op::Write,
            self.tallied(Op::Write, handle, offset, data.len()),
            move |tree, fate| {
                let length = data.len().min(fate.at_most);
                tree.file(handle)?.write_all_at(&data[..length], offset)?;
                Ok((length, length))
            },
            |done| match done {
                Ok(length) => reply.written(u32::try_from(length).unwrap()),
                Err(error) => reply.error(error),
            },
        );
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.tree.close(handle);
        reply.ok();
    }

    /// Nothing here has to survive a power cut: a sync is counted, and takes as long as its rule says.
    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.serve_counted(
            Op::Sync,
            self.tallied(Op::Sync, handle, 0, 0),
            |_, _| Ok(((), 0)),
            |done| match done {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            },
        );
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.empty(Op::Sync, |_| Ok(()), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.empty(Op::Change, move |tree| tree.allocate(handle, mode, offset, length), reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.serve(
            Op::Lookup,
            move |tree, _| tree.list(ino).map(|names| (names, 0)),
            move |done| match done {
                Ok(names) => {
                    for (at, (ino, kind, name)) in names.into_iter().enumerate().skip(offset as usize) {
                        if reply.add(ino, at as u64 + 1, kind, name) {
                            break;
                        }
                    }
                    reply.ok();
                }
                Err(error) => reply.error(error),
            },
        );
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.serve(
            Op::Statfs,
            |tree, _| tree.space().map(|space| (space, 0)),
            |done| match done {
                Ok(s) => reply.statfs(
                    s.f_blocks,
                    s.f_bfree,
                    s.f_bavail,
                    s.f_files,
                    s.f_ffree,
                    4096,
                    255,
                    s.f_frsize as u32,
                ),
                Err(error) => reply.error(error),
            },
        );
    }
}

fn direct() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn read_fully(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}
