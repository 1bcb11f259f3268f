//! What is shown of one family of cells: charts, and a table behind them.

use std::fmt::Write;

use super::chart::{Axis, Chart, Series, Style};
use super::scale::Scale;
use crate::probe::sweep::{CellResult, Latency, Pattern};
use crate::report::sweep::facts::{self, Family, Form};
use crate::report::sweep::words;
use crate::units::Escaped;
use crate::units::figures::{count, duration, rate};

/// A family with its curves over depth.
pub(super) fn family(page: &mut String, family: &Family) {
    let first = family.cells[0];
    let _ = write!(
        page,
        "<section><h2>{}</h2><p class=\"dim\">{}</p><div class=\"charts\">",
        words::name(first),
        words::stands_for(first.pattern, first.block_size)
    );
    rates(page, family);
    latencies(page, family);
    distributions(page, family);
    let _ = write!(
        page,
        "</div><details><summary>All figures</summary>{}</details></section>",
        cells_table(&family.cells, false)
    );
}

fn figure(page: &mut String, caption: &str, chart: &Chart) {
    let _ = write!(page, "<figure><figcaption>{caption}</figcaption>{}</figure>", chart.svg());
}

/// Over depth, or over committers.
fn depths(family: &Family) -> Axis {
    let first = family.cells[0];
    let all: Vec<f64> = family.cells.iter().map(|cell| f64::from(cell.outstanding())).collect();
    let ends = all.iter().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(*v), h.max(*v)));
    Axis {
        scale: Scale::between(ends.0, ends.1),
        ticks: all.iter().map(|depth| (*depth, depth.to_string())).collect(),
        label: if first.pattern == Pattern::Commit { "committers" } else { "operations outstanding" },
    }
}

fn line(name: &str, colour: usize, style: Style, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), colour, style, points, spans: Vec::new() }
}

fn over_depth(family: &Family, of: impl Fn(&CellResult) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |cell: &&CellResult| Some((f64::from(cell.outstanding()), of(cell)?));
    family.cells.iter().filter_map(point).collect()
}

fn rates(page: &mut String, family: &Family) {
    let first = family.cells[0];
    let by_bytes = first.block_size >= 64 << 10;
    let unit = if by_bytes { f64::from(first.block_size) } else { 1.0 };
    let mut measured = line("", 0, Style::Line, over_depth(family, |cell| Some(cell.iops * unit)));
    let span = |cell: &&CellResult| {
        let rounds = cell.rounds?;
        Some((f64::from(cell.outstanding()), rounds.iops_min * unit, rounds.iops_max * unit))
    };
    measured.spans = family.cells.iter().filter_map(span).collect();
    let promised = over_depth(family, |cell| cell.promised_iops.map(|iops| iops * unit));
    let values = measured.points.iter().chain(&promised).map(|(_, y)| *y);
    let scale = Scale::log(values.chain(measured.spans.iter().flat_map(|(_, low, high)| [*low, *high])));
    let show = |value: f64| if by_bytes { rate(value).replace(".00", "") } else { short(value) };
    let y =
        Axis { ticks: scale.ticks().into_iter().map(|tick| (tick, show(tick))).collect(), scale, label: "" };
    let (what, title) = if by_bytes { ("Throughput", "throughput") } else { ("IOPS", "IOPS") };
    let mut series = vec![measured];
    if promised.len() > 1 {
        series.push(line("promised", 2, Style::Limit, promised));
    }
    let chart =
        Chart { title: format!("{}: {title} over depth", words::name(first)), x: depths(family), y, series };
    figure(page, what, &chart);
}

/// `20k` for 20,000.
fn short(value: f64) -> String {
    match value {
        big if big >= 1e6 => format!("{}M", big / 1e6),
        big if big >= 1e3 => format!("{}k", big / 1e3),
        small => format!("{small}"),
    }
}

/// `200 µs`, without digits that say nothing.
fn tick(nanos: f64) -> String {
    let text = duration(nanos.round() as u64);
    text.replace(".00", "").replace(".0 ", " ")
}

