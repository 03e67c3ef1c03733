//! Random tables and operations on a real namespace: what is reported as done is the wanted table, what is reported
//! as undone is the table before, and the simulated table says the same as the kernel.

use std::collections::BTreeMap;

use catena_routes::{Errno, Failure, Family, Mode, Request, SimulatedTable, Snapshot, Via, Wire};

use super::pod::*;
use super::support::{PodNet, Random, Rounds, rounds, seed, show, tables};
use super::twin::Twin;

fn net_of(pod: &Pod) -> PodNet {
    PodNet { eth0: pod.eth0, net1: pod.net1 }
}

#[test]
fn random_operations_are_done_or_undone() {
    let mut pod = Pod::new();
    let mut property = Rounds::new(net_of(&pod), seed());
    for round in 0..rounds(5_000) {
        match round % 2 {
            0 => property.apply(pod.wire()),
            _ => property.replace(pod.wire()),
        }
    }
    property.finish("applies on the kernel");
}

#[test]
fn operations_on_the_simulated_table_and_on_the_kernel_are_the_same() {
    let mut pod = Pod::new();
    let mut property = Rounds::new(net_of(&pod), seed() + 2_000_000);
    let mut twin = Twin::of(pod.wire());
    for round in 0..rounds(2_000) {
        match round % 2 {
            0 => property.apply(&mut twin),
            _ => property.replace(&mut twin),
        }
    }
    println!("{} requests taken by both, {} refused by both", twin.taken, twin.refused);
    assert!(twin.taken > 0 && twin.refused > 0);
    property.finish("applies on both");
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
    let net = net_of(&pod);
    let mut simulated = SimulatedTable::from(Snapshot::take(pod.wire()).unwrap());
    let (mut taken, mut refused) = (0, BTreeMap::<Errno, usize>::new());
    for round in 0..rounds {
        let family = random.pick(&Family::ALL);
        let mut route = net.random_route(&mut random, family, &net.both());
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
