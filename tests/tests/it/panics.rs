//! A panic anywhere: one JSON document, code 999, and everything undone. The binary here is a build with the feature
//! `inject-panics`; what people get has no such points.

use catena_tests::conf::{self, Family, Stack, asking, gateway};
use catena_tests::runtime::{Pod, Reply, gc_conf, with_previous};
use catena_tests::scripted;
use catena_tests::state::{Traces, defaults};
use catena_tests::world::World;
use catena_tests::{binaries, runtime};
use serde_json::{Value, json};

use crate::modules::install;

const VARIABLE: &str = "CATENA_INJECT_PANIC";
/// More times than any point is reached in these tests: a bound for the loops.
const MOST: usize = 60;

/// Points that every ADD of two networks, one of which asks for the default routes, passes before it is done.
const ADD: [&str; 20] = [
    "node/config",
    "call/log",
    "call/session",
    "cni/conf",
    "routes/netns",
    "attach/decide",
    "pipeline/arrange",
    "pipeline/admit",
    "pipeline/monitor",
    "delegate/spawned",
    "delegate/ended",
    "attach/attached",
    "wasm/call",
    "wasm/routes",
    "routes/send",
    "pipeline/stage",
    "attach/finish",
    "report/status",
    "attach/rollback",
    "report/log",
];

fn pod<'w>(world: &'w World, point: &str, time: usize) -> Pod<'w> {
    let mut pod = Pod::new(world, &format!("p{time}-{}", point.replace('/', "-")));
    inject(&mut pod, &format!("{point}:{time}"));
    pod
}

fn inject(pod: &mut Pod<'_>, what: &str) {
    pod.env = vec![(VARIABLE.into(), what.into())];
}

fn quiet(pod: &mut Pod<'_>) {
    pod.env.clear();
}

fn internal(reply: &Reply, point: &str) {
    reply.fails_with(999, &[&format!("injected at {point}")]);
}

fn outer() -> Value {
    let asked = [gateway(2, Family::V4), gateway(2, Family::V6)];
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    conf::catena(json!([
        scripted::veth("one", 1, Stack::Dual, true),
        asking(&scripted::veth("two", 2, Stack::Dual, false), &asked),
    ]))
}

/// A panic has a line in the log, like any other end.
#[test]
fn the_log_tells() {
    const LOG: &str = "/var/log/catena.log";
    let world = World::panicking();
    world.sh("mkdir -p /var/log");
    let mut outer = conf::catena(json!([scripted::conf("one", json!({}))]));
    outer["logFile"] = json!(LOG);
    let mut pod = Pod::new(&world, "pod");
    pod.add(&outer).result();
    inject(&mut pod, "attach/del:1");
    internal(&pod.del(&outer, None), "attach/del");
    let log = world.read(LOG);
    let line: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&line["command"], &line["code"]), (&json!("DEL"), &json!(999)), "{line}");
    quiet(&mut pod);
    pod.del(&outer, None).done();
}

#[test]
fn the_binary_that_people_get_cannot_be_made_to_panic() {
    let has_points = |path: &std::path::Path| {
        let bytes = std::fs::read(path).expect("the binary");
        bytes.windows(VARIABLE.len()).any(|window| window == VARIABLE.as_bytes())
    };
    let tested = binaries::catena();
    // What is released is built beside it, if it is.
    let released = tested.ancestors().nth(2).expect("the target folder").join("release/catena");
    for path in [tested, released].iter().filter(|path| path.exists()) {
        assert!(!has_points(path), "{} is built with the feature inject-panics", path.display());
    }
    assert!(has_points(&binaries::panicking()), "built without the feature inject-panics");
}

