//! The JSON schemas in engine/schema say what catena says: on complete examples, and on every value of them replaced
//! by others.

use std::collections::BTreeSet;
use std::process::Command;

use catena_tests::{binaries, world};
use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

const NODE: &str = include_str!("../../../engine/schema/node.schema.json");
const CONFIG: &str = include_str!("../../../engine/schema/cni-config.schema.json");

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The JSON block of README.md that begins after this line.
fn readme(before: &str) -> Value {
    let text = include_str!("../../../README.md");
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("README.md has no {before:?}"));
    let (_, rest) = rest.split_once("```json\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    serde_json::from_str(block).unwrap_or_else(|error| panic!("{error} in {block}"))
}

/// An example with every key that node.json has.
fn node() -> Value {
    readme("A complete `node.json`")
}

/// An example with every key that catena has in a CNI config.
fn config() -> Value {
    let text = r#"{
            "cniVersion": "1.1.0",
            "name": "outer",
            "type": "catena",
            "parallel": false,
            "binDir": "/opt/cni/bin",
            "cniDir": "/var/lib/cni/catena",
            "logFile": "/var/log/x.log",
            "logLevel": "debug",
            "logToStderr": false,
            "capabilities": {"portMappings": true},
            "runtimeConfig": {"mac": "x"},
            "args": {"cni": {}},
            "prevResult": {"ips": []},
            "retryDeleteOnError": false,
            "confDir": "/x",
            "logOptions": {},
            "clusterNetwork": null,
            "defaultNetworks": null,
            "kubeconfig": null,
            "namespaceIsolation": null,
            "globalNamespaces": null,
            "systemNamespaces": null,
            "multusNamespace": null,
            "auxiliaryCNIChainName": null,
            "readinessindicatorfile": null,
            "pipeline": [{"stage": "s", "config": {"a": 1}, "when": ["x"], "unless": ["y"], "onError": "skip",
             "mode": "monitor", "example.org/note": 1}],
            "delegates": [{"cniVersion": "1.0.0", "name": "a", "type": "p"}, {"cniVersion": "1.0.0", "name": "b",
             "plugins": [{"type": "p"}]}, {"name": "c", "namespace": "ns", "interface": "net5",
             "default-route": ["10.0.0.1"], "ips": ["10.0.0.5/24"], "mac": "02:00:00:00:00:01",
             "infiniband-guid": "02:00:00:00:00:00:00:01", "portMappings": [{"hostPort": 80, "containerPort": 80,
             "protocol": "tcp", "hostIP": "10.0.0.1"}], "bandwidth": {"ingressRate": 5, "ingressBurst": 5,
             "egressRate": 5, "egressBurst": 5}, "cni-args": {"a": 1}, "example.org/note": 1,
             "config": {"name": "c", "type": "p", "pipeline": null, "capabilities": {"ips": true, "mac": true,
             "infinibandGUID": true, "portMappings": true, "bandwidth": true}}},
             {"catena.dev/default-route": "none", "config": "{\"name\": \"d\", \"type\": \"p\"}"}]
        }"#;
    serde_json::from_str(text).expect("an example")
}

/// What catena says of files and requests, without doing anything: the namespace of its ADD does not exist.
struct Parser {
    root: tempfile::TempDir,
}

impl Parser {
    fn new() -> Parser {
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["etc/catena", "var/log"] {
            std::fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        Parser { root }
    }

    /// Ok if it came to look for the namespace (code 8).
    fn add(&self, request: &Value) -> Result<(), String> {
        let mut command = Command::new(binaries::catena());
        command
            .env_clear()
            .env("CATENA_ROOT", self.root.path())
            .env("CNI_COMMAND", "ADD")
            .env("CNI_CONTAINERID", "c")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_NETNS", "/nowhere/at/all")
            .env("CNI_PATH", "/nowhere");
        let output = world::finish(command, request.to_string().as_bytes());
        let answer: Value = serde_json::from_str(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", output.stdout, output.stderr));
        match answer["code"].as_u64() {
            Some(8) => Ok(()),
            _ => Err(answer["msg"].as_str().expect("a msg").to_owned()),
        }
    }

    fn node(&self, value: &Value) -> Result<(), String> {
        std::fs::write(self.root.path().join("etc/catena/node.json"), value.to_string()).expect("a file");
        self.add(&json!({"cniVersion": "1.0.0", "name": "n", "delegates": [{"name": "a", "type": "p"}]}))
    }
}

/// All places of a document, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// What may stand where something else should.
fn others() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(7),
        json!(1u64 << 40),
        json!(""),
        json!("x"),
        json!("X y/../z"),
        json!("/x"),
        json!("/x/../y"),
        json!([]),
        json!(["x"]),
        json!([1]),
        json!({}),
        json!({"zzz": 1}),
        json!({"x.y/z": {}}),
    ]
}

/// The documents that differ from this one in one place: another value, or one more key.
fn neighbours(document: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    places(document, "", &mut all);
    let mut neighbours = Vec::new();
    for place in all {
        for other in others() {
            let mut changed = document.clone();
            *changed.pointer_mut(&place).unwrap() = other;
            neighbours.push((place.clone(), changed));
        }
        let mut changed = document.clone();
        if let Some(object) = changed.pointer_mut(&place).unwrap().as_object_mut() {
            object.insert("zzz".into(), json!(1));
            neighbours.push((format!("{place}/zzz"), changed));
        }
    }
    neighbours
}

