//! `catenactl run` and `bench`: a pipeline or a module on a pod that is not there.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::install::{json_of, refused};
use crate::stage::{ANSWER, Node, component, stage, wanting};

/// Two networks with default routes, of which the second asks for the pod's.
fn fixture(node: &Node, change: impl FnOnce(&mut Value)) -> PathBuf {
    let result = |n: u8| {
        json!({
            "cniVersion": "1.0.0", "ips": [{"address": format!("10.{n}.0.9/24"), "gateway": format!("10.{n}.0.1")}],
            "routes": [{"dst": "0.0.0.0/0"}]
        })
    };
    let delegate = |name: &str| json!({"cniVersion": "1.0.0", "name": name, "type": "ptp"});
    let mut fixture = json!({
        "conf": {
            "cniVersion": "1.0.0", "name": "outer", "type": "catena",
            "delegates": [delegate("one"), {"config": delegate("two"), "default-route": ["10.2.0.1"]}],
        },
        "results": [result(1), result(2)],
        "routes": [
            "10.1.0.0/24 dev eth0 proto kernel scope link", "default via 10.1.0.1 dev eth0",
            "10.2.0.0/24 dev net1 proto kernel scope link", "default via 10.2.0.1 dev net1 metric 10",
        ],
    });
    change(&mut fixture);
    node.write("/tmp/fixture.json", fixture.to_string())
}

