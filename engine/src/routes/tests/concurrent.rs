//! Somebody else changes routes meanwhile, in the very same places.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use catena_routes::{Change, ErrorKind, Family, Journal, Mode, Request, Route, RouteSpec, Wire};

use super::pod::*;
use crate::routes::kernel::Kernel;

fn spec(family: Family, link: u32, gateway: &str, metric: u32) -> RouteSpec {
    assert_eq!(Family::of(ip(gateway)), family);
    RouteSpec { metric: Some(metric), ..default_via(gateway, link) }
}

/// Adds and deletes its own routes until told to stop. What it added must be there when it deletes it.
fn writer(mut kernel: Kernel, link: u32, stop: &AtomicBool) -> (usize, Vec<String>) {
    let (mut added, mut complaints) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        for metric in 100..104 {
            for (family, gateway) in [(Family::V4, "10.0.0.1"), (Family::V6, "fd00::1")] {
                let route = Route { protocol: 99, ..spec(family, link, gateway, metric).to_route() };
                let mode = if added % 2 == 0 { Mode::Exclusive } else { Mode::Append };
                if kernel.send(&Request::add(&route, mode)).is_err() {
                    continue;
                }
                added += 1;
                match kernel.send(&Request { protocol: 0, ..Request::delete(&route) }) {
                    Ok(echoes) if echoes.len() == 1 && echoes[0].route.protocol == 99 => {}
                    other => complaints.push(format!("{route}: {other:?}")),
                }
            }
        }
    }
    (added, complaints)
}

#[test]
fn a_concurrent_writer_is_left_alone_and_never_makes_a_false_success() {
    let rounds = std::env::var("SOAK_APPLIES").map_or(400, |n| n.parse().expect("SOAK_APPLIES is a number"));
    let mut pod = Pod::new();
    let (scope, net1, eth0) = (pod.only(pod.net1), pod.net1, pod.eth0);
    let stop = AtomicBool::new(false);
    let theirs = Kernel::of(&pod.netns);
    let (mut done, mut kinds) = (0usize, BTreeMap::<ErrorKind, usize>::new());
    let (added, complaints) = std::thread::scope(|threads| {
        // However this ends, the scope waits for the writer.
        let _stopper = Stopper(&stop);
        let writer = threads.spawn(|| writer(theirs, eth0, &stop));
        for round in 0..rounds {
            let metric = 100 + u32::try_from(round % 4).unwrap();
            let (family, gateway) =
                if round % 8 < 4 { (Family::V4, "10.1.0.1") } else { (Family::V6, "fd01::1") };
            let ours = spec(family, net1, gateway, metric);
            let there = |pod: &mut Pod| {
                let defaults = pod.defaults(family);
                defaults.iter().any(|r| r.metric == metric && r.hops.contains(&ours.hops[0]))
            };
            for (change, wanted) in [(Change::Add(ours.clone()), true), (Change::Delete(ours.clone()), false)]
            {
                let before = there(&mut pod);
                match pod.kernel.apply(&scope, &[change], &mut Journal::new()) {
                    Ok(_) => {
                        assert_eq!(there(&mut pod), wanted, "round {round}");
                        done += 1;
                    }
                    Err(failure) => {
                        // As before, unless the other has taken the place meanwhile, and then it is said.
                        let is_said = failure.undo.leftover.iter().any(|line| line.contains(gateway));
                        assert!(
                            there(&mut pod) == before || (!failure.undo.exact && is_said),
                            "round {round}: {failure:#?}"
                        );
                        for error in &failure.errors {
                            *kinds.entry(error.kind).or_default() += 1;
                        }
                    }
                }
            }
            // What the failed half of a pair left is cleared away for the next.
            if there(&mut pod) {
                let leg = Request { protocol: 0, ..Request::delete(&ours.to_route()) };
                pod.wire().send(&leg).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    println!("{done} done beside {added} additions of another; errors {kinds:?}");
    assert_eq!(complaints, Vec::<String>::new());
    assert!(done > rounds / 2 && added > 0);
}
