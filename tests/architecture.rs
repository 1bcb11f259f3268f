//! The building's plan, checked: a module may import only from floors strictly below its own.

#![allow(clippy::unwrap_used, reason = "a source file that cannot be read fails the test")]
#![allow(clippy::disallowed_methods, reason = "this test reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

/// Ground floor first. Modules on one floor are neighbours and may not import each other.
const FLOORS: &[&[&str]] = &[
    &["units", "clock"],
    &["sys", "stats", "spec"],
    &["io", "target", "credit", "sandbox"],
    &["probe", "device", "persist"],
    &["schedule"],
    &["record"],
    &["diagnose"],
    &["expose", "page", "report"],
    &["http"],
    &["config"],
    &["daemon"],
    &["cli"],
];

#[test]
fn imports_only_go_down() {
    let mut faults = Vec::new();
    for file in sources() {
        let Some(from) = module_of(&file) else { continue };
        let Some(from_floor) = floor_of(&from) else {
            faults.push(format!("{}: module `{from}` has no floor", file.display()));
            continue;
        };
        for (line, to) in imports(&production_code(&file)) {
            if to == from {
                continue;
            }
            match floor_of(&to) {
                Some(to_floor) if to_floor < from_floor => {}
                Some(_) => faults.push(format!("{}:{line}: `{from}` must not import `{to}`", file.display())),
                None => faults
                    .push(format!("{}:{line}: `crate::{to}` is not a module; name its home", file.display())),
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn unsafe_stays_in_sys_and_the_clock_is_read_in_clock() {
    let mut faults = Vec::new();
    for file in sources() {
        let code = production_code(&file);
        let home = module_of(&file).unwrap_or_default();
        for (word, owner) in [
            ("unsafe ", "sys"),
            ("OpenOptions", "sys"),
            ("File::open", "sys"),
            ("fs::read", "sys"),
            ("Instant::now(", "clock"),
            ("SystemTime::now(", "clock"),
        ] {
            if home != owner && code.contains(word) {
                faults.push(format!("{}: `{word}` belongs to `{owner}`", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// `src/probe/fsync.rs` and `src/probe/mod.rs` are both `probe`; the crate roots have no floor.
fn module_of(file: &Path) -> Option<String> {
    let inside = file.strip_prefix("src").ok()?;
    let first = inside.iter().next()?.to_str()?.trim_end_matches(".rs").to_owned();
    (first != "lib" && first != "main").then_some(first)
}

/// First path segment after every `crate::`, including the `crate::{a, b::c}` form.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(top_level(group).into_iter().map(|name| (line, name))),
            None => found.push((line, identifier(rest))),
        }
    }
    found
}

fn top_level(group: &str) -> Vec<String> {
    let (mut names, mut depth, mut expect) = (Vec::new(), 0usize, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expect = true,
            c if expect && (c.is_alphanumeric() || c == '_') => {
                names.push(identifier(&group[at..]));
                expect = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The file without line comments and without its `#[cfg(test)]` tail.
fn production_code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines().map(|l| l.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

fn sources() -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::from("src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