fn times(scale: Scale, label: &'static str) -> Axis {
    Axis { ticks: scale.ticks().into_iter().map(|value| (value, tick(value))).collect(), scale, label }
}

fn latencies(page: &mut String, family: &Family) {
    let of = |figure: fn(&Latency) -> Option<u64>| {
        over_depth(family, |cell| Some(figure(facts::latency(cell)?)? as f64))
    };
    let all = [("p50", of(|l| Some(l.p50))), ("p99", of(|l| l.p99)), ("p99.9", of(|l| l.p999))];
    let scale = Scale::log(all.iter().flat_map(|(_, points)| points).map(|(_, y)| *y));
    let each = all.into_iter().enumerate().filter(|(_, (_, points))| !points.is_empty());
    let series = each.map(|(colour, (name, points))| line(name, colour, Style::Line, points)).collect();
    let first = family.cells[0];
    let title = format!("{}: latency over depth", words::name(first));
    let chart = Chart { title, x: depths(family), y: times(scale, ""), series };
    figure(page, &format!("Latency of {}s", facts::judged(first)), &chart);
}

/// The least and the most depth, as shares of their operations.
fn distributions(page: &mut String, family: &Family) {
    let ends = [family.cells.first(), family.cells.last()];
    let forms: Vec<(&CellResult, Form)> =
        ends.into_iter().flatten().filter_map(|cell| Some((*cell, facts::form(cell)?))).collect();
    let Some((first, _)) = forms.first() else { return };
    let share = |form: &Form| {
        let all: u64 = form.bins.iter().map(|bin| bin.count).sum();
        let each = |bin: &crate::stats::Bin| (bin.low, bin.count as f64 / all.max(1) as f64 * 100.0);
        let end = form.bins.last().map(|bin| (bin.high, 0.0));
        form.bins.iter().map(each).chain(end).collect::<Vec<_>>()
    };
    let series: Vec<_> = forms
        .iter()
        .enumerate()
        .map(|(colour, (_, form))| line("", colour, Style::Area, share(form)))
        .collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let scale = Scale::log(points().map(|(x, _)| *x));
    // Labels of an axis that lies must not touch: decades where there are many.
    let mut x = times(scale, "latency");
    if x.ticks.len() > 5 {
        let few: Vec<_> = x.ticks.drain(..).collect();
        let every = few.len().div_ceil(5);
        x.ticks = few.into_iter().step_by(every).collect();
    }
    let high = Scale::from_zero(points().map(|(_, y)| *y));
    let ticks = high.ticks().into_iter().map(|value| (value, format!("{value} %"))).collect();
    let key: String = forms
        .iter()
        .enumerate()
        .map(|(colour, (cell, _))| format!("<span class=\"k{colour}\">■ {}</span>", words::place(cell)))
        .collect();
    let near: Vec<_> = forms
        .iter()
        .map(|(cell, form)| format!("{:.0} % at {}", form.near * 100.0, words::place(cell)))
        .collect();
    let chart = Chart {
        title: format!("{}: distribution of latencies", words::name(first)),
        x,
        y: Axis { scale: high, ticks, label: "" },
        series,
    };
    figure(page, &format!("Distribution{key}"), &chart);
    let at = page.len() - "</figure>".len();
    let humps: Vec<_> = forms.iter().map(|(_, form)| form.humps.len().to_string()).collect();
    page.insert_str(
        at,
        &format!(
            "<p class=\"dim\">Within 25 % of the median: {}. Humps: {}.</p>",
            near.join(", "),
            humps.join(", ")
        ),
    );
}