/// Compares parser and schema; `beyond` says which refusals of the parser no schema can express.
fn agree(
    document: &Value,
    validator: &Validator,
    parse: impl Fn(&Value) -> Result<(), String>,
    beyond: impl Fn(&str, &str) -> bool,
) {
    let words =
        |value: &Value| validator.iter_errors(value).map(|error| error.to_string()).collect::<Vec<_>>();
    assert_eq!(parse(document), Ok(()));
    assert_eq!(words(document), [""; 0]);
    let (mut refused, mut wrong) = (0, Vec::new());
    for (place, changed) in neighbours(document) {
        let value = changed.pointer(&place).cloned().unwrap_or_default();
        match (parse(&changed), words(&changed).as_slice()) {
            (Ok(()), []) => {}
            (Err(_), [_, ..]) => refused += 1,
            (Err(error), []) if beyond(&place, &error) => {}
            (Err(error), []) => wrong.push(format!("{place} = {value}: only the parser refuses: {error}")),
            (Ok(()), errors) => wrong.push(format!("{place} = {value}: only the schema refuses: {errors:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 100, "{refused}");
}

fn node_validator() -> Validator {
    jsonschema::options().offline().build(&schema(NODE)).unwrap()
}

/// The schema of configs refers to that of entries in the other file.
fn with_config_validator(work: impl FnOnce(&Validator)) {
    let registry = Registry::new().add("json-schema:///node.schema.json", schema(NODE)).unwrap();
    let registry = registry.prepare().unwrap();
    let validator = jsonschema::options().offline().with_registry(&registry).build(&schema(CONFIG)).unwrap();
    work(&validator);
}

#[test]
fn both_are_schemas() {
    for text in [NODE, CONFIG] {
        jsonschema::meta::validate(&schema(text)).unwrap();
    }
}

#[test]
fn node_files() {
    let references = ["there is no pipeline", "is in the baseline"];
    let parser = Parser::new();
    agree(
        &node(),
        &node_validator(),
        |value| parser.node(value),
        |_, error| references.iter().any(|reference| error.contains(reference)),
    );
}

#[test]
fn configs() {
    // Addresses, hardware addresses of a length, what a plugin declares, and what is inside a text.
    let beyond = |place: &str, error: &str| {
        let addresses = ["/ips", "/default-route", "/hostIP", "/mac", "/infiniband-guid"];
        let words = [
            "declares the capability",
            "burst needs its rate",
            "both get the interface",
            "among the paths that this node allows",
            "not supported yet; leave it out",
            // In a list the list has it.
            "the network configuration has no name",
        ];
        addresses.iter().any(|part| place.contains(part))
            || words.iter().any(|part| error.contains(part))
            || (place.starts_with("/delegates/3/config") && !error.contains("must be"))
    };
    let parser = Parser::new();
    with_config_validator(|validator| {
        agree(&config(), validator, |value| parser.add(value), beyond);
    });
}

/// Every example in the documentation is one.
#[test]
fn documented_examples() {
    let conflist = readme("write the runtime's config");
    with_config_validator(|validator| {
        for plugin in conflist["plugins"].as_array().unwrap() {
            assert!(validator.is_valid(plugin), "{plugin}");
        }
        assert!(validator.is_valid(&readme("catena is the last plugin of somebody else's list")));
    });
}

/// All names of properties in a schema.
fn properties(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| properties(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| properties(value, found)),
        _ => {}
    }
}

/// Every key that a parser knows, by what it says of an unknown one at each place of a document.
fn known(document: &Value, parse: impl Fn(&Value) -> Result<(), String>, words: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (place, changed) in neighbours(document) {
        if !place.ends_with("/zzz") {
            continue;
        }
        let Err(error) = parse(&changed) else { continue };
        if let Some((_, list)) = error.split_once(words) {
            let list = list.split(" and ").next().unwrap_or_default();
            found.extend(list.split(", ").map(|key| key.trim().to_owned()));
        }
    }
    found
}

#[test]
fn no_key_is_missing_in_the_schema_or_the_parser() {
    let mut in_schema = BTreeSet::new();
    properties(&schema(NODE), &mut in_schema);
    let parser = Parser::new();
    assert_eq!(known(&node(), |value| parser.node(value), "known are "), in_schema);

    // A config may have keys of others, so the parser has no list of all of its own: they are read in one file.
    let source = include_str!("../../../engine/src/cni/conf.rs");
    let (source, _) = source.split_once("#[cfg(test)]").unwrap();
    let parser = Parser::new();
    let mut parsed = known(&config(), |value| parser.add(value), "an attachment object has ");
    for call in ["raw, \"", "in [\"", "], \""] {
        for rest in source.split(call).skip(1) {
            parsed.extend(rest.split('"').next().map(str::to_owned));
        }
    }
    let unsupported =
        source.split_once("const UNSUPPORTED").and_then(|(_, rest)| rest.split_once("];")).unwrap().0;
    parsed.extend(unsupported.split('"').skip(1).step_by(2).map(str::to_owned));
    let mut in_schema = BTreeSet::new();
    properties(&schema(CONFIG), &mut in_schema);
    let missing: Vec<&String> = parsed.difference(&in_schema).collect();
    assert!(missing.is_empty(), "not in the schema: {missing:?}");
    assert!(parsed.len() > 30, "{parsed:?}");
}
