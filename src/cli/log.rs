//! Log lines on standard error: logfmt for people and most tools, JSON for the rest.

use std::fmt;
use std::io;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;

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

/// Sends the process's log lines to standard error. A second call changes nothing.
pub(super) fn start_logging(level: LogLevel, format: LogFormat) {
    // The first subscriber stays; a second one, as in tests, is no fault.
    let _ = tracing::subscriber::set_global_default(subscriber(level, format, io::stderr));
}

fn subscriber<W>(level: LogLevel, format: LogFormat, to: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_max_level(level.filter()).with_writer(to).with_ansi(false);
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
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(level: LogLevel, format: LogFormat) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        tracing::subscriber::with_default(subscriber(level, format, move || writer.clone()), || {
            tracing::info!(target_name = "a \"b\"\nc", n = 3, path = %"/srv/data", "probe started");
            tracing::debug!("hidden");
        });
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
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
}
