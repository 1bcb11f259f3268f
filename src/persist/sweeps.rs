//! The files of the sweeps: a line of ours that says whose it is, and the sweep on a line of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::file::read;
use crate::sys::Dir;

const BEGIN: &str = "sweep-";
const END: &str = ".json";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    target: String,
}

/// Names of targets are any text, so the file is called after a number that is made of it.
pub(super) fn file_name(target: &str) -> String {
    format!("{BEGIN}{:016x}{END}", xxh3_64(target.as_bytes()))
}

/// The file's content.
pub(super) fn document(target: &str, sweep: &str) -> Vec<u8> {
    let head = Head { version: VERSION, target: target.to_owned() };
    // A text and a number always can be written.
    let head = serde_json::to_string(&head).unwrap_or_default();
    format!("{head}\n{sweep}\n").into_bytes()
}

/// All that are there. One that makes no sense is as good as none: a line in the log, and the next sweep takes its place.
pub(super) fn load(dir: &Dir, path: &Path) -> BTreeMap<String, Arc<str>> {
    let ours = |name: &String| name.starts_with(BEGIN) && name.ends_with(END);
    let mut all = BTreeMap::new();
    for name in dir.names().unwrap_or_default().into_iter().filter(ours) {
        let found = read(dir, &name).map_err(|e| format!("cannot be read: {e}"));
        match found.and_then(|bytes| parse(&bytes)) {
            Ok((target, sweep)) if file_name(&target) == name => drop(all.insert(target, sweep)),
            Ok((target, _)) => {
                tracing::warn!(file = %path.join(&name).display(), target, "a kept sweep is in another's file; left out")
            }
            Err(why) => {
                tracing::warn!(file = %path.join(&name).display(), reason = why, "a kept sweep is lost; the target begins without it");
            }
        }
    }
    all
}

fn parse(bytes: &[u8]) -> Result<(String, Arc<str>), String> {
    let text = str::from_utf8(bytes).map_err(|e| format!("makes no sense: {e}"))?;
    let (head, rest) = text.split_once('\n').ok_or("makes no sense: it has one line")?;
    let head: Head = serde_json::from_str(head).map_err(|e| format!("makes no sense: {e}"))?;
    if head.version != VERSION {
        return Err(format!("is of version {}, and this diskcanary knows version {VERSION}", head.version));
    }
    let sweep =
        rest.strip_suffix('\n').filter(|line| !line.contains('\n')).ok_or("makes no sense: it is cut off")?;
    serde_json::from_str::<serde::de::IgnoredAny>(sweep).map_err(|e| format!("makes no sense: {e}"))?;
    Ok((head.target, sweep.into()))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test makes and damages files of its own")]
mod tests {
    use super::super::file::Place;
    use super::super::{State, open};
    use super::*;
    use crate::clock;
    use std::time::Duration;

    fn with(sweeps: &[(&str, &Arc<str>)]) -> State {
        let sweeps = sweeps.iter().map(|(name, text)| ((*name).to_owned(), Some(Arc::clone(text))));
        State { sweeps: sweeps.collect(), ..State::default() }
    }

    fn kept(dir: &Path) -> Vec<(String, String)> {
        let state = Place::new(dir.to_owned()).load().unwrap().state;
        state.sweeps.into_iter().filter_map(|(name, text)| Some((name, text?.to_string()))).collect()
    }

    #[test]
    fn each_sweep_has_a_file_that_is_written_when_it_changes() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let (_, handle) = open(folder.path().to_owned(), || panic!("a write failed"));
        let [a, b]: [Arc<str>; 2] = [r#"{"n":1}"#.into(), r#"{"n":2}"#.into()];
        let save = |state: State| {
            handle.save(state, clock::now());
            assert!(handle.flush(Duration::from_secs(20)));
        };
        save(with(&[("a/b \"c\"", &a), ("b", &b)]));
        let text = |n| format!("{{\"n\":{n}}}");
        assert_eq!(kept(folder.path()), [("a/b \"c\"".to_owned(), text(1)), ("b".to_owned(), text(2))]);
        let of_b = folder.path().join(file_name("b"));
        let before = std::fs::metadata(&of_b).unwrap().modified().unwrap();
        let new: Arc<str> = r#"{"n":3}"#.into();
        let mut state = with(&[("a/b \"c\"", &new)]);
        state.sweeps.insert("b".to_owned(), None);
        save(state);
        assert_eq!(kept(folder.path())[0].1, text(3));
        assert_eq!(std::fs::metadata(&of_b).unwrap().modified().unwrap(), before, "as it was");
        save(with(&[("b", &b)]));
        assert_eq!(kept(folder.path()), [("b".to_owned(), text(2))]);
    }

    #[test]
    fn a_sweep_that_waits_to_be_written_is_not_lost_to_a_newer_state() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let (_, handle) = open(folder.path().to_owned(), || panic!("a write failed"));
        // The first is being written, or rests; the others wait one after the other.
        handle.save(State::default(), clock::now());
        for n in 0..20 {
            let name = format!("t{n}");
            let mut state = with(&[(name.as_str(), &format!("{{\"n\":{n}}}").into())]);
            state.sweeps.extend((0..n).filter(|n| *n != 7).map(|n| (format!("t{n}"), None)));
            handle.save(state, clock::now());
        }
        assert!(handle.flush(Duration::from_secs(20)));
        let there = kept(folder.path());
        let named = |name: &str| there.iter().any(|(known, _)| known == name);
        assert_eq!(there.len(), 19, "{there:?}");
        assert!(named("t0") && named("t19") && !named("t7"), "it is not kept any more");
        assert!(there.iter().all(|(name, text)| *text == format!("{{\"n\":{}}}", &name[1..])), "{there:?}");
    }

    #[test]
    fn what_is_damaged_is_left_out_and_the_others_are_there() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let good: Arc<str> = "{}".into();
        let (_, handle) = open(folder.path().to_owned(), || panic!("a write failed"));
        handle.save(with(&[("a", &good), ("b", &good), ("c", &good)]), clock::now());
        assert!(handle.flush(Duration::from_secs(20)));
        let file = |name: &str| folder.path().join(file_name(name));
        std::fs::write(file("a"), b"{\"version\":1,\"target\":\"a\"}\n{\"n\":").unwrap();
        std::fs::copy(file("c"), file("b")).unwrap();
        assert_eq!(kept(folder.path()), [("c".to_owned(), "{}".to_owned())]);
        let noise: Vec<u8> = (0..=255).collect();
        for bytes in [&b""[..], &noise, b"{\"version\":9,\"target\":\"c\"}\n{}\n"] {
            std::fs::write(file("c"), bytes).unwrap();
            assert_eq!(kept(folder.path()), []);
        }
    }
}
