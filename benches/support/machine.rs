//! What every run says first: of which source it is, and on which machine.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

/// The commit, with `+` where the source was changed since.
pub fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().expect("git is installed");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let changed = if git(&["status", "--porcelain", "src", "benches"]).is_empty() { "" } else { "+" };
    git(&["rev-parse", "--short=12", "HEAD"]) + changed
}

/// Now, as RFC 3339.
pub fn date() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Release of the kernel.
pub fn kernel() -> String {
    read("/proc/sys/kernel/osrelease").trim().to_owned()
}

/// Model of the CPU.
pub fn cpu() -> String {
    let cpuinfo = read("/proc/cpuinfo");
    let mut models = cpuinfo.lines().filter(|line| line.starts_with("model name"));
    models.next().and_then(|line| line.split_once(": ")).map_or("CPU", |(_, model)| model).to_owned()
}

/// How many of them.
pub fn cpus() -> usize {
    read("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count().max(1)
}

/// `release`, or `dev` where the compiler's checks were on.
pub fn build() -> String {
    if cfg!(debug_assertions) { "dev" } else { "release" }.to_owned()
}

/// How this process is scheduled, which its children inherit: field 41 of its `stat`.
pub fn policy() -> String {
    let stat = read("/proc/self/stat");
    let number = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(38)).unwrap();
    match number {
        "0" => "SCHED_OTHER".to_owned(),
        "1" => "SCHED_FIFO".to_owned(),
        "2" => "SCHED_RR".to_owned(),
        other => format!("policy {other}"),
    }
}

/// Processes that wanted to run, mean of the minute before.
pub fn load() -> f64 {
    read("/proc/loadavg").split(' ').next().unwrap().parse().unwrap()
}

/// A disk's interrupts come to one CPU; who waits on another one hears of them tens of microseconds later. So all turns of a
/// round are on one CPU, and each round is on the next.
pub fn cpu_of(round: u32) -> usize {
    round as usize % cpus()
}

/// Binds this thread, and the processes that it starts from here on, to one CPU.
pub fn bind(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap_or_else(|e| panic!("CPU {cpu}: {e}"));
}

/// How long each worker of the kernel has waited for a CPU since it began, in nanoseconds. A loop device does its work in them,
/// and they stand in the queue with everyone else.
pub struct Workers(HashMap<u32, u64>);

impl Workers {
    /// Now.
    pub fn look() -> Self {
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, Self::waited(pid)?))).collect())
    }

    /// How much all of them together have waited since.
    pub fn waited_since(&self) -> u64 {
        let before = |pid| self.0.get(pid).copied().unwrap_or(0);
        Self::look().0.iter().map(|(pid, waited)| waited.saturating_sub(before(pid))).sum()
    }

    /// None for what is no worker, and for one that has ended.
    fn waited(pid: u32) -> Option<u64> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        name.starts_with("kworker").then(|| stat.split(' ').nth(1)?.parse().ok()).flatten()
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
