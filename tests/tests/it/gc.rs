//! GC with the runtime's list of valid attachments, and failed entries that later calls try again.

use catena_tests::conf::{self, Stack};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::world::World;
use serde_json::{Value, json};

const KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// catena with two networks, the second of which is asked for under a name of its own.
fn outer() -> Value {
    let newest = |mut conf: Value| {
        conf["cniVersion"] = json!("1.1.0");
        conf
    };
    let second = newest(scripted::conf("two", json!({})));
    let mut outer = conf::catena(
        json!([newest(scripted::conf("one", json!({}))), { "interface": "data0", "config": second }]),
    );
    outer["cniVersion"] = json!("1.1.0");
    outer
}

/// GC with these members added to the config.
fn gc(pod: &Pod<'_>, keys: &[&str], set: &Value) {
    let mut request = outer();
    for key in keys {
        request[*key] = set.clone();
    }
    pod.call("catena", "GC", &request).done();
}

/// The files that an attachment of this pod has.
fn files(world: &World, pod: &Pod<'_>) -> Vec<String> {
    let all =
        ["/var/lib", "/run/catena/status"].into_iter().flat_map(|folder| world.files(folder).into_keys());
    all.filter(|file| file.contains(&pod.id)).collect()
}

fn pods(world: &World) -> (Pod<'_>, Pod<'_>) {
    let (live, dead) = (Pod::new(world, "live"), Pod::new(world, "dead"));
    for pod in [&live, &dead] {
        pod.add(&outer()).result();
        // An entry and its lock, a cache file for each network, and the status.
        assert!(files(world, pod).len() >= 4, "{:?}", files(world, pod));
    }
    (live, dead)
}

/// The GC calls that delegates got, each with the set that came with it.
fn sets(world: &World) -> Vec<(String, Value)> {
    let calls = scripted::calls(world).into_iter().filter(|call| call["command"] == "GC");
    calls
        .map(|call| {
            let stdin = &call["stdin"];
            assert_eq!(stdin[KEYS[0]], stdin[KEYS[1]], "both spellings say the same");
            (stdin["name"].as_str().expect("a name").to_owned(), stdin[KEYS[0]].clone())
        })
        .collect()
}

#[test]
fn the_live_pod_stays_and_the_dead_one_goes() {
    for keys in [&KEYS[..1], &KEYS[1..], &KEYS[..]] {
        let world = World::new();
        let (live, dead) = pods(&world);
        let before = files(&world, &live);
        let listed = json!([{ "containerID": live.id, "ifname": "eth0" }]);
        gc(&live, keys, &listed);
        assert_eq!(files(&world, &live), before, "{keys:?}: nothing of the live pod is removed");
        assert_eq!(files(&world, &dead), Vec::<String>::new(), "{keys:?}: all of the dead one is");
        let deleted: Vec<String> =
            scripted::call_lines(&world).into_iter().filter(|call| call.starts_with("DEL")).collect();
        assert_eq!(deleted, ["DEL two data0", "DEL one eth0"], "{keys:?}: of the dead pod alone, in reverse");
        // Each delegate is told of its own attachments: the runtime knows of eth0 alone.
        let own = |ifname: &str| json!([{ "containerID": live.id, "ifname": ifname }]);
        assert_eq!(
            sets(&world),
            [("one".to_owned(), own("eth0")), ("two".to_owned(), own("data0"))],
            "{keys:?}"
        );
        live.check(&outer(), &json!({ "cniVersion": "1.1.0" })).done();
    }
}

#[test]
fn null_and_an_empty_list_remove_all() {
    let spellings = [&KEYS[..], &KEYS[..1], &KEYS[1..]];
    for (keys, set) in spellings.into_iter().flat_map(|keys| [(keys, json!(null)), (keys, json!([]))]) {
        let world = World::new();
        let (live, dead) = pods(&world);
        gc(&live, keys, &set);
        for pod in [&live, &dead] {
            assert_eq!(files(&world, pod), Vec::<String>::new(), "{keys:?} {set}");
        }
        assert_eq!(
            sets(&world),
            [("one".to_owned(), json!([])), ("two".to_owned(), json!([]))],
            "{keys:?} {set}"
        );
    }
}

