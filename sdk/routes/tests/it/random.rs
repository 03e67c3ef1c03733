use std::collections::BTreeMap;

use catena_routes::{
    ApplyFailure, Change, ErrorKind, Family, Hop, Journal, Mode, Request, Route, RouteSpec, Scope, Table,
    Wire,
};

use crate::faulty::{FAULTS, Faulty};
use crate::world::*;

/// A family's routes without their order: IPv4 routes, IPv6 legs.
fn legs(tables: &[Vec<Route>]) -> Vec<Route> {
    let mut out = Vec::new();
    for route in tables.iter().flatten() {
        if route.family == Family::V6 && route.hops.len() > 1 {
            out.extend(route.hops.iter().map(|hop| Route { hops: vec![hop.clone()], ..route.clone() }));
        } else {
            out.push(route.clone());
        }
    }
    out.sort();
    out
}

/// What deleting these hops of a route makes of the table, worked out by itself.
fn without(routes: &mut Vec<Route>, route: &Route, hops: &[Hop]) {
    let rest: Vec<Hop> = route.hops.iter().filter(|hop| !hops.contains(hop)).cloned().collect();
    match route.family {
        Family::V4 => {
            let place = routes.iter().position(|there| there == route).unwrap();
            if rest.is_empty() {
                routes.remove(place);
            } else {
                routes[place] = Route { hops: rest, ..route.clone() }.normalised();
            }
        }
        Family::V6 => {
            let named = |r: &Route| r.hops.is_empty() || r.hops.iter().all(|hop| hops.contains(hop));
            routes
                .retain(|there| !(there.slot() == route.slot() && there.kind == route.kind && named(there)));
        }
    }
}

/// Tables as far as a dump tells: which of several merged IPv6 hops came first decides whose attributes show.
fn shape(tables: &[Vec<Route>]) -> Vec<Vec<Route>> {
    let mut tables = tables.to_vec();
    for route in tables.iter_mut().flatten().filter(|r| r.family == Family::V6 && r.hops.len() > 1) {
        (route.protocol, route.source, route.mtu) = (0, None, None);
    }
    for table in &mut tables {
        if table.iter().any(|route| route.family == Family::V6) {
            table.sort();
        }
    }
    tables
}

/// Hops that were merged before hide their own protocol, source and metrics.
fn blur(mut legs: Vec<Route>, before: &[Vec<Route>]) -> Vec<Route> {
    let merged = |leg: &Route| before.iter().flatten().any(|r| r.slot() == leg.slot() && r.hops.len() > 1);
    for leg in legs.iter_mut().filter(|leg| leg.family == Family::V6 && merged(leg)) {
        (leg.protocol, leg.source, leg.mtu) = (0, None, None);
    }
    legs.sort();
    legs
}

fn assert_same(now: Vec<Route>, wanted: Vec<Route>, at: impl Fn() -> String) {
    let lacking = |a: &[Route], b: &[Route]| show(&[a.iter().filter(|r| !b.contains(r)).cloned().collect()]);
    if now != wanted {
        panic!("missing {}\nextra {}\n{}", lacking(&wanted, &now), lacking(&now, &wanted), at());
    }
}

