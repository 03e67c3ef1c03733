//! Recorded calls of real runtimes (tests/captures): what each sent to the two plugins of its list, and what those
//! answered.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Map, Value};

use crate::acceptance::Runtime;

/// The plugins of the recorded list, in order.
pub const PLUGINS: [&str; 2] = ["bridge", "tuning"];

/// One file of recordings, in the order in which the calls were made.
#[derive(Debug)]
pub struct Recording {
    pub name: &'static str,
    pub runtime: Runtime,
    pub calls: Vec<Call>,
}

/// One call of one plugin.
#[derive(Debug, Clone)]
pub struct Call {
    /// Scenario and step.
    pub id: String,
    pub command: String,
    /// The `type` of the plugin that was called; empty for VERSION.
    pub plugin: String,
    /// The CNI variables, as recorded.
    pub env: Map<String, Value>,
    pub stdin: Value,
    pub answer: Answer,
}

/// How the plugin ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// With this status and text on stdout.
    Exit(u8, String),
    /// By a signal.
    Killed,
    /// Not at all, until the runtime gave up.
    Hung,
}

/// The calls that make up one operation of the list, in the order in which libcni made them.
#[derive(Debug, Clone)]
pub struct Operation {
    pub calls: Vec<Call>,
}

const FILES: [(&str, Runtime); 7] = [
    ("cnitool", Runtime::Libcni),
    ("containerd-1.6.20", Runtime::Containerd),
    ("containerd-2.4", Runtime::Containerd),
    ("kubelet-1.36-apiserver", Runtime::Containerd),
    ("kubelet-1.36-containerd-2.4", Runtime::Containerd),
    ("kubelet-1.36-standalone", Runtime::Containerd),
    ("podman-4.3.1-cni", Runtime::Podman),
];

/// All recordings.
pub fn all() -> Vec<Recording> {
    FILES
        .into_iter()
        .map(|(name, runtime)| {
            let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/captures/{}.jsonl"), name);
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            Recording { name, runtime, calls: text.lines().map(Call::read).collect() }
        })
        .collect()
}

impl Recording {
    /// The names of the namespaces in /run/netns that the calls need.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let paths =
            self.calls.iter().filter(|call| call.command != "VERSION").map(|call| call.variable("CNI_NETNS"));
        paths
            .filter(|path| !path.is_empty())
            .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned())
            .collect()
    }

    /// The calls as operations; calls of two operations may have been made in turn.
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations: Vec<Operation> = Vec::new();
        for call in &self.calls {
            let open = operations.iter_mut().rev().find(|operation| operation.is_of(call));
            match open {
                Some(operation) if operation.goes_on_with(call) => operation.calls.push(call.clone()),
                _ => operations.push(Operation { calls: vec![call.clone()] }),
            }
        }
        operations
    }
}

impl Operation {
    pub fn command(&self) -> &str {
        &self.calls[0].command
    }

    fn is_of(&self, call: &Call) -> bool {
        let key = |call: &Call| (call.command.clone(), call.variable("CNI_CONTAINERID").to_owned());
        key(&self.calls[0]) == key(call)
    }

    fn goes_on_with(&self, call: &Call) -> bool {
        let position = |call: &Call| PLUGINS.iter().position(|plugin| *plugin == call.plugin);
        let (Some(last), Some(next)) = (self.calls.last().and_then(position), position(call)) else {
            return false;
        };
        if call.command == "DEL" { next < last } else { next > last }
    }
}

impl Call {
    fn read(line: &str) -> Call {
        // A namespace of a process has no name of its own; the test makes it one.
        let line = line.replace("/proc/17697/ns/net", "/run/netns/of-17697");
        let recorded: Value = serde_json::from_str(&line).expect("a recorded call");
        let env = recorded["env"].as_object().expect("an environment");
        let env: Map<String, Value> = env
            .iter()
            .filter(|(name, _)| name.starts_with("CNI_"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let stdout = match &recorded["stdout"] {
            Value::String(text) => text.clone(),
            document => document.to_string(),
        };
        Call {
            id: format!("{} {}", text(&recorded["scenario"]), text(&recorded["step"])),
            command: text(&env["CNI_COMMAND"]),
            plugin: text(&recorded["stdin"]["type"]),
            stdin: recorded["stdin"].clone(),
            answer: match &recorded["rc"] {
                Value::Number(code) => {
                    Answer::Exit(code.to_string().parse().expect("an exit status"), stdout)
                }
                Value::String(word) if word == "killed" => Answer::Killed,
                Value::Null => Answer::Hung,
                other => panic!("rc {other}"),
            },
            env,
        }
    }

    pub fn variable(&self, name: &str) -> &str {
        self.env.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The answer as a script of the scripted delegate.
    pub fn step(&self) -> Value {
        match &self.answer {
            Answer::Exit(status, stdout) => serde_json::json!({ "text": stdout, "exit": status }),
            Answer::Killed => serde_json::json!({ "sh": "kill -KILL $PPID; sleep 1" }),
            Answer::Hung => serde_json::json!({ "sh": "sleep 60" }),
        }
    }

    /// Whether the plugin did what it was asked, with a result where one was asked for.
    pub fn succeeded(&self) -> bool {
        match &self.answer {
            Answer::Exit(0, stdout) => {
                self.command != "ADD"
                    || serde_json::from_str::<Value>(stdout).is_ok_and(|result| result.is_object())
            }
            _ => false,
        }
    }

    /// The plugin's own object: the request without what the runtime adds for the call.
    pub fn plugin_object(&self) -> Map<String, Value> {
        let mut object = self.stdin.as_object().expect("a request").clone();
        for member in ["name", "cniVersion", "prevResult", "runtimeConfig"] {
            object.remove(member);
        }
        object
    }
}
