use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::{Error, Intent, json};

/// The number of the context that is read here (context.schema.json of the contract).
const SCHEMA: u64 = 1;

/// What is known about the pod, the attachment and what was asked for. It grows without a new contract, so
/// what this version does not read is in `all`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// CNI_NETNS, as the `sandbox` of the result's interfaces has it.
    pub sandbox: String,
    /// The attachment's result is the answer to the runtime.
    pub primary: bool,
    /// How many attachments the sandbox has; not told in `arrange`.
    pub attachments: u32,
    /// The attachment's name in the network status: `namespace/name` of its definition, or its config's name.
    pub name: String,
    /// The definition (NetworkAttachmentDefinition) that the attachment comes from.
    pub attachment: Option<Definition>,
    /// The pod, where the runtime told.
    pub pod: Option<Pod>,
    /// The pod's annotations that the node lets this module see.
    pub annotations: Map<String, Value>,
    /// The runtime's `runtimeConfig`.
    pub runtime_config: Map<String, Value>,
    pub request: Request,
    /// What was arranged for this attachment; in `arrange` nothing is yet.
    pub intent: Intent,
    /// The tags that the stages before have set.
    pub tags: Vec<String>,
    /// `secondaryDefaults` of the node is `filter` (told in `arrange` only).
    pub filter_secondary_defaults: bool,
    /// The `cniVersion` of the delegate's result.
    pub delegate_version: Option<String>,
    /// What a delegate has written about the device that it attached (Device Information Specification 1.1), on add.
    pub device_info: Option<Value>,
    /// The whole object as it came.
    pub all: Map<String, Value>,
}

/// A NetworkAttachmentDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub namespace: Option<String>,
    pub name: String,
}

/// A pod's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// What was asked for an attachment (the keys of a network selection element).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// `default-route`: an empty list asks for ownership with the delegate's own gateways.
    pub default_route: Option<Vec<IpAddr>>,
    /// `catena.dev/default-route: none`: the attachment gets no default route, and nothing moves.
    pub default_route_none: bool,
    /// The whole object as it came.
    pub all: Map<String, Value>,
}

impl Context {
    /// Reads the JSON text of [`Call::context`](crate::Call::context). One without a `schema` is read as the first.
    pub fn read(text: &str) -> Result<Context, Error> {
        let all = object(json::parse(text).map_err(|e| Error::failed(format!("context: {e}")))?, "context")?;
        match all.get("schema").map(Value::as_u64) {
            None | Some(Some(SCHEMA)) => {}
            Some(Some(other)) => {
                return Err(Error::failed(format!(
                    "this catena's context has schema {other}, and the module's SDK reads schema {SCHEMA}; build the \
                     module with an SDK for it"
                )));
            }
            Some(None) => return Err(Error::failed("the context's schema is no number")),
        }
        let text = |key: &str| all.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| {
            all.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or_default()
        };
        let map = |key: &str| all.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        let member = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Context {
            sandbox: text("sandbox"),
            attachments: number("attachments"),
            primary: all.get("primary") == Some(&Value::Bool(true)),
            name: text("name"),
            attachment: all.get("attachment").and_then(|value| {
                Some(Definition { namespace: member(value, "namespace"), name: member(value, "name")? })
            }),
            pod: all.get("pod").map(|value| Pod {
                namespace: member(value, "namespace").unwrap_or_default(),
                name: member(value, "name").unwrap_or_default(),
                uid: member(value, "uid").unwrap_or_default(),
            }),
            annotations: map("annotations"),
            runtime_config: map("runtimeConfig"),
            request: Request::from_object(map("request"))?,
            intent: all.get("intent").map(Intent::from_value).transpose()?.unwrap_or_default(),
            tags: all
                .get("tags")
                .and_then(Value::as_array)
                .map(|tags| tags.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default(),
            filter_secondary_defaults: all.get("secondaryDefaults").and_then(Value::as_str) == Some("filter"),
            delegate_version: all.get("delegateVersion").and_then(Value::as_str).map(str::to_owned),
            device_info: all.get("deviceInfo").cloned(),
            all,
        })
    }

    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|other| other == tag)
    }
}

impl Request {
    pub(crate) fn from_object(all: Map<String, Value>) -> Result<Request, Error> {
        Ok(Request {
            default_route: addresses(all.get("defaultRoute"), "defaultRoute")?,
            default_route_none: all.get("defaultRouteNone") == Some(&Value::Bool(true)),
            all,
        })
    }
}

/// One attachment as `arrange` sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidate {
    pub position: u32,
    pub network: String,
    pub ifname: String,
    pub primary: bool,
    /// The attachment's name in the network status.
    pub name: String,
    pub attachment: Option<Definition>,
    pub request: Request,
    /// What the arrangers before have decided.
    pub intent: Intent,
    /// The whole object as it came.
    pub all: Map<String, Value>,
}

