//! The report as one page that needs nothing from elsewhere: no script, no font, no picture.

mod card;
mod chart;
mod scale;

use std::fmt::Write;

use super::facts::{self, Asked, Headline, Loaded};
use super::words;
use crate::probe::sweep::{CellResult, Pattern, Sweep, SweepFault};
use crate::units::figures::{count, duration, rate};
use crate::units::{Bytes, Escaped};
use card::{cells_table, course, family};
use chart::{Bar, bars};

const STYLE: &str = include_str!("html/style.css");
/// A page that is sent around must not call home, whatever is in it.
const POLICY: &str = include_str!("html/policy.txt");

/// A sweep as one self-contained page.
pub fn html(sweep: &Sweep) -> String {
    let name = Escaped(&sweep.target.path);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" \
         content=\"{POLICY}\"><meta name=\"viewport\" content=\"width=device-width\"><link rel=\"icon\" href=\"data:,\">\
         <title>Disk sweep of {name}</title><style>{STYLE}</style></head><body><header><h1>Disk sweep of {name}</h1>"
    );
    head(&mut page, sweep);
    page.push_str("</header><main>");
    tiles(&mut page, sweep);
    doubts(&mut page, sweep);
    promises(&mut page, sweep);
    let (alone, families): (Vec<_>, Vec<_>) =
        facts::families(sweep).into_iter().partition(|family| family.cells.len() == 1);
    families.iter().for_each(|one| family(&mut page, one));
    singles(&mut page, sweep, &alone.iter().map(|one| one.cells[0]).collect::<Vec<_>>());
    loaded(&mut page, &facts::loaded(sweep));
    courses(&mut page, sweep);
    to_copy(&mut page, sweep);
    skipped(&mut page, sweep);
    conditions(&mut page, sweep);
    page.push_str("</main></body></html>\n");
    page
}

fn section(page: &mut String, title: &str, body: &str) {
    if !body.is_empty() {
        let _ = write!(page, "<section><h2>{}</h2>{body}</section>", Escaped(title));
    }
}

fn head(page: &mut String, sweep: &Sweep) {
    let preset = sweep.preset.as_ref().map_or("by hand".to_owned(), |name| format!("preset {name}"));
    let parts = [
        words::device(sweep),
        sweep.target.file_system.clone().unwrap_or_default(),
        sweep.product.clone().unwrap_or_default(),
        preset,
        sweep.started.replace('T', " ").replace('Z', " UTC"),
        format!("took {}", span(sweep.seconds)),
    ];
    let parts: Vec<_> = parts
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| format!("<span>{}</span>", Escaped(part)))
        .collect();
    let _ = write!(page, "<p class=\"dim facts\">{}</p>", parts.join(" · "));
    if let Some(why) = sweep.stopped {
        let _ = write!(
            page,
            "<p><b>Ended early: {}.</b> What was measured until then follows.</p>",
            words::stopped(why)
        );
    }
}

fn span(seconds: f64) -> String {
    match seconds.round() as u64 {
        short if short < 120 => format!("{short} s"),
        long if long < 7200 => format!("{} min {} s", long / 60, long % 60),
        long => format!("{} h {} min", long / 3600, long % 3600 / 60),
    }
}

/// The figures that people ask for first.
fn tiles(page: &mut String, sweep: &Sweep) {
    let mut tile = String::new();
    for Headline { name, cell, of } in facts::headlines(sweep) {
        let latency = facts::latency(cell).copied().unwrap_or_default();
        let size = Bytes::new(cell.block_size.into());
        let (value, beside) = match of {
            Asked::Iops => (format!("{} IOPS", count(cell.iops.round() as u64)), place(&size, cell)),
            Asked::Throughput => (rate(cell.bytes_per_second), place(&size, cell)),
            Asked::Latency => {
                let p99 = latency.p99.map(|p99| format!("p50; p99 {}", duration(p99)));
                (duration(latency.p50), p99.unwrap_or_else(|| "p50".to_owned()))
            }
        };
        let doubt = words::doubt(cell).map(|doubt| format!("; {doubt}")).unwrap_or_default();
        let class = if doubt.is_empty() { "" } else { " class=\"doubt\"" };
        let _ = write!(
            tile,
            "<div{class}><dt>{name}</dt><dd class=\"big\">{value}</dd><dd><small>{}{doubt}</small></dd></div>",
            Escaped(&beside)
        );
    }
    if !tile.is_empty() {
        let _ = write!(page, "<section><dl class=\"tiles\">{tile}</dl></section>");
    }
}

