//! Results and plans as text for people and JSON for programs. All pure: what is needed comes as an argument.

pub mod compare;
pub mod discovered;
pub mod explain;
pub mod probe;
pub mod sweep;

mod summary;

use crate::units::figures;

/// Keeps a text on its line: paths and names may hold anything.
fn plain(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
        line
    })
}
