//! What was decided, and what was asked for, about an attachment's default routes.

use std::net::IpAddr;

use catena_routes::Family;
use serde_json::{Map, Value, json};

use crate::wasm::plain;

/// What shall happen to one family's default routes of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FamilyIntent {
    /// As the delegate made them.
    #[default]
    Leave,
    /// None on this attachment.
    Filter,
    /// Exactly these gateways.
    Override(Vec<IpAddr>),
    /// Those that the attachment's own delegate set; at least one.
    Own,
}

/// What `arrange` decided for one attachment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intent {
    /// IPv4.
    pub ipv4: FamilyIntent,
    /// IPv6.
    pub ipv6: FamilyIntent,
}

/// Why a stage's arrangement cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// Not a JSON array of the right length.
    #[error("the arrangement is not a JSON array of {expected} intents")]
    Shape {
        /// The number of attachments.
        expected: usize,
    },
    /// One intent is none.
    #[error("intent {position}: {what}")]
    Intent {
        /// Index of the attachment.
        position: usize,
        /// What is wrong with it.
        what: String,
    },
    /// One family's part of an intent is wrong.
    #[error("intent {position}, {family}: {what}")]
    Family {
        /// Index of the attachment.
        position: usize,
        /// `ipv4` or `ipv6`.
        family: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

impl Intent {
    /// The part of one family.
    pub fn family(&self, family: Family) -> &FamilyIntent {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }

    /// As stages and the ledger see it.
    pub fn to_value(&self) -> Value {
        json!({ "ipv4": self.ipv4.to_value(), "ipv6": self.ipv6.to_value() })
    }

    /// Reads one intent; `position` is for the error.
    pub fn from_value(value: &Value, position: usize) -> Result<Intent, IntentError> {
        let members =
            members(value, ["ipv4", "ipv6"]).map_err(|what| IntentError::Intent { position, what })?;
        let part = |name: &'static str, family: Family| match members.get(name) {
            None => Ok(FamilyIntent::Leave),
            Some(part) => FamilyIntent::from_value(part, family).map_err(|what| IntentError::Family {
                position,
                family: name,
                what,
            }),
        };
        Ok(Intent { ipv4: part("ipv4", Family::V4)?, ipv6: part("ipv6", Family::V6)? })
    }

    /// Reads what an `arrange` export answered for `expected` attachments.
    pub fn read_all(text: &str, expected: usize) -> Result<Vec<Intent>, IntentError> {
        let value: Value = serde_json::from_str(text).map_err(|_| IntentError::Shape { expected })?;
        let list = value.as_array().filter(|list| list.len() == expected);
        let list = list.ok_or(IntentError::Shape { expected })?;
        list.iter().enumerate().map(|(position, value)| Intent::from_value(value, position)).collect()
    }
}

impl FamilyIntent {
    fn to_value(&self) -> Value {
        match self {
            FamilyIntent::Leave => json!({ "action": "leave" }),
            FamilyIntent::Filter => json!({ "action": "filter" }),
            FamilyIntent::Override(gateways) => {
                let gateways: Vec<String> = gateways.iter().map(ToString::to_string).collect();
                json!({ "action": "override", "gateways": gateways })
            }
            FamilyIntent::Own => json!({ "action": "own" }),
        }
    }

    fn from_value(value: &Value, family: Family) -> Result<FamilyIntent, String> {
        let members = members(value, ["action", "gateways"])?;
        let gateways = match members.get("gateways") {
            None => Vec::new(),
            Some(list) => gateways(list, family)?,
        };
        match (members.get("action").and_then(Value::as_str), gateways.is_empty()) {
            (Some("leave"), true) => Ok(FamilyIntent::Leave),
            (Some("filter"), true) => Ok(FamilyIntent::Filter),
            (Some("own"), true) => Ok(FamilyIntent::Own),
            (Some("override"), false) => Ok(FamilyIntent::Override(gateways)),
            (Some("override"), true) => Err("override without gateways".to_owned()),
            (Some("leave" | "filter" | "own"), false) => Err("gateways without override".to_owned()),
            _ => Err("action is none of leave, filter, override, own".to_owned()),
        }
    }
}

/// An object's members, which have no other names than these: a misspelt one must not count as absent, since that
/// leaves the routes as they are.
fn members<'a>(value: &'a Value, known: [&str; 2]) -> Result<&'a Map<String, Value>, String> {
    let members = value.as_object().ok_or_else(|| format!("it must be an object, not {}", shown(value)))?;
    match members.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        None => Ok(members),
        Some((name, _)) => {
            Err(format!("unknown key \"{}\"; known are {}", plain(name, SHOWN), known.join(", ")))
        }
    }
}

