//! A policy team's module: `{"deny": ["storage"], "filter": ["legacy"]}` keeps pods off some networks, and takes the
//! default routes of others away.

use catena_sdk::route::{Change, Family};
use catena_sdk::{Admit, Call, Document, Error, Host, Module, Outcome, Stage, Verdict, export_stage};
use serde::Deserialize;
use serde_json::Value;

struct SitePolicy;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Config {
    deny: Vec<String>,
    filter: Vec<String>,
}

impl Module for SitePolicy {
    type Config = Config;
}

impl Admit for SitePolicy {
    fn admit(call: &Call<Config>, _: &Value, _: &Host) -> Result<Verdict, Error> {
        if call.config.deny.contains(&call.network) {
            return Err(Error::Denied(format!("network {} is closed", call.network)));
        }
        Ok(Verdict::Allow)
    }
}

impl Stage for SitePolicy {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        if !call.config.filter.contains(&call.network) {
            return Ok(Outcome::unchanged());
        }
        let mut changes = Vec::new();
        for family in Family::ALL {
            changes.extend(host.default_routes(family)?.into_iter().map(Change::Delete));
        }
        if !changes.is_empty() {
            host.apply(&changes)?;
        }
        let mut result = document.result()?;
        result.routes.retain(|route| !route.dst.is_default());
        Ok(Outcome::changed(Document::from_result(&result)?))
    }
}

export_stage!(SitePolicy: admit, stage; wants = r#"{
    "routes": {"ops": ["read", "delete-default"]}, "result": ["routes"]
}"#);
