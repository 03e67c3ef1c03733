//! Reading JSON objects of the node's files by hand, so that every problem names its key.

use std::path::Path;

use catena_cni::error::code;
use catena_cni::json::same_name;
use serde_json::{Map, Value};

use super::NodeError;
use super::place::At;
use super::problem::{Problem, Refused, short};
use super::repeated::repeated;

/// What is wrong with a document, all of it.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    pub(super) fn value(&mut self, at: &At<'_>, text: String) {
        self.add(Problem::value(at, text));
    }

    /// Notes every key that an object of the text has more than once.
    pub(super) fn repeated_keys(&mut self, json: &[u8]) {
        for place in repeated(json) {
            let text = format!("{} is there more than once; keep one of them", place.text);
            self.add(Problem { pointer: place.pointer, code: code::INVALID_CONFIG, text });
        }
    }

    /// Unknown keys first: their code leads.
    pub(super) fn into_vec(mut self) -> Vec<Problem> {
        self.0.sort_by_key(|problem| problem.code != code::UNSUPPORTED_FIELD);
        self.0
    }

    /// Ok if there were none.
    pub(super) fn refused(self) -> Result<(), Refused> {
        let problems = self.into_vec();
        if problems.is_empty() { Ok(()) } else { Err(Refused(problems)) }
    }

    /// Ok if there were none.
    pub(super) fn finish(self, path: &Path) -> Result<(), NodeError> {
        self.refused().map_err(|Refused(problems)| NodeError::Content { path: path.to_owned(), problems })
    }

    #[cfg(test)]
    pub(super) fn into_texts(self) -> Vec<String> {
        self.into_vec().into_iter().map(|problem| problem.text).collect()
    }
}

/// A JSON object and where it stands. Keys that nobody asked for are reported by [`Object::end`].
#[derive(Debug)]
pub(super) struct Object<'a> {
    at: At<'a>,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
    any_case: bool,
    extensions: bool,
}

impl<'a> Object<'a> {
    pub(super) fn new(at: At<'a>, value: &'a Value, problems: &mut Problems) -> Option<Self> {
        match value.as_object() {
            Some(map) => Some(Self { at, map, known: Vec::new(), any_case: false, extensions: false }),
            None => {
                problems.add(Problem::wrong(&at, "an object", value));
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

    /// Where `key` of this object stands, as the document spells it.
    pub(super) fn at<'s>(&'s self, key: &'s str) -> At<'s> {
        let spelt = self.map.keys().rev().find(|other| self.any_case && same_name(other, key));
        self.at.member(spelt.map_or(key, String::as_str))
    }

    pub(super) fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        if self.any_case { catena_cni::json::get(self.map, key) } else { self.map.get(key) }
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
            problems.add(Problem::wrong(&self.at(key), expected, value));
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
                let at = self.at.member(key);
                problems.add(Problem::key(
                    &at,
                    format!("unknown key {at} = {}; known are {known}", short(value)),
                ));
            }
        }
    }
}
