//! A private PostgreSQL cluster on whatever disk a test gives it, without any network.

use super::command::{run_as, try_run};
use super::confine::{as_user, dies_with_us, user_ids};
use super::scratch::Scratch;
use super::wait::eventually_within;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const USER: &str = "postgres";

/// A running server, owned by the user `postgres`; stopped when dropped.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    programs: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
    scratch: Scratch,
}

impl Postgres {
    /// Makes a cluster in `PARENT/data` (the parent exists and other users may pass through it) and starts it.
    pub fn in_directory(parent: &Path) -> Self {
        Self::with_wal(parent, None)
    }

    /// As [`Self::in_directory`], with `pg_wal` a link to a directory `wal` made in `wal_parent`.
    pub fn with_wal(parent: &Path, wal_parent: Option<&Path>) -> Self {
        let programs = programs().expect("PostgreSQL's server programs");
        let scratch = Scratch::new();
        let (data, sockets) = (parent.join("data"), scratch.dir("sockets"));
        let wal = wal_parent.map(|parent| parent.join("wal"));
        for directory in [Some(&data), Some(&sockets), wal.as_ref()].into_iter().flatten() {
            give(directory);
        }
        let mut arguments =
            vec!["--no-sync".to_owned(), "--auth=trust".into(), format!("--pgdata={}", data.display())];
        arguments.extend(wal.map(|wal| format!("--waldir={}", wal.display())));
        run_as(USER, programs.join("initdb"), &arguments);
        let child = serve(&programs, &data, &sockets, &scratch);
        let mut server = Self { child, programs, data, sockets, scratch };
        eventually_within(Duration::from_secs(60), "PostgreSQL takes connections", || {
            assert!(server.is_alive(), "the server ended: {}", server.log());
            try_run(server.programs.join("pg_isready"), &["-q", "-h", server.sockets.to_str().unwrap()])
                .is_ok()
        });
        server
    }

    /// PGDATA.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The directory of its socket, for `-h`.
    pub fn host(&self) -> &Path {
        &self.sockets
    }

    /// What the server logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("server.log")).unwrap_or_default()
    }

    /// Runs SQL and returns bare rows.
    pub fn psql(&self, sql: &str) -> String {
        self.client("psql", &["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", sql])
    }

    /// Runs pgbench with these arguments over the database `postgres`; what it printed.
    pub fn pgbench(&self, arguments: &[&str]) -> String {
        self.client("pgbench", &[arguments, &["postgres"]].concat())
    }

    /// Makes pgbench's tables, and keeps what would disturb its latency out of its runs: checkpoints and autovacuum.
    pub fn prepare_for_pgbench(&self) {
        for setting in ["checkpoint_timeout = '1h'", "max_wal_size = '8GB'", "autovacuum = off"] {
            self.psql(&format!("ALTER SYSTEM SET {setting}"));
        }
        self.psql("SELECT pg_reload_conf()");
        self.pgbench(&["-i", "-q"]);
    }

    /// pgbench's simple update (`-N`), which commits once, from one client over so many seconds: the mean latency of its
    /// transactions, and how many they were.
    pub fn pgbench_latency(&self, seconds: u64) -> (Duration, u64) {
        let told = self.pgbench(&["-n", "-N", "-c", "1", "-T", &seconds.to_string()]);
        let mean = Duration::from_secs_f64(number(&told, "latency average = ") / 1e3);
        (mean, number(&told, "number of transactions actually processed: ") as u64)
    }

    /// As [`Self::pgbench_latency`], with a rest before each transaction, so that there are so many in a second: the mean
    /// latency from the moment that one was sent.
    pub fn pgbench_rested_latency(&self, seconds: u64, rate: u64) -> Duration {
        let [seconds, rate] = [seconds, rate].map(|n| n.to_string());
        let told = self.pgbench(&["-n", "-N", "-c", "1", "-R", &rate, "-T", &seconds]);
        let late = number(&told, "rate limit schedule lag: avg ");
        Duration::from_secs_f64((number(&told, "latency average = ") - late) / 1e3)
    }

    /// Takes a base backup into a fresh directory and returns it. Panics with its own words if it fails.
    pub fn base_backup(&self) -> PathBuf {
        let into = self.scratch.dir("backup");
        give(&into);
        self.client(
            "pg_basebackup",
            &["-D", into.to_str().unwrap(), "-X", "fetch", "-c", "fast", "--no-sync"],
        );
        into
    }

    fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    fn client(&self, program: &str, arguments: &[&str]) -> String {
        let host = ["-h", self.sockets.to_str().unwrap()];
        run_as(USER, self.programs.join(program), &[&host, arguments].concat())
    }
}

impl Drop for Postgres {
    /// SIGQUIT is PostgreSQL's immediate shutdown: it ends its own children and writes nothing.
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        if self.is_alive() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        let _ = self.child.wait();
    }
}

/// The path of one of PostgreSQL's own programs. Panics if it is not installed.
pub fn postgres_program(name: &str) -> PathBuf {
    programs().expect("PostgreSQL's server programs").join(name)
}

/// The directory of the newest server that Debian installed.
pub(super) fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let newest = versions.max_by_key(|v| v.file_name().to_str().and_then(|v| v.parse::<u32>().ok()))?;
    let programs = newest.path().join("bin");
    programs.join("initdb").exists().then_some(programs)
}

/// The server as our own child, so that it cannot outlive us.
fn serve(programs: &Path, data: &Path, sockets: &Path, scratch: &Scratch) -> Child {
    let log = fs::File::create(scratch.path().join("server.log")).unwrap();
    let mut command = Command::new(programs.join("postgres"));
    command.arg("-D").arg(data).arg("-c").arg(format!("unix_socket_directories={}", sockets.display()));
    command.args(["-c", "listen_addresses="]).current_dir("/");
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    as_user(&mut command, USER);
    dies_with_us(&mut command);
    command.spawn().unwrap()
}

/// The number behind these words, with which a line begins.
fn number(told: &str, words: &str) -> f64 {
    let rest = told.lines().find_map(|line| line.strip_prefix(words)?.split(' ').next());
    rest.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no `{words}` in {told}"))
}

fn give(directory: &Path) {
    let (uid, gid) = user_ids(USER).expect("the user `postgres`");
    fs::create_dir_all(directory).unwrap();
    std::os::unix::fs::chown(directory, Some(uid), Some(gid)).unwrap();
}
