//! The result after the change: it says exactly what the kernel does. Pure.

use std::net::IpAddr;

use catena_sdk::Action;
use catena_sdk::cni::net::IpNet;
use catena_sdk::cni::result::{self, CniResult};
use catena_sdk::route::{Family, MAIN, Prefix, Route};

use crate::defaults::Plan;

/// Rewrites one family. A route that only makes a gateway reachable is not told, as ptp does not tell its own.
pub(crate) fn rewrite(result: &mut CniResult, family: Family, action: &Action, plan: &Plan) {
    if *action == Action::Leave {
        return;
    }
    tell_defaults(result, family, &plan.after, *action == Action::Own);
    for route in &plan.kept {
        for hop in &route.hops {
            tell_kept(result, route.destination, hop.gateway);
        }
    }
    let gateways = match action {
        Action::Leave | Action::Own => return,
        Action::Filter => &[][..],
        Action::Override(gateways) => gateways,
    };
    for ip in result.ips.iter_mut().filter(|ip| Family::of(ip.address.addr()) == family) {
        ip.gateway = gateways.iter().copied().find(|gateway| ip.address.contains(*gateway));
    }
}

/// Whether an entry of a result is about the routes of the main table to this destination.
pub(crate) fn tells(route: &result::Route, destination: Prefix) -> bool {
    route.dst.addr() == destination.addr()
        && route.dst.prefix_len() == destination.len()
        && route.table.is_none_or(|table| table == i64::from(MAIN))
}

/// A kept route that the delegate has told already is not told twice. Where it left out the gateway, which it took from
/// its addresses, the gateway is put in: the filter takes it away there.
fn tell_kept(result: &mut CniResult, destination: Prefix, gateway: Option<IpAddr>) {
    let find =
        |gateway| result.routes.iter().position(|route| tells(route, destination) && route.gw == gateway);
    match find(gateway).or_else(|| find(None)).and_then(|place| result.routes.get_mut(place)) {
        Some(telling) => telling.gw = gateway,
        None => result.routes.extend(told(destination).map(|dst| result::Route::new(dst, gateway))),
    }
}

/// The default routes of the result become those of the kernel; one that already tells a hop stays with all that
/// it has. Plugins leave out the gateway that they took from their addresses: with `fill` it is put in.
fn tell_defaults(result: &mut CniResult, family: Family, after: &[Route], fill: bool) {
    let is_default = |route: &result::Route| {
        route.dst.is_default()
            && Family::of(route.dst.addr()) == family
            && route.table.is_none_or(|table| table == i64::from(MAIN))
    };
    let mut true_ones = vec![false; result.routes.len()];
    for (route, hop) in after.iter().flat_map(|route| route.hops.iter().map(move |hop| (route, hop))) {
        let Some(dst) = told(Prefix::default_route(family)) else { continue };
        let find = |gateway| {
            let candidates = result.routes.iter().zip(&true_ones);
            candidates
                .map(|(route, taken)| !taken && is_default(route) && route.gw == gateway)
                .position(|fits| fits)
        };
        let index = find(hop.gateway).or_else(|| if fill { find(None) } else { None });
        let index = index.unwrap_or_else(|| {
            result.routes.push(result::Route::new(dst, hop.gateway));
            true_ones.push(false);
            result.routes.len() - 1
        });
        if let (Some(telling), Some(taken)) = (result.routes.get_mut(index), true_ones.get_mut(index)) {
            let metric = route.metric.map(i64::from);
            telling.gw = hop.gateway;
            if telling.priority != metric {
                telling.priority = metric.filter(|_| route.metric != Some(family.default_metric()));
            }
            *taken = true;
        }
    }
    let mut true_ones = true_ones.into_iter();
    result.routes.retain(|route| true_ones.next() == Some(true) || !is_default(route));
}

fn told(prefix: Prefix) -> Option<IpNet> {
    IpNet::new(prefix.addr(), prefix.len())
}
