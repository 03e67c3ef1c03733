//! 200 sandboxes at once: added together, deleted in random order with duplicates, asked for their status all the
//! time, collected by GC. The delegates that only make files speak 1.1.0, so STATUS and GC reach them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use catena_tests::conf::{self, Stack, asking, gateway};
use catena_tests::ground::{self, POSITIONS, made};
use catena_tests::runtime::{Pod, gc_conf};
use catena_tests::sample::{self, Seed};
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::trace::{Stop, Tracee};
use catena_tests::world::World;
use nix::libc;
use serde_json::{Value, json};

/// Sandboxes in all.
const ALL: usize = 200;
/// Those with ptp and bridge; the others have delegates that only make files, which is as much for catena.
const REAL: usize = 30;

fn real() -> Value {
    let mut conf = conf::catena(json!([
        conf::ptp(1, Stack::V4),
        asking(&conf::bridge(2, Stack::V4), &[&gateway(2, conf::Family::V4)])
    ]));
    conf["cniVersion"] = json!("1.1.0");
    conf["name"] = json!("real");
    conf
}

fn light() -> Value {
    let mut conf = ground::config();
    conf["cniVersion"] = json!("1.1.0");
    conf["name"] = json!("light");
    for delegate in conf["delegates"].as_array_mut().expect("a list") {
        delegate["cniVersion"] = json!("1.1.0");
        delegate["script"]["ADD"]["result"]["cniVersion"] = json!("1.1.0");
    }
    conf
}

struct Crowd<'w> {
    pods: Vec<Pod<'w>>,
    real: Value,
    light: Value,
}

impl<'w> Crowd<'w> {
    fn new(world: &'w World) -> Crowd<'w> {
        world.sh(&format!("i=0; while [ $i -lt {ALL} ]; do ip netns add p$i; i=$((i+1)); done"));
        let pods = (0..ALL).map(|index| Pod::existing(world, &format!("p{index}"))).collect();
        Crowd { pods, real: real(), light: light() }
    }

    fn conf(&self, index: usize) -> &Value {
        if index < REAL { &self.real } else { &self.light }
    }

    /// Adds all at once.
    fn add(&self) -> Duration {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (index, pod) in self.pods.iter().enumerate() {
                scope.spawn(move || pod.add(self.conf(index)).result());
            }
        });
        start.elapsed()
    }

    /// A pod's delegates, each with the interface that catena would give it.
    fn delegates(&self, index: usize) -> Vec<(Pod<'w>, &Value)> {
        let delegates = self.conf(index)["delegates"].as_array().expect("a list");
        let confs = delegates.iter().map(|entry| entry.get("config").unwrap_or(entry));
        let pod = |position| Pod { ifname: ground::ifname(position), ..self.pods[index].clone() };
        confs.enumerate().map(|(position, conf)| (pod(position), conf)).collect()
    }

    /// Adds, then deletes with the same delegates by themselves, each pod's one after the other.
    fn alone(&self) -> (Duration, Duration) {
        let start = Instant::now();
        let results: Vec<Vec<Value>> = std::thread::scope(|scope| {
            let add = |index| self.delegates(index).iter().map(|(pod, conf)| pod.add_list(conf)).collect();
            let adding: Vec<_> = (0..ALL).map(|index| scope.spawn(move || add(index))).collect();
            adding.into_iter().map(|thread| thread.join().expect("the ADDs of a pod")).collect()
        });
        let adding = start.elapsed();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (index, results) in results.iter().enumerate() {
                scope.spawn(move || {
                    for ((pod, conf), result) in self.delegates(index).iter().zip(results).rev() {
                        pod.del_list(conf, Some(result));
                    }
                });
            }
        });
        (adding, start.elapsed())
    }

    /// Asks for the status until told to stop; how often.
    fn poll_status(&self, stop: &AtomicBool) -> usize {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            self.pods[0].call("catena", "STATUS", [&self.real, &self.light][count % 2]).done();
            count += 1;
        }
        count
    }
}

