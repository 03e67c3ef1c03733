//! What a policy team does, from what the node has seen to a policy that it can take back: record, write a module,
//! replay, monitor, install, roll back.

use catena_tests::conf::{self, Family, Stack, asking};
use catena_tests::runtime::{Pod, with_previous};
use catena_tests::scripted;
use catena_tests::state::{self, DefaultRoute, Traces};
use catena_tests::world::{CATENACTL, STAGES, World};
use serde_json::{Value, json};

use crate::modules::{install, node_file};

/// One of the ten kinds of pods, and how its ADD ends.
struct Kind {
    name: &'static str,
    conf: Value,
    /// A denied or broken one: the code.
    fails: Option<i64>,
}

fn veth(name: &str, n: u8, stack: Stack, default: bool) -> Value {
    scripted::veth(name, n, stack, default)
}

/// Ten pods that have little in common. `storage` is a network of one, `legacy` of another.
fn ten() -> Vec<Kind> {
    let kind = |name, conf| Kind { name, conf, fails: None };
    let mut old = conf::catena(json!([veth("front", 1, Stack::V4, true)]));
    old["cniVersion"] = json!("0.4.0");
    let mut inline = conf::catena(json!([veth("front", 1, Stack::Dual, true)]));
    inline["pipeline"] = json!([{"stage": "result-conversion"}, {"stage": "network-status"}]);
    let mut chained = json!({"cniVersion": conf::VERSION, "name": "front", "type": "catena"});
    chained["pipeline"] = json!([
        {"stage": "result-conversion"}, {"stage": "default-gateway", "config": {"filter": ["ipv6"]}}
    ]);
    let mut side_by_side = conf::catena(json!([
        veth("front", 1, Stack::V4, true),
        veth("two", 2, Stack::V4, false),
        veth("three", 3, Stack::V6, false),
    ]));
    side_by_side["parallel"] = json!(true);
    let broken = scripted::runs("front", "echo no >&2; exit 9");
    vec![
        kind("plain", conf::catena(json!([veth("front", 1, Stack::Dual, true)]))),
        kind("old", old),
        kind(
            "asks",
            conf::catena(json!([
                veth("front", 1, Stack::Dual, true),
                asking(&veth("two", 2, Stack::Dual, false), &["10.90.2.1"]),
            ])),
        ),
        kind(
            "storage",
            conf::catena(json!([veth("front", 1, Stack::V4, true), veth("storage", 4, Stack::V4, false)])),
        ),
        kind("legacy", conf::catena(json!([veth("legacy", 5, Stack::Dual, true)]))),
        kind(
            "empty",
            conf::catena(json!([veth("front", 1, Stack::V4, true), scripted::prints("nothing", "{}")])),
        ),
        kind("inline", inline),
        kind("chained", chained),
        kind("parallel", side_by_side),
        Kind { name: "broken", conf: conf::catena(json!([broken])), fails: Some(110) },
    ]
}

/// What comes of an ADD, as a pod and a runtime see it.
#[derive(Debug, PartialEq)]
struct Seen {
    answer: Result<Value, (i64, String)>,
    defaults: Vec<DefaultRoute>,
}

/// A node on which pods come and go, one after the other.
struct Node {
    world: World,
}

impl Node {
    /// What pods have left, which does not count what the node's owner has.
    fn traces(&self) -> Traces {
        let owned = ["/tmp/", "/etc/catena/", "/var/lib/catena/modules/", "/var/lib/catena/records/"];
        let mut traces = Traces::of(&self.world, Some("/run/netns/pod"));
        traces.0.retain(|line| !owned.iter().any(|folder| line.starts_with(&format!("file {folder}"))));
        traces
    }

    fn pod(&self, kind: &Kind) -> Pod<'_> {
        Pod { id: format!("id-{}", kind.name), ..Pod::existing(&self.world, "pod") }
    }

    /// What came before a chained catena: a link with an address and routes.
    fn earlier(&self, pod: &Pod<'_>, kind: &Kind) -> Value {
        if kind.name != "chained" {
            return kind.conf.clone();
        }
        let result = pod.add_list(&veth("front", 1, Stack::Dual, true));
        with_previous(&kind.conf, Some(&result))
    }

    /// One pod's life. `look` sees it while it is there.
    fn live(&self, kind: &Kind, look: &mut dyn FnMut(&Pod<'_>)) -> Seen {
        let pod = self.pod(kind);
        let conf = self.earlier(&pod, kind);
        let reply = pod.add(&conf);
        let answer = if reply.output.exit == Some(0) {
            Ok(reply.result())
        } else {
            let failure = reply.failure();
            Err((failure.code, failure.msg))
        };
        let mut defaults = Vec::new();
        for family in Family::ALL {
            defaults.extend(state::defaults(&self.world, &pod.netns, family));
        }
        if answer.is_ok() {
            look(&pod);
        }
        pod.call("catena", "DEL", &conf).done();
        if kind.name == "chained" {
            pod.del_list(&veth("front", 1, Stack::Dual, true), None);
        }
        Seen { answer, defaults }
    }

    fn all(&self) -> Vec<Seen> {
        ten().iter().map(|kind| self.live(kind, &mut |_| {})).collect()
    }

    fn ctl(&self, args: &[&str], exit: i32) -> String {
        let output = self.world.run(CATENACTL, args);
        assert_eq!(output.exit, Some(exit), "catenactl {args:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// The recordings that would come out differently, by container, with what differs.
    fn replay(&self, args: &[&str]) -> Vec<(String, Vec<String>)> {
        let text = self.ctl(&[&["replay", "--json"], args].concat(), 1);
        let report: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&report["unknown"], &report["unusable"]), (&json!(0), &json!(0)), "{report:#}");
        let all = report["recordings"].as_array().expect("recordings");
        assert_eq!(all.len(), 10, "{report:#}");
        let mut found = Vec::new();
        for one in all.iter().filter(|one| one["outcome"] == "differs") {
            let lines = one["differences"].as_array().expect("differences").iter();
            let lines = lines.map(|line| line.as_str().expect("a line").to_owned()).collect();
            found.push((one["containerId"].as_str().expect("an id").to_owned(), lines));
        }
        found
    }
}

