//! One entry of a pipeline.

use catena_cni::error::code;
use catena_cni::json::{Map, same_name};
use serde_json::Value;

use super::error::CniError;

/// A stage in a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the module.
    pub stage: String,
    /// Its own configuration.
    pub config: Option<Value>,
    /// Runs only if all of these tags are set.
    pub when: Vec<String>,
    /// Does not run if one of these tags is set.
    pub unless: Vec<String>,
    /// What its failure means.
    pub on_error: OnError,
    /// Whether what it does takes effect.
    pub mode: EntryMode,
}

/// `onError`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The attachment fails.
    #[default]
    Fail,
    /// The pipeline goes on without it.
    Skip,
}

/// `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntryMode {
    /// It acts.
    #[default]
    Enforce,
    /// It runs, changes nothing, and what it would have done is logged.
    Monitor,
}

impl Entry {
    /// Reads an entry. `place` says where it stands, for messages: `pipeline[2]`.
    pub fn read(value: &Value, place: &str) -> Result<Self, CniError> {
        let Value::Object(map) = value else {
            return Err(bad(place, value, "an object with a stage"));
        };
        let mut entry = Self {
            stage: String::new(),
            config: None,
            when: Vec::new(),
            unless: Vec::new(),
            on_error: OnError::default(),
            mode: EntryMode::default(),
        };
        for (key, value) in map {
            let place = format!("{place}.{key}");
            match known(key, &["stage", "config", "when", "unless", "onError", "mode"]) {
                Some("stage") => {
                    value.as_str().ok_or_else(|| bad(&place, value, "a name"))?.clone_into(&mut entry.stage);
                }
                Some("config") => entry.config = Some(value.clone()).filter(|value| !value.is_null()),
                Some("when") => entry.when = texts(value, &place)?,
                Some("unless") => entry.unless = texts(value, &place)?,
                Some("onError") => {
                    entry.on_error = match value.as_str() {
                        Some("fail") => OnError::Fail,
                        Some("skip") => OnError::Skip,
                        _ => return Err(bad(&place, value, "\"fail\" or \"skip\"")),
                    }
                }
                Some("mode") => {
                    entry.mode = match value.as_str() {
                        Some("enforce") => EntryMode::Enforce,
                        Some("monitor") => EntryMode::Monitor,
                        _ => return Err(bad(&place, value, "\"enforce\" or \"monitor\"")),
                    }
                }
                _ if key.contains('.') => {}
                _ => {
                    return Err(unknown(
                        &place,
                        value,
                        "a pipeline entry has stage, config, when, unless, onError, mode and keys with a period",
                    ));
                }
            }
        }
        if entry.stage.is_empty() {
            return Err(CniError::new(code::INVALID_CONFIG, format!("{place} has no stage")));
        }
        if let Some(config) = entry.config.as_ref().filter(|config| !config.is_object()) {
            return Err(bad(&format!("{place}.config of stage {}", entry.stage), config, "an object"));
        }
        Ok(entry)
    }

    /// Reads a whole pipeline.
    pub fn read_all(values: &[Value], place: &str) -> Result<Vec<Self>, CniError> {
        values
            .iter()
            .enumerate()
            .map(|(index, value)| Self::read(value, &format!("{place}[{index}]")))
            .collect()
    }
}

/// The key as we spell it. Go plugins match names without regard to case, so users may rely on it.
pub(super) fn known(key: &str, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| same_name(key, name))
}

/// A list of texts; `null` is an empty one.
pub(super) fn texts(value: &Value, place: &str) -> Result<Vec<String>, CniError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| bad(place, value, "a list of texts")))
            .collect(),
        _ => Err(bad(place, value, "a list of texts")),
    }
}

/// A value of the wrong kind or outside of what is allowed (code 7).
pub(super) fn bad(place: &str, value: &Value, expected: &str) -> CniError {
    CniError::new(code::INVALID_CONFIG, format!("{place} must be {expected}, not {}", brief(value)))
}

/// A key of ours that does not exist (code 2, with key and value).
pub(super) fn unknown(place: &str, value: &Value, hint: &str) -> CniError {
    CniError::new(code::UNSUPPORTED_FIELD, format!("unknown key {place} with value {}; {hint}", brief(value)))
}

/// A value for a message, not longer than a line.
pub(super) fn brief(value: &Value) -> String {
    const LONGEST: usize = 120;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.split_at(end).0),
        None => text,
    }
}

/// The member of that name, unless it is `null`.
pub(super) fn member<'a>(map: &'a Map, name: &str) -> Option<&'a Value> {
    catena_cni::json::get(map, name).filter(|value| !value.is_null())
}
