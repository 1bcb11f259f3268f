//! Text that is safe in HTML.

use std::fmt::{self, Write};

/// Text from outside, as HTML text or as a quoted attribute.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_it_is_a_tag_or_ends_an_attribute() {
        assert_eq!(Escaped("<a b='c' d=\"e\">&").to_string(), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
    }
}
