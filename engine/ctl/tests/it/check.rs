//! `catenactl check`: every problem at once, each with file, place and remedy.

use serde_json::{Value, json};

use crate::install::json_of;
use crate::stage::{ANSWER, Node, stage};

/// The problems as `place message; remedy`, with the file's name.
fn problems(node: &Node, files: &[&str]) -> Vec<String> {
    let output = node.ctl(&[&["check", "--json"], files].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = report["problems"].as_array().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!list.is_empty())));
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap().to_owned();
    let line = |problem: &Value| {
        let file = text(problem, "file");
        let name = file.rsplit('/').next().unwrap_or_default().to_owned();
        format!("{name} {} {}; {}", text(problem, "path"), text(problem, "message"), text(problem, "remedy"))
    };
    list.iter().map(line).collect()
}

/// Each of these is the beginning and a part of one problem, in any order, and there is no other.
fn are(found: &[String], expected: &[(&str, &str)]) {
    for (start, part) in expected {
        let fits = |problem: &&String| problem.starts_with(start) && problem.contains(part);
        assert!(found.iter().any(|problem| fits(&problem)), "{start:?} … {part:?} in {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn a_node_without_files_is_fine() {
    let node = Node::new();
    assert_eq!(problems(&node, &[]), [""; 0]);
    let text = String::from_utf8(node.ctl(&["check"]).stdout).unwrap();
    assert!(text.starts_with("ok ") && text.contains("node.json"), "{text}");
}

#[test]
fn everything_that_is_wrong_in_the_nodes_file() {
    let node = Node::new();
    node.write(
        "/etc/catena/node.json",
        json!({
            "frobnicate": 1, "secondaryDefaults": "drop", "deadlines": {"delegateSeconds": 0},
            "modules": {"x": {"grants": {"fly": true}, "limits": {"fuel": 0}}},
            "pipelines": {"a": [{"stage": "empty-result", "speed": 1}]},
        })
        .to_string(),
    );
    are(
        &problems(&node, &[]),
        &[
            ("node.json /frobnicate ", "known are"),
            ("node.json /secondaryDefaults ", "\"keep\" or \"filter\""),
            ("node.json /deadlines/delegateSeconds ", "from 1 to 3600"),
            ("node.json /modules/x/grants/fly ", "known are"),
            ("node.json /modules/x/limits/fuel ", "fuel"),
            ("node.json /pipelines/a/0/speed ", "known are"),
        ],
    );
}

#[test]
fn modules_grants_and_the_stages_own_configs() {
    let node = Node::new();
    let logs = stage(
        r#"(import "catena:stage/log@0.1.0" "write" (func $write (param i32 i32 i32)))"#,
        &format!("(call $write (i32.const 1) (i32.const 0) (i32.const 0)) {ANSWER}"),
    );
    node.install("logs", &logs, &["log=true"]);
    let digest = format!("sha256:{}", "0".repeat(64));
    node.write(
        "/etc/catena/node.json",
        json!({
            "modules": {"logs": {"grants": {}}, "pinned": {"digest": digest, "grants": {}}},
            "pipelines": {"a": [
                {"stage": "default-gateway", "config": {"filter": ["ipv4"], "override": ["10.0.0.1"]}},
                {"stage": "absent"},
            ]},
            "baseline": {"after": [{"stage": "empty-result", "config": {"mode": "maybe"}}]},
        })
        .to_string(),
    );
    are(
        &problems(&node, &[]),
        &[
            ("node.json /modules/logs ", r#"add {"log":true} to modules.logs.grants"#),
            ("node.json /modules/pinned ", "pinned"),
            ("node.json /pipelines/a/0/config/override ", "default-gateway: has gateways for ipv4"),
            ("node.json /pipelines/a/1/stage ", "catenactl install absent FILE"),
            ("node.json /baseline/after/0/config", "empty-result"),
            ("lock.json /modules/logs ", r#"{"log":true}"#),
        ],
    );
    // Another file than the node's own is judged as if it were that.
    let other = node.write("/tmp/other.json", "{}");
    assert_eq!(problems(&node, &["--node", other.to_str().unwrap()]), [""; 0]);
}

#[test]
fn configs_and_lists() {
    let node = Node::new();
    node.write(
        "/etc/catena/node.json",
        json!({"pipelines": {"a": []}, "stdinPipelines": "named"}).to_string(),
    );
    let conf = node.write(
        "/tmp/conf.json",
        json!({
            "cniVersion": "1.0.0", "name": "n", "type": "catena", "kubeconfig": "/x", "logLevel": "loud",
            "delegates": [{"cniVersion": "1.0.0", "name": "one", "type": "ptp"}],
            "pipeline": [{"stage": "empty-result", "config": {"mode": "maybe"}}, {"stage": "absent"}],
        })
        .to_string(),
    );
    let list = node.write(
        "/tmp/list.conflist",
        json!({
            "cniVersion": "1.0.0", "name": "n",
            "plugins": [{"type": "ptp"}, {"type": "catena", "pipeline": "b"}, {"type": "catena", "parallel": 1}],
        })
        .to_string(),
    );
    let broken = node.write("/tmp/broken.json", "{");
    let other = node.write("/tmp/other.conflist", r#"{"plugins": [{"type": "ptp"}]}"#);
    let files = [&conf, &list, &broken, &other].map(|path| path.to_str().unwrap());
    are(
        &problems(&node, &files),
        &[
            ("conf.json /kubeconfig ", "kubeconfig"),
            ("conf.json /logLevel ", "loud"),
            ("conf.json /pipeline/0/config", "empty-result"),
            ("conf.json /pipeline/1/stage ", "catenactl install absent FILE"),
            ("conf.json /pipeline ", "stdinPipelines"),
            ("list.conflist /plugins/1/pipeline ", "\"b\" is unknown"),
            ("list.conflist /plugins/2/parallel ", "true or false"),
            ("broken.json  ", "not JSON"),
            ("other.conflist /plugins ", "no plugin of type catena"),
        ],
    );
    let text = String::from_utf8(node.ctl(&["check", conf.to_str().unwrap()]).stdout).unwrap();
    for word in ["problem ", "conf.json /kubeconfig", "remedy"] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

/// What one file has is told, though another cannot be read.
#[test]
fn a_file_that_cannot_be_read_is_one_problem() {
    let node = Node::new();
    let conf = node.write("/tmp/conf.json", r#"{"cniVersion": "1.0.0", "name": "n", "delegates": []}"#);
    let conf = conf.to_str().unwrap();
    let delegates = ("conf.json /delegates ", "delegates is empty");
    are(&problems(&node, &["/nowhere.json", conf]), &[("nowhere.json  ", "cannot be read"), delegates]);
    are(
        &problems(&node, &["--node", "/nowhere.json", conf]),
        &[("nowhere.json  ", "cannot be read"), delegates],
    );
    // The node's own is a folder.
    std::fs::create_dir_all(node.path("/etc/catena/node.json")).unwrap();
    are(&problems(&node, &[conf]), &[("node.json  ", "node.json"), delegates]);
}

/// Nothing is fine here that ADD would refuse on this node.
#[test]
fn paths_and_names_that_this_node_refuses() {
    let node = Node::new();
    let delegate = |name: &str| json!({"cniVersion": "1.0.0", "name": name, "type": "ptp"});
    let conf = json!({
        "cniVersion": "1.0.0", "name": "n", "type": "catena", "binDir": "/tmp/bin", "cniDir": "/tmp/cache",
        "logFile": "/tmp/catena.log",
        "delegates": [delegate("one"), {"config": delegate("two"), "interface": "net2"}, delegate("three")],
    });
    let file = node.write("/tmp/conf.json", conf.to_string());
    are(
        &problems(&node, &[file.to_str().unwrap()]),
        &[
            ("conf.json /binDir ", "paths.bin"),
            ("conf.json /cniDir ", "paths.cache"),
            ("conf.json /logFile ", "paths.log"),
            ("conf.json /delegates/1 ", "net2"),
        ],
    );
    let paths = json!({"paths": {"bin": ["/tmp/bin"], "cache": ["/tmp/cache"], "log": ["/tmp/*.log"]}});
    node.write("/etc/catena/node.json", paths.to_string());
    are(&problems(&node, &[file.to_str().unwrap()]), &[("conf.json /delegates/1 ", "net2")]);
}

#[test]
fn every_problem_in_lists_is_named() {
    let node = Node::new();
    let config = json!({"cniVersion": "1.0.0", "name": "two", "type": "ptp"});
    let conf = json!({
        "cniVersion": "1.0.0", "name": "n", "type": "catena",
        "delegates": [1, {"config": config, "ips": 1, "mac": "x", "catena.dev/default-route": "all"}, {"name": "x"}],
        "pipeline": [{"stage": 1, "speed": 2}, "empty-result", {"stage": "empty-result", "mode": "maybe"}],
    });
    let file = node.write("/tmp/conf.json", conf.to_string());
    are(
        &problems(&node, &[file.to_str().unwrap()]),
        &[
            ("conf.json /delegates/0 ", "a config, a list or an attachment object"),
            ("conf.json /delegates/1/ips ", "list"),
            ("conf.json /delegates/1/mac ", "hardware address"),
            ("conf.json /delegates/1/catena.dev~1default-route ", "none"),
            ("conf.json /delegates/2 ", "neither type"),
            ("conf.json /pipeline/0/speed ", "known are"),
            ("conf.json /pipeline/0/stage ", "stage"),
            ("conf.json /pipeline/1 ", "object"),
            ("conf.json /pipeline/2/mode ", "monitor"),
        ],
    );
}

/// What is wrong in one place hides nothing that is wrong in another.
#[test]
fn one_problem_hides_no_other() {
    let node = Node::new();
    node.write(
        "/etc/catena/node.json",
        json!({
            "frobnicate": 1, "stdinPipelines": ["a", "nowhere"],
            "modules": {
                "default-gateway": {"config": {}, "grants": {
                    "routes": {"ops": ["read", "fly"], "links": ["eth0", "@all"]}, "result": ["mac"], "config": ["mtu"],
                    "publish": ["example.com/a", "k8s.io/b"], "dirs": {"/a": "x", "b": "ro"},
                }},
                "empty-result": {"grants": {"links": true, "log": true}, "config": {"mode": "maybe"}},
            },
            "pipelines": {"a": [1, {"stage": "absent"}, {"stage": "result-conversion", "config": 1}]},
        })
        .to_string(),
    );
    let gateway = "node.json /modules/default-gateway/grants";
    are(
        &problems(&node, &[]),
        &[
            ("node.json /frobnicate ", "known are"),
            ("node.json /stdinPipelines/1 ", "\"nowhere\""),
            (&format!("{gateway}/routes/ops/1 "), "fly"),
            (&format!("{gateway}/routes/links/1 "), "@all"),
            (&format!("{gateway}/result/0 "), "mac"),
            (&format!("{gateway}/config/0 "), "mtu"),
            (&format!("{gateway}/publish/1 "), "k8s.io/b"),
            (&format!("{gateway}/dirs/~1a "), "ro"),
            (&format!("{gateway}/dirs/b "), "absolute"),
            ("node.json /modules/empty-result/config", "empty-result"),
            ("node.json /pipelines/a/0 ", "an object"),
            ("node.json /pipelines/a/1/stage ", "catenactl install absent FILE"),
            ("node.json /pipelines/a/2/config ", "an object"),
        ],
    );

    let rule =
        json!({"grants": {"links": true, "log": true}, "allowSkip": false, "config": {"mode": "allow"}});
    node.write("/etc/catena/node.json", json!({"modules": {"empty-result": rule}}).to_string());
    let delegate = |name: &str| json!({"cniVersion": "1.0.0", "name": name, "type": "ptp"});
    let conf = json!({
        "cniVersion": "1.0.0", "name": "n", "type": "catena", "KubeConfig": "/x", "parallel": "yes",
        "capabilities": {"a": 1, "b": 1},
        "delegates": [
            {"config": "{", "mac": "x"}, {"config": delegate(""), "default-route": ["10.0.0.1", "10.0.0.1"]},
            {"config": {"cniVersion": "1.0.0", "name": "x", "plugins": []}},
            {"config": delegate("y"), "ips": ["10.0.0.1"], "mac": "02:00:00:00:00:01"},
        ],
        "Pipeline": [
            {"stage": "empty-result", "config": {}, "onError": "skip"}, {"stage": "absent", "speed": 1}, 2,
        ],
    });
    let file = node.write("/tmp/conf.json", conf.to_string());
    are(
        &problems(&node, &[file.to_str().unwrap()]),
        &[
            ("conf.json /KubeConfig ", "Multus"),
            ("conf.json /parallel ", "true or false"),
            ("conf.json /capabilities/a ", "true or false"),
            ("conf.json /capabilities/b ", "true or false"),
            ("conf.json /delegates/0/config ", "network n: delegates[0].config"),
            ("conf.json /delegates/0/mac ", "network n: delegates[0].mac"),
            ("conf.json /delegates/1/config", "name"),
            ("conf.json /delegates/1/default-route/1 ", "twice"),
            ("conf.json /delegates/2/config ", "plugins is empty"),
            ("conf.json /delegates/3/config ", "ips is asked for"),
            ("conf.json /delegates/3/config ", "mac is asked for"),
            ("conf.json /Pipeline/0/config ", "locked"),
            ("conf.json /Pipeline/0/onError ", "allowSkip"),
            ("conf.json /Pipeline/1/speed ", "known are"),
            ("conf.json /Pipeline/1/stage ", "catenactl install absent FILE"),
            ("conf.json /Pipeline/2 ", "an object"),
        ],
    );
    let list = json!({"cniVersion": "9", "name": "a b", "plugins": [{"type": "catena", "parallel": 1}]});
    let file = node.write("/tmp/list.conflist", list.to_string());
    are(
        &problems(&node, &[file.to_str().unwrap()]),
        &[
            ("list.conflist /cniVersion ", "\"9\""),
            ("list.conflist /name ", "bad network name"),
            ("list.conflist /plugins/0/parallel ", "true or false"),
        ],
    );
}

/// Install tells what the new module thinks of the configs that are there.
#[test]
fn install_has_the_configs_judged() {
    let node = Node::new();
    let report = json_of(node.ctl(&["--json", "list"]));
    assert!(report["modules"].as_array().unwrap().len() >= 4);
    node.write(
        "/etc/catena/node.json",
        json!({"pipelines": {"a": [{"stage": "x", "config": {"never": 1}}, {"stage": "empty-result"}]}})
            .to_string(),
    );
    // It finds the same wrong with every config.
    let judge = crate::stage::component(
        "configurable",
        "",
        r#"(data (i32.const 2048) "/never") (data (i32.const 2064) "is not known")"#,
        r#"(func (export "catena:stage/settings@0.1.0#validate") (param i32 i32) (result i32)
            (i32.store8 (i32.const 1024) (i32.const 1))
            (i32.store (i32.const 1028) (i32.const 1100)) (i32.store (i32.const 1032) (i32.const 1))
            (i32.store (i32.const 1100) (i32.const 2048)) (i32.store (i32.const 1104) (i32.const 6))
            (i32.store (i32.const 1108) (i32.const 2064)) (i32.store (i32.const 1112) (i32.const 12))
            (i32.const 1024))"#,
    );
    let file = node.write("/tmp/x.wasm", judge);
    let report = json_of(node.ctl(&["--json", "install", "x", file.to_str().unwrap()]));
    let problems = report["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 1, "{report:#}");
    assert_eq!(problems[0]["path"], "/pipelines/a/0/config/never");
    assert_eq!(problems[0]["message"], "stage x: is not known");
}
