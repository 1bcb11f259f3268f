//! Log lines on standard error: logfmt for people and most tools, JSON for the rest. Whoever logs never waits.

mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io;
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use prometheus::IntCounter;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;
use queue::Queue;

/// How long the end of the process waits for lines that are not written yet.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The least important lines that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogLevel {
    /// What needs somebody to act.
    Error,
    /// What may.
    Warn,
    /// Starts, ends, and what changed.
    Info,
    /// For finding out why.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// `ts=… level=info msg="…" key=value`
    Logfmt,
    /// One JSON object a line.
    Json,
}

/// The log of this process.
pub(super) struct Log(Arc<Queue>);

impl Log {
    /// Waits until all lines are written, at most a second.
    pub(super) fn flush(&self) {
        self.0.flush(LAST_LINES);
    }
}

/// Sends the process's log lines, panics among them, to standard error. A line that finds no room, because nobody reads, is
/// dropped and counted. To be called once; an error when the thread that writes cannot be had.
pub(super) fn start_logging(level: LogLevel, format: LogFormat, dropped: IntCounter) -> io::Result<Log> {
    let queue = Queue::new(dropped);
    queue.start(io::stderr(), move |lines| dropped_note(format, lines))?;
    let to = ToQueue(Arc::clone(&queue));
    // The first subscriber stays; a second one, as in tests, is no fault.
    let _ = tracing::subscriber::set_global_default(subscriber(level, format, move || to.clone()));
    panic::set_hook(Box::new(say_panic));
    Ok(Log(queue))
}

/// A formatter hands over each line in one piece.
#[derive(Clone)]
struct ToQueue(Arc<Queue>);

impl io::Write for ToQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The line that says how many are missing, whatever the level: they may have been errors.
fn dropped_note(format: LogFormat, lines: u64) -> Vec<u8> {
    let kept = Kept::default();
    let to = kept.clone();
    tracing::subscriber::with_default(subscriber(LogLevel::Warn, format, move || to.clone()), || {
        tracing::warn!(lines, "log lines dropped: standard error was not read in time, or took no more");
    });
    kept.take()
}

/// The standard hook would write to standard error itself, and wait there.
fn say_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let trace = Backtrace::capture();
    let backtrace = (trace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(trace));
    let thread = thread::current();
    tracing::error!(thread = thread.name().unwrap_or_default(), at, why = text, backtrace, "panicked");
}

/// Lines kept in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn subscriber<W>(level: LogLevel, format: LogFormat, to: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_max_level(level.filter()).with_writer(to).with_ansi(false);
    // Its own complaints would go to standard error past the queue.
    let lines = lines.log_internal_errors(false);
    match format {
        LogFormat::Logfmt => Box::new(lines.event_format(Logfmt).finish()),
        LogFormat::Json => Box::new(lines.json().flatten_event(true).with_timer(Wall).finish()),
    }
}

/// Wall-clock time as RFC 3339, in milliseconds.
struct Wall;

impl FormatTime for Wall {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let since = jiff::SignedDuration::try_from(clock::wall()).unwrap_or_default();
        let now = jiff::Timestamp::from_duration(since).unwrap_or_default();
        write!(w, "{now:.3}")
    }
}

struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        to.write_str("ts=")?;
        Wall.format_time(&mut to)?;
        write!(to, " level={}", event.metadata().level().as_str().to_ascii_lowercase())?;
        let mut pairs = Pairs { to, result: Ok(()) };
        event.record(&mut pairs);
        pairs.result?;
        writeln!(pairs.to)
    }
}

/// Writes fields as `key=value`, quoted where a value has more than one word in it.
struct Pairs<'w> {
    to: Writer<'w>,
    result: fmt::Result,
}

impl Pairs<'_> {
    fn pair(&mut self, field: &Field, value: &str) {
        let key = if field.name() == "message" { "msg" } else { field.name() };
        let bare = !value.is_empty() && value.chars().all(|c| c.is_alphanumeric() || "-_./:@+%µ".contains(c));
        let written =
            if bare { write!(self.to, " {key}={value}") } else { write!(self.to, " {key}={value:?}") };
        self.result = self.result.and(written);
    }
}

impl Visit for Pairs<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.pair(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.pair(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(level: LogLevel, format: LogFormat) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        tracing::subscriber::with_default(subscriber(level, format, move || writer.clone()), || {
            tracing::info!(target_name = "a \"b\"\nc", n = 3, path = %"/srv/data", "probe started");
            tracing::debug!("hidden");
        });
        String::from_utf8(kept.take()).unwrap()
    }

    #[test]
    fn logfmt_is_one_line_of_pairs() {
        let text = lines(LogLevel::Info, LogFormat::Logfmt);
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(time.starts_with("ts=20") && time.ends_with('Z') && time.len() == 27, "{time}");
        assert_eq!(
            rest,
            "level=info msg=\"probe started\" target_name=\"a \\\"b\\\"\\nc\" n=3 path=/srv/data\n"
        );
    }

    #[test]
    fn json_is_one_object_a_line() {
        let text = lines(LogLevel::Info, LogFormat::Json);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["message"], &line["n"]), (&"probe started".into(), &3.into()));
        assert!(line["timestamp"].as_str().unwrap().starts_with("20"));
    }

    #[test]
    fn the_level_decides() {
        assert_eq!(lines(LogLevel::Error, LogFormat::Logfmt), "");
        assert_eq!(lines(LogLevel::Debug, LogFormat::Logfmt).lines().count(), 2);
    }

    #[test]
    fn what_was_dropped_is_said_in_the_format_of_the_log() {
        let text = String::from_utf8(dropped_note(LogFormat::Logfmt, 7)).unwrap();
        assert!(
            text.contains(" level=warn msg=\"log lines dropped") && text.ends_with(" lines=7\n"),
            "{text}"
        );
        let line: serde_json::Value = serde_json::from_slice(&dropped_note(LogFormat::Json, 7)).unwrap();
        assert_eq!((&line["level"], &line["lines"]), (&"WARN".into(), &7.into()));
    }
}
