//! What `discover:` left out, and why.

use std::fmt::Write;

use super::plain;

/// Something that is not probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// A mount point, a device, or several.
    pub what: String,
    /// The reason, in few words.
    pub why: String,
}

/// Paths longer than this do not move the reasons of the others.
const WIDEST: usize = 40;

/// How many were found and what was not picked, as text that ends with a newline.
pub fn discovered(found: usize, left_out: &[LeftOut]) -> String {
    let mut text = format!(
        "discover finds {found} of them now, those named after their paths. What is mounted later is found within half a minute; what is\n\
         unmounted is dropped, with its series.\n"
    );
    if !left_out.is_empty() {
        text += "Left out:\n";
    }
    let shown: Vec<(String, String)> =
        left_out.iter().map(|left| (plain(&left.what), plain(&left.why))).collect();
    let width =
        shown.iter().map(|(what, _)| what.chars().count()).filter(|n| *n <= WIDEST).max().unwrap_or(0);
    for (what, why) in shown {
        let _ = writeln!(text, "  {what:<width$}  {why}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_below_each_other_and_on_their_lines() {
        let left = |what: &str, why: &str| LeftOut { what: what.to_owned(), why: why.to_owned() };
        let all = [left("/a\n", "no"), left("/much/longer", "never"), left(&"/long".repeat(20), "why")];
        let text = discovered(2, &all);
        assert!(text.starts_with("discover finds 2 of them now"));
        assert!(text.contains("\n  /a\\n          no\n  /much/longer  never\n  /long/long"), "{text}");
        assert!(!discovered(0, &[]).contains("Left out"));
    }
}
