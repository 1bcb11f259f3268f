//! The state directory on every kind of bad day: it is said and counted, and nothing else happens.

use crate::lab::{
    Daemon, FileSystem, FuseDisk, Loop, Mounted, Need, Op, Running, Scratch, eventually, full, lacks,
    output_within, request,
};
use crate::targets::{BOTH, COMMITS, await_runs, await_that, config};
use diskcanary::clock;
use diskcanary::persist::{self, State};
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

const NEEDS: &[Need] = &[Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("fsfreeze")];
const PATIENCE: Duration = Duration::from_secs(20);

fn small() -> Mounted {
    Mounted::on(FileSystem::Ext4, Loop::new(64 << 20), &[], "")
}

/// Too large for the few blocks that a full disk still gives.
fn paused(name: &str) -> State {
    let budgets = [("disk".to_owned(), "x".repeat(1 << 18).into())].into();
    State { pauses: [(name.to_owned(), 1 << 40)].into(), budgets, ..State::default() }
}

/// Opens the state in this directory; what it held, and the count of failed writes.
fn open(disk: &Mounted) -> (State, persist::Handle, Arc<AtomicU32>) {
    let failures = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&failures);
    let (state, handle) = persist::open(disk.path().join("state"), move || {
        count.fetch_add(1, SeqCst);
    });
    (state, handle, failures)
}

#[test]
fn a_full_and_a_read_only_disk_keep_the_state_of_before_and_nothing_else() {
    if lacks(NEEDS) {
        return;
    }
    let disk = small();
    let (_, handle, failures) = open(&disk);
    handle.save(paused("first"), clock::now());
    assert!(handle.flush(PATIENCE));
    for trouble in ["full", "read-only"] {
        match trouble {
            "full" => disk.fill(),
            _ => disk.remount("ro"),
        }
        let before = failures.load(SeqCst);
        handle.save(paused(trouble), clock::now());
        assert!(!handle.flush(PATIENCE), "{trouble}: it was written");
        assert!(failures.load(SeqCst) > before && !handle.unsaved(clock::now()).is_zero());
        let names = fs::read_dir(disk.path().join("state")).unwrap().count();
        assert_eq!(names, 2, "{trouble}: half a state is left");
        match trouble {
            "full" => disk.free(),
            _ => disk.remount("rw"),
        }
        assert!(handle.flush(PATIENCE), "{trouble}: it is written when it can be");
        let written = fs::read_to_string(disk.path().join("state/state.json")).unwrap();
        assert!(written.contains(trouble), "{} bytes", written.len());
    }
}

#[test]
fn a_frozen_disk_costs_one_waiting_state_and_nobody_waits() {
    if lacks(NEEDS) {
        return;
    }
    let disk = small();
    let (_, handle, failures) = open(&disk);
    handle.save(paused("first"), clock::now());
    assert!(handle.flush(PATIENCE));
    let ice = disk.freeze();
    let begun = Instant::now();
    for n in 0..1000 {
        handle.save(paused(&n.to_string()), clock::now());
    }
    assert!(!handle.flush(Duration::from_millis(500)));
    assert!(begun.elapsed() < Duration::from_secs(10), "handing over waited: {:?}", begun.elapsed());
    eventually("its age grows", || handle.unsaved(clock::now()) > Duration::from_secs(1));
    // A daemon that starts on the frozen disk reads what is there.
    let (found, ..) = open(&disk);
    assert!(found == paused("first"), "{:?}", found.pauses);
    drop(ice);
    assert!(handle.flush(PATIENCE));
    assert!(open(&disk).0 == paused("999") && failures.load(SeqCst) == 0);
}