/// CRI-O sends no second DEL, whatever became of the first.
#[test]
fn a_del_that_was_killed_is_finished_by_a_call_of_another_pod() {
    let world = World::new();
    let (live, dead) = pods(&world);
    let hangs = json!({ "DEL": { "sh": "echo >/run/deleting; exec sleep 1000" } });
    scripted::change(&world, "two", &hangs);
    let reply = std::thread::scope(|scope| {
        let del = scope.spawn(|| dead.del(&outer(), None));
        let start = std::time::Instant::now();
        while !world.path("/run/deleting").exists() {
            assert!(start.elapsed() < std::time::Duration::from_secs(30), "the delegate never came");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        world.sh("kill -9 $(pidof catena)");
        del.join().expect("the DEL that was killed")
    });
    assert_eq!(reply.output.exit, None, "{reply:?}");
    world.sh("rm /run/scripted/two.json");
    assert_ne!(files(&world, &dead), Vec::<String>::new());
    world.sh("touch -d '-1 minute' /var/lib/catena/state/failed/*");
    live.del(&outer(), None).done();
    assert_eq!(files(&world, &dead), Vec::<String>::new());
    assert!(world.files("/var/lib/catena/state/failed").is_empty());
}

/// The name of its file still tells whose it is, and the config what to do about it.
#[test]
fn a_damaged_entry_of_a_dead_pod_goes_too() {
    let world = World::new();
    let (live, dead) = pods(&world);
    let entry =
        format!("/var/lib/catena/state/{}@{}@meta@eth0.json", dead.id, outer()["name"].as_str().unwrap());
    world.write(&entry, "{ not an entry");
    gc(&live, &KEYS, &json!([{ "containerID": live.id, "ifname": "eth0" }]));
    assert_eq!(files(&world, &dead), Vec::<String>::new());
    assert!(!files(&world, &live).is_empty());
    let asked: Vec<String> = sets(&world).into_iter().map(|(network, _)| network).collect();
    assert_eq!(asked, ["one", "two"], "all is known again, so the delegates are asked");
}

#[test]
fn an_absent_list_removes_nothing() {
    let world = World::new();
    let (live, dead) = pods(&world);
    let before = (files(&world, &live), files(&world, &dead));
    let calls = scripted::calls(&world).len();
    gc(&live, &[], &json!(null));
    assert_eq!((files(&world, &live), files(&world, &dead)), before);
    assert_eq!(scripted::calls(&world).len(), calls, "a delegate is never sent GC without its set");

    // But a DEL that has failed is tried again, whoever calls.
    let failing = json!({ "DEL": { "result": { "code": 11, "msg": "the other side is away" }, "exit": 1 } });
    scripted::change(&world, "two", &failing);
    dead.del(&outer(), None).fails_with(11, &["the other side is away"]);
    world.sh("rm /run/scripted/two.json; touch -d '-1 minute' /var/lib/catena/state/failed/*");
    gc(&live, &[], &json!(null));
    assert_eq!((files(&world, &live), files(&world, &dead)), (before.0, Vec::new()));
    assert!(world.files("/var/lib/catena/state/failed").is_empty());
    assert_eq!(sets(&world), []);
}

#[test]
fn attachments_of_other_networks_stay() {
    let world = World::new();
    let (live, dead) = pods(&world);
    let mut other = outer();
    other["name"] = json!("other");
    let elsewhere = Pod { ifname: "eth1".into(), ..Pod::new(&world, "elsewhere") };
    elsewhere.add(&other).result();
    let before = files(&world, &elsewhere);
    gc(&live, &KEYS, &json!([]));
    assert_eq!(files(&world, &elsewhere), before);
    assert!(files(&world, &dead).is_empty());
    // The delegates' networks are shared, and what is missing in the set is dead to them.
    let own = |ifname: &str| json!([{ "containerID": elsewhere.id, "ifname": ifname }]);
    assert_eq!(sets(&world), [("one".to_owned(), own("eth1")), ("two".to_owned(), own("data0"))]);
}

/// What makes the set of valid attachments incomplete keeps it from the delegates; the dead pod goes all the same.
fn no_delegate_is_asked(world: &World, live: &Pod<'_>, dead: &Pod<'_>, listed: &Value) {
    gc(live, &KEYS, listed);
    assert_eq!(sets(world), []);
    assert_eq!(files(world, dead), Vec::<String>::new());
}

#[test]
fn a_listed_attachment_that_the_ledger_does_not_know() {
    let world = World::new();
    let (live, dead) = pods(&world);
    let listed = json!([
        { "containerID": live.id, "ifname": "eth0" }, { "containerID": "before-catena", "ifname": "eth0" }
    ]);
    no_delegate_is_asked(&world, &live, &dead, &listed);
}

#[test]
fn an_entry_that_cannot_be_read() {
    let world = World::new();
    let (live, dead) = pods(&world);
    let entry = files(&world, &live).into_iter().find(|file| file.contains("/state/")).expect("an entry");
    world.write(&entry, "{");
    no_delegate_is_asked(&world, &live, &dead, &json!([{ "containerID": live.id, "ifname": "eth0" }]));
}

/// An outer network whose primary is a list of the same name that ends in catena: two entries, of two modes.
#[test]
fn a_list_of_the_networks_own_name() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let list = json!({"cniVersion": "1.1.0", "name": "outer", "plugins": [
        {"type": "scripted", "script": {"ADD": {"result": {"cniVersion": "1.1.0"}}}},
        {"type": "catena", "pipeline": [{"stage": "result-conversion"}]},
    ]});
    let mut outer = conf::catena(json!([{ "interface": "data0", "config": list }]));
    outer["cniVersion"] = json!("1.1.0");
    pod.add(&outer).result();
    let before = files(&world, &pod);
    outer[KEYS[0]] = json!([{ "containerID": pod.id, "ifname": "eth0" }]);
    pod.call("catena", "GC", &outer).done();
    assert_eq!(files(&world, &pod), before);
    outer[KEYS[0]] = json!([]);
    pod.call("catena", "GC", &outer).done();
    assert_eq!(files(&world, &pod), Vec::<String>::new());
}

