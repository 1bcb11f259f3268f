//! The presets as a table for a page.

use std::fmt::Write;
use std::time::Duration;

use crate::probe::sweep::{Cell, Ladder, Pattern, Preset, WarmUp};
use crate::units::{Bytes, Span};

/// What each preset runs, in Markdown, made from their rows.
pub fn presets() -> String {
    let mut text = String::from(
        "| preset | for | cells | a cell takes | rounds | at most in all |\n|---|---|---|---|---|---|\n",
    );
    for preset in Preset::ALL {
        let row = preset.row();
        let cells: usize = row.ladders.iter().map(|ladder| ladder.cells.len()).sum();
        let all: Duration = row.ladders.iter().map(|ladder| time(ladder) * u32::from(row.rounds)).sum();
        let mut each: Vec<String> = row.ladders.iter().map(cell_takes).collect();
        each.dedup();
        let _ = writeln!(
            text,
            "| `{preset}` | {} | {cells} | {} | {} | {} |",
            row.purpose,
            each.join("; "),
            row.rounds,
            Span::from(all)
        );
    }
    for preset in Preset::ALL {
        let lines: Vec<_> = preset.row().ladders.iter().map(ladder).collect();
        let _ = write!(text, "\n`{preset}`: {}.\n", lines.join("; "));
    }
    text
}

fn time(ladder: &Ladder) -> Duration {
    let one = |at: usize| match ladder.limits_of(at).warm_up {
        WarmUp::Time(time) => ladder.limits.time + time,
        WarmUp::Completions(_) => ladder.limits.time,
    };
    (0..ladder.cells.len()).map(one).sum()
}

fn cell_takes(ladder: &Ladder) -> String {
    let limits = ladder.limits;
    let mut ends = Vec::new();
    ends.extend(limits.operations.map(|n| format!("{n} operations")));
    ends.extend(limits.bytes.map(|bytes| Bytes::new(bytes).to_string()));
    ends.push(Span::from(limits.time).to_string());
    let warm_up = |warm_up| match warm_up {
        WarmUp::Time(time) => Span::from(time).to_string(),
        WarmUp::Completions(each) => format!("{each} completions for each operation outstanding"),
    };
    let rest = ladder.rest_warm_up.map(|rest| format!(", its deeper cells after {}", warm_up(rest)));
    format!("{} after {} of warm-up{}", ends.join(" or "), warm_up(limits.warm_up), rest.unwrap_or_default())
}

fn ladder(ladder: &Ladder) -> String {
    let Some(first) = ladder.cells.first() else { return String::new() };
    let commits = first.pattern == Pattern::Commit;
    let steps: Vec<_> =
        ladder.cells.iter().map(|cell: &Cell| if commits { cell.jobs } else { cell.depth }).collect();
    let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
    let method = first.method.filter(|_| commits).map(|method| format!(" by {method}")).unwrap_or_default();
    let what = if commits { "committers" } else { "depth" };
    format!("{} {}{method}, {what} {}", Bytes::new(first.block_size.into()), first.pattern, steps.join(" "))
}
