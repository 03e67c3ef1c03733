//! The kernel's routing tables as they were measured to behave, without any check of next hops.

mod v4;
mod v6;

use crate::slot::Slot;
use crate::snapshot::ALL_TABLES;
use crate::{Action, Echo, Errno, Failure, Family, Hop, Mode, Request, Route, Via};

/// Routes of any table. IPv4: every alias, in the kernel's order. IPv6: every leg by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fib {
    v4: Vec<Route>,
    v6: Vec<Route>,
}

impl Fib {
    /// `routes` in the order of a dump.
    pub(crate) fn new(routes: impl IntoIterator<Item = Route>) -> Fib {
        let mut fib = Fib::default();
        for route in routes {
            match route.family {
                Family::V4 => fib.v4.push(route),
                Family::V6 => fib.v6.extend(route.legs()),
            }
        }
        // Stable: the order within a slot is the kernel's.
        fib.v4.sort_by_key(order);
        fib.v6.sort_by_key(order);
        fib
    }

    /// `table` 0: all of them.
    pub(crate) fn dump(&self, family: Family, table: u32) -> Vec<Route> {
        let here = |route: &&Route| table == ALL_TABLES || route.table == table;
        match family {
            Family::V4 => self.v4.iter().filter(here).cloned().collect(),
            Family::V6 => seen(self.v6.iter().filter(here)),
        }
    }

    /// All routes, those that a dump hides too. IPv6: leg by leg.
    pub(crate) fn held(&self, family: Family) -> &[Route] {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    pub(crate) fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        match (request.family, request.action) {
            (Family::V4, Action::Add(mode)) => self.add_v4(request, mode),
            (Family::V4, Action::Delete) => self.delete_v4(request),
            (Family::V6, Action::Add(mode)) => self.add_v6(request, mode),
            (Family::V6, Action::Delete) => self.delete_v6(request),
        }
    }

    /// Removes the routes that the condition names, as the kernel does on its own when a link goes.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Route) -> bool) {
        self.v4.retain(&keep);
        self.v6.retain(&keep);
    }
}

/// Where a route stands in a table (fib_insert_alias, fib6_add_rt2node).
fn order(route: &Route) -> (u32, crate::Prefix, Option<crate::Prefix>, std::cmp::Reverse<u8>, u32) {
    (route.table, route.dst, route.from, std::cmp::Reverse(route.tos), route.metric)
}

/// Whether a leg merges with others of its slot (rt6_qualify_for_ecmp).
pub(crate) fn merges(leg: &Route) -> bool {
    leg.object.is_none() && !leg.is_from_ra() && leg.hops.iter().any(|hop| hop.gateway.is_some())
}

/// What a dump shows of legs in the kernel's order. It goes from the first of several merged legs right to the
/// last one's successor, so a route of the slot that stands between them does not show (fib6_dump_node).
fn seen<'a>(legs: impl Iterator<Item = &'a Route>) -> Vec<Route> {
    let legs: Vec<&Route> = legs.collect();
    let hidden = |i: usize, leg: &Route| {
        let sibling = |other: &&&Route| other.slot() == leg.slot() && merges(other);
        !merges(leg)
            && legs.iter().take(i).rev().take_while(|r| r.slot() == leg.slot()).any(|r| sibling(&r))
            && legs.iter().skip(i + 1).take_while(|r| r.slot() == leg.slot()).any(|r| sibling(&r))
    };
    group(legs.iter().enumerate().filter(|(i, leg)| !hidden(*i, leg)).map(|(_, leg)| *leg))
}

pub(crate) fn legs_of(routes: &[Route]) -> Vec<Route> {
    routes.iter().flat_map(Route::legs).collect()
}

/// Legs in the kernel's order, merged.
pub(crate) fn group<'a>(legs: impl Iterator<Item = &'a Route>) -> Vec<Route> {
    let mut out: Vec<(Slot, Route)> = Vec::new();
    for leg in legs {
        let slot = leg.slot();
        let peer =
            out.iter_mut().rev().take_while(|(s, _)| *s == slot).find(|(_, r)| merges(leg) && merges(r));
        match peer {
            Some((_, route)) => route.hops.extend(leg.hops.iter().cloned()),
            None => out.push((slot, leg.clone())),
        }
    }
    out.into_iter().map(|(_, route)| route.normalised()).collect()
}

/// The route that a request to add makes.
pub(crate) fn route_of(request: &Request) -> Route {
    let (hops, object) = match &request.via {
        Via::Nothing => (Vec::new(), None),
        Via::One(hop) => (vec![hop.clone()], None),
        Via::Many(hops) => (hops.clone(), None),
        Via::Object(object) => (Vec::new(), Some(*object)),
    };
    let metric = match (request.family, request.metric) {
        (Family::V6, 0) => Family::V6.default_metric(),
        (_, metric) => metric,
    };
    Route {
        family: request.family,
        table: request.table,
        dst: request.dst,
        tos: request.tos,
        metric,
        kind: request.kind,
        unknown_kind: None,
        scope: request.scope,
        protocol: request.protocol,
        source: request.source,
        mtu: request.mtu,
        advmss: request.advmss,
        hops,
        from: request.from,
        object,
        metrics: request.metrics.clone(),
        extra: request.extra.clone(),
        fixed: None,
        expires: crate::Expiry(request.expires),
    }
}

fn refused(errno: Errno, message: &str) -> Failure {
    Failure::Kernel { errno, message: Some(message.to_owned()), offset: None }
}
