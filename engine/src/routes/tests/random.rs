//! Random tables and changes on a real namespace: what is reported as done is the wanted table, what is reported
//! as undone is the table before, and the simulated table says the same as the kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;

use catena_routes::{
    ApplyFailure, Change, Echo, Errno, ErrorKind, Failure, Family, Hop, Journal, Kind, Link, Mode, Request,
    Route, RouteSpec, Scope, SimulatedTable, Table, Via, Wire,
};

use super::pod::*;
use crate::routes::kernel::Kernel;

/// xorshift64*: small, seeded, and the same on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % limit
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

fn rounds(usual: usize) -> usize {
    std::env::var("SOAK_APPLIES").map_or(usual, |n| n.parse().expect("SOAK_APPLIES is a number"))
}

fn seed() -> u64 {
    std::env::var("SOAK_SEED").map_or(1, |n| n.parse().expect("SOAK_SEED is a number"))
}

fn own(family: Family, first: bool) -> IpAddr {
    match (family, first) {
        (Family::V4, true) => ip("10.0.0.2"),
        (Family::V4, false) => ip("10.1.0.2"),
        (Family::V6, true) => ip("fd00::2"),
        (Family::V6, false) => ip("fd01::2"),
    }
}

fn gateways(family: Family, first: bool) -> [IpAddr; 2] {
    match (family, first) {
        (Family::V4, true) => [ip("10.0.0.1"), ip("10.0.0.254")],
        (Family::V4, false) => [ip("10.1.0.1"), ip("10.1.0.254")],
        (Family::V6, true) => [ip("fd00::1"), ip("fd00::9")],
        (Family::V6, false) => [ip("fd01::1"), ip("fd01::9")],
    }
}

