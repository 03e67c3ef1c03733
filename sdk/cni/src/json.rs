//! JSON as Go's `encoding/json` reads it, where that differs from other readers and a CNI document can show it.
//!
//! * Exactly one document, white space around it allowed, no byte order mark.
//! * The last of several members of one name wins, and stands where it was written.
//! * A number keeps its digits as they were written (`1.10` and integers beyond 2^53 too; an `E` becomes `e`).
//! * Bytes in a string that are no UTF-8, and unpaired surrogates, become U+FFFD.
//! * Typed reading matches names without regard to case; `null` counts as absent.

use std::borrow::Cow;
use std::fmt;

pub use serde_json::Value;
use serde_json::map::Entry;

use crate::members::{Node, describe};
use crate::text::quoted;
use crate::tree::Tree;

/// A JSON object; members in document order.
pub type Map = serde_json::Map<String, Value>;

/// More lists and objects inside each other than this are an error. serde_json stops at 128, so what is accepted here
/// can be read there even when it has been put into larger documents.
pub const MAX_DEPTH: usize = 100;

/// Why a text is not one JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("there is no JSON document, only {0} bytes of white space")]
    Empty(usize),
    #[error("the JSON document of {0} bytes ends too early")]
    Truncated(usize),
    #[error("no valid JSON at line {line} column {column}: {problem}")]
    Syntax { line: usize, column: usize, problem: String },
    #[error("the JSON document is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

/// A member or element of the wrong kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} must be {expected}, not {found}")]
pub struct TypeError {
    /// Where, as in `ips[0].gateway`; `the document` at the top.
    pub place: String,
    pub expected: &'static str,
    pub found: String,
}

impl TypeError {
    pub(crate) fn new<'a>(place: impl fmt::Display, expected: &'static str, found: impl Node<'a>) -> Self {
        Self { place: place.to_string(), expected, found: describe(found) }
    }
}

/// Parses exactly one document. Linear in the size of `text`.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    read(text).map(Tree::into_value)
}

/// The last member whose name equals `name` without regard to case.
pub fn get<'a>(map: &'a Map, name: &str) -> Option<&'a Value> {
    map.iter().rev().find(|(key, _)| same_name(key, name)).map(|(_, value)| value)
}

/// Sets a member, in place of every spelling of its name that a Go reader would take for it.
pub fn set(map: &mut Map, name: &str, value: Value) {
    remove(map, name);
    map.insert(name.to_owned(), value);
}

/// Removes every spelling of a member's name that a Go reader would take for it.
pub fn remove(map: &mut Map, name: &str) {
    map.retain(|key, _| !same_name(key, name));
}

/// Takes a member out, as [`get`] finds it; other spellings of its name go as well.
pub fn take(map: &mut Map, name: &str) -> Option<Value> {
    let key = map.keys().rev().find(|key| same_name(key, name))?.clone();
    let value = map.shift_remove(&key);
    remove(map, name);
    value
}

/// Whether there is a `null` in the value, at any depth.
pub fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// Removes the members that are `null`, at any depth: they count as absent. A `null` in a list cannot be taken out
/// without changing what the list says, so the place of the first one is the error.
pub fn drop_null_members(value: &mut Value) -> Result<(), String> {
    drop_nulls(value).map_err(|steps| {
        let place: String = steps.into_iter().rev().collect();
        place.strip_prefix('.').map(str::to_owned).unwrap_or(place)
    })
}

/// The error is the way to the place, the last step first.
fn drop_nulls(value: &mut Value) -> Result<(), Vec<String>> {
    let within = |mut steps: Vec<String>, step: String| {
        steps.push(step);
        steps
    };
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            for (name, value) in members {
                drop_nulls(value).map_err(|steps| within(steps, format!(".{name}")))?;
            }
        }
        Value::Array(elements) => {
            for (i, element) in elements.iter_mut().enumerate() {
                if element.is_null() {
                    return Err(vec![format!("[{i}]")]);
                }
                drop_nulls(element).map_err(|steps| within(steps, format!("[{i}]")))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Equal without regard to case, as Go folds: ASCII, and the two other letters that fold to ASCII ones.
pub fn same_name(a: &str, b: &str) -> bool {
    for (a_byte, b_byte) in a.bytes().zip(b.bytes()) {
        if !a_byte.eq_ignore_ascii_case(&b_byte) {
            return !(a_byte.is_ascii() && b_byte.is_ascii()) && same_folded(a, b);
        }
    }
    a.len() == b.len()
}

#[cold]
fn same_folded(a: &str, b: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    a.chars().map(fold).eq(b.chars().map(fold))
}

/// Parses exactly one document. Linear in the size of `text`.
pub(crate) fn read(text: &[u8]) -> Result<Tree<'_>, JsonError> {
    let mut parser = Parser { text, valid: std::str::from_utf8(text).ok(), at: 0 };
    parser.skip_space();
    if parser.peek().is_none() {
        return Err(JsonError::Empty(text.len()));
    }
    let value = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.syntax("something follows the document")),
    }
}

