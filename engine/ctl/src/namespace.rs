//! The network namespace of an attached container, as it is now.

use std::collections::BTreeSet;

use catena::attach::entry::Entry;
use catena::routes::kernel::Kernel;
use catena::routes::link::Link;
use catena::routes::netns::Netns;
use catena_routes::{Family, Route};
use serde_json::Value;

/// The routing table `main`.
pub(crate) const MAIN: u32 = 254;

/// Links, and the routes of the main table.
pub(crate) struct Namespace {
    links: Vec<Link>,
    routes: Vec<Route>,
}

impl Namespace {
    /// The error says why the namespace cannot be looked at.
    pub(crate) fn read(entry: &Entry) -> Result<Namespace, String> {
        let intended = &entry.intended;
        let netns = Netns::open(&intended.netns).map_err(|error| error.to_string())?;
        if !entry.is_in(&netns) {
            return Err(format!("{} is another namespace than the one that was attached", intended.netns));
        }
        let mut kernel = Kernel::of(&netns);
        let links = kernel.links().map_err(|error| error.to_string())?;
        let mut now = Namespace { links, routes: Vec::new() };
        for family in Family::ALL {
            now.routes.extend(kernel.routes(family, MAIN).map_err(|error| error.to_string())?);
        }
        Ok(now)
    }

    /// The name of a link.
    pub(crate) fn name(&self, index: u32) -> String {
        let link = self.links.iter().find(|link| link.index == index);
        link.map_or_else(|| format!("index {index}"), |link| link.name.clone())
    }

    /// A route as a person reads it, and as the ledger has it.
    pub(crate) fn text(&self, route: &Route) -> String {
        route.text(&|index| self.name(index))
    }

    /// The routes that have a hop on one of these links.
    pub(crate) fn on<'a>(&'a self, names: &'a BTreeSet<String>) -> impl Iterator<Item = &'a Route> {
        self.routes.iter().filter(|route| route.hops.iter().any(|hop| names.contains(&self.name(hop.link))))
    }
}

/// An attachment's interfaces in the sandbox: the one of its name, and those of its result.
pub(crate) fn interfaces(ifname: &str, result: Option<&Value>, sandbox: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::from([ifname.to_owned()]);
    let listed = result.and_then(|result| result["interfaces"].as_array()).into_iter().flatten();
    let own = listed.filter(|interface| interface["sandbox"] == sandbox);
    names.extend(own.filter_map(|interface| interface["name"].as_str()).map(str::to_owned));
    names
}
