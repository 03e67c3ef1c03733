//! Results of old and future versions, and results that nobody can read.

use catena_tests::conf::{self, Family, Stack, asking};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{Traces, defaults, via};
use catena_tests::world::World;
use serde_json::{Value, json};

/// A delegate that makes network 2's link and answers this.
fn link_and(answer: &Value) -> Value {
    scripted::conf(
        "two",
        json!({
            "ADD": {"sh": scripted::veth_script(2, Stack::Dual), "result": answer},
            "DEL": {"sh": scripted::delete_script(2)},
        }),
    )
}

fn old_result() -> Value {
    json!({
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.90.2.9/24", "gateway": "10.90.2.1"}, "ip6": {"ip": "fd00:90:2::9/64"},
    })
}

#[test]
fn an_old_result_with_an_address_is_not_empty() {
    for (family, gateway) in [(Family::V4, "10.90.2.1"), (Family::V6, "fd00:90:2::1")] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let mut second = link_and(&old_result());
        second["cniVersion"] = json!("0.2.0");
        let outer =
            conf::catena(json!([scripted::veth("one", 1, Stack::Dual, true), asking(&second, &[gateway]),]));
        let result = pod.add(&outer).result();
        assert_eq!(defaults(&world, &pod.netns, family), [via(gateway, "net1", family.metric())]);
        let status = pod.status("outer");
        assert_eq!(status[1]["ips"], json!(["10.90.2.9", "fd00:90:2::9"]), "{status:?}");
        assert_eq!(pod.cached("two", "net1")["cniVersion"], "0.2.0", "the cache has the list's own version");
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
    }
}

#[test]
fn an_old_primary_is_answered_in_the_version_asked_for() {
    for version in ["0.1.0", "0.4.0", "1.0.0", "1.1.0"] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let mut first = link_and(&old_result());
        first["cniVersion"] = json!("0.2.0");
        let mut outer = conf::catena(json!([first]));
        outer["cniVersion"] = json!(version);
        let result = pod.add(&outer).result();
        assert_eq!(result["cniVersion"], version);
        let address = if version == "0.1.0" { &result["ip4"]["ip"] } else { &result["ips"][0]["address"] };
        assert_eq!(address, "10.90.2.9/24", "{result}");
        pod.del(&outer, Some(&result)).done();
    }
}

/// Results that cannot be converted, each with an address that a reader may find.
fn unreadable() -> Vec<(&'static str, Value)> {
    let base =
        || json!({"cniVersion": "1.0.0", "interfaces": [{"name": "$CNI_IFNAME", "sandbox": "$CNI_NETNS"}]});
    let with = |key: &str, value: Value| {
        let mut result = base();
        result[key] = value;
        result
    };
    let future = {
        let mut result = with("ips", json!([{"address": "10.90.2.9/24", "interface": 0}]));
        result["cniVersion"] = json!("2.0.0");
        result
    };
    vec![
        ("future version", future),
        ("bad address", with("ips", json!([{"address": "10.90.2.999/24", "interface": 0}]))),
        ("null in ips", with("ips", json!([null]))),
        ("null in interfaces", json!({"cniVersion": "1.0.0", "interfaces": [null]})),
        ("index out of range", with("ips", json!([{"address": "10.90.2.9/24", "interface": 7}]))),
        ("negative index", with("ips", json!([{"address": "10.90.2.9/24", "interface": -1}]))),
        ("ips is text", with("ips", json!("10.90.2.9/24"))),
        ("route without destination", with("routes", json!([{"gw": "10.90.2.1"}]))),
    ]
}

#[test]
fn from_a_secondary_it_is_kept() {
    for (what, answer) in unreadable() {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let outer = conf::catena(json!([scripted::veth("one", 1, Stack::Dual, true), link_and(&answer)]));
        let result = pod.add(&outer).result();
        assert_eq!(defaults(&world, &pod.netns, Family::V4), [via("10.90.1.1", "eth0", 0)], "{what}");
        assert_eq!(pod.status("outer").len(), 2, "{what}");
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&before, what);
    }
}

#[test]
fn from_a_secondary_that_asked_for_the_default_route_it_is_an_error() {
    for (what, answer) in unreadable() {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let outer = conf::catena(json!([
            scripted::veth("one", 1, Stack::Dual, true),
            asking(&link_and(&answer), &["10.90.2.1"]),
        ]));
        let failure = pod.add(&outer).failure();
        assert!(
            failure.text().contains("two") || failure.text().contains("net1"),
            "{what}: {}",
            failure.text()
        );
        Traces::of(&world, Some(&pod.netns)).same_as(&before, what);
    }
}

/// As the answer it stays as it is, but for nulls.
#[test]
fn from_the_primary_it_is_the_answer_in_its_own_version() {
    let interfaces = json!([{"name": "eth0", "sandbox": "/run/netns/pod"}]);
    let bad = "10.90.2.999/24";
    let cases = [
        (
            json!({"cniVersion": "1.0.0", "interfaces": interfaces, "dns": null,
                   "ips": [{"address": bad, "gateway": null, "interface": 0}], "vendor": {"a": {"b": null}}}),
            Ok(json!({"cniVersion": "1.0.0", "interfaces": interfaces,
                      "ips": [{"address": bad, "interface": 0}], "vendor": {"a": {}}})),
        ),
        (
            json!({"cniVersion": "0.2.0", "ip4": {"ip": bad, "gateway": null}}),
            Ok(json!({"cniVersion": "0.2.0", "ip4": {"ip": bad}})),
        ),
        (json!({"cniVersion": "0.2.0", "ip4": {"ip": bad, "routes": [null]}}), Err("ip4.routes[0]")),
        (json!({"cniVersion": "1.0.0", "ips": [null]}), Err("ips[0]")),
        (
            json!({"cniVersion": "1.0.0", "ips": [{"address": bad}], "vendor": [{"a": [null]}]}),
            Err("vendor[0].a[0]"),
        ),
    ];
    for (answer, expected) in cases {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let mut first = link_and(&answer);
        first["cniVersion"] = answer["cniVersion"].clone();
        let mut outer = conf::catena(json!([first]));
        outer["cniVersion"] = answer["cniVersion"].clone();
        let reply = pod.add(&outer);
        match expected {
            Ok(expected) => {
                assert_eq!(reply.result(), expected);
                pod.del(&outer, Some(&expected)).done();
            }
            Err(place) => drop(reply.fails_with(106, &["null", place])),
        }
        Traces::of(&world, Some(&pod.netns)).same_as(&before, &answer.to_string());
    }
}

#[test]
fn from_the_primary_it_is_an_error_and_undone() {
    for (what, answer) in unreadable() {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let mut outer = conf::catena(json!([link_and(&answer)]));
        outer["cniVersion"] = json!("0.4.0");
        pod.add(&outer).failure();
        Traces::of(&world, Some(&pod.netns)).same_as(&before, what);
    }
}
