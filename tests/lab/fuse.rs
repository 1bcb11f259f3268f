//! A FUSE file system that passes everything through to a directory, and is slow, wrong or stuck on demand.
//!
//! Every open is answered with direct I/O, so each read and write of a client arrives here, and nothing is cached.

mod serve;
mod server;
mod tally;
mod tree;

pub use server::{FuseServer, serve_if_asked};

use super::command::try_run;
use super::mounts::is_mounted;
use super::rules::{Count, Credits, Hang, Op, Pace, Rules};
use super::scratch::Scratch;
use serve::Disk;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;
pub use tally::Touched;
use tree::Tree;

/// A mounted disk with live controls; released, unmounted and removed when dropped.
#[derive(Debug)]
pub struct FuseDisk {
    path: PathBuf,
    backing: PathBuf,
    rules: Arc<Rules>,
    tally: Arc<Tally>,
    session: Option<fuser::BackgroundSession>,
    scratch: Scratch,
}

impl FuseDisk {
    /// A disk that is merely a directory, until told otherwise. Any user may use it, by the usual permissions.
    pub fn new() -> Self {
        Self::over(Scratch::new())
    }

    /// As [`Self::new`], its files in a directory of its own below this one.
    pub fn within(directory: &Path) -> Self {
        Self::over(Scratch::within(directory))
    }

    fn over(scratch: Scratch) -> Self {
        let (path, backing) = (scratch.dir("mnt"), scratch.dir("backing"));
        let (rules, tally) = (Arc::new(Rules::default()), Arc::<Tally>::default());
        let disk = Disk::new(Tree::new(&backing), Arc::clone(&rules), Arc::clone(&tally));
        let session = fuser::spawn_mount(disk, &path, &config(scratch.name())).expect("a FUSE mount");
        Self { path, backing, rules, tally, session: Some(session), scratch }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that truly holds the files: look and corrupt here, past the disk's rules.
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// Each operation of this kind takes at least this long.
    pub fn delay(&self, op: Op, delay: Duration) {
        self.rules.change(op, |rule| rule.delay = delay);
    }

    /// Each operation of this kind takes this long for every one of its kind that is inside, itself included.
    pub fn delay_by_depth(&self, op: Op, per_operation: Duration) {
        self.rules.change(op, |rule| rule.delay_per_inside = per_operation);
    }

    /// Each operation of this kind takes this much longer for every one of the `other` kind that is inside when it comes.
    pub fn delay_beside(&self, op: Op, other: Op, per_operation: Duration) {
        self.rules.change(op, |rule| rule.delay_beside = Some((other, per_operation)));
    }

    /// From now on it does so many reads and writes a second, one after the other.
    pub fn pace(&self, pace: Pace) {
        self.rules.pace(pace);
    }

    /// Reads and writes take burst credits from now on, of which there are as many as can be.
    pub fn limit(&self, credits: Credits) {
        self.rules.limit(credits);
    }

    /// A RAM cache that keeps what is read stands before a store that takes so long; both are for one file.
    pub fn cache(&self, store: Duration) {
        self.rules.cache(store);
    }

    /// Credits that are left, and the fewest that there ever were.
    pub fn credits(&self) -> Option<(f64, f64)> {
        self.rules.credits()
    }

    /// Each operation of this kind takes so much longer while one of the other kind is inside.
    pub fn delay_while(&self, op: Op, other: Op, delay: Duration) {
        self.rules.change(op, |rule| rule.delay_while = Some((other, delay)));
    }

    /// Every `every`-th operation of this kind fails with this errno (1: all of them).
    pub fn fail(&self, op: Op, errno: i32, every: u64) {
        self.rules.change(op, |rule| rule.error = Some((errno, every)));
    }

    /// Every `every`-th read or write serves at most this many bytes.
    pub fn shorten(&self, op: Op, bytes: usize, every: u64) {
        self.rules.change(op, |rule| rule.short = Some((bytes, every)));
    }

    /// No delay, no error, no short operation of this kind any more. What hangs goes on hanging.
    pub fn heal(&self, op: Op) {
        self.rules.change(op, |rule| {
            rule.delay = Duration::ZERO;
            rule.delay_per_inside = Duration::ZERO;
            rule.delay_while = None;
            rule.delay_beside = None;
            rule.error = None;
            rule.short = None;
        });
    }

    /// Operations of these kinds that arrive from now on are not answered until the result is dropped.
    #[must_use]
    pub fn hang(&self, ops: &[Op]) -> Hang {
        self.rules.hang(ops)
    }

    /// Everything that was answered on the data of files since the mount, by file and kind.
    pub fn touched(&self) -> Touched {
        Touched::new(self.tally.all(), &self.backing)
    }

    /// What arrived of this kind since the mount.
    pub fn count(&self, op: Op) -> Count {
        self.rules.count(op)
    }
}

/// Any user may use it, by the usual permissions.
fn config(name: &str) -> fuser::Config {
    let mut config = fuser::Config::default();
    config.mount_options =
        vec![fuser::MountOption::FSName(name.to_owned()), fuser::MountOption::DefaultPermissions];
    config.acl = fuser::SessionACL::All;
    config.n_threads = Some(2);
    config
}

impl Default for FuseDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FuseDisk {
    /// Gates open first: an unmount waits for what is inside. A disk still in use is taken from the name space and its connection cut:
    /// who has a file open there, be it this process, would wait at its end for an answer from a server that has gone.
    fn drop(&mut self) {
        for op in Op::ALL {
            self.heal(op);
        }
        self.rules.release(&Op::ALL);
        if is_mounted(&self.path) && try_run("umount", &[&self.path]).is_err() {
            let connection = fs::metadata(&self.path).map(|root| rustix::fs::minor(root.dev()));
            let _ = try_run("umount", &["-l".as_ref(), self.path.as_os_str()]);
            if let Ok(number) = connection {
                let _ = fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
            }
            return;
        }
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
    }
}
