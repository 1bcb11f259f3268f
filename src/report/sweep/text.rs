//! The report on a terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::facts::{self, Family};
use super::words;
use crate::probe::sweep::{CellResult, Latency, Operation, Pattern, Sweep};
use crate::report::plain;
use crate::units::figures::{count, duration, rate};

/// From this width on rates and latencies stand in one table.
const WIDE: usize = 104;
/// The longest bar of a curve.
const BAR: usize = 16;
/// Sentences are broken at this width where the terminal is wider.
const READABLE: usize = 110;

/// A sweep for people, in lines of at most `width` columns as far as paths and names allow it. Ends with a newline.
pub fn text(sweep: &Sweep, width: usize) -> String {
    let width = width.max(40);
    let mut page = Page { text: String::new(), width };
    head(&mut page, sweep);
    for family in facts::families(sweep) {
        curve(&mut page, &family);
    }
    loss(&mut page, sweep);
    load(&mut page, sweep);
    forms(&mut page, sweep);
    courses(&mut page, sweep);
    promises(&mut page, sweep);
    to_copy(&mut page, sweep);
    skipped(&mut page, sweep);
    doubts(&mut page, sweep);
    page.text
}

struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn title(&mut self, title: &str) {
        let _ = writeln!(self.text, "\n{title}");
    }

    fn pair(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            let _ = writeln!(self.text, "{key:<13}{}", plain(value));
        }
    }

    /// A sentence below a title, broken where the line ends.
    fn say(&mut self, sentence: &str) {
        let room = self.width.min(READABLE) - 4;
        let mut line = String::new();
        let mut lead = "  ";
        for word in plain(sentence).split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                let _ = writeln!(self.text, "{lead}{line}");
                (lead, line) = ("    ", String::new());
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let _ = writeln!(self.text, "{lead}{line}");
    }

    fn table(&mut self, head: &[&str], rows: Vec<Vec<String>>, left: &[usize]) {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(head.iter().copied());
        table.add_rows(rows);
        for column in (0..head.len()).filter(|at| !left.contains(at)) {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let _ = writeln!(self.text, "{}", table.trim_fmt());
    }
}

fn head(page: &mut Page, sweep: &Sweep) {
    let (target, machine) = (&sweep.target, &sweep.environment);
    let or_empty = |value: &Option<String>| value.clone().unwrap_or_default();
    page.pair("path", &target.path);
    page.pair("file system", &or_empty(&target.file_system));
    page.pair("device", &words::device(sweep));
    page.pair("product", &or_empty(&sweep.product));
    let cache = words::cache(&target.direct);
    page.pair("engine", &[target.engine.as_str(), cache].join(", "));
    page.pair("machine", &words::machine(machine));
    let preset = sweep.preset.as_ref().map_or("by hand".to_owned(), |name| format!("preset {name}"));
    page.pair("sweep", &format!("{preset}, began {}, took {:.0} s", sweep.started, sweep.seconds));
    if let Some(conditions) = words::conditions(sweep) {
        page.pair("measured", &conditions);
    }
    let settings: Vec<_> = machine.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    page.pair("settings", &settings.join(" "));
    if let Some(why) = sweep.stopped {
        page.pair("ENDED EARLY", &format!("{}; what was measured until then follows", words::stopped(why)));
    }
    if sweep.cells.is_empty() {
        page.title("No cell has a result.");
    }
}

