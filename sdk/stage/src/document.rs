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
        CniResult::parse(self.text.as_bytes())
            .map(|(result, _)| result)
            .map_err(|e| Error::InvalidResult(format!("the result: {e}")))
    }

    /// A result of version 1.1.0.
    pub fn from_result(result: &CniResult) -> Result<Document, Error> {
        let text = result
            .to_text(SpecVersion::NEWEST)
            .map_err(|e| Error::InvalidResult(format!("the changed result: {e}")))?;
        Ok(Document { format: format!("{PREFIX}{}", SpecVersion::NEWEST.as_str()), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_does_not_know_survives_a_change() {
        let text =
            r#"{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.5/24","x":{"n":90071992547409930}}],"y":1}"#;
        let document = Document { format: "cni/1.1.0".into(), text: text.into() };
        assert!(document.is_converted());
        let mut result = document.result().unwrap();
        result.ips[0].gateway = Some("10.0.0.1".parse().unwrap());
        let changed = Document::from_result(&result).unwrap();
        assert!(changed.is_converted());
        assert!(changed.text.contains(r#""x":{"n":90071992547409930}"#) && changed.text.contains(r#""y":1"#));
    }

    #[test]
    fn an_older_result_is_read_but_is_not_converted() {
        let text = r#"{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.5/24"}}"#;
        let document = Document { format: "cni/0.2.0".into(), text: text.into() };
        assert!(!document.is_converted());
        assert_eq!(document.result().unwrap().ips.len(), 1);
        let raw = Document { format: "raw".into(), text: "[1]".into() };
        assert!(matches!(raw.result(), Err(Error::InvalidResult(_))));
    }

    #[test]
    fn a_result_that_nobody_could_read_is_not_made() {
        let document = Document {
            format: "cni/1.1.0".into(),
            text: r#"{"cniVersion":"1.1.0","interfaces":[{"name":"a"}],"ips":[{"address":"10.0.0.5/24","interface":0}]}"#
                .into(),
        };
        let mut result = document.result().unwrap();
        result.interfaces.clear();
        assert!(matches!(Document::from_result(&result), Err(Error::InvalidResult(_))));
    }
}
