//! Watches a running daemon commit: its system calls, the flags of its open files, and the requests of each disk.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use diskcanary::probe::{Layout, Profile};

use super::raw::{Requests, Seen};
use crate::lab::{self, BlockTrace, Call, Mounted, Request, Running, Strace};

/// A config that commits with a profile of its own on each disk, and does nothing else.
pub fn config(disks: &[(Profile, Mounted)], more: &str) -> String {
    let target = |(profile, disk): &(Profile, Mounted)| {
        format!(
            "  - name: {profile}\n    path: {}\n    commit: {{profile: {profile}{more}}}\n    read: {{enabled: false}}\n",
            disk.path().display()
        )
    };
    format!("targets:\n{}", disks.iter().map(target).collect::<String>())
}

/// Waits until all targets commit.
pub fn ready(daemon: &Running, targets: usize) {
    lab::eventually_within(Duration::from_secs(120), "all targets are ready", || {
        daemon.scrape().sum("diskcanary_target_state", &[("state", "ready")]) >= targets as f64
    });
}

/// Looks on until each target has made this many good runs.
pub fn observe(daemon: &Running, file_system: &str, disks: &[(Profile, Mounted)], runs: f64) -> Vec<Seen> {
    let traces: Vec<BlockTrace> =
        disks.iter().map(|(_, disk)| BlockTrace::start(disk.disk().number())).collect();
    let good = |profile: &Profile| {
        let labels = [("target", profile.label()), ("result", "ok")];
        daemon.scrape().sum("diskcanary_probe_runs_total", &labels)
    };
    let strace = Strace::attach(daemon.pid(), "pwrite64,fdatasync,fsync");
    let before: Vec<f64> = disks.iter().map(|(profile, _)| good(profile)).collect();
    lab::eventually_within(Duration::from_secs(120), "each profile has run", || {
        disks.iter().zip(&before).all(|((profile, _), before)| good(profile) >= before + runs)
    });
    let calls = strace.stop();
    let ahead = wall_ahead_of_monotonic();
    let one = |((profile, disk), trace): (&(Profile, Mounted), BlockTrace)| {
        let file = format!("{}/.diskcanary/commits", disk.path().display());
        let handle = format!("<{file}>");
        let calls: Vec<&Call> = calls.iter().filter(|call| call.arguments.contains(&handle)).collect();
        let flags = open_flags(daemon.pid(), &file);
        let seen = of_calls(*profile, &calls);
        let (from, to) = span(&calls, ahead);
        Seen {
            file_system: file_system.to_owned(),
            direct: flags & libc::O_DIRECT != 0,
            // O_SYNC holds O_DSYNC's bit and one more, and makes metadata durable too.
            dsync: flags & libc::O_SYNC == libc::O_DSYNC,
            full_sync: flags & libc::O_SYNC == libc::O_SYNC,
            requests: kinds(trace.take().iter().filter(|r| (from..=to).contains(&r.issued))),
            ..seen
        }
    };
    disks.iter().zip(traces).map(one).collect()
}

/// What the calls of one file say. They come from one thread, in their order.
fn of_calls(profile: Profile, calls: &[&Call]) -> Seen {
    let row = profile.row();
    let writes: Vec<(u64, u64)> = calls.iter().filter(|c| c.name == "pwrite64").map(|c| place(c)).collect();
    let mut sizes: Vec<u64> = writes.iter().map(|(len, _)| *len).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let follows = |pair: &&[(u64, u64)]| {
        let end = pair[0].0 + pair[0].1;
        pair[1].1 == end.next_multiple_of(u64::from(row.alignment))
    };
    let mut syncs: Vec<&str> = calls
        .windows(2)
        .filter(|pair| pair[0].name == "pwrite64")
        .map(|pair| if pair[1].name == "pwrite64" { "none" } else { pair[1].name.as_str() })
        .collect();
    syncs.sort_unstable();
    syncs.dedup();
    Seen {
        file_system: String::new(),
        profile: profile.label().to_owned(),
        direct: false,
        dsync: false,
        full_sync: false,
        sync: syncs.join("+"),
        commits: writes.len() as u64,
        sizes,
        multiple_of: writes.iter().fold(0, |all, (_, offset)| common_divisor(all, *offset)),
        follow: writes.windows(2).filter(follows).count() as u64,
        requests: Vec::new(),
    }
}

/// Length and offset: the last two arguments of a `pwrite64`.
fn place(call: &Call) -> (u64, u64) {
    let mut from_end = call.arguments.rsplitn(3, ", ").map(|word| word.parse().unwrap_or(u64::MAX));
    let (offset, len) = (from_end.next().unwrap(), from_end.next().unwrap());
    assert_eq!(call.result, len as i64, "a write that was taken whole: {call:?}");
    (len, offset)
}

/// How many writes may not follow: those of a layout that goes anywhere, and the wraps of one that appends.
pub fn appends(profile: Profile) -> bool {
    matches!(profile.row().layout, Layout::AppendWrapping { .. })
}

/// From the first write to the end of the last call, on the monotonic clock. A write whose sync is not in the list is the last
/// call: its own end is taken.
fn span(calls: &[&Call], ahead: f64) -> (u64, u64) {
    let nanos = |seconds: f64| ((seconds - ahead) * 1e9) as u64;
    let (first, last) = (calls.first().expect("calls were seen"), calls[calls.len() - 1]);
    // strace and the block trace both give whole microseconds.
    (nanos(first.began) - 2_000, nanos(last.began + last.seconds) + 2_000)
}

fn kinds<'a>(requests: impl Iterator<Item = &'a Request>) -> Vec<Requests> {
    let mut counts: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for request in requests {
        *counts.entry((request.flags.clone(), request.sectors * 512)).or_default() += 1;
    }
    counts.into_iter().map(|((flags, bytes), count)| Requests { flags, bytes, count }).collect()
}

/// The flags of the file that is open under this name, as the kernel has them.
fn open_flags(pid: u32, file: &str) -> i32 {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let fd = open
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.to_str() == Some(file)))
        .map(|entry| entry.file_name().into_string().unwrap())
        .next()
        .unwrap_or_else(|| panic!("{file} is open"));
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap()
}

fn wall_ahead_of_monotonic() -> f64 {
    let at = |clock| {
        let time = rustix::time::clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    at(rustix::time::ClockId::Realtime) - at(rustix::time::ClockId::Monotonic)
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
