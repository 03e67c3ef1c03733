//! Capability arguments, from the runtime and from an attachment's requests to the delegates.

use catena_tests::conf;
use catena_tests::runtime::Pod;
use catena_tests::score::Score;
use catena_tests::scripted;
use catena_tests::vectors;
use catena_tests::world::World;
use serde_json::{Map, Value, json};

/// A delegate that declares these capabilities.
fn declaring<'a>(name: &str, capabilities: impl IntoIterator<Item = &'a str>) -> Value {
    let mut delegate = scripted::conf(name, json!({}));
    let declared: Map<String, Value> =
        capabilities.into_iter().map(|capability| (capability.to_owned(), json!(true))).collect();
    delegate["capabilities"] = Value::Object(declared);
    delegate
}

/// What the delegate of this network got as `runtimeConfig` with its last ADD.
fn got(world: &World, network: &str) -> Value {
    let calls = scripted::calls(world);
    let add = calls.iter().rev().find(|call| call["command"] == "ADD" && call["stdin"]["name"] == network);
    add.expect("an ADD")["stdin"]["runtimeConfig"].clone()
}

/// One capability argument, as the runtime's own and, where an attachment can ask for it, as asked for by one.
fn comes_through(world: &World, name: &str, value: &Value, number: usize) -> Result<(), String> {
    let pod = Pod { id: format!("c{number}"), ..Pod::new(world, &format!("p{number}")) };
    let declared = || declaring("first", [name]);
    let second = || declaring("second", [name]);
    let mut outer = conf::catena(json!([declared(), second()]));
    outer["capabilities"] = json!({ name: true });
    outer["runtimeConfig"] = json!({ name: value });
    pod.add(&outer).result();
    if got(world, "first") != json!({ name: value }) {
        return Err(format!("the primary got {}", got(world, "first")));
    }
    if !got(world, "second").is_null() {
        return Err(format!("another than the primary got {}", got(world, "second")));
    }
    pod.del(&outer, None).done();
    if !["portMappings", "bandwidth"].contains(&name) {
        return Ok(());
    }
    let asking = json!({ "config": second(), name: value });
    let outer = conf::catena(json!([declared(), asking]));
    pod.add(&outer).result();
    let second_got = got(world, "second");
    pod.del(&outer, None).done();
    if second_got == json!({ name: value }) { Ok(()) } else { Err(format!("asked for, it got {second_got}")) }
}

#[test]
fn in_both_spellings() {
    let world = World::new();
    let mut score = Score::of("runtime-capabilities");
    let document = vectors::document("runtime-capabilities");
    let mut number = 0;
    for spelling in ["containerd", "conventions"] {
        for (name, value) in document[spelling].as_object().expect("capabilities") {
            number += 1;
            let id = format!("{spelling} {name}");
            score.add(&id, false, comes_through(&world, name, value, number));
        }
    }
    score.finish();
    assert_eq!(number, 10);
}

/// Where the delegates of this test describe their devices, as seen in the world.
const DEVICES: &str = "/var/run/k8s.cni.cncf.io/devinfo/cni";

/// A delegate that declares the capability and writes `content` to the file of its attachment.
fn describing(name: &str, content: &str) -> Value {
    let mut delegate = declaring(name, ["CNIDeviceInfoFile"]);
    let file = format!("{DEVICES}/{name}-${{CNI_CONTAINERID}}_$CNI_IFNAME");
    delegate["script"] = json!({"ADD": {"sh": format!("printf '%s' '{content}' >{file}"), "result": {}}});
    delegate
}

fn described(world: &World) -> String {
    world.sh(&format!("ls {DEVICES}"))
}

#[test]
fn a_delegate_describes_its_device() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let device = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:d8:00.2"}});
    let plain = scripted::conf("plain", json!({}));
    let silent = declaring("silent", ["CNIDeviceInfoFile"]);
    let outer = conf::catena(json!([
        describing("first", &device.to_string()),
        plain,
        silent,
        describing("last", "{\"type\": \"vdpa\"}")
    ]));
    // Of an attachment that is long gone.
    world.sh(&format!("mkdir -p {DEVICES}; echo '{{\"type\": \"stale\"}}' >{DEVICES}/silent-id-pod_net2"));
    let result = pod.add(&outer).result();

    let path =
        |name: &str, ifname: &str| json!({"CNIDeviceInfoFile": format!("{DEVICES}/{name}-id-pod_{ifname}")});
    assert_eq!(got(&world, "first"), path("first", "eth0"));
    assert_eq!(got(&world, "silent"), path("silent", "net2"));
    assert_eq!(got(&world, "last"), path("last", "net3"));
    assert!(got(&world, "plain").is_null());
    let status = pod.status("outer");
    let told: Vec<&Value> = status.iter().map(|element| &element["device-info"]).collect();
    assert_eq!(told, [&device, &Value::Null, &Value::Null, &json!({"type": "vdpa"})]);

    assert_eq!(described(&world), "first-id-pod_eth0\nlast-id-pod_net3\n");
    pod.check(&outer, &result).done();
    pod.del(&outer, Some(&result)).done();
    assert_eq!(described(&world), "");
    let calls = scripted::calls(&world);
    let deleted = calls.iter().find(|call| call["command"] == "DEL" && call["stdin"]["name"] == "last");
    assert_eq!(deleted.expect("a DEL")["stdin"]["runtimeConfig"], path("last", "net3"));
}

#[test]
fn a_device_that_is_not_described_in_json_is_an_error_and_undone() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([describing("first", "{}"), describing("second", "a device")]));
    pod.add(&outer).fails_with(110, &["network second", "second-id-pod_net1", "not JSON"]);
    assert_eq!(described(&world), "");
    // What cannot be deleted is described until it is.
    let outer = conf::catena(json!([describing("first", "{}")]));
    let result = pod.add(&outer).result();
    scripted::change(&world, "first", &json!({"DEL": {"exit": 1, "result": {"code": 7, "msg": "no"}}}));
    pod.del(&outer, Some(&result)).fails_with(7, &["no"]);
    assert_eq!(described(&world), "first-id-pod_eth0\n");
    scripted::change(&world, "first", &json!({}));
    pod.del(&outer, None).done();
    assert_eq!(described(&world), "");
}

/// A path that stdin names may be any file of the node.
#[test]
fn a_file_that_the_runtime_names_is_passed_on_and_left_alone() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    world.write("/run/theirs", "{\"type\": \"theirs\"}");
    let mut outer = conf::catena(json!([declaring("first", ["CNIDeviceInfoFile"])]));
    outer["capabilities"] = json!({"CNIDeviceInfoFile": true});
    outer["runtimeConfig"] = json!({"CNIDeviceInfoFile": "/run/theirs"});
    let result = pod.add(&outer).result();
    assert_eq!(got(&world, "first"), outer["runtimeConfig"]);
    assert!(pod.status("outer")[0]["device-info"].is_null());
    pod.del(&outer, Some(&result)).done();
    assert_eq!(world.read("/run/theirs"), "{\"type\": \"theirs\"}");
}
