use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::io::{EngineKind, Inflight};
use crate::probe::{CommitSample, Failure, Finding, Outcome, Stage, State};
use crate::record::{Book, EngineChoice, Facts, Plan, ProbePlan, TargetId};
use crate::sys::Errno;

fn at(seconds: u64) -> Tick {
    Tick::from_nanos(1_000_000_000 * (1000 + seconds))
}

fn add(book: &mut Book, name: &str) -> TargetId {
    let probes = vec![ProbePlan { probe: Probe::Commit, interval: Duration::from_secs(2), operations: 3 }];
    let id = book.add_target(Plan {
        probes,
        ..Plan::new(name, format!("/srv/{name}"), Arc::new(Inflight::default()))
    });
    book.set_state(id, State::Ready);
    let engine = Some(EngineChoice { kind: EngineKind::Uring, reason: String::new() });
    let text = String::from;
    let facts = Facts {
        device: text("nvme0n1p1"),
        model: text("Fast & Co"),
        fstype: text("ext4"),
        engine,
        ..Facts::default()
    };
    book.set_facts(id, facts);
    id
}

fn run(book: &mut Book, id: TargetId, findings: Vec<Finding>, result: Result<(), Failure>) {
    for second in 0..120 {
        let mut outcome = Outcome::begin(Probe::Commit, at(second), at(second));
        let sample =
            |phase, nanos| CommitSample { phase, write: 20_000, sync: Some(nanos), commit: nanos + 21_000 };
        outcome.commits = vec![sample(Phase::First, 677_000), sample(Phase::Warm, 163_000 + second * 500)];
        outcome.finished = at(second);
        outcome.findings = findings.clone();
        outcome.result = result.clone();
        book.enter(id, &outcome, at(second), Duration::from_secs(second));
    }
}

fn bad_night() -> String {
    let mut book = Book::new();
    let good = add(&mut book, "pgdata");
    run(&mut book, good, vec![], Ok(()));
    let doubtful = add(&mut book, "wal");
    let evidence = "mounted with barrier=0: no flush reached the disk in 3 commits".into();
    run(
        &mut book,
        doubtful,
        vec![Finding { fault: Fault::Unflushed, verdict: Verdict::Holds, evidence }],
        Ok(()),
    );
    let down = add(&mut book, "<script>alert(1)</script>");
    let message = "fdatasync of /srv/x failed; look at the kernel's log for the disk".into();
    run(&mut book, down, vec![], Err(Failure { stage: Stage::Sync, errno: Errno::EIO, message }));
    add(&mut book, "new");
    let snapshot = book.snapshot(at(120));
    snapshot.targets[2].inflight().begin(Op::Sync, at(98));
    status(&snapshot, at(120))
}

#[test]
fn what_is_wrong_stands_first_and_in_words() {
    let page = bad_night();
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not in {page}"));
    assert!(place("<h2>&lt;script&gt;") < place("<h2>wal</h2>"));
    assert!(place("<h2>wal</h2>") < place("<h2>new</h2>"));
    assert!(place("<h2>new</h2>") < place("<h2>pgdata</h2>"));
    place("1 down · 1 not to be trusted · 1 no result yet · 1 up");
    place("<b>sync</b> not back for 22.0 s: stalled");
    place("<b>commit failed</b> (EIO): fdatasync of /srv/x failed");
    place("<b>commit: unflushed</b>: mounted with barrier=0");
    place("<td class=\"main\">698 µs</td>");
    place("Fast &amp; Co");
}

#[test]
fn it_is_one_piece_and_well_formed() {
    let page = bad_night();
    assert!(
        !page.contains("<script")
            && !page.contains("http://")
            && !page.contains("https://")
            && !page.contains("url(")
    );
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1).map(|rest| rest.split(['>', ' ']).next().unwrap()) {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if ["!DOCTYPE", "meta"].contains(&tag) => {}
            None => open.push(tag),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(page.len() < 16 * 1024, "{}", page.len());
}

#[test]
fn without_targets_it_says_so() {
    assert!(status(&Snapshot::default(), at(0)).contains("no targets"));
}

#[test]
fn numbers_do_not_outlive_their_window() {
    let mut book = Book::new();
    let id = add(&mut book, "a");
    run(&mut book, id, vec![], Ok(()));
    let snapshot = book.snapshot(at(120));
    assert!(status(&snapshot, at(120)).contains("<table>"));
    assert!(status(&snapshot, at(720)).contains("no samples in this window"));
}

#[test]
fn a_sweep_has_a_line_that_says_how_it_went_and_when_the_next_is() {
    use crate::record::{Last, SweepView};
    use crate::schedule::sweep::Ending;
    let mut book = Book::new();
    let id = add(&mut book, "pgdata");
    run(&mut book, id, vec![], Ok(()));
    let page = |book: &mut Book| status(&book.snapshot(at(120)), at(120));
    assert!(!page(&mut book).contains("<b>sweep</b>"), "not where there is none");
    let wall = |minutes: u64| Duration::from_secs(1_796_054_400 + minutes * 60);
    let next = Some(wall(1440));
    book.set_sweeps(id, Some(SweepView { next, ..SweepView::default() }));
    assert!(page(&mut book).contains("<b>sweep</b> next 2026-12-01 16:00 UTC"), "{}", page(&mut book));
    let last = Some(Last { began: wall(0), ended: Some((wall(3), Ending::Guard)) });
    book.set_sweeps(id, Some(SweepView { next, last, ..SweepView::default() }));
    let said = page(&mut book);
    assert!(said.contains("last 2026-11-30 16:03 UTC stopped: others needed the disk · next"), "{said}");
    book.set_sweeps(
        id,
        Some(SweepView { next: Some(wall(0)), waiting: Some("queue_depth"), ..SweepView::default() }),
    );
    assert!(page(&mut book).contains("due since 2026-11-30 16:00 UTC, waits: queue depth"));
    book.set_sweeps(id, Some(SweepView { running: true, cells_left: 12, last, ..SweepView::default() }));
    assert!(page(&mut book).contains("under way, 12 cells to go"));
}