#[test]
fn scrapes_go_on_while_config_log_and_state_are_frozen() {
    if lacks(NEEDS) || lacks(&[Need::Fuse]) {
        return;
    }
    let (frozen, good) = (small(), FuseDisk::new());
    let (state, log) = (frozen.path().join("state"), frozen.path().join("log"));
    let file = frozen.path().join("diskcanary.yml");
    fs::write(&file, config(&[("good", good.path(), COMMITS)])).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 2>>\"$LOG\"", env!("CARGO_BIN_EXE_diskcanary")]);
    let daemon = Daemon::started_by(shell)
        .argument(&format!("--config.file={}", file.display()))
        .with(|c| {
            c.env("LOG", &log).env("STATE_DIRECTORY", &state);
        })
        .start();
    await_runs(&daemon, "good", "commit", 2.0);
    eventually("the state is there", || state.join("state.json").exists());

    let ice = frozen.freeze();
    let (begun, long) = (Instant::now(), Duration::from_secs(if full() { 600 } else { 8 }));
    let post = |what: &str| {
        let path = format!("/api/v1/{what}?target=good");
        assert_eq!(request("POST", daemon.address(), &path, &[], b"").unwrap().status, 200);
    };
    while begun.elapsed() < long {
        // Lines for the log, and changes of the state.
        post("resume");
        let asked = Instant::now();
        let seen = daemon.scrape();
        assert!(asked.elapsed() < Duration::from_secs(1), "a scrape took {:?}", asked.elapsed());
        assert_eq!(seen.value("diskcanary_target_up", &[("target", "good")]), Some(1.0));
        post("pause");
        std::thread::sleep(Duration::from_millis(200));
    }
    let unsaved = daemon.scrape().value("diskcanary_state_unsaved_seconds", &[]).unwrap();
    assert!(unsaved > long.as_secs_f64() - 3.0, "{unsaved}");
    drop(ice);
    await_that(&daemon, "the state is on the disk", |m| {
        m.value("diskcanary_state_unsaved_seconds", &[]) == Some(0.0)
    });
    assert!(fs::read_to_string(state.join("state.json")).unwrap().contains("\"pauses\":{\"good\":"));
    eventually("the log is written", || fs::read_to_string(&log).unwrap().contains("target paused"));
    post("resume");
    await_runs(&daemon, "good", "commit", 2.0);
}

#[test]
fn a_state_that_comes_late_holds_all_the_same() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (disk, slow) = (FuseDisk::new(), FuseDisk::new());
    let start = || {
        let targets = config(&[("a", disk.path(), COMMITS)]);
        let daemon = Daemon::new().config(&targets).with(|c| {
            c.env("STATE_DIRECTORY", slow.path());
        });
        daemon.start()
    };
    let daemon = start();
    await_runs(&daemon, "a", "commit", 2.0);
    let path = "/api/v1/pause?target=a&for=2h";
    assert_eq!(request("POST", daemon.address(), path, &[], b"").unwrap().status, 200);
    assert_eq!(daemon.stop().0.code(), Some(0));
    let kept = || fs::read_to_string(slow.backing().join("state.json")).unwrap();
    let before = kept();
    assert!(before.contains("\"pauses\":{\"a\":"), "{before}");

    slow.delay(Op::Open, Duration::from_secs(6));
    let daemon = start();
    await_runs(&daemon, "a", "commit", 1.0);
    assert_eq!(kept(), before, "it is not written over by who does not know it");
    await_that(&daemon, "it is paused as before", |m| {
        m.value("diskcanary_target_paused", &[("target", "a")]) == Some(1.0)
    });
    assert!(daemon.stderr().contains("did not answer in time"), "{}", daemon.stderr());
    slow.heal(Op::Open);
    await_that(&daemon, "the state is on the disk", |m| {
        m.value("diskcanary_state_unsaved_seconds", &[]) == Some(0.0)
    });
    assert!(kept().contains("\"pauses\":{\"a\":"), "{}", kept());
}

#[test]
fn a_state_directory_that_cannot_be_is_said_once_and_the_daemon_runs() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (disk, scratch) = (FuseDisk::new(), Scratch::new());
    let state = scratch.file("state", "a file is in the way");
    let daemon = Daemon::new()
        .config(&config(&[("a", disk.path(), COMMITS)]))
        .with(|c| {
            c.env("STATE_DIRECTORY", &state);
        })
        .start();
    await_runs(&daemon, "a", "commit", 2.0);
    await_that(&daemon, "a failed write is counted", |m| {
        m.sum("diskcanary_state_save_errors_total", &[]) >= 1.0
    });
    let log = daemon.stderr();
    assert!(log.contains("the state of before cannot be had") && log.contains("ENOTDIR"), "{log}");
    assert_eq!(log.matches("the state is not kept").count(), 1, "{log}");
}