fn place(size: &Bytes, cell: &CellResult) -> String {
    format!("{size}, {}", words::place(cell))
}

fn doubts(page: &mut String, sweep: &Sweep) {
    const SHOWN: usize = 4;
    let doubts = facts::doubts(sweep);
    let said = match sweep.cells.is_empty() {
        true => "No cell has a result.".to_owned(),
        false => words::checked(sweep).iter().map(|sentence| format!("{sentence}. ")).collect(),
    };
    if doubts.is_empty() {
        let _ = write!(page, "<section><p>{}</p></section>", said.trim_end());
        return;
    }
    // Whoever measures writes on such a disk has this on every one of them: that is no alarm.
    let mild = doubts.iter().all(|doubt| doubt.fault == SweepFault::VolatileCache);
    page.push_str(match mild {
        true => "<section><h2>To be read with care</h2>",
        false => "<section class=\"bad\"><h2>Not to be believed as it stands</h2>",
    });
    for doubt in &doubts {
        let _ = write!(
            page,
            "<h3>{}.</h3><p class=\"dim\"><code>{}</code> in {} of {} cells</p><ul>",
            words::meaning(doubt.fault),
            doubt.fault,
            doubt.cells.len(),
            sweep.cells.len()
        );
        let sentences = doubt.sentences();
        for (sentence, cells) in sentences.iter().take(SHOWN) {
            let at = format!("{}: {sentence}", words::cells(cells));
            let _ = write!(page, "<li>{}</li>", Escaped(&at));
        }
        page.push_str("</ul>");
        let left = doubt.beyond(SHOWN);
        if left > 0 {
            let _ = write!(
                page,
                "<p class=\"dim\">The same of {} more; the tables mark such cells with an exclamation mark.</p>",
                words::number(left)
            );
        }
    }
    let _ = write!(page, "<p class=\"dim\">{}</p></section>", said.trim_end());
}

fn promises(page: &mut String, sweep: &Sweep) {
    let held = facts::held(sweep);
    if held.is_empty() {
        return;
    }
    let mut body = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th>Best cell</th><th>Promised</th><th>Delivered</th>\
         <th>Of it</th></tr></thead><tbody>",
    );
    for one in &held {
        let doubt = words::doubt(one.cell).map(|doubt| format!(" ({doubt})")).unwrap_or_default();
        let _ = write!(
            body,
            "<tr><td>{}, {}{doubt}</td><td>{}</td><td>{}</td><td>{:.0} %</td></tr>",
            words::name(one.cell),
            words::place(one.cell),
            one.show(one.promised),
            one.show(one.cell.iops),
            one.cell.iops / one.promised * 100.0
        );
    }
    body.push_str("</tbody></table></div>");
    section(page, "Promised and delivered", &body);
}

/// Cells without a ladder: other block sizes, mixes.
fn singles(page: &mut String, sweep: &Sweep, cells: &[&CellResult]) {
    if cells.is_empty() {
        return;
    }
    let mut body = String::from("<ul>");
    for cell in cells {
        let _ = write!(
            body,
            "<li>{}: {}</li>",
            words::name(cell),
            words::stands_for(cell.pattern, cell.block_size)
        );
    }
    for loss in facts::losses(sweep) {
        let _ = write!(
            body,
            "<li>{}, {}: {} than with 4 KiB; what binds: {}</li>",
            words::name(loss.cell),
            words::place(loss.cell),
            loss.words(),
            loss.binds
        );
    }
    body.push_str("</ul>");
    body.push_str(&cells_table(cells, true));
    section(page, "Other sizes and mixes", &body);
}

