//! ptp, bridge and a list: the whole life of an attachment, and what is left of it.

use catena_tests::conf::{self, Family, Stack};
use catena_tests::pair::Twin;
use catena_tests::runtime::{Pod, Reply, with_previous};
use catena_tests::score::Score;
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::trace::{self, Stop};
use catena_tests::vectors::{self, Case};
use catena_tests::world::World;
use serde_json::{Value, json};

/// ADD, CHECK at once, DEL, DEL again, DEL as containerd's third.
fn life(delegate: &Value) {
    let twin = Twin::live(&[("eth0", delegate)], false);
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    before.same_as(&twin.before, "before ADD");
    let outer = conf::catena(json!([delegate]));

    let result = pod.add(&outer).result();
    assert_eq!(result["cniVersion"], conf::VERSION);
    for family in Family::ALL {
        assert_eq!(
            state::defaults(&world, &pod.netns, family),
            state::defaults_of(&twin.during, family),
            "the pod's default routes"
        );
    }
    Traces::of(&world, Some(&pod.netns)).without_files().same_as(&twin.during.without_files(), "after ADD");
    pod.check(&outer, &result).done();

    pod.del(&outer, Some(&result)).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after DEL");
    pod.del(&outer, None).done();
    pod.without_netns().del(&outer, None).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after three times DEL");

    // A second life under the same names, whose namespace vanishes.
    let result = pod.add(&outer).result();
    pod.vanish();
    pod.without_netns().del(&outer, Some(&result)).done();
    Traces::of(&world, Some(&pod.netns)).nothing_more_than(&twin.after, "after DEL without the namespace");
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn ptp_v4() {
    life(&conf::ptp(1, Stack::V4));
}

#[test]
fn ptp_v6() {
    life(&conf::ptp(1, Stack::V6));
}

#[test]
fn ptp_dual() {
    life(&conf::ptp(1, Stack::Dual));
}

#[test]
fn bridge_v4() {
    life(&conf::bridge_with_default(1, Stack::V4));
}

#[test]
fn bridge_v6() {
    life(&conf::bridge_with_default(1, Stack::V6));
}

#[test]
fn bridge_dual() {
    life(&conf::bridge_with_default(1, Stack::Dual));
}

#[test]
fn list_v4() {
    life(&conf::bridge_and_tuning(1, Stack::V4));
}

#[test]
fn list_v6() {
    life(&conf::bridge_and_tuning(1, Stack::V6));
}

#[test]
fn list_dual() {
    life(&conf::bridge_and_tuning(1, Stack::Dual));
}

/// Every recorded case, with catena between the runtime and the plugin.
fn recorded(prefix: &str) {
    let mut score = Score::of(format!("routes/{prefix}"));
    for case in vectors::route_cases() {
        if !case.id.starts_with(prefix) {
            continue;
        }
        let world = World::new();
        Case::prepare(&world);
        let pod = Pod::new(&world, vectors::POD);
        let before = Traces::of(&world, Some(&pod.netns));
        let outer = conf::catena(json!([case.config]));
        let reply = pod.add(&outer);
        if case.succeeds {
            let result = reply.result();
            case.compare_result(&result);
            case.compare_kernel(&world);
            let check = pod.check(&outer, &result);
            if case.check_succeeds() {
                check.done();
            } else {
                check.failure();
            }
            pod.del(&outer, Some(&result)).done();
        } else {
            reply.failure();
        }
        let after = Traces::of(&world, Some(&pod.netns));
        let more: Vec<&String> = after
            .0
            .difference(&before.0)
            .filter(|line| !line.contains("vbr0") && !line.starts_with("file /run/ipam/vecnet/l"))
            .collect();
        assert!(more.is_empty(), "{}: left: {more:#?}", case.id);
        // What differs has ended the test already.
        score.add(&case.id, false, Ok(()));
    }
    score.finish();
}

#[test]
fn recorded_ptp_v4() {
    recorded("ptp-v4");
}

#[test]
fn recorded_ptp_v6() {
    recorded("ptp-v6");
}

#[test]
fn recorded_ptp_others() {
    for prefix in ["ptp-e", "ptp-n", "ptp-3", "ptp-1", "ptp-g", "ptp-t", "ptp-r"] {
        recorded(prefix);
    }
}

#[test]
fn recorded_bridge() {
    recorded("bridge");
}

#[test]
fn recorded_macvlan() {
    recorded("macvlan");
}

#[test]
fn a_second_add_is_refused_and_harms_nothing() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([conf::bridge_with_default(1, Stack::V4)]));
    let result = pod.add(&outer).result();
    let during = Traces::of(&world, Some(&pod.netns));
    pod.add(&outer).failure();
    Traces::of(&world, Some(&pod.netns)).same_as(&during, "after a refused ADD");
    pod.check(&outer, &result).done();
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn a_name_in_use_fails_and_leaves_the_link() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    world.pod_sh(&pod.netns, "ip link add net1 type veth peer name other");
    let before = Traces::of(&world, Some(&pod.netns));
    let outer = conf::catena(json!([conf::ptp(1, Stack::V4), conf::bridge(2, Stack::V4)]));
    let failure = pod.add(&outer).failure();
    assert!(failure.text().contains("net1"), "{}", failure.text());
    let twin = Twin::live(&[("eth0", &conf::ptp(1, Stack::V4))], false);
    let after = Traces::of(&world, Some(&pod.netns));
    let allowed = Traces(before.0.union(&twin.after.0).cloned().collect());
    after.nothing_more_than(&allowed, "after a refused attachment");
    assert_eq!(state::links(&world, Some(&pod.netns)), ["net1", "other"]);
}

