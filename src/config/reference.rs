//! `docs/config.md`, made from the doc comments of the keys.

use std::fmt::Write;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::raw::RawConfig;

const HEAD: &str = "\
# Configuration

This page is made from the source (`src/config/raw.rs`); a test holds it so.

The file is YAML, given with `--config.file`. Without one, a single target named `default` is probed: the state directory
(`$STATE_DIRECTORY`, else `/var/lib/diskcanary` as root, else `~/.local/state/diskcanary`).

A key or word that is not listed here is an error that names file, line and the nearest valid word. Sizes carry a unit
(`4KiB`, `64MiB`, `1GiB`; `kB` and `MB` are powers of 1000), times too (`500ms`, `2s`, `5m`, `24h`); a bare number is an
error. `diskcanary check FILE` says whether a file is good, `diskcanary explain FILE` what it will do.
";

/// The reference of all keys as Markdown.
pub fn reference() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<RawConfig>();
    let mut page = HEAD.to_owned();
    section(&mut page, "", schema.as_value());
    page
}

/// One mapping: a table of its keys, then the mappings below it.
fn section(page: &mut String, at: &str, schema: &Value) {
    let Some(keys) = schema["properties"].as_object() else { return };
    let title = if at.is_empty() { "The file".to_owned() } else { format!("`{at}`") };
    let _ = write!(page, "\n## {title}\n\n{}\n\n", flowed(schema));
    page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    let required: Vec<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, value) in keys {
        let default = match &value["default"] {
            _ if required.contains(&key.as_str()) => "required".to_owned(),
            Value::Null => "–".to_owned(),
            Value::String(text) => format!("`{text}`"),
            Value::Object(_) => "none".to_owned(),
            Value::Array(all) if all.is_empty() => "none".to_owned(),
            Value::Array(all) => {
                let words: Vec<_> = all.iter().filter_map(Value::as_str).collect();
                format!("`[{}]`", words.join(", "))
            }
            other => format!("`{other}`"),
        };
        let _ = writeln!(page, "| `{key}` | {} | {default} | {} |", kind(value), flowed(value));
    }
    // What is said to be as elsewhere stands there.
    for (key, value) in keys.iter().filter(|(_, value)| !flowed(value).starts_with("As in `targets`")) {
        let below = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        section(page, &format!("{below}[]"), &value["items"]);
        section(page, &below, mapping(value));
    }
}

/// The schema itself, or the mapping of an optional one.
fn mapping(schema: &Value) -> &Value {
    let alternatives = schema["anyOf"].as_array();
    alternatives.and_then(|all| all.iter().find(|one| one["properties"].is_object())).unwrap_or(schema)
}

/// A type in the words of the page.
fn kind(schema: &Value) -> String {
    let schema = mapping(schema);
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(" \\| ");
    }
    if let Some(format) = schema["format"].as_str() {
        return format.to_owned();
    }
    let name = match &schema["type"] {
        Value::Array(all) => all.first().and_then(Value::as_str),
        one => one.as_str(),
    };
    match name {
        Some("string") => "text",
        Some("boolean") => "`true` \\| `false`",
        Some("array") if schema["items"]["enum"].is_array() => {
            return format!("list of {}", kind(&schema["items"]));
        }
        Some("array") => "list",
        Some("object") if schema["properties"].is_object() => "mapping",
        Some("object") => "mapping of text to text",
        other => other.unwrap_or("any"),
    }
    .to_owned()
}

/// The doc comment as one line that is safe in a table.
fn flowed(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
