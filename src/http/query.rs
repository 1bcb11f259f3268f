//! Parameters of a request, as they stand behind the `?`.

use std::fmt::Write;

/// Names and values in their order, decoded: `%41` is a byte, `+` a space, as forms have it. An error is one sentence.
pub(super) fn parse(query: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        })
        .collect()
}

fn decode(text: &str) -> Result<String, String> {
    let digit = |byte: Option<&u8>| byte.and_then(|b| char::from(*b).to_digit(16));
    let (bytes, mut at, mut out) = (text.as_bytes(), 0, Vec::new());
    while let Some(byte) = bytes.get(at) {
        at += 1;
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let pair = digit(bytes.get(at)).zip(digit(bytes.get(at + 1)));
                let (high, low) =
                    pair.ok_or_else(|| format!("`{text}` has a `%` without two hexadecimal digits"))?;
                at += 2;
                // Two digits are below 256.
                (high * 16 + low) as u8
            }
            other => *other,
        });
    }
    String::from_utf8(out).map_err(|_| format!("`{text}` is not UTF-8 once it is decoded"))
}

/// `text` so that [`parse`], and everybody else, finds it again.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn what_people_write_is_understood() {
        let pairs = parse("target=my+disk%20%C3%A4&for=1h&&flag").unwrap();
        let text: Vec<(&str, &str)> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(text, [("target", "my disk ä"), ("for", "1h"), ("flag", "")]);
        for wrong in ["a=%", "a=%4", "a=%zz", "%FF=1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_found_again(text: String) {
            let query = format!("target={}", encode(&text));
            assert!(query.bytes().all(|b| b.is_ascii_graphic()));
            prop_assert_eq!(parse(&query), Ok(vec![("target".to_owned(), text)]));
        }

        #[test]
        fn any_query_is_answered(query: String) {
            let _ = parse(&query);
        }
    }
}
