//! The first minute: from nothing to commit and read latencies, seen from outside.

use crate::lab::{
    Chromium, Daemon, FileSystem, FuseDisk, Loop, Mounted, Need, Op, Scratch, lacks, promtool_check_metrics,
    run,
};
use crate::watch::{PATIENCE, Seen, all_measured, seen_when, small_ext4, target};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const EXT4: &[Need] = &[Need::Root, Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("filefrag")];

#[test]
fn without_a_config_file_the_state_directory_is_made_and_its_disk_measured() {
    if lacks(EXT4) {
        return;
    }
    let disk = Mounted::on(FileSystem::Ext4, Loop::new(4 << 30), &["-J", "size=16"], "");
    let state = disk.path().join("var/state");
    let free = free_bytes(disk.path());
    let daemon = Daemon::new().with(|c| _ = c.env("STATE_DIRECTORY", &state)).start();
    let began = Instant::now();
    assert!(state.is_dir());
    assert_eq!(daemon.get("/-/healthy").status, 200);
    let first = all_measured(&daemon, &["default"], &["commit", "write", "sync"]);
    assert!(began.elapsed() < Duration::from_secs(60), "commits did not move within seconds");
    assert_eq!(daemon.get("/-/ready").status, 200);
    seen_when(&daemon, "commits go on", |seen| {
        seen.samples("default", "commit") > first.samples("default", "commit")
    });

    let seen = all_measured(&daemon, &["default"], &["read"]);
    assert!(seen.is_in("default", "ready"));
    assert_eq!(seen.up("default"), Some(1.0));
    assert_eq!(seen.fault("default", "read", "unwritten"), Some(false));
    assert_eq!(seen.fault("default", "read", "cached"), Some(false));
    assert_eq!(seen.fault("default", "read", "corruption"), Some(false));
    assert_eq!(names(disk.path()), ["lost+found", "var"]);
    assert_eq!(names(&disk.path().join("var")), ["state"]);
    assert_eq!(names(&state), [".diskcanary", "state.json", "state.lock"]);
    let home = state.join(".diskcanary");
    assert_eq!(names(&home), ["CACHEDIR.TAG", "commits", "lock", "reads"]);
    let tag = fs::read_to_string(home.join("CACHEDIR.TAG")).unwrap();
    assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"), "{tag}");

    let size = |name: &str| fs::metadata(home.join(name)).unwrap().len();
    assert_eq!(size("commits"), 64 << 20);
    // 1 GiB is wished; 5 % of what is free is less here.
    let (most, least) = (free / 20, (free - (80 << 20)) / 20);
    assert!((least..=most).contains(&size("reads")), "{} of {free} free", size("reads"));
    for name in ["commits", "reads"] {
        all_written(&home.join(name));
    }
    assert_eq!(daemon.stop().0.code(), Some(0));
    assert_eq!(names(&home), ["CACHEDIR.TAG", "commits", "lock", "reads"], "kept for the next start");
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn free_bytes(path: &Path) -> u64 {
    let space = rustix::fs::statvfs(path).unwrap();
    space.f_bavail * space.f_frsize
}

/// Blocks are there for every byte, and by the file system's own account none of them is allocated but unwritten.
fn all_written(file: &Path) {
    let metadata = fs::metadata(file).unwrap();
    assert!(metadata.blocks() * 512 >= metadata.len(), "{} has holes", file.display());
    let extents = run("filefrag", &["-v".as_ref(), file.as_os_str()]);
    assert!(extents.contains("extent") && !extents.contains("unwritten"), "{extents}");
}

#[test]
fn ready_says_why_not_until_the_first_files_are_written() {
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let hang = disk.hang(&[Op::Write]);
    let config = format!("targets:\n{}", target("vault", disk.path(), "100ms", "100ms"));
    let daemon = Daemon::new().config(&config).start();
    seen_when(&daemon, "our directory's first file hangs", |seen| seen.age("vault", "open") > 0.2);
    let answer = daemon.get("/-/ready");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("`vault`"), "{}", answer.text());
    assert_eq!(daemon.get("/-/healthy").status, 200);
    assert_eq!(Seen::of(&daemon).up("vault"), None, "no result yet");
    drop(hang);
    crate::lab::eventually_within(PATIENCE, "it is ready", || daemon.get("/-/ready").status == 200);
    all_measured(&daemon, &["vault"], &["commit", "read"]);
}

#[test]
fn the_page_and_the_metrics_of_a_living_daemon_are_in_order() {
    if lacks(EXT4) || lacks(&[Need::Tool("chromium"), Need::Tool("promtool")]) {
        return;
    }
    let (disk, scratch) = (small_ext4(), Scratch::new());
    let (gone, good) = (scratch.path().join("gone"), disk.path());
    let config = format!(
        "targets:\n{}{}",
        target("'orders <\"db\">'", good, "100ms", "100ms"),
        target("cellar", &gone, "1s", "1s")
    );
    let daemon = Daemon::new().config(&config).start();
    // A p99 is shown from 100 samples on.
    let seen = seen_when(&daemon, "200 samples", |seen| {
        let at = |op| seen.samples("orders <\"db\">", op) > 200.0;
        at("commit") && at("read") && seen.up("cellar") == Some(0.0)
    });
    promtool_check_metrics(&seen.0.text).unwrap();
    let documented = fs::read_to_string("docs/metrics.md").unwrap();
    for family in seen.0.kinds.keys() {
        assert!(documented.contains(&format!("| `{family}` |")), "{family} is not in docs/metrics.md");
        assert!(seen.0.help.contains_key(family), "{family} has no help");
    }
    let typed: BTreeSet<&str> = seen.0.kinds.keys().map(String::as_str).collect();
    for sample in &seen.0.samples {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| sample.name.strip_suffix(end));
        let known = typed.contains(sample.name.as_str()) || base.is_some_and(|base| typed.contains(base));
        assert!(known, "{} has no type", sample.name);
    }

    let browser = Chromium::new();
    let url = format!("http://{}/", daemon.address());
    let page = browser.dom(&url);
    for part in
        ["orders &lt;\"db\"&gt;", "cellar", "gone", "up", "down", "p50", "p99", "µs", "commit", "read"]
    {
        assert!(page.contains(part), "`{part}` is not on the page:\n{page}");
    }
    assert!(page.find("cellar") < page.find("orders"), "what is wrong stands first");
    let row = page.split("<tr>").find(|row| row.contains("commit") && row.contains("warm")).expect("a row");
    let main: Vec<&str> = row.split("<td class=\"main\">").skip(1).collect();
    assert!(main.len() == 2 && !main.iter().any(|cell| cell.starts_with('–')), "p50 and p99: {row}");
    let picture = scratch.path().join("page.png");
    browser.screenshot(&url, (1100, 700), &picture);
    assert!(fs::metadata(&picture).unwrap().len() > 5_000);
    // For whoever wants to look at them.
    if let Some(keep) = std::env::var_os("DISKCANARY_TESTS_KEEP") {
        fs::copy(&picture, Path::new(&keep).join("page.png")).unwrap();
        fs::write(Path::new(&keep).join("page.html"), page).unwrap();
    }
}
