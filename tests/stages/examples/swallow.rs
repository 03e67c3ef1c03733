//! Adds a default route by a gateway that is out of reach, and returns ok all the same. With
//! `{"tolerate": "reason"}` it says that it accepts the failure. With `{"at": "arrange"}` or `{"at": "admit"}` it makes a
//! call that fails there, and again says nothing of it.

use catena_sdk::route::{Family, Hop, Prefix, Route};
use catena_sdk::{
    Admit, Arrange, Call, Candidate, Document, Error, Host, Intent, Module, Outcome, Stage, Verdict,
    export_stage,
};
use serde::Deserialize;
use serde_json::Value;

struct Swallow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    tolerate: Option<String>,
    #[serde(default)]
    at: At,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum At {
    Arrange,
    Admit,
    #[default]
    Stage,
}

/// Looks into a table that nobody granted, and at nothing of what comes of it.
fn fail(host: &Host) {
    drop(host.routes(Family::V4, 100));
}

impl Module for Swallow {
    type Config = Config;
}

impl Arrange for Swallow {
    fn arrange(call: &Call<Config>, attachments: &[Candidate], host: &Host) -> Result<Vec<Intent>, Error> {
        if call.config.at == At::Arrange {
            fail(host);
        }
        Ok(attachments.iter().map(|attachment| attachment.intent.clone()).collect())
    }
}

impl Admit for Swallow {
    fn admit(call: &Call<Config>, _: &Value, host: &Host) -> Result<Verdict, Error> {
        if call.config.at == At::Admit {
            fail(host);
        }
        Ok(Verdict::Allow)
    }
}

impl Stage for Swallow {
    fn add(call: &Call<Config>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        if call.config.at != At::Stage {
            return Ok(Outcome::unchanged());
        }
        let hop = Hop::new(&call.ifname, Some([203, 0, 113, 99].into()));
        let route = Route { metric: Some(77), ..Route::new(Prefix::default_route(Family::V4), vec![hop]) };
        let outcome = Outcome::unchanged();
        Ok(match (host.add(&route), &call.config.tolerate) {
            (Err(error), Some(reason)) => outcome.tolerate(&error, reason),
            _ => outcome,
        })
    }
}

export_stage!(Swallow: arrange, admit, stage);