struct Parser<'t> {
    text: &'t [u8],
    /// The same, if all of it is UTF-8.
    valid: Option<&'t str>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// An error at the current byte, or `Truncated` at the end of the text.
    fn syntax(&self, problem: impl fmt::Display) -> JsonError {
        let Some(byte) = self.peek() else {
            return JsonError::Truncated(self.text.len());
        };
        let before = self.text.get(..self.at).unwrap_or_default();
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        JsonError::Syntax {
            line: before.iter().filter(|b| **b == b'\n').count() + 1,
            column: self.at - line_start + 1,
            problem: format!("{problem}, found {}", quoted(&String::from_utf8_lossy(&[byte]))),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Tree<'t>, JsonError> {
        match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(JsonError::TooDeep),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Tree::Text(self.string()?)),
            Some(b't') => self.word("true").map(|()| Tree::Bool(true)),
            Some(b'f') => self.word("false").map(|()| Tree::Bool(false)),
            Some(b'n') => self.word("null").map(|()| Tree::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.syntax("expected a value")),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        for byte in word.bytes() {
            if self.peek() != Some(byte) {
                return Err(self.syntax(format_args!("expected {word}")));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.syntax("expected a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Tree<'t>, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let number = std::str::from_utf8(text).ok().map(Tree::Number);
        number.ok_or_else(|| self.syntax("expected a number"))
    }

    fn array(&mut self, depth: usize) -> Result<Tree<'t>, JsonError> {
        self.at += 1;
        let mut elements = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Tree::List(elements));
        }
        loop {
            self.skip_space();
            elements.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Tree::List(elements));
                }
                _ => return Err(self.syntax("expected a comma or the end of the list")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Tree<'t>, JsonError> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Tree::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.syntax("expected a member name in double quotes"));
            }
            let name = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.syntax("expected a colon"));
            }
            self.at += 1;
            self.skip_space();
            members.push((name, self.value(depth + 1)?));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Tree::Object(members));
                }
                _ => return Err(self.syntax("expected a comma or the end of the object")),
            }
        }
    }

    /// A text without escapes stays where it is written.
    fn string(&mut self) -> Result<Cow<'t, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        self.at += plain(self.text.get(start..).unwrap_or_default());
        if self.peek() == Some(b'"') {
            let here = start..self.at;
            self.at += 1;
            return Ok(match self.valid {
                Some(text) => Cow::Borrowed(text.get(here).unwrap_or_default()),
                None => String::from_utf8_lossy(self.text.get(here).unwrap_or_default()),
            });
        }
        let mut bytes = self.text.get(start..self.at).unwrap_or_default().to_vec();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    let text = String::from_utf8(bytes);
                    let text = text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(0x20..) => {
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    let plain = plain(rest);
                    bytes.extend_from_slice(rest.get(..plain).unwrap_or_default());
                    self.at += plain;
                }
                _ => return Err(self.syntax("expected the rest of a text")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let plain = match self.peek() {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.syntax("expected an escape such as \\n or \\u0020")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        let rest = self.text.get(self.at..).unwrap_or_default();
        if (0xd800..0xdc00).contains(&first) && rest.starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // Unpaired; what follows is a character of its own.
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.syntax("expected four hexadecimal digits"))?;
            self.at += 1;
        }
        Ok(code)
    }
}

/// How many bytes at the start of `text` are a text's own: no quote, no backslash, no control character.
pub(crate) fn plain(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // The lowest marked byte is the first one that is below `n`; n is at most 128.
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & HIGH;
    let mut at = 0;
    // Eight bytes at once: most of a document is texts.
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*chunk);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let marks = below(word, 0x20) | quote | backslash;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    at + rest.iter().position(special).unwrap_or(rest.len())
}

/// The members as a map; of several of one name the last one.
pub(crate) fn last_wins(members: Vec<(String, Value)>) -> Map {
    let mut map = Map::with_capacity(members.len());
    let mut members = members.into_iter();
    while let Some((name, value)) = members.next() {
        match map.entry(name) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(place) => {
                let repeated = (place.key().clone(), value);
                return last_wins_backwards(map.into_iter().chain([repeated]).chain(members).collect());
            }
        }
    }
    map
}

