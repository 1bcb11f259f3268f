//! Layout on the file system of the temporary directory.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use proptest::prelude::*;

const WISH: Wish = Wish { size: Bytes::mib(6), reserve: Some(Bytes::new(0)) };

fn home(folder: &Path) -> Home {
    Home::open(&folder.canonicalize().unwrap(), &Inflight::default(), Tick::default()).unwrap()
}

fn lay(home: &Home) -> (Head, Extents) {
    let mut layout = Layout::begin(home, Role::Commits, WISH, fastrand::Rng::with_seed(3)).unwrap();
    let mut cost = Cost::default();
    loop {
        if let Progress::Done(head, extents) =
            layout.step(Tick::default(), &Inflight::default(), &mut cost).unwrap()
        {
            assert_eq!(cost.written_bytes, head.size);
            return (head, extents);
        }
    }
}

#[test]
fn every_block_is_written_and_knows_itself() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    assert!(matches!(look(&home, Role::Commits, WISH), Ok(Found::Lay)));
    let (head, extents) = lay(&home);
    assert_ne!(extents, Extents::Unwritten);
    assert_eq!(head.size, 6 << 20);
    let bytes = fs::read(home.path().join("commits")).unwrap();
    for (block, number) in bytes.chunks(BLOCK).zip(0..) {
        assert_eq!(
            content::check(block, Stamp { file: head.file, number, generation: 0 }),
            Ok(()),
            "block {number}"
        );
    }
    assert!(matches!(look(&home, Role::Commits, WISH), Ok(Found::Ready(found)) if found == head));
}

#[test]
fn another_wish_or_a_changed_length_is_laid_out_anew() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    lay(&home);
    let other = Wish { size: Bytes::mib(8), ..WISH };
    assert!(matches!(look(&home, Role::Commits, other), Ok(Found::Lay)));
    fs::File::options().write(true).open(home.path().join("commits")).unwrap().set_len(5 << 20).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH), Ok(Found::Lay)));
}

#[test]
fn one_cut_off_in_the_middle_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut layout = Layout::begin(&home, Role::Commits, WISH, fastrand::Rng::with_seed(3)).unwrap();
    let step = layout.step(Tick::default(), &Inflight::default(), &mut Cost::default()).unwrap();
    assert!(matches!(step, Progress::Going(done, all) if done == SLICE && all == 6 << 20));
    drop(layout);
    // A file of the full length, as a crash after `fallocate` or a sparse copy would leave it.
    fs::File::options().write(true).open(home.path().join("commits")).unwrap().set_len(6 << 20).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH), Ok(Found::Lay)));
}

#[test]
fn a_foreign_file_is_refused_and_an_empty_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let path = home.path().join("commits");
    fs::write(&path, "somebody's").unwrap();
    assert!(look(&home, Role::Commits, WISH).unwrap_err().failure.message.contains("is not ours"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    fs::remove_file(&path).unwrap();
    fs::File::create(&path).unwrap().set_len(6 << 20).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH), Ok(Found::Lay)));
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    lay(&home);
    fs::hard_link(home.path().join("commits"), folder.path().join("precious")).unwrap();
    assert!(look(&home, Role::Commits, WISH).unwrap_err().failure.message.contains("second name"));
}

#[test]
fn a_broken_head_of_ours_is_laid_out_anew() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    lay(&home);
    let file = fs::File::options().write(true).open(home.path().join("commits")).unwrap();
    file.write_all_at(&[0xff; 16], 100).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH), Ok(Found::Lay)));
}

#[test]
fn space_rules_have_numbers_in_their_messages() {
    let space = Space { total: 96 << 20, available: 70 << 20, magic: 0 };
    let wish = Wish { size: Bytes::mib(64), reserve: None };
    let said = size_for(space, Role::Commits, wish).unwrap_err();
    assert_eq!(said.state, crate::probe::State::NoSpace);
    assert!(said.failure.message.contains("70MiB free"), "{}", said.failure.message);
    let space = Space { total: 96 << 20, available: 90 << 20, magic: 0 };
    assert_eq!(size_for(space, Role::Commits, wish), Ok(4_718_592));
    let wish = Wish { reserve: Some(Bytes::mib(88)), ..wish };
    assert!(size_for(space, Role::Commits, wish).unwrap_err().failure.message.contains("reserve of 88MiB"));
}

proptest! {
    #[test]
    fn a_size_is_never_against_the_rules(total in 0u64..1 << 44, part in 0.0f64..1.0, wished in 1u64..1 << 40, reserve in proptest::option::of(0u64..1 << 40)) {
        let available = (total as f64 * part) as u64;
        let wish = Wish { size: Bytes::new(wished), reserve: reserve.map(Bytes::new) };
        if let Ok(size) = size_for(Space { total, available, magic: 0 }, Role::Reads, wish) {
            prop_assert!(size <= wished && size <= available / 20 && size.is_multiple_of(BLOCK as u64));
            prop_assert!(size >= Role::Reads.minimum().get());
            prop_assert!(available - size >= reserve.unwrap_or_else(|| (total / 20).min(10 << 30)));
        }
    }
}
