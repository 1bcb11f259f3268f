//! A log that nobody reads stops nothing, and what it lost is said.

use crate::lab::{Daemon, Running, eventually_within};
use crate::targets::{COMMITS, config};
use rustix::process::Signal;
use std::io::{PipeReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A daemon whose standard error is a pipe of one page.
pub(crate) fn with_piped_log(daemon: Daemon) -> (Running, PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let fd = writer.as_raw_fd();
    // SAFETY: only the size of an open pipe is set.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, 4096) }, 4096);
    let daemon = daemon.with(|command| {
        // SAFETY: `dup2` is async-signal-safe, and `writer` is open until after the start.
        unsafe {
            command.pre_exec(move || match libc::dup2(fd, 2) {
                2 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    });
    (daemon.start(), reader)
}

/// Connections that speak no HTTP: at level debug each is a line.
fn noise(daemon: &Running, connections: usize) {
    for _ in 0..connections {
        let mut stream = TcpStream::connect(daemon.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(b"\x16\x03\x01 no HTTP\r\n\r\n").unwrap();
        // The answer, and the end: the line is logged just after.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

fn dropped(daemon: &Running) -> f64 {
    daemon.scrape().value("diskcanary_log_lines_dropped_total", &[]).unwrap()
}

#[test]
fn a_log_that_nobody_reads_stops_nothing_and_says_later_what_it_lost() {
    let paths: Vec<String> = (0..64).map(|n| format!("/nonexistent/disk-{n}")).collect();
    let targets: Vec<_> = paths.iter().map(|path| (path.as_str(), Path::new(path), COMMITS)).collect();
    let (mut daemon, mut log) =
        with_piped_log(Daemon::new().config(&config(&targets)).argument("--log.level=debug"));
    eventually_within(Duration::from_secs(60), "lines are dropped", || {
        noise(&daemon, 200);
        dropped(&daemon) > 0.0
    });
    for path in ["/metrics", "/-/ready", "/-/healthy", "/"] {
        let began = Instant::now();
        let response = daemon.get(path);
        assert!(began.elapsed() < Duration::from_secs(1), "{path}: {:?}", began.elapsed());
        assert!(response.status == 200 || path == "/-/ready", "{path}: {}", response.status);
    }
    let before = dropped(&daemon);
    noise(&daemon, 10);
    eventually_within(Duration::from_secs(10), "ten more are dropped", || dropped(&daemon) >= before + 10.0);
    let lost = dropped(&daemon);

    let read = Arc::new(Mutex::new(Vec::new()));
    let reads = Arc::clone(&read);
    let reader = std::thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(n @ 1..) = log.read(&mut some) {
            reads.lock().unwrap().extend_from_slice(&some[..n]);
        }
    });
    let said = format!(" lines={lost}\n");
    eventually_within(Duration::from_secs(10), "the log says how many were dropped", || {
        let text = String::from_utf8(read.lock().unwrap().clone()).unwrap();
        text.contains("msg=\"log lines dropped") && text.contains(&said)
    });
    assert_eq!(dropped(&daemon), lost, "with a reader nothing more is lost");
    daemon.signal(Signal::TERM);
    assert!(daemon.ended_within(Duration::from_secs(15)).unwrap().success());
    reader.join().unwrap();
    let text = String::from_utf8(read.lock().unwrap().clone()).unwrap();
    assert!(text.ends_with("msg=\"ended; nothing was out\"\n"), "the last line was written: {text}");
    for line in text.lines() {
        assert!(line.starts_with("ts=20") && line.contains(" level=") && line.contains(" msg="), "{line}");
        assert_eq!(line.matches(" level=").count(), 1, "{line}");
    }
}

#[test]
fn the_end_does_not_wait_for_a_log_that_nobody_reads() {
    let (mut daemon, _log) = with_piped_log(Daemon::new().argument("--log.level=debug"));
    eventually_within(Duration::from_secs(60), "lines are dropped", || {
        noise(&daemon, 200);
        dropped(&daemon) > 0.0
    });
    daemon.signal(Signal::TERM);
    // At most 5 s for what is out, and 1 s for the log.
    assert!(daemon.ended_within(Duration::from_secs(10)).unwrap().success());
}

#[test]
fn a_daemon_that_stood_still_counts_it() {
    let daemon = Daemon::new().start();
    let stops = || daemon.scrape().value("diskcanary_prober_stops_total", &[]).unwrap();
    let before = stops();
    daemon.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(600));
    daemon.signal(Signal::CONT);
    eventually_within(Duration::from_secs(10), "the stop is counted", || stops() > before);
}
