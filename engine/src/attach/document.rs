//! A result on its way through the pipeline and out: to the runtime, and into libcni's cache.

use catena_cni::error::code;
use catena_cni::result::{self, CniResult, ResultError};
use catena_cni::version::SpecVersion;
use serde_json::Value;

use crate::cni::CniError;
use crate::wasm::Document;

/// What delegates have answered: what their stages start with, and what the host has to know of it.
#[derive(Debug)]
pub struct Delegated {
    /// For the stages.
    pub document: Document,
    /// Its `cniVersion`, known or not.
    pub version: Option<String>,
    /// The names of the interfaces that it claims in the sandbox.
    pub interfaces: Vec<String>,
}

impl Delegated {
    /// Of a result in any version, or of none that is known.
    pub fn of(value: &Value, sandbox: &str) -> Delegated {
        let (format, interfaces) = match CniResult::read(value) {
            Ok((result, version)) => (format!("cni/{}", version.as_str()), claimed(result, sandbox)),
            Err(_) => ("raw".to_owned(), Vec::new()),
        };
        Delegated {
            version: result::version_text(value).map(str::to_owned),
            document: Document { format, text: value.to_string() },
            interfaces,
        }
    }
}

/// The document as a value.
pub fn value(document: &Document) -> Result<Value, CniError> {
    catena_cni::json::parse(document.text.as_bytes())
        .map_err(|error| CniError::new(code::BAD_OUTCOME, format!("the result after the pipeline: {error}")))
}

/// Its `cniVersion`, known or not.
pub fn version(document: &Document) -> Option<String> {
    value(document).ok().and_then(|value| result::version_text(&value).map(str::to_owned))
}

/// Whether the pipeline has left it in the version that the host converts from.
fn is_converted(document: &Document) -> bool {
    document.format.strip_prefix("cni/") == Some(SpecVersion::NEWEST.as_str())
}

/// The result after the pipeline, read once for all who want it in one version or another.
#[derive(Debug)]
pub enum Final {
    /// One in the version that the host converts from.
    Converted(Box<Result<CniResult, ResultError>>),
    /// One that nobody converted.
    Other(Value),
}

impl Final {
    /// Reads it.
    pub fn read(document: &Document) -> Result<Final, CniError> {
        if is_converted(document) {
            let result = CniResult::parse(document.text.as_bytes()).map(|(result, _)| result);
            return Ok(Final::Converted(Box::new(result)));
        }
        value(document).map(Final::Other)
    }

    /// The answer's text in the version that was asked for.
    ///
    /// The host converts only outward from 1.1.0; any other document is the answer only if it already is in
    /// the version asked for.
    pub fn answer(&self, asked: SpecVersion) -> Result<String, CniError> {
        let value = match self {
            Final::Converted(result) => {
                let text = (**result).as_ref().map_err(Clone::clone).and_then(|result| result.to_text(asked));
                return text.map_err(|error| {
                    CniError::new(
                        code::INCOMPATIBLE_VERSION,
                        format!(
                            "the result cannot be said in CNI {}, which was asked for: {error}",
                            asked.as_str()
                        ),
                    )
                });
            }
            Final::Other(value) => value,
        };
        if result::version_text(value) != Some(asked.as_str()) {
            return Err(CniError::new(
                code::INCOMPATIBLE_VERSION,
                format!(
                    "the result is {} and was not converted, so it cannot be the answer in CNI {}; \
                     put the stage result-conversion first into the pipeline, or ask for the delegate's version",
                    match result::version_text(value) {
                        Some(version) => format!("of CNI {version}"),
                        None => "of no CNI version".to_owned(),
                    },
                    asked.as_str()
                ),
            ));
        }
        let mut value = value.clone();
        make_harmless(&mut value)?;
        Ok(value.to_string())
    }

    /// The text in a list's own version, for libcni's cache; none where that version cannot say it.
    pub fn in_list(&self, list_version: &str) -> Option<String> {
        match self {
            Final::Converted(result) => {
                (**result).as_ref().ok()?.to_text(SpecVersion::from_text(list_version)?).ok()
            }
            Final::Other(value) => {
                (result::version_text(value) == Some(list_version)).then(|| value.to_string())
            }
        }
    }
}

/// The answer as a value, for those who look into it.
pub fn answer(document: &Document, asked: SpecVersion) -> Result<Value, CniError> {
    let text = Final::read(document)?.answer(asked)?;
    catena_cni::json::parse(text.as_bytes())
        .map_err(|error| CniError::new(code::BAD_OUTCOME, format!("the answer: {error}")))
}

