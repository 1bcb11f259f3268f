//! What the pages say is true: their commands exist, their config is accepted, their queries parse, their links lead somewhere,
//! their metrics are ours.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads files and may fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn pages() -> Vec<(PathBuf, String)> {
    let docs = fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path());
    let own = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(PathBuf::from);
    let pages = docs.chain(own).filter(|path| path.extension().is_some_and(|e| e == "md"));
    pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The fenced blocks of one language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn diskcanary(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diskcanary")).args(arguments).output().unwrap()
}

#[test]
fn links_lead_somewhere() {
    for (page, text) in pages() {
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let file = link.split('#').next().unwrap();
            let elsewhere = file.is_empty() || file.contains("://");
            let target = page.parent().unwrap_or(Path::new("")).join(file);
            assert!(elsewhere || target.exists(), "{}: {link} leads nowhere", page.display());
        }
    }
}

#[test]
fn nothing_is_left_to_fill_in() {
    let blank = |line: &&str| line.len() > 3 && line.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    for (page, text) in pages() {
        assert_eq!(text.lines().find(blank), None, "{}", page.display());
    }
}

#[test]
fn metrics_that_are_named_are_ours() {
    let reference = fs::read_to_string("docs/metrics.md").unwrap();
    for (page, text) in pages() {
        for at in text.match_indices("diskcanary_").map(|(at, _)| at) {
            let name: String =
                text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
            let known =
                reference.contains(&format!("`{name}`")) || reference.contains(&format!("`{family}`"));
            assert!(known, "{}: {name} is not in docs/metrics.md", page.display());
        }
    }
}

#[test]
fn commands_that_are_shown_exist() {
    for (page, text) in pages() {
        let shells = ["sh", "console"].into_iter().flat_map(|language| blocks(&text, language));
        for line in shells.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()) {
            let line = line.trim_start_matches("$ ").split('#').next().unwrap().trim().to_owned();
            if let Some(arguments) = line.strip_prefix("diskcanary ") {
                let command = arguments.split_whitespace().next().unwrap();
                let help = diskcanary(&[command, "--help"]);
                assert!(help.status.success(), "{}: {line}", page.display());
                let help = String::from_utf8(help.stdout).unwrap();
                for flag in arguments.split_whitespace().filter(|word| word.starts_with("--")) {
                    let flag = flag.split('=').next().unwrap();
                    assert!(help.contains(flag), "{}: `{command}` has no {flag}", page.display());
                }
            } else if let Some(script) = line.split_whitespace().find(|word| word.ends_with("/run")) {
                assert!(Path::new(script).is_file(), "{}: {line}", page.display());
            }
        }
    }
}

#[test]
fn configs_that_are_shown_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (page, text) in pages() {
        for block in blocks(&text, "yaml").iter().filter(|block| block.starts_with("targets:")) {
            let file = folder.path().join("shown.yml");
            fs::write(&file, block).unwrap();
            let said = diskcanary(&["check", file.to_str().unwrap()]);
            assert!(said.status.success(), "{}: {said:?}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn queries_that_are_shown_parse() {
    if Command::new("promtool").arg("--version").output().is_err() {
        assert!(std::env::var_os("DISKCANARY_TESTS_STRICT").is_none(), "promtool is missing");
        println!("skipped: queries_that_are_shown_parse needs promtool");
        return;
    }
    let (mut rules, mut n) = ("groups: [{name: shown, rules: [".to_owned(), 0);
    for (_, text) in pages() {
        let queries = blocks(&text, "promql").join("\n");
        for query in queries.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            rules += &format!("{{record: 'shown:query:{n}', expr: '{query}'}}, ");
            n += 1;
        }
    }
    assert!(n > 0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(&file, rules + "]}]\n").unwrap();
    let said = Command::new("promtool").args(["check", "rules"]).arg(&file).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
