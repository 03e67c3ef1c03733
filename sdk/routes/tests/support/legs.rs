//! Legs: an IPv6 multipath route is, in the kernel, one route for each hop; anything else is one route.

use catena_routes::{Family, Route};

/// Whether it has several legs.
pub(super) fn is_merged(route: &Route) -> bool {
    route.family == Family::V6 && route.hops.len() > 1
}

/// The legs of one route.
pub(super) fn of(route: &Route) -> Vec<Route> {
    if !is_merged(route) {
        return vec![route.clone()];
    }
    route.hops.iter().map(|hop| Route { hops: vec![hop.clone()], ..route.clone() }).collect()
}
