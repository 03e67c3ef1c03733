//! The logic is in the modules: replace one, and exactly that changes. A module that cannot be had is refused with
//! what to do, and one that misbehaves harms nothing.

use std::time::Duration;

use catena_tests::conf::{self, Family, Stack, asking};
use catena_tests::runtime::{Failure, Pod};
use catena_tests::scripted;
use catena_tests::state::{self, Traces, defaults, via};
use catena_tests::world::{CATENACTL, Output, STAGES, World};
use serde_json::{Value, json};

/// All that a module of the tests may want of the routes.
const ROUTES: &str = r#"routes={"ops":["read","delete-default","delete","add","replace"]}"#;
const RESULT: &str = r#"result=["routes","ips"]"#;

fn catenactl(world: &World, args: &[&str]) -> Output {
    world.run(CATENACTL, args)
}

/// Writes the node's own configuration.
pub(crate) fn node_file(world: &World, node: Value) {
    world.write("/etc/catena/node.json", node.to_string());
}

/// Installs a test stage under a name; these grants are given.
pub(crate) fn install(world: &World, name: &str, stage: &str, grants: &[&str]) {
    let file = format!("{STAGES}/{stage}.wasm");
    let mut args = vec!["install", name, file.as_str()];
    for grant in grants {
        args.extend(["--grant", grant]);
    }
    let output = catenactl(world, &args);
    assert!(output.exit == Some(0), "catenactl {args:?}: {}{}", output.stdout, output.stderr);
}

/// catenactl must refuse, saying these words.
fn refuses(world: &World, args: &[&str], words: &[&str]) {
    let output = catenactl(world, args);
    assert!(matches!(output.exit, Some(1..)), "catenactl {args:?}: {}", output.stdout);
    for word in words {
        assert!(output.stderr.contains(word), "catenactl {args:?} does not say {word:?}: {}", output.stderr);
    }
}

fn two(asked: &[&str]) -> Value {
    conf::catena(json!([
        scripted::veth("one", 1, Stack::Dual, true),
        asking(&scripted::veth("two", 2, Stack::Dual, false), asked),
    ]))
}

fn one() -> Value {
    conf::catena(json!([scripted::veth("one", 1, Stack::Dual, true)]))
}

