//! Modules that answer with what no stage should: each is stopped with a text that names the module and what to do,
//! and leaves nothing.

use catena_tests::conf::{self, Stack};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::world::{CATENACTL, STAGES, World};
use serde_json::{Value, json};

use crate::modules::{install, node_file};

const ROUTES: &str = r#"routes={"ops":["read","delete-default","delete","add","replace"]}"#;
const LOG: &str = "/var/log/catena.log";

fn world() -> World {
    let world = World::new();
    install(&world, "x", "nonsense", &[r#"result=["routes"]"#, "log=true"]);
    world
}

fn outer(config: Value) -> Value {
    let mut outer = conf::catena(json!([scripted::veth("one", 1, Stack::Dual, true)]));
    outer["logFile"] = json!(LOG);
    outer["pipeline"] = json!([{"stage": "result-conversion"}, {"stage": "x", "config": config}]);
    outer
}

/// What a person may see: no control character but the end of a line.
fn plain(text: &str, what: &str) {
    let hidden = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(hidden), "{what} has a control character: {text:?}");
}

#[test]
fn answers_that_are_none() {
    let world = world();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    for (what, code, words) in [
        ("json", 106, &["not JSON"][..]),
        ("index", 106, &["result"]),
        ("null", 106, &["result"]),
        ("format", 106, &["cni/9.9.9"]),
        ("mismatch", 106, &["cniVersion 0.2.0"]),
        // An address that no delegate gave.
        ("address", 105, &[r#"{"result":["ips"]}"#]),
        ("huge", 103, &["1048576 bytes of a result", "limits.resultKiB"]),
        // Codes below 200 are the host's.
        ("code", 200, &["a code of the host"]),
        ("arrangement", 106, &["array of 1"]),
        ("escape", 200, &["all is well"]),
        ("long", 200, &["xxx"]),
    ] {
        let reply = pod.add(&outer(json!({"what": what})));
        plain(&reply.output.stdout, what);
        plain(&reply.output.stderr, what);
        let mut all = vec!["stage x", "sha256:"];
        all.extend(words);
        let failure = reply.fails_with(code, &all);
        assert!(failure.text().len() < 8192, "{what}: a text of {} bytes", failure.text().len());
        Traces::of(&world, Some(&pod.netns)).same_as(&before, what);
    }
    plain(&world.read(LOG), "the log");
    // Many long lines are cut, not punished.
    let result = pod.add(&outer(json!({"what": "log"}))).result();
    let log = world.read(LOG);
    let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("a JSON line");
    let lines = last["attachments"][0]["stages"][1]["log"].as_array().expect("its lines").clone();
    assert!(lines.len() <= 65, "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.as_str().is_some_and(|text| text.len() < 1100)));
    pod.del(&outer(json!({"what": "log"})), Some(&result)).done();
}

#[test]
fn a_failed_call_counts_before_the_delegates_too() {
    let world = World::new();
    install(&world, "x", "swallow", &[r#"routes={"ops":["read"]}"#, "log=true"]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    for at in ["arrange", "admit"] {
        let words = ["stage x", "returned ok although", "table 100 is not granted"];
        pod.add(&outer(json!({"at": at}))).fails_with(105, &words);
        let log = world.read(LOG);
        let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("a JSON line");
        let records = if at == "arrange" { &last["arrange"] } else { &last["attachments"][0]["stages"] };
        let record = records.as_array().and_then(|list| list.last()).expect("a record");
        assert!(record["error"].as_str().is_some_and(|error| error.contains("table 100")), "{record}");
        Traces::of(&world, Some(&pod.netns)).same_as(&before, at);
    }
    assert!(scripted::call_lines(&world).is_empty());
}

#[test]
fn a_failure_before_the_delegates_is_passed_over_where_that_is_asked_for() {
    let world = world();
    install(&world, "y", "probe", &[]);
    let pod = Pod::new(&world, "pod");
    let mut skipping = outer(json!({"what": "arrangement"}));
    let pipeline = json!([
        {"stage": "result-conversion"},
        {"stage": "x", "config": {"what": "arrangement"}, "onError": "skip"},
        {"stage": "y", "config": {"rewrite": {"/nowhere": 1}}, "onError": "skip"}
    ]);
    skipping["pipeline"] = pipeline.clone();
    let result = pod.add(&skipping).result();
    let log = world.read(LOG);
    let last: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("a JSON line");
    assert_eq!(last["arrange"][0]["outcome"], "passed over", "{last}");
    assert_eq!(last["attachments"][0]["stages"][0]["outcome"], "passed over", "{last}");
    pod.del(&skipping, Some(&result)).done();
    // One that nobody lets pass, and a denial, which nothing lets pass.
    for (index, config, code) in
        [(2, json!({"rewrite": {"/nowhere": 1}}), 7), (2, json!({"deny": "no pods today"}), 105)]
    {
        let mut failing = skipping.clone();
        failing["pipeline"] = pipeline.clone();
        failing["pipeline"][index]["config"] = config;
        if code != 105 {
            failing["pipeline"][index].as_object_mut().expect("an entry").remove("onError");
        }
        pod.add(&failing).fails_with(code, &["stage y"]);
    }
}

#[test]
fn a_bad_config_of_a_stage_is_found_before_anything_runs() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let with = |entry: Value| {
        let mut outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]));
        outer["logFile"] = json!(LOG);
        outer["pipeline"] = json!([{"stage": "result-conversion"}, entry]);
        outer
    };
    let last = || -> Value {
        let log = world.read(LOG);
        serde_json::from_str(log.lines().last().expect("a line")).expect("a JSON line")
    };
    // Of these two only the first would show before the delegates ran.
    for (entry, words) in [
        (
            json!({"stage": "default-gateway", "config": {"override": ["192.0.2.1", "0.0.0.0"]}}),
            ["stage default-gateway", "config/override/1: 0.0.0.0"],
        ),
        (
            json!({"stage": "empty-result", "config": {"mode": "rejekt"}}),
            ["stage empty-result", "unknown variant `rejekt`"],
        ),
    ] {
        let failure = pod.add(&with(entry)).fails_with(7, &words);
        assert!(failure.text().contains("sha256:"), "{}", failure.text());
        let name = words[0].trim_start_matches("stage ");
        assert!(failure.msg.contains(&format!("modules.{name}.config of /etc/catena/node.json")));
        assert!(scripted::call_lines(&world).is_empty(), "no delegate ran");
        assert_eq!(last()["arrange"][0]["export"], "settings");
    }
    // A monitored stage only says so, and one that may be passed over is.
    for (key, value, outcome) in [("mode", "monitor", "monitored"), ("onError", "skip", "passed over")] {
        let mut entry = json!({"stage": "empty-result", "config": {"mode": "rejekt"}});
        entry[key] = json!(value);
        let outer = with(entry);
        let result = pod.add(&outer).result();
        assert_eq!(last()["arrange"][0]["outcome"], outcome);
        pod.del(&outer, Some(&result)).done();
    }
    // Where it is right, and where there is none, nothing is said.
    let outer = with(json!({"stage": "empty-result", "config": {"mode": "allow"}}));
    let result = pod.add(&outer).result();
    pod.del(&outer, Some(&result)).done();
    let outer = with(json!({"stage": "empty-result"}));
    let result = pod.add(&outer).result();
    assert_eq!(last()["arrange"], json!([]));
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn a_trap_leaves_the_nodes_files_alone() {
    let world = World::new();
    install(&world, "x", "trap", &[ROUTES, "log=true"]);
    node_file(
        &world,
        json!({"pipelines": {"default": [{"stage": "result-conversion"}, {"stage": "x"}]},
        "modules": {"x": {"grants": {"log": true, "routes": {"ops": ["read", "delete-default"]}}}}}),
    );
    let files = |world: &World| (world.files("/etc/catena"), world.files("/var/lib/catena/modules"));
    let before = files(&world);
    let pod = Pod::new(&world, "pod");
    let traces = Traces::of(&world, Some(&pod.netns));
    let plain = conf::catena(json!([scripted::veth("one", 1, Stack::Dual, true)]));
    pod.add(&plain).fails_with(101, &["stage x", "sha256:", "trapped on purpose after 2 deleted"]);
    Traces::of(&world, Some(&pod.netns)).same_as(&traces, "after a trap");
    assert_eq!(files(&world), before);
}

/// What a stage did before it failed was undone, so neither `show` nor `why` may count it.
#[test]
fn what_was_undone_is_no_cause() {
    let world = World::new();
    install(&world, "x", "trap", &[ROUTES, "log=true"]);
    let pod = Pod::new(&world, "pod");
    let mut outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]));
    outer["pipeline"] = json!([{"stage": "result-conversion"}, {"stage": "x", "onError": "skip"}]);
    let result = pod.add(&outer).result();
    let told = |verb: &str| -> Value {
        let output = world.run(CATENACTL, &[verb, &pod.id, "--json"]);
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stderr))
    };
    let shown = told("show");
    let attached = &shown["entries"][0]["attachments"][0]["attached"];
    let record = &attached["report"]["stages"][1];
    assert_eq!(
        (&record["outcome"], &record["routeChanges"]),
        (&json!("passed over"), &json!([])),
        "{record:#}"
    );
    assert!(record["undone"][0].as_str().is_some_and(|line| line.starts_with("- default via")), "{record:#}");
    assert_eq!(attached["routesBefore"], attached["routesNow"], "{attached:#}");
    let why = told("why");
    let attachment = &why["entries"][0]["attachments"][0];
    assert_eq!(attachment["gone"], json!([]), "{attachment:#}");
    let routes = attachment["routes"].as_array().expect("routes");
    let default =
        routes.iter().find(|route| route["route"].to_string().contains("default")).expect("a default");
    assert!(!default["cause"].to_string().contains("stage x"), "{attachment:#}");
    let text = world.run(CATENACTL, &["show", &pod.id]).stdout;
    assert!(text.contains("    undone - default via"), "{text}");
    pod.del(&outer, Some(&result)).done();
}

