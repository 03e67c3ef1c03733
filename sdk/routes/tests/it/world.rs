//! Two links with an address of each family, and random routes over them.

use std::net::IpAddr;

use catena_routes::{Family, Hop, Kind, Link, Prefix, Route, RouteSpec, SimulatedTable, Wire};

pub(crate) const ETH0: u32 = 2;
pub(crate) const NET1: u32 = 3;

/// xorshift64*: small, seeded, and the same on every machine.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % limit
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// `SOAK_APPLIES`, or what fits into CI.
pub(crate) fn rounds(usual: usize) -> usize {
    std::env::var("SOAK_APPLIES").map_or(usual, |n| n.parse().expect("SOAK_APPLIES is a number"))
}

/// `SOAK_SEED`, or 1.
pub(crate) fn seed() -> u64 {
    std::env::var("SOAK_SEED").map_or(1, |n| n.parse().expect("SOAK_SEED is a number"))
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn net(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub(crate) fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.to_owned(),
        alt_names: vec![format!("{name}-another-name-that-is-long")],
        mac: Some(format!("02:00:00:00:00:{index:02x}")),
        mtu: 1500,
        up: true,
        carrier: true,
        kind: Some("veth".to_owned()),
    }
}

pub(crate) fn links() -> Vec<Link> {
    vec![link(1, "lo"), link(ETH0, "eth0"), link(NET1, "net1")]
}

pub(crate) fn own(family: Family, link: u32) -> IpAddr {
    match (family, link) {
        (Family::V4, ETH0) => ip("10.0.0.2"),
        (Family::V4, _) => ip("10.1.0.2"),
        (Family::V6, ETH0) => ip("fd00::2"),
        (Family::V6, _) => ip("fd01::2"),
    }
}

pub(crate) fn gateways(family: Family, link: u32) -> [IpAddr; 2] {
    match (family, link) {
        (Family::V4, ETH0) => [ip("10.0.0.1"), ip("10.0.0.254")],
        (Family::V4, _) => [ip("10.1.0.1"), ip("10.1.0.254")],
        (Family::V6, ETH0) => [ip("fd00::1"), ip("fd00::9")],
        (Family::V6, _) => [ip("fd01::1"), ip("fd01::9")],
    }
}

/// What the kernel makes of the link's address.
pub(crate) fn connected(family: Family, link: u32) -> Route {
    let dst = match family {
        Family::V4 => Prefix::masked(own(family, link), 24),
        Family::V6 => Prefix::masked(own(family, link), 64),
    };
    let mut route = Route::new(dst.unwrap(), vec![Hop::dev(link)]);
    route.protocol = 2;
    match family {
        Family::V4 => route.source = Some(own(family, link)),
        Family::V6 => route.metric = 256,
    }
    route
}

pub(crate) fn addresses() -> Vec<IpAddr> {
    Family::ALL.into_iter().flat_map(|family| [own(family, ETH0), own(family, NET1)]).collect()
}

/// Both links with their connected routes.
pub(crate) fn world() -> SimulatedTable {
    let routes = Family::ALL.into_iter().flat_map(|f| [connected(f, ETH0), connected(f, NET1)]).collect();
    SimulatedTable::new("test", links(), routes).with_addresses(addresses())
}

pub(crate) fn tables(wire: &mut impl Wire) -> Vec<Vec<Route>> {
    let mut all = Vec::new();
    for table in [254, 100] {
        all.push(wire.dump(Family::V4, table).unwrap());
        let mut v6 = wire.dump(Family::V6, table).unwrap();
        v6.sort();
        all.push(v6);
    }
    all
}

/// A route as CNI plugins, people and daemons make them.
pub(crate) fn random_route(random: &mut Random, family: Family, links: &[u32]) -> Route {
    let destinations: &[&str] = match family {
        Family::V4 => &["0.0.0.0/0", "0.0.0.0/0", "192.0.2.0/24", "198.51.100.0/25"],
        Family::V6 => &["::/0", "::/0", "fd77::/64", "fd78::/48"],
    };
    let link = random.pick(links);
    let hop = |random: &mut Random, link: u32| Hop::via(random.pick(&gateways(family, link)), link);
    let hops = match random.below(10) {
        0 => vec![Hop::dev(link)],
        1 => {
            let away = if family == Family::V4 { ip("10.9.9.9") } else { ip("fd99::1") };
            vec![Hop { onlink: true, ..Hop::via(away, link) }]
        }
        2..=4 => {
            let mut hops: Vec<Hop> = Vec::new();
            for _ in 0..2 + random.below(2) {
                let link = random.pick(links);
                let mut hop = hop(random, link);
                if family == Family::V4 {
                    hop.weight = u8::try_from(random.below(3)).unwrap();
                }
                if hops.iter().all(|other| other.gateway != hop.gateway) {
                    hops.push(hop);
                }
            }
            hops
        }
        _ => vec![hop(random, link)],
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
    if random.percent(25) {
        route.source = Some(own(family, random.pick(links)));
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
        route.mtu = None;
    }
    // A dump hides a route that stands between merged hops of its slot.
    if family == Family::V6 && route.hops.iter().all(|hop| hop.gateway.is_none()) {
        route.metric += 7;
    }
    route.normalised()
}

/// A spec that leaves out what need not be said.
pub(crate) fn vague(random: &mut Random, route: &Route) -> RouteSpec {
    let mut spec = route.to_spec();
    if random.percent(50) {
        spec.protocol = None;
    }
    if random.percent(50) {
        spec.scope = None;
    }
    if random.percent(50) {
        spec.source = None;
        spec.mtu = None;
    }
    spec
}

/// Tables for people.
pub(crate) fn show(tables: &[Vec<Route>]) -> String {
    tables.iter().flatten().map(|route| format!("\n    {route}")).collect()
}