#[test]
fn add() {
    let world = World::panicking();
    // A stage that is asked before anything runs, and one that is only watched.
    install(&world, "policy", "deny", &["log=true"]);
    install(&world, "watched", "probe", &[]);
    let mut outer = outer();
    let mut stages = conf::pipeline(json!({}));
    let more = [
        json!({"stage": "policy", "config": {"network": "another"}}),
        json!({"stage": "watched", "mode": "monitor", "config": {"tags": ["seen"]}}),
    ];
    stages.as_array_mut().expect("a list").extend(more);
    outer["pipeline"] = stages;
    let mut panics = 0;
    for point in ADD {
        for time in 1..=MOST {
            assert!(time < MOST, "{point} is reached without end");
            let mut pod = pod(&world, point, time);
            if point == "attach/rollback" {
                // It is reached only by an ADD that fails.
                scripted::change(&world, "two", &json!({"ADD": {"sh": "exit 3"}}));
            }
            let before = Traces::of(&world, Some(&pod.netns));
            let reply = pod.add(&outer);
            world.sh("rm -f /run/scripted/two.json");
            let failed = reply.output.exit != Some(0);
            let when = format!("after ADD with a panic at {point}:{time}");
            if failed && point == "attach/rollback" {
                // The error is that of the ADD; what could not be undone is there to be tried again.
                let failure = reply.failure();
                assert!(failure.code != 999 && failure.msg.contains("two"), "{failure:?}");
                panics += usize::from(failure.details.contains("injected at attach/rollback"));
            } else if failed && reply.output.stdout.contains("injected at") {
                panics += 1;
                internal(&reply, point);
                Traces::of(&world, Some(&pod.netns)).same_as(&before, &when);
            } else if point == "report/log" {
                // What was done stands.
                let result = reply.result();
                assert!(reply.output.stderr.contains("injected at report/log"), "{}", reply.output.stderr);
                quiet(&mut pod);
                pod.check(&outer, &result).done();
            } else {
                assert!(time > 1, "{point} was never reached: {}", reply.output.stdout);
            }
            quiet(&mut pod);
            pod.del(&outer, None).done();
            Traces::of(&world, Some(&pod.netns)).same_as(&before, &format!("{when}, and DEL"));
            world.sh(&format!("ip netns del {}", pod.netns.rsplit('/').next().unwrap_or_default()));
            if !failed || point == "attach/rollback" && time > 1 {
                break;
            }
        }
    }
    println!("{panics} panics in ADD");
    assert!(panics >= 30, "{panics}");
}

/// In somebody else's list nobody deletes the link: the routes themselves must be put back.
#[test]
fn chained_add() {
    let world = World::panicking();
    let list = json!({
        "cniVersion": conf::VERSION, "name": "chain",
        "plugins": [
            {"type": "ptp", "ipam": conf::host_local(1, Stack::Dual, true)},
            {"type": "catena", "pipeline": conf::pipeline(json!({"filter": ["ipv4", "ipv6"]}))},
        ],
    });
    let [ptp, catena] = runtime::plugins(&list).try_into().expect("two plugins");
    let mut pod = Pod::new(&world, "pod");
    let made = pod.call("ptp", "ADD", &ptp).result();
    let before = Traces::of(&world, Some(&pod.netns));
    let mut panics = 0;
    for point in
        ["attach/attached", "wasm/call", "wasm/routes", "routes/send", "pipeline/stage", "attach/finish"]
    {
        for time in 1..=MOST {
            assert!(time < MOST, "{point} is reached without end");
            inject(&mut pod, &format!("{point}:{time}"));
            let reply = pod.call("catena", "ADD", &with_previous(&catena, Some(&made)));
            if reply.output.exit == Some(0) {
                assert!(time > 1, "{point} was never reached");
                quiet(&mut pod);
                pod.call("catena", "DEL", &with_previous(&catena, None)).done();
                // The routes are a filter's work now; bring back what ptp made.
                for family in Family::ALL {
                    assert_eq!(defaults(&world, &pod.netns, family), []);
                    let (option, gateway) = (family.option(), gateway(1, family));
                    world
                        .pod_sh(&pod.netns, &format!("ip {option} route add default via {gateway} dev eth0"));
                }
                world.pod_sh(&pod.netns, "echo 1 >/proc/sys/net/ipv6/conf/eth0/accept_ra_defrtr");
                break;
            }
            panics += 1;
            internal(&reply, point);
            let when = format!("after a panic at {point}:{time}");
            Traces::of(&world, Some(&pod.netns)).same_as(&before, &when);
        }
    }
    println!("{panics} panics in a chained ADD");
    quiet(&mut pod);
    pod.del_list(&list, Some(&made));
}

