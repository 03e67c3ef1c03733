//! Adds a route where it may not. Its config says where: `{"table": 100}` and `{"link": "eth0"}` (defaults: main,
//! the attachment's interface), and `{"destination": "203.0.113.0/24"}`.

use catena_sdk::route::{Hop, MAIN, Prefix, Route};
use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde::Deserialize;

struct Ungranted;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    table: u32,
    link: Option<String>,
    destination: String,
}

impl Default for Config {
    fn default() -> Config {
        Config { table: MAIN, link: None, destination: "203.0.113.0/24".into() }
    }
}

impl Module for Ungranted {
    type Config = Config;
}

impl Stage for Ungranted {
    fn add(call: &Call<Config>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        let Config { table, link, destination } = &call.config;
        let destination: Prefix =
            destination.parse().map_err(|e| Error::InvalidConfig(format!("destination: {e}")))?;
        let hop = Hop::new(link.as_ref().unwrap_or(&call.ifname), None);
        host.add(&Route { table: *table, ..Route::new(destination, vec![hop]) })?;
        Ok(Outcome::unchanged())
    }
}

export_stage!(Ungranted: stage);
