//! What a sweep came to: text for people, one page of HTML to send around, JSON and CSV for programs.

mod csv;
mod facts;
mod html;
mod presets;
mod text;
mod words;

pub use csv::csv;
pub use html::html;
pub use presets::presets;
pub use text::text;

use schemars::generate::SchemaSettings;

use crate::probe::sweep::Sweep;

/// The sweep itself: times in nanoseconds, sizes in bytes. Ends with a newline.
pub fn json(sweep: &Sweep) -> String {
    serde_json::to_string_pretty(sweep).map_or_else(|_| String::new(), |text| text + "\n")
}

/// The schema of [`json`]'s text.
pub fn schema() -> String {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    format!("{:#}\n", settings.into_generator().into_root_schema_for::<Sweep>().as_value())
}

#[cfg(test)]
mod tests;
