//! Reading JSON objects of the node's files by hand, so that every problem names its key.

use std::path::Path;

use serde_json::{Map, Value};

use super::NodeError;

/// What is wrong with a file, all of it.
#[derive(Debug, Default)]
pub(super) struct Problems {
    keys: Vec<String>,
    values: Vec<String>,
}

impl Problems {
    pub(super) fn key(&mut self, text: String) {
        self.keys.push(text);
    }

    pub(super) fn value(&mut self, text: String) {
        self.values.push(text);
    }

    pub(super) fn into_texts(mut self) -> Vec<String> {
        self.keys.append(&mut self.values);
        self.keys
    }

    /// Ok if there were none.
    pub(super) fn finish(self, path: &Path) -> Result<(), NodeError> {
        let path = path.to_owned();
        match (self.keys.is_empty(), self.values.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(NodeError::Value { path, problems: self.values }),
            (false, _) => Err(NodeError::Key { path, problems: self.into_texts() }),
        }
    }
}

/// A JSON object and where it stands. Keys that nobody asked for are reported by [`Object::end`].
#[derive(Debug)]
pub(super) struct Object<'a> {
    at: String,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Object<'a> {
    pub(super) fn new(at: &str, value: &'a Value, problems: &mut Problems) -> Option<Self> {
        match value.as_object() {
            Some(map) => Some(Self { at: at.to_owned(), map, known: Vec::new() }),
            None => {
                problems.value(wrong(at, "an object", value));
                None
            }
        }
    }

    /// Where `key` of this object stands.
    pub(super) fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    pub(super) fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.map.get(key)
    }

    /// A value of `key` that `read` accepts; anything else is a problem that says `expected`.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        problems: &mut Problems,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let read = read(value);
        if read.is_none() {
            problems.value(wrong(&self.path(key), expected, value));
        }
        read
    }

    pub(super) fn flag(&mut self, key: &'static str, problems: &mut Problems) -> bool {
        self.read(key, "true or false", problems, Value::as_bool).unwrap_or(false)
    }

    pub(super) fn strings(&mut self, key: &'static str, problems: &mut Problems) -> Option<Vec<&'a str>> {
        self.read(key, "an array of strings", problems, |value| {
            value.as_array()?.iter().map(Value::as_str).collect()
        })
    }

    /// Reports each of `keys` that is there as not supported yet.
    pub(super) fn later(&mut self, keys: &[&'static str], problems: &mut Problems) {
        for &key in keys {
            if let Some(value) = self.get(key) {
                problems.key(format!(
                    "{} = {} is not supported yet; remove it",
                    self.path(key),
                    short(value)
                ));
            }
        }
    }

    /// Reports every key that was not asked for.
    pub(super) fn end(self, problems: &mut Problems) {
        for (key, value) in self.map {
            if !self.known.contains(&key.as_str()) {
                let known = self.known.join(", ");
                problems.key(format!("unknown key {} = {}; known are {known}", self.path(key), short(value)));
            }
        }
    }
}

/// The text for a value of the wrong kind.
pub(super) fn wrong(at: &str, expected: &str, value: &Value) -> String {
    let at = if at.is_empty() { "the document" } else { at };
    format!("{at} must be {expected}, not {}", short(value))
}

/// A value as a message shows it.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
