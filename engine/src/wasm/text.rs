//! Text that came from a guest.

/// The text as a person may see it: control characters escaped, at most `limit` bytes.
pub(crate) fn plain(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for character in text.chars() {
        let start = out.len();
        // Bidirectional controls can make a line read as another one.
        let hidden =
            matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || hidden {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
        if out.len() > limit {
            out.truncate(start);
            out.push('…');
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn controls_are_escaped_and_length_is_bounded() {
        assert_eq!(plain("a\nb\u{1b}[31m ü", 100), "a\\nb\\u{1b}[31m ü");
        assert_eq!(plain("\u{202e}x", 100), "\\u{202e}x");
        assert_eq!(plain("üüü", 4), "üü…");
        assert_eq!(plain("abcd", 4), "abcd");
    }
}
