//! Config files that ship, which must be good, and files with one mistake each, whose messages are kept beside them.
//! Rewrite the messages with `BLESS=1`, then read them as a user would.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, with helpers")]

use std::fs;
use std::path::{Path, PathBuf};

use diskcanary::config::Plan;

const RESERVED: &[&str] = &["job", "instance", "target", "le", "op", "profile", "phase"];

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no files in {folder}");
    files
}

#[test]
fn the_examples_are_good() {
    for file in yaml_files("config") {
        let plan = Plan::load(&file, RESERVED).unwrap();
        assert!(!plan.targets.is_empty(), "{}", file.display());
    }
}

#[test]
fn each_mistake_has_its_message() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut faults = Vec::new();
    for file in yaml_files("tests/config") {
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let Err(error) = Plan::parse(name, &text, RESERVED) else {
            faults.push(format!("{name} is accepted"));
            continue;
        };
        let message = format!("{error}\n");
        let kept = file.with_extension("message");
        if bless {
            fs::write(&kept, &message).unwrap();
        }
        if fs::read_to_string(&kept).unwrap_or_default() != message {
            faults.push(format!("{name} says now: {message}"));
        }
        if error.line().is_none() && !["empty.yml"].contains(&name) {
            faults.push(format!("{name}: no line in: {message}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn no_message_stands_without_its_file() {
    for entry in fs::read_dir("tests/config").unwrap() {
        let path = entry.unwrap().path();
        assert!(path.with_extension("yml").exists(), "{} has no config", path.display());
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.yml");
    let message = Plan::load(&missing, &[]).unwrap_err().to_string();
    assert!(message.ends_with("none.yml: cannot be read: ENOENT (No such file or directory)"), "{message}");
    let message = Plan::load(folder.path(), &[]).unwrap_err().to_string();
    assert!(message.contains("is not a file"), "{message}");
    assert!(Plan::load(Path::new("/dev/zero"), &[]).is_err());
    let latin = folder.path().join("latin.yml");
    fs::write(&latin, b"targets: [{name: caf\xe9, path: /srv}]").unwrap();
    assert!(Plan::load(&latin, &[]).unwrap_err().to_string().ends_with("is not UTF-8"));
    let large = folder.path().join("large.yml");
    fs::write(&large, vec![b'#'; 2 << 20]).unwrap();
    assert!(Plan::load(&large, &[]).unwrap_err().to_string().contains("larger than 1 MiB"));
}
