//! What a module may do is what the node grants: each grant tried with and without.

use catena_tests::conf::{self, Family, Stack};
use catena_tests::runtime::{Pod, Reply};
use catena_tests::scripted;
use catena_tests::state::{Traces, defaults};
use catena_tests::world::{CATENACTL, World};
use serde_json::{Value, json};

use crate::modules::{install, node_file};

/// ADD of a pod with one network, and the module `x` with this config at the end of the pipeline.
struct Try {
    world: World,
    outer: Value,
}

impl Try {
    /// `stage` is installed as `x` with `grants` (an object as in node.json).
    fn new(stage: &str, grants: &Value, config: &Value) -> Try {
        let world = World::new();
        let options: Vec<String> =
            grants.as_object().expect("grants").iter().map(|(key, value)| format!("{key}={value}")).collect();
        install(&world, "x", stage, &options.iter().map(String::as_str).collect::<Vec<_>>());
        let mut outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]));
        outer["pipeline"] = json!([{"stage": "result-conversion"}, {"stage": "x", "config": config}]);
        Try { world, outer }
    }

    fn add(&self, pod: &Pod<'_>) -> Reply {
        pod.add(&self.outer)
    }

    /// `catenactl run` must say of a config what ADD says, with code 106.
    fn is_rehearsed(&self, conf: &Value, words: &str) {
        self.world.write("/tmp/fixture.json", json!({"conf": conf}).to_string());
        let output = self.world.run(CATENACTL, &["run", "/tmp/fixture.json", "--json"]);
        let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
        assert_eq!((output.exit, &report["error"]["code"]), (Some(1), &json!(106)), "{report:#}");
        assert!(report["error"]["msg"].as_str().is_some_and(|msg| msg.contains(words)), "{report:#}");
    }

    /// It must be refused with the grant that is missing, and nothing may be left.
    fn is_refused(&self, code: i64, grant: &str) {
        let pod = Pod::new(&self.world, "pod");
        let before = Traces::of(&self.world, Some(&pod.netns));
        self.add(&pod).fails_with(code, &["stage x", "sha256:", grant]);
        Traces::of(&self.world, Some(&pod.netns)).same_as(&before, "after a refused ADD");
    }
}

