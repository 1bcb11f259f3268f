//! The store on real directories: good, damaged, full of others, in the way.

#![allow(clippy::disallowed_methods, reason = "a test makes and damages files of its own")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use proptest::collection::btree_map;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};

use super::file::{Before, Place};
use super::*;
use crate::clock;

const PATIENCE: Duration = Duration::from_secs(20);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn paused(name: &str) -> State {
    State { pauses: [(name.to_owned(), 1_800_000_000)].into(), ..State::default() }
}

fn found(state: State) -> Before {
    Before { state, lost: None }
}

fn open_at(dir: &Path) -> (State, Handle) {
    open(dir.to_owned(), || panic!("a write failed"))
}

#[test]
fn what_was_saved_is_there_after_a_restart_and_the_directory_is_made() {
    let folder = folder();
    let dir = folder.path().join("a/b");
    let (before, handle) = open_at(&dir);
    assert_eq!(before, State::default());
    assert!(!dir.exists(), "nothing is made before there is something to keep");
    handle.save(paused("x"), clock::now());
    assert!(handle.flush(PATIENCE) && handle.unsaved(clock::now()).is_zero());
    assert_eq!(Place::new(dir.clone()).load().unwrap().state, paused("x"));
    let mut names: Vec<_> =
        fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["state.json", "state.lock"]);
}

#[test]
fn the_newest_state_takes_the_place_of_one_that_waits() {
    let folder = folder();
    let (_, handle) = open_at(folder.path());
    for n in 0..1000 {
        handle.save(paused(&n.to_string()), clock::now());
    }
    assert!(handle.flush(PATIENCE));
    assert_eq!(Place::new(folder.path().to_owned()).load().unwrap().state, paused("999"));
}

#[test]
fn what_changes_often_is_written_seldom() {
    let folder = folder();
    let (_, handle) = open_at(folder.path());
    let inode = || fs::metadata(folder.path().join("state.json")).ok().map(|m| m.ino());
    use std::os::unix::fs::MetadataExt;
    let mut inodes = std::collections::BTreeSet::new();
    let begun = clock::now();
    for n in 0..150 {
        let budgets = [("disk".to_owned(), serde_json::json!({ "left": n }))].into();
        handle.save(State { budgets, ..State::default() }, clock::now());
        std::thread::sleep(Duration::from_millis(20));
        inodes.extend(inode());
    }
    let took = clock::now().since(begun);
    assert!(inodes.len() == 1 || took > Duration::from_secs(9), "{inodes:?} in {took:?}");
    assert!(!handle.unsaved(clock::now()).is_zero(), "the newer ones wait");
}

#[test]
fn a_damaged_file_is_set_aside_and_the_next_one_is_good() {
    for damage in ["", "{", "null", "{\"version\":2,\"pauses\":{}}", "{\"version\":1,\"pauses\":{\"a\":-5}}"]
    {
        let folder = folder();
        fs::write(folder.path().join("state.json"), damage).unwrap();
        assert_eq!(peek(folder.path()), None);
        let mut place = Place::new(folder.path().to_owned());
        let fault = place.load().unwrap().lost.unwrap().to_string();
        assert!(fault.contains("makes no sense") && fault.contains("set aside"), "{fault}");
        assert_eq!(fs::read_to_string(folder.path().join("state.json.damaged")).unwrap(), damage);
        assert_eq!(place.load(), Ok(Before::default()));
        place.save(&paused("a")).unwrap();
        assert_eq!(place.load(), Ok(found(paused("a"))));
        assert_eq!(peek(folder.path()), Some(paused("a")));
    }
}

/// What a state costs that is lost is the state alone: the sweeps have files of their own, and saving what is known then keeps them.
#[test]
fn sweeps_outlive_a_state_that_is_lost() {
    for damage in ["{", "{\"version\":2}"] {
        let folder = folder();
        let of = |name: &str, text: &str| (name.to_owned(), Some(Arc::from(text)));
        let sweeps = [of("a", "{\"n\":1}"), of("b", "{}")].into();
        let before = State { sweeps, ..paused("a") };
        Place::new(folder.path().to_owned()).save(&before).unwrap();
        fs::write(folder.path().join("state.json"), damage).unwrap();
        let (state, handle) = open_at(folder.path());
        assert_eq!(state, State { sweeps: before.sweeps.clone(), ..State::default() });
        let sweeps = state.sweeps.into_keys().map(|name| (name, None)).collect();
        handle.save(State { sweeps, ..paused("c") }, clock::now());
        assert!(handle.flush(PATIENCE));
        let after = Place::new(folder.path().to_owned()).load().unwrap();
        assert_eq!(after, found(State { sweeps: before.sweeps, ..paused("c") }));
    }
}

#[test]
fn what_is_no_plain_file_is_not_read_for_ever() {
    let folder = folder();
    let path = folder.path().join("state.json");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    let fault = Place::new(folder.path().to_owned()).load().unwrap().lost.unwrap().to_string();
    assert!(
        fault.contains("cannot read") && fault.contains("EINVAL") && fault.contains("set aside"),
        "{fault}"
    );
    assert!(!path.exists() && folder.path().join("state.json.damaged").exists());
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let fault = Place::new(folder.path().to_owned()).load().unwrap().lost.unwrap().to_string();
    assert!(fault.contains("EFBIG"), "{fault}");
}

