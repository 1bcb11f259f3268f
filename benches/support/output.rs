//! The raw lines of a bench: kept for its tables, and on the disk at once, so that a run that is cut short is not lost.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// The lines as they come.
pub struct Raw<L> {
    file: fs::File,
    /// All so far.
    pub lines: Vec<L>,
}

impl<L: Serialize> Raw<L> {
    /// Begins the file anew.
    pub fn create(path: &Path) -> Self {
        let file = fs::File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self { file, lines: Vec::new() }
    }

    /// Writes a line to the file, and to whoever watches.
    pub fn put(&mut self, line: L) {
        let mut text = serde_json::to_string(&line).unwrap();
        println!("{text}");
        text.push('\n');
        self.file.write_all(text.as_bytes()).unwrap();
        self.lines.push(line);
    }
}
