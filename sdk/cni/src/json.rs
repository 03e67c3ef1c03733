//! JSON as Go's `encoding/json` reads it, where that differs from other readers and a CNI document can show it.
//!
//! * Exactly one document, white space around it allowed, no byte order mark.
//! * The last of several members of one name wins, and stands where it was written.
//! * A number keeps its digits as they were written (`1.10` and integers beyond 2^53 too; an `E` becomes `e`).
//! * Bytes in a string that are no UTF-8, and unpaired surrogates, become U+FFFD.
//! * Typed reading matches names without regard to case; `null` counts as absent.

use std::fmt;
use std::sync::LazyLock;

pub use serde_json::Value;

use crate::text::quoted;

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
    pub(crate) fn new(place: &str, expected: &'static str, found: &Value) -> Self {
        Self { place: place.to_owned(), expected, found: describe(found) }
    }
}

/// Parses exactly one document. Linear in the size of `text`.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let mut parser = Parser { text, at: 0 };
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

/// Equal without regard to case, as Go folds: ASCII, and the two other letters that fold to ASCII ones.
pub fn same_name(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        return a.eq_ignore_ascii_case(b);
    }
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    a.chars().map(fold).eq(b.chars().map(fold))
}

/// What a value is, for messages.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => format!("the number {:.80}", n.to_string()),
        Value::String(s) => format!("the text {}", crate::text::Quoted(s)),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// One object being read: its members, and where it stands for error messages.
pub(crate) struct Members<'a> {
    map: &'a Map,
    place: String,
}

impl<'a> Members<'a> {
    /// `place` is empty for the document itself. A `null` is an object without members, as for Go.
    pub(crate) fn of(value: &'a Value, place: impl Into<String>) -> Result<Self, TypeError> {
        static NONE: LazyLock<Map> = LazyLock::new(Map::new);
        let place = place.into();
        match value {
            Value::Object(map) => Ok(Self { map, place }),
            Value::Null => Ok(Self { map: &NONE, place }),
            other => {
                let place = if place.is_empty() { "the document".into() } else { place };
                Err(TypeError { place, expected: "an object", found: describe(other) })
            }
        }
    }

    pub(crate) fn in_map(map: &'a Map, place: impl Into<String>) -> Self {
        Self { map, place: place.into() }
    }

    pub(crate) fn map(&self) -> &'a Map {
        self.map
    }

    pub(crate) fn place(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// The member as it stands, `null` included.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a Value> {
        get(self.map, name)
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, TypeError> {
        match self.raw(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(TypeError { place: self.place(name), expected, found: describe(value) }),
            },
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, TypeError> {
        self.typed(name, "text", Value::as_str)
    }

    /// A text that is not empty; empty counts as absent, as it does in Go's `omitempty`.
    pub(crate) fn filled_text(&self, name: &str) -> Result<Option<String>, TypeError> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()).map(str::to_owned))
    }

    /// Written as an integer: neither `1500.0` nor `15e2` is one.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, TypeError> {
        self.typed(name, "an integer", Value::as_i64)
    }

    pub(crate) fn list(&self, name: &str) -> Result<&'a [Value], TypeError> {
        Ok(self.typed(name, "a list", Value::as_array)?.map_or(&[], Vec::as_slice))
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Members<'a>>, TypeError> {
        let map = self.typed(name, "an object", Value::as_object)?;
        Ok(map.map(|map| Members::in_map(map, self.place(name))))
    }

    /// A list of texts; a `null` in it is the empty text, as for Go.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, TypeError> {
        let elements = self.list(name)?.iter().enumerate();
        elements
            .map(|(i, element)| match element {
                Value::String(text) => Ok(text.clone()),
                Value::Null => Ok(String::new()),
                other => Err(TypeError {
                    place: format!("{}[{i}]", self.place(name)),
                    expected: "text",
                    found: describe(other),
                }),
            })
            .collect()
    }

    /// The members whose name is none of `known`. A `null` is as good as absent.
    pub(crate) fn others(&self, known: &[&str]) -> Map {
        let unknown = |name: &str| !known.iter().any(|known| same_name(known, name));
        let others = self.map.iter().filter(|(name, value)| !value.is_null() && unknown(name));
        others.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
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

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(JsonError::TooDeep),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.syntax("expected a value")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        for byte in word.bytes() {
            if self.peek() != Some(byte) {
                return Err(self.syntax(format_args!("expected {word}")));
            }
            self.at += 1;
        }
        Ok(value)
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

    fn number(&mut self) -> Result<Value, JsonError> {
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
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        number.map(Value::Number).ok_or_else(|| self.syntax("expected a number"))
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut elements = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(elements));
        }
        loop {
            self.skip_space();
            elements.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(elements));
                }
                _ => return Err(self.syntax("expected a comma or the end of the list")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(Map::new()));
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
                    return Ok(Value::Object(last_wins(members)));
                }
                _ => return Err(self.syntax("expected a comma or the end of the object")),
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    let text = String::from_utf8(bytes);
                    return Ok(text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(0x20..) => {
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
                    let plain = rest.iter().position(special).unwrap_or(rest.len());
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

/// The members as a map. `Map::insert` would leave a repeated member where its first value stood, and a case variant
/// between the two would then seem to be the last one.
fn last_wins(members: Vec<(String, Value)>) -> Map {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).all(|pair| pair[0] != pair[1]) {
        return members.into_iter().collect();
    }
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
