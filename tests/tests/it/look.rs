//! What people see afterwards: `catenactl show`, `why` and `forget` on what the real plugin did.

use catena_tests::conf::{self, Family, Stack, asking};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::world::{CATENACTL, Output, World};
use serde_json::{Value, json};

fn ctl(world: &World, args: &[&str]) -> Output {
    let output = world.run(CATENACTL, args);
    assert_eq!(output.exit, Some(0), "catenactl {args:?}: {}", output.stderr);
    output
}

fn json_of(world: &World, args: &[&str]) -> Value {
    let output = ctl(world, &[args, &["--json"]].concat());
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

fn two() -> Value {
    conf::catena(json!([
        scripted::veth("one", 1, Stack::Dual, true),
        asking(&scripted::veth("two", 2, Stack::Dual, false), &["10.90.2.1"]),
    ]))
}

#[test]
fn each_stage_with_time_and_route_changes() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    pod.add(&two()).result();
    let text = ctl(&world, &["show", &pod.id]).stdout;
    for word in [
        "default-gateway stage: ok",
        "µs",
        "fuel",
        "+ default via 10.90.2.1 dev net1",
        "- default via 10.90.1.1",
    ] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    let shown = json_of(&world, &["show", &pod.id]);
    let attached = |position: usize| &shown["entries"][0]["attachments"][position]["attached"];
    let has = |value: &Value, start: &str| {
        value.as_array().unwrap().iter().any(|route| route.as_str().unwrap().starts_with(start))
    };
    let (first, second) = (attached(0), attached(1));
    assert!(has(&first["routesBefore"], "default via 10.90.1.1 dev eth0"), "{first:#}");
    assert!(!has(&first["routesNow"], "default via 10.90.1.1"), "{first:#}");
    assert!(has(&first["routesNow"], "default via fd00:90:1::1 dev eth0"), "{first:#}");
    assert!(!has(&second["routesBefore"], "default via 10.90"), "{second:#}");
    assert!(has(&second["routesNow"], "default via 10.90.2.1 dev net1"), "{second:#}");
    assert!(has(&second["routesBefore"], "10.90.2.0/24 dev net1"), "{second:#}");
}

#[test]
fn each_route_with_its_cause() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    pod.add(&two()).result();
    let report = json_of(&world, &["why", &pod.id]);
    let attachments = report["entries"][0]["attachments"].as_array().unwrap();
    let cause = |attachment: &Value, start: &str| {
        let routes = attachment["routes"].as_array().unwrap();
        let found = routes.iter().find(|route| route["route"].as_str().unwrap().starts_with(start));
        found.map(|route| route["cause"].as_str().unwrap().to_owned())
    };
    let secondary = &attachments[1];
    assert!(cause(secondary, "default via 10.90.2.1").unwrap().starts_with("stage default-gateway sha256:"));
    assert_eq!(cause(secondary, "10.90.2.0/24").unwrap(), "the kernel, for an address");
    assert_eq!(cause(&attachments[0], "default via fd00:90:1::1").unwrap(), "a delegate");
    assert!(attachments[0]["gone"][0]["route"].as_str().unwrap().starts_with("default via 10.90.1.1"));
    for place in ["kernel", "ledger", "cache", "status"] {
        assert_eq!(secondary["defaults"][place], json!(["10.90.2.1"]), "{place}");
        assert_eq!(attachments[0]["defaults"][place], json!(["fd00:90:1::1"]), "{place}");
    }
    assert!(attachments.iter().all(|attachment| attachment["agree"] == true));

    // Somebody else changes the kernel: the places differ, and the route is nobody's of ours.
    world.pod_sh(&pod.netns, "ip route replace default via 10.90.2.7 dev net1 proto 99");
    let report = json_of(&world, &["why", &pod.id]);
    let secondary = &report["entries"][0]["attachments"][1];
    assert_eq!(
        (&secondary["agree"], &secondary["defaults"]["kernel"]),
        (&json!(false), &json!(["10.90.2.7"]))
    );
    assert_eq!(cause(secondary, "default via 10.90.2.7").unwrap(), "no stage of catena; protocol 99");
    let text = ctl(&world, &["why", &pod.id[..4]]).stdout;
    assert!(text.contains("differs") && text.contains("status 10.90.2.1"), "{text}");

    // The namespace goes: what is recorded is still told.
    pod.vanish();
    let report = json_of(&world, &["why", &pod.id]);
    assert!(report["entries"][0]["kernel"].as_str().unwrap().contains("namespace"), "{report:#}");
    let warning = report["entries"][0]["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("the kernel was not asked"), "{report:#}");
    let unknown = json_of(&world, &["show", &pod.id])["entries"][0]["routesUnknown"].clone();
    assert!(unknown.as_str().is_some_and(|why| why.contains("namespace")), "{unknown}");
    assert_eq!(report["entries"][0]["attachments"][1]["defaults"]["ledger"], json!(["10.90.2.1"]));
}

#[test]
fn forget_ends_a_del_that_cannot_succeed() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]));
    let result = pod.add(&outer).result();

    let refused = world.run(CATENACTL, &["forget", &pod.id]);
    assert_eq!(refused.exit, Some(1), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("is attached") && refused.stderr.contains("--force"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        world.run(CATENACTL, &["forget", &pod.id[..3]]).exit,
        Some(1),
        "a part of an id is not enough"
    );

    scripted::change(
        &world,
        "one",
        &json!({"DEL": {"sh": format!("{}; exit 1", scripted::delete_script(1))}}),
    );
    pod.del(&outer, Some(&result)).failure();
    let text = ctl(&world, &["show", &pod.id]).stdout;
    assert!(text.contains("delete failed"), "{text}");
    let text = ctl(&world, &["forget", &pod.id]).stdout;
    assert!(text.contains("forgotten") && text.contains("was not deleted"), "{text}");
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after forget");
    assert_eq!(world.run(CATENACTL, &["show", &pod.id]).exit, Some(1));
    assert!(state::defaults(&world, &pod.netns, Family::V4).is_empty());
}

