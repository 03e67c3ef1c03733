//! What a decision means for the kernel's default routes. Pure.

use std::net::IpAddr;

use catena_sdk::Action;
use catena_sdk::route::{Change, Family, Hop, Kind, Prefix, Route};

use crate::config::{Config, Gateways};
use crate::links::Links;

/// RTPROT_RA: learned from a router advertisement.
const PROTOCOL_RA: u8 = 9;

/// The changes of one family, and what the result has to say about them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    /// The default routes as they then are.
    pub(crate) after: Vec<Route>,
    /// The routes of `keep`, whether they are added or were there.
    pub(crate) kept: Vec<Route>,
}

/// `table` are the routes of the main table with a hop on the attachment's links.
pub(crate) fn plan(action: &Action, family: Family, table: &[Route], links: &Links, config: &Config) -> Plan {
    let wanted = match action {
        Action::Leave => return Plan::default(),
        Action::Own => return Plan { after: defaults(table, links), ..Plan::default() },
        Action::Filter => Vec::new(),
        Action::Override(gateways) => wanted(gateways, family, links, config.gateways()),
    };
    let mut plan = Plan { after: wanted.clone(), ..Plan::default() };
    let current = defaults(table, links);
    let lost: Vec<&Route> = current.iter().filter(|route| !wanted.iter().any(|w| same(route, w))).collect();
    if let Some(old) = lost.iter().min_by_key(|route| route.metric) {
        for destination in config.keep(family) {
            let route = Route::new(destination, old.hops.clone());
            let is_there = |other: &Route| {
                other.destination == destination && other.source_prefix.is_none() && other.hops == route.hops
            };
            if !table.iter().any(is_there) {
                plan.changes.push(Change::Add(route.clone()));
            }
            plan.kept.push(route);
        }
    }
    for route in wanted.iter().filter(|w| !current.iter().any(|route| same(route, w))) {
        plan.changes.extend(on_link(route, table, links).into_iter().map(Change::Add));
        plan.changes.push(Change::Add(route.clone()));
    }
    plan.changes.extend(lost.into_iter().cloned().map(Change::Delete));
    plan
}

/// The default routes among these, reduced to the hops on the attachment's links.
pub(crate) fn defaults(table: &[Route], links: &Links) -> Vec<Route> {
    let ours = |route: &Route| {
        let hops: Vec<Hop> = route.hops.iter().filter(|hop| links.has(&hop.link)).cloned().collect();
        (route.destination.is_default() && !hops.is_empty()).then(|| Route { hops, ..route.clone() })
    };
    table.iter().filter_map(ours).collect()
}

/// What is not as decided: expected and found, as texts; `None` if all is well.
pub(crate) fn difference(
    action: &Action,
    family: Family,
    table: &[Route],
    links: &Links,
    config: &Config,
) -> Option<(String, String)> {
    let wanted = match action {
        Action::Leave | Action::Own => return None,
        Action::Filter => Vec::new(),
        Action::Override(gateways) => wanted(gateways, family, links, config.gateways()),
    };
    let mut found = defaults(table, links);
    if config.allows_advertisements() {
        found.retain(|route| !is_advertised(route));
    }
    let as_wanted = found.len() == wanted.len() && wanted.iter().all(|w| found.iter().any(|f| same(f, w)));
    (!as_wanted).then(|| (texts(&wanted), texts(&found)))
}

pub(crate) fn is_advertised(route: &Route) -> bool {
    route.protocol == Some(PROTOCOL_RA)
}

fn texts(routes: &[Route]) -> String {
    if routes.is_empty() {
        return "none".to_owned();
    }
    routes.iter().map(Route::to_string).collect::<Vec<_>>().join(", ")
}

/// Metrics rise from what the kernel gives a route without one.
fn wanted(gateways: &[IpAddr], family: Family, links: &Links, several: Gateways) -> Vec<Route> {
    let destination = Prefix::default_route(family);
    let hop = |gateway: &IpAddr| Hop::new(links.towards(*gateway), Some(*gateway));
    let route = |hops, metric| Route { metric: Some(metric), ..Route::new(destination, hops) };
    let first = family.default_metric();
    match several {
        Gateways::Metrics => {
            (first..).zip(gateways).map(|(metric, gateway)| route(vec![hop(gateway)], metric)).collect()
        }
        Gateways::Ecmp => vec![route(gateways.iter().map(hop).collect(), first)],
    }
}

/// Whether the kernel's route does what is wanted. One from a router advertisement does not last.
fn same(route: &Route, wanted: &Route) -> bool {
    let has = |hops: &[Hop], hop: &Hop| {
        hops.iter().any(|other| other.link == hop.link && other.gateway == hop.gateway)
    };
    route.kind == Kind::Unicast
        && route.source_prefix.is_none()
        && !is_advertised(route)
        && route.metric == wanted.metric
        && route.hops.len() == wanted.hops.len()
        && wanted.hops.iter().all(|hop| has(&route.hops, hop))
}

/// A gateway in the subnet of one of the attachment's addresses is a neighbour on that link, but ptp replaces
/// the subnet's own route by one through its gateway, and the kernel then refuses every other gateway. So such a
/// gateway first gets a route of its own. For any other gateway the kernel's refusal stands.
fn on_link(route: &Route, table: &[Route], links: &Links) -> Vec<Route> {
    let covers = |route: &&Route, gateway| {
        route.kind == Kind::Unicast
            && route.source_prefix.is_none()
            && !route.destination.is_default()
            && route.destination.contains(gateway)
    };
    route
        .gateways()
        .filter_map(|gateway| {
            let link = links.subnet(gateway)?;
            let best = table.iter().filter(|r| covers(r, gateway)).max_by_key(|r| r.destination.len());
            let is_neighbour = best.is_some_and(|best| best.gateways().next().is_none());
            (!is_neighbour).then(|| Route::new(Prefix::host(gateway), vec![Hop::new(link, None)]))
        })
        .collect()
}
