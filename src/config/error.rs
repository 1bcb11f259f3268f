//! What is wrong with a config file, in one line.

use std::fmt;

/// Longer messages are cut here: a key may be as long as the file.
const LONGEST: usize = 600;

/// What is wrong: `disk.yml:7: targets[0].read: unknown key …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    file: String,
    line: Option<usize>,
    path: String,
    message: String,
}

impl Error {
    /// `path` is where in the document, `targets[0].read`, empty for the whole of it.
    pub(super) fn new(file: &str, line: Option<usize>, path: &str, message: &str) -> Self {
        Self { file: file.to_owned(), line, path: one_line(path), message: one_line(message) }
    }

    /// The line in the file, counted from 1, where it is known.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Keeps a message on one line of a bounded length, whatever stood in the file.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if line.len() > LONGEST {
            line.push('…');
            break;
        }
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_on_one_bounded_line() {
        let error = Error::new("f", Some(3), "a\nb", &"\u{1b}x".repeat(5000));
        let text = error.to_string();
        assert!(text.starts_with("f:3: a\\nb: \\u{1b}x"), "{text}");
        assert!(text.len() < LONGEST + 40 && !text.contains(char::is_control));
    }
}
