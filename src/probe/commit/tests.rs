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
    let mut laying = Laying::begin(&home, Role::Commits, wish, fastrand::Rng::with_seed(3)).unwrap();
    let head = match laying.step(Tick::default(), &Inflight::default(), &mut Cost::default()).unwrap() {
        Progress::Done(head, _) => head,
        Progress::Going(..) => panic!("4 MiB are one slice"),
    };
    (home, head)
}

#[test]
fn every_profile_commits_and_costs_what_its_row_says() {
    let folder = tempfile::tempdir().unwrap();
    let (home, head) = laid(folder.path());
    let heart = Heartbeat::new(clock::now());
    for profile in Profile::ALL {
        let row = profile.row();
        let random = fastrand::Rng::with_seed(9);
        let mut probe = CommitProbe::open(&home, head, row, None, COMMITS, random).unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let mut probe = CommitProbe::open(&home, head, Profile::Etcd.row(), None, 1, random).unwrap();
    let places: Vec<u64> = (0..4000).map(|_| probe.place()).collect();
    assert_eq!(places[..3], [4096, 4096 + 2300, 4096 + 4600]);
    assert!(places.iter().all(|at| *at >= 4096 && at + 2300 <= head.size));
    assert_eq!(places.iter().filter(|at| **at == 4096).count(), 3);
}

#[test]
fn overwrites_are_aligned_and_spread() {
    let folder = tempfile::tempdir().unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let mut probe = CommitProbe::open(&home, head, Profile::Overwrite.row(), None, 1, random).unwrap();
    let places: std::collections::BTreeSet<u64> = (0..20_000).map(|_| probe.place()).collect();
    assert!(places.iter().all(|at| at % 4096 == 0 && *at >= 4096 && at + 4096 <= head.size));
    assert_eq!(places.len() as u64, head.blocks() - 1, "every block but the head gets its turn");
}

#[test]
fn a_method_can_be_set_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (home, head) = laid(folder.path());
    let random = fastrand::Rng::with_seed(9);
    let row = Profile::Postgres.row();
    let probe = CommitProbe::open(&home, head, row, Some(Method::ODsync), 1, random).unwrap();
    assert_eq!(probe.durability(), Durability::WriteThrough);
}
