//! Text format 0.0.4, written straight into a string.

use super::table::{Kind, Metric};
use crate::stats::{Buckets, FloatText, seconds, write_le};

/// Before every name of ours.
pub(super) const PREFIX: &str = "diskcanary_";

/// Writes samples. The labels that a series has anyway (`target` and the user's) are set once for each target.
pub(super) struct Writer<'a> {
    out: &'a mut String,
    floats: FloatText,
    /// What follows `le="` for the bounds that were met, by address: the bounds are static.
    bounds: Vec<(&'static [u64], Vec<String>)>,
    line: String,
}

/// Writes the samples of one metric.
pub(super) struct Samples<'w, 'a> {
    writer: &'w mut Writer<'a>,
    metric: &'static Metric,
    begun: bool,
    common: &'w str,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut String) -> Self {
        Self { out, floats: FloatText::default(), bounds: Vec::new(), line: String::new() }
    }

    pub(super) fn metric(&mut self, metric: &'static Metric) -> Samples<'_, 'a> {
        Samples { writer: self, metric, begun: false, common: "" }
    }
}

impl<'w> Samples<'w, '_> {
    /// The labels that all samples have from here on, as [`labels`] wrote them.
    pub(super) fn with_common(&mut self, common: &'w str) {
        self.common = common;
    }

    /// A counter's or a whole gauge's sample; `values` are the row's labels in their order.
    pub(super) fn count(&mut self, values: &[&str], value: u64) {
        self.begin_line("", values);
        self.writer.line.push_str("} ");
        self.writer.line.push_str(itoa::Buffer::new().format(value));
        self.end_line();
    }

    /// A gauge's sample. Not a number is no sample.
    pub(super) fn gauge(&mut self, values: &[&str], value: f64) {
        if value.is_nan() {
            return;
        }
        self.begin_line("", values);
        self.writer.line.push_str("} ");
        self.writer.line.push_str(self.writer.floats.format(value));
        self.end_line();
    }

    /// A gauge that is 1 when true.
    pub(super) fn truth(&mut self, values: &[&str], value: bool) {
        self.count(values, u64::from(value));
    }

    /// A histogram's samples, in seconds.
    pub(super) fn histogram(&mut self, values: &[&str], buckets: &Buckets) {
        self.begin_line("_bucket", values);
        let comma = if self.writer.line.ends_with('{') { "" } else { "," };
        self.writer.line.push_str(comma);
        self.writer.line.push_str("le=\"");
        let at = self.writer.known_bounds(buckets.bounds());
        for (le, below) in self.writer.bounds[at].1.iter().zip(buckets.cumulative()) {
            self.writer.out.push_str(&self.writer.line);
            self.writer.out.push_str(le);
            self.writer.out.push_str(itoa::Buffer::new().format(below));
            self.writer.out.push('\n');
        }
        self.begin_line("_sum", values);
        self.writer.line.push_str("} ");
        self.writer.line.push_str(self.writer.floats.format(buckets.sum() as f64 / 1e9));
        self.end_line();
        self.begin_line("_count", values);
        self.writer.line.push_str("} ");
        self.writer.line.push_str(itoa::Buffer::new().format(buckets.count()));
        self.end_line();
    }

    fn begin_line(&mut self, suffix: &str, values: &[&str]) {
        debug_assert_eq!(values.len(), self.metric.labels.len(), "{}", self.metric.name);
        self.begin();
        let line = &mut self.writer.line;
        line.clear();
        for part in [PREFIX, self.metric.name, suffix, "{", self.common] {
            line.push_str(part);
        }
        labels(self.metric.labels.iter().copied().zip(values.iter().copied()), line);
    }

    fn end_line(&mut self) {
        self.writer.line.push('\n');
        self.writer.out.push_str(&self.writer.line);
    }

    fn begin(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        let Metric { name, help, kind, .. } = self.metric;
        let kind = kind.label();
        for part in ["# HELP ", PREFIX, name, " ", help, "\n# TYPE ", PREFIX, name, " ", kind, "\n"] {
            self.writer.out.push_str(part);
        }
    }
}

impl Writer<'_> {
    fn known_bounds(&mut self, bounds: &'static [u64]) -> usize {
        if let Some(at) = self.bounds.iter().position(|(known, _)| std::ptr::eq(*known, bounds)) {
            return at;
        }
        let ends = bounds.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let text = |bound| {
            let mut text = String::new();
            write_le(bound, &mut text);
            text + "\"} "
        };
        self.bounds.push((bounds, ends.map(text).collect()));
        self.bounds.len() - 1
    }
}

impl Kind {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Appends `name="value"` pairs, behind a comma where others stand already. An empty value is no label, for Prometheus too: it is
/// left out.
pub(super) fn labels<'l>(pairs: impl IntoIterator<Item = (&'l str, &'l str)>, out: &mut String) {
    for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
        if !out.is_empty() && !out.ends_with('{') {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        escape(value, out);
        out.push('"');
    }
}

/// Backslash, quote and line feed are all that the format wants escaped.
fn escape(value: &str, out: &mut String) {
    let special = |b: &u8| matches!(b, b'\\' | b'"' | b'\n');
    let mut rest = value;
    while let Some(at) = rest.as_bytes().iter().position(special) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\n' => "\\n",
            b'"' => "\\\"",
            _ => "\\\\",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}
