//! Text to [`RawConfig`]. The only file that knows the YAML library, which is no longer developed upstream.
//!
//! The text becomes a value tree first and that tree the config: errors of the second step then carry a clean path and
//! message. The line is found afterwards by walking the text along that path.

use std::fmt;
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_path_to_error::Segment;
use serde_yaml::Value;

use crate::sys;

use super::Error;
use super::raw::RawConfig;
use super::section::Section;
use super::word::{hint, listed};

/// Far above any config, far below what would make reading one a load.
const LARGEST: usize = 1 << 20;

/// Brackets open at once. The scanner's time grows with the square of it: 100,000 take a minute.
const DEEPEST: usize = 200;

/// One step into the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To the value of a key.
    Key(String),
    /// To an element of a list, counted from 0.
    Index(usize),
}

/// A place in the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(pub(super) Vec<Step>);

impl Place {
    /// As people write it: `targets[0].read`.
    pub(super) fn shown(&self) -> String {
        let mut text = String::new();
        for step in &self.0 {
            match step {
                Step::Index(n) => text += &format!("[{n}]"),
                Step::Key(key) if text.is_empty() => text += key,
                Step::Key(key) => text += &format!(".{key}"),
            }
        }
        text
    }

    /// The place of `key` in here.
    pub(super) fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Self(steps)
    }

    /// The place of element `n` in here.
    pub(super) fn index(&self, n: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(n));
        Self(steps)
    }
}

/// Reads the file's text.
pub(super) fn read(file: &Path, shown: &str) -> Result<String, Error> {
    let whole = |message: &str| Error::new(shown, None, "", message);
    match sys::metadata(file).map(|m| m.kind) {
        Ok(sys::Kind::File) => {}
        Ok(_) => return Err(whole("is not a file; name the YAML file that lists the targets")),
        Err(errno) => return Err(whole(&format!("cannot be read: {errno}"))),
    }
    sys::read_text(file).map_err(|errno| whole(&format!("cannot be read: {errno}")))
}

/// Parses strictly; the first fault is the error.
pub(super) fn parse(file: &str, text: &str) -> Result<RawConfig, Error> {
    let whole = |message: &str| Err(Error::new(file, None, "", message));
    if text.len() > LARGEST {
        return whole("is larger than 1 MiB, which no list of targets is");
    }
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return whole("is not UTF-8");
    }
    if deepest(text) > DEEPEST {
        return whole("has more brackets open at once than any list of targets needs");
    }
    let value: Value = serde_yaml::from_str(text).map_err(|error| syntax(file, text, &error))?;
    if value.is_null() {
        return whole("is empty; it must name at least one target under `targets:`, or have `discover:`");
    }
    serde_path_to_error::deserialize(value).map(|Section(raw)| raw).map_err(|error| {
        let mut at = place(error.path());
        let message = wording(&error.into_inner().to_string(), &mut at);
        let line = line_of(text, &at);
        if message.starts_with("unknown key") {
            at.0.pop();
        }
        Error::new(file, line, &at.shown(), &message)
    })
}

/// The line, counted from 1, of the key or element at `at`, or of the nearest place around it.
pub(super) fn line_of(text: &str, at: &Place) -> Option<usize> {
    (0..=at.0.len()).rev().find_map(|depth| {
        let found = Seek(&at.0[..depth]).deserialize(serde_yaml::Deserializer::from_str(text));
        Some(found.err()?.location()?.line())
    })
}

/// The most brackets that are open at once, those in quotes and comments counted too.
fn deepest(text: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Where the text is no YAML, or YAML that we do not take.
fn syntax(file: &str, text: &str, error: &serde_yaml::Error) -> Error {
    let message = error.to_string();
    let Some(at) = error.location() else {
        let second = text.lines().skip(1).position(|line| line.starts_with("---")).map(|n| n + 2);
        return Error::new(
            file,
            second,
            "",
            &message.replace("deserializing from YAML containing ", "not one list of targets: "),
        );
    };
    let message = message.replacen(&format!(" at line {} column {}", at.line(), at.column()), "", 1);
    if let Some((place, key)) = message.split_once("duplicate entry with key ") {
        let path = place.trim_end_matches([':', ' ']);
        return Error::new(
            file,
            Some(at.line()),
            path,
            &format!("the key {key} stands twice in this mapping"),
        );
    }
    let line = text.lines().nth(at.line().saturating_sub(1)).unwrap_or_default();
    let tab = line.trim_start_matches(' ').starts_with('\t');
    let hint = if tab { "; indent with spaces, YAML takes no tabs" } else { "" };
    Error::new(file, Some(at.line()), "", &format!("not valid YAML: {message}{hint}"))
}

fn place(path: &serde_path_to_error::Path) -> Place {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    Place(steps.collect())
}

/// serde's words in ours. A key that is not known is appended to the place, so that its own line is found.
fn wording(message: &str, at: &mut Place) -> String {
    if let Some((key, valid)) = unknown_field(message) {
        if at.0.last() != Some(&Step::Key(key.to_owned())) {
            *at = at.key(key);
        }
        return format!("unknown key `{key}`{} valid keys: {}", hint(key, &valid), listed(&valid));
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    if let Some((found, expected)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.rsplit_once(", expected "))
    {
        let quotes = if expected == "a string" && found != "unit value" { "; put it in quotes" } else { "" };
        return format!("{} found where {} belongs{quotes}", in_yaml(found), in_yaml(expected));
    }
    message.to_owned()
}

/// The key and the valid ones of serde's "unknown field" message. Valid keys are ours and hold no backticks, the
/// unknown one may hold anything.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, valid) = rest.rsplit_once("`, expected ")?;
    Some((key, valid.split('`').skip(1).step_by(2).collect()))
}

/// Names of types as YAML has them.
fn in_yaml(serde: &str) -> String {
    match serde {
        "unit value" => "nothing".to_owned(),
        "sequence" | "a sequence" => "a list".to_owned(),
        "map" | "a map" => "a mapping".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a string" => "text".to_owned(),
        other => match other.strip_prefix("string ") {
            Some(text) => format!("the text {text}"),
            None => other.to_owned(),
        },
    }
}

/// Follows a path through the text and fails where it ends, because the library tells lines only with errors.
struct Seek<'a>(&'a [Step]);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.0.is_empty() { from.deserialize_any(Here) } else { from.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place on the way")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Key(key), rest)) = self.0.split_first() else {
            return Err(A::Error::custom("no key"));
        };
        while let Some(found) = map.next_key_seed(Key { wanted: key, last: rest.is_empty() })? {
            match found {
                true => return map.next_value_seed(Seek(rest)),
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((Step::Index(n), rest)) = self.0.split_first() else {
            return Err(A::Error::custom("no index"));
        };
        for _ in 0..*n {
            seq.next_element::<IgnoredAny>()?;
        }
        seq.next_element_seed(Seek(rest)).map(|_| ())
    }
}

/// Refuses every value.
struct Here;

impl Visitor<'_> for Here {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("to stop here")
    }
}

/// Whether a key is the wanted one; if it is the last, fails on it.
struct Key<'a> {
    wanted: &'a str,
    last: bool,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<bool, E> {
        match (key == self.wanted, self.last) {
            (true, true) => Err(E::custom("the key")),
            (found, _) => Ok(found),
        }
    }
}
