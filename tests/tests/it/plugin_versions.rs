//! Delegates that speak one version or another, or say nonsense when they are asked.

use catena_tests::conf;
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::world::{OWN_BIN, World};
use serde_json::{Value, json};

/// A plugin of its own name and file, so that it can have its own answer to VERSION, and be replaced.
fn install(world: &World, kind: &str, version_script: &str) {
    world.sh(&format!("cp {OWN_BIN}/scripted {OWN_BIN}/{kind}"));
    answer(world, kind, version_script);
}

/// What it answers to VERSION from now on.
fn answer(world: &World, kind: &str, version_script: &str) {
    world.write(&format!("/run/scripted/versions-{kind}.sh"), version_script);
}

/// A shell script that lists these versions.
fn lists(versions: &[&str]) -> String {
    format!("echo '{}'", json!({ "cniVersion": "1.1.0", "supportedVersions": versions }))
}

/// A config in the newest version, for a plugin that refuses all but these, as Go plugins do.
fn speaking(kind: &str, versions: &[&str], result: Value) -> Value {
    let mut conf = scripted::conf("net", json!({ "speaks": versions, "ADD": { "result": result } }));
    conf["type"] = json!(kind);
    conf["cniVersion"] = json!("1.1.0");
    conf
}

/// The versions that a plugin was asked in, in order: those of `command`.
fn asked(world: &World, command: &str) -> Vec<String> {
    let calls = scripted::calls(world).into_iter().filter(|call| call["command"] == command);
    calls.map(|call| call["stdin"]["cniVersion"].as_str().unwrap_or_default().to_owned()).collect()
}

fn probes(world: &World) -> usize {
    if world.path("/run/scripted/probes").exists() {
        world.read("/run/scripted/probes").lines().count()
    } else {
        0
    }
}

#[test]
fn one_that_speaks_the_newest_is_asked_once() {
    let world = World::new();
    install(&world, "new", &lists(&["1.0.0", "1.1.0"]));
    let pod = Pod::new(&world, "pod");
    let result = json!({ "cniVersion": "1.1.0", "ips": [{ "address": "192.0.2.5/24" }] });
    let outer = conf::catena(json!([speaking("new", &["1.0.0", "1.1.0"], result)]));
    let result = pod.add(&outer).result();
    assert_eq!(result["cniVersion"], "1.0.0");
    pod.check(&outer, &result).done();
    pod.del(&outer, None).done();
    for command in ["ADD", "CHECK", "DEL"] {
        assert_eq!(asked(&world, command), ["1.1.0"], "{command}");
    }
    assert_eq!(probes(&world), 0, "nobody needs to know its versions");
}

#[test]
fn one_that_speaks_only_0_2_0_is_asked_in_that() {
    let world = World::new();
    install(&world, "old", &lists(&["0.2.0"]));
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([speaking(
        "old",
        &["0.2.0"],
        json!({ "cniVersion": "0.2.0", "ip4": { "ip": "192.0.2.5/24" } })
    )]));
    for round in 1..=2 {
        let result = pod.add(&outer).result();
        assert_eq!(result["ips"][0]["address"], "192.0.2.5/24", "{result}");
        pod.check(&outer, &result).done();
        pod.del(&outer, Some(&result)).done();
        assert_eq!(probes(&world), 1, "round {round}: asked once, then remembered");
    }
    assert_eq!(asked(&world, "ADD"), ["1.1.0", "0.2.0", "0.2.0"]);
    assert_eq!(asked(&world, "DEL"), ["0.2.0", "0.2.0"]);
    assert_eq!(asked(&world, "CHECK"), Vec::<String>::new(), "0.2.0 has no CHECK");
    let remembered: Value = serde_json::from_str(&world.read("/run/catena/versions.json")).expect("JSON");
    assert_eq!(remembered[format!("{OWN_BIN}/old")]["versions"], json!(["0.2.0"]), "{remembered}");

    // Another time of change is another plugin, and so is another inode.
    let changes = [
        format!("touch -d '-1 hour' {OWN_BIN}/old"),
        format!("cp -p {OWN_BIN}/old /tmp/x; mv /tmp/x {OWN_BIN}/old"),
    ];
    for (change, known) in changes.iter().zip([2, 3]) {
        world.sh(change);
        pod.add(&outer).result();
        pod.del(&outer, None).done();
        assert_eq!(probes(&world), known, "after {change}");
    }
}

