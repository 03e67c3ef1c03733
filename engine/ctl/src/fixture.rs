//! A pod that is not there: what an ADD would be given.

use std::path::Path;

use catena::attach::rehearse::Given;
use catena::cni::{Conf, Target};
use catena::delegate::Command;
use catena_cni::identifier::{ContainerId, IfName};
use catena_routes::{Link, Route, SimulatedTable};
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// CNI_NETNS of a fixture's pod, as its results have to name it.
const SANDBOX: &str = "/run/netns/fixture";

/// The file. `conf` is what catena would get on stdin, `results` what the delegates of each attachment would print;
/// `links` and `routes` are what they would have left in the pod (routes as ip-route(8) writes them).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Raw {
    conf: Value,
    /// CNI_ARGS.
    #[serde(default)]
    args: String,
    #[serde(default = "eth0")]
    ifname: String,
    #[serde(default = "container")]
    container_id: String,
    #[serde(default)]
    results: Vec<Value>,
    /// Without it each attachment has the link of its name.
    links: Option<Vec<RawLink>>,
    #[serde(default)]
    routes: Vec<String>,
    /// The config of the module that is tried.
    config: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawLink {
    Name(String),
    Facts(LinkFacts),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFacts {
    name: String,
    mac: Option<String>,
    mtu: Option<u32>,
    up: Option<bool>,
    kind: Option<String>,
}

fn eth0() -> String {
    "eth0".to_owned()
}

fn container() -> String {
    "fixture".to_owned()
}

/// A fixture that was read.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) given: Given,
    /// The config of the module that is tried; an object.
    pub(crate) config: Option<Value>,
}

impl Fixture {
    pub(crate) fn load(path: &Path) -> Result<Fixture, Error> {
        let text = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let bad = |why: String| Error::Refused(format!("{}: {why}", path.display()));
        let raw: Raw = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        let conf = Conf::parse(raw.conf.to_string().as_bytes(), Command::Add)
            .map_err(|error| bad(format!("conf: {}", error.msg)))?;
        let ifname = IfName::parse(&raw.ifname).map_err(|error| bad(format!("ifname: {error}")))?;
        let container_id =
            ContainerId::parse(&raw.container_id).map_err(|error| bad(format!("containerId: {error}")))?;
        let links = match raw.links {
            Some(links) => links.into_iter().zip(2..).map(|(link, index)| link.link(index)).collect(),
            None => {
                let names = conf.interfaces(&ifname).map_err(|error| bad(format!("conf: {}", error.msg)))?;
                let names = if names.is_empty() { vec![ifname.clone()] } else { names };
                let link = |(name, index): (&IfName, u32)| Link::simulated(index, name.as_str());
                names.iter().zip(2..).map(link).collect::<Vec<_>>()
            }
        };
        let route = |text: &String| {
            Route::parse(text, &links).map_err(|error| bad(format!("routes: {text:?}: {error}")))
        };
        let routes = raw.routes.iter().map(route).collect::<Result<Vec<_>, _>>()?;
        if let Some(config) = raw.config.as_ref().filter(|config| !config.is_object()) {
            return Err(bad(format!("config must be an object, not {config}")));
        }
        Ok(Fixture {
            given: Given {
                conf,
                target: Target { container_id, ifname },
                args: raw.args,
                sandbox: SANDBOX.to_owned(),
                table: SimulatedTable::new(SANDBOX, links, routes),
                results: raw.results,
            },
            config: raw.config,
        })
    }
}

impl RawLink {
    fn link(self, index: u32) -> Link {
        match self {
            RawLink::Name(name) => Link::simulated(index, &name),
            RawLink::Facts(facts) => {
                let link = Link::simulated(index, &facts.name);
                Link {
                    mac: facts.mac.or(link.mac),
                    mtu: facts.mtu.unwrap_or(link.mtu),
                    up: facts.up.unwrap_or(link.up),
                    carrier: facts.up.unwrap_or(link.carrier),
                    kind: facts.kind.or(link.kind),
                    ..link
                }
            }
        }
    }
}
