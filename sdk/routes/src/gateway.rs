//! Whether the kernel takes a gateway: its own lookup of the gateway's address (fib_check_nh of IPv4,
//! ip6_route_check_nh of IPv6), on the routes that are at hand.

use std::net::IpAddr;

use crate::index::Lookup;
use crate::route::SCOPE_LINK;
use crate::{Family, Hop, Kind, Route};

/// RT_TABLE_LOCAL, RT_TABLE_MAIN, RT_TABLE_DEFAULT: what the default policy rules look up.
const RULES: [u32; 3] = [255, 254, 253];

/// Whether `routes` make the hop's gateway reachable without another gateway. True for a hop that needs no route.
pub(crate) fn on_link(route: &Route, hop: &Hop, routes: &(impl Lookup + ?Sized)) -> bool {
    let Some(gateway) = hop.gateway else { return true };
    if hop.onlink || is_link_local(gateway) {
        return true;
    }
    // An IPv4 route's IPv6 gateway is looked up among IPv6 routes, which are not at hand.
    if Family::of(gateway) != route.family {
        return true;
    }
    let mut tables =
        std::iter::once(route.table).chain(RULES.into_iter().filter(|table| *table != route.table));
    tables.any(|table| {
        let covering = routes.covering(table, gateway).into_iter().filter(|r| r.tos == 0);
        match route.family {
            Family::V4 => {
                let scope = route.scope.saturating_add(1).max(SCOPE_LINK);
                let best = covering
                    .filter(|r| r.scope >= scope && (r.hops.is_empty() || r.has_hop_on(hop.link)))
                    .min_by_key(|r| (std::cmp::Reverse(r.dst.len()), r.metric));
                best.is_some_and(|r| matches!(r.kind, Kind::Unicast | Kind::Local))
            }
            Family::V6 => {
                let best = covering
                    .filter(|r| r.from.is_none() && r.has_hop_on(hop.link))
                    .min_by_key(|r| (std::cmp::Reverse(r.dst.len()), r.metric));
                best.is_some_and(|r| r.hops.iter().any(|h| h.link == hop.link && h.gateway.is_none()))
            }
        }
    })
}

pub(crate) fn is_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(a) if a.segments().first().is_some_and(|s| s & 0xffc0 == 0xfe80))
}
