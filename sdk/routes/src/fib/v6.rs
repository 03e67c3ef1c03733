//! fib6_add_rt2node and ip6_route_del.

use super::*;

/// The loopback link of every namespace, on which routes that reject are shown.
const LOOPBACK: u32 = 1;

impl Fib {
    pub(super) fn add_v6(&mut self, request: &Request, mode: Mode) -> Result<Vec<Echo>, Failure> {
        let route = route_of(request);
        for (i, hop) in route.hops.iter().enumerate() {
            if route.hops.iter().skip(i + 1).any(|other| other.name() == hop.name()) {
                return Err(Failure::kernel(Errno::EEXIST));
            }
        }
        let before = self.v6.clone();
        // Only the first leg carries the flags; the others join it.
        let mut mode = mode;
        for leg in route.legs() {
            if let Err(failure) = self.add_leg(leg, mode) {
                self.v6 = before;
                return Err(failure);
            }
            mode = Mode::Append;
        }
        let route = route.normalised();
        let shown = group(self.v6.iter().filter(|leg| leg.slot() == route.slot()));
        let echo = shown.into_iter().find(|shown| {
            let has = |hop: &Hop| shown.hops.iter().any(|h| h.name() == hop.name());
            shown.kind == route.kind
                && shown.hops.is_empty() == route.hops.is_empty()
                && route.hops.iter().all(has)
        });
        Ok(echo.into_iter().map(|route| Echo { deleted: false, route }).collect())
    }

    fn add_leg(&mut self, mut leg: Route, mode: Mode) -> Result<(), Failure> {
        if leg.kind.rejects() {
            leg.hops.clear();
        }
        let key = order(&leg);
        let start = self.v6.partition_point(|r| order(r) < key);
        let end = self.v6.partition_point(|r| order(r) <= key);
        let slot = self.v6.get(start..end).unwrap_or_default();
        match mode {
            Mode::Exclusive if !slot.is_empty() => Err(Failure::kernel(Errno::EEXIST)),
            Mode::Replace if !slot.is_empty() => {
                // The first that merges likewise, with its siblings; else the first of all.
                let place = slot.iter().position(|r| merges(r) == merges(&leg)).unwrap_or(0);
                let siblings = slot.get(place).is_some_and(merges);
                let rest: Vec<Route> = slot
                    .iter()
                    .enumerate()
                    .filter(|(i, r)| *i != place && !(siblings && merges(r)))
                    .map(|(_, r)| r.clone())
                    .collect();
                let before = slot.iter().take(place).filter(|r| !(siblings && merges(r))).count();
                let mut new = rest;
                new.insert(before, leg);
                self.v6.splice(start..end, new);
                Ok(())
            }
            _ => {
                if slot.iter().any(|r| same_hop(r, &leg)) {
                    return Err(Failure::kernel(Errno::EEXIST));
                }
                self.v6.insert(end, leg);
                Ok(())
            }
        }
    }

    /// The first leg that the request's pattern fits dies; without a gateway all its siblings as well.
    pub(super) fn delete_v6(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        let (gateway, link) = match &request.via {
            Via::One(hop) => (hop.gateway, hop.link),
            _ => (None, 0),
        };
        let fits = |leg: &Route| {
            let hop = leg.hops.first();
            leg.table == request.table
                && leg.dst == request.dst
                && leg.from == request.from
                && (request.metric == 0 || request.metric == leg.metric)
                && (request.protocol == 0 || request.protocol == leg.protocol)
                && (link == 0 || hop.map_or(LOOPBACK, |hop| hop.link) == link)
                && gateway.is_none_or(|gateway| match hop.and_then(|hop| hop.gateway) {
                    Some(has) => has == gateway,
                    None => gateway.is_unspecified(),
                })
                && match &request.via {
                    Via::Object(object) => leg.object == Some(*object),
                    _ => true,
                }
        };
        let Some(place) = self.v6.iter().position(fits) else {
            return Err(Failure::kernel(Errno::ESRCH));
        };
        let first = self.v6.remove(place);
        let mut gone = vec![first.clone()];
        if gateway.is_none() && merges(&first) {
            let sibling = |r: &mut Route| r.slot() == first.slot() && merges(r);
            gone.extend(self.v6.extract_if(.., sibling));
        }
        // All siblings come in one echo.
        Ok(group(gone.iter()).into_iter().map(|route| Echo { deleted: true, route }).collect())
    }
}

/// rt6_duplicate_nexthop.
fn same_hop(a: &Route, b: &Route) -> bool {
    match (a.hops.first(), b.hops.first()) {
        (Some(a), Some(b)) => a.name() == b.name(),
        (None, None) => true,
        _ => false,
    }
}
