//! The examples of `sdk/examples` in Rust, built with `catenactl build`, tried, and in a real pod.

use std::path::{Path, PathBuf};

use catena_tests::conf::{self, Family, Stack};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{self, via};
use catena_tests::world::{CATENACTL, World};
use serde_json::{Value, json};

use crate::tutorial::author_command;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/examples").join(name)
}

/// Builds it, and runs it on a fixture of its own; returns the module and the report.
fn built(name: &str, fixture: &str) -> (Vec<u8>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let wasm = folder.path().join("module.wasm");
    let script = format!(
        "catenactl build . --output {wasm} >/dev/null && catenactl run --json {wasm} fixtures/{fixture}.json",
        wasm = wasm.display()
    );
    let output = author_command(&script, &example(name)).output().expect("bash");
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (std::fs::read(&wasm).expect("a module"), report)
}

fn install(world: &World, name: &str, module: &[u8], grants: &[&str]) {
    world.write("/tmp/module.wasm", module);
    let mut args = vec!["install", name, "/tmp/module.wasm"];
    args.extend(grants.iter().flat_map(|grant| ["--grant", grant]));
    let output = world.run(CATENACTL, &args);
    assert_eq!(output.exit, Some(0), "{}", output.stderr);
}

#[test]
fn deny_network() {
    let (module, report) = built("deny-network", "denied");
    assert_eq!(report["error"]["code"], 105, "{report:#}");
    assert_eq!(report["error"]["msg"], "network storage is not for pods of namespace shop");
    let world = World::new();
    install(&world, "deny-network", &module, &[]);
    let pod = Pod::new(&world, "pod");
    let mut outer = conf::catena(json!([
        scripted::veth("front", 1, Stack::V4, true),
        scripted::veth("storage", 2, Stack::V4, false),
    ]));
    outer["pipeline"] = json!([{"stage": "deny-network", "config": {"networks": ["storage"]}}, {"stage": "result-conversion"}]);
    pod.add(&outer).fails_with(105, &["network storage is not for pods of namespace default"]);
    assert!(scripted::call_lines(&world).is_empty(), "a denied pod has had no side effects");
    outer["pipeline"][0]["config"]["except"] = json!(["default"]);
    let result = pod.add(&outer).result();
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn route_override() {
    let (module, report) = built("route-override", "swap");
    assert_eq!(
        report["routeChanges"],
        json!([
            "+ 192.0.2.0/24 via 10.1.0.254 dev eth0 proto static",
            "- default via 10.1.0.1 dev eth0 proto boot"
        ]),
        "{report:#}"
    );
    let world = World::new();
    let grants =
        [r#"routes={"ops":["read","delete-default","delete","add"]}"#, r#"result=["routes"]"#, "log=true"];
    install(&world, "route-override", &module, &grants);
    let pod = Pod::new(&world, "pod");
    let mut outer = conf::catena(json!([scripted::veth("front", 1, Stack::V4, true)]));
    let config = json!({"flushgateway": true, "addroutes": [{"dst": "192.0.2.0/24", "gw": "10.90.1.1"}]});
    outer["pipeline"] =
        json!([{"stage": "result-conversion"}, {"stage": "route-override", "config": config}]);
    assert_eq!(state::defaults(&world, &pod.netns, Family::V4), []);
    let result = pod.add(&outer).result();
    assert_eq!(result["routes"], json!([{"dst": "192.0.2.0/24", "gw": "10.90.1.1"}]));
    assert_eq!(state::defaults(&world, &pod.netns, Family::V4), []);
    let routes = world.pod_sh(&pod.netns, "ip -4 route");
    assert!(routes.contains("192.0.2.0/24 via 10.90.1.1 dev eth0"), "{routes}");
    pod.check(&outer, &result).done();
    world.pod_sh(&pod.netns, "ip route add default via 10.90.1.1 dev eth0");
    assert!(pod.check(&outer, &result).failure().msg.contains("again"));
    pod.del(&outer, Some(&result)).done();

    // Without it the default route stays.
    outer["pipeline"] = json!([{"stage": "result-conversion"}]);
    let result = pod.add(&outer).result();
    assert_eq!(state::defaults(&world, &pod.netns, Family::V4), [via("10.90.1.1", "eth0", 0)]);
    pod.del(&outer, Some(&result)).done();
}
