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
    let mut layout =
        Layout::begin(home, Role::Commits, WISH, fastrand::Rng::with_seed(3), &mut Cost::default()).unwrap();
    let mut cost = Cost::default();
    loop {
        if let Progress::Done(head, extents) =
            layout.step(home, Tick::default(), &Inflight::default(), &mut cost).unwrap()
        {
            // The head is written a second time, and made durable between two syncs.
            assert_eq!(cost.written_bytes, head.size + BLOCK as u64);
            assert_eq!(cost.writes, head.size / CHUNK as u64 + 1);
            assert_eq!(cost.syncs, head.size.div_ceil(SLICE) + 2);
            return (head, extents);
        }
    }
}

#[test]
fn every_block_is_written_and_knows_itself() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
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
    assert!(
        matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Ready(found)) if found == head)
    );
}

#[test]
fn another_wish_or_a_changed_length_is_laid_out_anew() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    lay(&home);
    let other = Wish { size: Bytes::mib(8), ..WISH };
    assert!(matches!(look(&home, Role::Commits, other, &mut Cost::default()), Ok(Found::Lay)));
    fs::File::options().write(true).open(home.path().join("commits")).unwrap().set_len(5 << 20).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
}

#[test]
fn one_cut_off_in_the_middle_is_not_trusted() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    let mut layout =
        Layout::begin(&home, Role::Commits, WISH, fastrand::Rng::with_seed(3), &mut Cost::default()).unwrap();
    let step = layout.step(&home, Tick::default(), &Inflight::default(), &mut Cost::default()).unwrap();
    assert!(matches!(step, Progress::Going(done, all) if done == SLICE && all == 6 << 20));
    drop(layout);
    // A file of the full length, as a crash after `fallocate` or a sparse copy would leave it.
    fs::File::options().write(true).open(home.path().join("commits")).unwrap().set_len(6 << 20).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
}

#[test]
fn a_foreign_file_is_refused_and_an_empty_one_replaced() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    let path = home.path().join("commits");
    fs::write(&path, "somebody's").unwrap();
    assert!(
        look(&home, Role::Commits, WISH, &mut Cost::default())
            .unwrap_err()
            .failure
            .message
            .contains("is not ours")
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    fs::remove_file(&path).unwrap();
    fs::File::create(&path).unwrap().set_len(6 << 20).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    lay(&home);
    fs::hard_link(home.path().join("commits"), folder.path().join("precious")).unwrap();
    assert!(
        look(&home, Role::Commits, WISH, &mut Cost::default())
            .unwrap_err()
            .failure
            .message
            .contains("second name")
    );
}

#[test]
fn a_broken_head_of_ours_is_laid_out_anew() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    lay(&home);
    let file = fs::File::options().write(true).open(home.path().join("commits")).unwrap();
    file.write_all_at(&[0xff; 16], 100).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
}

#[test]
fn zeros_are_nobodys_only_when_there_is_nothing_else() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    let path = home.path().join("commits");
    // As a btrfs image begins: its first mark lies at 64 KiB.
    let image = fs::File::create(&path).unwrap();
    image.set_len(6 << 20).unwrap();
    image.write_all_at(b"_BHRfS_M", (64 << 10) + 64).unwrap();
    for _ in 0..2 {
        assert!(
            look(&home, Role::Commits, WISH, &mut Cost::default())
                .unwrap_err()
                .failure
                .message
                .contains("is not ours")
        );
        let begun =
            Layout::begin(&home, Role::Commits, WISH, fastrand::Rng::with_seed(3), &mut Cost::default());
        assert!(begun.unwrap_err().failure.message.contains("is not ours"));
        assert_eq!(path.metadata().unwrap().len(), 6 << 20);
        image.write_all_at(&[0; 8], (64 << 10) + 64).unwrap();
        // The last byte counts too.
        image.write_all_at(&[1], (6 << 20) - 1).unwrap();
    }
    image.write_all_at(&vec![0; 6 << 20], 0).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
    // Holes cost nothing, however many.
    image.set_len(1 << 40).unwrap();
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
}

#[test]
fn what_came_after_the_look_is_not_removed() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    assert!(matches!(look(&home, Role::Commits, WISH, &mut Cost::default()), Ok(Found::Lay)));
    fs::write(home.path().join("commits"), "somebody's").unwrap();
    let begun = Layout::begin(&home, Role::Commits, WISH, fastrand::Rng::with_seed(3), &mut Cost::default());
    assert!(begun.unwrap_err().failure.message.contains("is not ours"));
    assert_eq!(fs::read_to_string(home.path().join("commits")).unwrap(), "somebody's");
}

/// The error of a layout that somebody disturbs after its first slice.
fn disturbed(home: &Home, disturb: impl FnOnce(&mut Layout, &Path)) -> Trouble {
    let mut layout =
        Layout::begin(home, Role::Commits, WISH, fastrand::Rng::with_seed(3), &mut Cost::default()).unwrap();
    layout.step(home, Tick::default(), &Inflight::default(), &mut Cost::default()).unwrap();
    disturb(&mut layout, &home.path().join("commits"));
    let inflight = Inflight::default();
    let said = layout.step(home, Tick::default(), &inflight, &mut Cost::default()).unwrap_err();
    assert_eq!(inflight.since(Op::Layout), None);
    said
}

#[test]
fn a_layout_that_fails_gives_its_space_back() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    // Any write that fails, as one does for which there is no room.
    let said = disturbed(&home, |layout, _| {
        layout.laying.file = home.dir().open_file("commits", Direct::No).unwrap();
    });
    assert_eq!(said.failure.errno, Errno::EBADF);
    assert!(!home.path().join("commits").exists());
    let said = disturbed(&home, |_, path| {
        fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    });
    assert_eq!(said.failure.errno, Errno::EBADMSG);
    assert!(!home.path().join("commits").exists());
    lay(&home);
}

#[test]
fn a_layout_whose_name_is_gone_ends_and_leaves_what_stands_there() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    let said = disturbed(&home, |_, path| fs::remove_file(path).unwrap());
    assert_eq!(said.failure.errno, Errno::EBADMSG);
    assert!(said.failure.message.contains("changed or removed meanwhile"), "{}", said.failure.message);
    let said = disturbed(&home, |_, path| {
        fs::remove_file(path).unwrap();
        fs::write(path, "somebody's").unwrap();
    });
    assert_eq!(said.failure.errno, Errno::EBADMSG);
    assert_eq!(fs::read_to_string(home.path().join("commits")).unwrap(), "somebody's");
}

#[test]
fn an_unfinished_file_without_room_to_finish_it_is_removed() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home(folder.path());
    let no_room = Wish { reserve: Some(Bytes::new(u64::MAX)), ..WISH };
    let (head, _) = lay(&home);
    let bigger = Wish { size: Bytes::mib(8), ..no_room };
    assert!(look(&home, Role::Commits, bigger, &mut Cost::default()).is_err());
    assert_eq!(fs::metadata(home.path().join("commits")).unwrap().len(), head.size, "a complete one stays");
    let mut layout =
        Layout::begin(&home, Role::Commits, WISH, fastrand::Rng::with_seed(3), &mut Cost::default()).unwrap();
    layout.step(&home, Tick::default(), &Inflight::default(), &mut Cost::default()).unwrap();
    drop(layout);
    assert_eq!(
        look(&home, Role::Commits, no_room, &mut Cost::default()).unwrap_err().state,
        crate::probe::State::NoSpace
    );
    assert!(!home.path().join("commits").exists());
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
