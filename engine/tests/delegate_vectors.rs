//! The reference library's behaviour as a runtime, case by case: looking plugins up, running them, chaining them.
//!
//! What catena answers differently on purpose, exactly, stands in one place per file (`LOOKUP_DIFFERENT`,
//! `EXEC_DIFFERENT`, `adjust`); the rules that say why are in `tests/src/on_purpose.rs`.

#[path = "../../tests/src/score.rs"]
#[allow(unreachable_pub, reason = "it is public in catena-tests, whose module it is")]
mod score;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catena::delegate::{
    Attachment, Chain, Command, DelegateError, Exec, Exit, Fault, Observer, Run, Search, Versions, cache,
    unrecorded,
};
use catena_cni::identifier::PluginType;
use catena_cni::json::Map;
use catena_cni::list::NetworkList;
use catena_cni::result;
use catena_cni::version::SpecVersion;
use score::Score;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;

fn cases(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(file);
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let document: Value = serde_json::from_slice(&text).unwrap();
    let cases = document["cases"].as_array().unwrap().clone();
    assert_eq!(Some(cases.len() as u64), document["count"].as_u64(), "{file}");
    cases
}

fn write_script(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn exec(folder: &Path, search: Search, observer: Option<Arc<dyn Observer>>) -> Exec<'static> {
    Exec {
        env: std::env::vars_os().collect(),
        search,
        versions: Arc::new(Versions::at(&folder.join("run/versions.json"))),
        network: "outer".to_owned(),
        deadline: Duration::from_secs(20),
        until: None,
        output_limit: 4 * 1024 * 1024,
        inherit: None,
        observer,
    }
}

// ---- plugin-lookup.json ----

/// Id, and what is found instead.
const LOOKUP_DIFFERENT: [(&str, Option<&str>); 2] = [("emptyelem", Some("$DIR/b/p")), ("relative", None)];

#[test]
fn plugin_lookup() {
    let mut score = Score::of("plugin-lookup");
    for case in cases("plugin-lookup.json") {
        let id = case["id"].as_str().unwrap();
        let folder = TempDir::new().unwrap();
        for (name, content) in case["files"].as_object().unwrap() {
            let path = folder.path().join(name);
            if name.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                write_script(&path, content.as_str().unwrap(), 0o644);
            }
        }
        for (name, target) in case["symlinks"].as_object().into_iter().flatten() {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target.as_str().unwrap(), path).unwrap();
        }
        let dir = folder.path().to_str().unwrap();
        let search = Search::new([], &case["CNI_PATH"].as_str().unwrap().replace("$DIR", dir));
        let found = PluginType::parse(case["plugin"].as_str().unwrap())
            .ok()
            .and_then(|kind| search.find(&kind))
            .map(|path| path.to_str().unwrap().replace(dir, "$DIR"));
        let ours = LOOKUP_DIFFERENT.iter().find(|(different, _)| *different == id);
        let expected = ours.map_or(case["path"].as_str(), |(_, path)| *path);
        let outcome = (found.as_deref() == expected)
            .then_some(())
            .ok_or_else(|| format!("found {found:?}, expected {expected:?}"));
        score.add(id, ours.is_some(), outcome);
    }
    score.finish();
}

// ---- exec-behaviour.json ----