fn loaded(page: &mut String, loaded: &[Loaded]) {
    let shown: Vec<_> =
        loaded.iter().filter(|one| one.loaded.p99.is_some() && one.quiet.p99.is_some()).collect();
    if shown.is_empty() {
        return;
    }
    let bar = |before: &str, p99: Option<u64>, times: Option<f64>, colour| {
        let nanos = p99.unwrap_or(0);
        let times = times.map(|times| format!(" ({times:.2}×)")).unwrap_or_default();
        Bar {
            before: before.into(),
            after: format!("{}{times}", duration(nanos)),
            value: nanos as f64,
            colour,
        }
    };
    let group = |one: &&Loaded| {
        let name = format!("{} {}, {}", words::name(one.cell), words::place(one.cell), one.operation);
        let both =
            vec![bar("quiet", one.quiet.p99, None, 0), bar("loaded", one.loaded.p99, one.ratio("p99"), 1)];
        (name, both)
    };
    let mixes: Vec<_> = shown.iter().copied().filter(|one| one.cell.pattern != Pattern::Commit).collect();
    let drawn: Vec<_> = if mixes.is_empty() { shown } else { mixes };
    let groups: Vec<_> = drawn.iter().map(group).collect();
    let mut body = String::from(
        "<p class=\"dim\">p99 of the operation that users wait for, alone and under the load.</p><div class=\"charts\"><figure>",
    );
    body.push_str(&bars("p99 quiet and under load", &groups));
    body.push_str("</figure><ul>");
    for one in drawn {
        if let Some(verdict) = one.verdict() {
            let what = words::stands_for(one.cell.pattern, one.cell.block_size);
            let _ = write!(body, "<li><b>{}</b> ({what}): {verdict}.</li>", one.cell.pattern);
        }
    }
    body.push_str("</ul></div>");
    let _ = write!(body, "<details><summary>All figures</summary>{}</details>", loaded_table(loaded));
    section(page, "Under load", &body);
}

fn loaded_table(loaded: &[Loaded]) -> String {
    let or_dash = |nanos: Option<u64>| words::or_dash(nanos, "–");
    let mut table = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th>Cell</th><th>Operation</th><th>p50 quiet</th>\
         <th>p50 loaded</th><th>p99 quiet</th><th>p99 loaded</th><th>p99 times</th></tr></thead><tbody>",
    );
    for one in loaded {
        let _ = write!(
            table,
            "<tr><td>{}, {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            words::name(one.cell),
            words::place(one.cell),
            one.operation,
            duration(one.quiet.p50),
            duration(one.loaded.p50),
            or_dash(one.quiet.p99),
            or_dash(one.loaded.p99),
            one.ratio("p99").map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
        );
    }
    table + "</tbody></table></div>"
}

fn courses(page: &mut String, sweep: &Sweep) {
    const SHOWN: usize = 6;
    let all = facts::courses(sweep);
    let mut body = String::new();
    for cell in all.iter().take(SHOWN) {
        course(&mut body, cell);
    }
    if all.len() > SHOWN {
        let _ = write!(body, "<p class=\"dim\">{} more cells moved over time.</p>", all.len() - SHOWN);
    }
    section(page, "Over time", &body);
}

fn to_copy(page: &mut String, sweep: &Sweep) {
    let Some(flushing) = facts::flushing(sweep) else { return };
    let warning = words::of_copies(flushing.cell);
    let warning = warning.map(|text| format!("<p class=\"dim\">{}.</p>", Escaped(&text))).unwrap_or_default();
    let body = format!(
        "<p>What this disk flushes in 16 KiB pages when nothing else is on it, rounded down; leave a share for reads and the log.</p>\
         <p><code>innodb_io_capacity = {}</code></p><p><code>innodb_io_capacity_max = {}</code></p>{warning}",
        flushing.sustained, flushing.peak
    );
    section(page, "To copy into my.cnf", &body);
}

fn skipped(page: &mut String, sweep: &Sweep) {
    let line = |(message, n): &(&str, usize)| format!("<li>{}: {}</li>", words::number(*n), Escaped(message));
    let lines: String = facts::skipped(sweep).iter().map(line).collect();
    if !lines.is_empty() {
        section(page, "Left out", &format!("<ul>{lines}</ul>"));
    }
}

fn conditions(page: &mut String, sweep: &Sweep) {
    let target = &sweep.target;
    let mut rows = vec![
        ("Machine".to_owned(), words::machine(&sweep.environment)),
        ("Engine".to_owned(), format!("{}, {}", target.engine, words::cache(&target.direct))),
    ];
    rows.extend(words::conditions(sweep).map(|text| ("Measured".to_owned(), text)));
    rows.extend(target.serial.clone().map(|serial| ("Serial number".to_owned(), serial)));
    rows.extend(sweep.environment.settings.clone());
    let mut body = String::from("<div class=\"wide\" tabindex=\"0\"><table><tbody>");
    for (key, value) in rows {
        let _ = write!(body, "<tr><td>{}</td><td class=\"l w\">{}</td></tr>", Escaped(&key), Escaped(&value));
    }
    body.push_str("</tbody></table></div>");
    section(page, "How it was measured", &body);
}
