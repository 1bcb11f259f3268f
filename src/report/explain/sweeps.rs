//! What the sweeps of a target would do: when, for how long, and what they take.

use super::{Sweeps, count};
use crate::units::{Bytes, Span};

/// Writes its lines, each under a key.
pub(super) fn explain(sweeps: &Sweeps, device: bool, line: &mut impl FnMut(&str, &str)) {
    let one = &sweeps.one;
    let minutes = Span::seconds(one.time.as_secs());
    line(
        "sweeps",
        &format!(
            "{}: at most {} operations, {} written and {} read, in {minutes} of work at most{}",
            sweeps.preset,
            count(one.reads + one.writes),
            Bytes::new(one.written_bytes),
            Bytes::new(one.read_bytes),
            if device { "; a block device is only read" } else { "" },
        ),
    );
    let Some(schedule) = &sweeps.schedule else {
        return line("", "never, without a `schedule`");
    };
    if let Some(rest) = sweeps.rest {
        let credits = count(rest.capacity);
        line(
            "",
            &format!(
                "rests after each cell until what it took above {} a second is earned back, {credits} at most",
                rest.rate
            ),
        );
    }
    let later = if sweeps.later == Span::default() {
        String::new()
    } else {
        format!(", {} later on this host", sweeps.later)
    };
    line("", &format!("by `{schedule}`{later}: next {}", sweeps.next.join(", ")));
    let day = |bytes: u64| Bytes::new(bytes.saturating_mul(sweeps.a_day as u64));
    let [write, read] = sweeps.limits.map(|limit| Bytes::new(limit as u64));
    line(
        "",
        &format!(
            "needs {} of {write} that may be written in a day, {} of {read} read, for {}",
            day(one.written_bytes),
            day(one.read_bytes),
            if sweeps.a_day == 1 { "one sweep".to_owned() } else { format!("{} sweeps", sweeps.a_day) },
        ),
    );
    if !sweeps.seen {
        line(
            "",
            "none will begin: the kernel keeps no counters of a disk here, so that others' use of it cannot be seen",
        );
    }
    line(
        "",
        &format!(
            "{} series more after the first one, and one for each reason not to believe a cell",
            count(sweeps.series as u64)
        ),
    );
}
