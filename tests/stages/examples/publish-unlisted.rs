//! Publishes a key that it never declared; `{"key": "…"}` names another one.

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde::Deserialize;
use serde_json::json;

struct PublishUnlisted;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    key: Option<String>,
}

impl Module for PublishUnlisted {
    type Config = Config;
}

impl Stage for PublishUnlisted {
    fn add(call: &Call<Config>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        let key = call.config.key.as_deref().unwrap_or("example.com/unlisted");
        Ok(Outcome::unchanged().publish(key, &json!({"ifname": call.ifname})))
    }
}

export_stage!(PublishUnlisted: stage);
