//! The built-in stage `result-conversion`: a CNI result of any known version becomes one of 1.1.0, which the
//! stages after it work on. One that cannot be converted stays as it is, tagged `unconverted`.

use catena_sdk::{Call, Document, Error, Host, Level, Module, Outcome, Settings, Stage};
use serde::Deserialize;

const UNCONVERTED: &str = "unconverted";

/// The module.
#[derive(Debug)]
pub struct ResultConversion;

/// There is nothing to configure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Module for ResultConversion {
    type Config = Config;
}

impl Settings for ResultConversion {}

impl Stage for ResultConversion {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        match document.result().and_then(|result| Document::from_result(&result)) {
            Ok(converted) if converted == *document => Ok(Outcome::unchanged()),
            Ok(converted) => Ok(Outcome::changed(converted)),
            Err(error) => {
                let text = format!("{} keeps its result as it is: {error}", call.subject());
                host.log(Level::Warn, &text);
                Ok(Outcome::unchanged().tag(UNCONVERTED))
            }
        }
    }
}

#[cfg(feature = "component")]
catena_sdk::export_stage!(ResultConversion: stage, settings; wants = r#"{
    "log": true, "result": ["routes", "dns", "ips", "interfaces"]
}"#);

#[cfg(test)]
mod tests {
    use super::*;
    use catena_sdk::testing::{TestCall, TestHost, document, validate};
    use serde_json::{Value, json};

    fn convert(result: &Value) -> Outcome {
        TestHost::new(&[]).add::<ResultConversion>(&TestCall::new("eth0"), result).unwrap()
    }

    #[test]
    fn every_known_version_becomes_the_newest() {
        let old = json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.0.0.5/24", "gateway": "10.0.0.1",
                         "routes": [{"dst": "0.0.0.0/0"}]}, "dns": {}});
        let new = convert(&old).result.unwrap();
        assert_eq!(new.format, "cni/1.1.0");
        assert_eq!(
            new.value().unwrap(),
            json!({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}],
                   "routes": [{"dst": "0.0.0.0/0"}]})
        );
        for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0"] {
            let label = if version < "1" { json!({"version": "4"}) } else { json!({}) };
            let mut ip = json!({"address": "10.0.0.5/24"});
            ip.as_object_mut().unwrap().extend(label.as_object().unwrap().clone());
            let new = convert(&json!({"cniVersion": version, "ips": [ip]})).result.unwrap();
            assert_eq!(
                new.value().unwrap(),
                json!({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.5/24"}]})
            );
        }
    }

    #[test]
    fn the_newest_stays_as_it_is() {
        let result = json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/n", "x": 1}],
                            "y": {"z": 2}});
        assert_eq!(convert(&result), Outcome::unchanged());
    }

    #[test]
    fn nulls_go_and_nothing_is_invented() {
        let result = json!({"cniVersion": "1.1.0", "interfaces": null, "ips": null, "routes": null});
        assert_eq!(convert(&result).result.unwrap().text, r#"{"cniVersion":"1.1.0"}"#);
    }

    #[test]
    fn what_cannot_be_converted_stays_and_is_tagged() {
        for result in [
            json!({"cniVersion": "2.0.0", "ips": []}),
            json!({"cniVersion": "1.0.0", "ips": [{"address": "nonsense"}]}),
            json!({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.5/24", "interface": 7}]}),
            json!({"cniVersion": "1.0.0", "interfaces": [null]}),
            json!([]),
        ] {
            let host = TestHost::new(&[]);
            let outcome =
                host.add_document::<ResultConversion>(&TestCall::new("eth0"), &document(&result)).unwrap();
            assert_eq!(outcome, Outcome::unchanged().tag("unconverted"), "{result}");
            assert_eq!(host.logs().len(), 1);
        }
    }

    #[test]
    fn it_has_no_settings() {
        assert_eq!(validate::<ResultConversion>(&json!({})), []);
        assert!(validate::<ResultConversion>(&json!({"mode": "x"}))[0].message.contains("mode"));
    }
}
