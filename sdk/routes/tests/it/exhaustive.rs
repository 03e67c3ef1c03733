//! Every pair of tables of up to three default routes over two links, two gateways each, two metrics and pairs of
//! hops, with a fault at each request: the end is as wanted or as before. All of it with `SOAK_ALL` set,
//! otherwise a seeded part.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use catena_routes::{
    Change, Family, Hop, Journal, Mode, Request, Route, Scope, SimulatedTable, Table, Wire, undo_once,
};

use crate::world::*;

/// All default routes of the small universe.
fn universe(family: Family) -> Vec<Route> {
    let hops: Vec<Hop> = [ETH0, NET1]
        .into_iter()
        .flat_map(|link| POD.gateways(family, link).map(|gateway| Hop::via(gateway, link)))
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

fn sorted(routes: &[Route]) -> Vec<Route> {
    let mut routes = routes.to_vec();
    routes.sort();
    routes
}

/// The order counts among IPv4 routes only.
fn in_order(family: Family, routes: &[Route]) -> Vec<Route> {
    match family {
        Family::V4 => routes.to_vec(),
        Family::V6 => sorted(routes),
    }
}

/// What came of some pairs.
#[derive(Default)]
struct Count {
    done: usize,
    restored: usize,
    later: usize,
    refused: usize,
}

/// One pair of tables: without a fault, with a fault at each request, one kind after the other, and at each read.
fn one_pair(family: Family, pair: usize, start: &SimulatedTable, goal: &[Route], count: &mut Count) {
    let scope = Scope { links: vec![ETH0, NET1], tables: vec![254] };
    let before = start.clone().dump(family, 254).unwrap();
    let defaults: Vec<&Route> = before.iter().filter(|route| route.is_default()).collect();
    let go = defaults.iter().filter(|route| !goal.contains(route));
    let come = goal.iter().filter(|route| !defaults.contains(route));
    let mut changes: Vec<Change> = go.map(|route| Change::Delete(route.to_spec())).collect();
    changes.extend(come.map(|route| Change::Add(route.to_spec())));
    let mut run = |fault: Option<(usize, Fault)>| -> bool {
        let mut table = start.clone();
        let mut wire = Faulty::new(&mut table, fault);
        let mut journal = Journal::new();
        let result = wire.apply(&scope, &changes, &mut journal);
        let fired = wire.fired();
        let now = table.dump(family, 254).unwrap();
        let describe = || {
            let [before, goal, now] = [&before[..], goal, &now[..]].map(|routes| show(&[routes.to_vec()]));
            format!("pair {pair}, fault {fault:?}: {before}\nto {goal}\nnow {now}")
        };
        let as_before = in_order(family, &now) == in_order(family, &before);
        match &result {
            Ok(_) => {
                let others = before.iter().filter(|route| !route.is_default());
                let wanted: Vec<Route> = others.chain(goal).cloned().collect();
                assert_eq!(sorted(&now), sorted(&wanted), "{}", describe());
                count.done += 1;
            }
            Err(failure) if failure.undo.exact => {
                assert!(as_before, "{failure:#?} {}", describe());
                count.restored += usize::from(failure.changed);
                count.refused += usize::from(!failure.changed);
            }
            Err(failure) => {
                let blind = fault.is_some_and(|(_, fault)| fault.blinds());
                assert!(blind && !failure.undo.leftover.is_empty(), "{failure:#?} {}", describe());
                // What could not be undone then is undone by its journal later.
                let undo = undo_once(&mut table, &mut journal, Journal::start());
                let now = table.dump(family, 254).unwrap();
                let as_before = in_order(family, &now) == in_order(family, &before);
                assert!(undo.exact && as_before, "{undo:#?} {now:#?} {}", describe());
                count.later += 1;
            }
        }
        fired
    };
    run(None);
    let kind = |at: usize| IN_REQUESTS[(pair + at) % IN_REQUESTS.len()];
    (1..).take_while(|at| run(Some((*at, kind(*at))))).for_each(drop);
    (1..).take_while(|at| run(Some((*at, [Fault::Dump, Fault::Links][pair % 2])))).for_each(drop);
}

fn every_pair(family: Family) {
    let all = universe(family);
    let mut random = Random::new(seed());
    let whole = std::env::var_os("SOAK_ALL").is_some();
    let starts = if whole { starts(family, &all) } else { some_starts(&mut random, &all, 400) };
    let goals = goals(family);
    let every = starts.len() * goals.len();
    let pairs: Vec<usize> = match whole {
        true => (0..every).collect(),
        false => (0..starts.len()).map(|n| n * goals.len() + random.below(goals.len())).collect(),
    };
    let next = AtomicUsize::new(0);
    let some = || {
        let mut count = Count::default();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(&pair) = pairs.get(n) else { return count };
            one_pair(family, pair, &starts[pair / goals.len()], &goals[pair % goals.len()], &mut count);
            if n > 0 && n.is_multiple_of(20_000) {
                println!("{family}: {n} of {} pairs", pairs.len());
            }
        }
    };
    let counts: Vec<Count> = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        threads.into_iter().map(|one| one.join().expect("a pair did not end as it should")).collect()
    });
    let sum = |of: fn(&Count) -> usize| counts.iter().map(of).sum::<usize>();
    let (done, restored) = (sum(|count| count.done), sum(|count| count.restored));
    let (later, refused) = (sum(|count| count.later), sum(|count| count.refused));
    println!(
        "{family}: {} of {every} pairs: {done} done, {restored} restored, {later} restored later, {refused} refused",
        pairs.len()
    );
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
