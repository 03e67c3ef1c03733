//! What happens to installed modules later: rollback, list, recompile, gc; and installs that are cut off.

use std::collections::BTreeSet;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use catena::node::{Digest, Root};
use catena::wasm::builtin::BUILTINS;
use catena::wasm::{ModuleError, engine};
use serde_json::{Value, json};

use crate::install::{json_of, refused};
use crate::stage::{ANSWER, Node, stage};

const FOLDER: &str = "/var/lib/catena/modules";

/// Modules that differ: a stage with so many functions that do nothing.
fn numbered(number: usize) -> Vec<u8> {
    stage(&"(func)".repeat(number), ANSWER)
}

fn digest(number: usize) -> String {
    Digest::of(&numbered(number)).to_string()
}

fn current(node: &Node, name: &str) -> String {
    node.module(name).unwrap().digest().to_owned()
}

fn files(node: &Node) -> BTreeSet<String> {
    let entries = std::fs::read_dir(node.path(FOLDER)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn change_lock(node: &Node, change: impl FnOnce(&mut Value)) {
    let path = node.path(&format!("{FOLDER}/lock.json"));
    let mut lock: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut lock);
    std::fs::write(&path, lock.to_string()).unwrap();
}

/// As an older catena with another engine left it.
fn from_another_engine(node: &Node, name: &str) {
    change_lock(node, |lock| {
        let artifacts = lock["modules"][name]["current"]["artifacts"].as_object_mut().unwrap();
        let artifact = artifacts.remove(engine::KEY).unwrap();
        artifacts.insert("0123456789abcdef".into(), artifact);
    });
    let hex = current_hex(node, name);
    let file = |engine: &str| node.path(&format!("{FOLDER}/{hex}-{engine}.cwasm"));
    std::fs::rename(file(engine::KEY), file("0123456789abcdef")).unwrap();
}

fn current_hex(node: &Node, name: &str) -> String {
    let report = json_of(node.ctl(&["--json", "inspect", name]));
    report["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned()
}

#[test]
fn rollback_goes_back_and_forth() {
    let node = Node::new();
    node.install("x", &numbered(1), &[]);
    refused(node.ctl(&["rollback", "x"]), 1, &["nothing had the name x before"]);
    refused(node.ctl(&["rollback", "y"]), 1, &["nothing had the name y before"]);
    node.install("x", &numbered(2), &[]);
    let report = json_of(node.ctl(&["rollback", "x", "--json"]));
    assert_eq!((&report["digest"], &report["before"]), (&json!(digest(1)), &json!(digest(2))));
    assert_eq!(current(&node, "x"), digest(1));
    json_of(node.ctl(&["rollback", "x", "--json"]));
    assert_eq!(current(&node, "x"), digest(2));
}

#[test]
fn rollback_to_a_built_in_stage() {
    let node = Node::new();
    let builtin = BUILTINS.iter().find(|builtin| builtin.name == "empty-result").unwrap();
    node.install("empty-result", &numbered(1), &[]);
    let report = json_of(node.ctl(&["rollback", "empty-result", "--json"]));
    assert_eq!((&report["digest"], &report["origin"]), (&json!(builtin.digest), &json!("built-in")));
    assert_eq!(current(&node, "empty-result"), builtin.digest);
    // What was attached with the other one is still checked with it.
    let modules = catena::wasm::Modules::open(&node.root(), &Default::default()).unwrap();
    assert_eq!(modules.get_digest("empty-result", &digest(1)).unwrap().digest(), digest(1));
    json_of(node.ctl(&["rollback", "empty-result", "--json"]));
    assert_eq!(current(&node, "empty-result"), digest(1));
}

#[test]
fn rollback_to_what_could_not_run_is_refused() {
    let node = Node::new();
    let logs = stage(
        r#"(import "catena:stage/log@0.1.0" "write" (func $write (param i32 i32 i32)))"#,
        &format!("(call $write (i32.const 1) (i32.const 0) (i32.const 0)) {ANSWER}"),
    );
    node.install("x", &logs, &["log=true"]);
    node.install("x", &numbered(2), &[]);
    node.write("/etc/catena/node.json", r#"{"modules": {"x": {"grants": {}}}}"#);
    refused(node.ctl(&["rollback", "x"]), 1, &["stays as it is", r#"{"log":true}"#]);
    assert_eq!(current(&node, "x"), digest(2));
    node.write(
        "/etc/catena/node.json",
        json!({"modules": {"x": {"digest": digest(2), "grants": {"log": true}}}}).to_string(),
    );
    let output = node.ctl(&["rollback", "x"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("warning") && text.contains(&digest(2)), "{text}");
    assert_eq!(current(&node, "x"), digest(2), "the pin of the node wins");
}

#[test]
fn list_names_everything() {
    let node = Node::new();
    node.install("x", &numbered(1), &[]);
    node.install("default-gateway", &numbered(2), &[]);
    let report = json_of(node.ctl(&["list", "--json"]));
    let found: Vec<(&str, &str)> = report["modules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|module| (module["name"].as_str().unwrap(), module["origin"].as_str().unwrap()))
        .collect();
    let expected = [
        ("default-gateway", "installed"),
        ("empty-result", "built-in"),
        ("network-status", "built-in"),
        ("result-conversion", "built-in"),
        ("x", "installed"),
    ];
    assert_eq!(found, expected);
    let text = String::from_utf8(node.ctl(&["list"]).stdout).unwrap();
    assert!(text.lines().count() == 5 && text.contains(&digest(1)), "{text}");
}

#[test]
fn after_an_upgrade_everything_is_compiled_by_one_command() {
    let node = Node::new();
    node.install("x", &numbered(1), &[]);
    node.install("y", &numbered(2), &[]);
    json_of(node.ctl(&["recompile", "--json"]));
    for name in ["x", "y"] {
        from_another_engine(&node, name);
        let error = node.module(name).unwrap_err();
        assert!(matches!(error, ModuleError::Stale { .. }), "{error}");
        assert_eq!(error.code(), 104);
        let text = error.to_string();
        assert!(text.contains("catenactl recompile") && text.contains("0123456789abcdef"), "{text}");
    }
    let report = json_of(node.ctl(&["list", "--json"]));
    assert_eq!(
        report["modules"].as_array().unwrap().iter().filter(|module| module["stale"] == true).count(),
        2
    );
    let report = json_of(node.ctl(&["recompile", "--json"]));
    assert_eq!(report["compiled"].as_array().unwrap().len(), 2);
    assert_eq!((current(&node, "x"), current(&node, "y")), (digest(1), digest(2)));
    // The old catena may still be in use: what it runs is there until it is said that it is not.
    let old = |files: BTreeSet<String>| files.iter().filter(|file| file.contains("0123456789abcdef")).count();
    json_of(node.ctl(&["gc", "--json"]));
    assert_eq!(old(files(&node)), 2);
    json_of(node.ctl(&["gc", "--other-engines", "--json"]));
    assert_eq!(old(files(&node)), 0);
    assert_eq!((current(&node, "x"), current(&node, "y")), (digest(1), digest(2)));
}

#[test]
fn recompile_repairs_an_artifact_and_names_a_changed_module() {
    let node = Node::new();
    node.install("x", &numbered(1), &[]);
    let hex = current_hex(&node, "x");
    let artifact = node.path(&format!("{FOLDER}/{hex}-{}.cwasm", engine::KEY));
    std::fs::write(&artifact, b"damaged").unwrap();
    assert!(node.module("x").is_err());
    json_of(node.ctl(&["recompile", "--json"]));
    assert_eq!(current(&node, "x"), digest(1));
    std::fs::remove_file(&artifact).unwrap();
    std::fs::write(node.path(&format!("{FOLDER}/{hex}.wasm")), b"changed").unwrap();
    let output = node.ctl(&["recompile", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = report["failures"][0]["error"].as_str().unwrap();
    assert!(error.contains("was changed") && error.contains("catenactl install"), "{error}");
}

#[test]
fn gc_keeps_what_is_needed() {
    let node = Node::new();
    json_of(node.ctl(&["gc", "--json"]));
    assert!(!node.path(FOLDER).exists(), "gc makes no folder");
    for number in 1..=5 {
        node.install("x", &numbered(number), &[]);
    }
    // A crash left something; 1 is pinned, a pod was attached with 2.
    std::fs::write(node.path(&format!("{FOLDER}/.left.wasm.123")), b"half").unwrap();
    node.write(
        "/etc/catena/node.json",
        json!({"modules": {"y": {"digest": digest(1), "grants": {}}}}).to_string(),
    );
    let entry = json!({
        "schema": 1, "network": "net", "containerId": "c1", "ifname": "eth0", "mode": "meta", "bootId": "b",
        "netns": "/run/netns/x", "netnsId": [4, 5], "args": "", "binDir": null, "cacheDir": "/var/lib/cni/catena",
        "time": 1, "attachments": [],
        "pipeline": [{"stage": "x", "digest": digest(2), "config": "{}", "when": [], "unless": [], "onError": "fail"}]
    });
    node.write("/var/lib/catena/state/c1@net@meta@eth0.json", format!("{entry}\n\"finished\"\n"));
    let before = files(&node);
    let report = json_of(node.ctl(&["gc", "--dry-run", "--json"]));
    assert_eq!(files(&node), before);
    let would = report["removed"].clone();
    let report = json_of(node.ctl(&["gc", "--json"]));
    assert_eq!(report["removed"], would);
    for number in [1, 2, 4, 5] {
        let file = format!("{}.wasm", digest(number).trim_start_matches("sha256:"));
        assert!(files(&node).contains(&file), "{number}");
    }
    assert_eq!(files(&node).len(), 4 * 2 + 2, "{:?}", files(&node));
    json_of(node.ctl(&["rollback", "x", "--json"]));
    assert_eq!(current(&node, "x"), digest(4));

    // What cannot be read might need anything.
    node.write("/var/lib/catena/state/c2@net@meta@eth0.json", "damaged");
    node.write("/etc/catena/node.json", "{}");
    let report = json_of(node.ctl(&["gc", "--json"]));
    assert_eq!((&report["removed"], &report["ledgerIsWhole"]), (&json!([]), &json!(false)));
}

/// An install that is killed at any moment leaves the old module or the new one, and the next one works.
#[test]
fn an_install_that_is_killed_harms_nothing() {
    let node = Node::new();
    node.install("x", &numbered(1), &[]);
    let file = node.write("/tmp/next.wasm", numbered(2));
    let start = Instant::now();
    node.install("y", &numbered(3), &[]);
    let whole = start.elapsed();
    for step in 0..24u32 {
        let mut child = Process::new(env!("CARGO_BIN_EXE_catenactl"))
            .args(["install", "x", file.to_str().unwrap()])
            .env(Root::VARIABLE, node.root().join("/"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(step) / 20.0).min(Duration::from_secs(2)));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = current(&node, "x");
        assert!(now == digest(1) || now == digest(2), "{now}");
    }
    node.install("x", &numbered(2), &[]);
    json_of(node.ctl(&["gc", "--json"]));
    assert_eq!(current(&node, "x"), digest(2));
    let left: Vec<String> = files(&node).into_iter().filter(|file| file.starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Pods that come while modules are exchanged get one or the other, never a mixture and never none.
#[test]
fn installing_and_loading_at_the_same_time() {
    let node = Node::new();
    node.install("x", &numbered(1), &[]);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|offset| {
                let node = &node;
                scope.spawn(move || {
                    for round in 0..3 {
                        let number = 1 + (offset + round) % 2;
                        let file = node.write(&format!("/tmp/w{offset}.wasm"), numbered(number));
                        let output = node.ctl(&["install", "x", file.to_str().unwrap()]);
                        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let now = current(&node, "x");
            assert!(now == digest(1) || now == digest(2), "{now}");
        }
    });
}

#[test]
fn completions_are_for_the_shell() {
    let node = Node::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = node.ctl(&["completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("rollback"), "{shell}");
    }
}

#[test]
fn what_the_exit_status_means_is_in_the_help() {
    let node = Node::new();
    let text = String::from_utf8(node.ctl(&["--help"]).stdout).unwrap();
    for word in ["Exit status", "new", "build", "install", "rollback", "--json"] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

/// `script` gives a program a terminal.
#[test]
fn colours_are_for_terminals() {
    let node = Node::new();
    node.write("/etc/catena/node.json", r#"{"frobnicate": 1}"#);
    let plain = String::from_utf8(node.ctl(&["check"]).stdout).unwrap();
    assert!(plain.starts_with("problem ") && !plain.contains('\u{1b}'), "{plain:?}");
    let on_a_terminal = |variables: &[(&str, &str)], arguments: &str| {
        let mut script = Process::new("script");
        let command = format!("{} {arguments}", env!("CARGO_BIN_EXE_catenactl"));
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).env_remove("NO_COLOR");
        script.env(Root::VARIABLE, node.path("/")).envs(variables.iter().copied());
        let output = script.output().expect("script, of bsdutils");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(on_a_terminal(&[], "check").starts_with("\u{1b}[31mproblem "));
    for plain in [on_a_terminal(&[("NO_COLOR", "1")], "check"), on_a_terminal(&[], "check --json")] {
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
    }
}
