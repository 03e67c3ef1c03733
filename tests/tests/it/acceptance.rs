//! The rules that answers are checked by, against what containerd really made of results
//! (tests/vectors/containerd-acceptance.json).

use catena_tests::acceptance::{Asked, Runtime, cached_addresses, eth0_addresses, is_safe, libcni_cache};
use catena_tests::conf::{self, Stack};
use catena_tests::runtime::Pod;
use catena_tests::score::Score;
use catena_tests::vectors;
use catena_tests::world::World;
use serde_json::{Value, json};

/// Results that containerd crashes on or takes for an address `<nil>`: the rule here is stricter. Id, and what is said.
const DIFFERENT: [(&str, &str); 5] = [
    (
        "oob-len",
        "cannot use the CNI result: ips[0].interface is 1, which names none of its 1 interfaces, counted from 0",
    ),
    (
        "neg",
        "cannot use the CNI result: ips[0].interface is -1, which names none of its 1 interfaces, counted from 0",
    ),
    (
        "idx0-noifaces",
        "cannot use the CNI result: ips[0].interface is 0, which names none of its 0 interfaces, counted from 0",
    ),
    ("nulliface", "cannot read the CNI result: interfaces[0] is null"),
    ("addrmissing", "cannot read the CNI result: ips[0].address is missing"),
];

#[test]
fn the_rule_for_containerd_is_containerds() {
    let mut score = Score::of("containerd-acceptance");
    for case in vectors::cases("containerd-acceptance") {
        let id = case["id"].as_str().expect("an id");
        let ours = DIFFERENT.iter().find(|(different, _)| *different == id);
        let outcome = match (eth0_addresses(&case["result"]), ours) {
            (Err(error), Some((_, words))) if error.to_string() == *words => Ok(()),
            (Ok(addresses), None) if case["expect"] == "ok" => {
                let accepted = !addresses.is_empty();
                let same = case["accepted"] == accepted && case["eth0_ips"] == json!(addresses);
                if same { Ok(()) } else { Err(format!("{addresses:?} instead of {}", case["eth0_ips"])) }
            }
            (Err(_), None) if case["expect"] == "error" => Ok(()),
            (outcome, _) => Err(format!("{outcome:?}; the vector: {case}")),
        };
        score.add(id, ours.is_some(), outcome);
    }
    score.finish();
}

/// An answer that suits everybody.
fn good() -> Value {
    json!({
        "cniVersion": "1.0.0",
        "interfaces": [
            { "name": "br0", "mac": "02:00:00:00:00:01" },
            { "name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/pod" },
        ],
        "ips": [
            { "address": "192.0.2.5/24", "gateway": "192.0.2.1", "interface": 1 },
            { "address": "2001:db8::5/64", "interface": 1 },
        ],
        "dns": { "nameservers": ["192.0.2.53"] },
    })
}

const ASKED: Asked<'_> = Asked { version: "1.0.0", ifname: "eth0", netns: "/run/netns/pod" };

/// The good answer with this in the place of what was there.
fn with(pointer: &str, value: Value) -> Value {
    let mut answer = good();
    let (object, name) = pointer.rsplit_once('/').expect("a pointer");
    match answer.pointer_mut(object).expect("something there") {
        Value::Array(elements) => elements.insert(name.parse().expect("an index"), value),
        object => object[name] = value,
    }
    answer
}

fn without(pointer: &str) -> Value {
    let mut answer = good();
    let (object, name) = pointer.rsplit_once('/').expect("a pointer");
    match answer.pointer_mut(object).expect("something there") {
        Value::Array(elements) => drop(elements.remove(name.parse().expect("an index"))),
        object => drop(object.as_object_mut().expect("an object").remove(name)),
    }
    answer
}

/// Each rule refuses what breaks it.
#[test]
fn an_answer_that_is_not_safe_is_refused() {
    assert_eq!(is_safe(&good(), &ASKED), Ok(()));
    let host = json!({ "name": "veth0", "mac": "02:00:00:00:00:03" });
    let named = json!({ "name": "eth0", "mac": "02:00:00:00:00:03" });
    let second = json!({ "name": "net1", "mac": "02:00:00:00:00:04", "sandbox": "/run/netns/pod" });
    let bad = [
        (with("/cniVersion", json!("1.1.0")), "version"),
        (with("/ips/1/gateway", Value::Null), "null"),
        (with("/vendor", json!({ "a": [{ "b": null }] })), "null"),
        (with("/interfaces/0", Value::Null), "null"),
        (with("/ips/0/interface", json!(2)), "names none"),
        (with("/ips/0/interface", json!(-1)), "names none"),
        (with("/ips/0/interface", json!(0)), "not on the pod's interface"),
        (without("/ips/1/interface"), "not on the pod's interface"),
        (with("/ips/0", json!({ "address": "192.0.2.1/24", "interface": 0 })), "192.0.2.1/24 is not on"),
        (with("/ips/0/address", json!("192.0.2.5")), "prefix length"),
        (with("/interfaces/2", host), "follows"),
        (with("/interfaces/2", second), "follows"),
        (with("/interfaces/0/name", json!("eth0")), "too"),
        (with("/interfaces/2", named), "follows"),
        (with("/interfaces/1/name", json!("net1")), "called net1"),
        (with("/interfaces/1/sandbox", json!("/var/run/netns/pod")), "sandbox"),
        (without("/interfaces/1/sandbox"), "no interface is the pod's"),
        (without("/interfaces"), "names none"),
        (with("/interfaces/1/mac", json!("02:00:00:00:00")), "MAC"),
        (without("/interfaces/1/mac"), "MAC"),
    ];
    for (answer, words) in bad {
        let refused = is_safe(&answer, &ASKED).expect_err(&answer.to_string());
        assert!(refused.contains(words), "{answer}: {refused}");
    }
    let mut old = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "192.0.2.5/24" } });
    let asked = Asked { version: "0.2.0", ..ASKED };
    assert_eq!(is_safe(&old, &asked), Ok(()));
    old["ip4"]["gateway"] = Value::Null;
    assert!(is_safe(&old, &asked).is_err());
}

