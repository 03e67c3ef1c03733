use catena_sdk::cni::net::IpNet;
use catena_sdk::route::{Hop, Prefix, Route};

use crate::config::{Config, Wanted};

/// RTPROT_KERNEL: the routes that come with an address.
const PROTOCOL_KERNEL: u8 = 2;

/// What has to be done.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) deleted: Vec<Route>,
    pub(crate) added: Vec<Route>,
    /// Each of `added` as it was asked for.
    pub(crate) wanted: Vec<Wanted>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.added.is_empty()
    }
}

/// The difference between what is there and what the config asks for. Pure.
pub(crate) fn plan(config: &Config, link: &str, there: &[Route]) -> Plan {
    let is_wanted = |route: &Route| config.addroutes.iter().any(|wanted| fits(route, wanted));
    let goes = |route: &&Route| {
        let flushed = config.flushroutes && route.protocol != Some(PROTOCOL_KERNEL)
            || config.flushgateway && route.destination.is_default();
        let named = config.delroutes.iter().any(|unwanted| fits(route, unwanted));
        (flushed || named) && !is_wanted(route)
    };
    let mut plan = Plan { deleted: there.iter().filter(goes).cloned().collect(), ..Plan::default() };
    for wanted in config.addroutes.iter().filter(|wanted| !there.iter().any(|route| fits(route, wanted))) {
        if let Ok(destination) = Prefix::masked(wanted.dst.addr(), wanted.dst.prefix_len()) {
            plan.added.push(Route::new(destination, vec![Hop::new(link, wanted.gw)]));
            plan.wanted.push(wanted.clone());
        }
    }
    plan
}

fn fits(route: &Route, wanted: &Wanted) -> bool {
    is_to(route, &wanted.dst) && wanted.gw.is_none_or(|gw| route.gateways().any(|found| found == gw))
}

/// Whether the route leads to that destination.
pub(crate) fn is_to(route: &Route, dst: &IpNet) -> bool {
    Prefix::masked(dst.addr(), dst.prefix_len()).is_ok_and(|prefix| prefix == route.destination)
}
