//! Does one operation of the routes capability, as its config says: `{"op": "delete"}`.

use catena_sdk::route::{Family, Hop, KernelRoutes, Kind, MAIN, Prefix, Route};
use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde::Deserialize;

struct Routes;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Op {
    Read,
    DeleteDefault,
    /// Deletes the first route that is no default route.
    Delete,
    Add,
    /// Replaces all routes by those that are there.
    Replace,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    op: Op,
    table: Option<u32>,
    link: Option<String>,
    /// Adds a route of this type, without a hop.
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Module for Routes {
    type Config = Config;
}

impl Stage for Routes {
    fn add(call: &Call<Config>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        let Config { op, table, link, kind } = &call.config;
        let table = table.unwrap_or(MAIN);
        let link = link.as_ref().unwrap_or(&call.ifname);
        let routes = || host.routes(Family::V4, table);
        let to_delete = |default: bool| -> Result<Route, Error> {
            let found = routes()?.into_iter().find(|route| route.destination.is_default() == default);
            found.ok_or_else(|| Error::failed("there is no such route"))
        };
        match op {
            Op::Read => drop(routes()?),
            Op::DeleteDefault => drop(host.delete(&to_delete(true)?)?),
            Op::Delete => drop(host.delete(&to_delete(false)?)?),
            Op::Add => {
                let destination: Prefix = "203.0.113.0/24".parse().map_err(|_| Error::failed("a prefix"))?;
                let mut route = Route { table, ..Route::new(destination, vec![Hop::new(link, None)]) };
                if let Some(kind) = kind {
                    route.kind = Kind::from_text(kind).ok_or_else(|| Error::failed("a type"))?;
                    route.hops.clear();
                }
                host.add(&route)?;
            }
            Op::Replace => drop(host.replace(link, Family::V4, table, &[], KernelRoutes::Keep)?),
        }
        Ok(Outcome::unchanged())
    }
}

export_stage!(Routes: stage);