#[test]
fn answers_come_in_the_version_asked_for() {
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let mut outer = conf::catena(json!([conf::bridge_with_default(1, Stack::V4)]));
        outer["cniVersion"] = json!(version);
        let result = pod.add(&outer).result();
        assert_eq!(result["cniVersion"], version);
        let address = if version < "0.3.0" { &result["ip4"]["ip"] } else { &result["ips"][0]["address"] };
        assert_eq!(address, "10.90.1.2/24", "{version}: {result}");
        if version >= "0.4.0" {
            pod.check(&outer, &result).done();
        }
        pod.del(&outer, None).done();
        assert!(state::links(&world, Some(&pod.netns)).is_empty());
    }
}

#[test]
fn version_needs_nothing() {
    let world = World::new();
    let mut command = world.command("/opt/cni/bin/catena");
    command.env("CNI_COMMAND", "VERSION");
    let output = catena_tests::world::finish(command, br#"{"cniVersion":"1.0.0"}"#);
    let reply = Reply { what: "VERSION".into(), output }.result();
    // stdin is not read, so the newest version stands there, as in the answers of Go plugins.
    assert_eq!(reply["cniVersion"], "1.1.0");
    assert_eq!(
        reply["supportedVersions"],
        json!(["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
    );
}

/// What a second look at a path finds may be another namespace.
#[test]
fn cni_netns_is_opened_once() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([scripted::conf("one", json!({}))]));
    let opened = |command: &str, request: &Value| {
        let mut tracee = pod.trace("catena", command, request);
        let mut count = 0;
        while let Some(stop) = tracee.next() {
            if let Stop::Entry { number, arguments, .. } = stop
                && trace::name(number) == "openat"
                && tracee.string(arguments[1]).as_deref() == Some(pod.netns.as_str())
            {
                count += 1;
            }
        }
        assert_eq!(tracee.finish().exit, Some(0), "{command}");
        count
    };
    let previous = json!({"cniVersion": conf::VERSION});
    assert_eq!(opened("ADD", &outer), 1);
    assert_eq!(opened("CHECK", &with_previous(&outer, Some(&previous))), 1);
    assert_eq!(opened("DEL", &outer), 1);
    assert_eq!(opened("DEL", &outer), 1, "without an entry");
    pod.add(&outer).result();
    let state = "/var/lib/catena/state";
    let entry =
        world.files(state).into_keys().find(|file| !file.contains(".lock") && !file.contains(".children"));
    world.write(&entry.expect("an entry"), "{");
    assert_eq!(opened("ADD", &outer), 1, "over an entry that cannot be read");
    pod.del(&outer, None).done();
}

/// The second of two networks is a list with this key, of a plugin that lists 1.1.0: the commands that it gets.
fn commands_with(key: &str) -> Vec<String> {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let second = json!({
        "cniVersion": "1.1.0", "name": "two", key: true, "plugins": [{"type": "scripted", "script": {}}],
    });
    let mut first = scripted::conf("one", json!({}));
    first["cniVersion"] = json!("1.1.0");
    let mut outer = conf::catena(json!([first, second]));
    outer["cniVersion"] = json!("1.1.0");
    let result = pod.add(&outer).result();
    pod.check(&outer, &result).done();
    pod.call("catena", "GC", &catena_tests::runtime::gc_conf(&outer, &[(&pod.id, "eth0")])).done();
    pod.del(&outer, Some(&result)).done();
    let calls = scripted::calls(&world).into_iter();
    let of = |network: &'static str| {
        let calls = calls.clone().filter(move |call| call["stdin"]["name"] == network);
        calls.map(|call| call["command"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("one"), ["ADD", "CHECK", "GC", "DEL"], "{key}");
    of("two")
}

#[test]
fn a_list_with_disable_check_gets_no_check() {
    assert_eq!(commands_with("disableCheck"), ["ADD", "GC", "DEL"]);
}

#[test]
fn a_list_with_disable_gc_gets_no_gc() {
    assert_eq!(commands_with("disableGC"), ["ADD", "CHECK", "DEL"]);
}

/// The whole file, as libcni would have written it.
#[test]
fn the_cache_is_libcnis() {
    let world = World::new();
    let pod = Pod { args: "IgnoreUnknown=1;K8S_POD_NAME=pod".into(), ..Pod::new(&world, "pod") };
    let mappings = json!([{"hostPort": 80, "containerPort": 8080, "protocol": "tcp"}]);
    let answer = json!({
        "cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "mtu": 1400, "sandbox": pod.netns}],
        "ips": [{"address": "192.0.2.5/24", "interface": 0}],
    });
    let number: Value = serde_json::from_str("1.10").expect("a number");
    let list = json!({
        "cniVersion": "0.4.0", "name": "one", "number": number,
        "plugins": [{
            "type": "scripted", "capabilities": {"portMappings": true}, "script": {"ADD": {"result": answer}},
        }],
    });
    let mut outer = conf::catena(json!([list]));
    outer["capabilities"] = json!({"portMappings": true});
    outer["runtimeConfig"] = json!({"portMappings": mappings});
    pod.add(&outer).result();
    let results = "/var/lib/cni/catena/results";
    let file = format!("{results}/one-{}-eth0", pod.id);
    let cache: Value = serde_json::from_str(&world.read(&file)).expect("JSON");
    let config = world.sh(&format!("printf %s '{}' | base64 -d", cache["config"].as_str().expect("a text")));
    assert_eq!(serde_json::from_str::<Value>(&config).expect("JSON"), list, "the list as it was sent");
    assert!(config.contains("\"number\":1.10,"), "numbers as they were written: {config}");
    let expected = json!({
        "kind": "cniCacheV1", "containerId": pod.id, "config": cache["config"], "ifName": "eth0",
        "networkName": "one", "netns": pod.netns,
        "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAME", "pod"]],
        "capabilityArgs": {"portMappings": mappings},
        "result": {
            "cniVersion": "0.4.0", "interfaces": [{"name": "eth0", "sandbox": pod.netns}],
            "ips": [{"version": "4", "interface": 0, "address": "192.0.2.5/24"}], "dns": {},
        },
    });
    assert_eq!(cache, expected);
    assert_eq!(world.files(results).len(), 1);
    let modes = world.sh(&format!("stat -c %a {results} {file}"));
    assert_eq!(modes, "700\n600\n");
    pod.del(&outer, None).done();
    assert!(world.files(results).is_empty());
}

