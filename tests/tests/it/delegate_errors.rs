//! A delegate's own codes and details come through, and say whose they are.

use catena_tests::conf::{self, Stack};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::world::World;
use serde_json::{Value, json};

/// A delegate that fails these commands like this, and does all others well.
fn failing(commands: &[&str], code: i64) -> Value {
    let error = json!({
        "cniVersion": conf::VERSION, "code": code, "msg": "the reason", "details": "the particulars",
    });
    let mut conf = scripted::veth("two", 2, Stack::V4, false);
    for command in commands {
        conf["script"][*command] = json!({"result": error, "exit": 1});
    }
    conf
}

#[test]
fn of_add() {
    for code in [4, 7, 11, 50, 99, 100, 150, 999] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true), failing(&["ADD"], code)]));
        let failure =
            pod.add(&outer).fails_with(code, &["scripted", "net1", "the reason", "the particulars"]);
        assert!(failure.msg.contains("the reason"), "{failure:?}");
    }
}

#[test]
fn of_check() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true), failing(&["CHECK"], 11)]));
    let result = pod.add(&outer).result();
    pod.check(&outer, &result).fails_with(11, &["scripted", "net1", "the reason", "the particulars"]);
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn of_del() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true), failing(&["DEL"], 11)]));
    let result = pod.add(&outer).result();
    pod.del(&outer, Some(&result)).fails_with(11, &["scripted", "net1", "the reason", "the particulars"]);
}

#[test]
fn of_status() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let mut delegate = failing(&["STATUS"], 51);
    delegate["cniVersion"] = json!("1.1.0");
    let mut outer = conf::catena(json!([delegate]));
    outer["cniVersion"] = json!("1.1.0");
    pod.call("catena", "STATUS", &outer).fails_with(51, &["scripted", "the reason"]);
    // A delegate that does not list 1.1.0 is not asked.
    world.write("/run/scripted/versions.json", r#"{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}"#);
    world.sh("rm -f /run/catena/versions.json");
    outer["delegates"][0]["cniVersion"] = json!("1.0.0");
    pod.call("catena", "STATUS", &outer).done();
}

#[test]
fn the_first_error_leads_and_the_others_are_details() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let mut one = scripted::veth("one", 1, Stack::V4, true);
    one["script"]["DEL"] =
        json!({"result": {"cniVersion": "1.0.0", "code": 5, "msg": "cannot clean"}, "exit": 1});
    let outer = conf::catena(json!([one, failing(&["ADD"], 11)]));
    let failure = pod.add(&outer).fails_with(11, &["the reason"]);
    assert!(failure.details.contains("cannot clean"), "{failure:?}");
}

#[test]
fn of_a_reference_plugin() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let mut ptp = conf::ptp(1, Stack::V4);
    ptp["ipam"] = json!({"type": "host-local", "ranges": [[{"subnet": "nonsense"}]]});
    let failure = pod.add(&conf::catena(json!([ptp]))).failure();
    assert!(failure.text().contains("ptp") && failure.text().contains("nonsense"), "{failure:?}");
}
