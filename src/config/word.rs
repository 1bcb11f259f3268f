//! Words that a key accepts, and the nearest one to a word that it does not.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::io::{Wait, Wish};
use crate::probe::sweep::Preset;
use crate::probe::{Method, Profile};
use crate::target::{FileSystem, Unusual};

/// A value that stands in the config as one of a few words.
pub(super) trait Word: Copy + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// As it is written.
    fn label(self) -> &'static str;
}

macro_rules! words {
    ($($name:ty),*) => {$(
        impl Word for $name {
            const ALL: &'static [Self] = <$name>::ALL;

            fn label(self) -> &'static str {
                <$name>::label(self)
            }
        }
    )*};
}

words!(Profile, Method, Wish, Wait, FileSystem, Unusual, Preset);

/// A word in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed<T>(pub(super) T);

impl<T: Word> Serialize for Listed<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, to)
    }
}

impl<'de, T: Word> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        deserialize(from).map(Self)
    }
}

impl<T: Word> JsonSchema for Listed<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema::<T>(generator)
    }
}

/// For `#[serde(serialize_with)]`.
pub(super) fn serialize<T: Word, S: Serializer>(word: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(word.label())
}

/// For `#[serde(deserialize_with)]`.
pub(super) fn deserialize<'de, T: Word, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let text = Cow::<str>::deserialize(from)?;
    T::ALL.iter().copied().find(|word| word.label() == text).ok_or_else(|| {
        let valid: Vec<_> = T::ALL.iter().map(|word| word.label()).collect();
        D::Error::custom(format!(
            "unknown word `{text}`{} valid words: {}",
            hint(&text, &valid),
            listed(&valid)
        ))
    })
}

/// As [`deserialize`], for a key that may be left out.
pub(super) fn optional<'de, T: Word, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    deserialize(from).map(Some)
}

/// For `#[schemars(schema_with)]`.
pub(super) fn schema<T: Word>(_: &mut SchemaGenerator) -> Schema {
    let labels: Vec<_> = T::ALL.iter().map(|word| word.label()).collect();
    json_schema!({ "enum": labels })
}

/// `; did you mean …?` when one of the valid words is near, else `;`: a list of them follows.
pub(super) fn hint(word: &str, valid: &[&str]) -> String {
    let word: String = word.chars().take(64).collect::<String>().to_lowercase().replace('-', "_");
    nearest(&word, valid).map_or_else(|| ";".to_owned(), |nearest| format!("; did you mean `{nearest}`?"))
}

/// The valid word that is near to this one.
pub(super) fn nearest<'a>(word: &str, valid: &[&'a str]) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect();
    let furthest = 1 + word.chars().count() / 4;
    valid
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min()
        .map(|(_, nearest)| nearest)
}

/// `a`, `b`, `c`.
pub(super) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_word_is_offered() {
        let valid = ["interval", "file_size", "wait"];
        assert_eq!(hint("intervall", &valid), "; did you mean `interval`?");
        assert_eq!(hint("File-Size", &valid), "; did you mean `file_size`?");
        assert_eq!(hint("iodedepth", &valid), ";");
        assert_eq!(hint("", &valid), ";");
        assert_eq!(hint(&"interval".repeat(100_000), &valid), ";");
    }
}
