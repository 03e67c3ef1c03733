//! Whatever comes in: a CNI error with the right code, quickly, and nothing left behind.

use std::time::Duration;

use catena_tests::conf::{self, Stack, asking};
use catena_tests::runtime::{Failure, Pod, Reply};
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::world::{self, World};
use serde_json::{Value, json};

/// ADD must fail with this code and these words, within `limit`, and all must be as before.
fn refused(conf: &Value, code: i64, words: &[&str]) -> Failure {
    let world = World::new();
    world.write("/etc/catena/node.json", r#"{"deadlines": {"delegateSeconds": 3, "rollbackSeconds": 5}}"#);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let failure = pod.add(conf).fails_with(code, words);
    assert!(failure.elapsed < Duration::from_secs(20), "took {:?}", failure.elapsed);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
    pod.del(conf, None);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD and DEL");
    failure
}

fn one() -> Value {
    scripted::veth("one", 1, Stack::V4, true)
}

fn outer_with(key: &str, value: Value) -> Value {
    let mut outer = conf::catena(json!([one()]));
    outer[key] = value;
    outer
}

/// Calls catena with exactly this environment.
fn call(world: &World, env: &[(&str, &str)], stdin: &[u8]) -> Reply {
    let mut command = world.command("/opt/cni/bin/catena");
    command.envs(env.iter().copied());
    Reply { what: format!("{env:?}"), output: world::finish(command, stdin) }
}

/// What is wrong with a request beyond its form is named at once, too.
#[test]
fn all_problems_at_once() {
    let mut outer = conf::catena(json!([one(), {"interface": "eth0", "config": one()}]));
    outer["pipeline"] = json!("nobodys");
    outer["cniDir"] = json!("/nobodys/cache");
    outer["binDir"] = json!("/nobodys/bin");
    outer["logFile"] = json!("/nobodys/log");
    let paths = ["/nobodys/cache", "/nobodys/bin", "/nobodys/log"];
    refused(&outer, 7, &[&["\"nobodys\"", "delegates[0]", "delegates[1]"][..], &paths].concat());

    let world = World::new();
    let pod = Pod { netns: "/run/netns/nobodys".into(), ..Pod::new(&world, "pod") };
    let nested = Pod { env: vec![("CATENA_NESTED".into(), "around".into())], ..pod };
    outer.as_object_mut().expect("a config").remove("logFile");
    let words =
        ["around", "/run/netns/nobodys", "nobodys\"", "/nobodys/cache", "/nobodys/bin", "delegates[1]"];
    let failure = nested.add(&outer).fails_with(7, &words);
    assert_eq!(failure.details.matches("(code 8)").count(), 1, "{failure:?}");
    assert!(scripted::calls(&world).is_empty());
}

/// Nobody can tell which stages there would be.
#[test]
fn status_with_a_node_file_that_cannot_be_used() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let mut outer = conf::catena(json!([one()]));
    outer["cniVersion"] = json!("1.1.0");
    for text in ["{", r#"{"defaultPipeline": 1}"#, r#"{"nobodys": {}}"#] {
        world.write("/etc/catena/node.json", text);
        pod.call("catena", "STATUS", &outer).fails_with(50, &["node.json"]);
    }
    world.write("/etc/catena/node.json", "{}");
    pod.call("catena", "STATUS", &outer).done();
}

#[test]
fn environment() {
    let world = World::new();
    let netns = world.pod("pod");
    let good = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "id"),
        ("CNI_NETNS", netns.as_str()),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];
    let conf = conf::catena(json!([one()])).to_string();
    let before = Traces::of(&world, Some(&netns));
    for missing in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] {
        let env: Vec<_> = good.iter().copied().filter(|(key, _)| *key != missing).collect();
        call(&world, &env, conf.as_bytes()).fails_with(4, &[missing]);
        let env: Vec<_> =
            good.iter().map(|(key, value)| (*key, if *key == missing { "" } else { value })).collect();
        call(&world, &env, conf.as_bytes()).fails_with(4, &[missing]);
    }
    let only_command: Vec<_> = good.iter().copied().take(1).collect();
    call(&world, &only_command, conf.as_bytes())
        .fails_with(4, &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]);
    for (key, value) in [
        ("CNI_COMMAND", "add"),
        ("CNI_COMMAND", "FROBNICATE"),
        ("CNI_CONTAINERID", "../etc"),
        ("CNI_IFNAME", "a/b"),
        ("CNI_IFNAME", "."),
        ("CNI_IFNAME", "a-name-that-is-too-long"),
    ] {
        let env: Vec<_> = good.iter().map(|(k, v)| (*k, if *k == key { value } else { v })).collect();
        call(&world, &env, conf.as_bytes()).fails_with(4, &[key]);
    }
    Traces::of(&world, Some(&netns)).same_as(&before, "after refused calls");
}

