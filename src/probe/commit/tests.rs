//! Each profile on the file system of the temporary directory: sizes, places and costs as its row says.

use super::*;
use crate::clock;
use crate::probe::Cost;
use crate::probe::layout::{Layout as Laying, Progress, Wish};
use crate::probe::profile::Profile;
use crate::units::Bytes;

fn laid(folder: &std::path::Path) -> (Home, Head) {
    let home = Home::open(&folder.canonicalize().unwrap(), &Inflight::default(), Tick::default()).unwrap();
    let wish = Wish { size: Bytes::mib(4), reserve: Some(Bytes::new(0)) };
    let mut laying =
        Laying::begin(&home, Role::Commits, wish, fastrand::Rng::with_seed(3), &mut Cost::default()).unwrap();
    let head = match laying.step(&home, Tick::default(), &Inflight::default(), &mut Cost::default()).unwrap()
    {
        Progress::Done(head, _) => head,
        Progress::Going(..) => panic!("4 MiB are one slice"),
    };
    (home, head)
}

#[test]
fn every_profile_commits_and_costs_what_its_row_says() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (home, head) = laid(folder.path());
    let heart = Heartbeat::new(clock::now());
    for profile in Profile::ALL {
        let row = profile.row();
        let random = fastrand::Rng::with_seed(9);
        let mut probe =
            CommitProbe::open(&home, head, row, None, COMMITS, random, &mut Cost::default()).unwrap();
        let inflight = Inflight::default();
        heart.beat(clock::now());
        let outcome = probe.run(clock::now(), clock::now(), &inflight, &heart);
        assert_eq!(outcome.result, Ok(()), "{profile}");
        let seen = outcome.commits.len() as u64 + outcome.invalid.iter().map(|(_, n)| n).sum::<u64>();
        assert_eq!(seen, 3, "{profile}");
        assert_eq!(outcome.cost.written_bytes, 3 * u64::from(row.block_size), "{profile}");
        let syncs = if row.method == Method::ODsync { 0 } else { 3 };
        assert_eq!(outcome.cost.syncs, syncs, "{profile}");
        for sample in &outcome.commits {
            assert!(sample.commit >= sample.write + sample.sync.unwrap_or(0));
            assert_eq!(sample.sync.is_some(), syncs == 3);
        }
        assert_eq!(home.dir().open_file("commits", Direct::No).unwrap().stat().unwrap().size, head.size);
    }
}

#[test]
fn appends_follow_each_other_and_wrap_without_touching_the_head() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let mut probe =
        CommitProbe::open(&home, head, Profile::Etcd.row(), None, 1, random, &mut Cost::default()).unwrap();
    let places: Vec<u64> = (0..4000).map(|_| probe.place()).collect();
    assert_eq!(places[..3], [4096, 4096 + 2300, 4096 + 4600]);
    assert!(places.iter().all(|at| *at >= 4096 && at + 2300 <= head.size));
    assert_eq!(places.iter().filter(|at| **at == 4096).count(), 3);
}

#[test]
fn overwrites_are_aligned_and_spread() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let mut probe =
        CommitProbe::open(&home, head, Profile::Overwrite.row(), None, 1, random, &mut Cost::default())
            .unwrap();
    let places: std::collections::BTreeSet<u64> = (0..20_000).map(|_| probe.place()).collect();
    assert!(places.iter().all(|at| at % 4096 == 0 && *at >= 4096 && at + 4096 <= head.size));
    assert_eq!(places.len() as u64, head.blocks() - 1, "every block but the head gets its turn");
}

#[test]
fn a_method_can_be_set_apart() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let row = Profile::Postgres.row();
    let probe =
        CommitProbe::open(&home, head, row, Some(Method::ODsync), 1, random, &mut Cost::default()).unwrap();
    assert_eq!(probe.durability(), Durability::WriteThrough);
}

