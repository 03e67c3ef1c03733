//! Stands in for `default-gateway` and decides differently: in each family for which its config has gateways
//! (`{"gateways": ["10.1.0.1"]}`) the last attachment owns the default route with these; requests do not count.

use std::net::IpAddr;

use catena_sdk::cni::net::IpNet;
use catena_sdk::cni::result::Route as Told;
use catena_sdk::route::{Change, Family, Hop, Prefix, Route};
use catena_sdk::{
    Action, Arrange, Call, Candidate, Document, Error, Host, Intent, Module, Outcome, Stage, export_stage,
};
use serde::Deserialize;

struct OtherArrange;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    gateways: Vec<IpAddr>,
}

impl Module for OtherArrange {
    type Config = Config;
}

impl Arrange for OtherArrange {
    fn arrange(call: &Call<Config>, attachments: &[Candidate], _: &Host) -> Result<Vec<Intent>, Error> {
        let mut intents = vec![Intent::default(); attachments.len()];
        for family in Family::ALL {
            let of_family = |gateway: &&IpAddr| Family::of(**gateway) == family;
            let gateways: Vec<IpAddr> = call.config.gateways.iter().filter(of_family).copied().collect();
            if gateways.is_empty() {
                continue;
            }
            if let Some((last, others)) = intents.split_last_mut() {
                *last.family_mut(family) = Action::Override(gateways);
                others.iter_mut().for_each(|other| *other.family_mut(family) = Action::Filter);
            }
        }
        Ok(intents)
    }
}

impl Stage for OtherArrange {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        let mut result = document.result()?;
        let mut changes: Vec<Change> = Vec::new();
        for family in Family::ALL {
            let gateways = match call.context.intent.family(family) {
                Action::Leave | Action::Own => continue,
                Action::Filter => &[][..],
                Action::Override(gateways) => gateways,
            };
            let destination = Prefix::default_route(family);
            result.routes.retain(|r| !(r.dst.is_default() && Family::of(r.dst.addr()) == family));
            for ip in result.ips.iter_mut().filter(|ip| Family::of(ip.address.addr()) == family) {
                ip.gateway = gateways.first().copied();
            }
            changes.extend(host.default_routes(family)?.into_iter().map(Change::Delete));
            for (metric, gateway) in (family.default_metric()..).zip(gateways) {
                let hops = vec![Hop::new(&call.ifname, Some(*gateway))];
                changes.push(Change::Add(Route { metric: Some(metric), ..Route::new(destination, hops) }));
                let told = IpNet::new(destination.addr(), 0).map(|dst| Told::new(dst, Some(*gateway)));
                result.routes.extend(told);
            }
        }
        if changes.is_empty() {
            return Ok(Outcome::unchanged());
        }
        host.apply(&changes)?;
        Ok(Outcome::changed(Document::from_result(&result)?))
    }
}

export_stage!(OtherArrange: arrange, stage; wants = r#"{
    "routes": {"links": ["@attachment"], "ops": ["read", "delete-default", "add"], "tables": [254]},
    "result": ["routes"]
}"#);
