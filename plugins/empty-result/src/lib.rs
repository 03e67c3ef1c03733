//! The built-in stage `empty-result`: tells apart an attachment whose delegate only changed configuration from
//! one whose delegate made a link and did not report it.
//!
//! A result without interfaces and addresses gets the tag `empty` if the pod has no link of that name, and
//! `opaque` if it has one: the link and its routes are there, though the result says nothing.

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Settings, Stage};
use serde::Deserialize;

/// The module.
#[derive(Debug)]
pub struct EmptyResult;

/// The stage's own configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    mode: Mode,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// An attachment may be empty.
    #[default]
    Allow,
    /// An empty attachment is denied.
    Reject,
}

impl Module for EmptyResult {
    type Config = Config;
}

impl Settings for EmptyResult {}

impl Stage for EmptyResult {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        // What cannot be read says something, whatever it is.
        if !document.result().is_ok_and(|result| result.is_empty()) {
            return Ok(Outcome::unchanged());
        }
        if host.link(&call.ifname)?.is_some() {
            return Ok(Outcome::unchanged().tag("opaque"));
        }
        if call.config.mode == Mode::Reject {
            return Err(Error::Denied(format!(
                "the delegate of {} made neither interface nor address, and empty-result is set to reject that",
                call.subject()
            )));
        }
        Ok(Outcome::unchanged().tag("empty"))
    }
}

#[cfg(feature = "component")]
catena_sdk::export_stage!(EmptyResult: stage, settings; wants = r#"{"log": true, "links": true}"#);

#[cfg(test)]
mod tests {
    use super::*;
    use catena_sdk::testing::{TestCall, TestHost, document, validate};
    use serde_json::{Value, json};

    fn tags(host: &TestHost, result: &Value) -> Vec<String> {
        host.add::<EmptyResult>(&TestCall::new("net1"), result).unwrap().tags
    }

    #[test]
    fn absent_null_and_empty_are_alike() {
        for result in [
            json!({"cniVersion": "1.1.0"}),
            json!({"cniVersion": "1.1.0", "interfaces": [], "ips": []}),
            json!({"cniVersion": "1.1.0", "interfaces": null, "ips": null, "routes": [{"dst": "0.0.0.0/0"}]}),
            json!({"cniVersion": "0.2.0"}),
            json!({}),
        ] {
            assert_eq!(tags(&TestHost::new(&[]).link("eth0"), &result), ["empty"], "{result}");
            assert_eq!(tags(&TestHost::new(&["net1"]), &result), ["opaque"], "{result}");
        }
    }

    #[test]
    fn an_address_or_an_interface_is_something() {
        for result in [
            json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.0.0.5/24"}}),
            json!({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.5/24"}]}),
            json!({"cniVersion": "1.1.0", "interfaces": [{"name": "net1"}]}),
        ] {
            assert_eq!(tags(&TestHost::new(&[]), &result), [""; 0], "{result}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_empty() {
        let host = TestHost::new(&[]);
        for result in [json!({"cniVersion": "2.0.0"}), json!({"cniVersion": "1.1.0", "ips": 7})] {
            let call = TestCall::new("net1").config(json!({"mode": "reject"}));
            let outcome = host.add_document::<EmptyResult>(&call, &document(&result)).unwrap();
            assert_eq!(outcome, Outcome::unchanged());
        }
    }

    #[test]
    fn reject_denies_the_empty_only() {
        let call = || TestCall::new("net1").config(json!({"mode": "reject"}));
        let empty = json!({"cniVersion": "1.1.0"});
        let error = TestHost::new(&[]).add::<EmptyResult>(&call(), &empty).unwrap_err();
        assert!(matches!(&error, Error::Denied(text) if text.contains("net1")), "{error}");
        TestHost::new(&["net1"]).add::<EmptyResult>(&call(), &empty).unwrap();
    }

    #[test]
    fn its_settings_are_judged() {
        assert_eq!(validate::<EmptyResult>(&json!({"mode": "allow"})), []);
        assert!(validate::<EmptyResult>(&json!({"mode": "never"}))[0].message.contains("never"));
        assert!(validate::<EmptyResult>(&json!({"modus": 1}))[0].message.contains("modus"));
    }
}
