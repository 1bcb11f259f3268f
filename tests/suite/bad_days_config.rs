//! A config with a mistake ends with exit code 2 and a message, before anything is opened or made.

use crate::lab::{self, Need, Scratch, Strace};
use std::process::Command;

/// Runs the daemon on this config under strace; checks that it ends with 2 and never came near the target.
fn refused(keys: &str) -> String {
    let scratch = Scratch::new();
    let (target, state) = (scratch.dir("the-target"), scratch.dir("the-state"));
    let config = format!("targets:\n  - name: a\n    path: {}\n{keys}", target.display());
    let file = scratch.file("diskcanary.yaml", config);
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskcanary"));
    command.arg("run").arg(format!("--config.file={}", file.display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{}", lab::free_port()));
    command.env("STATE_DIRECTORY", &state);
    let (calls, output) = Strace::of(&command, "%file,%network");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(calls.iter().any(|call| call.arguments.contains("diskcanary.yaml")), "strace saw nothing");
    for forbidden in ["the-target", "the-state"] {
        let touched: Vec<_> = calls.iter().filter(|call| call.arguments.contains(forbidden)).collect();
        assert!(touched.is_empty(), "{touched:?}");
    }
    assert!(!calls.iter().any(|call| call.name == "bind"), "it listened");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    assert!(said.contains("diskcanary.yaml:"), "{said}");
    said
}

#[test]
fn a_key_that_is_not_known_is_named_with_the_nearest() {
    if lab::lacks(&[Need::Tool("strace")]) {
        return;
    }
    let said = refused("    iodedepth: 4\n");
    assert!(said.contains("iodedepth") && said.contains(":4"), "{said}");
    let said = refused("    read: {intervall: 2s}\n");
    assert!(said.contains("intervall") && said.contains("`interval`"), "{said}");
}

#[test]
fn a_unit_that_does_not_fit_is_named_with_those_that_do() {
    if lab::lacks(&[Need::Tool("strace")]) {
        return;
    }
    let said = refused("    commit: {interval: 2MiB}\n");
    assert!(said.contains("2MiB") && said.contains("interval"), "{said}");
    let said = refused("    commit: {file_size: 4s}\n");
    assert!(said.contains("4s") && said.contains("MiB"), "{said}");
    assert!(refused("    read: {interval: 30}\n").contains("30"));
}