/// Bytes of a stage's words in an error.
const SHOWN: usize = 64;

fn shown(value: &Value) -> String {
    plain(&value.to_string(), SHOWN)
}

fn gateways(list: &Value, family: Family) -> Result<Vec<IpAddr>, String> {
    let list = list.as_array().ok_or("gateways is not a list")?;
    list.iter()
        .map(|entry| {
            let text = entry.as_str().ok_or_else(|| format!("gateway {} is not a text", shown(entry)))?;
            let not_one = |_| format!("gateway {} is not an address", shown(entry));
            let address: IpAddr = text.parse().map_err(not_one)?;
            match (family, address) {
                (Family::V4, IpAddr::V4(_)) | (Family::V6, IpAddr::V6(_)) => Ok(address),
                _ => Err(format!("gateway {text} is of the other family")),
            }
        })
        .collect()
}

/// What an attachment asked for (`default-route` of its network selection element).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Request {
    /// Nothing.
    #[default]
    Absent,
    /// Ownership; an empty list means "with the gateways that the delegate sets".
    DefaultRoute(Vec<IpAddr>),
    /// `catena.dev/default-route: none`: no default routes, and nothing moves.
    None,
}

impl Request {
    /// What was asked for in one family.
    pub fn family(&self, family: Family) -> FamilyIntent {
        let Request::DefaultRoute(gateways) = self else {
            return match self {
                Request::None => FamilyIntent::Filter,
                _ => FamilyIntent::Leave,
            };
        };
        if gateways.is_empty() {
            return FamilyIntent::Own;
        }
        let of_family: Vec<IpAddr> =
            gateways.iter().filter(|gateway| gateway.is_ipv4() == (family == Family::V4)).copied().collect();
        if of_family.is_empty() { FamilyIntent::Leave } else { FamilyIntent::Override(of_family) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_survives_the_way_through_json() {
        let intent = Intent {
            ipv4: FamilyIntent::Override(vec!["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()]),
            ipv6: FamilyIntent::Own,
        };
        let text = Value::from(vec![intent.to_value()]).to_string();
        assert_eq!(Intent::read_all(&text, 1), Ok(vec![intent]));
    }

    #[test]
    fn a_wrong_arrangement_is_named() {
        for (text, needle) in [
            ("{}", "not a JSON array"),
            ("[]", "not a JSON array of 1"),
            (r#"["leave"]"#, "intent 0: it must be an object, not \"leave\""),
            ("[null]", "intent 0: it must be an object"),
            ("[[]]", "intent 0: it must be an object"),
            (r#"[{"ipv4": null}]"#, "intent 0, ipv4: it must be an object"),
            (r#"[{"Ipv4": {"action": "filter"}}]"#, "intent 0: unknown key \"Ipv4\"; known are ipv4, ipv6"),
            (r#"[{"ipv4": {"action": "leave", "gateway": []}}]"#, "unknown key \"gateway\""),
            (r#"[{"ipv4": {"action": "override", "gateways": ["x"]}}]"#, "gateway \"x\" is not an address"),
            (r#"[{"ipv4": {"action": "steal"}}]"#, "intent 0, ipv4: action"),
            (r#"[{"ipv4": {"action": "override"}}]"#, "override without gateways"),
            (r#"[{"ipv6": {"action": "filter", "gateways": ["2001:db8::1"]}}]"#, "gateways without override"),
            (r#"[{"ipv6": {"action": "override", "gateways": ["192.0.2.1"]}}]"#, "of the other family"),
        ] {
            let error = Intent::read_all(text, 1).unwrap_err().to_string();
            assert!(error.contains(needle), "{text}: {error}");
        }
    }

    #[test]
    fn a_request_counts_per_family() {
        let request = Request::DefaultRoute(vec!["192.0.2.1".parse().unwrap()]);
        assert!(matches!(request.family(Family::V4), FamilyIntent::Override(_)));
        assert_eq!(request.family(Family::V6), FamilyIntent::Leave);
        assert_eq!(Request::DefaultRoute(Vec::new()).family(Family::V6), FamilyIntent::Own);
        assert_eq!(Request::None.family(Family::V4), FamilyIntent::Filter);
    }
}