/// It takes every request, and answers as it always did, without a word about the version.
#[test]
fn one_that_looks_at_no_version_loses_no_address() {
    let world = World::new();
    install(&world, "old", &lists(&["0.2.0"]));
    install(&world, "new", &lists(&["1.1.0"]));
    let pod = Pod::new(&world, "pod");
    let answer = json!({ "ip4": { "ip": "192.0.2.5/24", "gateway": "192.0.2.1" } });
    let plugin = |kind: &str, step: Value| json!({ "type": kind, "script": { "ADD": step } });
    let list = json!({
        "cniVersion": "1.1.0", "name": "net",
        "plugins": [plugin("old", json!({ "result": answer })), plugin("new", json!({ "previous": true }))],
    });
    let outer = conf::catena(json!([list]));
    let result = pod.add(&outer).result();
    assert_eq!(result["ips"], json!([{ "address": "192.0.2.5/24", "gateway": "192.0.2.1" }]), "{result}");
    assert_eq!(asked(&world, "ADD"), ["1.1.0", "1.1.0"]);
    assert_eq!(probes(&world), 0, "nobody needs to know its versions");
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn each_of_a_chain_gets_the_result_in_its_version() {
    let world = World::new();
    install(&world, "new", &lists(&["1.1.0"]));
    install(&world, "old", &lists(&["0.2.0"]));
    let pod = Pod::new(&world, "pod");
    let first = json!({ "cniVersion": "1.1.0", "ips": [{ "address": "192.0.2.5/24" }] });
    let last = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "192.0.2.6/24" } });
    let plugin = |kind: &str, versions: &[&str], result: Value| json!({ "type": kind, "script": { "speaks": versions, "ADD": { "result": result } } });
    let list = json!({
        "cniVersion": "1.1.0", "name": "net",
        "plugins": [plugin("new", &["1.1.0"], first.clone()), plugin("old", &["0.2.0"], last)],
    });
    let outer = conf::catena(json!([list]));
    let result = pod.add(&outer).result();
    assert_eq!(result["ips"][0]["address"], "192.0.2.6/24");
    let calls = scripted::calls(&world);
    let previous: Vec<&Value> = calls.iter().map(|call| &call["stdin"]["prevResult"]).collect();
    let down = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "192.0.2.5/24" }, "dns": {} });
    assert_eq!(*previous[2], down, "the second call of the second plugin: {calls:#?}");
    pod.del(&outer, None).done();
}

/// A plugin that refuses the version, and answers VERSION like this: what the error has to say.
#[test]
fn one_that_answers_version_with_nonsense_is_an_error_that_says_so() {
    let world = World::new();
    world.write("/etc/catena/node.json", r#"{"deadlines": {"delegateSeconds": 2}}"#);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    for (number, (script, words)) in [
        ("echo garbage", "VERSION"),
        ("echo '{}'", "VERSION"),
        ("echo '[]'", "VERSION"),
        (r#"echo '{"cniVersion":"1.0.0","supportedVersions":"1.0.0"}'"#, "supportedVersions"),
        (r#"echo '{"cniVersion":"1.0.0","supportedVersions":[1]}'"#, "supportedVersions"),
        (r#"echo '{"cniVersion":"1.0.0","supportedVersions":[]}'"#, "VERSION"),
        ("exit 3", "exit status 3"),
        (r#"echo '{"code":4,"msg":"what is VERSION?"}'; exit 1"#, "what is VERSION?"),
        ("kill -ABRT $PPID; sleep 1", "SIGABRT"),
        ("sleep 60", "killed"),
        // Nothing that it lists is old enough, or known.
        (r#"echo '{"cniVersion":"9.0.0","supportedVersions":["9.0.0"]}'"#, "9.0.0"),
        (r#"echo '{"cniVersion":"x","supportedVersions":["nonsense"]}'"#, "nonsense"),
        // It refuses what it lists.
        (r#"echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'"#, "although it lists"),
    ]
    .into_iter()
    .enumerate()
    {
        let kind = format!("odd{number}");
        install(&world, &kind, script);
        let outer = conf::catena(json!([speaking(&kind, &[], json!({}))]));
        let failure = pod.add(&outer).fails_with(1, &[&kind, words]);
        assert!(!failure.text().contains("panic"), "{}", failure.text());
        // It refused its DEL as well, so the entry is kept for a later one.
        world.sh("rm -r /var/lib/catena/state");
        Traces::of(&world, Some(&pod.netns)).same_as(&before, &format!("after {script}"));
    }
    // From before there was VERSION: it speaks 0.1.0.
    install(&world, "ancient", r#"echo '{"code":100,"msg":"unknown CNI_COMMAND: VERSION"}'; exit 1"#);
    let outer = conf::catena(json!([speaking(
        "ancient",
        &["0.1.0"],
        json!({ "cniVersion": "0.1.0", "ip4": { "ip": "192.0.2.5/24" } })
    )]));
    let result = pod.add(&outer).result();
    assert_eq!(result["ips"][0]["address"], "192.0.2.5/24");
    pod.del(&outer, None).done();
}

/// GC and STATUS go only to plugins that list 1.1.0; one that cannot say what it lists gets neither.
#[test]
fn gc_and_status_only_for_those_that_list_them() {
    for (kind, script, asks) in [
        ("new", lists(&["1.0.0", "1.1.0"]), true),
        ("old", lists(&["0.4.0", "1.0.0"]), false),
        ("odd", "echo nonsense".to_owned(), false),
    ] {
        let world = World::new();
        install(&world, kind, &script);
        let pod = Pod::new(&world, "pod");
        let mut outer = conf::catena(json!([speaking(kind, &["1.0.0", "1.1.0"], json!({}))]));
        outer["cniVersion"] = json!("1.1.0");
        pod.call("catena", "STATUS", &outer).done();
        pod.call("catena", "STATUS", &outer).done();
        pod.call("catena", "GC", &catena_tests::runtime::gc_conf(&outer, &[])).done();
        let times = usize::from(asks);
        assert_eq!((asked(&world, "STATUS").len(), asked(&world, "GC").len()), (2 * times, times), "{kind}");
        if kind != "odd" {
            assert_eq!(probes(&world), 1, "{kind}: its answer is remembered");
        }
    }
}
