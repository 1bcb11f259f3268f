//! Names that carry our prefix, directories on a real disk, and the broom for what a killed run left behind.

use super::command::try_run;
use super::mounts::mounts_below;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const PREFIX: &str = "dclab";

/// A directory of the test's own, on a real disk, open to every user; removed with all in it (and with every mount
/// that is still on it) when dropped.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    path: PathBuf,
}

impl Scratch {
    /// A new one in `DISKCANARY_TESTS_DIR`, else `TMPDIR`, else `/var/tmp`: the first that is not in RAM. (Not below
    /// `target/`: other users, PostgreSQL's for one, may not be let into the directories above it.)
    pub fn new() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| sweep(&base()));
        Self::within(&base())
    }

    /// A new one in this directory, which is to go with all in it when the test was killed.
    pub fn within(parent: &Path) -> Self {
        let name = fresh_name();
        let path = parent.join(&name);
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { name, path }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its last component, `dclab-PID-N`: unique on this machine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A directory in it, made if it is not there.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// A file in it with this content.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// XXH3 of a file's content, read through the page cache.
pub fn checksum(file: &Path) -> u64 {
    let mut file = fs::File::open(file).unwrap();
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => return hash.digest(),
            n => hash.update(&buffer[..n]),
        }
    }
}

pub(super) fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed))
}

/// Whether the name is one of ours whose process is gone.
pub(super) fn is_stale(name: &str) -> bool {
    let mut parts = name.split('-');
    let ours = parts.next() == Some(PREFIX);
    let pid = parts.next().and_then(|pid| pid.parse::<u32>().ok());
    ours && pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

/// Removes stale directories below `parent` with `rmdir`, as cgroups and trace instances want it.
pub(super) fn sweep_bare(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_stale) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_stale) {
            remove(&entry.path());
        }
    }
}

/// Mounts thaw and go first, then loop devices over files in it, then the files. Where a mount stays, so do the files: what is
/// below it is not ours to delete.
fn remove(path: &Path) {
    for mount in mounts_below(path).iter().rev() {
        let _ = try_run("fsfreeze", &["--unfreeze".as_ref(), mount.as_os_str()]);
        let _ = try_run("umount", &["-l".as_ref(), mount.as_os_str()]);
    }
    if mounts_below(path).is_empty() {
        super::loops::detach_below(path);
        let _ = fs::remove_dir_all(path);
    }
}

fn base() -> PathBuf {
    let named =
        ["DISKCANARY_TESTS_DIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    named
        .chain([PathBuf::from("/var/tmp")])
        .find(|dir| is_on_disk(dir))
        .unwrap_or_else(|| panic!("no scratch directory on a real disk: set DISKCANARY_TESTS_DIR to one"))
}

fn is_on_disk(dir: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    rustix::fs::statfs(dir).is_ok_and(|stat| ![TMPFS, RAMFS].contains(&stat.f_type))
}
