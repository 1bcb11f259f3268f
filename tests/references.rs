//! Documents that are made from code are what the code says now. `BLESS=1` writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

use std::fs;
use std::path::Path;

#[test]
fn metrics() {
    same("docs/metrics.md", &diskcanary::expose::reference());
}

#[test]
fn commands() {
    same("docs/commands.md", &diskcanary::cli::reference());
}

#[test]
fn schema_of_probe() {
    same("docs/probe.schema.json", &diskcanary::report::probe::schema());
}

#[test]
fn schema_of_sweeps() {
    same("docs/sweep.schema.json", &diskcanary::report::sweep::schema());
}

#[test]
fn presets_of_sweeps() {
    let page = fs::read_to_string("docs/sweeps.md").unwrap();
    let (begin, end) = ("<!-- presets: made from the code -->\n", "<!-- end of presets -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    same("docs/sweeps.md", &format!("{before}{begin}{}{end}{after}", diskcanary::report::sweep::presets()));
}

fn same(path: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, made).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    let line = found.lines().zip(made.lines()).position(|(a, b)| a != b);
    let line = line.unwrap_or_else(|| found.lines().count().min(made.lines().count())) + 1;
    assert!(
        found == made,
        "{path} differs from the code in line {line}; write it anew with BLESS=1 cargo test --test references"
    );
}