/// A route as CNI plugins, people and daemons make them. `links`: eth0 first.
fn random_route(random: &mut Random, family: Family, links: [u32; 2]) -> Route {
    let destinations: &[&str] = match family {
        Family::V4 => &["0.0.0.0/0", "0.0.0.0/0", "192.0.2.0/24", "198.51.100.0/25"],
        Family::V6 => &["::/0", "::/0", "fd77::/64", "fd78::/48"],
    };
    let hop = |random: &mut Random| {
        let first = random.percent(50);
        Hop::via(random.pick(&gateways(family, first)), links[usize::from(!first)])
    };
    let hops = match random.below(10) {
        0 => vec![Hop::dev(random.pick(&links))],
        1 => {
            let away = if family == Family::V4 { ip("10.9.9.9") } else { ip("fd99::1") };
            vec![Hop { onlink: true, ..Hop::via(away, random.pick(&links)) }]
        }
        2..=4 => {
            let mut hops: Vec<Hop> = Vec::new();
            for _ in 0..2 + random.below(2) {
                let mut hop = hop(random);
                if family == Family::V4 {
                    hop.weight = u8::try_from(random.below(3)).unwrap();
                }
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
    if random.percent(25) {
        route.source = Some(own(family, random.percent(50)));
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
        route.source = None;
        route.scope = 0;
    }
    // A dump hides a route that stands between merged hops of its slot.
    if family == Family::V6 && route.hops.iter().all(|hop| hop.gateway.is_none()) {
        route.metric += 7;
    }
    route.normalised()
}

/// A wire to the kernel that refuses one request.
struct Faulty<'a> {
    wire: &'a mut Kernel,
    sent: usize,
    /// At which request (from 1), and whether it is carried out all the same and only its answer is lost.
    fault: Option<(usize, bool)>,
}

impl Wire for Faulty<'_> {
    fn namespace(&self) -> &str {
        self.wire.namespace()
    }

    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        Wire::links(self.wire)
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        self.wire.dump(family, table)
    }

    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        self.sent += 1;
        match self.fault {
            Some((at, done)) if at == self.sent => {
                if done {
                    self.wire.send(request)?;
                    return Err(Failure::Lost("fault".to_owned()));
                }
                Err(Failure::kernel(Errno::ENOMEM))
            }
            _ => self.wire.send(request),
        }
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure> {
        self.wire.sysctl(link, key)
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure> {
        self.wire.set_sysctl(link, key, value)
    }
}

/// Both tables of both families. Which of several merged IPv6 hops came first decides whose attributes show.
fn tables(wire: &mut impl Wire) -> Vec<Vec<Route>> {
    let mut all = Vec::new();
    for table in [254, 100] {
        for family in Family::ALL {
            let mut routes = Table::routes(wire, family, table).unwrap();
            for route in routes.iter_mut().filter(|r| r.family == Family::V6 && r.hops.len() > 1) {
                (route.protocol, route.source, route.mtu) = (0, None, None);
            }
            // Link-local routes come by themselves.
            routes
                .retain(|r| !r.dst.to_string().starts_with("fe80") && !r.dst.to_string().starts_with("ff00"));
            if family == Family::V6 {
                routes.sort();
            }
            all.push(routes);
        }
    }
    all
}

fn show(tables: &[Vec<Route>]) -> String {
    tables.iter().flatten().map(|route| format!("\n    {route}")).collect()
}

#[derive(Debug, Default)]
struct Count {
    done: usize,
    refused: usize,
    undone: usize,
    incomplete: usize,
    faults: usize,
    kinds: BTreeMap<ErrorKind, usize>,
}

impl Count {
    fn failure(&mut self, failure: &ApplyFailure) {
        for error in &failure.errors {
            *self.kinds.entry(error.kind).or_default() += 1;
        }
        match (failure.changed, failure.undo.exact) {
            (false, _) => self.refused += 1,
            (true, true) => self.undone += 1,
            (true, false) => self.incomplete += 1,
        }
    }
}

#[test]
fn random_changes_are_done_or_undone() {
    let (rounds, seed) = (rounds(1_500), seed());
    let mut random = Random::new(seed);
    let mut count = Count::default();
    let mut pod = Pod::new();
    let links = [pod.eth0, pod.net1];
    for round in 0..rounds {
        // Now and then somebody else's route, by no operation of ours.
        if random.percent(30) {
            let family = random.pick(&Family::ALL);
            let route = random_route(&mut random, family, links);
            let mode = random.pick(&[Mode::Exclusive, Mode::Append]);
            let _taken = pod.wire().send(&Request::add(&route, mode)).is_ok();
        }
        if tables(pod.wire()).iter().map(Vec::len).sum::<usize>() > 60 {
            // What cannot be flushed because another alias stands for it stays.
            pod.sh("(for f in -4 -6; do
                    for t in main 100; do ip $f route flush table $t proto static; done
                    for k in blackhole unreachable; do ip $f route flush table main type $k; done
                 done) 2>/dev/null || :");
        }
        let before = tables(pod.wire());
        let scope = Scope { links: random.pick(&[vec![links[1]], links.to_vec()]), tables: vec![254, 100] };
        let mut there: Vec<Route> =
            before.iter().flatten().filter(|r| scope.touches(r) && !r.is_kernels()).cloned().collect();
        let mut changes = Vec::new();
        let mut gone: Vec<Route> = Vec::new();
        for _ in 0..random.below(if there.len() > 8 { 5 } else { 3 }) {
            if there.is_empty() {
                break;
            }
            let route = there.swap_remove(random.below(there.len()));
            let hops: Vec<Hop> = route.hops.iter().filter(|hop| scope.has_link(hop.link)).cloned().collect();
            let hidden = route.family == Family::V6 && route.hops.len() > 1;
            let protocol = if hidden { None } else { Some(route.protocol) };
            gone.push(Route { hops: hops.clone(), ..route.clone() });
            changes.push(Change::Delete(RouteSpec { hops, protocol, ..route.to_spec() }));
        }
        let mut come = Vec::new();
        for _ in 0..random.below(3) {
            let family = random.pick(&Family::ALL);
            let route = random_route(&mut random, family, links);
            if !scope.covers(&route) {
                continue;
            }
            come.push(route.clone());
            changes.push(Change::Add(route.to_spec()));
        }
        let bad = random.percent(10);
        if bad {
            let mut spec = RouteSpec::new(net("203.0.113.0/24"), vec![Hop::dev(links[1])]);
            match random.below(3) {
                0 => spec.hops = vec![Hop::dev(4711)],
                1 => spec.source = Some(ip("8.8.4.4")),
                _ => spec.table = 77,
            }
            changes.push(Change::Add(spec));
        }
        let fault = random.percent(20).then(|| (1 + random.below(5), random.percent(50)));
        let mut journal = Journal::new();
        let mut wire = Faulty { wire: pod.wire(), sent: 0, fault };
        let result = wire.apply(&scope, &changes, &mut journal);
        let fired = fault.is_some_and(|(at, _)| wire.sent >= at);
        count.faults += usize::from(fired);
        let after = tables(pod.wire());
        let at = || {
            format!(
                "round {round}, seed {seed}, fault {fault:?}: {changes:#?}\nbefore {}\nafter {}",
                show(&before),
                show(&after)
            )
        };
        match result {
            Ok(_) => {
                assert!(!bad, "a bad change was taken, {}", at());
                count.done += 1;
                let legs = |tables: &[Vec<Route>]| -> Vec<(Family, String, Option<Hop>)> {
                    let mut legs = Vec::new();
                    for route in tables.iter().flatten() {
                        let slot = format!("{:?} {:?}", route.slot(), route.kind);
                        let hop =
                            |hop: &Hop| (route.family, slot.clone(), Some(Hop { weight: 0, ..hop.clone() }));
                        legs.extend(route.hops.iter().map(hop));
                        if route.hops.is_empty() {
                            legs.push((route.family, slot, None));
                        }
                    }
                    legs.sort();
                    legs
                };
                let mut wanted = legs(&before);
                for leg in legs(&[gone]) {
                    let place = wanted.iter().position(|there| *there == leg).unwrap();
                    wanted.remove(place);
                }
                wanted.extend(legs(&[come]));
                wanted.sort();
                assert_eq!(legs(&after), wanted, "{}", at());
                if random.percent(40) {
                    let mut journal = Journal::from_json(&journal.to_json()).unwrap();
                    let undo = pod.kernel.undo(&mut journal, Journal::start());
                    let now = tables(pod.wire());
                    assert_eq!(now == before, undo.exact, "{undo:#?} {} {}", show(&now), at());
                    count.incomplete += usize::from(!undo.exact);
                }
            }
            Err(failure) => {
                count.failure(&failure);
                assert!(!failure.errors.is_empty(), "{}", at());
                assert_eq!(after == before, failure.undo.exact, "{failure:#?} {}", at());
                assert_eq!(failure.undo.exact, failure.undo.leftover.is_empty(), "{failure:#?} {}", at());
                if !fired && failure.changed {
                    assert!(failure.undo.exact, "{failure:#?} {}", at());
                }
            }
        }
    }
    println!("{rounds} applies on the kernel, seed {seed}: {count:?}");
    assert!(count.done * 4 > rounds, "{count:?}");
    assert!(count.incomplete * 200 <= rounds, "{count:?}");
}

/// What two refusals must have in common.
fn kind(failure: &Failure) -> Option<Errno> {
    failure.errno()
}

#[test]
fn the_simulated_table_and_the_kernel_agree() {
    let (rounds, seed) = (rounds(4_000), seed());
    let mut random = Random::new(seed + 7);
    let mut pod = Pod::new();
    let links = [pod.eth0, pod.net1];
    let mut all = Vec::new();
    for family in Family::ALL {
        for table in [255, 254] {
            all.extend(pod.kernel.routes(family, table).unwrap());
        }
    }
    let addresses = Family::ALL.into_iter().flat_map(|f| [own(f, true), own(f, false)]).collect();
    let known = pod.kernel.links().unwrap();
    let mut simulated = SimulatedTable::new("simulated", known, all).with_addresses(addresses);
    let (mut taken, mut refused) = (0, BTreeMap::<Errno, usize>::new());
    for round in 0..rounds {
        let family = random.pick(&Family::ALL);
        let mut route = random_route(&mut random, family, links);
        if family == Family::V6 && !route.metric.is_multiple_of(10) && route.metric % 1024 == 7 {
            route.metric = 1024;
        }
        let now = simulated.dump(family, route.table).unwrap();
        let add = random.percent(55) && now.len() < 40;
        if !add && !now.is_empty() {
            route = random.pick(&now);
            if route.is_kernels() {
                continue;
            }
        }
        if random.percent(10) {
            match random.below(4) {
                0 => route.source = Some(ip(if family == Family::V4 { "8.8.8.8" } else { "2001:db8::8" })),
                1 if !route.hops.is_empty() => route.hops[0].link = 4711,
                2 if !route.hops.is_empty() && !route.hops[0].onlink => {
                    route.hops[0].gateway =
                        Some(ip(if family == Family::V4 { "10.77.0.1" } else { "fd88::1" }));
                }
                _ => route.protocol = 99,
            }
        }
        let mut request = if add {
            let modes = [Mode::Exclusive, Mode::Append, Mode::Append, Mode::Prepend, Mode::Replace];
            Request::add(&route, random.pick(&modes))
        } else {
            let mut leg = route.clone();
            if family == Family::V6 && leg.hops.len() > 1 {
                leg.hops = vec![random.pick(&leg.hops)];
            }
            Request::delete(&leg)
        };
        if !add {
            // Patterns: what is not named is not compared.
            if random.percent(20) {
                request.metric = 0;
            }
            if random.percent(20) {
                request.protocol = 0;
            }
            if random.percent(20) {
                request.source = None;
            }
            if random.percent(10) && family == Family::V4 {
                request.scope = 255;
            }
            match (&mut request.via, random.below(10)) {
                (Via::One(hop), 0) => hop.gateway = None,
                (Via::Many(hops), 0) if hops.len() > 1 => drop(hops.pop()),
                (Via::Many(hops), 1) => hops.reverse(),
                (Via::Many(hops), 2) => request.via = Via::One(hops[0].clone()),
                (via @ Via::One(_), 3) if family == Family::V4 => {
                    let Via::One(hop) = via.clone() else { continue };
                    *via = Via::Many(vec![hop]);
                }
                _ => {}
            }
        }
        let before = simulated.clone();
        let kernel_said = pod.wire().send(&request);
        let simulated_said = simulated.send(&request);
        let at = || {
            format!(
                "round {round}, seed {seed}: {request:?}\nkernel {kernel_said:?}\nsimulated {simulated_said:?}\nbefore {}",
                show(&tables(&mut before.clone()))
            )
        };
        match (&kernel_said, &simulated_said) {
            (Ok(_), Ok(_)) => taken += 1,
            (Err(a), Err(b)) => {
                assert_eq!(kind(a), kind(b), "{}", at());
                *refused.entry(a.errno().unwrap()).or_default() += 1;
            }
            _ => panic!("one refuses, {}", at()),
        }
        let (real, model) = (tables(pod.wire()), tables(&mut simulated));
        assert!(real == model, "{}\nkernel table {}\nsimulated table {}", at(), show(&real), show(&model));
    }
    println!("{rounds} requests, seed {seed}: {taken} taken, refused {refused:?}");
    assert!(taken > 0 && refused.len() > 3);
}
