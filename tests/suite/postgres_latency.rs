//! The daemon beside a database: when the disk under `pg_wal` becomes slow, our commits say so by as much as the database's own.

use std::time::Duration;

use crate::lab::{Daemon, FuseDisk, Histogram, Need, Op, Postgres, Running, Scratch, lacks};
use crate::targets::{await_runs, config};

const COMMITS: &str = "commit: {profile: postgres, interval: 100ms, file_size: 4MiB}, read: {enabled: false}";
const DELAY: Duration = Duration::from_millis(20);

#[test]
fn our_commits_rise_by_what_the_transactions_of_postgresql_rise() {
    if lacks(&[Need::Root, Need::Fuse, Need::Postgres]) {
        return;
    }
    let (data, wal) = (Scratch::new(), FuseDisk::new());
    let postgres = Postgres::with_wal(data.path(), Some(wal.path()));
    postgres.prepare_for_pgbench();
    postgres.pgbench_latency(1);
    let daemon = Daemon::new().config(&config(&[("wal", wal.path(), COMMITS)])).start();
    await_runs(&daemon, "wal", "commit", 1.0);

    let still = means(&daemon, &postgres);
    wal.delay(Op::Sync, DELAY);
    // No run that began before the change reaches into what follows.
    await_runs(&daemon, "wal", "commit", 2.0);
    let late = means(&daemon, &postgres);

    let (ours, theirs) = (late.0 - still.0, late.1 - still.1);
    let what = format!("ours {ours} s, theirs {theirs} s; {still:?}, then {late:?}");
    assert!(ours >= 0.015 && theirs >= 0.015, "{what}");
    assert!((ours - theirs).abs() < 0.25 * ours.max(theirs), "{what}");
}

/// Means of our commits and of the transactions of pgbench over the same seconds.
fn means(daemon: &Running, postgres: &Postgres) -> (f64, f64) {
    let before = commits(daemon);
    let (theirs, _) = postgres.pgbench_latency(4);
    let ours = commits(daemon).since(&before);
    assert!(ours.count >= 10.0, "{ours:?}");
    (ours.sum / ours.count, theirs.as_secs_f64())
}

fn commits(daemon: &Running) -> Histogram {
    daemon.scrape().histogram("diskcanary_commit_duration_seconds", &[("target", "wal")]).unwrap()
}