#[test]
fn check_status_and_gc() {
    let world = World::panicking();
    let mut pod = Pod::new(&world, "pod");
    let outer = outer();
    let result = pod.add(&outer).result();
    let before = Traces::of(&world, Some(&pod.netns));
    let checked = with_previous(&outer, Some(&result));
    let swept = gc_conf(&outer, &[(&pod.id, "eth0")]);
    let calls = [
        ("CHECK", &checked, "node/config"),
        ("CHECK", &checked, "call/session"),
        ("CHECK", &checked, "routes/netns"),
        ("CHECK", &checked, "attach/check"),
        ("CHECK", &checked, "delegate/ended"),
        ("CHECK", &checked, "wasm/call"),
        ("CHECK", &checked, "pipeline/look"),
        ("STATUS", &outer, "node/config"),
        ("STATUS", &outer, "call/log"),
        ("STATUS", &outer, "call/session"),
        ("STATUS", &outer, "attach/status"),
        ("STATUS", &outer, "delegate/spawned"),
        ("STATUS", &outer, "delegate/ended"),
        ("GC", &swept, "node/config"),
        ("GC", &swept, "call/session"),
        ("GC", &swept, "attach/gc"),
        ("GC", &swept, "delegate/spawned"),
        ("GC", &swept, "delegate/ended"),
    ];
    for (command, conf, point) in calls {
        inject(&mut pod, point);
        let mut conf = conf.clone();
        conf["cniVersion"] = json!("1.1.0");
        if command != "CHECK" {
            // Delegates that are asked as well.
            conf["delegates"][0]["cniVersion"] = json!("1.1.0");
        }
        internal(&pod.call("catena", command, &conf), point);
        Traces::of(&world, Some(&pod.netns)).same_as(&before, &format!("after {command} with {point}"));
        quiet(&mut pod);
        pod.call("catena", command, &conf).done();
    }
    pod.del(&outer, Some(&result)).done();
}

/// GC does what it can of the others, and the rest the next time.
#[test]
fn gc_of_several() {
    let world = World::panicking();
    let outer = conf::catena(json!([scripted::conf("one", json!({}))]));
    let mut first = Pod::new(&world, "first");
    let second = Pod::new(&world, "second");
    let before = Traces::of(&world, Some(&first.netns));
    for pod in [&first, &second] {
        pod.add(&outer).result();
    }
    let mut newest = gc_conf(&outer, &[]);
    newest["cniVersion"] = json!("1.1.0");
    inject(&mut first, "attach/sweep:1");
    internal(&first.call("catena", "GC", &newest), "attach/sweep");
    let entries = world.files("/var/lib/catena/state");
    assert_eq!(entries.keys().filter(|file| file.ends_with(".json")).count(), 1, "{:?}", entries.keys());
    quiet(&mut first);
    first.call("catena", "GC", &newest).done();
    Traces::of(&world, Some(&first.netns)).same_as(&before, "after GC");
}

