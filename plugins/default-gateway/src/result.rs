//! The result after the change: it says exactly what the kernel does. Pure.

use catena_sdk::Action;
use catena_sdk::cni::net::IpNet;
use catena_sdk::cni::result::{self, CniResult};
use catena_sdk::route::{Family, MAIN, Prefix, Route};

use crate::config::Gateways;

/// Rewrites one family. A route that only makes a gateway reachable is not told, as ptp does not tell its own.
pub(crate) fn rewrite(
    result: &mut CniResult,
    family: Family,
    action: &Action,
    kept: &[Route],
    several: Gateways,
) {
    let gateways = match action {
        Action::Leave | Action::Own => return,
        Action::Filter => &[][..],
        Action::Override(gateways) => gateways,
    };
    let is_main = |table: Option<i64>| table.is_none_or(|table| table == i64::from(MAIN));
    result.routes.retain(|route| {
        !(route.dst.is_default() && Family::of(route.dst.addr()) == family && is_main(route.table))
    });
    let told = |prefix: Prefix| IpNet::new(prefix.addr(), prefix.len());
    for (i, gateway) in gateways.iter().enumerate() {
        let Some(dst) = told(Prefix::default_route(family)) else { continue };
        let mut route = result::Route::new(dst, Some(*gateway));
        if i > 0 && several == Gateways::Metrics {
            route.priority = Some(i64::from(family.default_metric()) + i as i64);
        }
        result.routes.push(route);
    }
    for route in kept {
        for hop in &route.hops {
            result.routes.extend(told(route.destination).map(|dst| result::Route::new(dst, hop.gateway)));
        }
    }
    for ip in result.ips.iter_mut().filter(|ip| Family::of(ip.address.addr()) == family) {
        ip.gateway = gateways.iter().copied().find(|gateway| ip.address.contains(*gateway));
    }
}