impl Candidate {
    /// Reads the JSON array that `arrange` gets.
    pub fn read_all(text: &str) -> Result<Vec<Candidate>, Error> {
        let bad = |reason: String| Error::failed(format!("attachments: {reason}"));
        let Value::Array(list) = json::parse(text).map_err(|e| bad(e.to_string()))? else {
            return Err(bad("not a list".to_owned()));
        };
        list.into_iter().map(Candidate::from_value).collect()
    }

    fn from_value(value: Value) -> Result<Candidate, Error> {
        let all = object(value, "an attachment")?;
        let text = |key: &str| all.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let member = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Candidate {
            position: all
                .get("position")
                .and_then(Value::as_u64)
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| Error::failed("an attachment without a position"))?,
            network: text("network"),
            ifname: text("ifname"),
            primary: all.get("primary") == Some(&Value::Bool(true)),
            name: text("name"),
            attachment: all.get("attachment").and_then(|value| {
                Some(Definition { namespace: member(value, "namespace"), name: member(value, "name")? })
            }),
            request: Request::from_object(
                all.get("request").and_then(Value::as_object).cloned().unwrap_or_default(),
            )?,
            intent: all.get("intent").map(Intent::from_value).transpose()?.unwrap_or_default(),
            all,
        })
    }

    /// The attachment as error texts name it: `net1 (network "blue")`.
    pub fn subject(&self) -> String {
        format!("{} (network {:?})", self.ifname, self.network)
    }
}

/// A JSON array of addresses; `None` where the member is absent.
pub(crate) fn addresses(value: Option<&Value>, what: &str) -> Result<Option<Vec<IpAddr>>, Error> {
    let Some(value) = value else { return Ok(None) };
    let bad = || Error::failed(format!("{what} is not a list of addresses: {}", json::text(value)));
    let list = value.as_array().ok_or_else(bad)?;
    let parse = |v: &Value| v.as_str().and_then(catena_cni::net::parse_ip).ok_or_else(bad);
    list.iter().map(parse).collect::<Result<_, _>>().map(Some)
}

fn object(value: Value, what: &str) -> Result<Map<String, Value>, Error> {
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(Error::failed(format!("{what} is not a JSON object"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;

    #[test]
    fn a_context_is_read_and_keeps_what_it_does_not_know() {
        let context = Context::read(
            r#"{"schema": 1, "sandbox": "/run/netns/x", "primary": true, "name": "ns/net", "future": {"a": 1},
                "attachment": {"namespace": "ns", "name": "net"}, "pod": {"namespace": "ns", "name": "p"},
                "request": {"defaultRoute": ["10.0.0.1", "::ffff:10.0.0.2", "fd00::1"], "mac": "x"},
                "intent": {"ipv4": {"action": "override", "gateways": ["10.0.0.1"]}}, "tags": ["empty"],
                "secondaryDefaults": "filter", "delegateVersion": "0.2.0"}"#,
        )
        .unwrap();
        assert!(context.primary && context.filter_secondary_defaults && context.has_tag("empty"));
        assert_eq!(context.pod.unwrap().name, "p");
        assert_eq!(context.attachment.unwrap().namespace.as_deref(), Some("ns"));
        let gateways: Vec<String> =
            context.request.default_route.unwrap().iter().map(IpAddr::to_string).collect();
        assert_eq!(gateways, ["10.0.0.1", "10.0.0.2", "fd00::1"]);
        assert_eq!(context.request.all["mac"], "x");
        assert_eq!(context.all["future"]["a"], 1);
        assert_eq!(context.intent.ipv6, Action::Leave);
        assert_eq!(context.delegate_version.as_deref(), Some("0.2.0"));
    }

    #[test]
    fn a_context_of_another_schema_is_refused() {
        assert!(Context::read(r#"{"schema": 1}"#).is_ok());
        let error = Context::read(r#"{"schema": 2, "pod": []}"#).unwrap_err().to_string();
        assert!(error.contains("schema 2") && error.contains("schema 1"), "{error}");
        for bad in [r#"{"schema": "1"}"#, r#"{"schema": 1.5}"#, r#"{"schema": null}"#, r#"{"schema": 0}"#] {
            assert!(Context::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_empty_request_is_not_an_empty_list() {
        assert_eq!(Context::read("{}").unwrap().request.default_route, None);
        let empty = Context::read(r#"{"request": {"defaultRoute": []}}"#).unwrap();
        assert_eq!(empty.request.default_route, Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for bad in [
            "",
            "[]",
            r#"{"request": {"defaultRoute": "10.0.0.1"}}"#,
            r#"{"request": {"defaultRoute": ["10.0.0"]}}"#,
            r#"{"intent": {"ipv4": {"action": "explode"}}}"#,
            r#"{"intent": {"ipv4": {"action": "override", "gateways": []}}}"#,
        ] {
            assert!(Context::read(bad).is_err(), "{bad}");
        }
        assert!(Candidate::read_all(r#"[{"network": "n"}]"#).is_err(), "without a position");
        assert!(Candidate::read_all("{}").is_err());
    }
}
