//! Beside a database: its own directory stays clean, its backup works, and where there is no place beside it we say so.

use crate::lab::{self, Daemon, FileSystem, Mounted, Need, Postgres};
use crate::targets::{BOTH, COMMITS, ROOM, assert_sound, await_runs, await_state, config, reason, state};
use std::fs;
use std::path::Path;

/// Whether anything of ours lies at or below a directory.
fn holds_ours(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().map(Result::unwrap).any(|entry| {
        entry.file_name() == ".diskcanary" || entry.file_type().unwrap().is_dir() && holds_ours(&entry.path())
    })
}

fn marked_root(mark: &str) -> Mounted {
    let disk = Mounted::new(FileSystem::Ext4, 256 << 20);
    fs::write(disk.path().join(mark), "15\n").unwrap();
    disk
}

#[test]
fn a_base_backup_while_we_probe_succeeds_and_holds_nothing_of_ours() {
    if lab::lacks(&[Need::Root, Need::Postgres, Need::Tool("mkfs.ext4")]) {
        return;
    }
    let (data_disk, wal_disk) = (Mounted::new(FileSystem::Ext4, ROOM), Mounted::new(FileSystem::Ext4, ROOM));
    let (pgdata_root, kafka_root) = (marked_root("PG_VERSION"), marked_root("meta.properties"));
    let inside_kafka = kafka_root.path().join("topic-0");
    fs::create_dir(&inside_kafka).unwrap();
    let postgres = Postgres::with_wal(data_disk.path(), Some(wal_disk.path()));
    let pg_wal = postgres.data().join("pg_wal");
    assert!(fs::symlink_metadata(&pg_wal).unwrap().is_symlink());

    let targets = [
        ("data", postgres.data(), BOTH),
        ("wal", pg_wal.as_path(), COMMITS),
        ("pgdata_root", pgdata_root.path(), COMMITS),
        ("kafka_root", kafka_root.path(), COMMITS),
        ("inside_kafka", inside_kafka.as_path(), COMMITS),
    ];
    let daemon = Daemon::new().config(&config(&targets)).start();
    for target in ["data", "wal"] {
        await_runs(&daemon, target, "commit", 2.0);
    }
    for (target, whose) in [("pgdata_root", "PostgreSQL"), ("kafka_root", "Kafka"), ("inside_kafka", "Kafka")]
    {
        await_state(&daemon, target, "unsupported");
        let line = reason(&daemon, target, "unsupported");
        assert!(line.contains(whose) && line.contains("probe_dir"), "{line}");
    }
    assert!(data_disk.path().join(".diskcanary/commits").exists(), "above PGDATA, on its mount");
    assert!(wal_disk.path().join(".diskcanary/commits").exists(), "above the real pg_wal, on its mount");
    let log = daemon.stderr();
    assert!(log.contains(&format!("our files go to {}", wal_disk.path().display())), "{log}");

    let commits = crate::targets::runs(&daemon.scrape(), "data", "commit");
    postgres.psql("create table t as select generate_series(1, 100000) as n");
    let backup = postgres.base_backup();
    assert!(backup.join("PG_VERSION").exists() && !holds_ours(&backup));
    await_runs(&daemon, "data", "commit", 1.0);
    assert!(crate::targets::runs(&daemon.scrape(), "data", "commit") > commits, "we probed meanwhile");
    await_runs(&daemon, "data", "read", 1.0);
    for clean in [postgres.data(), &wal_disk.path().join("wal"), kafka_root.path(), pgdata_root.path()] {
        assert!(!holds_ours(clean), "{}", clean.display());
    }
    assert_eq!(state(&daemon.scrape(), "data").as_deref(), Some("ready"));
    assert_eq!(postgres.psql("select count(*) from t"), "100000");
    assert_sound(&daemon);
}

#[test]
fn check_refuses_a_database_at_the_root_of_its_mount() {
    if lab::lacks(&[Need::Root, Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disks = [marked_root("PG_VERSION"), marked_root("meta.properties")];
    let scratch = lab::Scratch::new();
    for disk in &disks {
        let file = scratch.file("diskcanary.yaml", config(&[("a", disk.path(), COMMITS)]));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_diskcanary"));
        command.arg("check").arg(file);
        let output = lab::output_within(std::time::Duration::from_secs(30), command);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("probe_dir") && !holds_ours(disk.path()), "{said}");
    }
}
