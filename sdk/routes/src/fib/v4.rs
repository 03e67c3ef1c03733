//! fib_table_insert and fib_table_delete.

use super::*;

impl Fib {
    pub(super) fn add_v4(&mut self, request: &Request, mode: Mode) -> Result<Vec<Echo>, Failure> {
        let route = route_of(request).normalised();
        let key = order(&route);
        let start = self.v4.partition_point(|r| order(r) < key);
        let end = self.v4.partition_point(|r| order(r) <= key);
        let slot = self.v4.get(start..end).unwrap_or_default();
        let same = slot.iter().position(|r| *r == route);
        match (mode, slot.is_empty(), same) {
            (Mode::Exclusive, false, _) => return Err(Failure::kernel(Errno::EEXIST)),
            (Mode::Replace, false, Some(0)) => {}
            (Mode::Replace, false, None) => {
                if let Some(first) = self.v4.get_mut(start) {
                    *first = route.clone();
                }
            }
            (_, false, Some(_)) => return Err(Failure::kernel(Errno::EEXIST)),
            (Mode::Append, false, None) => self.v4.insert(end, route.clone()),
            (Mode::Prepend, false, None) | (_, true, _) => self.v4.insert(start, route.clone()),
        }
        Ok(vec![Echo { deleted: false, route }])
    }

    /// The first route that the request's pattern fits dies.
    pub(super) fn delete_v4(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        if !self.v4.iter().any(|r| r.table == request.table) && !(253..=255).contains(&request.table) {
            return Err(refused(Errno::ESRCH, "FIB table does not exist"));
        }
        match self.v4.iter().position(|route| fits(request, route)) {
            Some(place) => Ok(vec![Echo { deleted: true, route: self.v4.remove(place) }]),
            None => Err(Failure::kernel(Errno::ESRCH)),
        }
    }
}

fn fits(request: &Request, route: &Route) -> bool {
    let given = |wanted: u32, has: u32| wanted == 0 || wanted == has;
    route.table == request.table
        && route.dst == request.dst
        && route.tos == request.tos
        && given(request.metric, route.metric)
        && request.kind == route.kind
        && (request.scope == 255 || request.scope == route.scope)
        && given(request.protocol.into(), route.protocol.into())
        && (request.source.is_none() || request.source == route.source)
        && (request.mtu.is_none() || request.mtu == route.mtu)
        && (request.advmss.is_none() || request.advmss == route.advmss)
        && request.metrics.iter().all(|metric| route.metrics.contains(metric))
        && hops_fit(request, route)
}

/// fib_nh_match: a single hop is compared with the route's first, a list with as many hops as the route has.
fn hops_fit(request: &Request, route: &Route) -> bool {
    let hop_fits = |wanted: &Hop, has: &Hop| {
        (wanted.link == 0 || wanted.link == has.link)
            && (wanted.gateway.is_none() || wanted.gateway == has.gateway)
    };
    match &request.via {
        Via::Object(object) => route.object == Some(*object),
        _ if route.object.is_some() => matches!(request.via, Via::Nothing),
        Via::Nothing => true,
        Via::One(hop) => route.hops.first().is_some_and(|first| hop_fits(hop, first)),
        Via::Many(hops) => {
            hops.len() >= route.hops.len()
                && hops.iter().zip(&route.hops).all(|(wanted, has)| hop_fits(wanted, has))
        }
    }
}
