//! Where mutations start: the recorded calls and the vectors, and small examples of what is catena's own.

use std::fs;
use std::path::{Path, PathBuf};

use catena_routes::{Hop, Link, Route, Snapshot};
use serde_json::{Value, json};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

fn vectors(name: &str) -> Vec<Value> {
    let path = tests().join(format!("vectors/{name}.json"));
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let document: Value = serde_json::from_slice(&text).expect("vectors");
    document["cases"].as_array().expect("cases").clone()
}

/// A member of each case: as it is if it is a text, as JSON otherwise.
fn members(name: &str, member: &str) -> Vec<Vec<u8>> {
    vectors(name).iter().filter_map(|case| case.get(member)).map(bytes).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

/// The recorded calls, one of each kind that differs in more than names: every third.
fn captures(member: &str) -> Vec<Vec<u8>> {
    let folder = tests().join("captures");
    let listed = fs::read_dir(&folder).expect("tests/captures").map(|entry| entry.expect("a file").path());
    let mut files: Vec<PathBuf> =
        listed.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for line in text.lines().step_by(3) {
            let call: Value = serde_json::from_str(line).expect("a call");
            found.push(bytes(&call[member]));
        }
    }
    found
}

pub(crate) fn documents() -> Vec<Vec<u8>> {
    [members("plugin-stdout", "stdout"), members("conflist-parse", "input_text"), captures("stdin")].concat()
}

/// NAME=VALUE with a NUL after each, as in /proc/PID/environ.
pub(crate) fn environments() -> Vec<Vec<u8>> {
    let block = |env: &Value| {
        let pairs = env.as_object().into_iter().flatten();
        pairs.flat_map(|(name, value)| [name.as_bytes(), b"=", &bytes(value), b"\0"].concat()).collect()
    };
    vectors("env-validation").iter().map(|case| block(&case["env"])).collect()
}

/// What catena gets on stdin, as a meta-plugin and as a chained one.
pub(crate) fn requests() -> Vec<Vec<u8>> {
    let own = [
        json!({
            "cniVersion": "1.1.0", "name": "outer", "type": "catena", "logFile": "/var/log/c.log", "binDir": "/opt/cni/bin",
            "runtimeConfig": { "portMappings": [{ "HostPort": 80 }], "io.kubernetes.cri.pod-annotations": { "a/b": "c" } },
            "capabilities": { "portMappings": true }, "cni.dev/valid-attachments": [{ "containerID": "c", "ifname": "eth0" }],
            "pipeline": [{ "stage": "default-gateway", "config": { "filter": ["ipv4"] }, "when": ["a"], "onError": "skip" }],
            "delegates": [
                { "cniVersion": "0.3.1", "name": "a", "type": "ptp", "ipam": { "type": "host-local" } },
                { "name": "nad", "namespace": "ns", "default-route": ["192.0.2.1", "fe80::1"], "ips": ["192.0.2.5/24"],
                  "mac": "02:00:00:00:00:01", "interface": "data0", "cni-args": { "x": 1 }, "bandwidth": { "ingressRate": 1 },
                  "portMappings": [{ "hostPort": 80, "containerPort": 80 }], "infiniband-guid": "c2:11:22:33:44:55:66:77",
                  "config": "{\"name\":\"b\",\"plugins\":[{\"type\":\"p\",\"capabilities\":{\"mac\":true,\"ips\":true,\"portMappings\":true,\"bandwidth\":true,\"infinibandGUID\":true}}]}" },
                { "catena.dev/default-route": "none", "config": { "name": "c", "cniVersions": ["0.4.0", "1.0.0"], "plugins": [{ "type": "p" }] } },
            ],
        }),
        json!({
            "cniVersion": "0.4.0", "name": "n", "type": "catena", "args": { "cni": {} }, "pipeline": "default", "parallel": true,
            "prevResult": { "ips": [{ "version": "4", "address": "192.0.2.5/24", "interface": 0 }], "interfaces": [{ "name": "eth0" }] },
        }),
    ];
    [own.iter().map(bytes).collect(), captures("stdin"), members("env-validation", "stdin")].concat()
}

pub(crate) fn lists() -> Vec<Vec<u8>> {
    [members("conflist-parse", "input_text"), members("chain", "conflist")].concat()
}

