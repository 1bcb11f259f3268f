//! Pauses: nothing at all is done with a paused target, everything else goes on, and each ends by itself, also after a restart.

use crate::lab::{
    Daemon, FileSystem, FuseDisk, Loop, Mounted, Need, Op, Running, Scratch, eventually, get, lacks, request,
    run, try_run,
};
use crate::targets::{BOTH, ROOM, await_runs, await_state, await_that, config, runs, skipped};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A name that has to be encoded on its way.
const NAME: &str = "pg \"daten\" ä&b";

fn diskcanary(daemon: &Running, args: &[&str]) -> Output {
    let url = format!("--url=http://{}", daemon.address());
    Command::new(env!("CARGO_BIN_EXE_diskcanary")).args(args).arg(url).output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned(),
    )
}

fn paused(daemon: &Running, target: &str) -> f64 {
    daemon.scrape().value("diskcanary_target_paused", &[("target", target)]).unwrap()
}

/// Everything that has arrived at the disk.
fn arrived(disk: &FuseDisk) -> u64 {
    Op::ALL.iter().map(|op| disk.count(*op).operations).sum()
}

/// A daemon that keeps its state here.
fn keeping(state: &Path, config: &str) -> Daemon {
    Daemon::new().config(config).with(|c| {
        c.env("STATE_DIRECTORY", state);
    })
}

#[test]
fn nothing_is_done_with_a_paused_target_and_others_go_on() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (disk, other) = (FuseDisk::new(), FuseDisk::new());
    let targets = [(NAME, disk.path(), BOTH), ("other", other.path(), BOTH)];
    let daemon = Daemon::new().config(&config(&targets)).start();
    for probe in ["commit", "read"] {
        await_runs(&daemon, NAME, probe, 2.0);
    }
    assert_eq!(paused(&daemon, NAME), 0.0);

    let (code, text) = said(&diskcanary(&daemon, &["pause", NAME, "--for", "30m"]));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(NAME) && text.contains("paused for 30m"), "{text}");
    std::thread::sleep(Duration::from_millis(500));
    let (before, at_disk) = (daemon.scrape(), arrived(&disk));
    await_runs(&daemon, "other", "commit", 8.0);
    let during = daemon.scrape();
    assert_eq!(arrived(&disk), at_disk, "something was done with the disk");
    for probe in ["commit", "read"] {
        assert_eq!(runs(&during, NAME, probe), runs(&before, NAME, probe));
        let more = skipped(&during, NAME, probe, "paused") - skipped(&before, NAME, probe, "paused");
        assert!(more >= 2.0, "{probe}: {more} slots skipped");
        assert_eq!(skipped(&during, "other", probe, "paused"), 0.0);
    }
    let one = |name: &str| during.value(&format!("diskcanary_{name}"), &[("target", NAME)]);
    assert_eq!((one("target_paused"), one("target_up")), (Some(1.0), Some(1.0)));
    let page = daemon.get("/").text();
    assert!(page.contains("1 paused · 1 up") && page.contains("goes on by itself in 29 min"), "{page}");
    assert_eq!(daemon.get("/-/ready").status, 200);

    let (code, text) = said(&diskcanary(&daemon, &["resume", NAME]));
    assert_eq!(code, Some(0), "{text}");
    for probe in ["commit", "read"] {
        await_runs(&daemon, NAME, probe, 2.0);
    }
    assert_eq!(paused(&daemon, NAME), 0.0);
    refusals(&daemon);
}

