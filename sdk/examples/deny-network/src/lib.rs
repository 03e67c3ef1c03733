//! Keeps pods off the networks that its config lists, except those of some namespaces:
//!
//! ```json
//! { "networks": ["storage"], "except": ["backup"] }
//! ```

use catena_sdk::{Admit, Call, Error, Host, Module, Problem, Settings, Verdict, export_stage};
use serde::Deserialize;
use serde_json::Value;

struct DenyNetwork;

/// The `config` of the pipeline entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Names of CNI networks.
    networks: Vec<String>,
    /// Namespaces whose pods may join them all the same.
    #[serde(default)]
    except: Vec<String>,
}

impl Module for DenyNetwork {
    type Config = Config;
    // What cannot panic needs no log, and so no grant at all.
    const LOG_PANICS: bool = false;
}

/// Asked for every attachment of a pod before the first one is made: a denied pod has had no side effects.
impl Admit for DenyNetwork {
    fn admit(call: &Call<Config>, _: &Value, _: &Host) -> Result<Verdict, Error> {
        if !call.config.networks.contains(&call.network) {
            return Ok(Verdict::Allow);
        }
        match &call.context.pod {
            Some(pod) if call.config.except.contains(&pod.namespace) => Ok(Verdict::Allow),
            Some(pod) => {
                let (network, namespace) = (&call.network, &pod.namespace);
                Err(Error::Denied(format!("network {network} is not for pods of namespace {namespace}")))
            }
            None => {
                Err(Error::Denied(format!("network {} is not for pods without a namespace", call.network)))
            }
        }
    }
}

/// Asked by `catenactl check`, so that a wrong config is found before a pod comes.
impl Settings for DenyNetwork {
    fn validate(config: &Config) -> Vec<Problem> {
        let empty = config.networks.is_empty();
        let problem =
            Problem { path: "/networks".into(), message: "lists no network, so it denies none".into() };
        empty.then_some(problem).into_iter().collect()
    }
}

export_stage!(DenyNetwork: admit, settings);

#[cfg(test)]
mod tests {
    use catena_sdk::testing::{TestCall, TestHost, validate};
    use serde_json::json;

    use super::*;

    fn asked(network: &str, namespace: &str) -> Result<Verdict, Error> {
        let call = TestCall::new("net1")
            .network(network)
            .config(json!({"networks": ["storage"], "except": ["backup"]}))
            .with("pod", json!({"namespace": namespace, "name": "web-1"}));
        TestHost::new(&["net1"]).admit::<DenyNetwork>(&call, &json!({"name": network, "type": "bridge"}))
    }

    #[test]
    fn who_may_join() {
        assert_eq!(asked("front", "shop"), Ok(Verdict::Allow));
        assert_eq!(asked("storage", "backup"), Ok(Verdict::Allow));
        let denied = asked("storage", "shop");
        assert_eq!(denied, Err(Error::Denied("network storage is not for pods of namespace shop".into())));
    }

    #[test]
    fn a_config_that_denies_nothing_is_a_mistake() {
        assert_eq!(validate::<DenyNetwork>(&json!({"networks": []})).len(), 1);
        assert_eq!(validate::<DenyNetwork>(&json!({"network": "storage"})).len(), 1);
        assert!(validate::<DenyNetwork>(&json!({"networks": ["storage"]})).is_empty());
    }
}