/// Results of every version, and what plugins print in their place.
pub(crate) fn results() -> Vec<Vec<u8>> {
    let conversions = members("result-conversion", "input").into_iter().step_by(4);
    let own = [json!({ "cniVersion": "1.0.0", "code": 7, "msg": "m", "details": "d" })];
    let mut all: Vec<Vec<u8>> = conversions.collect();
    all.extend(own.iter().map(bytes));
    all.extend(members("result-conversion", "input_text"));
    all.extend(members("plugin-stdout", "stdout"));
    all.extend(members("containerd-acceptance", "result"));
    all.extend(captures("stdout").into_iter().filter(|text| !text.is_empty()));
    all
}

pub(crate) fn texts() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = ["192.0.2.5/24", "::ffff:192.0.2.5/120", "fe80::1", "eth0", "1.0.0"]
        .map(|text| text.as_bytes().to_vec())
        .into();
    for (file, member) in [("cni-args", "value"), ("identifiers", "value"), ("version-parse", "value")] {
        all.extend(members(file, member));
    }
    all
}

pub(crate) fn version_replies() -> Vec<Vec<u8>> {
    members("version-reply", "stdout")
}

/// libcni's cache files, as other programs leave them.
pub(crate) fn cache_files() -> Vec<Vec<u8>> {
    let mut found = results();
    for case in vectors("chain") {
        found.extend(case["cache_files"].as_object().into_iter().flatten().map(|(_, text)| bytes(text)));
        let steps = case["steps"].as_array().into_iter().flatten();
        let after = steps.filter_map(|step| step["cache_after"].as_object()).flatten();
        found.extend(after.filter_map(|(_, file)| file.get("json")).map(bytes));
    }
    found
}

/// Of each type in the Device Information Specification.
pub(crate) fn device_descriptions() -> Vec<Vec<u8>> {
    let all = [
        json!({ "type": "pci", "version": "1.1.0", "pci": { "pci-address": "0000:18:02.5", "pf-pci-address": "0000:18:00.0",
            "representor-device": "eth3" } }),
        json!({ "type": "vdpa", "version": "1.0.0", "vdpa": { "parent-device": "vdpa0", "driver": "vhost", "path": "/dev/vhost-vdpa1" } }),
        json!({ "type": "memif", "version": "1.0.0", "memif": { "role": "slave", "path": "/var/run/m.sock", "mode": "ethernet" } }),
        json!({}),
    ];
    all.iter().map(bytes).collect()
}

pub(crate) fn versions_files() -> Vec<Vec<u8>> {
    let known =
        json!({ "/opt/cni/bin/ptp": { "inode": 7, "mtime": [1, 2], "versions": ["0.4.0", "1.0.0"] } });
    vec![bytes(&known), b"{}".to_vec()]
}

/// An entry with every kind of event.
pub(crate) fn ledger_entries() -> Vec<Vec<u8>> {
    let intended = json!({
        "schema": 1, "network": "net", "containerId": "c1", "ifname": "eth0", "mode": "meta", "bootId": "b",
        "netns": "/run/netns/x", "netnsId": [4, 4026532000_u64], "args": "IgnoreUnknown=1", "binDir": null,
        "cacheDir": "/var/lib/cni/catena", "time": 1,
        "pipeline": [{ "stage": "s", "digest": "sha256:0", "config": "{}", "when": [], "unless": ["empty"], "onError": "fail" }],
        "attachments": [
            { "ifname": "eth0", "network": "n", "name": "ns/n", "nad": ["ns", "n"], "config": "{\"name\":\"n\",\"plugins\":[{\"type\":\"p\"}]}",
              "capabilityArgs": "{\"mac\":\"02:00:00:00:00:01\"}", "request": { "defaultRoute": ["192.0.2.1"] }, "intent": { "ipv4": { "action": "leave" }, "ipv6": { "action": "filter" } } },
            { "ifname": "net1", "network": "m", "name": "m", "nad": null, "config": null, "capabilityArgs": "{}", "request": {}, "intent": {} },
        ],
    });
    let events = [
        json!({ "spawned": { "group": 7, "startTime": 8, "position": 0 } }),
        json!({ "attached": { "position": 0, "format": "cni/1.1.0", "result": "{\"cniVersion\":\"1.1.0\"}", "tags": ["empty"],
            "publications": [["k", "[]"]], "report": {} } }),
        json!("finished"),
        json!("deleting"),
        json!({ "delete-failed": { "time": 2, "errors": ["e"] } }),
    ];
    let mut entry = intended.to_string();
    let mut all = vec![entry.clone().into_bytes()];
    for event in events {
        entry += &format!("\n{event}");
        all.push(entry.clone().into_bytes());
    }
    all
}

