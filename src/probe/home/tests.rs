//! The home in a temporary directory.

use super::*;
use crate::clock::Tick;
use std::fs;

fn open(at: &Path) -> Result<Home, Trouble> {
    Home::open(&at.canonicalize().unwrap(), &Inflight::default(), Tick::default())
}

#[test]
fn is_marked_locked_and_cleaned() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = open(folder.path()).unwrap();
    assert!(fs::read_to_string(home.path().join(TAG_NAME)).unwrap().starts_with("Signature: 8a477f5"));
    let second = open(folder.path()).unwrap_err();
    assert_eq!(second.state, crate::probe::State::Unsupported);
    assert!(second.failure.message.contains("in use by another diskcanary"));
    assert!(clean(folder.path()).unwrap_err().contains("in use"));
    drop(home);
    assert!(open(folder.path()).is_ok());
    assert_eq!(clean(folder.path()).unwrap().len(), 3);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(clean(folder.path()).unwrap().len(), 0);
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::create_dir(folder.path().join(NAME)).unwrap();
    fs::write(folder.path().join(NAME).join("letters.txt"), "dear").unwrap();
    assert!(open(folder.path()).unwrap_err().failure.message.contains("is not ours"));
    assert!(clean(folder.path()).is_err());
    assert_eq!(fs::read_to_string(folder.path().join(NAME).join("letters.txt")).unwrap(), "dear");
}

#[test]
fn a_foreign_file_among_ours_keeps_all_in_place() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    drop(open(folder.path()).unwrap());
    fs::write(folder.path().join(NAME).join("letters.txt"), "dear").unwrap();
    let error = clean(folder.path()).unwrap_err();
    assert!(error.contains("`letters.txt`, which diskcanary never makes"), "{error}");
    assert_eq!(fs::read_dir(folder.path().join(NAME)).unwrap().count(), 3);
}

#[test]
fn one_probe_file_goes_and_the_rest_stays() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    drop(open(folder.path()).unwrap());
    for name in ["commits", "reads"] {
        fs::write(folder.path().join(NAME).join(name), "").unwrap();
    }
    remove(folder.path(), crate::probe::layout::Role::Reads).unwrap();
    remove(folder.path(), crate::probe::layout::Role::Reads).unwrap();
    let left = |name: &str| folder.path().join(NAME).join(name).exists();
    assert!(left("commits") && left(TAG_NAME) && !left("reads"));
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join(NAME)).unwrap();
    assert!(open(folder.path()).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn one_cut_off_while_it_was_made_is_taken_up() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::create_dir(folder.path().join(NAME)).unwrap();
    fs::write(folder.path().join(NAME).join("tag.new"), "Sig").unwrap();
    assert!(open(folder.path()).is_ok());
}

#[test]
fn of_many_that_start_at_once_one_gets_it() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = folder.path();
    let all: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..8).map(|_| scope.spawn(|| open(at))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().filter(|home| home.is_ok()).count(), 1, "{all:?}");
    for refused in all.iter().filter_map(|home| home.as_ref().err()) {
        assert_eq!(refused.failure.errno, Errno::EBUSY, "{refused:?}");
    }
}

#[test]
fn the_tag_of_another_program_marks_nothing_as_ours() {
    let signature = TAG.lines().next().unwrap();
    for text in [
        format!("{signature}\n"),
        format!("{signature}\n# This directory was made by cargo.\n"),
        String::new(),
    ] {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join(NAME);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(TAG_NAME), &text).unwrap();
        let said = open(folder.path()).unwrap_err().failure.message;
        assert!(said.contains("CACHEDIR.TAG is another's"), "{said}");
        assert!(clean(folder.path()).unwrap_err().contains("is not ours"));
        assert!(remove(folder.path(), Role::Reads).unwrap_err().contains("is not ours"));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "no lock is made there");
        assert_eq!(fs::read_to_string(path.join(TAG_NAME)).unwrap(), text);
    }
    // The lines behind those two may change from one version to the next.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::create_dir(folder.path().join(NAME)).unwrap();
    let ours: String = TAG.split_inclusive('\n').take(MARK_LINES).collect();
    fs::write(folder.path().join(NAME).join(TAG_NAME), ours + "# More.\n").unwrap();
    assert!(open(folder.path()).is_ok());
}

#[test]
fn a_half_made_tag_is_known_by_its_bytes() {
    for (text, ours) in [("Sig", true), ("", true), ("Sig\0\0", true), ("Signal", false), ("dear", false)] {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join(NAME);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(NEW_TAG), text).unwrap();
        assert_eq!(clean(folder.path()).is_ok(), ours, "{text:?}");
        assert_eq!(path.exists(), !ours);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(NEW_TAG), text).unwrap();
        assert_eq!(open(folder.path()).is_ok(), ours, "{text:?}");
    }
}

#[test]
fn clean_leaves_a_foreign_file_under_a_name_of_ours() {
    for name in ["commits", "reads", LOCK_NAME, NEW_TAG] {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        drop(open(folder.path()).unwrap());
        let path = folder.path().join(NAME);
        fs::write(path.join(name), "somebody's").unwrap();
        let before = fs::read_dir(&path).unwrap().count();
        let said = clean(folder.path()).unwrap_err();
        assert!(said.contains(&format!("`{name}`, which is not ours")), "{said}");
        assert_eq!(fs::read_to_string(path.join(name)).unwrap(), "somebody's");
        assert_eq!(fs::read_dir(&path).unwrap().count(), before);
        if name == "reads" {
            assert!(remove(folder.path(), Role::Reads).unwrap_err().contains("is not ours"));
            assert!(path.join(name).exists());
        }
    }
}

#[test]
fn a_lock_that_was_removed_while_we_took_it_is_taken_anew() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().canonicalize().unwrap();
    let dir = Dir::open(&path).unwrap();
    let mut seen = 0;
    let lock = take_lock(&dir, &path, &mut |_| {
        seen += 1;
        if seen == 1 {
            fs::remove_file(path.join(LOCK_NAME)).unwrap();
        }
    })
    .unwrap();
    assert_eq!(seen, 2);
    assert!(is_named(&dir, &lock));
}

#[test]
fn a_lock_that_another_made_anew_meanwhile_is_the_others() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().canonicalize().unwrap();
    let dir = Dir::open(&path).unwrap();
    let mut other = None;
    let ours = take_lock(&dir, &path, &mut |_| {
        if other.is_none() {
            fs::remove_file(path.join(LOCK_NAME)).unwrap();
            other = Some(take_lock(&dir, &path, &mut |_| {}).unwrap());
        }
    });
    assert!(ours.unwrap_err().failure.message.contains("in use by another"));
    assert!(is_named(&dir, &other.unwrap()));
}
