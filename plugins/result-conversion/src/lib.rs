//! Pass-through for now.
use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};

struct Pass;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {}

impl Module for Pass {
    type Config = Config;
}

impl Stage for Pass {
    fn add(_: &Call<Config>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        Ok(Outcome::unchanged())
    }
}

export_stage!(Pass: stage; wants = "{\"log\":true}");