#[derive(Debug, Default)]
struct Count {
    done: usize,
    requests: usize,
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

fn random_start(random: &mut Random) -> Faulty {
    let mut wire = Faulty::new(world());
    for family in Family::ALL {
        for _ in 0..random.below(7) {
            let route = random_route(random, family, &[ETH0, NET1]);
            let mode = if random.percent(15) { Mode::Append } else { Mode::Exclusive };
            // What the table does not take is not there.
            if wire.send(&Request::add(&route, mode)).is_err() {
                continue;
            }
        }
    }
    // A gateway that nothing makes reachable any more, as the kernel keeps it.
    if random.percent(10) {
        let family = random.pick(&Family::ALL);
        let _gone = wire.send(&Request::delete(&connected(family, NET1)));
    }
    wire.sent = 0;
    wire
}

/// A route that cannot be, whatever the table.
fn bad(random: &mut Random, family: Family) -> RouteSpec {
    let (dst, stranger) = match family {
        Family::V4 => (net("203.0.113.0/24"), ip("8.8.4.4")),
        Family::V6 => (net("fd66::/64"), ip("fd44::4")),
    };
    let mut spec = RouteSpec::new(dst, vec![Hop::dev(NET1)]);
    match random.below(3) {
        0 => spec.hops = vec![Hop::dev(9)],
        1 => spec.source = Some(stranger),
        _ => spec.table = 77,
    }
    spec
}

/// Changes, and the table that they make if all succeed.
fn random_changes(
    random: &mut Random,
    tables: &[Vec<Route>],
    scope: &Scope,
) -> (Vec<Change>, Vec<Route>, bool) {
    let mut wanted = legs(tables);
    let mut there: Vec<Route> =
        tables.iter().flatten().filter(|route| scope.touches(route)).cloned().collect();
    let (mut changes, mut sound) = (Vec::new(), true);
    for _ in 0..random.below(3) {
        if there.is_empty() {
            break;
        }
        let route = there.swap_remove(random.below(there.len()));
        let ours: Vec<Hop> = route.hops.iter().filter(|hop| scope.has_link(hop.link)).cloned().collect();
        // Named by part of its hops, a route stands behind an alias that has just these.
        let names = |hops: &[Hop]| -> Vec<_> { hops.iter().map(|hop| (hop.gateway, hop.link)).collect() };
        let alias = |other: &&Route| other.slot() == route.slot() && names(&other.hops) == names(&ours);
        if ours.len() < route.hops.len() && tables.iter().flatten().any(|other| alias(&other)) {
            continue;
        }
        let mut spec = vague(random, &route);
        spec.hops = if random.percent(30) { Vec::new() } else { ours.clone() };
        if random.percent(20) {
            spec.metric = None;
        }
        without(&mut wanted, &route, &ours);
        changes.push(Change::Delete(spec));
    }
    for _ in 0..random.below(3) {
        let family = random.pick(&Family::ALL);
        let route = random_route(random, family, &scope.links);
        if route.kind.rejects() && !scope.has_link(0) || scope.links.contains(&0) && route.has_hop_on(0) {
            continue;
        }
        let spec = route.to_spec();
        let route = spec.to_route();
        wanted.extend(legs(&[vec![route]]));
        changes.push(Change::Add(spec));
    }
    if random.percent(10) {
        let family = random.pick(&Family::ALL);
        changes.push(Change::Add(bad(random, family)));
        sound = false;
    }
    wanted.sort();
    (changes, wanted, sound)
}

fn show_changes(changes: &[Change]) -> String {
    let line = |change: &Change| match change {
        Change::Add(spec) => format!("\n  + {}", spec.to_route()),
        Change::Delete(spec) => format!("\n  - {} {spec:?}", spec.to_route()),
        other => format!("\n  {other:?}"),
    };
    changes.iter().map(line).collect()
}

#[test]
fn changes_are_done_as_wanted_or_not_at_all() {
    let (rounds, seed) = (rounds(4_000), seed());
    let mut random = Random::new(seed);
    let mut count = Count::default();
    for round in 0..rounds {
        let mut wire = random_start(&mut random);
        let before = tables(&mut wire);
        let scope = Scope { links: random.pick(&[vec![NET1], vec![ETH0, NET1]]), tables: vec![254, 100] };
        let (changes, wanted, sound) = random_changes(&mut random, &before, &scope);
        if random.percent(20) {
            wire.fault = Some((1 + random.below(5), random.pick(&FAULTS)));
        }
        let mut journal = Journal::new();
        let result = wire.apply(&scope, &changes, &mut journal);
        count.faults += usize::from(wire.fired());
        count.requests += wire.sent;
        let after = tables(&mut wire);
        let fault = wire.fault;
        let at = || {
            format!(
                "round {round}, seed {seed}, fault {:?}: {}\nbefore {}\nafter {}",
                fault,
                show_changes(&changes),
                show(&before),
                show(&after)
            )
        };
        match result {
            Ok(_) => {
                assert!(sound, "bad change taken, {}", at());
                assert_same(blur(legs(&after), &before), blur(wanted, &before), at);
                count.done += 1;
                // And back, as another process would do it.
                let mut journal = Journal::from_json(&journal.to_json()).unwrap();
                let undo = wire.undo(&mut journal, Journal::start());
                if shape(&tables(&mut wire)) == shape(&before) {
                    assert!(undo.exact && journal.is_empty(), "{undo:?} {}", at());
                } else {
                    assert!(!undo.exact && !undo.leftover.is_empty(), "undo: {undo:#?} {}", at());
                    count.incomplete += 1;
                }
            }
            Err(failure) => {
                count.failure(&failure);
                assert!(!failure.errors.is_empty(), "{}", at());
                if shape(&after) == shape(&before) {
                    assert!(failure.undo.exact, "{failure:#?} {}", at());
                    assert!(journal.is_empty(), "{journal:#?} {}", at());
                } else {
                    assert!(
                        !failure.undo.exact && !failure.undo.leftover.is_empty(),
                        "{failure:#?} {}",
                        at()
                    );
                }
                if !wire.fired() && failure.changed {
                    assert!(failure.undo.exact, "{failure:#?} {}", at());
                }
            }
        }
    }
    println!("{rounds} applies, seed {seed}: {count:?}");
    assert!(count.done * 4 > rounds, "{count:?}");
    assert!(count.incomplete * 2000 <= rounds, "{count:?}");
}

#[test]
fn a_links_routes_are_replaced_as_wanted_or_not_at_all() {
    let (rounds, seed) = (rounds(4_000), seed());
    let mut random = Random::new(seed + 1000);
    let mut count = Count::default();
    for round in 0..rounds {
        let mut wire = random_start(&mut random);
        let before = tables(&mut wire);
        let scope = Scope { links: vec![NET1], tables: vec![254, 100] };
        let family = random.pick(&Family::ALL);
        let keep = random.percent(50);
        let mut wanted: Vec<Route> = if keep { Vec::new() } else { vec![connected(family, NET1)] };
        for _ in 0..random.below(5) {
            let route = Route { table: 254, ..random_route(&mut random, family, &[NET1]) };
            if !route.kind.rejects() && wanted.iter().all(|other| other.slot() != route.slot()) {
                wanted.push(route);
            }
        }
        let mut specs: Vec<RouteSpec> = wanted.iter().map(Route::to_spec).collect();
        let sound = !random.percent(10);
        if !sound {
            specs.push(bad(&mut random, family));
        }
        if random.percent(20) {
            wire.fault = Some((1 + random.below(6), random.pick(&FAULTS)));
        }
        let mut journal = Journal::new();
        let result = wire.replace(&scope, NET1, family, 254, &specs, keep, &mut journal);
        count.faults += usize::from(wire.fired());
        count.requests += wire.sent;
        let after = tables(&mut wire);
        let fault = wire.fault;
        let at = || {
            format!(
                "round {round}, seed {seed}, keep {keep}, fault {:?}: {}\nbefore {}\nafter {}",
                fault,
                show(&[specs.iter().map(RouteSpec::to_route).collect()]),
                show(&before),
                show(&after)
            )
        };
        let ours = |route: &Route| route.has_hop_on(NET1) && route.family == family && route.table == 254;
        match result {
            Ok(_) => {
                assert!(sound, "{}", at());
                count.done += 1;
                let (now, foreign): (Vec<_>, Vec<_>) = legs(&after).into_iter().partition(ours);
                let mut wanted = legs(&[wanted.clone()]);
                let kept = legs(&before).into_iter().filter(|route| {
                    keep && ours(route)
                        && route.protocol == 2
                        && wanted.iter().all(|w| w.slot() != route.slot())
                });
                let kept: Vec<Route> = kept.collect();
                wanted.extend(kept);
                wanted.sort();
                assert_same(blur(now, &before), blur(wanted, &before), at);
                let foreign_before = legs(&before).into_iter().filter(|route| !ours(route));
                let mut foreign_before: Vec<Route> = foreign_before
                    .chain(
                        before
                            .iter()
                            .flatten()
                            .filter(|r| ours(r) && r.family == Family::V4 && r.has_hop_on(ETH0))
                            .map(|r| {
                                let hops = r.hops.iter().filter(|hop| hop.link != NET1).cloned().collect();
                                Route { hops, ..r.clone() }.normalised()
                            }),
                    )
                    .collect();
                foreign_before.sort();
                assert_same(blur(foreign, &before), blur(foreign_before, &before), at);
                let sent = wire.sent;
                wire.fault = None;
                let again =
                    wire.replace(&scope, NET1, family, 254, &specs, keep, &mut journal.clone()).unwrap();
                assert_eq!((wire.sent - sent, again.added.len(), again.deleted.len()), (0, 0, 0), "{}", at());
            }
            Err(failure) => {
                count.failure(&failure);
                if shape(&after) == shape(&before) {
                    assert!(failure.undo.exact && journal.is_empty(), "{failure:#?} {}", at());
                } else {
                    assert!(
                        !failure.undo.exact && !failure.undo.leftover.is_empty(),
                        "{failure:#?} {}",
                        at()
                    );
                }
                if !wire.fired() && failure.changed {
                    assert!(failure.undo.exact, "{failure:#?} {}", at());
                }
            }
        }
    }
    println!("{rounds} replaces, seed {seed}: {count:?}");
    assert!(count.done * 4 > rounds, "{count:?}");
    assert!(count.incomplete * 2000 <= rounds, "{count:?}");
}