/// Whatever a module can hand out as text, a person sees it without what a terminal would act on.
#[test]
fn escapes_in_every_text() {
    let world = World::new();
    let grants = [
        r#"publish=["example.com/x"]"#,
        r#"result=["dns"]"#,
        r#"config=["/plugins/0/script/ADD/result/dns"]"#,
        ROUTES,
        "log=true",
    ];
    install(&world, "x", "escapes", &grants);
    // What was said, as a person may see it.
    let said = "\\u{1b}[2J\\u{1b}[31mall is well";
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let with = |r#where: &str| {
        let mut outer = outer(json!({"where": r#where}));
        outer["logLevel"] = json!("debug");
        outer["delegates"][0]["script"]["ADD"]["result"]["dns"] = json!({"domain": "plain"});
        outer
    };
    for (place, code) in [
        ("denied", 105),
        ("config", 7),
        ("result", 6),
        ("later", 11),
        ("failed", 300),
        ("panic", 101),
        ("key", 105),
        ("tag", 106),
        ("link", 108),
    ] {
        let reply = pod.add(&with(place));
        plain(&reply.output.stdout, place);
        plain(&reply.output.stderr, place);
        let failure = reply.fails_with(code, &["stage x"]);
        assert!(failure.text().contains(said), "{place}: {}", failure.text());
        Traces::of(&world, Some(&pod.netns)).same_as(&before, place);
    }
    for place in ["log", "publication", "reason", "member", "rewrite"] {
        let outer = with(place);
        let reply = pod.add(&outer);
        let result = reply.result();
        plain(&reply.output.stderr, place);
        let mut seen = String::new();
        for args in [&["show"][..], &["why"], &["show", "--json"], &["why", "--json"]] {
            let output = world.run(CATENACTL, &[args, &[pod.id.as_str()]].concat());
            assert_eq!(output.exit, Some(0), "{place}: {args:?}: {}", output.stderr);
            plain(&output.stdout, &format!("{place}: {args:?}"));
            seen.push_str(&output.stdout);
        }
        assert!(seen.contains("all is well"), "{place} is shown: {seen}");
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&before, place);
    }
    let log = world.read(LOG);
    plain(&log, "the log");
    assert!(log.matches("all is well").count() > 10, "{log}");

    // What is tried, judged and listed.
    let fixture = |place: &str| {
        let conf = json!({"cniVersion": "1.0.0", "name": "n", "type": "catena",
            "delegates": [{"cniVersion": "1.0.0", "name": "one", "type": "ptp"}],
            "pipeline": [{"stage": "result-conversion"}, {"stage": "x", "config": {"where": place}}]});
        world.write("/tmp/conf.json", conf.to_string());
        let fixture = json!({"conf": conf, "results": [{"cniVersion": "1.0.0"}]});
        world.write("/tmp/fixture.json", fixture.to_string());
    };
    for place in ["denied", "failed", "panic", "log", "publication", "key", "tag", "reason", "member"] {
        fixture(place);
        for args in [&["run", "/tmp/fixture.json"][..], &["run", "/tmp/fixture.json", "--json"]] {
            let output = world.run(CATENACTL, args);
            plain(&output.stdout, &format!("{place}: {args:?}"));
            assert!(output.stdout.contains("all is well"), "{place}: {}{}", output.stdout, output.stderr);
        }
    }
    fixture("settings");
    for args in [&["check", "/tmp/conf.json"][..], &["check", "/tmp/conf.json", "--json"]] {
        let output = world.run(CATENACTL, args);
        assert_eq!(output.exit, Some(1), "{}", output.stdout);
        plain(&output.stdout, "check");
        assert!(output.stdout.contains("all is well"), "{}", output.stdout);
    }
}

/// Each limit that a compiled module can go over: the text names module, limit and what to do, and all is as before.
#[test]
fn every_limit_has_a_name_and_a_remedy() {
    let world = World::new();
    let grants = [r#"publish=["example.com/x"]"#, "log=true", "links=true"];
    install(&world, "x", "greedy", &grants);
    install(&world, "loops", "spin", &["log=true"]);
    install(&world, "swells", "memory", &["log=true"]);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let files = || (world.files("/etc/catena"), world.files("/var/lib/catena/modules"));
    let files_before = files();
    let fixed = "this limit is fixed";
    for (stage, what, code, words) in [
        ("x", "stack", 103, ["524288 bytes of stack", fixed]),
        ("x", "calls", 103, ["256 host calls", "limits.hostCalls"]),
        ("x", "log", 103, ["1024 calls of log", "limits.logLines"]),
        ("x", "transfer", 103, ["4194304 bytes in one call", "limits.resultKiB"]),
        ("x", "tags", 103, ["32 tags", fixed]),
        ("x", "publications", 103, ["262144 bytes of publications", fixed]),
        ("loops", "", 102, ["used up its 50", "limits.fuel"]),
        ("swells", "", 103, ["33554432 bytes of memory", "limits.memoryMiB"]),
    ] {
        let mut outer = outer(json!({"what": what}));
        outer["pipeline"][1]["stage"] = json!(stage);
        let failure =
            pod.add(&outer).fails_with(code, &[&format!("stage {stage}"), "sha256:", words[0], words[1]]);
        plain(&failure.text(), what);
        Traces::of(&world, Some(&pod.netns)).same_as(&before, what);
        assert_eq!(files(), files_before, "{what}");
    }
    // The node can give one module more of what is not fixed.
    let rule = json!({"grants": {"publish": ["example.com/x"], "log": true, "links": true}, "limits": {"hostCalls": 2000}});
    node_file(&world, json!({"modules": {"x": rule}}));
    let result = pod.add(&outer(json!({"what": "calls"}))).result();
    pod.del(&outer(json!({"what": "calls"})), Some(&result)).done();
}

/// A module that never comes back is ended by every command that runs one.
#[test]
fn a_loop_ends_in_every_command() {
    let world = World::new();
    node_file(&world, json!({"record": {}}));
    let pod = Pod::new(&world, "pod");
    let mut outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]));
    outer["pipeline"] = json!([{"stage": "result-conversion"}]);
    let result = pod.add(&outer).result();
    pod.del(&outer, Some(&result)).done();

    let module = format!("{STAGES}/spin.wasm");
    let given = format!("--module=loops={module}");
    world.write("/tmp/fixture.json", json!({"conf": outer}).to_string());
    for at in ["stage", "settings"] {
        let pipeline = json!([{"stage": "result-conversion"}, {"stage": "loops", "config": {"at": at}}]);
        world.write("/tmp/next.json", pipeline.to_string());
        let tried = ["--pipeline", "/tmp/next.json", &given];
        for args in
            [&["run", "/tmp/fixture.json"][..], &["bench", "-n", "2", "/tmp/fixture.json"], &["replay"]]
        {
            let output = world.run(CATENACTL, &[args, &tried].concat());
            let what = format!("{at}: {args:?}: {}{}", output.stdout, output.stderr);
            for words in ["stage loops", "used up its 50", "limits.fuel"] {
                assert!(output.stdout.contains(words), "{words:?}: {what}");
            }
            // bench measures what there is.
            assert_eq!(output.exit, Some(i32::from(args[0] != "bench")), "{what}");
        }
    }
    // Who installs and who checks is told what judging the configs that are there comes to.
    let pipelines = json!({"pipelines": {"a": [{"stage": "loops", "config": {"at": "settings"}}]}});
    node_file(&world, pipelines);
    let installed = world.run(CATENACTL, &["install", "loops", &module, "--grant", "log=true"]);
    let checked = world.run(CATENACTL, &["check"]);
    assert_eq!((installed.exit, checked.exit), (Some(0), Some(1)), "{}{}", installed.stderr, checked.stdout);
    for output in [installed, checked] {
        for words in ["/pipelines/a/0/config", "stage loops", "used up its 50", "limits.fuel"] {
            assert!(output.stdout.contains(words), "{words:?} in {}{}", output.stdout, output.stderr);
        }
    }
}
