//! Times that people can read.

use std::fmt;

/// Nanoseconds with three digits and a unit: `412 µs`, `1.25 ms`, `12.0 s`; from two minutes on `3 min 20 s`.
pub(super) struct Nanos(pub(super) u64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        if n >= 120_000_000_000 {
            let seconds = n / 1_000_000_000;
            let (minutes, seconds) = (seconds / 60, seconds % 60);
            return if minutes < 120 {
                write!(f, "{minutes} min {seconds} s")
            } else {
                write!(f, "{} h {} min", minutes / 60, minutes % 60)
            };
        }
        // A unit begins where rounding to three digits reaches it: 999.6 µs is 1.00 ms.
        let (unit, name) = match n {
            0..1_000 => return write!(f, "{n} ns"),
            1_000..999_500 => (1e3, "µs"),
            999_500..999_500_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = n as f64 / unit;
        let decimals = if value >= 99.95 {
            0
        } else if value >= 9.995 {
            1
        } else {
            2
        };
        write!(f, "{value:.decimals$} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_996, "10.0 µs"),
            (412_345, "412 µs"),
            (999_600, "1.00 ms"),
            (1_254_000, "1.25 ms"),
            (12_000_000_000, "12.0 s"),
            (119_000_000_000, "119 s"),
            (200_000_000_000, "3 min 20 s"),
            (u64::MAX, "5124095 h 34 min"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
    }
}