/// Depths with their rates as bars, and latencies.
fn curve(page: &mut Page, family: &Family) {
    let first = family.cells[0];
    page.title(&format!("{}: {}", words::name(first), words::stands_for(first.pattern, first.block_size)));
    let rates =
        family.cells.iter().flat_map(|cell| shown(cell).into_iter().map(|(op, _)| rates_of(cell, op).0));
    let most = rates.fold(0.0, f64::max);
    let mixed = family.cells.iter().any(|cell| shown(cell).len() > 1);
    let wide = page.width >= WIDE;
    let key = if first.pattern == Pattern::Commit { "committers" } else { "depth" };
    let keys = [&[key][..], if mixed { &["operation"] } else { &[] }].concat();
    let (rates, times) =
        (["IOPS", "", "throughput"].as_slice(), ["mean", "stdev", "p50", "p99", "p99.9"].as_slice());
    let (mut left_rows, mut right_rows) = (Vec::new(), Vec::new());
    for cell in &family.cells {
        for (at, (operation, latency)) in shown(cell).into_iter().enumerate() {
            let mut keys = vec![if at == 0 { depth(cell) } else { String::new() }];
            if mixed {
                keys.push(operation.to_string());
            }
            let left = rate_columns(cell, operation, most);
            let right = time_columns(latency);
            match wide {
                true => left_rows.push([keys, left, right].concat()),
                false => {
                    left_rows.push([keys.clone(), left].concat());
                    right_rows.push([keys, right].concat());
                }
            }
        }
    }
    let (bar, operation) = (keys.len() + 1, if mixed { vec![1] } else { Vec::new() });
    let left = [vec![bar], operation.clone()].concat();
    if wide {
        page.table(&[&keys, rates, times].concat(), left_rows, &left);
    } else {
        page.table(&[&keys, rates].concat(), left_rows, &left);
        page.table(&[&keys, times].concat(), right_rows, &operation);
    }
}

/// A mark stands at cells that are not to be believed, or not as they are.
fn depth(cell: &CellResult) -> String {
    let mark = words::mark(cell);
    let cut = if cell.stopped.is_some() { "~" } else { "" };
    match (cell.pattern, cell.jobs) {
        (Pattern::Commit, jobs) => format!("{mark}{cut}{jobs}"),
        (_, 1) => format!("{mark}{cut}{}", cell.depth),
        (_, jobs) => format!("{mark}{cut}{jobs}x{}", cell.depth),
    }
}

fn shown(cell: &CellResult) -> Vec<(Operation, Latency)> {
    let with = |operation: Operation| Some((operation, *cell.latency_ns.get(&operation)?));
    facts::operations(cell).into_iter().filter_map(with).collect()
}

fn rate_columns(cell: &CellResult, operation: Operation, most: f64) -> Vec<String> {
    let (iops, bytes) = rates_of(cell, operation);
    vec![count(iops.round() as u64), bar(iops / most.max(f64::MIN_POSITIVE)), rate(bytes)]
}

/// Operations and bytes a second of a stream.
fn rates_of(cell: &CellResult, operation: Operation) -> (f64, f64) {
    let all = (cell.iops, cell.bytes_per_second);
    cell.streams.get(&operation).map_or(all, |stream| (stream.iops, stream.bytes_per_second))
}

/// A share as blocks, to an eighth of one.
fn bar(share: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let text = "█".repeat(eighths / 8) + PARTS[eighths % 8];
    format!("{text:<BAR$}")
}

fn time_columns(latency: Latency) -> Vec<String> {
    vec![
        duration(latency.mean.round() as u64),
        duration(latency.stdev.round() as u64),
        duration(latency.p50),
        words::or_dash(latency.p99, "-"),
        words::or_dash(latency.p999, "-"),
    ]
}

fn loss(page: &mut Page, sweep: &Sweep) {
    let losses = facts::losses(sweep);
    if losses.is_empty() {
        return;
    }
    page.title("Larger blocks, against 4KiB at the same depth:");
    for loss in losses {
        page.say(&format!(
            "{}, {}: {}; what binds: {}",
            words::name(loss.cell),
            words::place(loss.cell),
            loss.words(),
            loss.binds
        ));
    }
}

fn load(page: &mut Page, sweep: &Sweep) {
    let loaded = facts::loaded(sweep);
    if loaded.is_empty() {
        return;
    }
    page.title("Under load, against the quiet disk just before:");
    let row = |one: &facts::Loaded| {
        vec![
            format!("{}, {}", words::name(one.cell), words::place(one.cell)),
            one.operation.to_string(),
            format!("{} → {}", duration(one.quiet.p50), duration(one.loaded.p50)),
            format!("{} → {}", words::or_dash(one.quiet.p99, "-"), words::or_dash(one.loaded.p99, "-")),
            one.ratio("p99").map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        ]
    };
    let rows = loaded.iter().map(row).collect();
    page.table(&["pattern", "operation", "p50", "p99", "times"], rows, &[0, 1]);
    for one in loaded.iter().filter(|one| one.cell.pattern != Pattern::Commit) {
        if let Some(verdict) = one.verdict() {
            page.say(&format!("{}: {verdict}", words::name(one.cell)));
        }
    }
}