/// Does some work, and notes meanwhile what memory each program takes.
fn watched<T>(world: &World, peaks: &mut BTreeMap<String, u64>, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                world.note_peaks(peaks);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        // A work that fails must not leave the watcher for ever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The files that the delegates of these sandboxes have made.
fn files(indexes: impl Iterator<Item = usize>) -> BTreeSet<String> {
    let of = |index| POSITIONS.map(|position| format!("id-p{index}.{}", ground::network(position)));
    indexes.flat_map(of).collect()
}

fn now_made(world: &World) -> BTreeSet<String> {
    made(world).into_iter().collect()
}

/// How often each of the delegates that speak 1.1.0 was called with a command.
fn reached(world: &World, command: &str) -> [usize; 3] {
    let lines = scripted::call_lines(world);
    POSITIONS.map(|position| {
        let start = format!("{command} {} ", ground::network(position));
        lines.iter().filter(|line| line.starts_with(&start)).count()
    })
}

/// VmHWM of a call in KiB, from proc(5) at its last system call.
fn peak(mut tracee: Tracee) -> u64 {
    let mut peak = 0;
    while let Some(stop) = tracee.next() {
        if matches!(stop, Stop::Entry { number, .. } if number == libc::SYS_exit_group) {
            peak = tracee.peak_memory();
        }
    }
    tracee.finish();
    peak
}

#[test]
fn two_hundred_sandboxes() {
    let mut seed = Seed::of_test("many");
    let world = ground::world();
    let crowd = Crowd::new(&world);
    // What belongs to others: another network's attachment in a namespace of its own.
    let foreign = Pod::new(&world, "foreign");
    let mut foreign_conf = conf::catena(json!([conf::ptp(9, Stack::V4)]));
    foreign_conf["name"] = json!("foreign");
    let foreign_result = foreign.add(&foreign_conf).result();
    let alone = crowd.alone();
    // A first life, for what the delegates keep for ever.
    crowd.pods[0].add(&crowd.real).result();
    crowd.pods[0].del(&crowd.real, None).done();
    let before = Traces::of(&world, Some(&foreign.netns));

    let stop = AtomicBool::new(false);
    let refused = AtomicUsize::new(0);
    let mut peaks = BTreeMap::new();
    world.sh("rm -f /run/scripted/calls.jsonl");
    let (adding, deleting, asked) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| crowd.poll_status(&stop));
        let adding = watched(&world, &mut peaks, || crowd.add());
        assert_eq!(now_made(&world), files(REAL..ALL));
        let start = Instant::now();
        // Each pod: sometimes an ADD although it lives, then two DELs at the same time; all pods in random order.
        let order = seed.shuffle((0..ALL).collect());
        let live: Vec<bool> = (0..ALL).map(|_| seed.below(3) == 0).collect();
        let queue = std::sync::Mutex::new(order.into_iter());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        let Some(index) = queue.lock().expect("the pods left").next() else { break };
                        let (pod, conf) = (&crowd.pods[index], crowd.conf(index));
                        if live[index] {
                            pod.add(conf).fails_with(4, &["already attached"]);
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        std::thread::scope(|scope| {
                            scope.spawn(|| pod.del(conf, None).done());
                            scope.spawn(|| pod.without_netns().del(conf, None).done());
                        });
                    }
                });
            }
        });
        let deleting = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        (adding, deleting, asked.join().expect("the polling of STATUS"))
    });
    assert_eq!(made(&world), Vec::<String>::new());
    Traces::of(&world, Some(&foreign.netns)).same_as(&before, "after all DELs");
    let polled = reached(&world, "STATUS");
    assert!(polled.iter().all(|count| *count == asked / 2), "{asked} STATUS, {polled:?} reached");

    crowd.add();
    world.sh("rm -f /run/scripted/calls.jsonl");
    let stop = AtomicBool::new(false);
    let asked_in_gc = std::thread::scope(|scope| {
        let asked = scope.spawn(|| crowd.poll_status(&stop));
        for (conf, range) in [(&crowd.real, 0..REAL), (&crowd.light, REAL..ALL)] {
            let kept: Vec<(&str, &str)> = range
                .clone()
                .filter(|index| index % 2 == 0)
                .map(|index| (crowd.pods[index].id.as_str(), "eth0"))
                .collect();
            let reply = crowd.pods[0].call("catena", "GC", &gc_conf(conf, &kept));
            stop.store(range.end == ALL || reply.output.exit != Some(0), Ordering::Relaxed);
            reply.done();
            for index in range {
                let links = state::links(&world, Some(&crowd.pods[index].netns));
                let expected: &[&str] = if index < REAL && index % 2 == 0 { &["eth0", "net1"] } else { &[] };
                assert_eq!(links, expected, "p{index} after GC");
            }
        }
        asked.join().expect("the polling of STATUS")
    });
    assert!(asked_in_gc > 0, "no STATUS while GC was at work");
    assert_eq!(now_made(&world), files((REAL..ALL).filter(|index| index % 2 == 0)));
    // Each delegate was told which attachments of its own network are still there.
    assert_eq!(reached(&world, "GC"), [1; 3]);
    for call in scripted::calls(&world).iter().filter(|call| call["command"] == "GC") {
        let valid = call["stdin"]["cni.dev/valid-attachments"].as_array().expect("a list");
        let told: BTreeSet<String> = valid
            .iter()
            .map(|one| format!("{} {}", one["containerID"], one["ifname"]).replace('"', ""))
            .collect();
        let position = POSITIONS.into_iter().find(|at| call["stdin"]["name"] == *ground::network(*at));
        let ifname = ground::ifname(position.expect("one of the three"));
        let live = (REAL..ALL).filter(|index| index % 2 == 0).map(|index| format!("id-p{index} {ifname}"));
        assert_eq!(told, live.collect(), "{}", call["plugin"]);
    }
    crowd.pods[0].call("catena", "GC", &gc_conf(&crowd.real, &[])).done();
    crowd.pods[0].call("catena", "GC", &gc_conf(&crowd.light, &[])).done();
    assert_eq!(made(&world), Vec::<String>::new());
    Traces::of(&world, Some(&foreign.netns)).same_as(&before, "after the last GC");
    foreign.check(&foreign_conf, &foreign_result).done();
    foreign.del(&foreign_conf, Some(&foreign_result)).done();

    let pod = &crowd.pods[0];
    let peak_of_catena = peak(pod.trace("catena", "ADD", &crowd.real));
    pod.del(&crowd.real, None).done();
    let ptp = &crowd.real["delegates"][0];
    let peak_of_ptp = peak(pod.trace("ptp", "ADD", ptp));
    pod.del_list(ptp, None);
    peaks.retain(|name, _| {
        ["catena", "ptp", "bridge", "host-local", "s0", "s1", "s2"].contains(&name.as_str())
    });
    assert!(peaks.contains_key("catena") && peaks.contains_key("ptp"), "{peaks:?}");
    sample::tell(&format!(
        "many: {ALL} sandboxes added in {adding:?}, delegates alone {:?}; deleted twice in {deleting:?} with {} ADDs of \
         live ones, delegates alone once {:?}; {asked} STATUS meanwhile, {asked_in_gc} during GC; peak memory of an ADD \
         {peak_of_catena} KiB, of ptp's alone {peak_of_ptp} KiB; largest seen of each program while all were added, in \
         KiB: {peaks:?}",
        alone.0,
        refused.load(Ordering::Relaxed),
        alone.1
    ));
}
