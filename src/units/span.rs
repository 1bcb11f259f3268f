//! A span of time with a unit.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time: `500ms`, `2s`, `5m`, `24h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Duration);

impl Span {
    /// `n` seconds.
    pub const fn seconds(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(Duration::from_millis(n))
    }

    /// As a `Duration`.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(span)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(format!("`{text}` has no unit; write a time such as `500ms`, `2s`, `5m` or `24h`"));
        }
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|_| format!("`{text}` is not a time; write one such as `500ms`, `2s`, `5m` or `24h`"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = humantime::format_duration(self.0).to_string();
        f.write_str(&text.replace(' ', ""))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor::new("a time such as `500ms`, `2s`, `5m` or `24h`"))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Takes text through `FromStr`, and gives bare numbers the same message as text without a unit.
pub(super) struct TextVisitor<T> {
    expected: &'static str,
    makes: PhantomData<T>,
}

impl<T> TextVisitor<T> {
    pub(super) const fn new(expected: &'static str) -> Self {
        Self { expected, makes: PhantomData }
    }
}

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<T, E> {
        self.visit_str(&n.to_string())
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<T, E> {
        self.visit_str(&n.to_string())
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<T, E> {
        self.visit_str(&n.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["500ms", "2s", "5m", "1h", "1m30s", "250us"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("24h".parse(), Ok(Span::seconds(86_400)));
    }

    #[test]
    fn a_bare_number_is_refused() {
        assert!("30".parse::<Span>().unwrap_err().contains("no unit"));
        assert!("".parse::<Span>().is_err());
        assert!("2 parsecs".parse::<Span>().is_err());
    }
}
