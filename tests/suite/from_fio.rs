//! What docs/from-fio.md says: each line of fio and the line of ours beside it do the same to one disk.

use crate::lab::{Need, lacks};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Times that both are run, in turn; so often again, up to three times, where the median does not agree: what is another cell is so
/// each time, and what the machine does passes.
const TURNS: usize = 3;
const MOST_TURNS: usize = 3 * TURNS;
/// On a shared machine fio differs from itself by up to this factor in runs of a second. A cell at another depth, block size or
/// pattern differs by more.
const NOISE: f64 = 2.0;

#[test]
fn the_lines_beside_fio_measure_the_same() {
    if lacks(&[Need::Root, Need::Tool("fio")]) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut wrong = Vec::new();
    let blocks = blocks();
    assert_eq!(blocks.len(), 7, "docs/from-fio.md has lost lines");
    for [theirs, ours] in &blocks {
        let (mut turns, mut apart) = (Vec::new(), Vec::new());
        while turns.is_empty() || (!apart.is_empty() && turns.len() < MOST_TURNS) {
            turns.extend((0..TURNS).map(|_| turn(theirs, ours, folder.path())));
            apart = apart_by_more_than_noise(&turns);
        }
        let streams = turns[0]["cells"].as_array().unwrap().len();
        assert_eq!(streams, if theirs.contains("rwmixread") { 2 } else { 1 }, "{theirs}");
        wrong.extend(apart.into_iter().map(|ratios| format!("{ours}: {ratios:.2?}")));
    }
    assert!(wrong.is_empty(), "IOPS ours ÷ fio's:\n{}", wrong.join("\n"));
}

/// Of each stream whose median ratio of IOPS, ours to fio's, is off: all ratios, sorted.
fn apart_by_more_than_noise(turns: &[Value]) -> Vec<Vec<f64>> {
    let streams = turns[0]["cells"].as_array().unwrap().len();
    let ratios = |stream: usize| {
        let of = |turn: &Value| turn["cells"][stream]["iops"]["ratio"].as_f64().unwrap();
        let mut ratios: Vec<f64> = turns.iter().map(of).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    };
    let is_apart = |ratios: &Vec<f64>| !(1.0 / NOISE..NOISE).contains(&ratios[ratios.len() / 2]);
    (0..streams).map(ratios).filter(is_apart).collect()
}

/// The lines of each block that has both, fio's first.
fn blocks() -> Vec<[String; 2]> {
    let page = fs::read_to_string("docs/from-fio.md").unwrap();
    let of = |block: &str| {
        let line = |begin: &str| block.lines().find(|line| line.starts_with(begin)).map(str::to_owned);
        Some([line("fio ")?, line("diskcanary sweep ")?])
    };
    page.split("```sh\n").skip(1).filter_map(|rest| of(rest.split("```").next().unwrap())).collect()
}

/// Runs both for a second, and compares them.
fn turn(theirs: &str, ours: &str, folder: &Path) -> Value {
    let theirs =
        shortened(theirs, folder, &[("--runtime=", "1"), ("--ramp_time=", "0"), ("--size=", "256M")]);
    run(Command::new("fio").args(&theirs[1..]).current_dir(folder), 0);
    let mut ours = shortened(ours, folder, &[]);
    for (flag, value) in [("--seconds", "1"), ("--warm-up", "100ms"), ("--file-size", "256MiB")] {
        let at = ours.iter().position(|word| word == flag).unwrap();
        ours[at + 1] = value.to_owned();
    }
    let diskcanary = env!("CARGO_BIN_EXE_diskcanary");
    run(Command::new(diskcanary).args(&ours[1..]).arg("--keep").current_dir(folder), 0);
    let compare = ["compare", "fio.json", "ours.json", "--json"];
    let output = Command::new(diskcanary).args(compare).current_dir(folder).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The words of a line, on the disk of `folder` and with other values.
fn shortened(line: &str, folder: &Path, values: &[(&str, &str)]) -> Vec<String> {
    let word = |word: &str| {
        let other = values.iter().find(|(flag, _)| word.starts_with(flag));
        other.map_or_else(
            || word.replace("/data", folder.to_str().unwrap()),
            |(flag, value)| format!("{flag}{value}"),
        )
    };
    line.split_whitespace().map(word).collect()
}

fn run(command: &mut Command, code: i32) {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {output:?}");
}