/// Nulls and bad indices crash runtimes, so they never leave, even in a document that nobody converted. A member that
/// is null counts as absent to every reader, and is left out.
fn make_harmless(value: &mut Value) -> Result<(), CniError> {
    let bad = |what: String| {
        CniError::new(code::BAD_OUTCOME, format!("the result has {what}, which no runtime may be given"))
    };
    catena_cni::json::drop_null_members(value).map_err(|place| bad(format!("a null at {place}")))?;
    let value = &*value;
    let member = |name: &str| value.as_object().and_then(|map| catena_cni::json::get(map, name));
    let list = |name: &str| member(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let interfaces = list("interfaces").len();
    for (index, entry) in list("ips").iter().enumerate() {
        let at = entry.as_object().and_then(|map| catena_cni::json::get(map, "interface"));
        if let Some(at) = at
            && !at.as_u64().is_some_and(|at| usize::try_from(at).is_ok_and(|at| at < interfaces))
        {
            return Err(bad(format!("the index {at} at ips[{index}].interface")));
        }
    }
    Ok(())
}

/// What libcni's cache holds of it, as a value for delegates that are asked about what is there.
pub fn cached(document: &Document, list_version: &str) -> Option<Value> {
    if !is_converted(document) || list_version == SpecVersion::NEWEST.as_str() {
        return value(document).ok().filter(|value| result::version_text(value) == Some(list_version));
    }
    let (result, _) = CniResult::parse(document.text.as_bytes()).ok()?;
    result.to_value(SpecVersion::from_text(list_version)?).ok()
}

/// The names of the interfaces that a result claims in a sandbox.
pub fn sandbox_interfaces(document: &Document, sandbox: &str) -> Vec<String> {
    let read = CniResult::parse(document.text.as_bytes());
    read.map(|(result, _)| claimed(result, sandbox)).unwrap_or_default()
}

fn claimed(result: CniResult, sandbox: &str) -> Vec<String> {
    let inside = result.interfaces.into_iter();
    inside
        .filter(|interface| interface.sandbox.as_deref() == Some(sandbox))
        .map(|interface| interface.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn converted(value: Value) -> Document {
        Document { format: "cni/1.1.0".into(), text: value.to_string() }
    }

    #[test]
    fn the_answer_is_in_the_version_asked_for() {
        let document = converted(json!({
            "cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/n"}],
            "ips": [{"address": "192.0.2.5/24", "interface": 0}]
        }));
        assert_eq!(answer(&document, SpecVersion::V0_2_0).unwrap()["ip4"]["ip"], "192.0.2.5/24");
        assert_eq!(answer(&document, SpecVersion::V0_4_0).unwrap()["ips"][0]["version"], "4");
        assert_eq!(sandbox_interfaces(&document, "/n"), ["eth0"]);
    }

    #[test]
    fn an_empty_result_cannot_be_said_in_an_old_version() {
        let document = converted(json!({ "cniVersion": "1.1.0" }));
        assert!(answer(&document, SpecVersion::V0_3_0).is_ok());
        assert_eq!(answer(&document, SpecVersion::V0_2_0).unwrap_err().code, 1);
        assert_eq!(cached(&document, "0.2.0"), None);
        assert!(cached(&document, "0.4.0").is_some());
    }

    #[test]
    fn what_is_put_into_the_cache_is_what_delegates_are_shown_later() {
        let whole = json!({
            "cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/n", "mtu": 1400}],
            "ips": [{"address": "192.0.2.5/24", "interface": 0}], "vendor": {"a": 1}
        });
        for document in [converted(whole), converted(json!({ "cniVersion": "1.1.0" }))] {
            let read = Final::read(&document).unwrap();
            for version in SpecVersion::ALL {
                let text = read.in_list(version.as_str());
                let stored = text.map(|text| catena_cni::json::parse(text.as_bytes()).unwrap());
                assert_eq!(stored, cached(&document, version.as_str()), "{version} {document:?}");
            }
            assert_eq!(read.in_list("2.0.0"), None);
        }
    }

    #[test]
    fn an_unconverted_result_is_the_answer_only_in_its_own_version() {
        let of_delegate = |value: Value| Delegated::of(&value, "/n").document;
        let document = of_delegate(json!({ "cniVersion": "1.0.0", "ips": [] }));
        assert_eq!(document.format, "cni/1.0.0");
        assert!(answer(&document, SpecVersion::V1_0_0).is_ok());
        let error = answer(&document, SpecVersion::V0_4_0).unwrap_err();
        assert!(error.msg.contains("result-conversion"), "{}", error.msg);
        let future = of_delegate(json!({ "cniVersion": "2.0.0" }));
        assert_eq!(future.format, "raw");
        assert_eq!(answer(&future, SpecVersion::V1_1_0).unwrap_err().code, 1);
    }

    #[test]
    fn nulls_and_bad_indices_never_leave() {
        let raw = |value: &Value| Document { format: "raw".into(), text: value.to_string() };
        for (value, part) in [
            (json!({ "interfaces": [null] }), "interfaces[0]"),
            (json!({ "ips": [{ "address": "x", "interface": 0 }] }), "ips[0].interface"),
            (json!({ "interfaces": [{ "name": "a" }], "ips": [{ "interface": -1 }] }), "ips[0].interface"),
            (json!({ "ip4": { "ip": "bad", "routes": [null] } }), "ip4.routes[0]"),
            (json!({ "vendor": [{ "a": [1, null] }] }), "vendor[0].a[1]"),
        ] {
            let mut value = value;
            value["cniVersion"] = json!("1.0.0");
            let error = answer(&raw(&value), SpecVersion::V1_0_0).unwrap_err();
            assert_eq!(error.code, 106, "{value}");
            assert!(error.msg.contains(part), "{}", error.msg);
        }
        let value = json!({
            "cniVersion": "0.2.0", "dns": null, "ip4": { "ip": "bad", "gateway": null, "x": [{ "y": null }] }
        });
        let expected = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "bad", "x": [{}] } });
        assert_eq!(answer(&raw(&value), SpecVersion::V0_2_0).unwrap(), expected);
    }
}
