use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{Object, Problems};
use super::place::At;
use super::problem::Problem;
use super::{Entry, ModuleName};

/// Which pipelines the node has, what always runs around them, and what a config on stdin may choose.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pipelines {
    /// By name.
    pub named: BTreeMap<String, Vec<Entry>>,
    /// The one that runs where a config names none: one of `named`, or the built-in `default`.
    pub default: Option<String>,
    /// What runs whatever stdin selects.
    pub baseline: Baseline,
    /// What stdin may select.
    pub stdin: StdinPipelines,
}

/// Stages around every pipeline.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Baseline {
    /// Before it.
    pub before: Vec<Entry>,
    /// After it.
    pub after: Vec<Entry>,
}

impl Baseline {
    /// Whether it has an entry of that stage.
    pub fn has(&self, stage: &str) -> bool {
        self.before.iter().chain(&self.after).any(|entry| entry.stage == stage)
    }
}

/// `stdinPipelines`: what the key `pipeline` of a config may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StdinPipelines {
    /// Absent.
    None,
    /// One of these names.
    These(Vec<String>),
    /// Any pipeline of the node.
    Named,
    /// Any pipeline of the node, or one written out.
    #[default]
    Inline,
}

impl Pipelines {
    /// The name of the built-in pipeline, unless the node gives it to its own.
    pub const DEFAULT: &str = "default";

    /// Reads the keys of node.json that are about pipelines.
    pub(super) fn read(object: &mut Object<'_>, problems: &mut Problems) -> Self {
        let mut pipelines = Self::default();
        if let Some(named) = object.get("pipelines") {
            pipelines.named = read_named(named, problems);
        }
        if let Some(baseline) = object.get("baseline") {
            pipelines.baseline = Baseline::read(baseline, problems);
        }
        let default = object
            .read("defaultPipeline", "the name of a pipeline", problems, |value| value.as_str())
            .map(str::to_owned);
        if let Some(name) = &default {
            pipelines.check_name(At::Document.member("defaultPipeline"), name, problems);
        }
        pipelines.default = default;
        let stdin = object.read(
            "stdinPipelines",
            "\"none\", \"named\", \"inline\" or an array of names of pipelines",
            problems,
            StdinPipelines::read,
        );
        pipelines.stdin = stdin.unwrap_or_default();
        if let StdinPipelines::These(names) = &pipelines.stdin {
            for (index, name) in names.iter().enumerate() {
                pipelines.check_name(At::Document.member("stdinPipelines").element(index), name, problems);
            }
        }
        pipelines.check_once(problems);
        pipelines
    }

    /// The names that there are, for messages.
    pub fn names(&self) -> String {
        let mut names: Vec<&str> = self.named.keys().map(String::as_str).collect();
        if !self.named.contains_key(Self::DEFAULT) {
            names.push(Self::DEFAULT);
        }
        names.join(", ")
    }

    fn check_name(&self, at: At<'_>, name: &str, problems: &mut Problems) {
        if name != Self::DEFAULT && !self.named.contains_key(name) {
            let text = format!(
                "{at}: there is no pipeline {name:?}; add it to pipelines, or name one of {}",
                self.names()
            );
            problems.value(&at, text);
        }
    }

    /// A stage of the baseline runs once, as the baseline says, so an entry with another config would be in vain.
    fn check_once(&self, problems: &mut Problems) {
        for (name, entries) in &self.named {
            for (index, entry) in entries.iter().enumerate() {
                if entry.config.is_some() && self.baseline.has(&entry.stage) {
                    let pipelines = At::Document.member("pipelines");
                    let (at, config) = (pipelines.member(name), "config");
                    let at = at.element(index);
                    let at = at.member(config);
                    let text = format!(
                        "{at}: stage {} is in the baseline, which alone decides its config; remove it here, or the \
                         stage from the baseline",
                        entry.stage
                    );
                    problems.value(&at, text);
                }
            }
        }
    }
}