#[test]
fn stdin() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    for text in ["", "{", "[]", "\"x\"", "{} {}", "{\"name\": \"outer\",}", "\u{feff}{}"] {
        pod.call_raw("catena", "ADD", text.as_bytes()).fails_with(6, &[]);
    }
    pod.call_raw("catena", "ADD", &[0xff, 0xfe, 0]).fails_with(6, &[]);
    let deep = "[".repeat(100_000);
    pod.call_raw("catena", "ADD", deep.as_bytes()).fails_with(6, &[]);
    let big = format!("{{\"name\": \"{}\"}}", "x".repeat(5 << 20));
    pod.call_raw("catena", "ADD", big.as_bytes()).failure();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after refused calls");
}

#[test]
fn versions() {
    for version in ["2.0.0", "1.2.0", "1.0", "x"] {
        refused(&outer_with("cniVersion", json!(version)), 1, &[version]);
    }
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    pod.call("catena", "CHECK", &outer_with("cniVersion", json!("0.3.1"))).fails_with(1, &[]);
    for command in ["GC", "STATUS"] {
        pod.call("catena", command, &outer_with("cniVersion", json!("1.0.0"))).fails_with(1, &[]);
    }
}

#[test]
fn names() {
    for name in ["", "../x", "a b"] {
        refused(&outer_with("name", json!(name)), 7, &["name"]);
    }
    let mut conf = conf::catena(json!([one()]));
    conf.as_object_mut().expect("a config").remove("name");
    refused(&conf, 7, &["name"]);
}

#[test]
fn keys() {
    // In the CNI envelope unknown keys pass.
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = outer_with("somebodys", json!({"key": 1}));
    let result = pod.add(&outer).result();
    pod.del(&outer, Some(&result)).done();

    refused(&conf::catena(json!([])), 7, &["delegates"]);
    refused(&conf::catena(json!([{"config": one(), "frobnicate": 1}])), 2, &["frobnicate"]);
    refused(&conf::catena(json!([{"config": one(), "default-route": "10.0.0.1"}])), 7, &["default-route"]);
    refused(&conf::catena(json!([{"config": one(), "default-route": ["10.0.0.300"]}])), 7, &["10.0.0.300"]);
    refused(&conf::catena(json!([{"config": one(), "interface": "a/b"}])), 7, &["a/b"]);
    refused(&conf::catena(json!([{"config": one(), "mac": "xx"}])), 7, &["xx"]);
    refused(&conf::catena(json!([{"config": one(), "mac": "02:00:00:00:00:01"}])), 7, &["mac"]);
    refused(&conf::catena(json!([{"config": one(), "ips": ["10.0.0.1"]}])), 7, &["ips"]);
    refused(&conf::catena(json!([{"config": one(), "catena.dev/default-route": "some"}])), 7, &["some"]);
    refused(&conf::catena(json!([{"somewhere": "else"}])), 7, &[]);
    refused(
        &outer_with("pipeline", json!([{"stage": "network-status", "frobnicate": 1}])),
        2,
        &["frobnicate"],
    );
    refused(&outer_with("pipeline", json!([{"stage": "frobnicate"}])), 7, &["frobnicate"]);
    refused(&outer_with("pipeline", json!("frobnicate")), 7, &["frobnicate"]);
    refused(
        &outer_with("pipeline", json!([{"stage": "network-status", "onError": "ignore"}])),
        7,
        &["ignore"],
    );
    for config in [
        json!({"frobnicate": 1}),
        json!({"filter": ["ipv5"]}),
        json!({"override": ["10.0.0.1", 5]}),
        json!({"gateways": "some"}),
    ] {
        let failure = refused(&outer_with("pipeline", conf::pipeline(config)), 7, &["default-gateway"]);
        assert!(failure.text().contains("sha256:"), "the module's digest: {}", failure.text());
    }
    // Not the module's to judge.
    refused(&outer_with("pipeline", conf::pipeline(json!([]))), 7, &["default-gateway", "object"]);
}

#[test]
fn keys_that_need_kubernetes() {
    for (key, value) in [
        ("clusterNetwork", json!("net")),
        ("defaultNetworks", json!(["net"])),
        ("kubeconfig", json!("/etc/kubeconfig")),
        ("namespaceIsolation", json!(true)),
        ("globalNamespaces", json!("default")),
        ("systemNamespaces", json!(["kube-system"])),
        ("multusNamespace", json!("kube-system")),
        ("auxiliaryCNIChainName", json!("aux")),
        ("readinessindicatorfile", json!("/run/ready")),
    ] {
        refused(&outer_with(key, value), 2, &[key]);
    }
}

