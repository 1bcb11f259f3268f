//! A histogram as text: HdrHistogram's format V2, deflated, in base64, which its tools in other languages read too.
//!
//! What is read may come from anybody: lengths and counts are checked before the crate sees them, so that no text makes it
//! panic or take more than [`MOST_BYTES`].

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::{HIGHEST, Histogram};

/// A histogram of three digits up to one hour has 33,792 cells, each of at most 9 bytes.
const MOST_BYTES: usize = 512 << 10;
/// First bytes of a deflated and of a plain histogram.
const DEFLATED: u32 = 0x1c84_9314;
const PLAIN: u32 = 0x1c84_9313;
/// Bytes before the counts.
const HEADER: usize = 40;

impl Histogram<u64> {
    /// HdrHistogram V2 with deflate, in base64. Counts and durations are kept to the histogram's digits; exact sum and extremes
    /// are not part of the format.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        let written = (self.cells.as_ref())
            .is_some_and(|cells| V2DeflateSerializer::new().serialize(cells, &mut bytes).is_ok());
        if written { STANDARD.encode(bytes) } else { String::new() }
    }

    /// What [`Histogram::encode`] wrote, or another program of up to three digits and one hour; sum, mean and extremes are those of
    /// its cells. `None` when the text is no such histogram.
    pub fn decode(text: &str) -> Option<Self> {
        if text.len() > MOST_BYTES {
            return None;
        }
        let bytes = STANDARD.decode(text.trim()).ok()?;
        let (head, deflated) = bytes.split_at_checked(8)?;
        if word(head, 0)? != DEFLATED || word(head, 4)? as usize != deflated.len() {
            return None;
        }
        let mut plain = Vec::new();
        ZlibDecoder::new(deflated).take(MOST_BYTES as u64 + 1).read_to_end(&mut plain).ok()?;
        if plain.len() > MOST_BYTES || !is_sound(&plain) {
            return None;
        }
        Self::of(Deserializer::new().deserialize(&mut plain.as_slice()).ok()?)
    }

    fn of(cells: Hdr<u64>) -> Option<Self> {
        let mut all = Self::fine();
        for cell in cells.iter_recorded() {
            let value = cells.median_equivalent(cell.value_iterated_to()).min(HIGHEST);
            let n = cell.count_since_last_iteration();
            all.count = all.count.checked_add(n)?;
            all.sum += u128::from(value) * u128::from(n);
        }
        if all.count > 0 {
            (all.min, all.max) = (cells.min(), cells.max().min(HIGHEST));
        }
        all.cells = Some(cells);
        Some(all)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn long_word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

/// Whether it is a histogram of at most our size, whose counts can be added up.
fn is_sound(plain: &[u8]) -> bool {
    let Some((header, counts)) = plain.split_at_checked(HEADER) else { return false };
    word(header, 0) == Some(PLAIN)
        && word(header, 4).is_some_and(|length| length as usize == counts.len())
        && word(header, 8) == Some(0)
        && word(header, 12).is_some_and(|digits| digits <= 3)
        && long_word(header, 16) == Some(1)
        && long_word(header, 24).is_some_and(|highest| (2..=HIGHEST).contains(&highest))
        && long_word(header, 32) == Some(1f64.to_bits())
        && counts_are_sound(counts)
}

/// Counts are numbers of 7 bits a byte, the lowest first, in which the last bit is the sign; a negative one is a run of empty cells.
fn counts_are_sound(counts: &[u8]) -> bool {
    let (mut number, mut bits) = (0u64, 0u32);
    for byte in counts {
        // A number of more than 7 bytes counts more than 2⁴⁸ samples.
        if bits > 42 {
            return false;
        }
        number |= u64::from(byte & 0x7f) << bits;
        bits += 7;
        if byte & 0x80 == 0 {
            if number & 1 == 1 && number > 2 * MOST_BYTES as u64 {
                return false;
            }
            (number, bits) = (0, 0);
        }
    }
    bits == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the crate itself, or a program in another language, would write it.
    fn deflated(plain: &[u8]) -> String {
        use std::io::Write;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        let body = encoder.finish().unwrap();
        let length = u32::try_from(body.len()).unwrap();
        STANDARD.encode([&DEFLATED.to_be_bytes()[..], &length.to_be_bytes(), &body].concat())
    }

    fn header(length: u32, digits: u32, highest: u64) -> Vec<u8> {
        [
            &PLAIN.to_be_bytes()[..],
            &length.to_be_bytes(),
            &0u32.to_be_bytes(),
            &digits.to_be_bytes(),
            &1u64.to_be_bytes(),
            &highest.to_be_bytes(),
            &1f64.to_be_bytes(),
        ]
        .concat()
    }

    #[test]
    fn an_empty_one_comes_back_empty() {
        let back = Histogram::decode(&Histogram::fine().encode()).unwrap();
        assert_eq!((back.count(), back.mean(), back.max(), back.stdev()), (0, None, None, None));
    }

    #[test]
    fn lengths_and_counts_that_lie_are_refused() {
        let with = |length, digits, highest, counts: &[u8]| {
            let text = deflated(&[&header(length, digits, highest)[..], counts].concat());
            Histogram::decode(&text).map(|h| h.count())
        };
        assert_eq!(with(1, 3, HIGHEST, &[2]), Some(1));
        assert_eq!(with(u32::MAX, 3, HIGHEST, &[2]), None, "longer than it is");
        assert_eq!(with(1, 5, HIGHEST, &[2]), None, "too many digits");
        assert_eq!(with(1, 3, u64::MAX, &[2]), None, "too wide");
        assert_eq!(with(9, 3, HIGHEST, &[0xff; 9]), None, "a run of empty cells that overflows");
        assert_eq!(with(1, 3, HIGHEST, &[0x80]), None, "half a number");
        assert_eq!(with(2, 3, HIGHEST, &[0xff, 0xff]), None, "half a number");
        // The run ends beyond the last cell.
        assert_eq!(with(4, 3, HIGHEST, &[0xff, 0xff, 0x3f, 2]), None);
        assert_eq!(Histogram::decode(&deflated(&vec![0; 64 << 20])).map(|h| h.count()), None, "a bomb");
    }

    proptest! {
        #[test]
        fn it_comes_back_to_its_digits(
            samples in proptest::collection::vec((0u32..40, 1u64..HIGHEST).prop_map(|(s, v)| v >> s), 1..300),
        ) {
            let mut whole = Histogram::fine();
            samples.iter().for_each(|s| whole.record(*s));
            let back = Histogram::decode(&whole.encode()).unwrap();
            prop_assert_eq!(back.count(), whole.count());
            let near = |a: f64, b: f64| (a - b).abs() <= b * 0.001 + 1.0;
            for q in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let (a, b) = (back.quantile(q).unwrap() as f64, whole.quantile(q).unwrap() as f64);
                prop_assert!(near(a, b), "{q}: {a} {b}");
            }
            prop_assert!(near(back.mean().unwrap(), whole.mean().unwrap()));
            prop_assert_eq!(back.encode(), whole.encode());
        }

        #[test]
        fn no_text_breaks_it(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..400, to in any::<u8>()) {
            let _ = Histogram::decode(&STANDARD.encode(&bytes));
            let _ = Histogram::decode(&String::from_utf8_lossy(&bytes));
            let counts = [&header(u32::try_from(bytes.len()).unwrap(), 3, HIGHEST)[..], &bytes].concat();
            let _ = Histogram::decode(&deflated(&counts));
            let mut whole = Histogram::fine();
            bytes.iter().for_each(|b| whole.record(u64::from(*b) << 20));
            let mut text = whole.encode().into_bytes();
            if let Some(byte) = text.get_mut(at) {
                *byte = to;
            }
            let _ = Histogram::decode(&String::from_utf8_lossy(&text));
        }
    }
}
