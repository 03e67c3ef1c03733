//! The recorded calls of real runtimes, again: to catena in the place of the list's plugins, which it runs as
//! delegates that answer as recorded, and to catena in the place of one plugin of the list.

use std::collections::BTreeMap;

use catena_cni::result;
use catena_tests::acceptance::{self, Asked, Runtime};
use catena_tests::captures::{self, Answer, Call, Operation, PLUGINS, Recording};
use catena_tests::scripted;
use catena_tests::world::{self, OWN_BIN, Output, World};
use serde_json::{Map, Value, json};

/// How many calls are recorded.
const CALLS: usize = 218;

/// Scenarios whose delegates answer what does not suit every runtime, to see what that one makes of it: which rule they
/// break, and whether that runtime refuses them. We hand on what a delegate has said.
const UNSAFE: [(&str, &str, bool); 6] = [
    ("result-ips-no-interface-index", "no interface is the pod's", false),
    ("result-multi", "something follows the pod's interface", false),
    ("result-newer-1.1.0", "the MAC of eth0 is None", false),
    ("result-old-version-0.3.1", "the MAC of eth0 is None", false),
    ("result-no-eth0-iface", "the pod's interface is called net1, not eth0", true),
    ("result-no-ips", "", true),
];

/// A world with the recorded namespaces and the delegates' names.
fn prepare(recording: &Recording) -> World {
    let world = World::new();
    // A delegate that hangs is not waited for as long as usual.
    world.write("/etc/catena/node.json", r#"{"deadlines": {"delegateSeconds": 2}}"#);
    for plugin in PLUGINS {
        world.sh(&format!("ln -s scripted {OWN_BIN}/{plugin}"));
    }
    for name in recording.namespaces() {
        world.pod(&name);
    }
    world
}

fn call(world: &World, env: &Map<String, Value>, stdin: &Value) -> Output {
    let mut command = world.command(&format!("{OWN_BIN}/catena"));
    for (name, value) in env {
        command.env(name, value.as_str().expect("a text"));
    }
    world::finish(command, stdin.to_string().as_bytes())
}

/// The only document of an answer.
fn document(output: &Output, what: &str) -> Value {
    let documents: Vec<Value> = serde_json::Deserializer::from_str(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{what}: {error}: {output:?}"));
    let [document] = documents.as_slice() else { panic!("{what}: not one document: {output:?}") };
    document.clone()
}

fn fails(output: &Output, what: &str) -> Value {
    assert_eq!(output.exit, Some(1), "{what}: {output:?}");
    let error = document(output, what);
    assert!(error["code"].is_u64() && error["cniVersion"].is_string(), "{what}: {error}");
    assert!(error["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{what}: {error}");
    error
}

fn succeeds_silently(output: &Output, what: &str) {
    assert_eq!((output.exit, output.stdout.as_str()), (Some(0), ""), "{what}: {output:?}");
}

/// Checks an answer to ADD by the rules of the runtime that was recorded: it makes of it what it made of the recorded
/// one. The recorded one says which addresses the pod gets, or that the runtime refuses it.
fn accepted(runtime: Runtime, answer: &Value, recorded: &Value, call: &Call) {
    let asked = call.stdin["cniVersion"].as_str().expect("a version");
    let what = format!("{}: {answer}", call.id);
    let (ifname, netns) = (call.variable("CNI_IFNAME"), call.variable("CNI_NETNS"));
    let scenario = call.id.split(' ').next().unwrap_or_default();
    let listed = UNSAFE.iter().find(|(listed, ..)| *listed == scenario);
    let (rule, refused) = listed.map_or(("", false), |(_, rule, refused)| (*rule, *refused));
    let broken =
        acceptance::is_safe(answer, &Asked { version: asked, ifname, netns }).err().unwrap_or_default();
    assert_eq!(broken, rule, "{what}");
    let addresses = runtime.addresses(answer, ifname);
    assert_eq!(addresses, runtime.addresses(recorded, ifname), "{what}");
    assert_eq!(addresses.is_err(), refused, "{what}: {addresses:?}");
    if listed.is_none() {
        // Whoever was recorded, CRI-O would see the same pod.
        assert_eq!(Runtime::Crio.addresses(answer, ifname), addresses, "{what}");
    }
    assert_eq!(Ok(answer.clone()), result::convert(recorded, asked.parse().expect("known")), "{what}");
}

fn version(output: &Output, call: &Call) {
    assert_eq!(output.exit, Some(0), "{}: {output:?}", call.id);
    let reply = document(output, &call.id);
    let listed = reply["supportedVersions"].as_array().expect("versions");
    assert!(listed.contains(&call.stdin["cniVersion"]), "{}: {reply}", call.id);
}

/// What the runtime would have to send: catena with the list's plugins as its only delegate.
fn as_runner(list: &BTreeMap<String, Call>) -> Value {
    let any = list.values().next().expect("a call");
    let plugins: Vec<Value> = PLUGINS
        .iter()
        .filter_map(|plugin| list.get(*plugin))
        .map(|call| json!(call.plugin_object()))
        .collect();
    let mut capabilities = Map::new();
    let mut runtime_config = Map::new();
    for call in list.values() {
        for (member, into) in [("capabilities", &mut capabilities), ("runtimeConfig", &mut runtime_config)] {
            into.extend(call.stdin[member].as_object().cloned().unwrap_or_default());
        }
    }
    json!({
        "cniVersion": any.stdin["cniVersion"], "name": any.stdin["name"], "type": "catena",
        "capabilities": capabilities, "runtimeConfig": runtime_config,
        "delegates": [
            { "cniVersion": any.stdin["cniVersion"], "name": any.stdin["name"], "plugins": plugins },
        ],
    })
}

/// A request without what says nothing.
fn normal(request: &Value) -> Value {
    let mut request = request.clone();
    if let Some(previous) = request.get_mut("prevResult").and_then(Value::as_object_mut)
        && previous.get("dns") == Some(&json!({}))
    {
        previous.remove("dns");
    }
    request
}

/// An attachment that was made and is not yet gone.
struct Added {
    calls: Vec<Call>,
    /// What the runtime was answered.
    answer: Value,
}

/// The life of the attachments of one recording, as the runner sees it.
#[derive(Default)]
struct Attached {
    /// By container id.
    adds: BTreeMap<String, Added>,
    /// The plugins of the list, as they were last seen: a failed ADD or DEL says nothing about those after it.
    list: BTreeMap<String, Call>,
}

/// What the delegate must have been sent, and under which environment.
fn expected_request(call: &Call, attached: &Attached) -> (Value, Map<String, Value>) {
    let mut env = call.env.clone();
    let Some(added) = attached.adds.get(call.variable("CNI_CONTAINERID")) else {
        let mut request = call.stdin.clone();
        if call.command != "ADD" {
            // Of an attachment that nobody recorded there is no result of the delegates.
            request.as_object_mut().expect("a request").remove("prevResult");
        }
        return (normal(&request), env);
    };
    // The config, the capability arguments and CNI_ARGS of the ADD count for the life of the attachment, and so does
    // its result; the runtime may have thrown that away.
    let as_added = added.calls.iter().find(|added| added.plugin == call.plugin).unwrap_or(call);
    let mut request = as_added.stdin.clone();
    request["prevResult"] = added.answer.clone();
    env.insert("CNI_ARGS".into(), json!(added.calls[0].variable("CNI_ARGS")));
    (normal(&request), env)
}

/// The calls that an operation is, as COMMAND and plugin, in order: those that were recorded, and those of plugins that
/// the runtime did not get as far as, because it did not know the version of a result, or stopped at a failed DEL. We
/// undo a failed ADD.
fn expected_calls(operation: &Operation, attached: &Attached) -> Vec<(String, String)> {
    let command = operation.command();
    let mut plugins: Vec<&str> =
        PLUGINS.into_iter().filter(|plugin| attached.list.contains_key(*plugin)).collect();
    if command == "DEL" {
        plugins.reverse();
    }
    let recorded: Vec<&str> = operation.calls.iter().map(|call| call.plugin.as_str()).collect();
    assert!(plugins.starts_with(&recorded), "{}: {recorded:?} of {plugins:?}", operation.calls[0].id);
    let failed = operation.calls.iter().any(|call| !call.succeeded());
    let called = if failed && command != "DEL" { &recorded } else { &plugins };
    let mut expected: Vec<_> =
        called.iter().map(|plugin| (command.to_owned(), (*plugin).to_owned())).collect();
    if failed && command == "ADD" {
        expected.extend(plugins.iter().rev().map(|plugin| ("DEL".to_owned(), (*plugin).to_owned())));
    }
    expected
}

fn compare_calls(made: &[Value], operation: &Operation, attached: &Attached) {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let names: Vec<_> = made.iter().map(|made| (text(&made["command"]), text(&made["plugin"]))).collect();
    assert_eq!(names, expected_calls(operation, attached), "{}", operation.calls[0].id);
    for (call, made) in operation.calls.iter().zip(made) {
        let (request, env) = expected_request(call, attached);
        assert_eq!(normal(&made["stdin"]), request, "{}: the request", call.id);
        for (variable, member) in [
            ("CNI_CONTAINERID", "containerId"),
            ("CNI_IFNAME", "ifname"),
            ("CNI_NETNS", "netns"),
            ("CNI_ARGS", "args"),
            ("CNI_PATH", "path"),
        ] {
            assert_eq!(made[member], env[variable], "{}: {variable}", call.id);
        }
    }
}

fn run_as_runner(world: &World, operation: &Operation, runtime: Runtime, attached: &mut Attached) {
    let first = &operation.calls[0];
    if first.command == "VERSION" {
        return version(&call(world, &first.env, &first.stdin), first);
    }
    for call in &operation.calls {
        attached.list.insert(call.plugin.clone(), call.clone());
    }
    let network = first.stdin["name"].as_str().expect("a name");
    for plugin in PLUGINS {
        // Where the runtime did not get as far as this plugin, it does what a good plugin would.
        let recorded = operation.calls.iter().find(|call| call.plugin == plugin);
        let mut script = json!({ "ADD": { "previous": true } });
        if let Some(call) = recorded {
            script[&call.command] = call.step();
        }
        scripted::change(world, &format!("{network}-{plugin}"), &script);
    }
    let before = scripted::calls(world).len();
    let output = call(world, &first.env, &as_runner(&attached.list));
    let made = scripted::calls(world).split_off(before);
    // GC without the set of what is valid deletes nothing and asks nobody.
    if first.command != "GC" {
        compare_calls(&made, operation, attached);
    }
    let failed = operation.calls.iter().find(|call| !call.succeeded());
    let what = &first.id;
    let container = first.variable("CNI_CONTAINERID").to_owned();
    match (failed, first.command.as_str()) {
        (None, "ADD") => {
            assert_eq!(output.exit, Some(0), "{what}: {output:?}");
            let last = operation.calls.last().expect("a call");
            let Answer::Exit(_, recorded) = &last.answer else { panic!("{what}: it succeeded") };
            let recorded = serde_json::from_str(recorded).expect("a result");
            let answer = document(&output, what);
            accepted(runtime, &answer, &recorded, last);
            attached.adds.insert(container, Added { calls: operation.calls.clone(), answer });
        }
        (None, command) => {
            succeeds_silently(&output, what);
            if command == "DEL" {
                attached.adds.remove(&container);
            }
        }
        (Some(failed), command) => {
            let error = fails(&output, what);
            let text = format!("{} {}", error["msg"], error["details"]);
            assert!(text.contains(&failed.plugin), "{what}: whose error is it? {error}");
            let code = match &failed.answer {
                Answer::Killed => 112,
                Answer::Hung => 111,
                Answer::Exit(_, stdout) => match serde_json::from_str::<Value>(stdout) {
                    Ok(object) if object["code"].is_u64() => {
                        assert!(text.contains(object["msg"].as_str().expect("a msg")), "{what}: {error}");
                        object["code"].as_u64().expect("a code")
                    }
                    _ => 110,
                },
            };
            assert_eq!(error["code"], code, "{what}: {error}");
            if command == "DEL" {
                acceptance::is_failed_del(&text).unwrap_or_else(|problem| panic!("{what}: {problem}"));
            }
        }
    }
}

/// All plugins of the list, from the first calls that have them: ADD may fail before the second was ever called.
fn whole_list(operations: &[Operation], at: usize) -> BTreeMap<String, Call> {
    let version = |operation: &Operation| operation.calls[0].stdin["cniVersion"].clone();
    let mut list = BTreeMap::new();
    let near = operations[at..].iter().chain(&operations[..at]);
    for call in near.filter(|near| version(near) == version(&operations[at])).flat_map(|near| &near.calls) {
        if !call.plugin.is_empty() {
            list.entry(call.plugin.clone()).or_insert_with(|| call.clone());
        }
    }
    list
}

#[test]
fn as_the_runner_of_the_plugins() {
    let mut seen = 0;
    for recording in captures::all() {
        let world = prepare(&recording);
        let mut attached = Attached::default();
        let operations = recording.operations();
        for (at, operation) in operations.iter().enumerate() {
            attached.list = whole_list(&operations, at);
            run_as_runner(&world, operation, recording.runtime, &mut attached);
            seen += operation.calls.len();
        }
        println!("{}: {} operations", recording.name, operations.len());
    }
    assert_eq!(seen, CALLS, "recorded calls");
}

/// What catena is sent in the place of a plugin.
fn as_chained(call: &Call) -> Value {
    let mut request = call.stdin.clone();
    let object = request.as_object_mut().expect("a request");
    object.retain(|member, _| {
        ["cniVersion", "name", "prevResult", "runtimeConfig", "capabilities"].contains(&member.as_str())
    });
    object.insert("type".into(), json!("catena"));
    request
}

fn run_chained(world: &World, recorded: &Call, runtime: Runtime) {
    if recorded.command == "VERSION" {
        return version(&call(world, &recorded.env, &recorded.stdin), recorded);
    }
    let request = as_chained(recorded);
    let output = call(world, &recorded.env, &request);
    match (recorded.command.as_str(), request.get("prevResult")) {
        ("ADD", Some(previous)) => {
            assert_eq!(output.exit, Some(0), "{}: {output:?}", recorded.id);
            accepted(runtime, &document(&output, &recorded.id), previous, recorded);
        }
        // The first plugin of a list has none.
        ("ADD", None) => {
            let error = fails(&output, &recorded.id);
            assert_eq!(error["code"], 7, "{}: {error}", recorded.id);
            assert!(error["msg"].as_str().is_some_and(|msg| msg.contains("prevResult")), "{error}");
        }
        _ => succeeds_silently(&output, &recorded.id),
    }
}

#[test]
fn as_a_chained_plugin() {
    let mut seen = 0;
    for recording in captures::all() {
        let world = prepare(&recording);
        for recorded in &recording.calls {
            run_chained(&world, recorded, recording.runtime);
            seen += 1;
        }
        assert!(scripted::calls(&world).is_empty(), "a chained plugin has no delegates");
    }
    assert_eq!(seen, CALLS, "recorded calls");
}
