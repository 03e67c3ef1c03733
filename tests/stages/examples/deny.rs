//! Exports `admit` and denies every attachment, or with `{"network": "blue"}` those of that network.

use catena_sdk::{Admit, Call, Error, Host, Module, Verdict, export_stage};
use serde::Deserialize;
use serde_json::Value;

struct Deny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    network: Option<String>,
}

impl Module for Deny {
    type Config = Config;
}

impl Admit for Deny {
    fn admit(call: &Call<Config>, _: &Value, _: &Host) -> Result<Verdict, Error> {
        match &call.config.network {
            None => Err(Error::Denied("no pods today".into())),
            Some(network) if *network == call.network => {
                Err(Error::Denied(format!("network {network} is not for this pod")))
            }
            Some(_) => Ok(Verdict::Allow),
        }
    }
}

export_stage!(Deny: admit);