#[test]
fn what_a_runtime_refuses_is_refused() {
    let both = || Ok(vec!["192.0.2.5".to_owned(), "2001:db8::5".to_owned()]);
    for runtime in [Runtime::Containerd, Runtime::Podman, Runtime::Crio, Runtime::Libcni] {
        assert_eq!(runtime.addresses(&good(), "eth0"), both(), "{runtime:?}");
    }
    let bad = [
        (Runtime::Containerd, with("/interfaces/1/name", json!("net1"))),
        (Runtime::Containerd, with("/ips/1/interface", json!(2))),
        (Runtime::Containerd, with("/interfaces/0", Value::Null)),
        (Runtime::Containerd, with("/ips", json!([]))),
        (Runtime::Podman, without("/interfaces/1/mac")),
        (Runtime::Podman, with("/interfaces/1/mac", json!("02-00-00-00-00-02"))),
        (Runtime::Podman, with("/dns/nameservers/0", json!("ns.example"))),
        (Runtime::Podman, with("/ips/1/interface", json!(2))),
        (Runtime::Crio, with("/ips/0/address", json!("192.0.2.5"))),
        (Runtime::Crio, with("/ips/0", Value::Null)),
        (Runtime::Libcni, with("/interfaces/1/name", json!("net1"))),
        (Runtime::Libcni, with("/ips/1/interface", json!(-1))),
    ];
    for (runtime, answer) in bad {
        assert!(runtime.addresses(&answer, "eth0").is_err(), "{runtime:?}: {answer}");
    }
    // What they take for the pod's.
    let on_host = with("/ips/0", json!({ "address": "192.0.2.1/24", "interface": 0 }));
    let taken =
        |runtime: Runtime, answer: &Value| runtime.addresses(answer, "eth0").expect("addresses").len();
    assert_eq!(taken(Runtime::Crio, &on_host), 3, "whatever interface it is on");
    assert_eq!(taken(Runtime::Containerd, &on_host), 2);
    assert_eq!(taken(Runtime::Podman, &on_host), 2);
    assert_eq!(taken(Runtime::Containerd, &without("/ips/1/interface")), 2, "on eth0 if nothing is said");
    assert_eq!(taken(Runtime::Podman, &without("/ips/1/interface")), 1);
    assert!(cached_addresses(&json!({ "kind": "other", "result": good() })).is_err());
}

/// CRI-O calls CHECK at once, and takes the pod's addresses from what libcni has cached.
#[test]
fn as_crio_takes_it() {
    for stack in Stack::ALL {
        for delegate in
            [conf::ptp(1, stack), conf::bridge_with_default(1, stack), conf::bridge_and_tuning(1, stack)]
        {
            let world = World::new();
            let pod = Pod::new(&world, "pod");
            let outer = conf::catena(json!([delegate, conf::bridge(2, stack)]));
            let answer = pod.add(&outer).result();
            let cache = libcni_cache(&answer, &pod.ifname);
            pod.check(&outer, &cache["result"]).done();
            let asked = Asked { version: conf::VERSION, ifname: &pod.ifname, netns: &pod.netns };
            is_safe(&answer, &asked).unwrap_or_else(|error| panic!("{error}: {answer}"));
            let links = world.ip(Some(&pod.netns), "addr show dev eth0 scope global");
            let addresses =
                links.iter().flat_map(|link| link["addr_info"].as_array().cloned().unwrap_or_default());
            // ip(8) leaves an empty object for each address of another scope.
            let mut there: Vec<String> =
                addresses.filter_map(|address| address["local"].as_str().map(str::to_owned)).collect();
            let mut taken = cached_addresses(&cache).expect("addresses");
            there.sort();
            taken.sort();
            assert_eq!(taken, there, "{answer}");
            assert_eq!(taken.len(), stack.families().len());
            pod.del(&outer, Some(&answer)).done();
        }
    }
}
