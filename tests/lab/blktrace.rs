//! The block layer's own account of a device: each request from issue to completion, read from a private trace
//! instance of the kernel.

use super::command::run;
use super::scratch::{Scratch, sweep_bare};
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::PathBuf;

/// One request that the device got and answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The kernel's letters: `R` read, `W` write, `F` flush (before W: pre-flush, after: FUA; `FF` alone: a flush
    /// by itself), `S` sync, `M` metadata, `A` read-ahead, `D` discard.
    pub flags: String,
    /// First sector, in units of 512 bytes; 0 for a flush.
    pub sector: u64,
    /// Length in units of 512 bytes; 0 for a flush.
    pub sectors: u64,
    /// When it went to the driver: nanoseconds of CLOCK_MONOTONIC, rounded to microseconds by the kernel.
    pub issued: u64,
    /// When the driver had it back: the same clock.
    pub completed: u64,
    /// The name of the task that issued it.
    pub command: String,
}

impl Request {
    /// Device time in nanoseconds.
    pub fn duration(&self) -> u64 {
        self.completed.saturating_sub(self.issued)
    }

    /// A flush of the device's cache that carries no data.
    pub fn is_flush(&self) -> bool {
        self.flags.starts_with('F') && self.sectors == 0
    }

    /// A read.
    pub fn is_read(&self) -> bool {
        self.flags.contains('R')
    }

    /// A write of data.
    pub fn is_write(&self) -> bool {
        self.flags.contains('W')
    }
}

/// A running trace of one device; ended and removed when dropped.
#[derive(Debug)]
pub struct BlockTrace {
    instance: PathBuf,
    mount: PathBuf,
    scratch: Scratch,
}

impl BlockTrace {
    /// Traces the device with this major and minor number from now on.
    pub fn start((major, minor): (u32, u32)) -> Self {
        let scratch = Scratch::new();
        let mount = scratch.dir("tracing");
        run("mount", &["-t", "tracefs", "tracefs", mount.to_str().unwrap()]);
        sweep_bare(&mount.join("instances"));
        let instance = mount.join("instances").join(scratch.name());
        fs::create_dir(&instance).unwrap();
        let trace = Self { instance, mount, scratch };
        trace.set("trace_clock", "mono");
        trace.set("buffer_size_kb", "8192");
        for event in ["block_rq_issue", "block_rq_complete"] {
            trace.set(&format!("events/block/{event}/filter"), &format!("dev == {}", (major << 20) | minor));
            trace.set(&format!("events/block/{event}/enable"), "1");
        }
        trace
    }

    /// Every request that was issued and completed since the start or the last call, in the order of issue. Panics if
    /// the kernel's buffer ran over: a trace with holes proves nothing.
    pub fn take(&self) -> Vec<Request> {
        self.set("tracing_on", "0");
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        let lost = self.lost();
        self.set("trace", "");
        self.set("tracing_on", "1");
        assert_eq!(lost, 0, "the trace buffer ran over");
        parse(&text)
    }

    fn lost(&self) -> u64 {
        let mut lost = 0;
        for entry in fs::read_dir(self.instance.join("per_cpu")).unwrap() {
            let stats = fs::read_to_string(entry.unwrap().path().join("stats")).unwrap();
            let counts = stats.lines().filter_map(|line| line.split_once(": "));
            lost += counts
                .filter(|(name, _)| ["overrun", "dropped events"].contains(name))
                .map(|(_, n)| n.trim().parse::<u64>().unwrap())
                .sum::<u64>();
        }
        lost
    }

    fn set(&self, file: &str, value: &str) {
        let path = self.instance.join(file);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{}: `{value}`: {error}", path.display()));
    }
}

impl Drop for BlockTrace {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.instance);
        let _ = super::command::try_run("umount", &[&self.mount]);
    }
}

/// A request is known again by its letters and place; a flush, whose place is no place, by being one.
type Key = (String, u64, u64);

fn parse(text: &str) -> Vec<Request> {
    let mut issued: HashMap<Key, VecDeque<Request>> = HashMap::new();
    let mut requests = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(event) = Event::parse(line) else { continue };
        let key = (event.flags.clone(), event.sector, event.sectors);
        if event.is_issue {
            issued.entry(key).or_default().push_back(event.into_request());
        } else if let Some(mut request) = issued.get_mut(&key).and_then(VecDeque::pop_front) {
            request.completed = event.at;
            requests.push(request);
        }
    }
    requests.sort_by_key(|request| request.issued);
    requests
}

struct Event {
    is_issue: bool,
    at: u64,
    flags: String,
    sector: u64,
    sectors: u64,
    command: String,
}

impl Event {
    /// `TASK-PID [CPU] ..... SECONDS.MICROS: block_rq_issue: MAJ,MIN FLAGS BYTES () SECTOR + SECTORS PRIO [COMM]`
    fn parse(line: &str) -> Option<Self> {
        let (head, rest, is_issue) = match line.split_once(": block_rq_issue: ") {
            Some((head, rest)) => (head, rest, true),
            None => line.split_once(": block_rq_complete: ").map(|(head, rest)| (head, rest, false))?,
        };
        let (seconds, micros) = head.rsplit(' ').next()?.split_once('.')?;
        let at = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000;
        let flags = rest.split(' ').nth(1)?.to_owned();
        let (_, place) = rest.split_once(") ")?;
        let words: Vec<&str> = place.split(' ').collect();
        let sectors = words.get(2)?.parse().ok()?;
        let sector = if sectors == 0 { 0 } else { words.first()?.parse().ok()? };
        let command = place.split_once('[')?.1.trim_end_matches(']').to_owned();
        Some(Self { is_issue, at, flags, sector, sectors, command })
    }

    fn into_request(self) -> Request {
        let Self { at, flags, sector, sectors, command, .. } = self;
        Request { flags, sector, sectors, issued: at, completed: at, command }
    }
}
