//! Changes the routes of an attachment. Its config has the keys of the chained CNI plugin `route-override`, whose
//! place it takes; unlike there, all changes are made or none, and a failed ADD takes them back:
//!
//! ```json
//! { "flushgateway": true, "delroutes": [{ "dst": "10.9.0.0/16" }],
//!   "addroutes": [{ "dst": "192.0.2.0/24", "gw": "10.1.0.254" }] }
//! ```

mod config;
mod plan;

use catena_sdk::cni::result::{self, CniResult};
use catena_sdk::route::{Change, Family, MAIN, Route};
use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Settings, Stage, export_stage};

pub use config::Config;

/// The module.
#[derive(Debug)]
pub struct RouteOverride;

impl Module for RouteOverride {
    type Config = Config;
}

impl Stage for RouteOverride {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        let there = routes(host, &call.ifname)?;
        let plan = plan::plan(&call.config, &call.ifname, &there);
        if plan.is_empty() {
            return Ok(Outcome::unchanged());
        }
        let deletions = plan.deleted.iter().cloned().map(Change::Delete);
        let changes: Vec<Change> = deletions.chain(plan.added.iter().cloned().map(Change::Add)).collect();
        host.apply(&changes)?;

        let mut result = document.result()?;
        tell(&mut result, &plan);
        Ok(Outcome::changed(Document::from_result(&result)?))
    }

    /// What was added must still be there, and what was deleted must not have come back.
    fn check(call: &Call<Config>, _: &Document, host: &Host) -> Result<(), Error> {
        let plan = plan::plan(&call.config, &call.ifname, &routes(host, &call.ifname)?);
        if let Some(missing) = plan.added.first() {
            return Err(Error::failed(format!("{} has lost its route {missing}", call.subject())));
        }
        match plan.deleted.first() {
            Some(back) => Err(Error::failed(format!("{} has the route {back} again", call.subject()))),
            None => Ok(()),
        }
    }
}

impl Settings for RouteOverride {}

/// The routes of both families that have a hop on the link.
fn routes(host: &Host, link: &str) -> Result<Vec<Route>, Error> {
    let mut all = host.routes(Family::V4, MAIN)?;
    all.extend(host.routes(Family::V6, MAIN)?);
    all.retain(|route| route.hops.iter().any(|hop| hop.link == link));
    Ok(all)
}

/// The result says what the kernel does now.
fn tell(result: &mut CniResult, plan: &plan::Plan) {
    let is_deleted = |told: &result::Route| {
        plan.deleted.iter().any(|route| {
            plan::is_to(route, &told.dst)
                && (told.gw.is_none() || route.gateways().any(|gw| told.gw == Some(gw)))
        })
    };
    result.routes.retain(|route| !is_deleted(route));
    for (wanted, _) in plan.wanted.iter().zip(&plan.added) {
        result.routes.push(result::Route::new(wanted.dst, wanted.gw));
    }
}

export_stage!(RouteOverride: stage, settings; wants = r#"{
    "routes": {"ops": ["read", "delete-default", "delete", "add"]}, "result": ["routes"]
}"#);

#[cfg(test)]
mod tests;