pub(crate) fn intents() -> Vec<Vec<u8>> {
    let intents = json!([
        { "ipv4": { "action": "override", "gateways": ["192.0.2.1", "192.0.2.2"] }, "ipv6": { "action": "own" } },
        { "ipv4": { "action": "filter" }, "ipv6": { "action": "leave" } },
    ]);
    vec![bytes(&intents), b"[]".to_vec()]
}

pub(crate) fn node_files() -> Vec<Vec<u8>> {
    let node = json!({
        "modules": { "default-gateway": { "digest": "sha256:aa", "grants": {
            "routes": { "links": ["@attachment", "eth1"], "ops": ["read", "delete-default"], "tables": [254, 100] }, "links": true,
            "log": true, "publish": ["k8s.v1.cni.cncf.io/network-status"], "annotations": ["a/b"], "result": ["routes", "dns"],
            "config": ["/ipam/x"], "dirs": { "/srv": "ro" }, "clock": true, "random": false } } },
        "secondaryDefaults": "filter", "deadlines": { "delegateSeconds": 5, "rollbackSeconds": 6, "callSeconds": 7 },
        "paths": { "bin": ["/opt/cni/bin"], "cache": ["/var/lib/cni/x"], "log": ["/var/log/*.log"] },
        "pipelines": { "p": [{ "stage": "s" }] }, "defaultPipeline": "p", "stdinPipelines": ["p"],
        "baseline": { "before": [], "after": [{ "stage": "s" }] }, "record": { "maxBytes": 1, "maxAgeHours": 2 },
    });
    let lock = json!({ "schema": 2, "modules": { "m": { "current": {
        "digest": format!("sha256:{}", "0".repeat(64)), "size": 1, "version": "1.2.3",
        "artifacts": { "e": { "size": 1, "digest": format!("sha256:{}", "1".repeat(64)) } },
        "exports": ["stage"], "imports": ["catena:stage/log@0.1.0"], "contract": "0.1.0",
        "wants": { "log": true }, "grants": { "log": true } }, "previous": [] } } });
    vec![bytes(&node), bytes(&lock), b"{}".to_vec()]
}

/// Grants alone, as a module wants them.
pub(crate) fn grants() -> Vec<Vec<u8>> {
    let node: Value = serde_json::from_slice(&node_files()[0]).expect("JSON");
    vec![bytes(&node["modules"]["default-gateway"]["grants"]), b"{}".to_vec()]
}

/// Of an ADD that succeeded, and of one that failed before anything ran.
pub(crate) fn recordings() -> Vec<Vec<u8>> {
    let entry = ledger_entries().swap_remove(0);
    let hop = Hop::via("192.0.2.1".parse().expect("an address"), 2);
    let namespace = Snapshot {
        links: vec![Link::simulated(2, "eth0")],
        routes: vec![Route::new("0.0.0.0/0".parse().expect("a prefix"), vec![hop])],
        ..Snapshot::default()
    };
    let namespace = namespace.to_json();
    let result = json!({ "cniVersion": "1.1.0", "ips": [{ "address": "192.0.2.5/24" }] });
    let mut recording = json!({
        "schema": 1, "timeMs": 1, "cniVersion": "1.0.0", "secondaryDefaults": "keep", "annotations": { "a/b": "c" },
        "intended": serde_json::from_slice::<Value>(&entry).expect("JSON"), "admitted": true,
        "attachments": [{
            "config": { "name": "n" },
            "before": { "format": "cni/1.1.0", "result": result, "links": [2], "namespace": namespace },
            "after": {
                "format": "cni/1.1.0", "result": result, "tags": ["empty"], "publications": { "k": [] }, "namespace": namespace,
            },
        }],
    });
    let succeeded = bytes(&recording);
    recording["error"] = json!({ "code": 7, "msg": "m" });
    recording["attachments"] = json!([]);
    vec![succeeded, bytes(&recording)]
}
