//! A stage that is only tried on real pods: it runs, changes nothing, and what it would have done is told.

use catena_tests::conf::{self, Family, Stack, asking};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::world::{CATENACTL, World};
use serde_json::{Value, json};

use crate::modules::install;

const LOG: &str = "/var/log/catena.log";
const ROUTES: &str = r#"routes={"ops":["read","delete-default","delete","add","replace"]}"#;

fn outer(pipeline: Value) -> Value {
    let mut first = scripted::veth("one", 1, Stack::Dual, true);
    first["script"]["ADD"]["result"]["dns"] = json!({"domain": "original"});
    let mut outer =
        conf::catena(json!([first, asking(&scripted::veth("two", 2, Stack::Dual, false), &["10.90.2.1"]),]));
    outer["logFile"] = json!(LOG);
    outer["pipeline"] = pipeline;
    outer
}

/// The default pipeline with a monitored stage at its end.
fn with(stage: &str, config: Value) -> Value {
    let mut pipeline = conf::pipeline(json!({}));
    let entry = json!({"stage": stage, "config": config, "mode": "monitor"});
    pipeline.as_array_mut().expect("a list").push(entry);
    pipeline
}

/// What is there to be seen of an attached pod.
fn seen(world: &World, pod: &Pod<'_>, result: &Value) -> (Value, Vec<Value>, Traces) {
    (result.clone(), pod.status("outer"), Traces::of(world, Some(&pod.netns)))
}

/// The lines of what the stage would have done, as `catenactl show` and as the log have them.
fn would(world: &World, pod: &Pod<'_>, stage: &str) -> (Vec<String>, Vec<String>) {
    let output = world.run(CATENACTL, &["show", &pod.id, "--json"]);
    let shown: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let entry = &shown["entries"][0];
    let listed = entry["pipeline"].as_array().expect("a pipeline").last().expect("an entry").clone();
    assert_eq!((&listed["stage"], &listed["mode"]), (&json!(stage), &json!("monitor")), "{shown:#}");
    let lines = |reports: Vec<&Value>| -> Vec<String> {
        let stages = reports.into_iter().flat_map(|report| {
            let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
            [list("arrange"), list("stages")].concat()
        });
        let own = stages.filter(|record| record["stage"] == stage && record["outcome"] == "monitored");
        own.flat_map(|record| record["would"].as_array().cloned().unwrap_or_default())
            .map(|line| line.as_str().expect("a line").to_owned())
            .collect()
    };
    let attachments = entry["attachments"].as_array().expect("attachments");
    let ledger = lines(attachments.iter().map(|attachment| &attachment["attached"]["report"]).collect());
    let log = world.read(LOG);
    let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("a JSON line");
    assert_eq!(last["command"], "ADD");
    let mut reports = vec![&last];
    reports.extend(last["attachments"].as_array().expect("attachments"));
    (ledger, lines(reports))
}

#[test]
fn it_changes_nothing_and_tells_what_it_would_have_done() {
    let world = World::new();
    install(&world, "denies", "deny", &["log=true"]);
    let all = [
        r#"result=["dns"]"#,
        r#"publish=["example.com/x"]"#,
        r#"config=["/plugins/0/script/ADD/result/dns"]"#,
    ];
    install(&world, "probes", "probe", &all);
    install(&world, "routes", "routes", &[ROUTES, "log=true"]);
    install(&world, "traps", "trap", &[ROUTES, "log=true"]);
    install(
        &world,
        "arranges",
        "arrange-none",
        &[ROUTES, r#"result=["routes","ips"]"#, "log=true", "links=true"],
    );
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let plain = outer(conf::pipeline(json!({})));
    let result = pod.add(&plain).result();
    let expected = seen(&world, &pod, &result);
    pod.del(&plain, Some(&result)).done();

    let probe = json!({
        "result": {"dns": {"domain": "changed"}}, "publish": {"example.com/x": {"a": 1}}, "tags": ["empty"],
        "rewrite": {"/plugins/0/script/ADD/result/dns": {"domain": "rewritten"}},
    });
    for (stage, config, words) in [
        ("denies", json!({"network": "two"}), &["deny: network two is not for this pod"][..]),
        (
            "probes",
            probe,
            &[
                r#"rewrite /plugins/0/script/ADD/result/dns/domain of the config: "rewritten""#,
                r#"change dns of the result: {"domain":"changed"}"#,
                "tag: empty",
                r#"publish example.com/x: {"a":1}"#,
            ],
        ),
        ("routes", json!({"op": "delete-default"}), &["change routes: - default via 10.90.2.1 dev net1"]),
        ("routes", json!({"op": "add"}), &["change routes: + 203.0.113.0/24 dev eth0"]),
        ("traps", json!({}), &["fail: ", "trapped on purpose after 1 deleted default routes"]),
        ("arranges", json!({}), &[r#"arrange two/net1: {"ipv4":{"action":"leave"}"#]),
        // It would have failed for lack of a grant, and that is told too.
        ("probes", json!({"publish": {"example.com/y": 1}}), &["fail: ", r#"{"publish":["example.com/y"]}"#]),
    ] {
        let outer = outer(with(stage, config));
        let result = pod.add(&outer).result();
        let found = seen(&world, &pod, &result);
        assert_eq!((&found.0, &found.1), (&expected.0, &expected.1), "{stage}");
        found.2.same_as(&expected.2, stage);
        let (ledger, log) = would(&world, &pod, stage);
        assert_eq!(ledger, log, "{stage}: show and log say the same");
        for word in words {
            assert!(ledger.iter().any(|line| line.contains(word)), "{stage}: {word:?} in {ledger:?}");
        }
        let text = world.run(CATENACTL, &["show", &pod.id]).stdout;
        for line in &ledger {
            assert!(text.contains(line.as_str()), "{stage}: {line:?} in {text}");
        }
        assert!(text.contains("(monitor)"), "{text}");
        assert!(!text.contains("publishes  example.com"), "{text}");
        pod.check(&outer, &result).done();
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&before, stage);
    }
}

/// What it says has no effect on what comes after it either: not a tag, not an intent, not a rewritten config.
#[test]
fn what_comes_after_it_sees_nothing_of_it() {
    let world = World::new();
    install(&world, "probes", "probe", &[r#"result=["dns"]"#]);
    install(
        &world,
        "arranges",
        "arrange-none",
        &[ROUTES, r#"result=["routes","ips"]"#, "log=true", "links=true"],
    );
    let pod = Pod::new(&world, "pod");
    let pipeline = json!([
        {"stage": "result-conversion"}, {"stage": "empty-result"},
        {"stage": "arranges", "mode": "monitor"},
        {"stage": "probes", "mode": "monitor", "config": {"tags": ["empty"]}},
        {"stage": "default-gateway", "unless": ["empty"]}, {"stage": "network-status"},
    ]);
    let result = pod.add(&outer(pipeline)).result();
    assert_eq!(result["dns"]["domain"], "original");
    assert_eq!(
        state::defaults(&world, &pod.netns, Family::V4),
        [state::via("10.90.2.1", "net1", 0)],
        "default-gateway ran, by its own decision"
    );
}
