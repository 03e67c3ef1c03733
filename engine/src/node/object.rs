//! Reading JSON objects of the node's files by hand, so that every problem names its key.

use std::path::Path;

use catena_cni::json::{self, same_name};
use serde_json::{Map, Value};

use super::NodeError;
use super::repeated::repeated;

/// Everything that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Whether a key is unknown or not supported; else only values are wrong.
    pub unknown_key: bool,
    /// Every problem, each naming its key.
    pub problems: Vec<String>,
}

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

    /// Notes every key that an object of the text has more than once.
    pub(super) fn repeated_keys(&mut self, json: &[u8]) {
        for place in repeated(json) {
            self.value(format!("{place} is there more than once; keep one of them"));
        }
    }

    pub(super) fn into_texts(mut self) -> Vec<String> {
        self.keys.append(&mut self.values);
        self.keys
    }

    /// None if there were none.
    pub(super) fn refused(self) -> Option<Refused> {
        let unknown_key = !self.keys.is_empty();
        let problems = self.into_texts();
        (!problems.is_empty()).then_some(Refused { unknown_key, problems })
    }

    /// Ok if there were none.
    pub(super) fn finish(self, path: &Path) -> Result<(), NodeError> {
        let path = path.to_owned();
        match self.refused() {
            None => Ok(()),
            Some(Refused { unknown_key: true, problems }) => Err(NodeError::Key { path, problems }),
            Some(Refused { unknown_key: false, problems }) => Err(NodeError::Value { path, problems }),
        }
    }
}

/// A JSON object and where it stands. Keys that nobody asked for are reported by [`Object::end`].
#[derive(Debug)]
pub(super) struct Object<'a> {
    at: String,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
    any_case: bool,
    extensions: bool,
}

impl<'a> Object<'a> {
    pub(super) fn new(at: &str, value: &'a Value, problems: &mut Problems) -> Option<Self> {
        match value.as_object() {
            Some(map) => {
                Some(Self { at: at.to_owned(), map, known: Vec::new(), any_case: false, extensions: false })
            }
            None => {
                problems.value(wrong(at, "an object", value));
                None
            }
        }
    }

    /// Keys are found without regard to case.
    pub(super) fn any_case(self) -> Self {
        Self { any_case: true, ..self }
    }

    /// Unknown keys with a period are somebody's extensions.
    pub(super) fn with_extensions(self) -> Self {
        Self { extensions: true, ..self }
    }

    /// Where `key` of this object stands.
    pub(super) fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    pub(super) fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        if self.any_case { json::get(self.map, key) } else { self.map.get(key) }
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

    /// Reports every key that was not asked for.
    pub(super) fn end(self, problems: &mut Problems) {
        for (key, value) in self.map {
            let is_known = |known: &&str| if self.any_case { same_name(key, known) } else { key == known };
            let is_extension = self.extensions && key.contains('.');
            if !is_extension && !self.known.iter().any(is_known) {
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
