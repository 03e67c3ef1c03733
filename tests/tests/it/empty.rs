//! Empty results: what is left out of them is not invented, and what is there is found.

use catena_tests::conf::{self, Family, Stack, asking};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{self, Traces, defaults, via};
use catena_tests::world::World;
use serde_json::{Value, json};

/// Results without anything in them.
const EMPTY: [&str; 5] = [
    "{}",
    "null",
    r#"{"cniVersion":"1.0.0","interfaces":[]}"#,
    r#"{"cniVersion":"1.0.0","interfaces":[],"ips":[],"routes":[],"dns":{}}"#,
    r#"{"cniVersion":"0.2.0","dns":{}}"#,
];

#[test]
fn from_a_secondary() {
    for text in EMPTY {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let outer = conf::catena(json!([
            scripted::veth("one", 1, Stack::V4, true),
            {"name": "nothing", "namespace": "ns", "config": scripted::prints("two", text)},
        ]));
        let result = pod.add(&outer).result();
        assert_eq!(defaults(&world, &pod.netns, Family::V4), [via("10.90.1.1", "eth0", 0)]);
        let status = pod.status("outer");
        assert_eq!(status.len(), 2, "{text}: {status:?}");
        assert_eq!(status[1]["name"], "ns/nothing", "{text}");
        assert_eq!(status[1]["default"], false, "{text}");
        assert!(status[1].get("ips").is_none_or(|ips| *ips == json!([])), "{text}: {status:?}");
        pod.check(&outer, &result).done();
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&before, text);
    }
}

#[test]
fn from_the_primary() {
    for text in EMPTY {
        for version in ["0.2.0", "0.3.0", "0.4.0", "1.0.0", "1.1.0"] {
            let world = World::new();
            let pod = Pod::new(&world, "pod");
            let before = Traces::of(&world, Some(&pod.netns));
            let mut outer = conf::catena(json!([scripted::prints("one", text)]));
            outer["cniVersion"] = json!(version);
            let reply = pod.add(&outer);
            if version == "0.2.0" {
                let failure = reply.failure();
                assert!(failure.text().contains("0.2.0"), "{text}: {}", failure.text());
            } else {
                let result = reply.result();
                assert_eq!(result["cniVersion"], version, "{text}");
                assert!(result.get("ips").is_none_or(|ips| *ips == json!([])), "{text}: {result}");
                assert!(result.get("interfaces").is_none_or(Value::is_array), "{text}: {result}");
                let status = pod.status("outer");
                assert_eq!(status.len(), 1, "{text}: {status:?}");
                assert_eq!(status[0]["name"], "one", "{text}");
                assert_eq!(status[0]["default"], true, "{text}");
                pod.del(&outer, Some(&result)).done();
            }
            Traces::of(&world, Some(&pod.netns)).same_as(&before, text);
        }
    }
}

#[test]
fn that_asked_for_the_default_route() {
    for text in EMPTY {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let outer = conf::catena(json!([
            scripted::veth("one", 1, Stack::V4, true),
            asking(&scripted::prints("two", text), &["10.90.2.1"]),
        ]));
        let failure = pod.add(&outer).failure();
        assert!(failure.text().contains("net1") || failure.text().contains("two"), "{}", failure.text());
        Traces::of(&world, Some(&pod.netns)).same_as(&before, text);
    }
}

/// The reference plugin `static` at the end of a list answers `{}`, whatever came before it.
#[test]
fn while_the_link_is_there() {
    for kind in ["macvlan", "bridge"] {
        let world = World::new();
        world.sh("ip link add vm0 type veth peer name vm1; ip link set vm0 up; ip link set vm1 up");
        let pod = Pod::new(&world, "pod");
        let mut first = json!({
            "type": kind, "ipam": conf::host_local(2, Stack::V4, true),
        });
        if kind == "macvlan" {
            first["master"] = json!("vm0");
        } else {
            first["bridge"] = json!("br2");
        }
        let list = json!({
            "cniVersion": conf::VERSION, "name": "two", "plugins": [first, {"type": "static", "ipam": {}}],
        });
        let alone = World::without_catena();
        alone.sh("ip link add vm0 type veth peer name vm1; ip link set vm0 up; ip link set vm1 up");
        let twin = Pod::new(&alone, "pod");
        let result = twin.add_list(&list);
        assert!(result.get("interfaces").is_none() && result.get("ips").is_none(), "{kind}: {result}");
        assert_eq!(defaults(&alone, &twin.netns, Family::V4), [via("10.90.2.1", "eth0", 0)]);

        let mut outer = conf::catena(json!([list]));
        outer["pipeline"] = conf::pipeline(json!({"filter": ["ipv4"]}));
        let result = pod.add(&outer).result();
        assert_eq!(defaults(&world, &pod.netns, Family::V4), [], "{kind}: a filter takes it away");
        assert_eq!(state::links(&world, Some(&pod.netns)), ["eth0"]);
        pod.del(&outer, Some(&result)).done();
        assert!(state::links(&world, Some(&pod.netns)).is_empty());
    }
}

#[test]
fn may_be_rejected() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut outer =
        conf::catena(json!([scripted::veth("one", 1, Stack::V4, true), scripted::prints("two", "{}"),]));
    outer["pipeline"] = json!([
        {"stage": "result-conversion"}, {"stage": "empty-result", "config": {"mode": "reject"}},
        {"stage": "default-gateway", "unless": ["empty"]}, {"stage": "network-status"},
    ]);
    pod.add(&outer).fails_with(105, &["empty-result", "sha256:", "net1"]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a rejected ADD");
}
