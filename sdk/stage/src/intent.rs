use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::context::addresses;
use crate::route::Family;

/// What was decided about the default route of one family of an attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Action {
    /// Whatever the delegate set stays.
    #[default]
    Leave,
    /// No default route on the attachment.
    Filter,
    /// Exactly these gateways, at least one.
    Override(Vec<IpAddr>),
    /// The default route is the attachment's, with the gateways that its own delegate set.
    Own,
}

/// What was decided about the default routes of an attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intent {
    pub ipv4: Action,
    pub ipv6: Action,
}

impl Intent {
    pub fn family(&self, family: Family) -> &Action {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }

    pub fn family_mut(&mut self, family: Family) -> &mut Action {
        match family {
            Family::V4 => &mut self.ipv4,
            Family::V6 => &mut self.ipv6,
        }
    }

    /// Reads the contract's INTENT object.
    pub fn from_value(value: &Value) -> Result<Intent, Error> {
        let object = value.as_object().ok_or_else(|| Error::failed("an intent is not an object"))?;
        Ok(Intent { ipv4: action(object, "ipv4")?, ipv6: action(object, "ipv6")? })
    }

    /// The contract's INTENT object.
    pub fn to_value(&self) -> Value {
        json!({ "ipv4": self.ipv4.to_value(), "ipv6": self.ipv6.to_value() })
    }
}

impl Action {
    fn to_value(&self) -> Value {
        match self {
            Action::Leave => json!({ "action": "leave" }),
            Action::Filter => json!({ "action": "filter" }),
            Action::Own => json!({ "action": "own" }),
            Action::Override(gateways) => {
                let gateways: Vec<String> = gateways.iter().map(IpAddr::to_string).collect();
                json!({ "action": "override", "gateways": gateways })
            }
        }
    }
}

/// An absent family is left alone.
fn action(object: &Map<String, Value>, family: &str) -> Result<Action, Error> {
    let Some(value) = object.get(family) else { return Ok(Action::Leave) };
    match value.get("action").and_then(Value::as_str) {
        Some("leave") => Ok(Action::Leave),
        Some("filter") => Ok(Action::Filter),
        Some("own") => Ok(Action::Own),
        Some("override") => {
            let gateways = addresses(value.get("gateways"), "gateways")?.unwrap_or_default();
            if gateways.is_empty() {
                return Err(Error::failed(format!("intent {family}: an override without gateways")));
            }
            Ok(Action::Override(gateways))
        }
        _ => Err(Error::failed(format!("intent {family}: unknown action in {}", crate::json::text(value)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_survives_the_way_to_the_host_and_back() {
        let intent = Intent { ipv4: Action::Override(vec!["10.0.0.1".parse().unwrap()]), ipv6: Action::Own };
        assert_eq!(Intent::from_value(&intent.to_value()), Ok(intent));
        let intent = Intent { ipv4: Action::Filter, ipv6: Action::Leave };
        assert_eq!(Intent::from_value(&intent.to_value()), Ok(intent));
    }
}
