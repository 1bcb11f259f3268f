//! The small status page at `/`: one piece of HTML without scripts or anything from elsewhere, to be understood at
//! three in the morning. What is wrong stands first, in words, and colour is never the only sign.

mod sweep;
mod text;

use std::fmt::Write;
use std::time::Duration;

use crate::clock::Tick;
use crate::io::Op;
use crate::probe::{Fault, Phase, Probe, Verdict};
use crate::record::{Check, Snapshot, TargetView, Timed, WINDOWS};
use crate::units::Escaped;
use text::Nanos;

const STYLE: &str = include_str!("style.css");

/// The window that the page shows.
const WINDOW: usize = 1;

/// Every page would catch some operation that is just out and well; those are left out.
const WORTH_SAYING: Duration = Duration::from_millis(100);

/// How a target is, for its border, its word and its place on the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Down,
    Doubtful,
    Unknown,
    Paused,
    Up,
}

impl Health {
    fn of(target: &TargetView, now: Tick) -> Self {
        // A run that was starved says so, but the runs before it are as good as ever.
        let doubt = |c: &Check| c.verdict == Verdict::Holds && c.fault != Fault::Starved;
        let faults = target.probes.iter().flat_map(|p| &p.checks).any(doubt);
        match target.up(now) {
            Some(false) => Self::Down,
            _ if target.paused.is_some() => Self::Paused,
            _ if faults => Self::Doubtful,
            None => Self::Unknown,
            Some(true) => Self::Up,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Down => "bad",
            Self::Doubtful => "warn",
            Self::Unknown | Self::Paused => "dim",
            Self::Up => "ok",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Doubtful => "not to be trusted",
            Self::Unknown => "no result yet",
            Self::Paused => "paused",
            Self::Up => "up",
        }
    }
}

/// The page as of `now`, with links to `/metrics` and the health endpoints. It asks the browser to load it again every 10 s.
pub fn status(snapshot: &Snapshot, now: Tick) -> String {
    let mut targets: Vec<_> = snapshot.targets.iter().map(|t| (Health::of(t, now), t.as_ref())).collect();
    targets.sort_by_key(|(health, _)| *health);
    let mut out = String::with_capacity(4096 + 2048 * targets.len());
    head(snapshot, &targets, &mut out);
    for (health, target) in &targets {
        section(target, *health, now, &mut out);
    }
    let (window, _) = WINDOWS[WINDOW];
    // Writing to a string cannot fail; so it is here and below.
    let _ = writeln!(
        out,
        "<footer><p>Latencies are exact over the last {window}. First: submitted before its run's first \
         completion, when the disk may have slept; warm: all others. p99 needs 100 samples, p99.9 needs 1000. \"Ever\" is since the daemon \
         started, to 1 %. The page loads itself again every \
         10 s.</p></footer></body></html>"
    );
    out
}

fn head(snapshot: &Snapshot, targets: &[(Health, &TargetView)], out: &mut String) {
    let worst = targets.first().map_or(Health::Unknown, |(health, _)| *health);
    let count = |wanted: Health| targets.iter().filter(|(health, _)| *health == wanted).count();
    let _ = write!(
        out,
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><meta http-equiv=\"refresh\" content=\"10\"><title>diskcanary</title><style>{STYLE}</style></head><body>\
         <header><h1>diskcanary</h1><span class=\"dim\">{}</span><span class=\"verdict {}\">",
        Escaped(snapshot.version),
        worst.class()
    );
    let said = [Health::Down, Health::Doubtful, Health::Unknown, Health::Paused, Health::Up]
        .map(|health| (count(health), health.word()));
    let said: Vec<String> =
        said.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let said = if said.is_empty() { "no targets".to_owned() } else { said.join(" · ") };
    let _ = write!(
        out,
        "{said}</span><nav><a href=\"/metrics\">metrics</a><a href=\"/-/healthy\">healthy</a>\
         <a href=\"/-/ready\">ready</a></nav></header>"
    );
}

