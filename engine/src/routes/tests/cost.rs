//! What a default swap in both families costs beside many foreign routes. No judgement here: the numbers are
//! printed, and the bare dump of the same run is beside them.

use std::fmt::Write;
use std::time::{Duration, Instant};

use catena_routes::{Change, Family, Journal, Mode, RouteSpec};

use super::pod::*;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
#[ignore = "prints costs: run it with make cost"]
fn a_swap_beside_many_routes() {
    let most = std::env::var("COST_ROUTES").map_or(10_000, |n| n.parse().expect("COST_ROUTES is a number"));
    let mut first = None;
    for foreign in [10usize, 1_000, 10_000, 100_000].into_iter().filter(|n| *n <= most) {
        let mut pod = Pod::new();
        let (mut v4, mut v6) = (String::new(), String::new());
        for i in 0..foreign {
            let (a, b, c) = (i / 65_536, i / 256 % 256, i % 256);
            writeln!(v4, "route add 100.{}.{b}.{c}/32 via 10.1.0.1", 64 + a).unwrap();
            writeln!(v6, "route add 2001:db8:{a:x}:{b:x}:{c:x}::/80 via fd01::1").unwrap();
        }
        for (option, batch) in [("-4", v4), ("-6", v6)] {
            let file = std::env::temp_dir().join(format!("catena-cost-{}{option}", std::process::id()));
            std::fs::write(&file, batch).unwrap();
            pod.sh(&format!("ip {option} -batch {}", file.display()));
            std::fs::remove_file(&file).unwrap();
        }
        let scope = pod.both();
        let mut pair = [
            [default_via("10.0.0.1", pod.eth0), default_via("fd00::1", pod.eth0)],
            [default_via("10.0.0.254", pod.eth0), default_via("fd00::9", pod.eth0)],
        ];
        pair[0].iter().for_each(|spec| pod.force(&RouteSpec::to_route(spec), Mode::Exclusive));
        let (mut swaps, mut dumps) = (Vec::new(), Vec::new());
        for _ in 0..if foreign > 1_000 { 21 } else { 201 } {
            let start = Instant::now();
            for family in Family::ALL {
                pod.kernel.routes(family, 254).unwrap();
            }
            dumps.push(start.elapsed());
            let old = pair[0].iter().cloned().map(Change::Delete);
            let changes: Vec<Change> = old.chain(pair[1].iter().cloned().map(Change::Add)).collect();
            let start = Instant::now();
            pod.kernel.apply(&scope, &changes, &mut Journal::new()).unwrap();
            swaps.push(start.elapsed());
            pair.swap(0, 1);
        }
        let [swap, dump] = [median(swaps), median(dumps)].map(|time| time.as_secs_f64() * 1e6);
        let (first_swap, first_dump) = *first.get_or_insert((swap, dump));
        println!(
            "{foreign} foreign routes: swap {swap:.0} us, bare dump {dump:.0} us, ratio {:.1}; growth: swap x{:.1}, dump x{:.1}",
            swap / dump,
            swap / first_swap,
            dump / first_dump
        );
    }
}
