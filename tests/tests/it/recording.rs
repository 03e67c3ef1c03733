//! Recordings of the real plugin: what they hold, who may read them, how much is kept; and `catenactl replay`.

use std::os::unix::fs::PermissionsExt as _;

use catena_tests::conf::{self, Stack, asking};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::world::{CATENACTL, Output, World};
use serde_json::{Value, json};

use crate::modules::{install, node_file};

const FOLDER: &str = "/var/lib/catena/records";

fn two() -> Value {
    conf::catena(json!([
        scripted::veth("one", 1, Stack::Dual, true),
        asking(&scripted::veth("two", 2, Stack::Dual, false), &["10.90.2.1"]),
    ]))
}

fn recordings(world: &World) -> Vec<Value> {
    let files = world.files(FOLDER);
    files.values().map(|text| serde_json::from_slice(text).expect("a recording is JSON")).collect()
}

fn replay(world: &World, args: &[&str]) -> Output {
    world.run(CATENACTL, &[&["replay"], args].concat())
}

fn replayed(world: &World, args: &[&str]) -> Value {
    let output = replay(world, &[args, &["--json"]].concat());
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stderr))
}

#[test]
fn each_add_leaves_one_and_only_where_the_node_wants_it() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let result = pod.add(&two()).result();
    assert!(!world.path(FOLDER).exists(), "off by default");
    pod.del(&two(), Some(&result)).done();
    let refused = replay(&world, &[]);
    assert!(refused.exit == Some(1) && refused.stderr.contains("`record`"), "{}", refused.stderr);

    node_file(&world, json!({"record": {"maxBytes": 1_000_000, "maxAgeHours": 1}}));
    install(&world, "probe", "probe", &[r#"annotations=["example.com/a"]"#]);
    let mut outer = two();
    outer["pipeline"] = conf::pipeline(json!({}));
    outer["pipeline"].as_array_mut().expect("a list").push(json!({"stage": "probe"}));
    outer["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": {"example.com/a": "granted", "example.com/b": "a secret"}});
    let result = pod.add(&outer).result();
    let mode = |path: &str| world.path(path).metadata().expect("a file").permissions().mode() & 0o7777;
    assert_eq!(mode(FOLDER), 0o700);
    let file = world.files(FOLDER).into_keys().next().expect("a recording");
    assert_eq!(mode(&file), 0o600);
    let text = world.read(&file);
    assert!(text.contains("granted") && !text.contains("a secret"), "{text}");
    let [recording] = recordings(&world).try_into().expect("one recording");
    assert_eq!(recording["annotations"], json!({"example.com/a": "granted"}));
    assert_eq!(recording["attachments"][1]["before"]["result"]["ips"][0]["address"], "10.90.2.9/24");
    let routes = recording["attachments"][0]["before"]["namespace"]["routes"].to_string();
    assert!(routes.contains("10.90.1.1"), "the routes that the stages saw: {routes}");
    assert_eq!(recording["attachments"][1]["after"]["tags"], json!([]));
    pod.check(&outer, &result).done();
    pod.del(&outer, Some(&result)).done();
    assert_eq!(recordings(&world).len(), 1, "only ADD leaves one");

    // One that fails as well, and says so.
    let mut failing = two();
    failing["delegates"][0]["script"]["ADD"] = json!({"sh": "exit 3"});
    let failure = pod.add(&failing).failure();
    let last = recordings(&world).pop().expect("a recording");
    assert_eq!((&last["error"]["code"], &last["error"]["msg"]), (&json!(failure.code), &json!(failure.msg)));

    // Run again as they were, nothing differs.
    let report = replayed(&world, &[]);
    assert_eq!(
        (&report["same"], &report["recordings"][0]["differences"]),
        (&json!(2), &json!([])),
        "{report:#}"
    );
    assert_eq!(replay(&world, &[]).exit, Some(0));
}

#[test]
fn no_more_is_kept_than_the_node_allows() {
    let world = World::new();
    node_file(&world, json!({"record": {"maxAgeHours": 2}}));
    let pod = Pod::new(&world, "pod");
    let add = |id: &str| {
        let pod = Pod { id: id.into(), ..pod.clone() };
        let result = pod.add(&two()).result();
        pod.del(&two(), Some(&result)).done();
    };
    add("a");
    let (file, text) = world.files(FOLDER).into_iter().next().expect("a recording");
    let size = text.len();

    // By size: room for two and a half.
    node_file(&world, json!({"record": {"maxBytes": size * 5 / 2, "maxAgeHours": 2}}));
    for id in ["b", "c", "d"] {
        add(id);
    }
    let kept: Vec<Value> =
        recordings(&world).iter().map(|one| one["intended"]["containerId"].clone()).collect();
    assert_eq!(kept, ["c", "d"]);
    let bytes: usize = world.files(FOLDER).values().map(Vec::len).sum();
    assert!(bytes <= size * 5 / 2, "{bytes}");

    // By age: one of three hours ago goes with the next ADD, one of an hour ago stays.
    let name = file.rsplit('/').next().expect("a name");
    let (time, rest) = name.split_once('-').expect("a time");
    let time: u64 = time.parse().expect("milliseconds");
    world.sh(&format!("rm {FOLDER}/*"));
    node_file(&world, json!({"record": {"maxAgeHours": 2}}));
    for hours in [3, 1] {
        world.write(&format!("{FOLDER}/{:013}-{rest}", time - hours * 3_600_000), &text);
    }
    add("e");
    let kept = world.files(FOLDER).len();
    assert_eq!(kept, 2, "{:?}", world.files(FOLDER).keys());
    assert!(!world.path(&format!("{FOLDER}/{:013}-{rest}", time - 3 * 3_600_000)).exists());

    // One that is larger than everything may be together is not kept, and the ADD goes on.
    node_file(&world, json!({"record": {"maxBytes": 100}}));
    let mut outer = two();
    outer["logFile"] = json!("/var/log/catena.log");
    let result = pod.add(&outer).result();
    let log = world.read("/var/log/catena.log");
    assert!(log.contains("record.maxBytes"), "{log}");
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let world = World::new();
    node_file(&world, json!({"record": {}}));
    let pod = Pod::new(&world, "pod");
    pod.add(&two()).result();
    world.write("/tmp/not.json", "{\"schema\": 7}");
    let file = world.files(FOLDER).into_keys().next().expect("a recording");
    let report = replayed(&world, &[&file, "/tmp/not.json"]);
    assert_eq!((&report["same"], &report["unusable"]), (&json!(1), &json!(1)), "{report:#}");
    let output = replay(&world, &[&file, "/tmp/not.json", "/tmp/absent.json"]);
    assert_eq!(output.exit, Some(1));
    for word in ["/tmp/not.json", "schema is 7", "/tmp/absent.json", "3 recordings: 1 same"] {
        assert!(output.stdout.contains(word), "{word:?} in {}", output.stdout);
    }
    let output = replay(&world, &["--pipeline", "nowhere"]);
    assert!(output.exit == Some(1) && output.stderr.contains("nowhere"), "{}", output.stderr);
}
