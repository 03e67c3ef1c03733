//! How foreign text appears in our messages.

use std::fmt::{self, Display, Write as _};

/// Shows at most this many characters of a foreign text.
const SHOWN: usize = 80;

/// A foreign text in quotes, control characters escaped, long ones cut.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(SHOWN) {
            match c {
                '\'' => f.write_char(c)?,
                _ => write!(f, "{}", c.escape_debug())?,
            }
        }
        f.write_str(if chars.next().is_some() { "…\"" } else { "\"" })
    }
}

/// [`Quoted`] as a `String`, for an error's field.
pub(crate) fn quoted(text: &str) -> String {
    Quoted(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn control_characters_are_escaped_and_long_texts_cut() {
        assert_eq!(quoted("a\n\u{1b}'\""), "\"a\\n\\u{1b}'\\\"\"");
        assert_eq!(quoted(&"x".repeat(80)).len(), 82);
        assert!(quoted(&"é".repeat(10_000)).ends_with("é…\""));
    }
}