#[test]
fn a_state_that_is_read_late_is_not_written_over() {
    let folder = folder();
    let place = || Place::new(folder.path().to_owned());
    place().save(&paused("before")).unwrap();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let slow = move |place: &mut Place| {
        let _ = wait.lock().unwrap().recv_timeout(PATIENCE);
        place.load()
    };
    let (before, handle) =
        super::store::open_within(Duration::from_millis(50), place(), slow, || panic!("a write failed"));
    assert_eq!((before, handle.late()), (State::default(), None));
    handle.save(State::default(), clock::now());
    assert!(!handle.flush(Duration::from_millis(100)));
    drop(go_on);
    let begun = clock::now();
    let late = loop {
        match handle.late() {
            Some(late) => break late,
            None => assert!(clock::now().since(begun) < PATIENCE, "it never came"),
        }
        // Whoever knows nothing of it yet may save as often as it likes.
        assert!(!handle.flush(Duration::from_millis(20)));
        assert_eq!(place().load(), Ok(found(paused("before"))));
    };
    assert_eq!((late, handle.late()), (paused("before"), None));
    assert!(!handle.flush(Duration::from_millis(100)), "it was taken, and nothing saved since");
    assert_eq!(place().load(), Ok(found(paused("before"))));
    handle.save(paused("both"), clock::now());
    assert!(handle.flush(PATIENCE));
    assert_eq!(place().load(), Ok(found(paused("both"))));
}

#[test]
fn a_state_that_cannot_be_read_is_tried_again_before_anything_is_written() {
    let folder = folder();
    let place = || Place::new(folder.path().to_owned());
    place().save(&paused("before")).unwrap();
    let sick = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let (is_sick, failures) = (Arc::clone(&sick), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&failures);
    let load = move |place: &mut Place| match is_sick.load(SeqCst) {
        true => Place::new("/proc/self/status/state".into()).load(),
        false => place.load(),
    };
    let (before, handle) = super::store::open_within(PATIENCE, place(), load, move || {
        count.fetch_add(1, SeqCst);
    });
    assert_eq!(before, State::default());
    handle.save(State::default(), clock::now());
    assert!(!handle.flush(PATIENCE) && failures.load(SeqCst) > 0);
    assert_eq!(place().load(), Ok(found(paused("before"))));
    sick.store(false, SeqCst);
    assert!(!handle.flush(PATIENCE), "it is found, not written over");
    assert_eq!(place().load(), Ok(found(paused("before"))));
    assert_eq!(handle.late(), Some(paused("before")));
}

#[test]
fn a_second_daemon_does_not_write_over_the_first() {
    let folder = folder();
    let (mut first, mut second) =
        (Place::new(folder.path().to_owned()), Place::new(folder.path().to_owned()));
    first.save(&paused("first")).unwrap();
    let fault = second.save(&paused("second")).unwrap_err().to_string();
    assert!(fault.contains("another daemon's"), "{fault}");
    drop(first);
    second.save(&paused("second")).unwrap();
}

#[test]
fn a_directory_that_went_is_made_anew_and_each_failure_is_counted_not_fatal() {
    let folder = folder();
    let dir = folder.path().join("state");
    fs::write(&dir, "a file is in the way").unwrap();
    let failures = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&failures);
    let (_, handle) = open(dir.clone(), move || {
        count.fetch_add(1, SeqCst);
    });
    handle.save(paused("x"), clock::now());
    assert!(!handle.flush(PATIENCE), "one try, and no more waiting");
    assert!(failures.load(SeqCst) > 0 && !handle.unsaved(clock::now()).is_zero());
    fs::remove_file(&dir).unwrap();
    assert!(handle.flush(PATIENCE), "it is tried again");
    assert_eq!(Place::new(dir).load().unwrap().state, paused("x"));
}

#[test]
fn without_a_directory_nothing_waits_and_the_age_grows() {
    let handle = Handle::nowhere();
    let now = clock::now();
    handle.save(paused("x"), now);
    handle.save(paused("y"), now + PATIENCE);
    assert_eq!(handle.unsaved(now + PATIENCE), PATIENCE);
    assert!(!handle.flush(PATIENCE));
}

fn states() -> impl Strategy<Value = State> {
    let file = (any::<u64>(), any::<u64>()).prop_map(|(id, size)| KnownFile { id, size });
    let known = (any::<String>(), any::<String>(), btree_map(any::<String>(), file, 0..3))
        .prop_map(|(home, identity, files)| Known { home, identity, files, ..Known::default() });
    let budget = any::<i64>().prop_map(|n| serde_json::json!({ "left": n, "at": [n, null] }));
    let maps = (
        btree_map(any::<String>(), any::<u64>(), 0..4),
        btree_map(any::<String>(), budget, 0..4),
        btree_map(any::<String>(), known, 0..4),
    );
    maps.prop_map(|(pauses, budgets, targets)| State { pauses, budgets, targets, ..State::default() })
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    #[test]
    fn any_state_is_read_as_it_was_written(state in states()) {
        let folder = folder();
        let mut place = Place::new(folder.path().to_owned());
        place.save(&state).unwrap();
        prop_assert_eq!(place.load(), Ok(found(state)));
    }

    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>) {
        let folder = folder();
        fs::write(folder.path().join("state.json"), bytes).unwrap();
        let mut place = Place::new(folder.path().to_owned());
        let _ = place.load();
        place.save(&paused("a")).unwrap();
    }
}
