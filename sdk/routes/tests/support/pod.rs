use std::net::IpAddr;

use catena_routes::{Errno, Family, Hop, Kind, Mode, Prefix, Request, Route, Wire};

use super::random::Random;

/// Two links of a pod by index: eth0 (10.0.0.2/24, fd00::2/64) and net1 (10.1.0.2/24, fd01::2/64).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodNet {
    pub(crate) eth0: u32,
    pub(crate) net1: u32,
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn net(text: &str) -> Prefix {
    text.parse().unwrap()
}

impl PodNet {
    pub(crate) fn both(self) -> [u32; 2] {
        [self.eth0, self.net1]
    }

    pub(crate) fn own(self, family: Family, link: u32) -> IpAddr {
        match (family, link == self.eth0) {
            (Family::V4, true) => ip("10.0.0.2"),
            (Family::V4, false) => ip("10.1.0.2"),
            (Family::V6, true) => ip("fd00::2"),
            (Family::V6, false) => ip("fd01::2"),
        }
    }

    pub(crate) fn gateways(self, family: Family, link: u32) -> [IpAddr; 2] {
        match (family, link == self.eth0) {
            (Family::V4, true) => [ip("10.0.0.1"), ip("10.0.0.254")],
            (Family::V4, false) => [ip("10.1.0.1"), ip("10.1.0.254")],
            (Family::V6, true) => [ip("fd00::1"), ip("fd00::9")],
            (Family::V6, false) => [ip("fd01::1"), ip("fd01::9")],
        }
    }

    /// What the kernel makes of the link's address.
    pub(crate) fn connected(self, family: Family, link: u32) -> Route {
        let own = self.own(family, link);
        let dst = Prefix::masked(own, if family == Family::V4 { 24 } else { 64 });
        let mut route = Route::new(dst.unwrap(), vec![Hop::dev(link)]);
        route.protocol = 2;
        match family {
            Family::V4 => route.source = Some(own),
            Family::V6 => route.metric = 256,
        }
        route
    }

    /// A route as CNI plugins, people and daemons make them, over some of these links.
    pub(crate) fn random_route(self, random: &mut Random, family: Family, links: &[u32]) -> Route {
        let destinations: &[&str] = match family {
            Family::V4 => &["0.0.0.0/0", "0.0.0.0/0", "192.0.2.0/24", "198.51.100.0/25"],
            Family::V6 => &["::/0", "::/0", "fd77::/64", "fd78::/48"],
        };
        let hop = |random: &mut Random| {
            let link = random.pick(links);
            Hop::via(random.pick(&self.gateways(family, link)), link)
        };
        let hops = match random.below(10) {
            0 => vec![Hop::dev(random.pick(links))],
            1 => {
                let away = if family == Family::V4 { ip("10.9.9.9") } else { ip("fd99::1") };
                vec![Hop { onlink: true, ..Hop::via(away, random.pick(links)) }]
            }
            2..=4 => {
                let mut hops: Vec<Hop> = Vec::new();
                for _ in 0..2 + random.below(2) {
                    let mut hop = hop(random);
                    hop.weight = u8::try_from(random.below(3)).unwrap();
                    if hops.iter().all(|other| other.gateway != hop.gateway) {
                        hops.push(hop);
                    }
                }
                hops
            }
            _ => vec![hop(random)],
        };
        let mut route = Route::new(net(random.pick::<&str>(destinations)), hops);
        route.metric = match (family, random.pick(&[0, 0, 50, 100])) {
            (Family::V6, 0) => 1024,
            (_, metric) => metric,
        };
        route.protocol = random.pick(&[3, 4, 16]);
        if random.percent(20) {
            route.mtu = Some(random.pick(&[1300, 1400]));
        }
        if random.percent(10) {
            route.advmss = Some(1200);
        }
        if random.percent(25) {
            route.source = Some(self.own(family, random.pick(links)));
        }
        if family == Family::V4 && random.percent(8) {
            route.tos = 16;
        }
        if random.percent(10) {
            route.table = 100;
        }
        if random.percent(5) {
            route.kind = random.pick(&[Kind::Blackhole, Kind::Unreachable]);
            route.hops.clear();
            (route.mtu, route.advmss, route.source, route.scope) = (None, None, None, 0);
        }
        route.normalised()
    }

    /// Takes away all routes that neither the kernel nor this made, and puts the connected ones back.
    pub(crate) fn clear(self, wire: &mut impl Wire) {
        for (family, table) in places() {
            loop {
                let routes = dump(wire, family, table);
                let connected: Vec<Route> = if table == 254 {
                    self.both().map(|link| self.connected(family, link)).into()
                } else {
                    Vec::new()
                };
                let extra: Vec<&Route> = routes.iter().filter(|route| !connected.contains(route)).collect();
                for route in connected.iter().filter(|route| !routes.contains(route)) {
                    wire.send(&Request::add(route, Mode::Append)).unwrap();
                }
                if extra.is_empty() {
                    break;
                }
                for route in extra {
                    for hop in 0..route.hops.len().max(1) {
                        let leg = match (route.family, route.hops.get(hop)) {
                            (Family::V6, Some(hop)) => Route { hops: vec![hop.clone()], ..route.clone() },
                            _ => route.clone(),
                        };
                        // Legs may hide their protocol, and an alias may be taken for another: again then.
                        let request = Request { protocol: 0, source: None, ..Request::delete(&leg) };
                        let _gone = wire.send(&request).is_ok();
                    }
                }
            }
        }
    }
}

/// The tables that the tests change.
fn places() -> [(Family, u32); 4] {
    [(Family::V4, 254), (Family::V6, 254), (Family::V4, 100), (Family::V6, 100)]
}

/// A table without what comes by itself: link-local and multicast routes.
fn dump(wire: &mut impl Wire, family: Family, table: u32) -> Vec<Route> {
    let mut routes = match wire.dump(family, table) {
        Err(failure) if failure.errno() == Some(Errno::ENOENT) => Vec::new(),
        routes => routes.unwrap(),
    };
    routes.retain(|route| route.dst != net("fe80::/64") && !route.dst.addr().is_multicast());
    if family == Family::V6 {
        routes.sort();
    }
    routes
}

/// All of them, IPv6 sorted.
pub(crate) fn tables(wire: &mut impl Wire) -> Vec<Vec<Route>> {
    places().into_iter().map(|(family, table)| dump(wire, family, table)).collect()
}

/// Tables for people.
pub(crate) fn show(tables: &[Vec<Route>]) -> String {
    tables.iter().flatten().map(|route| format!("\n    {route}")).collect()
}
