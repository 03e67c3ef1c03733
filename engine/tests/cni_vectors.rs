//! What a Go plugin says to an environment and a request, case by case, against the typed reading of both.
//!
//! Whether CNI_NETNS is our own namespace is decided later, on the opened namespace; here it only counts that the call
//! gets as far as that.

use std::fs;
use std::path::Path;

use catena::cni::{CniError, Conf, Invocation, Request, Role};
use serde_json::{Value, json};

fn cases(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(file);
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let document: Value = serde_json::from_slice(&text).unwrap();
    document["cases"].as_array().unwrap().clone()
}

/// Different on purpose: id, rule, our code.
const DIFFERENT: [(&str, &str, u32); 1] =
    [("unknown-and-badstdin", "cni.md a.1: an unknown command is code 4; a bad request need not hide it", 4)];

/// How far a call gets.
#[derive(Debug)]
enum Reached {
    /// The line for a person at a shell.
    About,
    /// The reply to VERSION, without a look at stdin.
    Version,
    /// The use case. `own_netns` says whether it may be called with our own namespace.
    Command { own_netns: bool },
}

fn call(env: &Value, request: &str) -> Result<Reached, CniError> {
    let env = env.as_object().unwrap().iter();
    let invocation =
        Invocation::read(env.map(|(name, value)| (name.into(), value.as_str().unwrap().into())))?;
    let command = match &invocation.request {
        Request::About => return Ok(Reached::About),
        Request::Version => return Ok(Reached::Version),
        other => other.command().unwrap(),
    };
    let conf = Conf::parse(request.as_bytes(), command)?;
    assert!(matches!(conf.role, Role::Meta(_)));
    Ok(Reached::Command { own_netns: invocation.own_netns_allowed })
}

/// The vectors' plugin does nothing; catena needs something to do.
fn with_a_delegate(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(Value::Object(mut request)) => {
            let delegate = json!({ "cniVersion": "1.1.0", "name": "inner", "type": "noop" });
            request.insert("delegates".to_owned(), json!([delegate]));
            Value::Object(request).to_string()
        }
        _ => text.to_owned(),
    }
}

fn judge(case: &Value, ours: Option<u32>) -> Result<(), String> {
    let reached = call(&case["env"], &with_a_delegate(case["stdin"].as_str().unwrap()));
    let code = ours.or(case["code"].as_u64().map(|code| code as u32));
    match (reached, code) {
        (Err(error), Some(code)) if error.code == code => {
            let named = case["named"].as_array().cloned().unwrap_or_default();
            match named.iter().find(|name| !error.msg.contains(name.as_str().unwrap())) {
                Some(name) => Err(format!("{name} is not named: {}", error.msg)),
                None => Ok(()),
            }
        }
        (Ok(Reached::Command { own_netns: false }), Some(8)) => Ok(()),
        (Ok(Reached::Command { own_netns }), None) if case["ran_command"] == true => {
            let override_set = case["env"].get("CNI_NETNS_OVERRIDE").is_some();
            if own_netns == override_set { Ok(()) } else { Err(format!("own_netns is {own_netns}")) }
        }
        (Ok(Reached::About), None) if case["ran_command"] == false => Ok(()),
        (Ok(Reached::Version), None) if case.get("reply").is_some() => {
            let reply = catena_cni::version::reply_document();
            if reply == case["reply"] { Ok(()) } else { Err(format!("reply {reply}")) }
        }
        (reached, code) => Err(format!("{reached:?} instead of code {code:?}")),
    }
}

#[test]
fn env_validation() {
    let (mut same, mut different, mut failed) = (0, 0, Vec::new());
    for case in cases("env-validation.json") {
        let id = case["id"].as_str().unwrap();
        let ours = DIFFERENT.iter().find(|(different, ..)| *different == id).map(|(.., code)| *code);
        match judge(&case, ours) {
            Ok(()) if ours.is_some() => different += 1,
            Ok(()) => same += 1,
            Err(why) => failed.push(format!("{id}: {why}")),
        }
    }
    println!("env-validation.json: {same} same, {different} different on purpose, {} failed", failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(different, DIFFERENT.len());
}