/// What is not right is said, and does nothing.
fn refusals(daemon: &Running) {
    let (code, text) = said(&diskcanary(daemon, &["pause", "nobody"]));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no target `nobody`; there are") && text.contains("`other`"), "{text}");
    let (code, text) = said(&diskcanary(daemon, &["pause", "other", "--for", "8d"]));
    assert!(code == Some(2) && text.contains("from 1s to 7days"), "{text}");
    let path = "/api/v1/pause?target=other";
    assert_eq!(get(daemon.address(), path).unwrap().status, 405);
    let page = [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")];
    assert_eq!(request("POST", daemon.address(), path, &page, b"").unwrap().status, 403);
    assert_eq!(paused(daemon, "other"), 0.0);
}

#[test]
fn a_pause_ends_by_itself() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let daemon = Daemon::new().config(&config(&[("a", disk.path(), BOTH)])).start();
    await_runs(&daemon, "a", "commit", 2.0);
    let asked = Instant::now();
    assert_eq!(
        request("POST", daemon.address(), "/api/v1/pause?target=a&for=3s", &[], b"").unwrap().status,
        200
    );
    assert_eq!(paused(&daemon, "a"), 1.0);
    await_that(&daemon, "the pause is over", |m| {
        m.value("diskcanary_target_paused", &[("target", "a")]) == Some(0.0)
    });
    assert!(asked.elapsed() >= Duration::from_secs(3));
    await_runs(&daemon, "a", "commit", 2.0);
    assert!(daemon.stderr().contains("target goes on after its pause"), "{}", daemon.stderr());
}

#[test]
fn a_pause_outlives_a_restart_and_a_crash() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (disk, state) = (FuseDisk::new(), Scratch::new());
    let config = config(&[("a", disk.path(), BOTH)]);
    let daemon = keeping(state.path(), &config).start();
    await_runs(&daemon, "a", "commit", 2.0);
    let (code, text) = said(&diskcanary(&daemon, &["pause", "a"]));
    assert_eq!(code, Some(0), "{text}");
    // At once: what the state thread had no time for is written at the end.
    assert_eq!(daemon.stop().0.code(), Some(0));

    // The config beside it is not asked for by the daemon, but by whoever checks it.
    let file = state.file("checked.yml", &config);
    let check = Command::new(env!("CARGO_BIN_EXE_diskcanary"))
        .args(["check".as_ref(), file.as_os_str()])
        .env("STATE_DIRECTORY", state.path())
        .output()
        .unwrap();
    let (code, text) = said(&check);
    let left = ["59m", "1h more"].map(|left| format!("note: target `a`: paused for {left}"));
    assert!(code == Some(0) && left.iter().any(|left| text.contains(left)), "{text}");

    let at_disk = arrived(&disk);
    let daemon = keeping(state.path(), &config).start();
    await_that(&daemon, "slots pass", |m| skipped(m, "a", "commit", "paused") >= 3.0);
    assert_eq!((paused(&daemon, "a"), arrived(&disk)), (1.0, at_disk), "not even a look");
    assert_eq!(daemon.get("/-/ready").status, 200);
    assert_eq!(said(&diskcanary(&daemon, &["resume", "a"])).0, Some(0));
    await_runs(&daemon, "a", "commit", 2.0);
    assert_eq!(said(&diskcanary(&daemon, &["pause", "a", "--for", "2h"])).0, Some(0));
    await_that(&daemon, "the state is on the disk", |m| {
        m.value("diskcanary_state_unsaved_seconds", &[]) == Some(0.0)
    });
    // As a crash does it: by SIGKILL.
    drop(daemon);

    let daemon = keeping(state.path(), &config).start();
    assert_eq!(paused(&daemon, "a"), 1.0);
    let page = daemon.get("/").text();
    let left = ["in 2 h 0 min", "in 119 min"];
    assert!(left.iter().any(|left| page.contains(&format!("goes on by itself {left}"))), "{page}");
    assert_eq!(said(&diskcanary(&daemon, &["resume", "a"])).0, Some(0));
    await_runs(&daemon, "a", "read", 2.0);
}