#[test]
fn node_files() {
    for (text, code, word) in [
        ("{", 6, "node.json"),
        (r#"{"frobnicate": 1}"#, 2, "frobnicate"),
        (r#"{"baseline": {"between": []}}"#, 2, "between"),
        (r#"{"deadlines": {"delegateSeconds": "x"}}"#, 7, "delegateSeconds"),
    ] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        world.write("/etc/catena/node.json", text);
        pod.add(&conf::catena(json!([one()]))).fails_with(code, &[word]);
        assert!(scripted::call_lines(&world).is_empty());
    }
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    world.write("/etc/catena/node.json", "{}");
    world.sh("chmod 666 /etc/catena/node.json");
    let failure = pod.add(&conf::catena(json!([one()]))).failure();
    assert!(failure.text().contains("node.json"), "{}", failure.text());
}

/// What is wrong in the node's file stops what is new, and nothing that has to go.
#[test]
fn a_broken_node_file_stops_no_del() {
    for broken in ["{", r#"{"frobnicate": 1}"#, r#"{"modules": {"site-policy": {"limits": {"fuel": 0}}}}"#] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let mut outer = conf::catena(json!([one()]));
        outer["logFile"] = json!("/var/log/catena.log");
        let result = pod.add(&outer).result();
        world.write("/etc/catena/node.json", broken);
        let failure = pod.check(&outer, &result).failure();
        assert!(failure.text().contains("node.json"), "{}", failure.text());
        let other = Pod::new(&world, "other");
        let failure = other.add(&outer).failure();
        assert!(failure.text().contains("node.json"), "{}", failure.text());
        pod.del(&outer, Some(&result)).done();
        world.sh("rm /etc/catena/node.json");
        Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
        let log = world.read("/var/log/catena.log");
        let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("a JSON line");
        assert!(last["notes"].to_string().contains("node.json"), "it is told: {last}");
    }
}

#[test]
fn paths_from_stdin() {
    for (key, value) in [("binDir", "/tmp"), ("cniDir", "/etc"), ("logFile", "/etc/passwd")] {
        let failure = refused(&outer_with(key, json!(value)), 7, &[value]);
        assert!(failure.text().contains(key), "{}", failure.text());
    }
}

#[test]
fn a_delegate_that_is_not_there() {
    let absent = json!({"cniVersion": conf::VERSION, "name": "absent", "type": "frobnicate"});
    refused(&conf::catena(json!([one(), absent])), 7, &["frobnicate"]);
    refused(&conf::catena(json!([{"cniVersion": conf::VERSION, "name": "x", "type": "../bin/sh"}])), 7, &[]);
}

#[test]
fn a_delegate_that_prints_nonsense() {
    for text in ["", "garbage", "[]", "\"x\"", "{} {}", "{\"cniVersion\""] {
        refused(&conf::catena(json!([one(), scripted::prints("two", text)])), 110, &["scripted", "net1"]);
    }
    // It failed and did not say why.
    for sh in ["exit 3", "echo oops; exit 3", "echo oops >&2; exit 3", "echo null; exit 3"] {
        refused(&conf::catena(json!([one(), scripted::runs("two", sh)])), 110, &["scripted", "net1"]);
    }
}

#[test]
fn a_delegate_that_floods() {
    let flood = scripted::runs("two", "head -c 20000000 /dev/zero | tr '\\0' x");
    refused(&conf::catena(json!([one(), flood])), 110, &["scripted", "net1"]);
    let flood = scripted::runs("two", "head -c 20000000 /dev/zero | tr '\\0' x >&2; echo '{}'");
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    pod.add(&conf::catena(json!([one(), flood]))).result();
}

#[test]
fn a_delegate_that_hangs() {
    let hangs = scripted::runs("two", "trap '' TERM; sleep 60 & sleep 60");
    refused(&conf::catena(json!([one(), hangs])), 111, &["scripted", "net1"]);
}

#[test]
fn a_delegate_that_dies() {
    // The shell kills the plugin that started it.
    let dies = scripted::runs("two", "kill -ABRT $PPID; sleep 1");
    refused(&conf::catena(json!([one(), dies])), 112, &["scripted", "net1", "SIGABRT"]);
}

#[test]
fn a_delegate_that_leaves_somebody_behind() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let mut two = scripted::veth("two", 2, Stack::V4, false);
    let sh = two["script"]["ADD"]["sh"].as_str().expect("a script").to_owned() + "sleep 20 &\n";
    two["script"]["ADD"]["sh"] = json!(sh);
    let reply = pod.add(&conf::catena(json!([one(), two])));
    reply.result();
    assert!(reply.output.elapsed < Duration::from_secs(20), "{:?}", reply.output.elapsed);
}

#[test]
fn a_request_that_no_plugin_can_meet() {
    let absent = asking(&one(), &["10.90.1.1", "fd00:90:7::1"]);
    // network 1 has no IPv6 here: the kernel refuses that gateway.
    refused(&conf::catena(json!([absent])), 108, &["fd00:90:7::1"]);
}

#[test]
fn control_characters_are_escaped() {
    let mean = scripted::conf(
        "two",
        json!({"ADD": {"sh": "printf '{\"cniVersion\":\"1.0.0\",\"code\":77,\"msg\":\"red \\\\u001b[31m\\\\nline\"}'; exit 1"}}),
    );
    let failure = refused(&conf::catena(json!([one(), mean])), 77, &["red"]);
    assert!(!failure.text().contains('\u{1b}'), "{:?}", failure.text());
}
