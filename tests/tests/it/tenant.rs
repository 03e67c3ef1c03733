//! What a config on stdin, which a tenant may have written, can and cannot do to what the node's owner wants.

use catena_tests::conf::{self, Family, Stack};
use catena_tests::runtime::{Pod, gc_conf, with_previous};
use catena_tests::scripted;
use catena_tests::state::{Traces, defaults, via};
use catena_tests::world::{CATENACTL, World};
use serde_json::{Value, json};

use crate::modules::{install, node_file};

fn one() -> Value {
    conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]))
}

fn with_pipeline(pipeline: Value) -> Value {
    let mut outer = one();
    outer["pipeline"] = pipeline;
    outer
}

/// A world whose node has the module `policy`, which denies the network that its config names.
fn world_with(node: Value) -> World {
    let world = World::new();
    install(&world, "policy", "deny", &["log=true"]);
    install(&world, "probe", "probe", &[r#"result=["dns"]"#]);
    node_file(&world, node);
    world
}

#[test]
fn nothing_gets_round_the_baseline() {
    for place in ["before", "after"] {
        let world = world_with(json!({
            "baseline": {place: [{"stage": "policy", "config": {"network": "one"}}]},
            "pipelines": {"empty": []}
        }));
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let never = json!({"network": "another"});
        for pipeline in [
            json!(null),
            json!([]),
            json!("empty"),
            json!("default"),
            json!([{"stage": "result-conversion"}]),
            json!([{"stage": "probe", "config": {"tags": ["policy"]}, "onError": "skip"}]),
            json!([{"stage": "policy", "onError": "skip"}]),
            json!([{"stage": "policy", "unless": ["x"], "when": ["never"]}]),
            json!([{"stage": "policy", "mode": "monitor"}, {"stage": "policy"}]),
            json!([{"stage": "policy", "config": never}]),
            json!([{"stage": "policy", "config": {}, "onError": "skip"}]),
        ] {
            pod.add(&with_pipeline(pipeline)).fails_with(105, &["policy"]);
            assert!(scripted::call_lines(&world).is_empty(), "a denied pod has run no delegate");
            Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a denied ADD");
        }
        // What the policy does not mean goes on.
        let mut outer = conf::catena(json!([scripted::veth("two", 2, Stack::V4, true)]));
        outer["pipeline"] = json!([{"stage": "policy", "onError": "skip"}]);
        let result = pod.add(&outer).result();
        pod.check(&outer, &result).done();
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
    }
}

/// The same at the end of somebody else's list.
#[test]
fn nothing_gets_round_the_baseline_in_chained_mode() {
    for place in ["before", "after"] {
        let world = world_with(json!({
            "baseline": {place: [{"stage": "policy", "config": {"network": "one"}}]},
            "pipelines": {"empty": []}
        }));
        let pod = Pod::new(&world, "pod");
        let earlier = scripted::veth("one", 1, Stack::V4, true);
        let result = pod.add_list(&earlier);
        let before = Traces::of(&world, Some(&pod.netns));
        for pipeline in [
            json!(null),
            json!([]),
            json!("empty"),
            json!([{"stage": "policy", "onError": "skip", "unless": ["x"], "when": ["never"]}]),
            json!([{"stage": "policy", "mode": "monitor", "config": {"network": "another"}}]),
            json!([{"stage": "default-gateway", "config": {"filter": ["ipv4"]}}]),
        ] {
            let conf =
                json!({"cniVersion": conf::VERSION, "name": "one", "type": "catena", "pipeline": pipeline});
            let conf = with_previous(&conf, Some(&result));
            pod.add(&conf).fails_with(105, &["policy"]);
            Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a denied ADD");
        }
        pod.del_list(&earlier, Some(&result));
    }
}

#[test]
fn the_baseline_hears_no_tag_of_stdins_pipeline() {
    let dns = |server: &str| json!({"result": {"dns": {"nameservers": [server]}}});
    let world = world_with(json!({
        "baseline": {"after": [
            {"stage": "mark", "config": {"tags": ["own"]}},
            {"stage": "skipped", "when": ["own", "foreign"], "config": dns("192.0.2.1")},
            {"stage": "last", "when": ["own"], "unless": ["foreign"], "config": dns("192.0.2.2")}
        ]}
    }));
    for name in ["mark", "skipped", "last"] {
        install(&world, name, "probe", &[r#"result=["dns"]"#]);
    }
    let pod = Pod::new(&world, "pod");
    let outer = with_pipeline(json!([{"stage": "probe", "config": {"tags": ["foreign"]}}]));
    let result = pod.add(&outer).result();
    assert_eq!(result["dns"], json!({"nameservers": ["192.0.2.2"]}));
    pod.check(&outer, &result).done();
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn what_stdin_may_choose() {
    let node = |stdin: Value| {
        json!({
            "pipelines": {"x": [{"stage": "probe", "config": {"deny": "this is x"}}], "y": []},
            "defaultPipeline": "y", "stdinPipelines": stdin
        })
    };
    let refused = ["stdinPipelines", "/etc/catena/node.json"];
    for (stdin, named, written) in [
        (json!("none"), &refused[..], &refused[..]),
        (json!(["y"]), &refused, &refused),
        (json!(["x"]), &["this is x"], &refused),
        (json!("named"), &["this is x"], &refused),
        (json!("inline"), &["this is x"], &["this is inline"]),
    ] {
        let world = world_with(node(stdin));
        let pod = Pod::new(&world, "pod");
        let inline = json!([{"stage": "probe", "config": {"deny": "this is inline"}}]);
        pod.add(&with_pipeline(json!("x"))).fails_with(105, named);
        pod.add(&with_pipeline(inline)).fails_with(105, written);
        assert!(scripted::call_lines(&world).is_empty());
        let result = pod.add(&one()).result();
        pod.del(&one(), Some(&result)).done();
    }
    let world = world_with(node(json!("inline")));
    Pod::new(&world, "pod").add(&with_pipeline(json!("z"))).fails_with(7, &["\"z\"", "x, y, default"]);
}

#[test]
fn a_locked_config_and_a_failure_that_counts() {
    let world = world_with(json!({
        "modules": {"bad": {"allowSkip": false, "grants": {"log": true, "routes": {"ops": ["read"]}}},
                    "default-gateway": {
                        "config": {"filter": ["ipv4"]},
                        "grants": {"links": true, "log": true, "result": ["routes", "ips"],
                                   "routes": {"ops": ["read", "delete-default", "add", "replace"]}}}}
    }));
    install(&world, "bad", "trap", &[r#"routes={"ops":["read"]}"#, "log=true"]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let skip = with_pipeline(json!([{"stage": "bad", "onError": "skip"}]));
    pod.add(&skip).fails_with(105, &["pipeline[0].onError", "modules.bad.allowSkip"]);
    let other = with_pipeline(conf::pipeline(json!({"filter": []})));
    pod.add(&other)
        .fails_with(105, &["pipeline[2].config", "modules.default-gateway.config", "leave config out"]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a refused ADD");

    // Everybody gets the node's config.
    for outer in [one(), with_pipeline(json!([{"stage": "result-conversion"}, {"stage": "default-gateway"}]))]
    {
        let result = pod.add(&outer).result();
        assert_eq!(defaults(&world, &pod.netns, Family::V4), []);
        pod.del(&outer, Some(&result)).done();
    }
}

#[test]
fn a_stage_of_the_baseline_runs_once() {
    let world = world_with(json!({
        "baseline": {"after": [{"stage": "default-gateway"}, {"stage": "network-status"}]}
    }));
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([
        scripted::veth("one", 1, Stack::V4, true),
        conf::asking(&scripted::veth("two", 2, Stack::V4, false), &["10.90.2.1"]),
    ]));
    let result = pod.add(&outer).result();
    assert_eq!(defaults(&world, &pod.netns, Family::V4), [via("10.90.2.1", "net1", 0)]);
    assert_eq!(pod.status("outer").len(), 2, "each attachment has one element");
    pod.check(&outer, &result).done();
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn what_only_the_node_may_say_is_not_heard() {
    let world = world_with(json!({
        "modules": {"probe": {"grants": {}}},
        "baseline": {"before": [{"stage": "policy", "config": {"network": "two"}}]}
    }));
    let pod = Pod::new(&world, "pod");
    let publishing = json!([{"stage": "probe", "config": {"publish": {"example.com/x": 1}}}]);
    for (key, value) in [
        ("modules", json!({"probe": {"grants": {"publish": ["example.com/x"]}}})),
        ("grants", json!({"publish": ["example.com/x"]})),
        ("baseline", json!({})),
        ("stdinPipelines", json!("inline")),
        ("pipelines", json!({"default": []})),
        ("paths", json!({"bin": ["/tmp"]})),
    ] {
        let mut outer = with_pipeline(publishing.clone());
        outer[key] = value.clone();
        pod.add(&outer).fails_with(105, &["example.com/x", "grant"]);
        let mut other = conf::catena(json!([scripted::veth("two", 2, Stack::V4, true)]));
        other[key] = value.clone();
        pod.add(&other).fails_with(105, &["policy"]);
        // In catena's own objects it is an error.
        let mut outer = with_pipeline(publishing.clone());
        outer["pipeline"][0][key] = value;
        pod.add(&outer).fails_with(2, &[key]);
    }
    for (key, value) in [("binDir", "/tmp/bin"), ("cniDir", "/tmp/cache"), ("logFile", "/tmp/x.log")] {
        let mut outer = one();
        outer[key] = json!(value);
        outer["paths"] = json!({"bin": ["/tmp/bin"], "cache": ["/tmp/cache"], "log": ["/tmp/*"]});
        pod.add(&outer).fails_with(7, &[key, value]);
    }
    assert!(!world.path("/tmp/x.log").exists() && !world.path("/tmp/cache").exists());
}

#[test]
fn a_nodes_file_that_is_wrong_is_told_completely() {
    let world = world_with(json!({
        "pipelines": {"x": [{"stage": "probe", "speed": 1}]}, "defaultPipeline": "z", "stdinPipelines": "all",
        "modules": {"probe": {"limits": {"memoryMiB": 0}}}, "record": {"maxBytes": "much"}
    }));
    let pod = Pod::new(&world, "pod");
    let parts = [
        "/etc/catena/node.json",
        "pipelines.x[0].speed",
        "defaultPipeline",
        "stdinPipelines",
        "modules.probe.limits.memoryMiB",
        "record.maxBytes",
    ];
    pod.add(&one()).fails_with(2, &parts);
    assert!(scripted::call_lines(&world).is_empty());
}

/// A world whose node lets no pod use the bridge `br-mgmt`, and has the module `probe`, which may name another bridge.
fn world_that_admits(policy: Value) -> World {
    let world = World::new();
    install(&world, "policy", "probe", &[r#"config=["/plugins/0/mtu"]"#]);
    install(&world, "probe", "probe", &[r#"config=["/plugins/0/bridge","/plugins/0/mtu"]"#]);
    node_file(&world, json!({"baseline": {"before": [{"stage": "policy", "config": policy}]}}));
    world
}

fn on_a_bridge(rewrites: Value) -> Value {
    let mut delegate = scripted::veth("one", 1, Stack::V4, true);
    delegate["bridge"] = json!("br-pods");
    delegate["mtu"] = json!(1500);
    let mut outer = conf::catena(json!([delegate]));
    outer["pipeline"] =
        json!([{"stage": "probe", "config": {"rewrite": rewrites}}, {"stage": "result-conversion"}]);
    outer
}

#[test]
fn what_the_baseline_has_admitted_is_not_changed_behind_its_back() {
    let world = world_that_admits(json!({"refuse": {"/plugins/0/bridge": "br-mgmt"}}));
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let outer = on_a_bridge(json!({"/plugins/0/bridge": "br-mgmt"}));
    pod.add(&outer).fails_with(105, &["stage policy", "/plugins/0/bridge must not be"]);
    assert!(scripted::call_lines(&world).is_empty(), "denied before any delegate ran");
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a denied ADD");
    // Nothing against another one.
    let outer = on_a_bridge(json!({"/plugins/0/bridge": "br-other"}));
    let result = pod.add(&outer).result();
    assert_eq!(scripted::calls(&world)[0]["stdin"]["bridge"], "br-other");
    pod.del(&outer, Some(&result)).done();

    // What the baseline itself decides stays as it decided it.
    let world = world_that_admits(json!({"rewrite": {"/plugins/0/mtu": 1400}}));
    let pod = Pod::new(&world, "pod");
    // Neither to something else nor back to what it was.
    for mtu in [9000, 1500] {
        let outer = on_a_bridge(json!({"/plugins/0/mtu": mtu}));
        let failure = pod.add(&outer).fails_with(105, &["stage policy"]);
        for part in ["stage probe changed the config", "rewrite /plugins/0/mtu of the config: 1400"] {
            assert!(failure.msg.contains(part), "{part} in {}", failure.msg);
        }
        assert!(scripted::call_lines(&world).is_empty());
    }
    let outer = on_a_bridge(json!({"/plugins/0/bridge": "br-other"}));
    let result = pod.add(&outer).result();
    let sent = &scripted::calls(&world)[0]["stdin"];
    assert_eq!((&sent["bridge"], &sent["mtu"]), (&json!("br-other"), &json!(1400)));
    pod.del(&outer, Some(&result)).done();
}

/// The node's policy is that nobody has an IPv4 default route who does not ask for one; the tenant brings a stage that
/// gives one away.
#[test]
fn what_the_baseline_has_arranged_stays() {
    let routes = r#"routes={"ops":["read","delete-default","add"]}"#;
    for place in ["before", "after"] {
        let world = World::new();
        install(&world, "none", "arrange-none", &[routes, r#"result=["routes"]"#, "log=true"]);
        install(&world, "mine", "other-arrange", &[routes, r#"result=["routes"]"#, "log=true"]);
        let baseline = json!([{"stage": "result-conversion"}, {"stage": "none"}]);
        node_file(&world, json!({"baseline": {place: baseline}}));
        let pod = Pod::new(&world, "pod");
        let mine = json!({"stage": "mine", "config": {"gateways": [conf::gateway(1, Family::V4)]}});
        let outer = with_pipeline(json!([{"stage": "result-conversion"}, mine]));
        let result = pod.add(&outer).result();
        assert_eq!(defaults(&world, &pod.netns, Family::V4), [], "{place}");
        assert_eq!(result["routes"], json!(null), "{place}: {result}");
        pod.del(&outer, Some(&result)).done();
    }
}

#[test]
fn a_repeated_key_of_a_nodes_file_is_refused() {
    let world = world_with(json!({}));
    let text =
        r#"{"modules": {"probe": {"grants": {}}, "probe": {"grants": {"publish": ["example.com/x"]}}}}"#;
    world.write("/etc/catena/node.json", text);
    let pod = Pod::new(&world, "pod");
    pod.add(&one()).fails_with(7, &["/etc/catena/node.json", "modules.probe is there more than once"]);
    assert!(scripted::call_lines(&world).is_empty());
}

/// DEL works from the ledger: what a config says by then, even another pod's networks, changes nothing for that pod.
#[test]
fn a_changed_config_reaches_no_other_pod() {
    let world = World::new();
    let [pod, other] = ["pod", "other"].map(|name| Pod::new(&world, name));
    let others = conf::catena(json!([scripted::veth("two", 2, Stack::V4, true)]));
    let result = pod.add(&one()).result();
    let other_result = other.add(&others).result();
    world.sh("rm /run/scripted/calls.jsonl");
    pod.del(&others, Some(&other_result)).done();
    assert_eq!(scripted::call_lines(&world), ["DEL one eth0"]);
    other.check(&others, &other_result).done();
    // With the entry lost, the config and the runtime's container are all there is; the other's stay the other's.
    pod.add(&one()).result();
    world.sh("rm /var/lib/catena/state/id-pod@*.json; rm /run/scripted/calls.jsonl");
    pod.del(&one(), Some(&result)).done();
    assert_eq!(scripted::calls(&world)[0]["containerId"], "id-pod");
    other.check(&others, &other_result).done();
    other.del(&others, Some(&other_result)).done();
}

/// A delegate with the name of another network's shares its plugin's store of addresses, and takes nothing out of it that
/// is another container's.
#[test]
fn a_borrowed_network_name_takes_no_other_pods_address() {
    let world = World::new();
    let [pod, other] = ["pod", "other"].map(|name| Pod::new(&world, name));
    let mut own = conf::catena(json!([conf::ptp(1, Stack::V4)]));
    own["name"] = json!("tenant");
    let others = conf::catena(json!([conf::ptp(1, Stack::V4)]));
    let other_result = other.add(&others).result();
    let kept = Traces::of(&world, Some(&other.netns));
    let result = pod.add(&own).result();
    assert_ne!(result["ips"], other_result["ips"]);
    pod.del(&own, Some(&other_result)).done();
    own["cniVersion"] = json!("1.1.0");
    pod.call("catena", "GC", &gc_conf(&own, &[])).done();
    // host-local remembers whose turn it was.
    kept.nothing_more_than(&Traces::of(&world, Some(&other.netns)), "after the other's DEL and GC");
    other.check(&others, &other_result).done();
    other.del(&others, Some(&other_result)).done();
}

/// Any file that the node's patterns allow gets lines at its end, and nothing else becomes of it.
#[test]
fn a_log_is_only_appended_to() {
    let world = World::new();
    world.sh("mkdir -p /var/log/folder.log; echo first >/var/log/auth.log; echo keep >/etc/victim\n\
              ln -s /etc/victim /var/log/link.log; mkfifo /var/log/pipe.log");
    let pod = Pod::new(&world, "pod");
    let logging = |file: &str| {
        let mut outer = one();
        outer["logFile"] = json!(file);
        outer
    };
    let outer = logging("/var/log/auth.log");
    pod.add(&outer).result();
    pod.del(&outer, None).done();
    let log = world.read("/var/log/auth.log");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((lines[0], lines.len()), ("first", 3), "{log}");
    for line in &lines[1..] {
        serde_json::from_str::<Value>(line).expect("a JSON line");
    }
    for file in ["/var/log/link.log", "/var/log/pipe.log", "/var/log/folder.log"] {
        pod.add(&logging(file)).fails_with(5, &[file]);
    }
    assert_eq!(world.read("/etc/victim"), "keep\n");
    node_file(&world, json!({"paths": {"log": []}}));
    pod.add(&outer).fails_with(7, &["logFile"]);
    assert_eq!(world.read("/var/log/auth.log"), log);
}

/// Whatever texts say that others wrote, each call has one line in the log, and nothing in it acts on a terminal.
#[test]
fn no_log_line_is_forged() {
    const LOG: &str = "/var/log/catena.log";
    const MEAN: &str = "x\n{\"level\":\"info\",\"command\":\"FORGED\"}\r\u{1b}[2J\u{9b}31m";
    let world = World::new();
    world.sh("mkdir -p /var/log");
    let mut pod = Pod::new(&world, "pod");
    pod.args = format!("IgnoreUnknown=1;K8S_POD_NAME={MEAN}");
    let error = json!({"cniVersion": "1.0.0", "code": 77, "msg": MEAN, "details": MEAN});
    let telling = scripted::conf(
        "two",
        json!({"ADD": {"result": error, "exit": 1}, "DEL": {"result": error, "exit": 1}}),
    );
    let naming = json!({"cniVersion": "1.0.0", "interfaces": [{"name": MEAN}], "dns": {"domain": MEAN}});
    let mut calls = 0;
    let mut shown = String::new();
    for delegate in [
        telling,
        scripted::runs("two", &format!("printf '%s' '{MEAN}' >&2; exit 3")),
        scripted::prints("two", MEAN),
        scripted::answers("two", naming),
    ] {
        let mut outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true), delegate]));
        outer["logFile"] = json!(LOG);
        outer["logLevel"] = json!("debug");
        outer["ballast"] = json!(MEAN);
        for command in ["ADD", "DEL", "DEL"] {
            let reply = pod.call("catena", command, &outer);
            shown += &world.run(CATENACTL, &["show"]).stdout;
            shown += &reply.output.stderr;
            calls += 1;
        }
        scripted::change(&world, "two", &json!({}));
        pod.del(&outer, None).done();
        world.sh("rm /run/scripted/two.json");
        calls += 1;
    }
    let log = world.read(LOG);
    let mut own = 0;
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_ne!(line["command"], "FORGED", "{line}");
        own += usize::from(line.get("command").is_some());
    }
    assert!(log.contains("FORGED"), "none of it was logged: {log}");
    assert_eq!(own, calls, "{log}");
    let acts = |text: &str| text.chars().any(|letter| letter.is_control() && letter != '\n');
    assert!(!acts(&log) && !acts(&shown), "{log}{shown}");
}