#[test]
fn a_pause_outlives_a_reload() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let (disk, other) = (FuseDisk::new(), FuseDisk::new());
    let with = |keys: &str| config(&[("a", disk.path(), keys), ("other", other.path(), BOTH)]);
    let daemon = Daemon::new().config(&with(BOTH)).start();
    await_runs(&daemon, "a", "read", 2.0);
    assert_eq!(said(&diskcanary(&daemon, &["pause", "a"])).0, Some(0));
    std::thread::sleep(Duration::from_millis(500));
    let at_disk = arrived(&disk);
    let reload = |config: &str, times: usize| {
        std::fs::write(daemon.directory().join("diskcanary.yaml"), config).unwrap();
        daemon.signal(rustix::process::Signal::HUP);
        crate::lab::eventually("it is reloaded", || {
            daemon.stderr().matches("the config is reloaded").count() == times
        });
    };
    reload(&with(&BOTH.replace("200ms", "250ms")), 1);
    await_runs(&daemon, "other", "commit", 4.0);
    assert_eq!((paused(&daemon, "a"), arrived(&disk)), (1.0, at_disk), "another interval");
    reload(&with(&BOTH.replace("commit: {", "commit: {profile: postgres, ")), 2);
    await_runs(&daemon, "other", "commit", 4.0);
    assert_eq!((paused(&daemon, "a"), arrived(&disk)), (1.0, at_disk), "another profile");
    reload(&config(&[("other", other.path(), BOTH)]), 3);
    reload(&with(BOTH), 4);
    await_runs(&daemon, "other", "commit", 4.0);
    assert_eq!((paused(&daemon, "a"), arrived(&disk)), (1.0, at_disk), "taken away and put back");
    assert_eq!(said(&diskcanary(&daemon, &["resume", "a"])).0, Some(0));
    await_runs(&daemon, "a", "commit", 2.0);
    await_runs(&daemon, "a", "read", 2.0);
}

#[test]
fn a_layout_stops_for_a_pause_and_is_taken_up_again() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    disk.delay(Op::Write, Duration::from_millis(20));
    let daemon = Daemon::new().config(&config(&[("a", disk.path(), BOTH)])).start();
    let progress = |m: &crate::lab::Metrics| {
        m.value("diskcanary_layout_progress_ratio", &[("target", "a")]).unwrap_or(0.0)
    };
    await_that(&daemon, "the read file is being laid out", |m| progress(m) > 0.1);
    assert_eq!(said(&diskcanary(&daemon, &["pause", "a"])).0, Some(0));
    // The slice that is out is finished.
    std::thread::sleep(Duration::from_secs(1));
    let (before, at_disk) = (progress(&daemon.scrape()), arrived(&disk));
    std::thread::sleep(Duration::from_secs(2));
    let seen = daemon.scrape();
    assert_eq!((progress(&seen), arrived(&disk)), (before, at_disk));
    assert!(before < 1.0, "it was done before it could be paused");
    assert!(skipped(&seen, "a", "read", "paused") >= 2.0);
    disk.heal(Op::Write);
    assert_eq!(said(&diskcanary(&daemon, &["resume", "a"])).0, Some(0));
    await_runs(&daemon, "a", "read", 2.0);
    assert_eq!(progress(&daemon.scrape()), 1.0);
}

#[test]
fn a_paused_disk_can_be_unmounted_and_goes_on_when_it_is_back() {
    if lacks(&[Need::Root, Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = Mounted::on(FileSystem::Ext4, Loop::new(ROOM), &[], "");
    let daemon = Daemon::new().config(&config(&[("a", disk.path(), BOTH)])).start();
    let both_run = || ["commit", "read"].iter().for_each(|probe| await_runs(&daemon, "a", probe, 2.0));
    let unmount = || {
        assert_eq!(said(&diskcanary(&daemon, &["pause", "a"])).0, Some(0));
        eventually("nothing is open there", || try_run("umount", &[disk.path()]).is_ok());
    };
    let mount = || drop(run("mount", &[disk.disk().device(), disk.path()]));
    let resume = || assert_eq!(said(&diskcanary(&daemon, &["resume", "a"])).0, Some(0));
    both_run();
    assert!(try_run("umount", &[disk.path()]).is_err(), "without a pause it is in use");
    unmount();
    mount();
    resume();
    both_run();
    let errors = daemon.scrape().sum("diskcanary_probe_errors_total", &[("target", "a")]);
    assert_eq!(errors, 0.0, "nothing ran before all was open again: {}", daemon.stderr());

    unmount();
    resume();
    await_state(&daemon, "a", "gone");
    mount();
    both_run();
}