/// These two, and for these reasons.
fn exactly_these(found: &[(String, Vec<String>)]) {
    let names: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["id-storage", "id-legacy"], "{found:?}");
    assert_eq!(found[0].1, ["succeeds -> fails with code 105: network storage is closed"]);
    for word in ["legacy/eth0: result.routes", "route gone: default via 10.90.5.1 dev eth0"] {
        assert!(found[1].1.iter().any(|line| line.contains(word)), "{word:?} in {found:?}");
    }
}

const POLICY: [&str; 3] = [r#"routes={"ops":["read","delete-default"]}"#, r#"result=["routes"]"#, "log=true"];

#[test]
fn from_what_was_seen_to_a_policy_and_back() {
    let node = Node { world: World::new() };
    let world = &node.world;
    world.pod("pod");
    let before = node.traces();
    // The policy that is in force lets everything through.
    let config = json!({"deny": ["storage"], "filter": ["legacy"]});
    let in_force = json!({"stage": "site-policy", "config": config});
    let node_json = |after: Value| json!({"baseline": {"before": [], "after": after}, "record": {}});
    install(world, "site-policy", "pass", &[]);
    node_file(world, node_json(json!([in_force])));

    // Ten pods are recorded.
    let earlier = node.all();
    for (kind, seen) in ten().iter().zip(&earlier) {
        let code = seen.answer.as_ref().err().map(|(code, _)| *code);
        assert_eq!(code, kind.fails, "{}: {seen:?}", kind.name);
    }
    node.traces().same_as(&before, "after ten pods");
    node_file(world, json!({"baseline": {"before": [], "after": [in_force]}}));

    // The new module is tried on them before it is anywhere near a pod: in the place of the old one, and as a pipeline.
    let module = format!("site-policy={STAGES}/site-policy.wasm");
    exactly_these(&node.replay(&["--module", &module]));
    let next = json!([
        {"stage": "result-conversion"}, {"stage": "empty-result"},
        {"stage": "default-gateway", "unless": ["empty"]}, {"stage": "network-status"},
        {"stage": "next-policy", "config": config},
    ]);
    world.write("/tmp/next.json", next.to_string());
    let module = format!("next-policy={STAGES}/site-policy.wasm");
    let found = node.replay(&["--pipeline", "/tmp/next.json", "--module", &module]);
    // Those that brought a pipeline of their own get this one now.
    let own = ["id-inline", "id-chained"];
    let found: Vec<_> = found.into_iter().filter(|(id, _)| !own.contains(&id.as_str())).collect();
    exactly_these(&found);
    assert_eq!(node.ctl(&["list"], 0).matches("next-policy").count(), 0, "nothing was installed");

    // Then beside the old one on real pods, where it only tells.
    install(world, "next-policy", "site-policy", &POLICY);
    let mut monitored = json!({"stage": "next-policy", "config": config});
    monitored["mode"] = json!("monitor");
    node_file(world, json!({"baseline": {"before": [], "after": [in_force, monitored]}}));
    for (kind, seen) in ten().iter().zip(&earlier) {
        let mut told = String::new();
        let now = node.live(kind, &mut |pod| told = node.ctl(&["show", &pod.id], 0));
        assert_eq!(now, *seen, "{}", kind.name);
        let would: Vec<&str> =
            told.lines().filter_map(|line| line.trim_start().strip_prefix("would")).map(str::trim).collect();
        match kind.name {
            "storage" => assert_eq!(would, ["deny: network storage is closed"]),
            "legacy" => assert!(
                would.iter().any(|line| line.contains("- default via 10.90.5.1 dev eth0")),
                "{would:?}"
            ),
            _ => assert_eq!(would, [""; 0], "{}", kind.name),
        }
    }

    // Then for real.
    install(world, "site-policy", "site-policy", &POLICY);
    node_file(world, json!({"baseline": {"before": [], "after": [in_force]}}));
    for (kind, seen) in ten().iter().zip(&earlier) {
        let now = node.live(kind, &mut |_| {});
        match kind.name {
            "storage" => {
                assert_eq!(now.answer, Err((105, "network storage is closed".to_owned())));
                let calls = scripted::call_lines(world);
                assert!(!calls.last().is_some_and(|call| call.starts_with("ADD")), "{calls:?}");
            }
            "legacy" => {
                assert_eq!(
                    (&now.defaults[..], &now.answer.expect("a result")["routes"]),
                    (&[][..], &Value::Null)
                );
            }
            _ => assert_eq!(now, *seen, "{}", kind.name),
        }
    }

    // And back.
    node.ctl(&["rollback", "site-policy"], 0);
    for (kind, (now, seen)) in ten().iter().zip(node.all().iter().zip(&earlier)) {
        assert_eq!(now, seen, "{}", kind.name);
    }
    node.traces().same_as(&before, "after all");
}