#[test]
fn status_and_gc() {
    status_and_gc_with(conf::VERSION);
}

/// Debian's plugins do not list it, so they are asked in the newest that they do, and get neither GC nor STATUS.
#[test]
fn status_and_gc_of_delegates_of_the_newest_version() {
    status_and_gc_with("1.1.0");
}

fn status_and_gc_with(version: &str) {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let gone = Pod::new(&world, "gone");
    let mut outer = conf::catena(json!([conf::ptp(1, Stack::V4), conf::bridge(2, Stack::V4)]));
    outer["cniVersion"] = json!("1.1.0");
    for delegate in outer["delegates"].as_array_mut().expect("delegates") {
        delegate["cniVersion"] = json!(version);
    }
    pod.call("catena", "STATUS", &outer).done();
    let result = pod.add(&outer).result();
    let alone = Traces::of(&world, Some(&pod.netns));
    gone.add(&outer).result();
    // The set of valid attachments is unknown: nothing may be deleted.
    pod.call("catena", "GC", &outer).done();
    assert_eq!(state::links(&world, Some(&gone.netns)), ["eth0", "net1"]);
    let gc = catena_tests::runtime::gc_conf(&outer, &[(&pod.id, "eth0")]);
    pod.call("catena", "GC", &gc).done();
    assert!(state::links(&world, Some(&gone.netns)).is_empty());
    pod.check(&outer, &result).done();
    let left: Vec<String> = Traces::of(&world, Some(&pod.netns))
        .0
        .difference(&alone.0)
        .filter(|line| !line.contains("last_reserved_ip"))
        .cloned()
        .collect();
    assert!(left.is_empty(), "after GC of another pod: {left:#?}");
    pod.call("catena", "STATUS", &outer).done();
    let cached = pod.cached("ptp1", "eth0");
    assert_eq!(cached["cniVersion"], version, "the list's own version");
    // Somebody takes the address away: the delegates' own CHECK ran.
    world.pod_sh(&pod.netns, "ip addr flush dev net1");
    pod.check(&outer, &result).fails_with(999, &["bridge", "net1"]);
    pod.del(&outer, Some(&result)).done();
    assert!(state::links(&world, Some(&pod.netns)).is_empty());
}