/// `Map::insert` would leave a repeated member where its first value stood, and a case variant between the two would
/// then seem to be the last one.
#[cold]
fn last_wins_backwards(members: Vec<(String, Value)>) -> Map {
    let mut backwards = Map::new();
    for (name, value) in members.into_iter().rev() {
        backwards.entry(name).or_insert(value);
    }
    let mut members: Vec<_> = backwards.into_iter().collect();
    members.reverse();
    members.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(text: &str) -> String {
        parse(text.as_bytes()).expect_err("an error").to_string()
    }

    #[test]
    fn errors_say_where_and_what() {
        assert_eq!(error(" \n"), "there is no JSON document, only 2 bytes of white space");
        assert_eq!(error("{\"a\":"), "the JSON document of 5 bytes ends too early");
        assert_eq!(
            error("{\n  \"a\": 1,\n}"),
            "no valid JSON at line 3 column 1: expected a member name in double quotes, found \"}\""
        );
        assert_eq!(
            error("{} {}"),
            "no valid JSON at line 1 column 4: something follows the document, found \"{\""
        );
        assert_eq!(
            error("\"\n\""),
            "no valid JSON at line 1 column 2: expected the rest of a text, found \"\\n\""
        );
        for text in [
            "01",
            "1.",
            "-",
            "+1",
            ".5",
            "1e",
            "nul",
            "True",
            "[1,]",
            "{\"a\" 1}",
            "\"\\x\"",
            "\"\\u12",
            "\u{feff}{}",
        ] {
            parse(text.as_bytes()).expect_err(text);
        }
    }

    #[test]
    fn what_ends_a_plain_text_is_found_wherever_it_is() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255_u8 {
                    let mut text = vec![b'x'; length];
                    text[at] = byte;
                    let is_plain = byte >= 0x20 && byte != b'"' && byte != b'\\';
                    assert_eq!(
                        plain(&text),
                        if is_plain { length } else { at },
                        "{byte} at {at} of {length}"
                    );
                }
            }
        }
        assert_eq!(plain(&[b'x', 0x1f, b'"', b'\\', 0xff, 0x80, 0, 1]), 1);
    }

    #[test]
    fn numbers_keep_their_digits() {
        let text = "[12345678901234567890,1.10,1E+400,-0,0.0]";
        assert_eq!(parse(text.as_bytes()).expect("valid").to_string(), text.replace('E', "e"));
    }

    #[test]
    fn the_last_spelling_of_a_member_wins_where_it_stands() {
        let doc = parse(br#"{"ips":1,"IPS":2,"ips":3}"#).expect("valid");
        let map = doc.as_object().expect("an object");
        assert_eq!(map.keys().collect::<Vec<_>>(), ["IPS", "ips"]);
        assert_eq!(get(map, "Ips"), Some(&json!(3)));
        assert_eq!(get(map, "ip\u{17f}"), Some(&json!(3)));
        assert_eq!(get(map, "ip"), None);
        for (a, b, same) in [
            ("s", "\u{17f}", true),
            ("\u{212a}x", "kX", true),
            ("", "", true),
            ("", "a", false),
            ("ab", "a\u{e9}", false),
            ("\u{e9}", "\u{c9}", false),
            ("a@", "a`", false),
        ] {
            assert_eq!((same_name(a, b), same_name(b, a)), (same, same), "{a} {b}");
        }
        let mut map = map.clone();
        set(&mut map, "Ips", json!(4));
        assert_eq!(Value::Object(map), json!({ "Ips": 4 }));
    }

    #[test]
    fn what_is_no_text_becomes_the_replacement_character() {
        for (bytes, text) in [
            (br#""\ud83d\ude00""#.as_slice(), "\u{1f600}"),
            (br#""\ud83dx""#, "\u{fffd}x"),
            (br#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (br#""\ud83d\u0041""#, "\u{fffd}A"),
            (b"\"a\xffb\"", "a\u{fffd}b"),
        ] {
            assert_eq!(parse(bytes), Ok(json!(text)));
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(parse(nested(MAX_DEPTH + 1).as_bytes()), Err(JsonError::TooDeep));
        assert_eq!(parse("{\"a\":".repeat(1_000_000).as_bytes()), Err(JsonError::TooDeep));
    }

    #[test]
    fn names_that_serde_json_uses_inside_are_names_like_others() {
        let text = r#"{"$serde_json::private::Number":"1","$serde_json::private::RawValue":"{}"}"#;
        assert_eq!(parse(text.as_bytes()).expect("valid").to_string(), text);
    }
}
