//! The one way that a float is written. On Prometheus 2 the text of `le` is the series' name: a histogram whose
//! bounds are printed in another way tomorrow is a new histogram, so there is no second formatter.

/// Room to write numbers in, without allocating.
pub struct FloatText {
    digits: zmij::Buffer,
    text: String,
}

impl std::fmt::Debug for FloatText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FloatText")
    }
}

impl Default for FloatText {
    fn default() -> Self {
        Self { digits: zmij::Buffer::new(), text: String::with_capacity(32) }
    }
}

impl FloatText {
    /// The shortest decimal that reads back as the same number, as Go prints it: plain from 10⁻⁴ to below
    /// 10²¹ (`0.0001`, `150`), else with a signed exponent of at least two digits (`1e-05`, `1.5e+21`); `NaN`, `+Inf`, `-Inf`.
    pub fn format(&mut self, value: f64) -> &str {
        self.text.clear();
        if !value.is_finite() {
            return match value {
                v if v.is_nan() => "NaN",
                v if v > 0.0 => "+Inf",
                _ => "-Inf",
            };
        }
        if value == 0.0 {
            return if value.is_sign_negative() { "-0" } else { "0" };
        }
        let shortest = self.digits.format_finite(value);
        layout(shortest, &mut self.text);
        &self.text
    }
}

/// Appends a bound as a `le` label's text: [`FloatText::format`], and whole numbers with `.0` (`1.0`, `+Inf`),
/// which is what a Prometheus server writes when it makes a classic series from protobuf.
pub fn write_le(bound: f64, out: &mut String) {
    let mut text = FloatText::default();
    let text = text.format(bound);
    out.push_str(text);
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        out.push_str(".0");
    }
}

/// Rewrites another writer's shortest decimal (`1e-5`, `150.0`, `1.5e21`) in Go's layout.
fn layout(shortest: &str, out: &mut String) {
    let unsigned = shortest.strip_prefix('-').unwrap_or(shortest);
    if unsigned.len() < shortest.len() {
        out.push('-');
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = [0u8; 40];
    let mut len = 0;
    for byte in whole.bytes().chain(fraction.bytes()).take(digits.len()) {
        digits[len] = byte;
        len += 1;
    }
    let zeros = digits[..len].iter().take_while(|d| **d == b'0').count();
    let end = digits[..len].iter().rposition(|d| *d != b'0').map_or(zeros, |last| last + 1);
    let digits = &digits[zeros..end];
    let point = whole.len() as i32 - zeros as i32 + exponent.parse::<i32>().unwrap_or(0);
    place(digits, point, out);
}

/// Writes `0.d₁d₂… × 10^point`.
fn place(digits: &[u8], point: i32, out: &mut String) {
    let push = |out: &mut String, digits: &[u8]| out.extend(digits.iter().map(|d| char::from(*d)));
    let zeros = |out: &mut String, n: usize| out.extend(std::iter::repeat_n('0', n));
    match point {
        -3..=0 => {
            out.push_str("0.");
            zeros(out, point.unsigned_abs() as usize);
            push(out, digits);
        }
        1..=21 => {
            let (before, after) = digits.split_at(digits.len().min(point as usize));
            push(out, before);
            zeros(out, point as usize - before.len());
            if !after.is_empty() {
                out.push('.');
                push(out, after);
            }
        }
        _ => {
            let (first, rest) = digits.split_at(digits.len().min(1));
            push(out, first);
            if !rest.is_empty() {
                out.push('.');
                push(out, rest);
            }
            let exponent = point - 1;
            out.push_str(if exponent < 0 { "e-" } else { "e+" });
            if exponent.abs() < 10 {
                out.push('0');
            }
            out.push_str(itoa::Buffer::new().format(exponent.unsigned_abs()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn go(value: f64) -> String {
        FloatText::default().format(value).to_owned()
    }

    fn le(value: f64) -> String {
        let mut text = String::new();
        write_le(value, &mut text);
        text
    }

    #[test]
    fn prints_as_go_does() {
        for (value, text) in [
            (1e-5, "1e-05"),
            (3.5e-5, "3.5e-05"),
            (1e-4, "0.0001"),
            (0.00015, "0.00015"),
            (0.1, "0.1"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (150.0, "150"),
            (123_456_789.0, "123456789"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e21, "1.5e+21"),
            (1.25e-7, "1.25e-07"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(go(value), text);
        }
    }

    #[test]
    fn bounds_keep_a_decimal_point() {
        for (value, text) in
            [(1.0, "1.0"), (67.0, "67.0"), (0.5, "0.5"), (1e-5, "1e-05"), (f64::INFINITY, "+Inf")]
        {
            assert_eq!(le(value), text);
        }
    }

    proptest! {
        #[test]
        fn reads_back_as_the_same_number(bits in any::<u64>(), near in -30.0f64..30.0) {
            for value in [f64::from_bits(bits), near, near.exp(), bits as f64] {
                if value.is_nan() {
                    continue;
                }
                prop_assert_eq!(go(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
                prop_assert_eq!(le(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        }
    }
}
