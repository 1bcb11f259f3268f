//! The table for people.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::{Comparison, Cost, Key, NOT_JUDGED, Pair, Row};
use crate::report::plain;
use crate::units::Bytes;
use crate::units::figures::{count, duration};

/// A cell in a few words: `4KiB randread, depth 16, 4 jobs`.
pub(super) fn name(key: &Key) -> String {
    let mut text = format!("{} {}", Bytes::new(key.block_size), plain(&key.pattern));
    if let Some(method) = &key.method {
        let _ = write!(text, " by {method}");
    }
    let _ = write!(text, ", depth {}", key.depth);
    if key.jobs > 1 {
        let _ = write!(text, ", {} jobs", key.jobs);
    }
    text
}

/// The comparison as text. Ends with a newline.
pub fn table(comparison: &Comparison) -> String {
    let mut text = format!("A  {}\nB  {}\n\n", plain(&comparison.a), plain(&comparison.b));
    let _ = writeln!(text, "{}\n", cells(&comparison.cells).trim_fmt());
    let _ = writeln!(text, "{}", sum(comparison));
    if let Some(cost) = &comparison.file_system_cost {
        file_system(&mut text, cost, &comparison.cells);
    }
    for row in comparison.cells.iter().filter(|row| row.verdict == NOT_JUDGED) {
        let _ = writeln!(text, "Not judged: {} ({})", full_name(&row.key), row.faults.join(", "));
    }
    for row in comparison.cells.iter().filter(|row| row.verdict != NOT_JUDGED && !row.faults.is_empty()) {
        let (name, faults) = (full_name(&row.key), row.faults.join(", "));
        let _ = writeln!(
            text,
            "In doubt: {name} ({faults}): we lacked CPU there, so no change is put down to the disk"
        );
    }
    for (side, only) in [("A", &comparison.only_in_a), ("B", &comparison.only_in_b)] {
        if !only.is_empty() {
            let names: Vec<String> = only.iter().map(full_name).collect();
            let _ = writeln!(text, "Only in {side}: {}", names.join("; "));
        }
    }
    for note in &comparison.notes {
        let _ = writeln!(text, "Note: {}", plain(note));
    }
    text
}

fn full_name(key: &Key) -> String {
    format!("{}, {}s", name(key), key.operation)
}

fn cells(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["cell", "of", "IOPS A → B", "p50 A → B", "p99 A → B", "B is", "how sure"]);
    for row in rows {
        let nanos = |pair: &Option<Pair>| shown(pair.as_ref(), |value| duration(value as u64));
        table.add_row([
            name(&row.key),
            row.key.operation.to_string(),
            shown(row.iops.as_ref(), |value| count(value.round() as u64)),
            nanos(&row.p50_ns),
            nanos(&row.p99_ns),
            row.verdict.replace('_', " "),
            how_sure(row),
        ]);
    }
    for column in 2..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn shown(pair: Option<&Pair>, value: impl Fn(f64) -> String) -> String {
    pair.map_or_else(
        || "-".to_owned(),
        |pair| format!("{} → {} ({})", value(pair.a), value(pair.b), percent(pair.ratio)),
    )
}

/// `+12 %`, `−3.4 %`; what is more than doubled, as `× 2.3`.
fn percent(ratio: f64) -> String {
    let change = 100.0 * (ratio - 1.0);
    let digits = usize::from(change.abs() < 9.95);
    match ratio {
        ratio if ratio >= 9.95 => format!("× {ratio:.0}"),
        ratio if ratio >= 2.0 => format!("× {ratio:.1}"),
        _ if change < 0.0 => format!("−{:.digits$} %", -change),
        _ => format!("+{change:.digits$} %"),
    }
}

/// The figure that decided, between what and what its change is, and how likely chance alone would show as much.
fn how_sure(row: &Row) -> String {
    let figures = [("IOPS", &row.iops), ("p50", &row.p50_ns), ("p99", &row.p99_ns)];
    let of = |verdict: &str| {
        let all = figures.iter().filter_map(|(name, pair)| Some((*name, pair.as_ref()?)));
        all.filter(|(_, pair)| pair.verdict == verdict).min_by(|a, b| a.1.chance.total_cmp(&b.1.chance))
    };
    let Some((name, pair)) = of(row.verdict) else { return String::new() };
    let range = format!("{name} {} to {}", percent(pair.low), percent(pair.high));
    match row.verdict {
        "worse" | "better" if pair.chance < 0.0001 => format!("{range}, by chance < 0.01 %"),
        "worse" | "better" => format!("{range}, by chance {:.2} %", 100.0 * pair.chance),
        "unsure" => format!("{range}: too noisy or too short to tell"),
        _ => range,
    }
}

/// The end of the story in a sentence.
fn sum(comparison: &Comparison) -> String {
    let rows = &comparison.cells;
    let of = |verdict: &str| rows.iter().filter(|row| row.verdict == verdict).count();
    let counts: Vec<String> = ["worse", "better", "same", "unsure", NOT_JUDGED]
        .into_iter()
        .filter(|verdict| of(verdict) > 0)
        .map(|verdict| format!("{} {}", of(verdict), verdict.replace('_', " ")))
        .collect();
    let what = if rows.len() == 1 { "1 stream".to_owned() } else { format!("{} streams", rows.len()) };
    let unsure = match of("unsure") {
        0 => "",
        _ => ". Longer runs, and three rounds or more of many cells, leave fewer of them unsure",
    };
    format!("{what} of cells in both: {}{unsure}.", counts.join(", "))
}

fn file_system(text: &mut String, cost: &Cost, rows: &[Row]) {
    let kind = plain(&cost.file_system);
    let (device, files) = if cost.device_first { ("A", "B") } else { ("B", "A") };
    let disks = match cost.same_disk {
        Some(true) => "",
        Some(false) => " (but these are two disks, so that not all of it is the file system's)",
        None => " (if both are of one disk, which they do not say)",
    };
    let mut says: Vec<String> = Vec::new();
    says.extend(cost.iops_ratio.map(|ratio| format!("IOPS {}", percent(ratio))));
    says.extend(cost.p50_added_ns.map(|nanos| format!("p50 {}", added(nanos))));
    says.extend(cost.p99_added_ns.map(|nanos| format!("p99 {}", added(nanos))));
    let _ = writeln!(
        text,
        "\n{device} is the block device, {files} are files of {kind} on it{disks}: {kind} costs, as the median of {} streams, {}.",
        cost.cells,
        says.join(", ")
    );
    let sign = if cost.device_first { 1.0 } else { -1.0 };
    for row in rows {
        let (Some(iops), Some(p50)) = (&row.iops, &row.p50_ns) else { continue };
        let word = match row.verdict {
            "same" => " (no difference that counts)",
            "unsure" => " (within the noise)",
            _ => "",
        };
        let (rate, longer) = (percent(iops.ratio.powf(sign)), added(sign * (p50.b - p50.a)));
        let _ = writeln!(text, "  {}: {kind} costs IOPS {rate}, p50 {longer}{word}", full_name(&row.key));
    }
}

fn added(nanos: f64) -> String {
    let sign = if nanos < 0.0 { "−" } else { "+" };
    format!("{sign}{}", duration(nanos.abs() as u64))
}