/// Delegates that run at the same time have threads of their own.
#[test]
fn side_by_side() {
    let world = World::panicking();
    let mut outer = conf::catena(json!([
        scripted::veth("one", 1, Stack::Dual, true),
        scripted::veth("two", 2, Stack::Dual, false),
        scripted::veth("three", 3, Stack::V4, false),
    ]));
    outer["parallel"] = json!(true);
    let mut panics = 0;
    for point in ["attach/beside", "delegate/spawned", "delegate/ended", "routes/netns"] {
        for time in 1..=MOST {
            assert!(time < MOST, "{point} is reached without end");
            let mut pod = pod(&world, point, time);
            let before = Traces::of(&world, Some(&pod.netns));
            let reply = pod.add(&outer);
            let failed = reply.output.exit != Some(0);
            let when = format!("after ADD with a panic at {point}:{time}");
            if failed {
                panics += 1;
                internal(&reply, point);
                Traces::of(&world, Some(&pod.netns)).same_as(&before, &when);
            }
            quiet(&mut pod);
            pod.del(&outer, None).done();
            Traces::of(&world, Some(&pod.netns)).same_as(&before, &format!("{when}, and DEL"));
            world.sh(&format!("ip netns del {}", pod.netns.rsplit('/').next().unwrap_or_default()));
            if !failed {
                assert!(time > 1, "{point} was never reached");
                break;
            }
        }
    }
    println!("{panics} panics in ADD side by side");
    assert!(panics >= 9, "{panics}");
}

#[test]
fn del() {
    let world = World::panicking();
    let mut outer = outer();
    // The built-in stages have nothing to do in DEL.
    install(&world, "bad-del", "bad-del", &["log=true"]);
    let mut stages = conf::pipeline(json!({}));
    stages.as_array_mut().expect("a list").push(json!({"stage": "bad-del", "config": {}}));
    outer["pipeline"] = stages;
    outer["logFile"] = json!("/var/log/catena.log");
    world.sh("mkdir -p /var/log");
    let mut panics = 0;
    for point in [
        "node/config",
        "call/log",
        "call/session",
        "cni/conf",
        "routes/netns",
        "attach/del",
        "delegate/spawned",
        "delegate/ended",
        "pipeline/look",
        "wasm/call",
        "attach/deleted",
    ] {
        for time in 1..=MOST {
            assert!(time < MOST, "{point} is reached without end");
            let mut pod = pod(&world, point, time);
            let planned = std::mem::take(&mut pod.env);
            let before = Traces::of(&world, Some(&pod.netns));
            let result = pod.add(&outer).result();
            pod.env = planned;
            world.sh("rm -f /var/log/catena.log");
            let reply = pod.del(&outer, Some(&result));
            let failed = reply.output.exit != Some(0);
            if failed {
                internal(&reply, point);
                if !["cni/conf", "call/session"].contains(&point) {
                    assert_eq!(
                        world.files("/var/lib/catena/state/failed").len(),
                        1,
                        "kept to be tried again"
                    );
                }
                if point == "delegate/spawned" {
                    let calls = scripted::calls(&world);
                    let asked =
                        |call: &&Value| call["command"] == "DEL" && call["containerId"] == pod.id.as_str();
                    let asked: Vec<&Value> =
                        calls.iter().filter(asked).map(|call| &call["stdin"]["name"]).collect();
                    assert_eq!(asked, [if time == 1 { "one" } else { "two" }]);
                }
            }
            // In DEL a stage is only advice, even one that brings the host down: then the log tells.
            let log = world.files("/var/log").remove("/var/log/catena.log").unwrap_or_default();
            let told = [String::from_utf8_lossy(&log).as_ref(), &reply.output.stderr].concat();
            let reached = failed || told.contains(&format!("injected at {point}"));
            panics += usize::from(reached);
            quiet(&mut pod);
            pod.del(&outer, Some(&result)).done();
            let when = format!("after DEL with a panic at {point}:{time}, and DEL");
            Traces::of(&world, Some(&pod.netns)).same_as(&before, &when);
            world.sh(&format!("ip netns del {}", pod.netns.rsplit('/').next().unwrap_or_default()));
            if !reached {
                assert!(time > 1, "{point} was never reached");
                break;
            }
        }
    }
    println!("{panics} panics in DEL");
    assert!(panics >= 13, "{panics}");
}