#[test]
fn without_result_conversion() {
    let world = World::new();
    install(&world, "result-conversion", "pass", &[]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut outer = one();
    let result = pod.add(&outer).result();
    assert_eq!(result["cniVersion"], "1.0.0");
    assert_eq!(result["ips"].as_array().map(Vec::len), Some(2));
    pod.del(&outer, Some(&result)).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");

    outer["cniVersion"] = json!("0.4.0");
    pod.add(&outer).failure();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
}

#[test]
fn without_empty_result() {
    let world = World::new();
    install(&world, "empty-result", "pass", &[]);
    let pod = Pod::new(&world, "pod");
    let outer =
        conf::catena(json!([scripted::veth("one", 1, Stack::V4, true), scripted::prints("nothing", "{}"),]));
    let result = pod.add(&outer).result();
    // Nobody tags it, so default-gateway runs on it; the element in the status is there all the same.
    assert_eq!(pod.status("outer").len(), 2);
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn without_network_status() {
    let world = World::new();
    install(&world, "network-status", "pass", &[]);
    let pod = Pod::new(&world, "pod");
    let result = pod.add(&two(&["10.90.2.1"])).result();
    assert_eq!(defaults(&world, &pod.netns, Family::V4), [via("10.90.2.1", "net1", 0)]);
    let published =
        world.files("/run/catena/status").into_values().any(|text| text != b"[]" && text != b"[]\n");
    assert!(!published, "nobody published a status");
    pod.del(&two(&["10.90.2.1"]), Some(&result)).done();
}

#[test]
fn without_default_gateway() {
    let world = World::new();
    install(&world, "default-gateway", "pass", &[]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    // Where nothing is asked, all is as the delegates made it.
    let result = pod.add(&one()).result();
    assert_eq!(defaults(&world, &pod.netns, Family::V4), [via("10.90.1.1", "eth0", 0)]);
    pod.del(&one(), Some(&result)).done();
    // A request is never silently unmet.
    for asked in [&["10.90.2.1"][..], &["fd00:90:2::1"], &[]] {
        pod.add(&two(asked)).fails_with(107, &["net1"]);
        Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
    }
}

#[test]
fn another_decision_about_the_default_route() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let result = pod.add(&one()).result();
    assert_eq!(state::default_gateways(&result, Family::V4), ["10.90.1.1"]);
    pod.del(&one(), Some(&result)).done();

    install(&world, "default-gateway", "arrange-none", &[ROUTES, RESULT, "log=true", "links=true"]);
    let result = pod.add(&one()).result();
    assert_eq!(defaults(&world, &pod.netns, Family::V4), []);
    assert_eq!(defaults(&world, &pod.netns, Family::V6), [via("fd00:90:1::1", "eth0", 1024)]);
    pod.del(&one(), Some(&result)).done();
}

#[test]
fn an_installed_stage_beside_the_built_in_ones() {
    let world = World::new();
    install(&world, "site-policy", "deny", &["log=true"]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut outer = one();
    outer["pipeline"] = json!([{"stage": "result-conversion"}, {"stage": "site-policy"}]);
    let failure = pod.add(&outer).fails_with(105, &["no pods today", "site-policy", "sha256:"]);
    assert_eq!(failure.msg, "no pods today");
    assert!(scripted::call_lines(&world).is_empty(), "a denied pod has had no side effects");
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a denied ADD");
    // A denial cannot be skipped.
    outer["pipeline"][1]["onError"] = json!("skip");
    pod.add(&outer).fails_with(105, &["no pods today"]);
}

#[test]
fn refused_at_install() {
    let world = World::new();
    world.write("/tmp/text.wasm", "this is no component");
    refuses(&world, &["install", "x", "/tmp/text.wasm"], &["/tmp/text.wasm", "component"]);
    world.write("/tmp/core.wasm", b"\0asm\x01\0\0\0");
    refuses(&world, &["install", "x", "/tmp/core.wasm"], &["component"]);
    refuses(&world, &["install", "x", "/tmp/absent.wasm"], &["/tmp/absent.wasm"]);
    let unknown = format!("{STAGES}/unknown-import.wasm");
    refuses(&world, &["install", "x", &unknown], &["example:unknown/thing"]);
    let trap = format!("{STAGES}/trap.wasm");
    refuses(&world, &["install", "x", &trap], &["routes", "--grant"]);
    let pass = format!("{STAGES}/pass.wasm");
    let other = format!("sha256:{}", "0".repeat(64));
    refuses(&world, &["install", "x", &pass, "--digest", &other], &[&other, "--digest"]);
    world.write(
        "/etc/catena/node.json",
        json!({"modules": {"x": {"digest": other, "grants": {}}}}).to_string(),
    );
    refuses(&world, &["install", "x", &pass], &[&other, "node.json"]);
    assert!(
        !world.files("/var/lib/catena/modules").keys().any(|file| file.ends_with(".wasm")),
        "nothing was installed"
    );
}

#[test]
fn refused_at_load() {
    let pinned = |digest: String| {
        let world = World::new();
        install(&world, "default-gateway", "pass", &[]);
        world.write(
            "/etc/catena/node.json",
            json!({"modules": {"default-gateway": {"digest": digest, "grants": {}}}}).to_string(),
        );
        let pod = Pod::new(&world, "pod");
        pod.add(&one()).fails_with(104, &["default-gateway", "sha256:"]);
        assert!(scripted::call_lines(&world).is_empty());
    };
    pinned(format!("sha256:{}", "0".repeat(64)));

    // The node takes a grant back: refused before any guest code, with the grant that is missing.
    let world = World::new();
    world.write(
        "/etc/catena/node.json",
        json!({"modules": {"default-gateway": {"grants": {"log": true}}}}).to_string(),
    );
    let pod = Pod::new(&world, "pod");
    pod.add(&one()).fails_with(105, &["default-gateway", "routes"]);
    assert!(scripted::call_lines(&world).is_empty());

    // Somebody changed the artifact, or may change it.
    for (damage, code) in [
        ("chmod 666 /var/lib/catena/modules/*", 104),
        ("for f in /var/lib/catena/modules/*; do case $f in */lock*) ;; *) printf x >>$f ;; esac; done", 104),
    ] {
        let world = World::new();
        install(&world, "result-conversion", "pass", &[]);
        world.sh(damage);
        let pod = Pod::new(&world, "pod");
        pod.add(&one()).fails_with(code, &[]);
        assert!(scripted::call_lines(&world).is_empty(), "{damage}");
    }
}

/// A misbehaving module as the last stage of the pipeline: ADD must fail with this code, and nothing may be left.
fn misbehaves(stage: &str, code: i64, words: &[&str]) -> Failure {
    let world = World::new();
    install(&world, "bad", stage, &[ROUTES, RESULT, "log=true", "links=true"]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut outer = two(&["10.90.2.1"]);
    outer["pipeline"] = conf::pipeline(json!({}));
    outer["pipeline"].as_array_mut().expect("a list").push(json!({"stage": "bad"}));
    let mut all = vec!["bad", "sha256:", "eth0"];
    all.extend(words);
    let failure = pod.add(&outer).fails_with(code, &all);
    assert!(failure.elapsed < Duration::from_secs(10), "took {:?}", failure.elapsed);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");

    // Where it may be skipped, its own changes alone are undone.
    let last = outer["pipeline"].as_array().expect("a list").len() - 1;
    outer["pipeline"][last]["onError"] = json!("skip");
    let result = pod.add(&outer).result();
    assert_eq!(defaults(&world, &pod.netns, Family::V4), [via("10.90.2.1", "net1", 0)]);
    assert_eq!(defaults(&world, &pod.netns, Family::V6), [via("fd00:90:1::1", "eth0", 1024)]);
    // Stages are advisory in DEL.
    pod.del(&outer, Some(&result)).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
    failure
}

#[test]
fn that_loops() {
    misbehaves("spin", 102, &["fuel"]);
}

#[test]
fn that_exhausts_memory() {
    misbehaves("memory", 103, &["memory"]);
}

#[test]
fn that_traps_in_the_middle_of_route_changes() {
    misbehaves("trap", 101, &["trapped on purpose"]);
}

/// A panic in a module is told as one: file, line and message, not a bare trap.
#[test]
fn a_panic_is_told_with_file_and_line() {
    let source = include_str!("../../stages/examples/trap.rs");
    let line = source.lines().position(|line| line.contains("panic!(")).expect("the panic") + 1;
    let failure = misbehaves("trap", 101, &["trapped on purpose"]);
    let place = format!("panicked at tests/stages/examples/trap.rs:{line}:");
    assert!(failure.text().contains(&place), "{place:?} in {}", failure.text());
    assert!(failure.text().contains("trapped on purpose after 1 deleted"), "{}", failure.text());
}

#[test]
fn that_returns_nonsense() {
    misbehaves("nonsense", 106, &[]);
}

/// All delegates run, and everything goes, whatever the stage does in DEL; the log says what that was.
#[test]
fn that_misbehaves_in_del() {
    const LOG: &str = "/var/log/catena.log";
    let world = World::new();
    world.sh("mkdir -p /var/log");
    install(&world, "bad-del", "bad-del", &["log=true"]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    for (way, told) in
        [("trap", "trapped on purpose"), ("spin", "fuel"), ("deny", "nobody leaves"), ("memory", "memory")]
    {
        let mut outer = two(&["10.90.2.1"]);
        outer["logFile"] = json!(LOG);
        let mut stages = conf::pipeline(json!({}));
        let stage = json!({"stage": "bad-del", "config": {"del": way}});
        stages.as_array_mut().expect("a list").push(stage);
        outer["pipeline"] = stages;
        let result = pod.add(&outer).result();
        world.sh(&format!("rm -f {LOG} /run/scripted/calls.jsonl"));
        pod.del(&outer, Some(&result)).done();
        let log = world.read(LOG);
        for network in ["one", "two"] {
            let line = log.lines().find(|line| line.contains("bad-del") && line.contains(network));
            let line = line.unwrap_or_else(|| panic!("{way}: no line about the stage on {network}: {log}"));
            assert!(line.contains(told), "{way}: {line}");
        }
        assert_eq!(scripted::call_lines(&world), ["DEL two net1", "DEL one eth0"], "{way}");
        Traces::of(&world, Some(&pod.netns)).same_as(&before, &format!("after DEL with {way}"));
        pod.without_netns().del(&outer, None).done();
    }
}

#[test]
fn a_module_that_is_gone_stops_no_del() {
    let world = World::new();
    install(&world, "network-status", "pass", &[]);
    let pod = Pod::new(&world, "pod");
    let outer = one();
    pod.add(&outer).result();
    world.sh("rm -r /var/lib/catena/modules");
    pod.without_netns().del(&outer, None).done();
    assert!(state::links(&world, Some(&pod.netns)).is_empty());
}

/// What CI runs again when CRI-O restarts: CHECK with the modules of the ADD.
#[test]
fn check_goes_by_the_modules_of_the_add() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = two(&["10.90.2.1"]);
    let result = pod.add(&outer).result();
    install(&world, "default-gateway", "pass", &[]);
    pod.check(&outer, &result).done();
    world.pod_sh(&pod.netns, "ip route del default; ip route add default via 10.90.1.1 dev eth0");
    pod.check(&outer, &result).failure();
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn inspect_and_show() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let pass = format!("{STAGES}/pass.wasm");
    let trap = format!("{STAGES}/trap.wasm");
    for (args, words) in [
        (["inspect", pass.as_str()], &["stage", "sha256:"][..]),
        (["inspect", trap.as_str()], &["routes"]),
        (["inspect", "default-gateway"], &["arrange", "routes", "sha256:"]),
    ] {
        let output = catenactl(&world, &args);
        assert_eq!(output.exit, Some(0), "{args:?}: {}", output.stderr);
        for word in words {
            assert!(output.stdout.contains(word), "{args:?}: {}", output.stdout);
        }
    }
    let outer = two(&["10.90.2.1"]);
    let result = pod.add(&outer).result();
    let output = catenactl(&world, &["show", &pod.id]);
    assert_eq!(output.exit, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("net1") && output.stdout.contains("10.90.2.1"), "{}", output.stdout);
    pod.del(&outer, Some(&result)).done();
}

/// The binary that runs as root cannot compile.
#[test]
fn no_compiler_in_catena() {
    let tree = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["tree", "--locked", "--offline", "-p", "catena", "-e", "normal", "--prefix", "none"])
        .output()
        .expect("cargo tree");
    let text = String::from_utf8_lossy(&tree.stdout);
    assert!(tree.status.success() && text.contains("wasmtime"), "{}", String::from_utf8_lossy(&tree.stderr));
    assert!(!text.contains("cranelift-codegen"), "catena links a compiler");
}