#[test]
fn only_the_very_file_that_was_looked_at_is_opened() {
    let other_head = |head: Head| Head { file: head.file ^ 1, ..head };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (home, head) = laid(folder.path());
    let path = home.path().join("commits");
    let open = |head| {
        let random = fastrand::Rng::with_seed(9);
        // Direct and buffered.
        [Profile::Overwrite, Profile::Etcd].map(|profile| {
            CommitProbe::open(&home, head, profile.row(), None, 1, random.clone(), &mut Cost::default())
                .map(drop)
        })
    };
    let refused = |results: [Result<(), Trouble>; 2], why: &str| {
        for result in results {
            let trouble = result.unwrap_err();
            assert_eq!(trouble.failure.errno, Errno::EBADMSG);
            assert!(trouble.failure.message.contains(why), "{}", trouble.failure.message);
        }
    };
    assert!(open(head).iter().all(Result::is_ok));
    refused(open(other_head(head)), "head is another");
    std::fs::hard_link(&path, folder.path().join("second")).unwrap();
    refused(open(head), "second name");
    std::fs::remove_file(folder.path().join("second")).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(head.size + 4096).unwrap();
    refused(open(head), "bytes, not");
    std::fs::write(&path, vec![7; head.size as usize]).unwrap();
    refused(open(head), "head is another");
}

#[test]
fn pages_are_fetched_once_and_counted() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let heart = Heartbeat::new(clock::now());
    let mut probe = CommitProbe::open(
        &home,
        head,
        Profile::Etcd.row(),
        None,
        COMMITS,
        random.clone(),
        &mut Cost::default(),
    )
    .unwrap();
    let page = sys::page_size() as u64;
    let pages = |bytes: std::ops::Range<u64>| (bytes.end - 1) / page - bytes.start / page + 1;
    // A file system in memory has every page.
    let disk = u64::from(!home.space().unwrap().is_memory());
    let first = probe.run(clock::now(), clock::now(), &Inflight::default(), &heart);
    assert_eq!(first.cost.reads, disk * pages(4096..4096 + 3 * 2300));
    assert_eq!(first.cost.read_bytes, first.cost.reads * page);
    let inflight = Inflight::default();
    let second = probe.run(clock::now(), clock::now(), &inflight, &heart);
    assert!(second.cost.reads <= pages(4096 + 3 * 2300..4096 + 6 * 2300));
    assert_eq!(inflight.since(crate::io::Op::Write), None);
    let row = Profile::Cassandra.row();
    let mut whole = CommitProbe::open(&home, head, row, None, COMMITS, random, &mut Cost::default()).unwrap();
    assert_eq!(whole.page.is_some(), page > 4096);
    let cost = whole.run(clock::now(), clock::now(), &Inflight::default(), &heart).cost;
    assert!(page > 4096 || cost.reads == 0);
}

#[test]
fn a_file_that_has_shrunk_is_not_grown_again() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let heart = Heartbeat::new(clock::now());
    let mut probe =
        CommitProbe::open(&home, head, Profile::Etcd.row(), None, COMMITS, random, &mut Cost::default())
            .unwrap();
    let path = home.path().join("commits");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let outcome = probe.run(clock::now(), clock::now(), &Inflight::default(), &heart);
    assert_eq!(outcome.result.unwrap_err().errno, Errno::ENODATA);
    assert_eq!((outcome.cost.reads, outcome.cost.writes), (1, 0));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
}

#[test]
fn the_pages_covered_in_part_are_the_first_and_the_last() {
    for (write, pages) in [
        (0..4096, [None, None]),
        (0..4095, [Some(0), None]),
        (4000..4200, [Some(0), Some(4096)]),
        (4096..8200, [None, Some(8192)]),
        (100..8192, [Some(0), None]),
        (100..20_000, [Some(0), Some(16_384)]),
        (8192..16_384, [None, None]),
    ] {
        assert_eq!(partial(write.start, write.end, 4096), pages, "{write:?}");
    }
    assert_eq!(partial(8192, 16_384, 65_536), [Some(0), None]);
}
