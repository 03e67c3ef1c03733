//! What a Go plugin says to an environment and a request, case by case (tests/vectors/env-validation.json), against
//! the real binary. The vectors' plugin does nothing; catena gets a scripted delegate to have something to do, and
//! `ran_command` means that the delegate was called.

use std::fs;

use catena_tests::score::Score;
use catena_tests::scripted;
use catena_tests::vectors;
use catena_tests::world::{self, OWN_BIN, World};
use serde_json::{Map, Value, json};

/// What catena answers instead.
enum Ours {
    /// The command runs and succeeds; this is the delegate's CNI_NETNS.
    Runs(&'static str),
    /// It fails with this code and message before anything is done.
    Fails(i64, &'static str),
}

const OWN: &str = "CNI_NETNS /proc/self/ns/net is catena's own network namespace, where nothing may be changed; give the \
                   sandbox a namespace, or set CNI_NETNS_OVERRIDE=1 if you mean it";

/// Different on purpose: id, our answer.
const DIFFERENT: [(&str, Ours); 7] = [
    ("ADD-notns-netns", Ours::Fails(8, "no network namespace at /etc/hostname")),
    ("CHECK-notns-netns", Ours::Fails(8, "no network namespace at /etc/hostname")),
    ("CHECK-gone-netns", Ours::Fails(8, "no network namespace at /run/netns/does-not-exist")),
    ("ADD-own-netns", Ours::Fails(8, OWN)),
    ("override-yes", Ours::Fails(8, OWN)),
    ("DEL-own-netns", Ours::Runs("")),
    (
        "unknown-and-badstdin",
        Ours::Fails(
            4,
            "bad environment: CNI_COMMAND is \"NOPE\", which is none of ADD, DEL, CHECK, GC, STATUS, VERSION",
        ),
    ),
];

/// The request with the delegate, as text, since it may be odd on purpose.
fn with_a_delegate(text: &str) -> String {
    let address = json!({ "cniVersion": "1.1.0", "ips": [{ "address": "192.0.2.5/24" }] });
    let mut delegate = scripted::answers("inner", address);
    delegate["cniVersion"] = json!("1.1.0");
    match text.trim_start().strip_prefix('{') {
        Some(rest) => {
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            format!("{{\"delegates\":[{delegate}]{comma}{rest}")
        }
        None => text.to_owned(),
    }
}

fn call(world: &World, env: &Map<String, Value>, stdin: &str) -> world::Output {
    let mut command = world.command(&format!("{OWN_BIN}/catena"));
    for (name, value) in env {
        command.env(name, value.as_str().expect("a text").replace("$OTHER_NETNS", "/run/netns/other"));
    }
    world::finish(command, stdin.as_bytes())
}

/// CHECK is of an attachment, so there has to be one; where that is not possible, CHECK is not either.
fn prepare(world: &World, env: &Map<String, Value>, stdin: &str) {
    if env.get("CNI_COMMAND") == Some(&json!("CHECK")) {
        let mut env = env.clone();
        env.insert("CNI_COMMAND".into(), json!("ADD"));
        env.insert("CNI_NETNS_OVERRIDE".into(), json!("1"));
        call(world, &env, stdin);
    }
}

fn judge(case: &Value, world: &World, ours: Option<&Ours>) -> Result<(), String> {
    for folder in ["/var/lib/catena", "/var/lib/cni", "/run/catena", "/run/scripted"] {
        // It is not there before the first call.
        drop(fs::remove_dir_all(world.path(folder)));
    }
    let env = case["env"].as_object().expect("an environment");
    let stdin = with_a_delegate(case["stdin"].as_str().expect("a request"));
    prepare(world, env, &stdin);
    let before = scripted::calls(world).len();
    let output = call(world, env, &stdin);
    let calls = scripted::calls(world).split_off(before);
    let documents: Vec<Value> = serde_json::Deserializer::from_str(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(|error| format!("stdout {:?}: {error}", output.stdout))?;
    let got = || format!("exit {:?}, stdout {:?}, delegate calls {calls:?}", output.exit, output.stdout);
    let command = env.get("CNI_COMMAND").and_then(Value::as_str).unwrap_or_default();
    let fits = match (ours, case["code"].as_i64()) {
        (Some(Ours::Fails(code, msg)), _) => {
            let expected = json!({ "cniVersion": "1.1.0", "code": code, "msg": msg });
            output.exit == Some(1) && documents == [expected] && calls.is_empty()
        }
        (None, Some(code)) => {
            output.exit == Some(1)
                && matches!(documents.as_slice(), [error] if error["code"] == code)
                && case["stdout_documents"] == documents.len()
                && calls.is_empty()
                && case["ran_command"] != true
        }
        (Some(Ours::Runs(netns)), _) => {
            let called = |call: &Value| call["command"] == command && call["netns"] == *netns;
            output.exit == Some(0)
                && documents.is_empty()
                && matches!(calls.as_slice(), [call] if called(call))
        }
        (None, None) => {
            // Without a set of valid attachments GC has nothing to do.
            let called = case["ran_command"] == true && command != "GC";
            let answers = usize::from(command == "ADD" || command == "VERSION");
            output.exit == Some(0)
                && calls.iter().any(|call| call["command"] == command) == called
                && documents.len() == answers
                && case.get("reply").is_none_or(|reply| *reply == documents[0])
        }
    };
    if !fits {
        return Err(format!("{} (the vector: {case})", got()));
    }
    let named = case["named"].as_array().map(Vec::as_slice).unwrap_or_default();
    match named.iter().find(|name| !output.stdout.contains(name.as_str().expect("a name"))) {
        Some(name) => Err(format!("{name} is not named: {}", got())),
        None => Ok(()),
    }
}

#[test]
fn environment_and_request_as_a_go_plugin_judges_them() {
    let world = World::new();
    world.pod("other");
    let mut score = Score::of("env-validation");
    for case in vectors::cases("env-validation") {
        let id = case["id"].as_str().expect("an id");
        let ours = DIFFERENT.iter().find(|(different, _)| *different == id).map(|(_, ours)| ours);
        score.add(id, ours.is_some(), judge(&case, &world, ours));
    }
    score.finish();
}
