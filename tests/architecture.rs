//! The building's plan as a test: who may import whom, and what may be done in one room only.
//!
//! A source file's production code is read as text: comments and the tests at a file's end are left out.

#![allow(clippy::unwrap_used, reason = "also in the helpers of a test")]
#![allow(clippy::disallowed_methods, reason = "tests read files")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up. A room imports from lower floors only; rooms on one floor do not know each other.
const FLOORS: &[&[&str]] = &[
    &["units", "clock"],
    &["sys", "stats"],
    &["io", "target"],
    &["probe", "device", "persist"],
    &["schedule"],
    &["record"],
    &["expose", "page", "report"],
    &["http"],
    &["config"],
    &["daemon"],
    &["cli"],
];

/// Words that only one room may use, and why.
const KEPT: [(&str, &str, &str); 9] = [
    ("unsafe", "sys", "what the compiler cannot check stays behind one door"),
    ("File::open", "sys", "block devices can only be opened read-only there"),
    ("OpenOptions", "sys", "block devices can only be opened read-only there"),
    ("fs::read", "sys", "files are read there, bounded"),
    ("fs::write", "sys", "files are written there, and only ours"),
    ("Instant::now", "clock", "elsewhere `now` is an argument"),
    ("SystemTime::now", "clock", "elsewhere `now` is an argument"),
    ("clock_gettime", "clock", "elsewhere `now` is an argument"),
    ("process::exit", "nobody", "exit codes go up to `main`"),
];

#[test]
fn imports_only_go_down() {
    let faults: Vec<String> = files()
        .iter()
        .flat_map(|file| {
            let room = file.room.clone();
            let own =
                floor(&room).unwrap_or_else(|| panic!("{}: `{room}` has no floor", file.path.display()));
            let code = file.code.clone();
            let bad = move |to: &String| *to != room && floor(to).is_none_or(|floor| floor >= own);
            imported(&code)
                .into_iter()
                .filter(bad)
                .map(|to| format!("{} imports `{to}`", file.path.display()))
        })
        .collect();
    assert!(faults.is_empty(), "not downwards:\n{}", faults.join("\n"));
}

#[test]
fn what_is_dangerous_is_done_in_one_room() {
    let mut faults = Vec::new();
    for file in files() {
        for (word, owner, why) in KEPT.iter().filter(|(_, owner, _)| *owner != file.room) {
            if says(&file.code, word) {
                faults.push(format!("{}: `{word}` is for `{owner}`: {why}", file.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_room_is_on_the_plan_that_people_read() {
    let page = fs::read_to_string("ARCHITECTURE.md").unwrap();
    let rooms: BTreeMap<String, usize> = files().iter().map(|f| (f.room.clone(), 1)).collect();
    for room in rooms.keys() {
        assert!(page.contains(&format!("`{room}`")), "ARCHITECTURE.md does not name `{room}`");
    }
}

#[test]
fn the_reader_of_code_is_not_fooled() {
    assert_eq!(imported("use crate::{io::{self, Op}, sys}; crate::clock::now()"), ["io", "sys", "clock"]);
    assert_eq!(
        production("a // unsafe\n  #[cfg(test)]\nb\n#[cfg(test)]\nmod tests { unsafe }"),
        "a \n  #[cfg(test)]\nb\n"
    );
    assert!(says("unsafe { }", "unsafe") && !says("unsafe_op_in_unsafe_fn", "unsafe"));
}

struct Source {
    path: PathBuf,
    /// The first folder or file below `src`.
    room: String,
    code: String,
}

/// All of `src` but the two crate roots and files of tests.
fn files() -> Vec<Source> {
    let mut found = Vec::new();
    collect(Path::new("src"), &mut found);
    found.sort();
    let source = |path: PathBuf| {
        let below = path.strip_prefix("src").unwrap();
        let room = below.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let code = production(&fs::read_to_string(&path).unwrap());
        Source { path, room, code }
    };
    found.into_iter().map(source).filter(|file| file.room != "lib" && file.room != "main").collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && stem != "tests" && stem != "fixture" {
            found.push(path);
        }
    }
}

fn production(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    text.lines().map(|line| format!("{}\n", line.split("//").next().unwrap_or_default())).collect()
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// The rooms named after each `crate::`, also in a group.
fn imported(code: &str) -> Vec<String> {
    let after = |at: usize| &code[at + "crate::".len()..];
    code.match_indices("crate::").flat_map(|(at, _)| first_names(after(at))).collect()
}

fn first_names(path: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut start, mut names) = (0i32, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name: &String| !name.is_empty());
    names
}

/// Whether the code has the word by itself, not as a part of a longer one.
fn says(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(part)
            && (word.ends_with("read") || word.ends_with("write") || !after.is_some_and(part))
    })
}
