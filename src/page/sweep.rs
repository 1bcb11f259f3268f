//! What the page says of a target's sweeps: the last one, the next one.

use std::fmt::Write;
use std::time::Duration;

use super::text::Nanos;
use crate::record::{Results, SweepView, TargetView};
use crate::schedule::sweep::Ending;

/// A line, where the target is swept at all.
pub(super) fn line(target: &TargetView, out: &mut String) {
    let Some(sweeps) = &target.sweeps else { return };
    let mut said = Vec::new();
    match sweeps.last {
        _ if sweeps.running => {
            said.push(format!("under way, {} cells to go; the probes on its disk pause", sweeps.cells_left));
        }
        Some(last) => {
            said.extend(last.ended.map(|(at, ending)| format!("last {} {}", shown(at), how(ending))))
        }
        None => {}
    }
    said.extend(sweeps.results.as_ref().map(|results| found(sweeps, results)));
    match (sweeps.waiting, sweeps.next) {
        _ if sweeps.running => {}
        (Some(why), Some(since)) => {
            said.push(format!("due since {}, waits: {}", shown(since), why.replace('_', " ")));
        }
        (None, Some(next)) => said.push(format!("next {}", shown(next))),
        (_, None) => said.push("none planned".to_owned()),
    }
    let class = if sweeps.waiting.is_some() { "warn" } else { "dim" };
    let _ = write!(out, "<p class=\"{class}\"><b>sweep</b> {}</p>", said.join(" · "));
}

fn how(ending: Ending) -> &'static str {
    match ending {
        Ending::Complete => "complete",
        Ending::Guard => "stopped: others needed the disk",
        Ending::Budget => "stopped: its budget was spent",
        Ending::Interrupt => "stopped by hand",
        Ending::Error => "stopped: the disk failed",
        Ending::Stalled => "stopped: the disk did not answer",
    }
}

fn found(sweeps: &SweepView, results: &Results) -> String {
    let Results { sweep, ended } = results;
    let took = Nanos(
        Duration::try_from_secs_f64(sweep.seconds).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0)),
    );
    let part = if results.is_partial() { ", partial" } else { "" };
    let of_now = sweeps.last.and_then(|last| last.ended).is_some_and(|(at, _)| at == *ended);
    let when = if of_now { String::new() } else { format!(" of {}", shown(*ended)) };
    format!("{} cells in {took}{part}{when}", sweep.cells.len())
}

/// Time since 1970, to the minute.
fn shown(at: Duration) -> String {
    let at = jiff::SignedDuration::try_from(at).ok().and_then(|at| jiff::Timestamp::from_duration(at).ok());
    at.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default()
}
