//! Every pair of tables of up to three default routes over two links, two gateways each, two metrics and pairs of
//! hops, with a fault at each request: the end is as wanted or as before. All of it with `SOAK_APPLIES` set,
//! otherwise a seeded part.

use std::collections::BTreeSet;

use catena_routes::{Change, Family, Hop, Journal, Mode, Request, Route, Scope, SimulatedTable, Table, Wire};

use crate::faulty::{FAULTS, Faulty};
use crate::world::*;

/// All default routes of the small universe.
fn universe(family: Family) -> Vec<Route> {
    let hops: Vec<Hop> = [ETH0, NET1]
        .into_iter()
        .flat_map(|link| gateways(family, link).map(|gateway| Hop::via(gateway, link)))
        .collect();
    let mut sets: Vec<Vec<Hop>> = hops.iter().map(|hop| vec![hop.clone()]).collect();
    for (i, first) in hops.iter().enumerate() {
        sets.extend(hops.iter().skip(i + 1).map(|second| vec![first.clone(), second.clone()]));
    }
    let metrics = if family == Family::V4 { [0, 100] } else { [100, 1024] };
    let mut all = Vec::new();
    for metric in metrics {
        for hops in &sets {
            let route = Route::new(catena_routes::Prefix::default_route(family), hops.clone());
            all.push(Route { metric, ..route });
        }
    }
    all
}

/// The tables of up to three of these routes that the kernel takes, each once.
fn starts(family: Family, all: &[Route]) -> Vec<SimulatedTable> {
    let mut tables = vec![world()];
    let mut seen = BTreeSet::new();
    let mut from = 0;
    for _ in 0..3 {
        let to = tables.len();
        for i in from..to {
            for route in all {
                let mut table = tables[i].clone();
                let taken = table.send(&Request::add(route, Mode::Append)).is_ok();
                if taken && seen.insert(table.dump(family, 254).unwrap()) {
                    tables.push(table);
                }
            }
        }
        from = to;
    }
    tables
}

fn some_starts(random: &mut Random, all: &[Route], count: usize) -> Vec<SimulatedTable> {
    let mut start = || {
        let mut table = world();
        for _ in 0..random.below(4) {
            // What the table does not take is not there.
            let _refused = table.send(&Request::add(&random.pick(all), Mode::Append)).is_err();
        }
        table
    };
    (0..count).map(|_| start()).collect()
}

/// What can be asked for: one route a slot.
fn goals(family: Family) -> Vec<Vec<Route>> {
    let all = universe(family);
    let (low, high) = all.split_at(all.len() / 2);
    let none = || std::iter::once(None);
    let some = |routes: &'static [Route]| none().chain(routes.iter().map(Some));
    let (low, high): (&'static [Route], &'static [Route]) = (low.to_vec().leak(), high.to_vec().leak());
    some(low).flat_map(|a| some(high).map(move |b| a.into_iter().chain(b).cloned().collect())).collect()
}

fn sorted(mut routes: Vec<Route>) -> Vec<Route> {
    routes.sort();
    routes
}

fn every_pair(family: Family) {
    let scope = Scope { links: vec![ETH0, NET1], tables: vec![254] };
    let all = universe(family);
    let mut random = Random::new(seed());
    let whole = std::env::var("SOAK_APPLIES").is_ok();
    let starts = if whole { starts(family, &all) } else { some_starts(&mut random, &all, 400) };
    let goals = goals(family);
    let pairs = starts.len() * goals.len();
    let part = if whole { pairs } else { starts.len() };
    let (mut done, mut restored, mut refused) = (0usize, 0usize, 0usize);
    for n in 0..part {
        let pair = if whole { n } else { n * goals.len() + random.below(goals.len()) };
        let (start, goal) = (&starts[pair / goals.len()], &goals[pair % goals.len()]);
        let mut fresh = Faulty::new(start.clone());
        let before = fresh.dump(family, 254).unwrap();
        let defaults: Vec<&Route> = before.iter().filter(|route| route.is_default()).collect();
        let go = defaults.iter().filter(|route| !goal.contains(route));
        let come = goal.iter().filter(|route| !defaults.contains(route));
        let mut changes: Vec<Change> = go.map(|route| Change::Delete(route.to_spec())).collect();
        changes.extend(come.map(|route| Change::Add(route.to_spec())));
        let mut fault = None;
        let mut at = 0;
        loop {
            let mut wire = Faulty::new(start.clone());
            wire.fault = fault;
            let mut journal = Journal::new();
            let result = wire.apply(&scope, &changes, &mut journal);
            let now = wire.dump(family, 254).unwrap();
            let describe = || {
                format!(
                    "pair {pair}, fault {fault:?}: {}\nto {}\nnow {}",
                    show(std::slice::from_ref(&before)),
                    show(std::slice::from_ref(goal)),
                    show(std::slice::from_ref(&now))
                )
            };
            match &result {
                Ok(_) => {
                    let wanted =
                        before.iter().filter(|route| !route.is_default()).chain(goal).cloned().collect();
                    assert_eq!(sorted(now.clone()), sorted(wanted), "{}", describe());
                    done += 1;
                }
                Err(failure) => {
                    assert!(failure.undo.exact, "{failure:#?} {}", describe());
                    let (now, before) = match family {
                        Family::V4 => (now.clone(), before.clone()),
                        Family::V6 => (sorted(now.clone()), sorted(before.clone())),
                    };
                    assert_eq!(now, before, "{}", describe());
                    restored += usize::from(failure.changed);
                    refused += usize::from(!failure.changed);
                }
            }
            if !wire.fired() && fault.is_some() || wire.sent == 0 {
                break;
            }
            // The next kind of fault, or the same ones one request later.
            let kind = at % FAULTS.len();
            fault = Some((1 + at / FAULTS.len(), FAULTS[kind]));
            at += 1;
        }
    }
    println!("{family}: {part} of {pairs} pairs: {done} done, {restored} restored, {refused} refused");
    assert!(done > 0 && restored > 0);
}

#[test]
fn every_pair_of_ipv4_tables_ends_as_wanted_or_as_before() {
    every_pair(Family::V4);
}

#[test]
fn every_pair_of_ipv6_tables_ends_as_wanted_or_as_before() {
    every_pair(Family::V6);
}
