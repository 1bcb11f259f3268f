//! The binary as a user meets it: what it prints, and how it ends.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, with helpers")]

use std::fs;
use std::process::{Command, Output, Stdio};

fn diskcanary(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diskcanary")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// On a disk: `/tmp` may be in memory, where nothing is probed.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn every_example_passes_check_and_explain() {
    for entry in fs::read_dir("config").unwrap() {
        let file = entry.unwrap().path();
        for command in ["check", "explain"] {
            let output = diskcanary(&[command, file.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(0), "{command} {}: {output:?}", file.display());
            assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn a_bad_config_ends_with_2_and_one_line_on_standard_error() {
    for command in ["check", "explain"] {
        let output = diskcanary(&[command, "tests/config/unknown_key.yml"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let error = text(&output.stderr);
        assert!(
            error.starts_with("diskcanary: tests/config/unknown_key.yml:7: targets[0].read: "),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1);
    }
    assert_eq!(diskcanary(&["check", "none.yml"]).status.code(), Some(2));
    assert_eq!(diskcanary(&["chekc"]).status.code(), Some(2));
}

#[test]
fn check_tells_a_path_that_is_no_place_from_one_that_is_missing() {
    let folder = folder();
    let config = folder.path().join("c.yml");
    let check = |path: &str| {
        fs::write(&config, format!("targets: [{{name: a, path: {path}}}]")).unwrap();
        diskcanary(&["check", config.to_str().unwrap()])
    };
    let good = check(folder.path().to_str().unwrap());
    assert!(good.status.success() && text(&good.stdout).ends_with("c.yml is good: 1 target\n"), "{good:?}");
    let missing = check("/dev/no-such-disk");
    assert!(
        missing.status.success() && text(&missing.stdout).starts_with("warning: target `a`: "),
        "{missing:?}"
    );
    assert!(!fs::exists("/dev/no-such-disk").unwrap());
    let file = check(config.to_str().unwrap());
    assert_eq!(file.status.code(), Some(2), "{file:?}");
    assert!(text(&file.stdout).contains("is a regular file; a target is a directory"), "{file:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "check made something");
}

#[test]
fn explain_says_where_and_what_it_costs() {
    let folder = folder();
    let place = folder.path().join("with space");
    fs::create_dir(&place).unwrap();
    let config = folder.path().join("c.yml");
    fs::write(&config, format!("targets: [{{name: a, path: {:?}, read: {{interval: 1m}}}}]", place)).unwrap();
    let output = diskcanary(&["explain", config.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(
        said.contains("with space/.diskcanary: ") && said.contains("92,160 reads, 360MiB read"),
        "{said}"
    );
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn a_path_that_is_not_there_is_not_made() {
    let folder = folder();
    let missing = folder.path().join("none");
    for path in ["/dev/no-such-disk", missing.to_str().unwrap()] {
        for command in ["probe", "clean"] {
            let output = diskcanary(&[command, path]);
            assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
            let error = text(&output.stderr);
            assert!(output.stdout.is_empty() && error.contains("does not exist"), "{error}");
            assert!(!fs::exists(path).unwrap(), "{command} made {path}");
        }
    }
    for command in ["probe", "clean"] {
        let output = diskcanary(&[command, "/dev/null"]);
        assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
        assert!(text(&output.stderr).contains("is a character device"), "{output:?}");
    }
}

#[test]
fn a_sweep_that_cannot_be_is_refused_in_one_line_and_leaves_nothing() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    for (flags, says) in [
        (&["--preset=nitely"][..], "a similar value exists: 'nightly'"),
        (&["--pattern=randred"], "a similar value exists: 'randread'"),
        (&["--seconds=1", "--warm-up=2s"], "a warm-up of 2s is not shorter than the 1s"),
        (&["--block-size=1000B"], "multiple of 512B"),
        (&["--depth=4096", "--jobs=64"], "of buffers, and `--memory` allows"),
        (&["--pattern=randwrite", "--seconds=20m"], "say `--yes` to more than 10GiB"),
        (&["--file-size=100000GiB"], "at most half of what is free"),
        (&["--json=none/a.json"], "none/a.json: its directory cannot be opened"),
        (&["--html=/dev/null"], "no regular file"),
        (&["--preset=quick", "--depth=4"], "has its own patterns"),
        (&["--method=fsync"], "patterns that commit"),
    ] {
        let output = diskcanary(&[&["sweep", path], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {output:?}");
        let error = text(&output.stderr);
        assert!(output.stdout.is_empty() && error.contains(says), "{flags:?}: {error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{flags:?} left something");
    }
    let output = diskcanary(&["sweep", "/var/tmp/no-such-place"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("does not exist"), "{output:?}");
}

#[test]
fn clean_leaves_alone_what_is_not_ours() {
    let folder = folder();
    let theirs = folder.path().join(".diskcanary");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("letters.txt"), "dear").unwrap();
    for command in ["clean", "probe"] {
        let output = diskcanary(&[command, folder.path().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("is not ours"), "{output:?}");
    }
    assert_eq!(fs::read_to_string(theirs.join("letters.txt")).unwrap(), "dear");
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
}

#[test]
fn version_and_help_go_to_standard_output() {
    let version = diskcanary(&["--version"]);
    assert!(version.status.success() && text(&version.stdout).starts_with("diskcanary 0."), "{version:?}");
    let help = diskcanary(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("explain"), "{help:?}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_diskcanary"))
        .args(["explain", "config/postgresql.yml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!text(&output.stderr).contains("panicked"), "{output:?}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn compare_ends_with_2_and_one_line_when_it_cannot() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    let fio = |error: u32, percentiles: &str, bs: &str| {
        format!(
            "{{\"fio version\": \"fio-3.33\", \"jobs\": [{{\"jobname\": \"j\", \"error\": {error}, \"job options\": {{\"rw\": \
             \"randread\", \"bs\": \"{bs}\"}}, \"read\": {{\"total_ios\": 9000, \"iops\": 900.0, \"runtime\": 10000, \"lat_ns\": \
             {{\"percentile\": {percentiles}}}}}}}]}}"
        )
    };
    let percentiles = "{\"50.000000\": 1000, \"99.000000\": 4000}";
    write("good", &fio(0, percentiles, "4k"));
    write("failed", &fio(5, percentiles, "4k"));
    write("bare", &fio(0, "{}", "4k"));
    write("other", &fio(0, percentiles, "8k"));
    write("text", "not JSON");
    write("foreign", "{\"a\": 1}");
    write("newer", "{\"schema_version\": 99, \"cells\": []}");
    write("half", &fio(0, percentiles, "4k")[..200]);
    fs::write(path("binary"), [0xff, 0xfe]).unwrap();
    // Larger than any result, and takes no space.
    fs::File::create(path("huge")).unwrap().set_len(100 << 30).unwrap();
    let cases = [
        (
            "text",
            "is not JSON, so neither a result of `diskcanary sweep --json` nor one of `fio --output-format=json`",
        ),
        ("foreign", "is neither a result of `diskcanary sweep --json` nor one of `fio --output-format=json`"),
        (
            "newer",
            "is of schema version 99, and this diskcanary reads 1: compare with the diskcanary that wrote it",
        ),
        ("half", "is not whole JSON"),
        (
            "failed",
            "job `j` of fio failed (EIO (Input/output error)): what it measured is not whole; run it again",
        ),
        ("bare", "job `j` has no percentiles: run fio without `--clat_percentiles=0`"),
        ("other", "no cell is in both: "),
        ("binary", "is no text, so it is no JSON"),
        ("huge", "is larger than 64MiB, so it is no result of a sweep"),
        ("missing", "cannot be read: ENOENT (No such file or directory)"),
        (".", "cannot be read: EISDIR (Is a directory)"),
    ];
    let good = path("good");
    for (name, message) in cases {
        let bad = path(name);
        for arguments in [[bad.as_str(), &good], [&good, bad.as_str()]] {
            let output = diskcanary(&["compare", arguments[0], arguments[1]]);
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
            assert!(output.stdout.is_empty() && error.lines().count() == 1, "{name}: {output:?}");
            assert!(error.contains(message) && error.contains(&bad), "{name}: {error}");
        }
    }
}

#[test]
fn compare_ends_with_1_when_something_is_worse_and_its_json_says_what() {
    let folder = folder();
    let write = |name: &str, iops: f64| {
        let file = folder.path().join(name).display().to_string();
        let text = format!(
            "fio: some words before\n{{\"fio version\": \"fio-3.33\", \"jobs\": [{{\"jobname\": \"j\", \"error\": 0, \"job options\": \
             {{\"rw\": \"randread\"}}, \"read\": {{\"total_ios\": 9000, \"iops\": {iops}, \"runtime\": 10000, \"iops_mean\": {iops}, \
             \"iops_stddev\": 5, \"iops_samples\": 20, \"lat_ns\": {{\"percentile\": {{\"1.0\": 900, \"50.000000\": 1000, \
             \"99.000000\": 4000}}}}}}}}]}}"
        );
        fs::write(&file, text).unwrap();
        file
    };
    let (quick, slow) = (write("quick", 1000.0), write("slow", 500.0));
    let code = |a: &str, b: &str| diskcanary(&["compare", a, b]).status.code();
    assert_eq!((code(&quick, &slow), code(&slow, &quick), code(&quick, &quick)), (Some(1), Some(0), Some(0)));
    let output = diskcanary(&["compare", "--json", &quick, &slow]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((&json["verdict"], &json["cells"][0]["iops"]["verdict"]), (&"worse".into(), &"worse".into()));
    assert_eq!(
        (
            &json["cells"][0]["pattern"],
            &json["cells"][0]["iops"]["ratio"].as_f64().map(|r| (r * 10.0).round())
        ),
        (&"randread".into(), &Some(5.0))
    );
    let table = diskcanary(&["compare", &quick, &slow]);
    assert!(text(&table.stdout).contains("1,000 → 500 (−50 %)"), "{}", text(&table.stdout));
}
