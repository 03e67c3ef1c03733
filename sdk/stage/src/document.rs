use catena_cni::result::CniResult;
use catena_cni::version::SpecVersion;
use serde_json::Value;

use crate::{Error, json};

const PREFIX: &str = "cni/";

/// A CNI result as the host hands it on: JSON text and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// `cni/1.1.0` after conversion, `cni/VERSION` for another version, `raw` for what no version fits.
    pub format: String,
    /// JSON.
    pub text: String,
}

impl Document {
    /// Whether it is of the version that this contract works on (1.1.0).
    pub fn is_converted(&self) -> bool {
        self.format.strip_prefix(PREFIX) == Some(SpecVersion::NEWEST.as_str())
    }

    /// The JSON value.
    pub fn value(&self) -> Result<Value, Error> {
        json::parse(&self.text).map_err(|e| Error::InvalidResult(format!("the result: {e}")))
    }

    /// The result in the 1.1.0 model, whatever known version it is of. Members that the model does not know
    /// stay in the `extra` of their object.
    pub fn result(&self) -> Result<CniResult, Error> {
        CniResult::read(&self.value()?)
            .map(|(result, _)| result)
            .map_err(|e| Error::InvalidResult(format!("the result: {e}")))
    }

    /// A result of version 1.1.0.
    pub fn from_result(result: &CniResult) -> Result<Document, Error> {
        let value = result
            .to_value(SpecVersion::NEWEST)
            .map_err(|e| Error::InvalidResult(format!("the changed result: {e}")))?;
        Ok(Document { format: format!("{PREFIX}{}", SpecVersion::NEWEST.as_str()), text: json::text(&value) })
    }
}
