use std::ffi::OsStr;
use std::path::PathBuf;

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_oneof, proptest};

use super::*;
use crate::io::{Wait, Wish};
use crate::probe::sweep::Preset;
use crate::probe::{Method, Profile};
use crate::schedule::budget::Limit;
use crate::schedule::guard::Thresholds;
use crate::units::{Bytes, Span};

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse("t.yml", text, &["job"]).map_err(|e| e.to_string())
}

#[test]
fn what_is_left_out_has_its_default() {
    let plan = parse("targets: [{name: a, path: /srv/a}]").unwrap();
    assert_eq!(
        plan,
        Plan {
            targets: vec![TargetPlan::at("a", PathBuf::from("/srv/a"))],
            discover: None,
            memory: Bytes::mib(96)
        }
    );
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
        ..BudgetPlan::default()
    };
    assert_eq!((target.budget, target.baseline_iops), (budget, Some(240)));
}

#[test]
fn a_sweep_is_resolved_with_its_schedule_and_what_it_may_cost() {
    let text = "{targets: [{name: pgdata, path: /p, sweep: {preset: nightly, schedule: '30 3 * * *', time_zone: Asia/Shanghai, spread: 1h}, \
                budget: {write_per_day: 2GiB, sweep_write_per_day: 2GiB}}], memory: 48MiB}";
    let plan = parse(text).unwrap();
    assert_eq!(plan.memory, Bytes::mib(48));
    let target = &plan.targets[0];
    let sweep = target.sweep.as_ref().unwrap();
    assert_eq!(
        (sweep.preset, sweep.spread, sweep.guard),
        (Preset::Nightly, Span::seconds(3600), Thresholds::default())
    );
    assert_eq!(sweep.calendar.as_ref().map(|c| (c.text(), c.zone())), Some(("30 3 * * *", "Asia/Shanghai")));
    let (needs, times) = sweep.a_day(false);
    assert_eq!(times, 1);
    let [write, read] = target.sweep_limits(false);
    assert_eq!(write, Limit::Written((2u64 << 30) as f64));
    assert_eq!(read, Limit::Default(2.0 * needs.read_bytes as f64));
    assert_eq!(sweep.a_day(true).0.written_bytes, 0, "a block device is only read");
    let never = parse("targets: [{name: a, path: /p, sweep: {}}]").unwrap().targets.remove(0).sweep.unwrap();
    assert_eq!((never.calendar.clone(), never.a_day(false).1, never.preset), (None, 0, Preset::Nightly));
    assert_eq!(never.cells(false).ceiling, Some(std::time::Duration::from_millis(500)));
    assert_eq!(parse("targets: [{name: a, path: /p}]").unwrap().targets[0].sweep, None);
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