/// Of calls that were killed before they had an entry, and whose DEL never came. Those of calls that run stay.
#[test]
fn locks_without_an_entry_go() {
    let world = World::new();
    let (live, _) = pods(&world);
    let before = files(&world, &live);
    let state = "/var/lib/catena/state";
    world.sh(&format!(
        "cd {state}; touch killed@other@meta@eth0.lock killed@other@meta@eth0.children alone@outer@meta@eth0.children\n\
         flock running@outer@meta@eth0.lock sleep 1000 >/dev/null 2>&1 &\n\
         flock left@outer@meta@eth0.children sleep 1000 >/dev/null 2>&1 &\n\
         while [ ! -e running@outer@meta@eth0.lock ] || [ ! -e left@outer@meta@eth0.children ]; do :; done; sleep 0.2"
    ));
    gc(&live, &KEYS, &json!([{ "containerID": live.id, "ifname": "eth0" }]));
    let left = world.files(state).into_keys().filter(|file| !file.contains(&live.id));
    let left: Vec<String> = left.map(|file| file.replace(&format!("{state}/"), "")).collect();
    let held = ["left@outer@meta@eth0.children", "left@outer@meta@eth0.lock", "running@outer@meta@eth0.lock"];
    assert_eq!(left, held);
    assert_eq!(files(&world, &live), before);
    // Whoever held them has ended.
    world.sh("kill $(pidof sleep); while pidof sleep >/dev/null; do :; done");
    gc(&live, &KEYS, &json!([]));
    assert_eq!(world.files(state).into_keys().collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn with_real_links() {
    with_real_links_of(conf::VERSION);
}

#[test]
fn with_real_links_of_delegates_of_the_newest_version() {
    with_real_links_of("1.1.0");
}

fn with_real_links_of(version: &str) {
    let world = World::new();
    let (live, dead) = (Pod::new(&world, "live"), Pod::new(&world, "dead"));
    let mut outer = conf::catena(json!([conf::ptp(1, Stack::V4), conf::bridge(2, Stack::V4)]));
    outer["cniVersion"] = json!("1.1.0");
    for delegate in outer["delegates"].as_array_mut().expect("delegates") {
        delegate["cniVersion"] = json!(version);
    }
    let result = live.add(&outer).result();
    let alone = Traces::of(&world, Some(&live.netns));
    dead.add(&outer).result();
    outer[KEYS[1]] = json!([{ "containerID": live.id, "ifname": "eth0" }]);
    live.call("catena", "GC", &outer).done();
    assert_eq!(state::links(&world, Some(&dead.netns)), Vec::<String>::new());
    let after = Traces::of(&world, Some(&live.netns));
    let moved = |line: &&String| !line.contains("last_reserved_ip");
    let differs: Vec<&String> = after.0.symmetric_difference(&alone.0).filter(moved).collect();
    assert!(differs.is_empty(), "{differs:#?}");
    live.check(&outer, &result).done();
}

/// Nobody else's call knows that catena's own namespace was meant.
#[test]
fn an_entry_that_was_added_with_the_override_keeps_its_namespace() {
    let world = World::new();
    let live = Pod::new(&world, "live");
    // That of the world's first process, which is catena's, too.
    let own = "/proc/1/ns/net";
    let overriding = Pod {
        id: "id-own".into(),
        netns: own.into(),
        env: vec![("CNI_NETNS_OVERRIDE".into(), "1".into())],
        ..live.clone()
    };
    overriding.add(&outer()).result();
    live.add(&outer()).result();
    gc(&live, &KEYS, &json!([{ "containerID": live.id, "ifname": "eth0" }]));
    let deleted: Vec<Value> = scripted::calls(&world)
        .into_iter()
        .filter(|call| call["command"] == "DEL" && call["containerId"] == "id-own")
        .map(|call| call["netns"].clone())
        .collect();
    assert_eq!(deleted, [own, own]);
    assert_eq!(files(&world, &overriding), Vec::<String>::new());
}

/// CRI-O never repeats a failed DEL, so the next calls of other pods do.
#[test]
fn a_failed_entry_is_tried_again_by_a_call_of_another_pod() {
    let world = World::new();
    let (live, dead) = pods(&world);
    let third = Pod::new(&world, "third");
    third.add(&outer()).result();
    let failing = json!({ "DEL": { "result": { "code": 11, "msg": "the other side is away" }, "exit": 1 } });
    scripted::change(&world, "two", &failing);
    let mut request = outer();
    request[KEYS[0]] =
        json!([{ "containerID": live.id, "ifname": "eth0" }, { "containerID": third.id, "ifname": "eth0" }]);
    live.call("catena", "GC", &request).fails_with(11, &["two", "data0", "the other side is away"]);
    let failed = "/var/lib/catena/state/failed";
    assert_eq!(world.files(failed).len(), 1);
    let of_dead = |world: &World| {
        let calls = scripted::calls(world).into_iter();
        calls.filter(|call| call["command"] == "DEL" && call["containerId"] == dead.id.as_str()).count()
    };
    assert_eq!(of_dead(&world), 2, "past the delegate that failed, too");

    // Not at once: whoever failed a moment ago is given time.
    world.sh("rm /run/scripted/two.json");
    live.del(&outer(), None).done();
    assert_eq!(of_dead(&world), 2);
    assert_eq!(world.files(failed).len(), 1);

    world.sh(&format!("touch -d '-1 minute' {failed}/*"));
    third.del(&outer(), None).done();
    assert_eq!(of_dead(&world), 4);
    assert_eq!(files(&world, &dead), Vec::<String>::new(), "now it is done");
    assert!(world.files(failed).is_empty());
}
