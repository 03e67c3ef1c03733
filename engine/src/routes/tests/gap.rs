//! While a default route is swapped, a probe in the namespace sees no gap.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use catena_routes::{Change, Family, Journal, Mode, Request, Wire};

use super::pod::*;

/// Swaps to and fro, and how often a connect found no route meanwhile: probes and failures. Where there `is_gap` it goes
/// on until one was seen, since on a busy machine the probe may sleep through many.
fn watched(pod: &mut Pod, family: Family, is_gap: bool, mut swap: impl FnMut(&mut Pod)) -> (u64, u64) {
    let (bind, to): (&str, SocketAddr) = match family {
        Family::V4 => ("0.0.0.0:0", "198.51.100.9:9".parse().unwrap()),
        Family::V6 => ("[::]:0", "[2001:db8::9]:9".parse().unwrap()),
    };
    let swaps = std::env::var("SOAK_SWAPS").map_or(1_000, |n| n.parse().expect("SOAK_SWAPS is a number"));
    let (ready, stop, seen) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let netns = pod.netns.clone();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let probe = || {
                let socket = UdpSocket::bind(bind).unwrap();
                let (mut probes, mut failures) = (0u64, 0u64);
                ready.store(true, Ordering::SeqCst);
                while !stop.load(Ordering::Relaxed) {
                    probes += 1;
                    if socket.connect(to).is_err() {
                        failures += 1;
                        seen.store(true, Ordering::Relaxed);
                    }
                }
                (probes, failures)
            };
            netns.run(probe).unwrap()
        });
        let _stopper = Stopper(&stop);
        while !ready.load(Ordering::SeqCst) && !watcher.is_finished() {
            std::thread::yield_now();
        }
        for _ in 0..swaps {
            swap(pod);
        }
        for _ in 0..100 * swaps {
            if !is_gap || seen.load(Ordering::Relaxed) || watcher.is_finished() {
                break;
            }
            swap(pod);
        }
        stop.store(true, Ordering::SeqCst);
        watcher.join().unwrap()
    })
}

#[test]
fn a_swap_leaves_no_gap() {
    for (family, first, second) in [(Family::V4, "10.0.0.1", "10.1.0.1"), (Family::V6, "fd00::1", "fd01::1")]
    {
        let mut pod = Pod::new();
        let scope = pod.both();
        let mut routes = [default_via(first, pod.eth0), default_via(second, pod.net1)];
        pod.force(&routes[0].to_route(), Mode::Exclusive);
        let (probes, failures) = watched(&mut pod, family, false, |pod| {
            let changes = [Change::Delete(routes[0].clone()), Change::Add(routes[1].clone())];
            pod.kernel.apply(&scope, &changes, &mut Journal::new()).unwrap();
            routes.swap(0, 1);
        });
        let (naive_probes, naive_failures) = watched(&mut pod, family, true, |pod| {
            let [old, new] = [routes[0].to_route(), routes[1].to_route()];
            pod.wire().send(&Request::delete(&old)).unwrap();
            pod.wire().send(&Request::add(&new, Mode::Exclusive)).unwrap();
            routes.swap(0, 1);
        });
        println!(
            "{family}: {failures} of {probes} probes failed; delete, then add: {naive_failures} of {naive_probes}"
        );
        assert!(naive_failures > 0, "{family}: the probe sees no gap where there is one");
        assert!(failures * 10_000 <= probes.max(10_000), "{family}: {failures} of {probes} probes failed");
        assert!(
            naive_failures * probes > 100 * failures.max(1) * naive_probes || failures == 0,
            "{family}: {failures} of {probes}, and {naive_failures} of {naive_probes} for the naive way"
        );
    }
}
