use std::fmt;

use catena_cni::error::code;
use serde_json::Value;

use super::place::At;

/// What is wrong in one place of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The JSON pointer to it (RFC 6901); empty for the whole document.
    pub pointer: String,
    /// The CNI error code: 2 for a key that is unknown or not supported, 7 for a value that cannot be.
    pub code: u32,
    /// What is wrong, with the key, and what makes it right.
    pub text: String,
}

impl Problem {
    /// A key that is unknown or not supported.
    pub fn key(at: &At<'_>, text: impl Into<String>) -> Self {
        Self { pointer: at.pointer(), code: code::UNSUPPORTED_FIELD, text: text.into() }
    }

    /// A value that cannot be.
    pub fn value(at: &At<'_>, text: impl Into<String>) -> Self {
        Self { pointer: at.pointer(), code: code::INVALID_CONFIG, text: text.into() }
    }

    /// A value of the wrong kind.
    pub(super) fn wrong(at: &At<'_>, expected: &str, value: &Value) -> Self {
        Self::value(at, format!("{at} must be {expected}, not {}", short(value)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Everything that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(&self.0).fmt(f)
    }
}

/// The texts of problems in one.
pub(super) fn join(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>().join("; ")
}

/// A value as a message shows it.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