#[test]
fn probe_files_that_are_gone_are_a_new_or_wiped_disk() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (disk, state) = (FuseDisk::new(), Scratch::new());
    let config = config(&[("local", disk.path(), BOTH)]);
    let start = || {
        let daemon = Daemon::new()
            .config(&config)
            .with(|c| {
                c.env("STATE_DIRECTORY", state.path());
            })
            .start();
        for probe in ["commit", "read"] {
            await_runs(&daemon, "local", probe, 1.0);
        }
        let lost = daemon.scrape().value("diskcanary_probe_files_lost_total", &[("target", "local")]);
        assert_eq!(daemon.stop().0.code(), Some(0));
        lost.unwrap()
    };
    assert_eq!(start(), 0.0, "the first time nothing was there");
    assert_eq!(start(), 0.0, "they are as they were");
    fs::remove_dir_all(disk.backing().join(".diskcanary")).unwrap();
    assert_eq!(start(), 1.0, "as after a stop of a machine with a local disk");
    assert_eq!(start(), 0.0, "and known again");
    let commits = disk.backing().join(".diskcanary/commits");
    let foreign = FuseDisk::new();
    let daemon = Daemon::new().config(&crate::targets::config(&[("x", foreign.path(), COMMITS)])).start();
    await_runs(&daemon, "x", "commit", 1.0);
    daemon.stop();
    fs::copy(foreign.backing().join(".diskcanary/commits"), commits).unwrap();
    assert_eq!(start(), 1.0, "as after another volume was attached in its place");
}

#[test]
fn a_sweep_is_there_after_its_state_was_damaged() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (disk, state, scratch) = (FuseDisk::new(), Scratch::new(), Scratch::new());
    let mut sweep = Command::new(env!("CARGO_BIN_EXE_diskcanary"));
    sweep.arg("sweep").arg(disk.path());
    sweep.args([
        "--pattern=randread",
        "--depth=1",
        "--seconds=1",
        "--warm-up=100ms",
        "--file-size=64MiB",
        "--json=-",
    ]);
    let output = output_within(PATIENCE, sweep);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // As a daemon before left it, with a state that nobody can read.
    let text = serde_json::json!({ "ended": 1_800_000_000.0, "sweep": found }).to_string();
    let sweeps = [("a".to_owned(), Some(Arc::from(text)))].into();
    let (_, handle) = persist::open(scratch.path().to_owned(), || panic!("a write failed"));
    handle.save(State { sweeps, ..State::default() }, clock::now());
    assert!(handle.flush(PATIENCE));
    let kept = |at: &Scratch| {
        let names = fs::read_dir(at.path()).unwrap().map(|entry| entry.unwrap().path());
        names.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("sweep-"))
    };
    let file = kept(&scratch).unwrap();
    fs::copy(&file, state.path().join(file.file_name().unwrap())).unwrap();
    state.file("state.json", "{\"version\":9}");
    let keys = format!("{BOTH}, sweep: {{schedule: \"0 0 29 2 *\"}}");
    let config = config(&[("a", disk.path(), &keys)]);
    let shows = |daemon: &Running| {
        await_that(daemon, "the sweep of before is shown", |m| {
            m.value("diskcanary_sweep_last_completion_timestamp_seconds", &[("target", "a")]) == Some(1.8e9)
        });
    };
    for start in 0..2 {
        let daemon = Daemon::new().config(&config).with(|c| {
            c.env("STATE_DIRECTORY", state.path());
        });
        let daemon = daemon.start();
        shows(&daemon);
        await_that(&daemon, "the state is on the disk", |m| {
            m.value("diskcanary_state_unsaved_seconds", &[]) == Some(0.0)
                && fs::read_to_string(state.path().join("state.json"))
                    .is_ok_and(|text| text.contains(".diskcanary"))
        });
        assert_eq!(daemon.stderr().contains("it is set aside"), start == 0, "{}", daemon.stderr());
        assert!(kept(&state).is_some(), "the sweep has a file of its own");
        daemon.stop();
    }
}
