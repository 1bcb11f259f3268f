//! The pass-through disk served by a process of its own, which can be stopped whole, killed, and started again.

use super::super::command::try_run;
use super::super::confine::dies_with_us;
use super::super::mounts::is_mounted;
use super::super::scratch::Scratch;
use super::super::wait::eventually;
use super::serve::Disk;
use super::tree::Tree;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Tells a copy of the test program that it is to serve: mount point and directory, one a line.
const ASKED: &str = "DISKCANARY_TESTS_SERVE_FUSE";

/// A mounted disk whose server is another process; gone when dropped.
#[derive(Debug)]
pub struct FuseServer {
    path: PathBuf,
    backing: PathBuf,
    test: &'static str,
    child: Child,
    scratch: Scratch,
}

impl FuseServer {
    /// Served by a copy of this program, which runs the one test of this name: its first line is [`serve_if_asked`].
    pub fn within(directory: &Path, test: &'static str) -> Self {
        let scratch = Scratch::within(directory);
        let (path, backing) = (scratch.dir("mnt"), scratch.dir("backing"));
        let child = start(&path, &backing, test);
        Self { path, backing, test, child, scratch }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SIGSTOP: from here on nothing is answered.
    pub fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    /// SIGCONT: all goes on.
    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// SIGKILL: the mount stays and answers `ENOTCONN`.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A dead server's mount is taken away, and the same files are mounted there anew.
    pub fn start_again(&mut self) {
        let _ = try_run("umount", &["-l".as_ref(), self.path.as_os_str()]);
        self.child = start(&self.path, &self.backing, self.test);
    }
}

impl Drop for FuseServer {
    fn drop(&mut self) {
        self.kill();
        let _ = try_run("umount", &["-l".as_ref(), self.path.as_os_str()]);
    }
}

fn start(path: &Path, backing: &Path, test: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ASKED, format!("{}\n{}", path.display(), backing.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    dies_with_us(&mut command);
    let child = command.spawn().unwrap();
    eventually("the server has mounted", || is_mounted(path));
    child
}

/// Serves until it is killed, when this process was started for that; else returns at once.
pub fn serve_if_asked() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    let (path, backing) = asked.split_once('\n').unwrap();
    let disk = Disk::new(Tree::new(Path::new(backing)), Arc::default(), Arc::default());
    let session = fuser::spawn_mount(disk, path, &super::config("served")).expect("a FUSE mount");
    session.join().unwrap();
}