#[test]
fn forget_takes_all_or_nothing() {
    const DEVICES: &str = "/var/run/k8s.cni.cncf.io/devinfo/cni";
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    // The first by name, whose DEL cannot succeed, and which has described its device.
    let mut first = scripted::veth("one", 1, Stack::V4, true);
    first["capabilities"] = json!({"CNIDeviceInfoFile": true});
    let sh = first["script"]["ADD"]["sh"].as_str().expect("a script").to_owned();
    let file = format!("{DEVICES}/one-{}_eth0", pod.id);
    first["script"]["ADD"]["sh"] = json!(format!("{sh}echo '{{\"type\": \"vdpa\"}}' >{file}"));
    let mut failing = conf::catena(json!([first]));
    failing["name"] = json!("a-first");
    let other = Pod { ifname: "eth1".into(), ..pod.clone() };
    let attached = conf::catena(json!([scripted::veth("two", 2, Stack::V4, false)]));
    let result = pod.add(&failing).result();
    let second = other.add(&attached).result();
    let gone = scripted::delete_script(1);
    scripted::change(&world, "one", &json!({"DEL": {"sh": format!("{gone}; exit 1")}}));
    pod.del(&failing, Some(&result)).failure();

    let files =
        || (world.files("/var/lib/catena/state"), world.files("/run/catena/status"), world.files(DEVICES));
    let all = files();
    let refused = world.run(CATENACTL, &["forget", &pod.id]);
    assert!(refused.exit == Some(1) && refused.stderr.contains("eth1 of network"), "{}", refused.stderr);
    assert_eq!(files(), all, "nothing is forgotten while one is attached");

    // A file of the node that cannot be removed keeps its entry, and only that.
    world.sh(&format!("mv {file} {file}.kept; mkdir {file}; touch {file}/x"));
    let stuck = world.run(CATENACTL, &["forget", &pod.id, "--force", "--json"]);
    assert_eq!(stuck.exit, Some(3), "{}{}", stuck.stdout, stuck.stderr);
    let report: Value = serde_json::from_str(&stuck.stdout).expect("JSON");
    assert!(report["forgotten"].as_array().is_some_and(|forgotten| forgotten.len() == 1), "{report:#}");
    assert!(report["left"][0]["entry"].as_str().is_some_and(|entry| entry.contains("a-first")), "{report:#}");
    assert!(report["left"][0]["errors"].to_string().contains(DEVICES), "{report:#}");
    for removed in report["removed"].as_array().expect("a list") {
        let path = removed.as_str().expect("a path");
        let cached = path.starts_with("/var/lib/cni/");
        assert!(cached || all.1.contains_key(path) || all.2.contains_key(path), "{path} was there");
        assert_eq!(world.sh(&format!("ls {path} 2>/dev/null || true")), "", "{path} went");
    }
    assert_eq!(world.run(CATENACTL, &["show", &pod.id]).exit, Some(0), "one is still there");
    let text = world.run(CATENACTL, &["forget", &pod.id]);
    assert!(text.exit == Some(3) && text.stdout.contains("run this again"), "{}", text.stdout);
    world.sh(&format!("rm -r {file}; mv {file}.kept {file}"));
    // Again, it ends.
    let report = json_of(&world, &["forget", &pod.id]);
    assert!(report["forgotten"].to_string().contains("a-first"), "{report:#}");
    assert_eq!(report["left"], json!([]), "{report:#}");
    assert_eq!(world.run(CATENACTL, &["show", &pod.id]).exit, Some(1));
    assert_eq!(world.sh(&format!("ls {DEVICES}")), "");
    other.del(&attached, Some(&second));
    world.sh(&scripted::delete_script(2));
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after forget");
}