impl Baseline {
    fn read(value: &Value, problems: &mut Problems) -> Self {
        let mut baseline = Self::default();
        let Some(mut object) = Object::new(At::Member(&At::Document, "baseline"), value, problems) else {
            return baseline;
        };
        for (key, slot) in [("before", &mut baseline.before), ("after", &mut baseline.after)] {
            if let Some(entries) = object.get(key) {
                *slot = Entry::read_all(&object.at(key), entries, problems);
            }
        }
        object.end(problems);
        baseline
    }
}

impl StdinPipelines {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(word) => match word.as_str() {
                "none" => Some(Self::None),
                "named" => Some(Self::Named),
                "inline" => Some(Self::Inline),
                _ => None,
            },
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .map(Self::These),
            _ => None,
        }
    }
}

fn read_named(value: &Value, problems: &mut Problems) -> BTreeMap<String, Vec<Entry>> {
    let (mut named, pipelines) = (BTreeMap::new(), At::Document.member("pipelines"));
    let Some(map) = value.as_object() else {
        problems.add(Problem::wrong(&pipelines, "an object of pipelines by name", value));
        return named;
    };
    for (name, entries) in map {
        let at = pipelines.member(name);
        // The same characters as a module's, so that a name can stand anywhere.
        if ModuleName::parse(name).is_none() {
            problems.value(&at, format!("{at}: a pipeline's name is 1 to 64 of a-z, 0-9, '.', '_', '-'"));
        }
        named.insert(name.clone(), Entry::read_all(&at, entries, problems));
    }
    named
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> (Pipelines, Vec<String>) {
        let mut problems = Problems::default();
        let mut object = Object::new(At::Document, value, &mut problems).unwrap();
        let pipelines = Pipelines::read(&mut object, &mut problems);
        object.end(&mut problems);
        (pipelines, problems.into_texts())
    }

    #[test]
    fn everything() {
        let (pipelines, problems) = read(&json!({
            "pipelines": {"a": [{"stage": "x"}], "b": []}, "defaultPipeline": "a",
            "baseline": {"before": [{"stage": "p", "config": {"k": 1}}]}, "stdinPipelines": ["b", "default"]
        }));
        assert_eq!(problems, [""; 0]);
        assert_eq!(pipelines.named.len(), 2);
        assert_eq!(pipelines.default.as_deref(), Some("a"));
        assert!(pipelines.baseline.has("p") && !pipelines.baseline.has("x"));
        assert_eq!(pipelines.stdin, StdinPipelines::These(vec!["b".into(), "default".into()]));
        assert_eq!(pipelines.names(), "a, b, default");
        for (word, expected) in [
            (json!("none"), StdinPipelines::None),
            (json!("named"), StdinPipelines::Named),
            (json!("inline"), StdinPipelines::Inline),
        ] {
            assert_eq!(read(&json!({ "stdinPipelines": word })).0.stdin, expected);
        }
        assert_eq!(read(&json!({})).0, Pipelines::default());
    }

    #[test]
    fn every_problem_is_named() {
        let (_, problems) = read(&json!({
            "pipelines": {"A": [], "a": [{"stage": "p", "config": {}}, {"stage": 1}], "b": {}},
            "defaultPipeline": "c", "stdinPipelines": ["d"],
            "baseline": {"before": [{"stage": "p", "speed": 1}], "after": {}, "between": []}
        }));
        let text = problems.join("\n");
        for part in [
            "pipelines.A: a pipeline's name",
            "pipelines.a[0].config: stage p is in the baseline",
            "pipelines.a[1].stage",
            "pipelines.b must be an array",
            "defaultPipeline: there is no pipeline \"c\"",
            "stdinPipelines[0]: there is no pipeline \"d\"",
            "unknown key baseline.before[0].speed",
            "baseline.after must be an array",
            "unknown key baseline.between",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(read(&json!({"stdinPipelines": "all"})).1[0].contains("\"none\""));
        assert!(read(&json!({"pipelines": []})).1[0].contains("an object of pipelines"));
    }
}