fn forms(page: &mut Page, sweep: &Sweep) {
    let mut rows = Vec::new();
    for family in facts::families(sweep) {
        let ends = [family.cells.first(), family.cells.last().filter(|_| family.cells.len() > 1)];
        for cell in ends.into_iter().flatten() {
            let Some(form) = facts::form(cell) else { continue };
            let at = |hump: &crate::stats::Hump| {
                format!("{} ({:.0} %)", duration(hump.at.round() as u64), hump.share * 100.0)
            };
            rows.push(vec![
                format!("{}, {}", words::name(cell), words::place(cell)),
                format!("{:.0} %", form.near * 100.0),
                form.humps.iter().map(at).collect::<Vec<_>>().join(", "),
            ]);
        }
    }
    if !rows.is_empty() {
        page.title("Shape of the latencies (share within 25 % of the median; humps with their share):");
        page.table(&["cell", "near median", "humps"], rows, &[0, 2]);
    }
}

fn courses(page: &mut Page, sweep: &Sweep) {
    let courses = facts::courses(sweep);
    let said: Vec<_> = courses.iter().filter_map(|cell| Some((cell, facts::course(cell)?))).collect();
    if !said.is_empty() {
        page.title("Over time:");
    }
    for (cell, sentence) in said {
        page.say(&format!("{}, {}: {sentence}", words::name(cell), words::place(cell)));
    }
}

fn promises(page: &mut Page, sweep: &Sweep) {
    let held = facts::held(sweep);
    if held.is_empty() {
        return;
    }
    page.title("Promised and delivered:");
    let row = |one: &facts::Held| {
        vec![
            format!("{}{}, {}", words::mark(one.cell), words::name(one.cell), words::place(one.cell)),
            one.show(one.promised),
            one.show(one.cell.iops),
            format!("{:.0} %", one.cell.iops / one.promised * 100.0),
        ]
    };
    page.table(&["best cell", "promised", "delivered", "of it"], held.iter().map(row).collect(), &[0]);
}

fn to_copy(page: &mut Page, sweep: &Sweep) {
    let Some(flushing) = facts::flushing(sweep) else { return };
    page.title("To copy (16KiB random writes, nothing else on the disk; rounded down):");
    page.say(&format!("innodb_io_capacity = {}", flushing.sustained));
    page.say(&format!("innodb_io_capacity_max = {}", flushing.peak));
    if let Some(warning) = words::of_copies(flushing.cell) {
        page.say(&warning);
    }
}

fn skipped(page: &mut Page, sweep: &Sweep) {
    let said = facts::skipped(sweep);
    if !said.is_empty() {
        page.title("Left out:");
    }
    for (message, n) in said {
        page.say(&format!("{}: {message}", words::number(n)));
    }
}

fn doubts(page: &mut Page, sweep: &Sweep) {
    const SHOWN: usize = 3;
    let doubts = facts::doubts(sweep);
    if !doubts.is_empty() {
        page.title("Not to be believed as it stands (! in the tables; * only not durable):");
    }
    for doubt in &doubts {
        page.say(&format!("{} ({}).", words::meaning(doubt.fault), doubt.fault));
        let sentences = doubt.sentences();
        for (sentence, cells) in sentences.iter().take(SHOWN) {
            page.say(&format!("  - {}: {sentence}", words::cells(cells)));
        }
        match doubt.beyond(SHOWN) {
            0 => {}
            n => page.say(&format!("  - the same of {} more; --json has them all", words::number(n))),
        }
    }
    if !sweep.cells.is_empty() {
        page.title("Checks:");
        words::checked(sweep).iter().for_each(|sentence| page.say(&format!("{sentence}.")));
    }
}
