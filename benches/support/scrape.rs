//! What the benches of `/metrics` leave behind, JSON lines: how long the text takes to write, and how long a scrape takes to be
//! answered; and the section of docs/performance.md that is made from them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::cost::Run;

/// One line of the raw output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line: what was run where.
    Run(Run),
    /// The text, written many times without HTTP.
    Text(Text),
    /// Scrapes of a daemon, one after the other.
    Answers(Answers),
}

/// The text, written many times without HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Text {
    /// In the books.
    pub targets: usize,
    /// Lines with a value.
    pub series: usize,
    /// Of the text.
    pub bytes: usize,
    /// How often it was written.
    pub times: usize,
    /// Microseconds: the least.
    pub least: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// Scrapes of a daemon, one after the other, from connect to the last byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// In the daemon.
    pub targets: usize,
    /// Of them, on a disk that does not answer.
    pub hung: usize,
    /// Other programs that want a CPU all the time.
    pub busy: usize,
    /// From the begin of a scrape to that of the next, in milliseconds.
    pub every: u64,
    /// How many.
    pub scrapes: usize,
    /// Of the last text.
    pub bytes: usize,
    /// Milliseconds: the median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The most.
    pub most: f64,
}

/// Milliseconds within which 99 of 100 scrapes are to be answered on a busy machine.
const GOAL: f64 = 50.0;

/// The value at a share of the sorted values, by nearest rank; 0 where there is none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The lines of a raw file.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let line = |(i, text)| serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1));
    text.lines().enumerate().filter(|(_, text)| !text.is_empty()).map(line).collect()
}

/// The section on scrapes, from the lines of both benches.
pub fn section(texts: &[Line], answers: &[Line]) -> String {
    let mut page = String::from("## Scrapes\n");
    part(&mut page, "exposition", texts);
    part(&mut page, "scrape", answers);
    page
}

fn part(page: &mut String, bench: &str, lines: &[Line]) {
    let mut last = None;
    for line in lines {
        let kind = std::mem::discriminant(line);
        match line {
            Line::Run(run) => conditions(page, bench, run),
            Line::Text(text) => {
                if last != Some(kind) {
                    page.push_str(TEXT_HEAD);
                }
                text_row(page, text);
            }
            Line::Answers(answers) => {
                if last != Some(kind) {
                    page.push_str(ANSWERS_HEAD);
                }
                answers_row(page, answers);
            }
        }
        last = Some(kind);
    }
}

const TEXT_HEAD: &str = "\nHow long the text of `/metrics` takes to write, without HTTP, from the books of an hour at default \
    intervals:\n\n\
    | targets | series | KiB | times | least µs | p50 µs | p99 µs |\n|--:|--:|--:|--:|--:|--:|--:|\n";

const ANSWERS_HEAD: &str = "\nHow long a scrape takes over loopback, from connect to the last byte, each on a connection of its own, \
    with a target among them whose disk answers nothing (all writes, syncs, reads and opens hang). *Busy* programs want a CPU \
    all the time. The goal is a p99 of 50 ms on a busy machine:\n\n\
    | targets | hung | busy programs | scrapes | every | KiB | p50 ms | p99 ms | most ms | |\n\
    |--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n";

fn conditions(page: &mut String, bench: &str, run: &Run) {
    let Run { commit, date, kernel, cpu, cpus, build, load } = run;
    let _ = writeln!(
        page,
        "\n`cargo bench --bench {bench} -- --output docs/data/{bench}.jsonl`: commit {commit} ({build} build), {date}, Linux \
         {kernel}, {cpus} × {cpu}, load average {load} before."
    );
}

fn text_row(page: &mut String, text: &Text) {
    let Text { targets, series, bytes, times, least, p50, p99 } = text;
    let kib = bytes / 1024;
    let _ = writeln!(page, "| {targets} | {series} | {kib} | {times} | {least:.0} | {p50:.0} | {p99:.0} |");
}

fn answers_row(page: &mut String, answers: &Answers) {
    let Answers { targets, hung, busy, every, scrapes, bytes, p50, p99, most } = answers;
    let kib = bytes / 1024;
    let verdict = match (*busy > 0, *p99 <= GOAL) {
        (false, _) => "",
        (true, true) => "within",
        (true, false) => "**longer than the goal**",
    };
    let _ = writeln!(
        page,
        "| {targets} | {hung} | {busy} | {scrapes} | {every} ms | {kib} | {p50:.2} | {p99:.2} | {most:.2} | {verdict} |"
    );
}