#[test]
fn the_default_pipeline_on_a_fixture() {
    let node = Node::new();
    let file = fixture(&node, |_| {});
    let report = json_of(node.ctl(&["run", file.to_str().unwrap(), "--json"]));
    assert_eq!(report["attachments"][1]["intent"]["ipv4"]["action"], "override", "{report:#}");
    let changes = report["routeChanges"].to_string();
    for part in [
        "- default via 10.1.0.1 dev eth0",
        "+ default via 10.2.0.1 dev net1",
        "- default via 10.2.0.1 dev net1 proto boot metric 10",
    ] {
        assert!(changes.contains(part), "{part} in {changes}");
    }
    assert_eq!(report["answer"]["cniVersion"], "1.0.0");
    assert_eq!(report["answer"]["routes"], Value::Null);
    let stages = report["attachments"][1]["stages"].as_array().unwrap();
    let gateway = stages.iter().find(|stage| stage["stage"] == "default-gateway").unwrap();
    assert!(
        gateway["fuel"].as_u64().unwrap() > 1000 && gateway["memory"].as_u64().unwrap() > 1000,
        "{gateway}"
    );
    assert!(report["attachments"][1]["publications"].to_string().contains("two"));
    // Nothing of it is anywhere.
    assert!(!node.path("/var").exists() && !node.path("/run").exists());

    let text = String::from_utf8(node.ctl(&["run", file.to_str().unwrap()]).stdout).unwrap();
    for word in
        ["attachment 1: two as net1", "- /routes", "fuel", "publishes", "routes     - default", "answer"]
    {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

#[test]
fn a_pipeline_from_a_file_and_one_of_the_nodes() {
    let node = Node::new();
    let file = fixture(&node, |_| {});
    let file = file.to_str().unwrap();
    let next = node.write("/tmp/next.json", r#"[{"stage": "result-conversion"}]"#);
    // Then nobody carries out what was asked for.
    let output = node.ctl(&["run", "--pipeline", next.to_str().unwrap(), file, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["error"]["code"], &report["routeChanges"]), (&json!(107), &json!([])), "{report:#}");

    node.write(
        "/etc/catena/node.json",
        json!({"pipelines": {"none": []}, "stdinPipelines": "none"}).to_string(),
    );
    assert_eq!(node.ctl(&["run", "--pipeline", "none", file]).status.code(), Some(1));
    refused(node.ctl(&["run", "--pipeline", "other", file]), 1, &["\"other\"", "none"]);
    refused(node.ctl(&["run", "--pipeline", file, file]), 1, &["array of pipeline entries"]);
    refused(node.ctl(&["run", "--pipeline", "none", "x.wasm", file]), 2, &["fixture alone"]);
}

#[test]
fn a_module_from_a_file_has_what_it_asks_for() {
    let node = Node::new();
    let file = fixture(&node, |fixture| fixture["config"] = json!({"a": 1}));
    let file = file.to_str().unwrap();
    let logs = stage(
        r#"(import "catena:stage/log@0.1.0" "write" (func $write (param i32 i32 i32))) (data (i32.const 8) "it ran")"#,
        &format!("(call $write (i32.const 1) (i32.const 8) (i32.const 6)) {ANSWER}"),
    );
    let module = node.write("/tmp/logs.wasm", logs);
    let module = module.to_str().unwrap();
    let output = node.ctl(&["run", module, file, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["granted"], json!({"logs": {"log": true}}));
    assert_eq!(report["attachments"][0]["stages"][1]["log"], json!(["info: it ran"]), "{report:#}");
    assert!(!node.path("/var/lib/catena/modules").exists(), "nothing is installed");
    // In the place of a built-in one.
    let report = node.ctl(&["run", "--module", &format!("network-status={module}"), file, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report["attachments"][1]["stages"].to_string().contains("it ran"), "{report:#}");
    assert_eq!(report["attachments"][1]["publications"], json!({}));

    let denies = component(
        "admitter",
        "",
        r#"(data (i32.const 2048) "no\1b[2J")"#,
        // err(denied("no…"))
        r#"(func (export "catena:stage/admit@0.1.0#admit") 
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
            (i32.store8 (i32.const 1024) (i32.const 1)) (i32.store8 (i32.const 1028) (i32.const 2))
            (i32.store (i32.const 1032) (i32.const 2048)) (i32.store (i32.const 1036) (i32.const 6))
            (i32.const 1024))"#,
    );
    let module = node.write("/tmp/denies.wasm", denies);
    let output = node.ctl(&["run", module.to_str().unwrap(), file]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "a denial is no");
    assert!(text.contains("code 105: no\\") && !text.contains('\u{1b}'), "{text}");
}

/// The first attachment's record of a module's file that is tried, with the whole report.
fn tried(node: &Node, module: &[u8], fixture: &str) -> (Value, Value) {
    let file = node.write("/tmp/tried.wasm", module);
    let output = node.ctl(&["run", file.to_str().unwrap(), fixture, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report["attachments"][0]["stages"][1].clone(), report)
}

#[test]
fn a_module_that_wants_folders_is_tried_without() {
    let node = Node::new();
    let file = fixture(&node, |_| {});
    let module =
        wanting(&stage("", ANSWER), r#"{"dirs": {"/var/lib/quotas": "rw"}, "publish": ["example.com/x"]}"#);
    let (record, report) = tried(&node, &module, file.to_str().unwrap());
    assert_eq!(record["outcome"], "ok", "{report:#}");
    assert_eq!(report["granted"], json!({"tried": {"publish": ["example.com/x"]}}));
    let path = node.path("/tmp/tried.wasm");
    let output = node.ctl(&["bench", path.to_str().unwrap(), file.to_str().unwrap(), "-n", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_module_from_a_file_has_the_limits_of_its_name() {
    let node = Node::new();
    let file = fixture(&node, |_| {});
    let large = stage("(memory $large 513)", ANSWER);
    let (record, report) = tried(&node, &large, file.to_str().unwrap());
    assert!(record["error"].as_str().is_some_and(|error| error.contains("limits.memoryMiB")), "{report:#}");
    let rule = json!({"modules": {"tried": {"limits": {"memoryMiB": 64}}}});
    node.write("/etc/catena/node.json", rule.to_string());
    let (record, report) = tried(&node, &large, file.to_str().unwrap());
    assert_eq!(record["outcome"], "ok", "{report:#}");
}

#[test]
fn a_config_that_nobody_gets_is_told() {
    let node = Node::new();
    let file = fixture(&node, |fixture| fixture["config"] = json!({"a": 1}));
    let file = file.to_str().unwrap();
    let next = node.write("/tmp/next.json", r#"[{"stage": "result-conversion"}]"#);
    let next = next.to_str().unwrap();
    for verb in ["run", "bench"] {
        for args in [&[file][..], &["--pipeline", next, file]] {
            let args = [&[verb, "--config", "{}"], args].concat();
            refused(node.ctl(&args), 2, &["--config", "name one before the fixture"]);
        }
        let output = node.ctl(&[verb, file, "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes = report["notes"].to_string();
        assert!(notes.contains("fixture.json has no effect"), "{verb}: {report:#}");
    }
}

#[test]
fn a_fixture_that_is_wrong_is_told_where() {
    let node = Node::new();
    for (change, words) in [
        ((|f| f["conf"]["delegates"][0] = json!(1)) as fn(&mut Value), &["conf: ", "delegates[0]"][..]),
        (|f| f["routes"][0] = json!("default via nowhere"), &["routes: ", "nowhere"]),
        (|f| f["speed"] = json!(1), &["speed"]),
        (|f| f["ifname"] = json!("a/b"), &["ifname: "]),
        (|f| f["config"] = json!([]), &["config must be an object"]),
    ] {
        let file = fixture(&node, change);
        let mut all = vec!["fixture.json"];
        all.extend(words);
        refused(node.ctl(&["run", file.to_str().unwrap()]), 1, &all);
    }
    refused(node.ctl(&["run", "/nowhere.json"]), 1, &["/nowhere.json"]);
}

#[test]
fn bench_tells_fuel_and_time_of_each_call() {
    let node = Node::new();
    let file = fixture(&node, |_| {});
    let report = json_of(node.ctl(&["bench", file.to_str().unwrap(), "-n", "3", "--json"]));
    assert_eq!(report["runs"], 3);
    let stages = report["stages"].as_array().unwrap();
    assert!(stages.iter().any(|stage| stage["call"] == "default-gateway stage net1"), "{report:#}");
    assert!(stages.iter().all(|stage| stage["fuel"].as_u64().unwrap() > 0), "{report:#}");
    let text = String::from_utf8(node.ctl(&["bench", file.to_str().unwrap(), "-n", "3"]).stdout).unwrap();
    assert!(text.contains("3 runs") && text.contains("KiB"), "{text}");
}

#[test]
fn what_takes_longer_than_a_second_says_so() {
    let node = Node::new();
    let file = fixture(&node, |_| {});
    let module = node.write("/tmp/loops.wasm", stage("", "(loop $l (br $l)) (unreachable)"));
    let bench = |runs: &str| {
        let output =
            node.ctl(&["bench", module.to_str().unwrap(), file.to_str().unwrap(), "-n", runs, "--json"]);
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(bench("1"), "");
    // Each of them has to use up its fuel, some ten milliseconds.
    assert_eq!(bench("120"), "catenactl: 120 runs …\n");
}

#[test]
fn a_name_is_one_module() {
    let node = Node::new();
    let fixture = fixture(&node, |_| {});
    let module = node.write("/tmp/x.wasm", stage("", ANSWER));
    let (fixture, module) = (fixture.to_str().unwrap(), module.to_str().unwrap());
    let named = format!("x={module}");
    let words = ["module x is to be", "name it once"];
    refused(node.ctl(&["run", fixture, "--module", &named, "--module", &named]), 2, &words);
    refused(node.ctl(&["run", module, fixture, "--module", &named]), 2, &words);
    let repeated = r#"{"a": 1, "a": 2}"#;
    refused(node.ctl(&["run", module, fixture, "--config", repeated]), 2, &["a is there more than once"]);
}
