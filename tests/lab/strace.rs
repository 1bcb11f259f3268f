//! What a process truly asks of the kernel, as `strace` sees it: of a command from its start, or of a living process.

use super::command::command;
use super::confine::dies_with_us;
use super::scratch::Scratch;
use super::wait::eventually;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// One system call that has returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The thread that made it.
    pub thread: u32,
    /// When it began: seconds since the epoch.
    pub began: f64,
    /// Its name: `openat`, `pwrite64`, `fdatasync`.
    pub name: String,
    /// Its arguments as strace prints them, descriptors with their paths: `7</data/wal>, "…"..., 8192, 0`.
    pub arguments: String,
    /// What it returned; -1 on an error.
    pub result: i64,
    /// The file of the descriptor that it returned.
    pub file: Option<String>,
    /// The error's name, such as `ENOSPC`.
    pub errno: Option<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// What strace writes about a command that was wrapped in it.
#[derive(Debug)]
pub struct StraceLog {
    log: PathBuf,
    _scratch: Scratch,
}

impl StraceLog {
    /// Changes the command so that it runs under strace from its start. The child's process id is the command's own:
    /// signals reach it, not strace, which ends with it.
    pub fn of(wrapped: &mut Command, calls: &str) -> Self {
        let (mut command, log, scratch) = strace(calls);
        command.arg("-D");
        wrap(&mut command, wrapped);
        *wrapped = command;
        Self { log, _scratch: scratch }
    }

    /// The calls seen so far, in the order of their ends.
    pub fn calls(&self) -> Vec<Call> {
        parse(&fs::read_to_string(&self.log).unwrap())
    }
}

/// A strace that is attached to a process.
#[derive(Debug)]
pub struct Strace {
    child: Child,
    log: PathBuf,
    scratch: Scratch,
}

impl Strace {
    /// Attaches to every thread of a living process. `calls` is what strace's `-e trace=` takes: `openat,%desc`.
    pub fn attach(pid: u32, calls: &str) -> Self {
        let (mut command, log, scratch) = strace(calls);
        command.args(["-p", &pid.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        dies_with_us(&mut command);
        let child = command.spawn().unwrap();
        eventually("strace is attached", || threads(pid).iter().all(|status| is_traced(status)));
        Self { child, log, scratch }
    }

    /// Detaches and returns the calls that were seen, in the order of their ends.
    pub fn stop(mut self) -> Vec<Call> {
        self.detach();
        parse(&fs::read_to_string(&self.log).unwrap())
    }

    /// Runs the command under strace to its end: the calls, and what it printed.
    pub fn of(program: &Command, calls: &str) -> (Vec<Call>, std::process::Output) {
        let (mut command, log, _scratch) = strace(calls);
        wrap(&mut command, program);
        let output = command.output().unwrap();
        (parse(&fs::read_to_string(&log).unwrap_or_default()), output)
    }

    fn detach(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        self.detach();
    }
}

fn strace(calls: &str) -> (Command, PathBuf, Scratch) {
    let scratch = Scratch::new();
    let log = scratch.path().join("strace.log");
    let mut command = command("strace");
    command.args(["-f", "-q", "-ttt", "-T", "-y", "-s", "64", "-e", "signal=none"]);
    command.arg("-e").arg(format!("trace={calls}")).arg("-o").arg(&log);
    (command, log, scratch)
}

fn wrap(strace: &mut Command, program: &Command) {
    strace.arg("--").arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    if let Some(directory) = program.get_current_dir() {
        strace.current_dir(directory);
    }
}

fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()).collect()
}

fn is_traced(status: &str) -> bool {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|pid| pid.trim() != "0")
}

fn parse(text: &str) -> Vec<Call> {
    let mut open: HashMap<(u32, String), (f64, String)> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((thread, began, rest)) = split_head(line) else { continue };
        if let Some(half) = rest.strip_suffix(" <unfinished ...>") {
            if let Some((name, arguments)) = half.split_once('(') {
                open.insert((thread, name.to_owned()), (began, arguments.to_owned()));
            }
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((name, tail)) = resumed.split_once(" resumed>") else { continue };
            let Some((began, head)) = open.remove(&(thread, name.to_owned())) else { continue };
            calls.extend(finish(thread, began, name, &format!("{head}{tail}")));
        } else if let Some((name, tail)) = rest.split_once('(') {
            calls.extend(finish(thread, began, name, tail));
        }
    }
    calls
}

/// `PID SECONDS rest`
fn split_head(line: &str) -> Option<(u32, f64, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (began, rest) = rest.trim_start().split_once(' ')?;
    Some((thread.parse().ok()?, began.parse().ok()?, rest.trim_start()))
}

/// `ARGUMENTS) = RESULT ERRNO (text) <SECONDS>`
fn finish(thread: u32, began: f64, name: &str, tail: &str) -> Option<Call> {
    let (arguments, outcome) = tail.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?.to_owned();
    let (outcome, seconds) = outcome.rsplit_once('<')?;
    let file = outcome.split_once('<').map(|(_, file)| file.trim_end().trim_end_matches('>').to_owned());
    let mut words = outcome.split_whitespace();
    let number = words.next()?.split('<').next()?;
    let result = match number.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    let errno = words.next().filter(|word| word.starts_with('E')).map(str::to_owned);
    let seconds = seconds.trim_end_matches('>').parse().ok()?;
    Some(Call { thread, began, name: name.to_owned(), arguments, result, file, errno, seconds })
}
