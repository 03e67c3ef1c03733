//! Routes by their place, so that judging many changes does not look at every route for each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::resolve::Tables;
use crate::slot::Slot;
use crate::{Family, Prefix, Route};

/// Where a gateway's address is looked up.
pub(crate) trait Lookup {
    /// The routes of a table whose destination holds the address; those of one destination in the kernel's order.
    fn covering(&self, table: u32, addr: IpAddr) -> Vec<&Route>;
}

impl Lookup for [Route] {
    fn covering(&self, table: u32, addr: IpAddr) -> Vec<&Route> {
        self.iter().filter(|route| route.table == table && route.dst.contains(addr)).collect()
    }
}

/// Routes of any number of tables by table and destination, in the kernel's order there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index<'a> {
    places: BTreeMap<(u32, Prefix), Vec<&'a Route>>,
    /// The prefix lengths that a table has.
    lengths: BTreeMap<(Family, u32), BTreeSet<u8>>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(routes: impl IntoIterator<Item = &'a Route>) -> Index<'a> {
        let mut index = Index::default();
        for route in routes {
            index.places.entry((route.table, route.dst)).or_default().push(route);
            index.lengths.entry((route.dst.family(), route.table)).or_default().insert(route.dst.len());
        }
        index
    }

    pub(crate) fn of(tables: &'a Tables) -> Index<'a> {
        Index::new(tables.values().flatten())
    }

    /// The routes to one destination.
    pub(crate) fn to(&self, table: u32, dst: Prefix) -> &[&'a Route] {
        self.places.get(&(table, dst)).map_or(&[], Vec::as_slice)
    }

    /// A slot's routes.
    pub(crate) fn in_slot(&self, slot: Slot) -> Vec<Route> {
        let there = self.to(slot.table, slot.dst).iter().filter(|route| route.slot() == slot);
        there.map(|route| (*route).clone()).collect()
    }

    /// The routes that a request for this slot could meet. A metric of 0 is none in a request and meets every metric.
    pub(crate) fn near(&self, slot: Slot) -> Vec<Route> {
        let meets = |route: &&&Route| slot.metric == 0 || route.metric == slot.metric;
        self.to(slot.table, slot.dst).iter().filter(meets).map(|route| (*route).clone()).collect()
    }
}

impl Lookup for Index<'_> {
    fn covering(&self, table: u32, addr: IpAddr) -> Vec<&Route> {
        let lengths = self.lengths.get(&(Family::of(addr), table)).into_iter().flatten();
        let holding = lengths.filter_map(|length| Prefix::masked(addr, *length).ok());
        holding.flat_map(|dst| self.to(table, dst).iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hop;

    fn route(dst: &str, table: u32, metric: u32) -> Route {
        Route { table, metric, ..Route::new(dst.parse().unwrap(), vec![Hop::dev(2)]) }
    }

    #[test]
    fn finds_what_a_look_at_all_finds() {
        let mut routes = Vec::new();
        for table in [254, 100] {
            for dst in ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.0.1/32", "fd00::/8", "::/0"] {
                for metric in [0, 7, 9] {
                    routes.push(route(dst, table, metric));
                }
            }
        }
        let index = Index::new(&routes);
        for addr in ["10.1.0.1", "10.1.0.2", "10.2.0.1", "192.0.2.1", "fd00::1", "2001:db8::1"] {
            for table in [254, 100, 99] {
                let addr = addr.parse().unwrap();
                let sorted = |mut routes: Vec<&Route>| {
                    routes.sort();
                    routes.into_iter().cloned().collect::<Vec<Route>>()
                };
                let (by_index, by_all) = (index.covering(table, addr), routes.covering(table, addr));
                assert_eq!(sorted(by_index), sorted(by_all), "{addr} in {table}");
            }
        }
        let slot = route("10.0.0.0/8", 100, 7).slot();
        assert_eq!(index.in_slot(slot), [route("10.0.0.0/8", 100, 7)]);
        assert_eq!(index.near(slot).len(), 1);
        assert_eq!(index.near(Slot { metric: 0, ..slot }).len(), 3);
        assert!(index.to(254, "10.9.0.0/16".parse().unwrap()).is_empty());
    }
}