/// What catena does instead.
enum Ours {
    /// The call succeeds, within so many seconds, with this on stderr.
    Ok(f64, &'static str),
    /// The call fails with this code and this fault, within so many seconds.
    Fails(u32, &'static str, f64),
}

/// Id, and what catena does instead.
const EXEC_DIFFERENT: [(&str, Ours); 21] = [
    ("fail-silent", Ours::Fails(110, "it failed with exit status 3 and no usable error object", 1.0)),
    (
        "fail-stderr",
        Ours::Fails(110, "it failed with exit status 1 and no usable error object; stderr: boom", 1.0),
    ),
    (
        "fail-text",
        Ours::Fails(110, r#"it failed with exit status 1 and no usable error object; stdout: "boom""#, 1.0),
    ),
    (
        "fail-empty-obj",
        Ours::Fails(110, r#"it failed with exit status 1 and no usable error object; stdout: "{}""#, 1.0),
    ),
    (
        "fail-result",
        Ours::Fails(
            110,
            r#"it failed with exit status 1 and no usable error object; stdout: "{\"cniVersion\":\"1.1.0\",\"ips\":[]}""#,
            1.0,
        ),
    ),
    (
        "fail-two",
        Ours::Fails(
            110,
            r#"it failed with exit status 1 and no usable error object; stdout: "{\"cniVersion\":\"1.1.0\"}\n{\"code\":8,\"msg\":\"m\"}""#,
            1.0,
        ),
    ),
    (
        "fail-code-str",
        Ours::Fails(
            110,
            r#"it failed with exit status 1 and no usable error object; stdout: "{\"code\":\"7\",\"msg\":\"m\"}""#,
            1.0,
        ),
    ),
    (
        "fail-code-neg",
        Ours::Fails(
            110,
            r#"it failed with exit status 1 and no usable error object; stdout: "{\"code\":-1,\"msg\":\"m\"}""#,
            1.0,
        ),
    ),
    (
        "fail-null",
        Ours::Fails(110, r#"it failed with exit status 1 and no usable error object; stdout: "null""#, 1.0),
    ),
    ("signal", Ours::Fails(112, "it died from signal SIGKILL", 1.0)),
    (
        "noexec",
        Ours::Fails(
            7,
            "$DIR/p could not be started: it is not executable (EACCES): give it the x bit, or mount its file system \
             with exec",
            1.0,
        ),
    ),
    (
        "badinterp",
        Ours::Fails(
            7,
            "$DIR/p could not be started: the interpreter or loader that it names does not exist (ENOENT)",
            1.0,
        ),
    ),
    (
        "noshebang",
        Ours::Fails(
            7,
            "$DIR/p could not be started: it is no program for this machine and no script with #! (ENOEXEC)",
            1.0,
        ),
    ),
    ("timeout", Ours::Fails(111, KILLED, 1.7)),
    ("timeout-child", Ours::Fails(111, KILLED, 1.7)),
    ("timeout-child-bg", Ours::Ok(1.0, "")),
    ("busy", Ours::Ok(2.5, "")),
    ("busy-stdin", Ours::Ok(2.5, "stdin bytes ")),
    ("busy-forever-add", Ours::Fails(11, BUSY, 4.0)),
    ("busy-forever-del", Ours::Fails(11, BUSY, 4.0)),
    ("big", Ours::Fails(110, "it was killed because it wrote more than 4194304 bytes to stdout", 3.0)),
];
const KILLED: &str = "it was killed, with its process group, because it had not ended after N ms, which is \
                      deadlines.delegateSeconds of the node";
const BUSY: &str =
    "$DIR/p could not be started: it has been open for writing for N ms; wait until its installation is done";

/// The fault as it is told, with what differs from run to run made alike.
fn told(error: &DelegateError, folder: &str) -> String {
    let mut text = error.fault.to_string().replace(folder, "$DIR");
    if let Some((before, after)) = text.split_once(" ms") {
        text = format!("{}N ms{after}", before.trim_end_matches(|c: char| c.is_ascii_digit()));
    }
    match error.details() {
        Some(stderr) => format!("{text}; stderr: {stderr}"),
        None => text,
    }
}

/// The class of the fault in the words of the vectors, of those that the reference knows as well.
fn class(error: &DelegateError) -> &'static str {
    match &error.fault {
        Fault::Reported(_) => "plugin-error",
        _ => "another",
    }
}

/// What libcni would hand on of the plugin's stderr.
#[derive(Debug, Default)]
struct Forwarded(Mutex<String>);

impl Observer for Forwarded {
    fn ended(&self, run: &Run<'_>) {
        if run.exit == Exit::Status(0) {
            self.0.lock().unwrap().push_str(run.stderr);
        }
    }
}

enum Answer {
    Done(Option<Value>),
    Versions(Vec<String>),
    Failed(DelegateError),
}

fn run_script(case: &Value, folder: &Path, forwarded: Arc<Forwarded>) -> Answer {
    let mut exec = exec(folder, Search::new([], folder.to_str().unwrap()), Some(forwarded));
    if let Some(millis) = case["timeout_ms"].as_u64() {
        exec.deadline = Duration::from_millis(millis);
    }
    let list = json!({ "cniVersion": "1.1.0", "name": "net1", "plugins": [{ "type": "p" }] });
    let chain = Chain::new(NetworkList::from_value(&list).unwrap());
    let at = Attachment {
        container_id: "c1",
        ifname: "eth0",
        netns: Some("/run/netns/x"),
        args: "A=1;B=2",
        capability_args: &Map::new(),
    };
    let done = match Command::from_text(case["command"].as_str().unwrap()).unwrap() {
        Command::Add => chain.add(&exec, &at, &mut unrecorded).map(Some),
        Command::Check => chain.check(&exec, &at, None, &mut unrecorded).map(|()| None),
        Command::Del => match chain.del(&exec, &at, None, &mut unrecorded).pop() {
            Some(error) => Err(error),
            None => Ok(None),
        },
        Command::Version => match chain.versions(&exec).pop().unwrap() {
            Ok(versions) => return Answer::Versions(versions),
            Err(error) => Err(error),
        },
        other => panic!("{other}"),
    };
    done.map_or_else(Answer::Failed, Answer::Done)
}

fn judge_exec(case: &Value, ours: Option<&Ours>) -> Result<(), String> {
    let folder = TempDir::new().unwrap();
    let plugin = folder.path().join("p");
    let mode = case["mode"].as_u64().unwrap_or(0o755) as u32;
    write_script(&plugin, case["script"].as_str().unwrap(), mode);
    let writer = case["busy_ms"].as_i64().map(|millis| {
        let file = OpenOptions::new().append(true).open(&plugin).unwrap();
        // -1 is for ever: longer than anybody waits.
        let busy = Duration::from_millis(u64::try_from(millis).unwrap_or(6000));
        std::thread::spawn(move || {
            std::thread::sleep(busy);
            drop(file);
        })
    });
    let forwarded = Arc::new(Forwarded::default());
    let began = Instant::now();
    let answer = run_script(case, folder.path(), Arc::clone(&forwarded));
    let took = began.elapsed().as_secs_f64();
    drop(writer);
    let stderr = forwarded.0.lock().unwrap().clone();

    let (limit, expected_ok, code, part) = match ours {
        Some(Ours::Ok(limit, _)) => (*limit, true, None, ""),
        Some(Ours::Fails(code, part, limit)) => (*limit, false, Some(*code), *part),
        None => (
            case["elapsed_s"].as_f64().unwrap() + 1.0,
            case["expect"] == "ok",
            case["code"].as_u64().map(|code| code as u32),
            "",
        ),
    };
    if took > limit {
        return Err(format!("took {took} s"));
    }
    match (&answer, expected_ok) {
        (Answer::Done(_) | Answer::Versions(_), true) | (Answer::Failed(_), false) => {}
        (Answer::Failed(error), true) => return Err(format!("failed: {error}")),
        (_, false) => return Err("succeeded".to_owned()),
    }
    match &answer {
        Answer::Done(Some(result)) if *result != json!({ "cniVersion": "1.1.0" }) => {
            return Err(format!("result {result}"));
        }
        Answer::Versions(versions) if json!(versions) != case["supportedVersions"] => {
            return Err(format!("versions {versions:?}"));
        }
        Answer::Failed(error) if Some(error.code()) != code => {
            return Err(format!("code {} instead of {code:?}: {error}", error.code()));
        }
        Answer::Failed(error) if ours.is_none() && class(error) != case["error_class"] => {
            return Err(format!("class {} instead of {}", class(error), case["error_class"]));
        }
        Answer::Failed(error)
            if ours.is_none() && case["msg_empty"] != error.fault.to_string().is_empty() =>
        {
            return Err(format!("the message is {:?}", error.fault.to_string()));
        }
        Answer::Failed(error) if ours.is_some() && told(error, folder.path().to_str().unwrap()) != part => {
            let told = told(error, folder.path().to_str().unwrap());
            return Err(format!("{told:?} instead of {part:?}"));
        }
        _ => {}
    }
    let folder_name = folder.path().to_str().unwrap();
    let here = std::env::current_dir().unwrap();
    let expected = match ours {
        Some(Ours::Ok(_, part)) if !part.is_empty() => {
            return if stderr.starts_with(part) { Ok(()) } else { Err(format!("stderr {stderr:?}")) };
        }
        _ => case["stderr_forwarded"]
            .as_str()
            .unwrap()
            .replace("$DIR", folder_name)
            .replace("/work-dir", here.to_str().unwrap()),
    };
    if stderr == expected { Ok(()) } else { Err(format!("stderr {stderr:?} instead of {expected:?}")) }
}

#[test]
fn exec_behaviour() {
    let mut score = Score::of("exec-behaviour");
    for case in cases("exec-behaviour.json") {
        let id = case["id"].as_str().unwrap();
        let ours = EXEC_DIFFERENT.iter().find(|(different, _)| *different == id).map(|(_, ours)| ours);
        score.add(id, ours.is_some(), judge_exec(&case, ours));
    }
    score.finish();
}

// ---- chain.json ----

#[derive(Debug, Clone, PartialEq)]
struct Call {
    plugin: String,
    command: String,
    env: Value,
    stdin: Value,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Ok(Option<Value>),
    /// With the code, where the case has one.
    Failed(Option<u32>),
}

#[derive(Debug)]
struct Step {
    operation: String,
    outcome: Outcome,
    calls: Vec<Call>,
    cache: Value,
}

/// Turns what the reference did in step `index` of case `id` into what catena does; the rule, if that differs.
fn adjust(id: &str, steps: &mut [Step]) -> Vec<&'static str> {
    let mut rules = Vec::new();
    let mut probed: Vec<String> = Vec::new();
    for index in 0..steps.len() {
        let (step, rest) = steps.split_at_mut(index + 1);
        let step = &mut step[index];
        match (id, step.operation.as_str(), index) {
            ("add-020" | "add-nover" | "cache-downgrade", "CHECK", _) => {
                step.outcome = Outcome::Ok(None);
                rules.push("design.md 7: CHECK fails only on what catena asserted, so lists below 0.4.0 are left out");
            }
            ("mixed-result-version", "ADD", _) => {
                step.calls[1].stdin["prevResult"] =
                    json!({ "cniVersion": "1.1.0", "ips": [{ "address": "192.0.2.5/24" }] });
                rules.push("cni.md k 1: prevResult is converted to each delegate's request version");
            }
            ("del-fails-last", "DEL", 1) => {
                step.calls.extend(rest[0].calls[1..].iter().cloned());
                rules.push("cni.md k 8: DEL runs all plugins, also past one that fails");
            }
            ("missing-plugin", operation, _) => {
                step.outcome = Outcome::Failed(Some(7));
                if operation == "DEL" {
                    let mut first = step.calls[0].clone();
                    first.plugin = "first".to_owned();
                    first.stdin = json!({
                        "type": "first", "keyA": ["x"], "ipam": { "type": "host-local" }, "name": "net1",
                        "cniVersion": "1.1.0",
                    });
                    step.calls.push(first);
                    rules.push("cni.md k 8: DEL runs all plugins, also past one that is missing");
                }
            }
            _ => {}
        }
        if matches!(step.operation.as_str(), "GC" | "STATUS") {
            let mut calls = Vec::new();
            for mut call in step.calls.drain(..) {
                if matches!(call.command.as_str(), "GC" | "STATUS") && !probed.contains(&call.plugin) {
                    probed.push(call.plugin.clone());
                    calls.push(probe(&call.plugin));
                    rules.push("cni.md f: ask VERSION before forwarding GC or STATUS");
                }
                for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
                    if call.stdin.get(key) == Some(&Value::Null) {
                        call.stdin[key] = json!([]);
                        rules.push("cni.md k 3: no null is ever emitted; an empty set is an empty list");
                    }
                }
                calls.push(call);
            }
            step.calls = calls;
        }
    }
    rules
}

fn probe(plugin: &str) -> Call {
    Call {
        plugin: plugin.to_owned(),
        command: "VERSION".to_owned(),
        env: json!({
            "CNI_COMMAND": "VERSION", "CNI_CONTAINERID": "", "CNI_NETNS": "dummy", "CNI_ARGS": "",
            "CNI_IFNAME": "dummy", "CNI_PATH": "dummy",
        }),
        stdin: json!({ "cniVersion": "1.1.0" }),
    }
}

/// Notes its call in a folder of its own and answers as the case says, for the nth such call or for all.
const PLUGIN: &str = r#"#!/bin/sh
cd @DIR@ || exit 9
n=$(ls calls | wc -l)
call=calls/$(printf %04d "$n")
mkdir $call
cat > $call/stdin
env | grep ^CNI_ > $call/env
echo ${0##*/} > $call/plugin
me=${0##*/}.$CNI_COMMAND
nth=$me.$(cat count.$me 2>/dev/null | wc -l)
echo >> count.$me
for answer in answers/$nth answers/$me answers/$CNI_COMMAND; do
    if [ -e $answer ]; then cat $answer; [ ! -e $answer.fails ]; exit; fi
done
"#;

struct Stand {
    folder: TempDir,
    seen: usize,
}

impl Stand {
    fn new(case: &Value) -> Self {
        let folder = TempDir::new().unwrap();
        let dir = folder.path();
        for name in ["calls", "answers"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        let all =
            json!({ "cniVersion": "1.1.0", "supportedVersions": SpecVersion::ALL.map(SpecVersion::as_str) });
        fs::write(dir.join("answers/VERSION"), all.to_string()).unwrap();
        let script = PLUGIN.replace("@DIR@", dir.to_str().unwrap());
        let missing = case["missing"].as_array().cloned().unwrap_or_default();
        for plugin in case["conflist"]["plugins"].as_array().unwrap() {
            let kind = &plugin["type"];
            if !missing.contains(kind) {
                write_script(&dir.join("a").join(kind.as_str().unwrap()), &script, 0o755);
            }
        }
        for (name, answer) in case["plugin_script"].as_object().unwrap() {
            let path = dir.join("answers").join(name.replace('/', "."));
            if let Some(error) = answer.get("error") {
                fs::write(path.with_extension(format!("{}.fails", name.rsplit('/').next().unwrap())), "")
                    .unwrap();
                fs::write(path, error.to_string()).unwrap();
            } else {
                fs::write(path, answer["stdout"].as_str().unwrap()).unwrap();
            }
        }
        for (name, text) in case["cache_files"].as_object().into_iter().flatten() {
            fs::create_dir_all(dir.join("cache/results")).unwrap();
            write_script(&dir.join("cache/results").join(name), text.as_str().unwrap(), 0o600);
        }
        Self { folder, seen: 0 }
    }

    fn cni_path(&self) -> String {
        let dir = self.folder.path().to_str().unwrap();
        format!("{dir}/a:{dir}/b")
    }

    /// The calls since the last time.
    fn calls(&mut self) -> Vec<Call> {
        let folder = self.folder.path().join("calls");
        let count = fs::read_dir(&folder).unwrap().count();
        let calls = (self.seen..count)
            .map(|number| {
                let read =
                    |name: &str| fs::read_to_string(folder.join(format!("{number:04}/{name}"))).unwrap();
                let env: BTreeMap<String, String> = read("env")
                    .lines()
                    .map(|line| line.split_once('=').unwrap())
                    .map(|(name, value)| (name.to_owned(), value.replace(&self.cni_path(), "/opt/a:/opt/b")))
                    .collect();
                Call {
                    plugin: read("plugin").trim().to_owned(),
                    command: env["CNI_COMMAND"].clone(),
                    env: json!(env),
                    stdin: serde_json::from_str(&read("stdin")).unwrap(),
                }
            })
            .collect();
        self.seen = count;
        calls
    }

    fn cache(&self) -> Value {
        let mut files = Map::new();
        for entry in fs::read_dir(self.folder.path().join("cache/results")).into_iter().flatten() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let content = serde_json::from_str(&text).unwrap_or(Value::String(text));
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
            let file = json!({ "mode": format!("{mode:04o}"), "content": content });
            files.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), file);
        }
        Value::Object(files)
    }
}

/// What the use cases do around a chain, with libcni's cache as their memory.
fn operate(case: &Value, stand: &Stand, operation: &str, list_text: &str) -> Outcome {
    let chain = Chain::new(NetworkList::from_value(&case["conflist"]).unwrap());
    let exec = exec(stand.folder.path(), Search::new([], &stand.cni_path()), None);
    let runtime = &case["runtime"];
    let text = |name: &str| runtime[name].as_str().unwrap_or_default();
    let pairs: Vec<String> = runtime["args"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|pair| format!("{}={}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
        .collect();
    let args = pairs.join(";");
    let capability_args = runtime["capabilityArgs"].as_object().cloned().unwrap_or_default();
    let at = Attachment {
        container_id: text("containerID"),
        ifname: text("ifName"),
        netns: Some(text("netns")),
        args: &args,
        capability_args: &capability_args,
    };
    let folder = stand.folder.path().join("cache");
    let name = chain.list.name.as_str();
    let cached = || cache::load(&folder, name, at.container_id, at.ifname);
    let failed = |error: DelegateError| Outcome::Failed(Some(error.code()));
    let del = || {
        let mut errors = chain.del(&exec, &at, cached().unwrap_or_default().as_ref(), &mut unrecorded);
        if errors.is_empty() {
            cache::remove(&folder, name, at.container_id, at.ifname).unwrap();
            Outcome::Ok(None)
        } else {
            failed(errors.remove(0))
        }
    };
    match operation {
        "ADD" => match chain.add(&exec, &at, &mut unrecorded) {
            Err(error) => failed(error),
            Ok(value) => {
                // As the reference would write it, which says nothing that was not there.
                let version = result::version_text(&value).and_then(SpecVersion::from_text).unwrap();
                let value = result::convert(&value, version).unwrap();
                let text = RawValue::from_string(value.to_string()).unwrap();
                cache::store(&folder, name, list_text.as_bytes(), &at, &text).unwrap();
                Outcome::Ok(Some(value))
            }
        },
        "CHECK" => match cached() {
            Err(_) => Outcome::Failed(None),
            Ok(prev) => chain
                .check(&exec, &at, prev.as_ref(), &mut unrecorded)
                .map_or_else(failed, |()| Outcome::Ok(None)),
        },
        "DEL" => del(),
        "STATUS" => chain.status(&exec).map_or_else(failed, |()| Outcome::Ok(None)),
        "GC" => {
            let pair =
                |pair: &Value| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned());
            let valid: Vec<(String, String)> = case["valid"].as_array().unwrap().iter().map(pair).collect();
            let ours = (at.container_id.to_owned(), at.ifname.to_owned());
            if !valid.contains(&ours) && cached().unwrap().is_some() {
                assert_eq!(del(), Outcome::Ok(None));
            }
            match chain.gc(&exec, &valid).into_iter().next() {
                Some(error) => failed(error),
                None => Outcome::Ok(None),
            }
        }
        "VALIDATE" => {
            let wanted = &chain.list.cni_version;
            let speaks = |answer: Result<Vec<String>, DelegateError>| answer.unwrap().contains(wanted);
            if chain.versions(&exec).into_iter().map(speaks).collect::<Vec<_>>().contains(&false) {
                return Outcome::Failed(None);
            }
            let mut declared: Vec<&str> =
                chain.list.plugins.iter().flat_map(|plugin| plugin.capabilities()).collect();
            declared.sort_unstable();
            Outcome::Ok(Some(json!(declared)))
        }
        other => panic!("{other}"),
    }
}

fn expected_steps(case: &Value) -> Vec<Step> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let call = |call: &Value| Call {
        plugin: text(&call["plugin"]),
        command: text(&call["command"]),
        env: call["env"].clone(),
        stdin: call["stdin"].clone(),
    };
    let content =
        |file: &Value| json!({ "mode": file["mode"], "content": file.get("json").unwrap_or(&file["text"]) });
    let step = |step: &Value| Step {
        operation: text(&step["operation"]),
        outcome: if step["expect"] == "ok" {
            Outcome::Ok(step.get("result").or(step.get("capabilities")).cloned())
        } else {
            Outcome::Failed(step["code"].as_u64().map(|code| code as u32))
        },
        calls: step["calls"].as_array().unwrap().iter().map(call).collect(),
        cache: Value::Object(
            step["cache_after"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, file)| (name.clone(), content(file)))
                .collect(),
        ),
    };
    case["steps"].as_array().unwrap().iter().map(step).collect()
}

fn judge_chain(case: &Value, steps: &[Step]) -> Result<(), String> {
    let mut stand = Stand::new(case);
    let list_text = case["steps"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|step| step["cache_after"].as_object().into_iter().flatten())
        .find_map(|(_, file)| file["config_decoded"].as_str())
        .map_or_else(|| case["conflist"].to_string(), str::to_owned);
    for step in steps {
        let operation = &step.operation;
        let outcome = operate(case, &stand, operation, &list_text);
        let agree = match (&outcome, &step.outcome) {
            (Outcome::Failed(_), Outcome::Failed(None)) => true,
            (ours, expected) => ours == expected,
        };
        if !agree {
            return Err(format!("{operation}: {outcome:?} instead of {:?}", step.outcome));
        }
        let calls = stand.calls();
        let names = |calls: &[Call]| -> Vec<String> {
            calls.iter().map(|call| format!("{}/{}", call.plugin, call.command)).collect()
        };
        if names(&calls) != names(&step.calls) {
            return Err(format!(
                "{operation}: calls {:?} instead of {:?}",
                names(&calls),
                names(&step.calls)
            ));
        }
        for (ours, expected) in calls.iter().zip(&step.calls) {
            if ours != expected {
                return Err(format!("{operation}: call\n  {ours:?}\ninstead of\n  {expected:?}"));
            }
        }
        if stand.cache() != step.cache {
            return Err(format!("{operation}: cache\n  {}\ninstead of\n  {}", stand.cache(), step.cache));
        }
    }
    Ok(())
}

#[test]
fn chain() {
    let mut score = Score::of("chain");
    for case in cases("chain.json") {
        let id = case["id"].as_str().unwrap();
        let mut steps = expected_steps(&case);
        let rules = adjust(id, &mut steps);
        score.add(id, !rules.is_empty(), judge_chain(&case, &steps));
    }
    score.finish();
}
