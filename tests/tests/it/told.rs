//! The JSON that modules are told is what the schemas beside the contract say, and nothing that they do not.

use catena_tests::conf::{self, Stack};
use catena_tests::runtime::{Pod, with_previous};
use catena_tests::scripted;
use catena_tests::world::World;
use jsonschema::Registry;
use serde_json::{Value, json};

use crate::modules::install;

const FILES: [(&str, &str); 3] = [
    ("context.schema.json", include_str!("../../../wit/0.1.0/context.schema.json")),
    ("attachments.schema.json", include_str!("../../../wit/0.1.0/attachments.schema.json")),
    ("intent.schema.json", include_str!("../../../wit/0.1.0/intent.schema.json")),
];

/// Makes every object whose members a schema lists a closed one: what is told must be written down.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(close);
            if object.contains_key("properties") && object.contains_key("type") {
                object.insert("additionalProperties".into(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// What a schema says against a value; closed, or as it is.
fn words_against(name: &str, closed: bool, value: &Value) -> Vec<String> {
    let read = |text: &str| {
        let mut schema: Value = serde_json::from_str(text).expect("a schema is JSON");
        if closed {
            close(&mut schema);
        }
        schema
    };
    let mut registry = Registry::new();
    for (file, text) in FILES {
        registry = registry.add(format!("json-schema:///{file}"), read(text)).expect("a schema");
    }
    let registry = registry.prepare().expect("schemas");
    let (_, text) = FILES.iter().find(|(file, _)| *file == name).expect("a file");
    let validator = jsonschema::options().offline().with_registry(&registry).build(&read(text));
    let validator = validator.expect("a schema");
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[track_caller]
fn is_as_written(name: &str, value: &Value) {
    for closed in [true, false] {
        assert_eq!(words_against(name, closed, value), [""; 0], "{name}: {value:#}");
    }
}

/// Two networks, the second of a definition and with everything that can be asked for.
fn outer() -> Value {
    let mut second = scripted::veth("two", 2, Stack::Dual, false);
    second["capabilities"] = json!({"ips": true, "mac": true, "bandwidth": true});
    let bandwidth =
        json!({"ingressRate": 2048, "ingressBurst": 1600, "egressRate": 4096, "egressBurst": 1600});
    let mut outer = conf::catena(json!([
        scripted::veth("one", 1, Stack::Dual, true),
        {
            "name": "second", "namespace": "blue", "config": second, "interface": "net7",
            "default-route": [conf::gateway(2, conf::Family::V4)],
            "ips": ["10.90.2.9/24"], "mac": "02:00:00:00:00:09", "bandwidth": bandwidth,
        },
        {"config": scripted::veth("three", 3, Stack::V4, false), "catena.dev/default-route": "none"},
    ]));
    outer["capabilities"] = json!({"io.kubernetes.cri.pod-annotations": true, "portMappings": true});
    outer["runtimeConfig"] = json!({
        "io.kubernetes.cri.pod-annotations": {"example.com/a": "for x", "example.com/b": "not for x"},
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
    });
    outer
}

fn pipeline(place: &str) -> Value {
    json!([
        {"stage": "result-conversion"},
        {"stage": "default-gateway"},
        {"stage": "x", "config": {"in": place}},
    ])
}

fn world() -> World {
    let world = World::new();
    install(&world, "x", "told", &[r#"annotations=["example.com/a"]"#]);
    world
}

/// What it was told there.
fn told(pod: &Pod<'_>, outer: &Value, place: &str) -> Value {
    let mut outer = outer.clone();
    outer["pipeline"] = pipeline(place);
    let failure = pod.add(&outer).fails_with(105, &[]);
    serde_json::from_str(&failure.msg).unwrap_or_else(|error| panic!("{error}: {}", failure.msg))
}

#[test]
fn of_a_pod_with_several_networks() {
    let world = world();
    let pod = Pod::new(&world, "pod");
    let outer = outer();

    let arrange = told(&pod, &outer, "arrange");
    is_as_written("context.schema.json", &arrange["context"]);
    is_as_written("attachments.schema.json", &arrange["more"]);
    assert_eq!(arrange["context"]["secondaryDefaults"], "keep");
    assert_eq!(arrange["context"]["annotations"], json!({"example.com/a": "for x"}));
    let second = &arrange["more"][1];
    assert_eq!(second["attachment"], json!({"namespace": "blue", "name": "second"}));
    let asked = json!({
        "defaultRoute": ["10.90.2.1"], "ips": ["10.90.2.9/24"], "mac": "02:00:00:00:00:09"
    });
    assert_eq!((&second["request"], &second["ifname"]), (&asked, &json!("net7")));
    assert_eq!(second["intent"]["ipv4"], json!({"action": "override", "gateways": ["10.90.2.1"]}));
    assert_eq!(arrange["more"][2]["request"], json!({"defaultRouteNone": true}));

    for place in ["admit", "add"] {
        let told = told(&pod, &outer, place);
        let context = &told["context"];
        is_as_written("context.schema.json", context);
        assert_eq!((&context["primary"], &context["attachments"]), (&json!(true), &json!(3)));
        assert_eq!(context["pod"], json!({"namespace": "default", "name": "pod", "uid": "uid-pod"}));
        assert_eq!(context["intent"]["ipv4"]["action"], "filter");
        let ports = &outer["runtimeConfig"]["portMappings"];
        assert_eq!(context["runtimeConfig"], json!({"portMappings": ports}), "no annotations");
        // A single config is the only plugin of a list.
        match place {
            "admit" => assert_eq!(told["more"]["plugins"].as_array().expect("a list").len(), 1),
            _ => assert_eq!(context["delegateVersion"], conf::VERSION),
        }
    }

    let mut passes = outer;
    passes["pipeline"] = pipeline("check");
    let result = pod.add(&passes).result();
    let failure = pod.check(&passes, &result).fails_with(105, &[]);
    let check: Value = serde_json::from_str(&failure.msg).expect("what it was told");
    is_as_written("context.schema.json", &check["context"]);
}

#[test]
fn at_the_end_of_a_list() {
    let world = world();
    let pod = Pod::new(&world, "pod");
    let result = json!({"cniVersion": conf::VERSION, "interfaces": [{"name": "eth0", "sandbox": pod.netns}]});
    for place in ["arrange", "admit", "add"] {
        let mut conf = json!({"cniVersion": conf::VERSION, "name": "list", "type": "catena"});
        conf["pipeline"] = pipeline(place);
        let failure = pod.call("catena", "ADD", &with_previous(&conf, Some(&result))).fails_with(105, &[]);
        let told: Value = serde_json::from_str(&failure.msg).expect("what it was told");
        is_as_written("context.schema.json", &told["context"]);
        if place == "arrange" {
            is_as_written("attachments.schema.json", &told["more"]);
        }
    }
}

#[test]
fn they_are_schemas() {
    for (_, text) in FILES {
        jsonschema::meta::validate(&serde_json::from_str(text).expect("JSON")).expect("a schema");
    }
}

/// The schema says no to what catena would refuse as an intent.
#[test]
fn intents() {
    let words = |value: &Value| words_against("intent.schema.json", false, value);
    for good in [
        json!({}),
        json!({"ipv4": {"action": "leave"}, "ipv6": {"action": "own"}}),
        json!({"ipv6": {"action": "override", "gateways": ["fd00::1"]}}),
        json!({"ipv4": {"action": "filter", "gateways": []}}),
    ] {
        assert_eq!(words(&good), [""; 0], "{good}");
    }
    for bad in [
        json!([]),
        json!({"Ipv4": {"action": "leave"}}),
        json!({"ipv4": {}}),
        json!({"ipv4": {"action": "leave", "gateway": []}}),
        json!({"ipv4": {"action": "steal"}}),
        json!({"ipv4": {"action": "override"}}),
        json!({"ipv4": {"action": "override", "gateways": []}}),
        json!({"ipv4": {"action": "own", "gateways": ["10.0.0.1"]}}),
    ] {
        assert_ne!(words(&bad), [""; 0], "{bad}");
    }
}
