//! Inode numbers, names and handles of the pass-through disk, over the directory that holds its files.

use fuser::{FileAttr, FileHandle, FileType, INodeNo};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{Error, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Who made a file.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

pub(super) struct Tree {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    paths: HashMap<u64, PathBuf>,
    numbers: HashMap<PathBuf, u64>,
    files: HashMap<u64, Opened>,
    last_number: u64,
    last_handle: u64,
}

/// A handle: of which inode, and under which name it was opened.
struct Opened {
    number: u64,
    path: PathBuf,
    file: Arc<File>,
}

impl State {
    fn path(&self, ino: INodeNo) -> Result<PathBuf> {
        self.paths.get(&ino.0).cloned().ok_or_else(|| Error::from_raw_os_error(libc::ENOENT))
    }

    fn number(&mut self, path: &Path) -> u64 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        self.last_number += 1;
        self.numbers.insert(path.to_owned(), self.last_number);
        self.paths.insert(self.last_number, path.to_owned());
        self.last_number
    }

    fn forget(&mut self, path: &Path) {
        if let Some(number) = self.numbers.remove(path) {
            self.paths.remove(&number);
        }
    }

    fn keep(&mut self, number: u64, path: PathBuf, file: File) -> u64 {
        self.last_handle += 1;
        self.files.insert(self.last_handle, Opened { number, path, file: Arc::new(file) });
        self.last_handle
    }

    /// An open file of this inode, for when its name is gone.
    fn open_file(&self, ino: INodeNo) -> Option<Arc<File>> {
        self.files.values().find(|open| open.number == ino.0).map(|open| Arc::clone(&open.file))
    }
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        let mut state = State::default();
        state.number(root);
        Self { state: Mutex::new(state) }
    }

    pub(super) fn lookup(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let mut state = self.state.lock().unwrap();
        let path = state.path(parent)?.join(name);
        let metadata = fs::symlink_metadata(&path)?;
        Ok(attributes(state.number(&path), &metadata))
    }

    pub(super) fn attributes(&self, ino: INodeNo) -> Result<FileAttr> {
        let state = self.state.lock().unwrap();
        let metadata = match state.path(ino) {
            Ok(path) => fs::symlink_metadata(path)?,
            Err(gone) => state.open_file(ino).ok_or(gone)?.metadata()?,
        };
        Ok(attributes(ino.0, &metadata))
    }

    pub(super) fn change(
        &self,
        ino: INodeNo,
        mode: Option<u32>,
        (uid, gid): (Option<u32>, Option<u32>),
        size: Option<u64>,
    ) -> Result<FileAttr> {
        {
            let state = self.state.lock().unwrap();
            if let Ok(path) = state.path(ino) {
                if let Some(mode) = mode {
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7777))?;
                }
                std::os::unix::fs::chown(&path, uid, gid)?;
                if let Some(size) = size {
                    OpenOptions::new().write(true).open(&path)?.set_len(size)?;
                }
            } else if let (Some(file), Some(size)) = (state.open_file(ino), size) {
                file.set_len(size)?;
            }
        }
        self.attributes(ino)
    }

    pub(super) fn make_directory(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        owner: Owner,
    ) -> Result<FileAttr> {
        let path = self.state.lock().unwrap().path(parent)?.join(name);
        fs::DirBuilder::new().mode(mode).create(&path)?;
        std::os::unix::fs::chown(&path, Some(owner.uid), Some(owner.gid))?;
        self.lookup(parent, name)
    }

    pub(super) fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        exclusive: bool,
        owner: Owner,
    ) -> Result<(FileAttr, u64)> {
        let mut state = self.state.lock().unwrap();
        let path = state.path(parent)?.join(name);
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false).create_new(exclusive);
        let file = how.open(&path)?;
        file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
        std::os::unix::fs::chown(&path, Some(owner.uid), Some(owner.gid))?;
        let number = state.number(&path);
        let attr = attributes(number, &file.metadata()?);
        Ok((attr, state.keep(number, path, file)))
    }

    pub(super) fn open(&self, ino: INodeNo) -> Result<u64> {
        let mut state = self.state.lock().unwrap();
        let path = state.path(ino)?;
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path)?;
        Ok(state.keep(ino.0, path, file))
    }

    pub(super) fn file(&self, handle: FileHandle) -> Result<Arc<File>> {
        let state = self.state.lock().unwrap();
        let open = state.files.get(&handle.0).ok_or_else(|| Error::from_raw_os_error(libc::EBADF))?;
        Ok(Arc::clone(&open.file))
    }

    /// The name under which a handle was opened, whatever became of it since.
    pub(super) fn name(&self, handle: FileHandle) -> Option<PathBuf> {
        self.state.lock().unwrap().files.get(&handle.0).map(|open| open.path.clone())
    }

    pub(super) fn close(&self, handle: FileHandle) {
        self.state.lock().unwrap().files.remove(&handle.0);
    }

    pub(super) fn remove_file(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        let path = state.path(parent)?.join(name);
        fs::remove_file(&path)?;
        state.forget(&path);
        Ok(())
    }

    pub(super) fn remove_directory(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        let path = state.path(parent)?.join(name);
        fs::remove_dir(&path)?;
        state.forget(&path);
        Ok(())
    }

    pub(super) fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), flags: u32) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        let (from, to) = (state.path(from.0)?.join(from.1), state.path(to.0)?.join(to.1));
        if flags & libc::RENAME_NOREPLACE != 0 && fs::symlink_metadata(&to).is_ok() {
            return Err(Error::from_raw_os_error(libc::EEXIST));
        }
        if flags & !libc::RENAME_NOREPLACE != 0 {
            return Err(Error::from_raw_os_error(libc::EINVAL));
        }
        fs::rename(&from, &to)?;
        state.forget(&to);
        let moved: Vec<(u64, PathBuf)> = state.paths.iter().map(|(n, p)| (*n, p.clone())).collect();
        for (number, path) in moved {
            let Ok(below) = path.strip_prefix(&from) else { continue };
            let new = if below.as_os_str().is_empty() { to.clone() } else { to.join(below) };
            state.numbers.remove(&path);
            state.numbers.insert(new.clone(), number);
            state.paths.insert(number, new);
        }
        Ok(())
    }

    pub(super) fn list(&self, ino: INodeNo) -> Result<Vec<(INodeNo, FileType, OsString)>> {
        let mut state = self.state.lock().unwrap();
        let path = state.path(ino)?;
        let mut names =
            vec![(ino, FileType::Directory, OsString::from(".")), (ino, FileType::Directory, "..".into())];
        let mut entries = fs::read_dir(&path)?.collect::<Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let kind = FileType::from_std(entry.file_type()?).unwrap_or(FileType::RegularFile);
            names.push((INodeNo(state.number(&entry.path())), kind, entry.file_name()));
        }
        Ok(names)
    }

    pub(super) fn allocate(&self, handle: FileHandle, mode: i32, offset: u64, length: u64) -> Result<()> {
        let flags = rustix::fs::FallocateFlags::from_bits_retain(mode.unsigned_abs());
        Ok(rustix::fs::fallocate(&*self.file(handle)?, flags, offset, length)?)
    }

    pub(super) fn space(&self) -> Result<rustix::fs::StatVfs> {
        let root = self.state.lock().unwrap().path(INodeNo::ROOT)?;
        Ok(rustix::fs::statvfs(&root)?)
    }
}

fn attributes(ino: u64, metadata: &fs::Metadata) -> FileAttr {
    let at = |seconds: i64, nanos: i64| {
        UNIX_EPOCH + Duration::new(seconds.unsigned_abs(), u32::try_from(nanos).unwrap_or(0))
    };
    FileAttr {
        ino: INodeNo(ino),
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: at(metadata.atime(), metadata.atime_nsec()),
        mtime: at(metadata.mtime(), metadata.mtime_nsec()),
        ctime: at(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: u32::try_from(metadata.nlink()).unwrap_or(1),
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
