use std::ffi::OsStr;
use std::path::PathBuf;

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_oneof, proptest};

use super::*;
use crate::io::{Wait, Wish};
use crate::probe::{Method, Profile};
use crate::units::{Bytes, Span};

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse("t.yml", text, &["job"]).map_err(|e| e.to_string())
}

#[test]
fn what_is_left_out_has_its_default() {
    let plan = parse("targets: [{name: a, path: /srv/a}]").unwrap();
    assert_eq!(plan, Plan { targets: vec![TargetPlan::at("a", PathBuf::from("/srv/a"))], discover: None });
    let target = &plan.targets[0];
    let commit = target.commit.as_ref().unwrap();
    assert_eq!((commit.profile, commit.method), (Profile::Overwrite, Method::Fdatasync));
    assert_eq!((commit.interval, commit.file_size), (Span::seconds(2), Bytes::mib(64)));
    assert!(!commit.asked_for);
    let read = target.read.as_ref().unwrap();
    assert_eq!((read.interval, read.file_size, read.wait), (Span::seconds(30), Bytes::gib(1), Wait::Sleep));
    assert_eq!((target.engine, target.reserve), (Wish::Auto, None));
}

#[test]
fn every_key_does_something() {
    let plan = parse(
        "targets:\n- name: \"q\\\"\\n日\"\n  path: /srv/with space/\n  labels: {a: b}\n  probe_dir: /p\n  engine: threads\n  \
         reserve: 2GiB\n  commit: {enabled: true, profile: postgres, method: fsync, interval: 1m, file_size: 32MiB}\n  \
         read: {enabled: true, interval: 5s, wait: spin, file_size: 128MiB}\n  \
         budget: {write_per_day: 1MiB, read_per_day: 1GiB, operations_per_second: 5}\n  spec: {baseline_iops: 240}\n",
    )
    .unwrap();
    let target = plan.targets[0].clone();
    assert_eq!(target.name, "q\"\n日");
    assert_eq!(target.path, PathBuf::from("/srv/with space/"));
    assert_eq!(target.labels["a"], "b");
    assert_eq!(target.probe_dir, Some(PathBuf::from("/p")));
    assert_eq!((target.engine, target.reserve), (Wish::Threads, Some(Bytes::gib(2))));
    let commit = CommitPlan {
        profile: Profile::Postgres,
        method: Method::Fsync,
        interval: Span::seconds(60),
        interval_asked_for: true,
        file_size: Bytes::mib(32),
        asked_for: true,
    };
    let read = ReadPlan {
        interval: Span::seconds(5),
        interval_asked_for: true,
        wait: Wait::Spin,
        file_size: Bytes::mib(128),
    };
    assert_eq!((target.commit, target.read), (Some(commit), Some(read)));
    let budget = BudgetPlan {
        write_per_day: Some(Bytes::mib(1)),
        read_per_day: Some(Bytes::gib(1)),
        operations_per_second: Some(5),
    };
    assert_eq!((target.budget, target.baseline_iops), (budget, Some(240)));
}

#[test]
fn the_method_is_the_profiles_unless_it_is_set() {
    let of = |words: &str| {
        let plan = parse(&format!("targets: [{{name: a, path: /a, commit: {{{words}}}}}]")).unwrap();
        plan.targets[0].commit.as_ref().unwrap().method
    };
    assert_eq!(of("profile: innodb"), Method::Fsync);
    assert_eq!(of("profile: innodb, method: o_dsync"), Method::ODsync);
    assert_eq!(of("profile: odsync"), Method::ODsync);
    let plan = parse("targets: [{name: a, path: /a, commit: {enabled: false}}]").unwrap();
    assert_eq!(plan.targets[0].commit, None);
}

#[test]
fn an_empty_section_is_the_default_one() {
    let plan = parse("targets: [{name: a, path: /a, read: }]").unwrap();
    assert!(plan.targets[0].read.is_some());
}

#[test]
fn the_state_directory_is_found_without_asking_the_system() {
    let at = |state: Option<&str>, home: Option<&str>, root| {
        state_directory(state.map(OsStr::new), home.map(OsStr::new), root).map(|p| p.display().to_string())
    };
    assert_eq!(at(Some("/var/lib/a:/var/lib/b"), Some("/root"), true).unwrap(), "/var/lib/a");
    assert_eq!(at(None, Some("/root"), true).unwrap(), "/var/lib/diskcanary");
    assert_eq!(at(Some(""), Some("/home/u"), false).unwrap(), "/home/u/.local/state/diskcanary");
    assert_eq!(at(Some("relative"), None, true).unwrap(), "/var/lib/diskcanary");
    assert_eq!(at(None, Some("here"), false), Err(NoStateDirectory));
    assert_eq!(at(None, None, false), Err(NoStateDirectory));
    let plan = Plan::default_for_state_dir(PathBuf::from("/var/lib/diskcanary"));
    assert_eq!(plan.targets[0].name, "default");
}

#[test]
fn aliases_that_grow_without_end_are_refused() {
    let mut text = "targets: [{name: a, path: /a}]\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (new, old) in ('b'..='z').zip('a'..='y') {
        text += &format!("{new}: &{new} [{}]\n", vec![format!("*{old}"); 9].join(", "));
    }
    assert!(parse(&text).unwrap_err().contains("repetition limit"), "{:?}", parse(&text));
}

#[test]
fn a_deep_document_is_refused() {
    let text = format!("targets: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(&text).unwrap_err().contains("brackets"));
    assert!(parse(&format!("targets: {}", "- ".repeat(300_000))).is_err());
    assert!(parse(&format!("targets:\n{}", "? ".repeat(300_000))).is_err());
    let inside = format!("targets: {}a{}", "[".repeat(199), "]".repeat(199));
    assert!(parse(&inside).unwrap_err().contains("recursion limit"), "{:?}", parse(&inside));
}

/// Fragments that reach further into the parser than noise does.
fn fragments() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "targets:",
            "name:",
            "path:",
            "commit:",
            "read:",
            "labels:",
            "interval:",
            "file_size:",
            "profile:",
            " - ",
            "\n",
            "\n  ",
            "\n    ",
            "{",
            "}",
            "[",
            "]",
            ", ",
            "/srv",
            "2s",
            "4MiB",
            "18446744073709551615GiB",
            "99999999999y",
            "&a ",
            "*a",
            "!!str ",
            "<<: *a",
            "|",
            "\"",
            "'",
            "---\n",
            "\t",
            "#",
            "~",
            "-1",
            "1e999",
            ".nan",
            "? ",
            "\0",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_fragments_make_it_panic(text in fragments()) {
        if let Err(message) = parse(&text) {
            prop_assert!(message.starts_with("t.yml") && !message.contains(char::is_control), "{message:?}");
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line(blank in 0..5usize, key in "[a-z]{12}") {
        let text = format!("targets:\n- name: a\n  path: /a\n{}  {key}: 1\n", "\n".repeat(blank));
        let message = parse(&text).unwrap_err();
        prop_assert!(message.starts_with(&format!("t.yml:{}: targets[0]: unknown key `{key}`", blank + 4)), "{message}");
    }
}
