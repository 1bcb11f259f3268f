//! A number of bytes with a binary unit.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes: `512B`, `4KiB`, `1GiB`. Decimal units (`4kB`) are understood and mean powers of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// As a plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(format!("`{text}` has no unit; write a size such as `4KiB`, `64MiB` or `1GiB`"));
        }
        text.parse::<ByteSize>()
            .map(|size| Self(size.as_u64()))
            .map_err(|_| format!("`{text}` is not a size; write one such as `4KiB`, `64MiB` or `1GiB`"))
    }
}

impl fmt::Display for Bytes {
    /// The largest binary unit that keeps the number whole, else one decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut unit = 0;
        while unit + 1 < UNITS.len() && self.0 >> (10 * (unit + 1)) > 0 {
            unit += 1;
        }
        let whole = 1u64 << (10 * unit);
        if self.0.is_multiple_of(whole) {
            write!(f, "{}{}", self.0 / whole, UNITS[unit])
        } else if self.0.is_multiple_of(whole >> 10) && self.0 / (whole >> 10) < 10_000 {
            write!(f, "{}{}", self.0 / (whole >> 10), UNITS[unit - 1])
        } else {
            write!(f, "{:.1}{}", self.0 as f64 / whole as f64, UNITS[unit])
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(super::span::TextVisitor::new("a size such as `4KiB`, `64MiB` or `1GiB`"))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["0B", "512B", "2300B", "4KiB", "64MiB", "1GiB", "1536MiB"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        assert_eq!("1.5GiB".parse(), Ok(Bytes::mib(1536)));
    }

    #[test]
    fn a_bare_number_is_refused() {
        assert!("64".parse::<Bytes>().unwrap_err().contains("no unit"));
        assert!("".parse::<Bytes>().is_err());
        assert!("4Kib!".parse::<Bytes>().is_err());
    }
}
