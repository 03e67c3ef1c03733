//! One reader and one writer for all documents: a second one of each would make every module a quarter larger.

use catena_cni::json::JsonError;
use serde_json::Value;

pub(crate) fn parse(text: &str) -> Result<Value, JsonError> {
    catena_cni::json::parse(text.as_bytes())
}

/// Compact. A value always has a text.
pub(crate) fn text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