fn section(target: &TargetView, health: Health, now: Tick, out: &mut String) {
    let (class, word) = (health.class(), health.word());
    let state = target.state.map_or("not looked at yet", |state| state.label());
    let _ = write!(
        out,
        "<section class=\"is-{class}\"><div class=\"head\"><h2>{}</h2><span class=\"dim\">{}</span>\
         <strong class=\"{class}\">{word}</strong></div><p class=\"dim\">{}",
        Escaped(&target.plan.name),
        Escaped(&target.plan.path),
        state.replace('_', " "),
    );
    if let Some(ratio) = target.layout_ratio().filter(|ratio| *ratio < 1.0) {
        let _ = write!(out, ", probe files {:.0} % written", (ratio * 100.0).floor());
    }
    let facts = &target.facts;
    let engine = facts.engine.as_ref().map_or("", |engine| engine.kind.label());
    for fact in [&facts.device, &facts.model, &facts.fstype].map(String::as_str).into_iter().chain([engine]) {
        if !fact.is_empty() {
            let _ = write!(out, " · {}", Escaped(fact));
        }
    }
    out.push_str("</p>");
    troubles(target, now, out);
    latencies(target, now, out);
    sweep::line(target, out);
    out.push_str("</section>");
}

/// What is wrong, in sentences.
fn troubles(target: &TargetView, now: Tick, out: &mut String) {
    if let Some(end) = target.paused {
        let left = Nanos(end.nanos_since(now));
        let _ = write!(
            out,
            "<p class=\"dim\"><b>paused</b> by hand: nothing is done with it; goes on by itself in {left}</p>"
        );
    }
    for op in Op::ALL {
        let age = target.inflight().age(op, now);
        if age >= WORTH_SAYING {
            let stalled = age > target.thresholds.of(op);
            let (class, end) = if stalled { ("bad", ": stalled") } else { ("dim", "") };
            let age = Nanos(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
            let _ = write!(out, "<p class=\"{class}\"><b>{}</b> not back for {age}{end}</p>", op.label());
        }
    }
    for p in &target.probes {
        let probe = p.probe.label();
        if let Some(failure) = &p.failure {
            let said = Escaped(&failure.message);
            let _ =
                write!(out, "<p class=\"bad\"><b>{probe} failed</b> ({}): {said}</p>", failure.errno.name());
        }
        for check in p.checks.iter().filter(|check| check.verdict == Verdict::Holds) {
            let why = if check.evidence.is_empty() { meaning(check.fault) } else { &check.evidence };
            let fault = check.fault.label();
            let _ = write!(out, "<p class=\"warn\"><b>{probe}: {fault}</b>: {}</p>", Escaped(why));
        }
    }
}

/// For a fault that came without a sentence.
const fn meaning(fault: Fault) -> &'static str {
    match fault {
        Fault::Unwritten => "these blocks were never written, so the reads do not reach the disk",
        Fault::Cached => "the kernel's cache answers although direct I/O was asked for",
        Fault::Zeros => "the device answers with zeros only",
        Fault::Unflushed => "commits are answered before the data is safe",
        Fault::Corruption => "the bytes read are not those written",
        Fault::Starved => "we were stopped or starved of CPU, so the last run tells about us, not the disk",
    }
}

fn latencies(target: &TargetView, now: Tick, out: &mut String) {
    let rows = [(Probe::Commit, Timed::Commit), (Probe::Read, Timed::Read)];
    let (window, _) = WINDOWS[WINDOW];
    let mut begun = false;
    for (_, timed) in rows.into_iter().filter(|(probe, _)| target.probe(*probe).is_some()) {
        for phase in Phase::ALL {
            let Some(series) = target.series(timed, *phase) else { continue };
            let (Some(held), Some(ever)) = (series.window(WINDOW, now), series.ever) else { continue };
            if !begun {
                let _ = write!(
                    out,
                    "<table><tr><th>last {window}</th><th>p50</th><th>p99</th><th>max</th><th>samples</th>\
                     <th class=\"apart\">ever: p50</th><th>p99.9</th><th>max</th></tr>"
                );
                begun = true;
            }
            let or_dash = |nanos: Option<u64>| nanos.map_or_else(|| "–".to_owned(), |n| Nanos(n).to_string());
            let (p99, p999) = (or_dash(held.p99), or_dash(ever.p999));
            let _ = write!(
                out,
                "<tr><td>{} <span class=\"dim\">{}</span></td><td class=\"main\">{}</td><td class=\"main\">{p99}</td><td>{}</td>\
                 <td class=\"dim\">{}</td><td class=\"dim apart\">{}</td><td class=\"dim\">{p999}</td><td class=\"dim\">{}</td></tr>",
                timed.label(),
                phase.label(),
                Nanos(held.p50),
                Nanos(held.max),
                held.count,
                Nanos(ever.p50),
                Nanos(ever.max)
            );
        }
    }
    out.push_str(if begun { "</table>" } else { "<p class=\"dim\">no samples in this window</p>" });
}

#[cfg(test)]
mod tests;
