//! Exports `admit` and denies the network that its config names: `{"network": "blue"}`.

use catena_sdk::{Admit, Call, Error, Host, Module, Verdict, export_stage};
use serde::Deserialize;
use serde_json::Value;

struct Deny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    network: String,
}

impl Module for Deny {
    type Config = Config;
}

impl Admit for Deny {
    fn admit(call: &Call<Config>, _: &Value, _: &Host) -> Result<Verdict, Error> {
        if call.network == call.config.network {
            return Err(Error::Denied(format!("network {} is not for this pod", call.network)));
        }
        Ok(Verdict::Allow)
    }
}

export_stage!(Deny: admit);
