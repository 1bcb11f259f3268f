//! The table for people.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use crate::probe::{Invalid, Outcome, Verdict};
use crate::report::figures::{count, duration};
use crate::report::plain;
use crate::report::summary::{self, Bursts, Commits, Figures};
use crate::units::Bytes;

use super::Subject;

/// Runs as text; a quantile that too few samples cannot tell is `-`. Ends with a newline.
pub fn table(subject: &Subject, commits: &[Outcome], reads: &[Outcome]) -> String {
    let mut text = head(subject);
    let all: Vec<&Outcome> = commits.iter().chain(reads).collect();
    let latencies = latencies(commits, reads);
    let shown = if latencies.is_empty() { "no samples".to_owned() } else { latencies.trim_fmt() };
    let _ = writeln!(text, "\n{shown}\n");
    if let Some(burst) = Bursts::of(reads) {
        let _ = writeln!(
            text,
            "Random reads of {} at depth {}: {} IOPS{}",
            Bytes::new(burst.block_size.into()),
            burst.depth,
            count(burst.iops_p50 as u64),
            match burst.bursts {
                1 => String::new(),
                n => format!(
                    " (median of {n} bursts, {} to {})",
                    count(burst.iops_min as u64),
                    count(burst.iops_max as u64)
                ),
            },
        );
    }
    if let Some(each) = commits.iter().rev().find_map(|run| run.per_commit) {
        let _ = writeln!(
            text,
            "A commit costs the device {:.1} writes, {:.1} flushes, {} (whatever else wrote then is in it)",
            each.writes,
            each.flushes,
            Bytes::new(each.bytes as u64),
        );
    }
    truth(&mut text, &all);
    errors(&mut text, &all);
    text
}

fn head(subject: &Subject) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{key:<12}{}", plain(value));
        }
    };
    let or_empty = |value: &Option<String>| value.clone().unwrap_or_default();
    line("path", &subject.path);
    line("files", &or_empty(&subject.files));
    line("file system", &or_empty(&subject.file_system));
    let model = subject.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
    line("device", &subject.device.as_ref().map(|device| format!("{device}{model}")).unwrap_or_default());
    if let Some((profile, method)) = subject.commit {
        let row = profile.row();
        let way = if row.direct { "direct" } else { "buffered" };
        let size = Bytes::new(row.block_size.into());
        line("commits", &format!("profile {profile}: {size}, {way}, {method}"));
    }
    if let Some(engine) = &subject.engine {
        let reason = subject.engine_reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let cache = match subject.direct.as_deref() {
            Some("true") => ", past the page cache",
            Some("false") => ", through the page cache, which is dropped before each run",
            Some(_) => ", the page cache answers in spite of direct I/O",
            None => "",
        };
        line("reads", &format!("engine {engine}{reason}{cache}"));
    }
    text
}

fn latencies(commits: &[Outcome], reads: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["operation", "phase", "samples", "min", "p50", "p90", "p99", "max"]);
    let found = Commits::of(commits);
    let rows = [
        ("write", found.write),
        ("sync", found.sync),
        ("commit", found.commit),
        ("read", summary::reads(reads)),
    ];
    for (operation, by_phase) in rows {
        for (phase, figures) in by_phase.each() {
            let mut row = vec![operation.to_owned(), phase.to_string()];
            row.extend(cells(&figures));
            table.add_row(row);
        }
    }
    for column in 2..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(figures: &Figures) -> [String; 6] {
    [
        count(figures.samples as u64),
        duration(figures.min),
        duration(figures.p50),
        duration(figures.p90),
        figures.p99.map_or_else(|| "-".to_owned(), duration),
        duration(figures.max),
    ]
}

/// Faults that hold, then what could not be told. Silence would look like a clean bill.
fn truth(text: &mut String, runs: &[&Outcome]) {
    let checks = summary::checks(runs);
    for (verdict, title) in
        [(Verdict::Holds, "Not to be trusted:"), (Verdict::Unknown, "Could not be checked:")]
    {
        let of: Vec<_> = checks.iter().filter(|check| check.verdict == verdict).collect();
        if of.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{title}");
        for check in of {
            let why = if check.evidence.is_empty() { "no reason given" } else { &check.evidence };
            let _ = writeln!(text, "  {} ({}): {}", check.fault, check.probe, plain(why));
        }
    }
    let notes = checks.iter().filter(|c| c.verdict == Verdict::Fine && !c.evidence.is_empty());
    for check in notes {
        let _ = writeln!(text, "\nNote: {}", plain(&check.evidence));
    }
    let fine: Vec<_> = checks
        .iter()
        .filter(|c| c.verdict == Verdict::Fine)
        .map(|c| format!("{} ({})", c.fault, c.probe))
        .collect();
    if !fine.is_empty() {
        let _ = writeln!(text, "\nChecked and fine: {}", fine.join(", "));
    }
    for (probe, reason, n) in summary::invalid(runs) {
        let _ = writeln!(text, "Left out of the {probe} figures: {} ({reason}: {})", count(n), why(reason));
    }
}

/// Why an operation says nothing of the disk, and what would help.
fn why(reason: Invalid) -> &'static str {
    match reason {
        Invalid::Starved => {
            "we waited for a CPU then, so their time is not the disk's; try again when the machine is less busy"
        }
        Invalid::ShortIo => "fewer bytes moved than asked for",
        Invalid::Corruption => "the bytes read are not those written",
        Invalid::Clock => "the clock did not move",
    }
}

fn errors(text: &mut String, runs: &[&Outcome]) {
    for (probe, failure, n) in summary::failures(runs) {
        let times = if n == 1 { String::new() } else { format!(" ({n} runs)") };
        let _ = writeln!(
            text,
            "\nThe {probe} probe failed at {}{times}: {}: {}",
            failure.stage,
            failure.errno,
            plain(&failure.message)
        );
    }
}
