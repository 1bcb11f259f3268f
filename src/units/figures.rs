//! Numbers as people read them, in sentences and tables.

/// A duration with three significant digits: `85 ns`, `12.3 µs`, `1.23 ms`, `4.56 s`.
pub fn duration(nanos: u64) -> String {
    const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];
    let (mut value, mut unit) = (nanos as f64, 0);
    // 999.5 is where three digits would round up to a fourth.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value, unit == 0), UNITS[unit])
}

fn three_digits(value: f64, whole: bool) -> String {
    match value {
        v if whole || v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A count with commas between the thousands: `129,600`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes a second with three significant digits, in powers of 1000 as vendors state them: `350 MB/s`, `3.88 GB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    const UNITS: [&str; 5] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
    let (mut value, mut unit) = (bytes_per_second.max(0.0), 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value, unit == 0), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit_that_fits() {
        let shown = [
            (0, "0 ns"),
            (85, "85 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (99_949, "99.9 µs"),
            (99_951, "100 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (1_234_567, "1.23 ms"),
            (4_560_000_000, "4.56 s"),
            (7_200_000_000_000, "7200 s"),
        ];
        for (nanos, text) in shown {
            assert_eq!(duration(nanos), text);
        }
    }

    #[test]
    fn rates_are_in_powers_of_1000() {
        let shown = [(0.0, "0 B/s"), (350e6, "350 MB/s"), (3.883e9, "3.88 GB/s"), (999.6e3, "1.00 MB/s")];
        for (value, text) in shown {
            assert_eq!(rate(value), text);
        }
        assert_eq!(rate(f64::NAN), "0 B/s");
    }

    #[test]
    fn counts_have_commas() {
        assert_eq!(
            [0, 999, 1000, 129_600, 1_234_567].map(count),
            ["0", "999", "1,000", "129,600", "1,234,567"]
        );
    }
}
