//! What people and programs read.

use std::io::Write as _;

use serde_json::Value;

use crate::error::Error;

/// A command's result, in both forms.
#[derive(Debug)]
pub(crate) struct Report {
    /// For people; lines.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Value,
}

pub(crate) fn print(report: &Report, json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let written = if json {
        writeln!(out, "{:#}", report.json)
    } else {
        report.text.lines().try_for_each(|line| writeln!(out, "{}", plain(line)))
    };
    written.and_then(|()| out.flush()).map_err(Error::Output)
}

/// A line without anything that a terminal would act on.
pub(crate) fn plain(text: &str) -> String {
    let hidden =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || hidden(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// `label: value` in a column.
pub(crate) fn line(text: &mut String, label: &str, value: &str) {
    // What a file says must not look like a line of ours.
    let value = value.replace('\n', "\\n");
    text.push_str(&format!("{label:<10} {value}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{7}\u{9b}x\r"), "a\\u{1b}[2Jb\\u{7}\\u{9b}x\\r");
        let mut text = String::new();
        line(&mut text, "name", "x\ngrants everything");
        assert_eq!(text.lines().count(), 1);
    }
}
