//! Members of a request: finding them, and what is said about wrong ones.

use catena_cni::json::{Map, same_name};
use serde_json::Value;

use crate::node::{At, Problem};

/// The key as we spell it. Go plugins match names without regard to case, so users may rely on it.
pub(super) fn known(key: &str, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| same_name(key, name))
}

/// A list of texts; `null` is an empty one.
pub(super) fn texts(value: &Value, at: &At<'_>) -> Result<Vec<String>, Problem> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| bad(at, value, "a list of texts")))
            .collect(),
        _ => Err(bad(at, value, "a list of texts")),
    }
}

/// A value of the wrong kind or outside of what is allowed (code 7).
pub(super) fn bad(at: &At<'_>, value: &Value, expected: &str) -> Problem {
    Problem::value(at, format!("{at} must be {expected}, not {}", brief(value)))
}

/// A key of ours that does not exist (code 2, with key and value).
pub(super) fn unknown(at: &At<'_>, value: &Value, hint: &str) -> Problem {
    Problem::key(at, format!("unknown key {at} with value {}; {hint}", brief(value)))
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

/// A member's name as the document spells it, where it is there.
pub(super) fn spelt<'a>(map: &'a Map, name: &'a str) -> &'a str {
    map.keys().rev().find(|key| same_name(key, name)).map_or(name, String::as_str)
}
