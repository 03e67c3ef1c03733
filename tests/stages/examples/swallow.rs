//! Adds a default route by a gateway that is out of reach, and returns ok all the same. With
//! `{"tolerate": "reason"}` it says that it accepts the failure.

use catena_sdk::route::{Family, Hop, Prefix, Route};
use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde::Deserialize;

struct Swallow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    tolerate: Option<String>,
}

impl Module for Swallow {
    type Config = Config;
}

impl Stage for Swallow {
    fn add(call: &Call<Config>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        let hop = Hop::new(&call.ifname, Some([203, 0, 113, 99].into()));
        let route = Route { metric: Some(77), ..Route::new(Prefix::default_route(Family::V4), vec![hop]) };
        let outcome = Outcome::unchanged();
        Ok(match (host.add(&route), &call.config.tolerate) {
            (Err(error), Some(reason)) => outcome.tolerate(&error, reason),
            _ => outcome,
        })
    }
}

export_stage!(Swallow: stage);