#[test]
fn members_of_the_result() {
    for (member, value) in [
        ("dns", json!({"nameservers": ["192.0.2.53"]})),
        ("routes", json!([{"dst": "203.0.113.0/24"}])),
        ("ips", json!([{"address": "203.0.113.9/24", "interface": 0}])),
        ("interfaces", json!([{"name": "eth0", "sandbox": "/run/netns/pod", "mac": "02:00:00:00:00:01"}])),
    ] {
        let config = json!({"result": {member: value.clone()}});
        Try::new("probe", &json!({}), &config).is_refused(105, &format!(r#"{{"result":["{member}"]}}"#));
        let granted = Try::new("probe", &json!({"result": [member]}), &config);
        let result = granted.add(&Pod::new(&granted.world, "pod")).result();
        assert_eq!(result[member], value);
    }
    // Nobody can grant a member that the specification does not know.
    let all = json!({"result": ["dns", "routes", "ips", "interfaces"]});
    Try::new("probe", &all, &json!({"result": {"vendor": 1}})).is_refused(105, "no grant allows");
}

#[test]
fn publications() {
    let config = json!({"publish": {"example.com/x": {"a": 1}}});
    Try::new("probe", &json!({}), &config).is_refused(105, r#"{"publish":["example.com/x"]}"#);
    Try::new("probe", &json!({"publish": ["example.com/y"]}), &config)
        .is_refused(105, r#"{"publish":["example.com/x"]}"#);
    let granted = Try::new("probe", &json!({"publish": ["example.com/x"]}), &config);
    let pod = Pod::new(&granted.world, "pod");
    granted.add(&pod).result();
    let shown = granted.world.run(catena_tests::world::CATENACTL, &["show", &pod.id, "--json"]);
    assert!(shown.stdout.contains("example.com/x"), "{}{}", shown.stdout, shown.stderr);
}

#[test]
fn annotations() {
    let with_annotations = |tried: &mut Try| {
        tried.outer["runtimeConfig"] = json!({
            "io.kubernetes.cri.pod-annotations": {"example.com/a": "for x", "example.com/b": "a secret"}
        });
    };
    for (grants, seen) in [
        (json!({}), json!({})),
        (json!({"annotations": ["example.com/a", "example.com/c"]}), json!({"example.com/a": "for x"})),
    ] {
        for (member, expected) in [("annotations", seen.clone()), ("runtimeConfig", json!({}))] {
            let mut tried = Try::new("probe", &grants, &json!({"show": member}));
            with_annotations(&mut tried);
            let failure = tried.add(&Pod::new(&tried.world, "pod")).fails_with(105, &[]);
            assert_eq!(
                serde_json::from_str::<Value>(&failure.msg).expect("what it saw"),
                expected,
                "{grants}"
            );
        }
    }
}

#[test]
fn members_of_a_config() {
    let mtu = json!({"rewrite": {"/plugins/0/script/ADD/result/dns": {"domain": "rewritten"}}});
    let outer = |tried: &mut Try| {
        let dns = json!({"domain": "original"});
        tried.outer["delegates"][0]["script"]["ADD"]["result"]["dns"] = dns;
    };
    let pointer = "/plugins/0/script/ADD/result/dns";
    let mut without = Try::new("probe", &json!({}), &mtu);
    outer(&mut without);
    without.is_refused(105, pointer);
    assert!(scripted::call_lines(&without.world).is_empty(), "refused before any delegate");
    let mut granted = Try::new("probe", &json!({"config": [pointer]}), &mtu);
    outer(&mut granted);
    let result = granted.add(&Pod::new(&granted.world, "pod")).result();
    assert_eq!(result["dns"]["domain"], "rewritten");

    // A type decides which program runs as root, so nothing around it includes it.
    let plugin = json!({"rewrite": {"/plugins/0/type": "bridge"}});
    for grants in [json!({}), json!({"config": ["/plugins/0"]}), json!({"config": [""]})] {
        let tried = Try::new("probe", &grants, &plugin);
        tried.is_refused(105, r#"{"config":["/plugins/0/type"]}"#);
        assert!(scripted::call_lines(&tried.world).is_empty());
    }
    let named = Try::new("probe", &json!({"config": ["/plugins/0/type"]}), &plugin);
    let result = named.add(&Pod::new(&named.world, "pod")).result();
    assert_eq!(result["interfaces"][0]["name"], "cni0", "bridge ran: {result}");
    assert!(scripted::call_lines(&named.world).iter().all(|line| !line.starts_with("ADD")));
}

/// What is written again is read again, and stays the same network.
#[test]
fn a_rewritten_config_is_of_the_same_network() {
    let tried = Try::new("probe", &json!({"config": ["/name"]}), &json!({"rewrite": {"/name": "other"}}));
    node_file(&tried.world, json!({"record": {}}));
    tried.add(&Pod::new(&tried.world, "pod")).fails_with(106, &["one/eth0", "names may not change"]);
    assert!(scripted::call_lines(&tried.world).is_empty(), "refused before any delegate");
    tried.is_rehearsed(&tried.outer, "names may not change");
    let replayed = tried.world.run(CATENACTL, &["replay", "--json"]);
    let replayed: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    assert_eq!((&replayed["same"], &replayed["differs"]), (&json!(1), &json!(0)), "{replayed:#}");
}

#[test]
fn a_chained_catena_has_no_config_to_rewrite() {
    let pointer = "/prevResult/dns";
    let tried = Try::new("probe", &json!({"config": [pointer]}), &json!({"rewrite": {pointer: {}}}));
    let chained = json!({
        "cniVersion": "1.0.0", "name": "chain", "type": "catena", "prevResult": {"cniVersion": "1.0.0", "dns": {"domain": "x"}},
        "pipeline": tried.outer["pipeline"],
    });
    Pod::new(&tried.world, "pod").add(&chained).fails_with(106, &["chained"]);
    tried.is_rehearsed(&chained, "chained");
}

#[test]
fn operations_on_routes() {
    let grant = |ops: &[&str]| json!({"log": true, "routes": {"ops": ops}});
    for (op, needs) in [
        ("read", &[][..]),
        ("delete-default", &["read"]),
        ("delete", &["read"]),
        ("add", &["read"]),
        ("replace", &["read"]),
    ] {
        let config = json!({"op": op});
        let mut all = needs.to_vec();
        all.push(op);
        let granted = Try::new("routes", &grant(&all), &config);
        let pod = Pod::new(&granted.world, "pod");
        granted.add(&pod).result();
        let left = defaults(&granted.world, &pod.netns, Family::V4).len();
        assert_eq!(left, usize::from(!matches!(op, "delete-default" | "replace")), "{op}");
        if op == "read" {
            // What the import alone stands for: without it the module is not even loaded.
            node_file(&granted.world, json!({"modules": {"x": {"grants": {"log": true}}}}));
            granted.is_refused_at_load(r#""routes":{"links":["@attachment"],"ops":["read"],"tables":[254]}"#);
            continue;
        }
        Try::new("routes", &grant(needs), &config).is_refused(105, &format!("\"{op}\""));
    }
    // The wider operation includes the narrower.
    let wider = Try::new("routes", &grant(&["read", "delete"]), &json!({"op": "delete-default"}));
    wider.add(&Pod::new(&wider.world, "pod")).result();
}

fn with_another_link(tried: &Try) -> Pod<'_> {
    let pod = Pod::new(&tried.world, "pod");
    tried.world.pod_sh(&pod.netns, "ip link add other type veth peer name more; ip link set other up");
    pod
}

#[test]
fn links_and_tables_of_routes() {
    let grant = |routes: Value| json!({"log": true, "routes": routes});
    let ops = json!(["read", "add"]);
    let table = json!({"op": "add", "table": 100});
    Try::new("routes", &grant(json!({"ops": ops})), &table).is_refused(105, r#""tables":[100,254]"#);
    let link = json!({"op": "add", "link": "other"});
    let without = Try::new("routes", &grant(json!({"ops": ops})), &link);
    let pod = with_another_link(&without);
    without.add(&pod).fails_with(105, &["stage x", r#""links":["@attachment","other"]"#]);
    let named = Try::new("routes", &grant(json!({"ops": ops, "links": ["@attachment", "other"]})), &link);
    let pod = with_another_link(&named);
    named.add(&pod).result();
    let routes = named.world.ip(Some(&pod.netns), "-4 route show dev other");
    assert!(routes.iter().any(|route| route["dst"] == "203.0.113.0/24"), "{routes:?}");
    // Everything that the grant names can be done: another table, all five operations, and the undo.
    let all = json!({"ops": ["read", "delete", "add", "replace"], "tables": [100]});
    let granted = Try::new("routes", &grant(all.clone()), &table);
    let pod = Pod::new(&granted.world, "pod");
    granted.add(&pod).result();
    let in_table = |tried: &Try, pod: &Pod<'_>| {
        let routes = tried.world.ip(Some(&pod.netns), "-4 route show table 100");
        routes.iter().map(|route| route["dst"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(in_table(&granted, &pod), ["203.0.113.0/24"]);
    for (op, left) in [("read", 1), ("delete", 0), ("replace", 0)] {
        let tried = Try::new("routes", &grant(all.clone()), &json!({"op": op, "table": 100}));
        let pod = Pod::new(&tried.world, "pod");
        let mut outer = tried.outer.clone();
        let pipeline = outer["pipeline"].as_array_mut().expect("a pipeline");
        pipeline.insert(1, json!({"stage": "x", "config": table}));
        let mut fails = outer.clone();
        pod.add(&outer).result();
        assert_eq!(in_table(&tried, &pod).len(), left, "{op}");
        pod.del(&outer, None).done();
        // What is not undone exactly has a code of its own.
        let pipeline = fails["pipeline"].as_array_mut().expect("a pipeline");
        pipeline.push(json!({"stage": "x", "config": {"op": "none"}}));
        pod.add(&fails).fails_with(7, &["stage x"]);
        assert_eq!(in_table(&tried, &pod), [""; 0], "{op}");
    }
}

#[test]
fn routes_without_a_link() {
    let grant = |links: &Value| json!({"log": true, "routes": {"links": links, "ops": ["read", "add"]}});
    for kind in ["blackhole", "unreachable", "prohibit", "throw"] {
        let config = json!({"op": "add", "type": kind});
        Try::new("routes", &grant(&json!(["@attachment"])), &config)
            .is_refused(105, r#""links":["@attachment","@none"]"#);
        let granted = Try::new("routes", &grant(&json!(["@none"])), &config);
        let pod = Pod::new(&granted.world, "pod");
        granted.add(&pod).result();
        let routes = granted.world.ip(Some(&pod.netns), "-4 route show 203.0.113.0/24");
        assert_eq!((routes.len(), &routes[0]["type"]), (1, &json!(kind)), "{routes:?}");
    }
}

/// Less than the usual grant is enough to be loaded: each call is judged by itself.
#[test]
fn a_grant_may_be_narrower_than_the_usual_one() {
    for (routes, refused) in [
        (json!({"links": ["other"], "ops": ["read"]}), None),
        (json!({"ops": []}), Some(r#""ops":["read"]"#)),
        (json!({"ops": ["add"]}), Some(r#""ops":["read","add"]"#)),
    ] {
        let tried = Try::new("routes", &json!({"log": true, "routes": routes}), &json!({"op": "read"}));
        match refused {
            None => drop(tried.add(&Pod::new(&tried.world, "pod")).result()),
            Some(grant) => tried.is_refused(105, grant),
        }
    }
}

impl Try {
    fn is_refused_at_load(&self, grant: &str) {
        let pod = Pod::new(&self.world, "late");
        let calls = scripted::call_lines(&self.world).len();
        self.add(&pod).fails_with(105, &["module x", "sha256:", grant, "modules.x.grants"]);
        assert_eq!(scripted::call_lines(&self.world).len(), calls, "refused before anything ran");
    }
}

/// What a module imports is refused before anything of it runs.
#[test]
fn imports() {
    let world = World::new();
    install(&world, "x", "trap", &[r#"routes={"ops":["read"]}"#, "log=true"]);
    install(&world, "y", "greedy", &["links=true", "log=true", r#"publish=["example.com/x"]"#]);
    let outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]));
    for (number, (name, grants, missing)) in [
        ("x", json!({"routes": {"ops": ["read"]}}), r#"{"log":true}"#),
        ("x", json!({"log": true}), r#""ops":["read"]"#),
        ("y", json!({"log": true, "publish": ["example.com/x"]}), r#"{"links":true}"#),
        // What no import stands for, but the module says that it wants it.
        ("y", json!({"log": true, "links": true}), r#"{"publish":["example.com/x"]}"#),
    ]
    .into_iter()
    .enumerate()
    {
        node_file(&world, json!({"modules": {name: {"grants": grants}}}));
        let mut outer = outer.clone();
        outer["pipeline"] = json!([{"stage": name}]);
        let pod = Pod { id: "c".into(), ..Pod::new(&world, &format!("pod{number}")) };
        let place = format!("modules.{name}.grants in node.json");
        pod.add(&outer).fails_with(105, &[&format!("module {name}"), missing, &place]);
        assert!(scripted::call_lines(&world).is_empty());
    }
}
