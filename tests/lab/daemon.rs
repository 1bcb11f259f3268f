//! Servers under test: the real `diskcanary run`, with its own state directory and port, and any other program that
//! answers `/-/healthy`.

use super::confine::dies_with_us;
use super::http::{Response, get};
use super::metrics::Metrics;
use super::scratch::Scratch;
use super::wait::eventually_within;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// `diskcanary run` before its start.
#[derive(Debug)]
pub struct Daemon {
    command: Command,
    scratch: Scratch,
    port: u16,
}

impl Daemon {
    /// With no config file: it makes its one target in a state directory of its own, and listens on a free port of
    /// loopback.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let program = public_copy(&scratch);
        Self::of(Command::new(program), scratch)
    }

    /// The same, with what starts the program in its place: a copy elsewhere, or another program that is given its arguments.
    pub fn started_by(command: Command) -> Self {
        Self::of(command, Scratch::new())
    }

    fn of(mut command: Command, scratch: Scratch) -> Self {
        let port = free_port();
        let state = scratch.dir("state");
        // Whoever the daemon is going to run as owns neither; both are open.
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        command.arg("run").arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.env("STATE_DIRECTORY", state).env_remove("RUST_LOG").current_dir(scratch.path());
        Self { command, scratch, port }
    }

    /// With this config file.
    #[must_use]
    pub fn config(mut self, yaml: &str) -> Self {
        let file = self.scratch.file("diskcanary.yaml", yaml);
        self.command.arg(format!("--config.file={}", file.display()));
        self
    }

    /// With a further argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    /// With the command changed at will: `daemon.with(|c| { lab::deny_io_uring(c, libc::EPERM); })`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    /// The state directory that it is given.
    pub fn state(&self) -> PathBuf {
        self.scratch.path().join("state")
    }

    /// Starts it and waits until it answers.
    pub fn start(self) -> Running {
        Running::start(self.command, self.scratch, self.port)
    }
}

impl Default for Daemon {
    fn default() -> Self {
        Self::new()
    }
}

/// A server that runs; killed by its id when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    scratch: Scratch,
}

impl Running {
    /// Starts the command, which is to listen on this port of loopback, and waits until `/-/healthy` answers 200.
    /// Panics with its standard error if it ends instead.
    pub fn start(mut command: Command, scratch: Scratch, port: u16) -> Self {
        let log = scratch.path().join("stderr.log");
        let file = fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        dies_with_us(&mut command);
        let child = spawn(&mut command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut server = Self { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), log, scratch };
        eventually_within(Duration::from_secs(60), "the server answers /-/healthy", || {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("{command:?} ended with {status}:\n{}", server.stderr());
            }
            get(server.address, "/-/healthy").is_ok_and(|response| response.status == 200)
        });
        server
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it wrote to standard error and output so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its own scratch directory (with `state/` in it).
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Any page. Panics if it does not answer.
    pub fn get(&self, path: &str) -> Response {
        get(self.address, path).unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.stderr()))
    }

    /// `/metrics`, read. Panics if it does not answer 200 with the text format.
    pub fn scrape(&self) -> Metrics {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{}", response.text());
        Metrics::parse(&response.text()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end for so long; none if it still runs.
    pub fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGTERM, then up to 30 s: how it ended, and all that it wrote. Panics if it does not end.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let status = self.ended_within(Duration::from_secs(30));
        (
            status.unwrap_or_else(|| panic!("still there 30 s after SIGTERM:\n{}", self.stderr())),
            self.stderr(),
        )
    }
}

impl Drop for Running {
    /// A stopped process is let go on, or the kill would wait. One that the kernel holds (a frozen disk) ends when its
    /// disk does, so nobody waits for it here.
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
            let _ = self.ended_within(Duration::from_secs(5));
        }
    }
}

/// A port of loopback that nobody listens on, below the range that outgoing connections take theirs from.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 10_000) as u16;
    for _ in 0..10_000 {
        let port = 20_000 + (first + NEXT.fetch_add(1, Relaxed)) % 10_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between 20000 and 30000");
}

/// A fork in another thread may hold a fresh copy of the program open for writing until its own exec: `ETXTBSY` passes.
fn spawn(command: &mut Command) -> io::Result<Child> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match command.spawn() {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// The binary at a place that every user can reach (the build's own directory may be root's alone): a second name for it, or
/// a copy where that cannot be.
fn public_copy(scratch: &Scratch) -> PathBuf {
    let place = scratch.path().join("diskcanary");
    let program = env!("CARGO_BIN_EXE_diskcanary");
    fs::hard_link(program, &place).or_else(|_| fs::copy(program, &place).map(drop)).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    place
}