/// A cell over time.
pub(super) fn course(page: &mut String, cell: &CellResult) {
    const POINTS: usize = 300;
    let series = cell.series.as_deref().unwrap_or_default();
    let every = series.len().div_ceil(POINTS).max(1);
    // Of many seconds the least and the most are drawn, so that no trough is lost.
    let points: Vec<(f64, f64)> = series
        .chunks(every)
        .flat_map(|chunk| {
            let by =
                |a: &&crate::probe::sweep::Point, b: &&crate::probe::sweep::Point| a.iops.total_cmp(&b.iops);
            let (least, most) = (chunk.iter().min_by(by), chunk.iter().max_by(by));
            let mut both: Vec<_> =
                least.into_iter().chain(most).map(|point| (point.second, point.iops)).collect();
            both.sort_by(|a, b| a.0.total_cmp(&b.0));
            both.dedup();
            both
        })
        .collect();
    let end = points.last().map_or(1.0, |point| point.0);
    let (x, y) = (Scale::up_to(end), Scale::from_zero(points.iter().map(|point| point.1)));
    let long = end >= 600.0;
    let minutes = |value: f64| if long { format!("{:.0} min", value / 60.0) } else { format!("{value} s") };
    let chart = Chart {
        title: format!("{}, {}: IOPS over time", words::name(cell), words::place(cell)),
        x: Axis {
            ticks: x.ticks().into_iter().map(|value| (value, minutes(value))).collect(),
            scale: x,
            label: "time",
        },
        y: Axis {
            ticks: y.ticks().into_iter().map(|value| (value, short(value))).collect(),
            scale: y,
            label: "",
        },
        series: vec![line("", 0, Style::Line, points)],
    };
    let said = facts::course(cell).unwrap_or_default();
    let _ = write!(
        page,
        "<h3>{}, {}</h3><p>{said}</p><div class=\"charts\">",
        words::name(cell),
        words::place(cell)
    );
    let what = match cell.rounds {
        Some(rounds) => format!("IOPS in the last of {} rounds", rounds.count),
        None => "IOPS".to_owned(),
    };
    figure(page, &what, &chart);
    page.push_str("</div>");
}

/// All figures of some cells; `named`: each row says of which pattern it is.
pub(super) fn cells_table(cells: &[&CellResult], named: bool) -> String {
    let mut table = String::from("<div class=\"wide\" tabindex=\"0\"><table><thead><tr>");
    let head = [
        if named { "Cell" } else { "Depth" },
        "Operation",
        "IOPS",
        "Throughput",
        "Mean",
        "Stdev",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "Max",
        "In doubt",
    ];
    head.iter().for_each(|name| {
        let _ = write!(table, "<th>{name}</th>");
    });
    table.push_str("</tr></thead><tbody>");
    for cell in cells {
        for operation in facts::operations(cell) {
            row(&mut table, cell, operation, named);
        }
    }
    table + "</tbody></table></div>"
}

fn row(table: &mut String, cell: &CellResult, operation: crate::probe::sweep::Operation, named: bool) {
    let or_dash = |nanos: Option<u64>| words::or_dash(nanos, "–");
    let latency = cell.latency_ns.get(&operation).copied().unwrap_or_default();
    let all = (cell.iops, cell.bytes_per_second);
    let (iops, bytes) = cell.streams.get(&operation).map_or(all, |s| (s.iops, s.bytes_per_second));
    let name = match named {
        true => format!("{}, {}", words::name(cell), words::place(cell)),
        false => words::place(cell),
    };
    let faults: Vec<_> = cell.faults.iter().map(|fault| fault.label()).collect();
    let class = match words::mark(cell) {
        "!" => " class=\"doubt\"",
        "*" => " class=\"note\"",
        _ => "",
    };
    let _ = write!(
        table,
        "<tr{class}><td>{}</td><td>{operation}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td class=\"l\">{}</td></tr>",
        Escaped(&name),
        count(iops.round() as u64),
        rate(bytes),
        duration(latency.mean.round() as u64),
        duration(latency.stdev.round() as u64),
        duration(latency.p50),
        duration(latency.p90),
        or_dash(latency.p99),
        or_dash(latency.p999),
        duration(latency.max),
        faults.join(", ")
    );
}
