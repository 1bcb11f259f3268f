//! Running the system's programs: the output, or a panic that says which command failed and how.

use super::confine::as_user;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program's path, looked for in `PATH` and in the directories that root's programs live in.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// A command for the program, found also where only root's `PATH` has it.
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let name = program.as_ref();
    let path = name.to_str().and_then(find).unwrap_or_else(|| PathBuf::from(name));
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    command
}

/// Runs the program to its end: its standard output, trimmed, or what it said on standard error.
pub fn try_run<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> Result<String, String> {
    let mut command = command(program);
    command.args(arguments);
    finish(command)
}

/// As [`try_run`], but a failure fails the test.
pub fn run<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> String {
    try_run(program, arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// As [`run`], as another user of the system.
pub fn run_as<S: AsRef<OsStr>>(user: &str, program: impl AsRef<OsStr>, arguments: &[S]) -> String {
    let mut command = command(program);
    command.args(arguments).current_dir("/");
    as_user(&mut command, user);
    finish(command).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs it to its end, as [`try_run`] does.
pub(super) fn finish(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{command:?}: {}: {complaint} {said}", output.status))
}

/// Runs the command to its end, or kills it when its time is over and panics.
pub fn output_within(patience: Duration, mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let readers = [
        child.stdout.take().map(|pipe| drain(Box::new(pipe))),
        child.stderr.take().map(|pipe| drain(Box::new(pipe))),
    ];
    let deadline = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?}: not done within {patience:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let [stdout, stderr] = readers.map(|reader| reader.unwrap().join().unwrap());
    Output { status, stdout, stderr }
}

fn drain(mut pipe: Box<dyn std::io::Read + Send>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}
