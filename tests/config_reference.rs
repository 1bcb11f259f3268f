//! `docs/config.md` is what the keys' doc comments make of it. Rewrite it with `BLESS=1`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, with helpers")]

use std::fs;

#[test]
fn the_page_is_up_to_date() {
    let made = diskcanary::config::reference();
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all("docs").unwrap();
        fs::write("docs/config.md", &made).unwrap();
    }
    let kept = fs::read_to_string("docs/config.md").unwrap_or_default();
    assert!(kept == made, "docs/config.md is stale; run BLESS=1 cargo test --test config_reference");
}

#[test]
fn every_key_of_the_examples_is_on_the_page() {
    let page = diskcanary::config::reference();
    for entry in fs::read_dir("config").unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let below_labels = |line: &str| line.starts_with("      service") || line.contains('{');
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#') && !below_labels(line)) {
            let Some((key, _)) = line.trim_start_matches([' ', '-']).split_once(':') else { continue };
            assert!(page.contains(&format!("| `{key}` |")), "`{key}` is not on the page");
        }
    }
}
