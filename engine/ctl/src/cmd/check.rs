use std::path::{Path, PathBuf};

use catena::attach::session::not_allowed;
use catena::cni::{CniError, Conf, PipelineRef};
use catena::delegate::Command;
use catena::node::{Entry, ModuleName, NodeConfig, NodeError, Paths, Root};
use catena::pipeline::selection::Pipeline;
use catena::wasm::{Export, Host, ModuleError, Modules};
use catena_cni::identifier::IfName;
use catena_routes::Scope;
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::{Report, line};
use crate::problem::{Problem, pointer};
use crate::store;

/// Check CNI configs, node.json, pipelines, grants and installed modules, and name every problem at once
///
/// A CNI config is a config or a list with plugins of type catena. Stages that can judge their own config are asked.
/// Nothing is changed, and no delegate is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// CNI configs; node.json is always checked
    files: Vec<PathBuf>,
    /// Check this file instead of the node's own
    #[arg(long, value_name = "FILE")]
    node: Option<PathBuf>,
}

impl Check {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let root = Root::from_env();
        let mut problems = Vec::new();
        let path = self.node.clone().unwrap_or_else(|| root.node_file());
        let node = self.node_config(&root, &path, &mut problems);
        let modules = match Modules::open(&root, &node) {
            Ok(modules) => Some(modules),
            Err(error) => {
                problems.push(Problem::new(&root.modules(), "", &error.to_string()));
                None
            }
        };
        if let Some(modules) = &modules {
            check_node(&path, &node, modules, None, &mut problems);
            check_installed(&root, modules, &mut problems);
        }
        for file in &self.files {
            check_conf(file, &node, modules.as_ref(), &mut problems);
        }
        problems.dedup();

        let mut text = String::new();
        for problem in &problems {
            problem.write(&mut text);
        }
        if problems.is_empty() {
            let files = self.files.iter().map(|file| file.display().to_string());
            let checked: Vec<String> = std::iter::once(path.display().to_string()).chain(files).collect();
            line(&mut text, "ok", &checked.join(", "));
        }
        let negative = !problems.is_empty();
        Ok(Report {
            text,
            json: json!({ "problems": problems.iter().map(Problem::to_value).collect::<Value>() }),
            negative,
        })
    }

    /// The node's file; where it is wrong, what is wrong is noted and the rest is checked with the defaults.
    fn node_config(&self, root: &Root, path: &Path, problems: &mut Vec<Problem>) -> NodeConfig {
        let read = match &self.node {
            None => NodeConfig::load(root),
            Some(file) => match std::fs::read(file) {
                Ok(bytes) => NodeConfig::parse(file, &bytes),
                Err(error) => {
                    problems.push(unreadable(file, &error));
                    return NodeConfig::default();
                }
            },
        };
        match read {
            Ok(node) => return node,
            Err(NodeError::Key { problems: found, .. } | NodeError::Value { problems: found, .. }) => {
                let document = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let document = document.unwrap_or_default();
                problems.extend(found.iter().map(|text| Problem::new(path, &pointer(text, &document), text)));
            }
            Err(error) => problems.push(Problem::new(path, "", &error.to_string())),
        }
        NodeConfig::default()
    }
}

/// A file that cannot be read is a problem like any other: what the others have is told as well.
fn unreadable(file: &Path, error: &std::io::Error) -> Problem {
    Problem::new(file, "", &format!("it cannot be read: {error}"))
}

/// What a module says about the configs that the node's file has for it.
pub(crate) fn problems_of(root: &Root, node: &NodeConfig, name: &ModuleName) -> Vec<Problem> {
    let path = root.node_file();
    let mut problems = Vec::new();
    match Modules::open(root, node) {
        Ok(modules) => check_node(&path, node, &modules, Some(name.as_str()), &mut problems),
        Err(error) => problems.push(Problem::new(&root.modules(), "", &error.to_string())),
    }
    problems
}

/// Every rule's module and every entry of the node's own pipelines, or only those of one name.
fn check_node(
    path: &Path,
    node: &NodeConfig,
    modules: &Modules,
    only: Option<&str>,
    problems: &mut Vec<Problem>,
) {
    let counts = |name: &str| only.is_none_or(|only| only == name);
    for (name, rule) in node.modules.iter().filter(|(name, _)| counts(name.as_str())) {
        let at = format!("/modules/{name}");
        if let Err(error) = modules.get(name.as_str()) {
            problems.push(module_problem(path, &at, &error));
        } else if let Some(config) = &rule.config {
            judge(path, &format!("{at}/config"), name.as_str(), config, modules, problems);
        }
    }
    let pipelines = &node.pipelines;
    let named = pipelines.named.iter().map(|(name, entries)| (format!("/pipelines/{name}"), entries));
    let baseline = [("before", &pipelines.baseline.before), ("after", &pipelines.baseline.after)];
    let baseline = baseline.into_iter().map(|(key, entries)| (format!("/baseline/{key}"), entries));
    for (at, entries) in named.chain(baseline) {
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| counts(&entry.stage)) {
            check_entry(path, &format!("{at}/{index}"), entry, node, modules, problems);
        }
    }
}

fn check_entry(
    path: &Path,
    at: &str,
    entry: &Entry,
    node: &NodeConfig,
    modules: &Modules,
    problems: &mut Vec<Problem>,
) {
    match modules.get(&entry.stage) {
        Err(error) => problems.push(module_problem(path, &format!("{at}/stage"), &error)),
        Ok(_) => {
            // Where the entry has none, the node's own for the module is used, and that is judged at its place.
            let rule = node.modules.iter().find(|(name, _)| name.as_str() == entry.stage);
            if entry.config.is_none() && rule.is_some_and(|(_, rule)| rule.config.is_some()) {
                return;
            }
            let config = entry.config.clone().unwrap_or_else(|| json!({}));
            judge(path, &format!("{at}/config"), &entry.stage, &config, modules, problems);
        }
    }
}

/// Asks the stage itself about its config.
fn judge(path: &Path, at: &str, stage: &str, config: &Value, modules: &Modules, problems: &mut Vec<Problem>) {
    let Ok(module) = modules.get(stage) else { return };
    if !module.has(Export::Settings) {
        return;
    }
    match module.validate(&config.to_string(), Host::new("check", Scope::default(), true)).0 {
        Ok(found) => problems.extend(found.into_iter().map(|(inside, message)| {
            Problem::new(path, &format!("{at}{inside}"), &format!("stage {stage}: {message}"))
        })),
        Err(error) => problems.push(Problem::new(path, at, &format!("stage {stage}: {error}"))),
    }
}

fn module_problem(path: &Path, at: &str, error: &ModuleError) -> Problem {
    Problem::new(path, at, &error.to_string())
}

/// Installed modules that would not run, whether anything names them or not.
fn check_installed(root: &Root, modules: &Modules, problems: &mut Vec<Problem>) {
    let file = root.modules().join(catena::node::ModuleLock::FILE);
    let lock = match store::installed(root) {
        Ok(lock) => lock,
        Err(error) => return problems.push(Problem::new(&file, "", &error.to_string())),
    };
    let current = lock.modules.iter().filter(|(_, entry)| entry.current.is_some());
    for (name, _) in current {
        if let Err(error) = modules.get(name.as_str()) {
            problems.push(module_problem(&file, &format!("/modules/{name}"), &error));
        }
    }
}

/// A config, or the plugins of type catena in a list.
fn check_conf(file: &Path, node: &NodeConfig, modules: Option<&Modules>, problems: &mut Vec<Problem>) {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return problems.push(unreadable(file, &error)),
    };
    let document = match catena_cni::json::parse(&bytes) {
        Ok(document) => document,
        Err(error) => return problems.push(Problem::new(file, "", &format!("it is not JSON: {error}"))),
    };
    let own: Vec<(String, Value)> = match document["plugins"].as_array() {
        None => vec![(String::new(), document.clone())],
        Some(plugins) => plugins
            .iter()
            .enumerate()
            .filter(|(_, plugin)| plugin["type"] == "catena")
            .map(|(index, plugin)| (format!("/plugins/{index}"), of_list(&document, plugin)))
            .collect(),
    };
    if own.is_empty() {
        problems.push(Problem::new(
            file,
            "/plugins",
            "no plugin of type catena is in the list; is it the right file?",
        ));
    }
    for (at, conf) in own {
        let parsed = Conf::parse(conf.to_string().as_bytes(), Command::Add);
        for text in texts(&conf, parsed.as_ref(), node) {
            problems.push(Problem::new(file, &format!("{at}{}", pointer(&text, &conf)), &text));
        }
        // Whatever else is wrong.
        let (Some(pipeline), Some(modules)) = (selected(&conf), modules) else { continue };
        if let PipelineRef::Inline(entries) = &pipeline {
            for (index, entry) in entries.iter().enumerate() {
                check_entry(file, &format!("{at}/pipeline/{index}"), entry, node, modules, problems);
            }
        }
        if let Err(error) = Pipeline::select(&pipeline, node, modules) {
            let text = error.to_string();
            // What is wrong with a module has been said at its own place.
            if !problems.iter().any(|problem| text.ends_with(&problem.whole())) {
                problems.push(Problem::new(file, &format!("{at}/pipeline"), &text));
            }
        }
    }
}

fn member<'a>(conf: &'a Value, key: &str) -> Option<&'a Value> {
    catena_cni::json::get(conf.as_object()?, key).filter(|value| !value.is_null())
}

/// The pipeline that a config selects, if that can be read.
fn selected(conf: &Value) -> Option<PipelineRef> {
    match member(conf, "pipeline") {
        None => Some(PipelineRef::Default),
        Some(Value::Array(entries)) => Entry::parse_all("pipeline", entries).ok().map(PipelineRef::Inline),
        Some(name) => name.as_str().map(|name| PipelineRef::Named(name.to_owned())),
    }
}

/// What ADD would say against a config, each problem for itself: of what it is, of what it asks this node for.
fn texts(conf: &Value, parsed: Result<&Conf, &CniError>, node: &NodeConfig) -> Vec<String> {
    let mut texts = Vec::new();
    // ADD joins these to one.
    let entries = member(conf, "pipeline").and_then(Value::as_array);
    let entries = entries
        .and_then(|entries| Entry::parse_all("pipeline", entries).err())
        .map(|refused| refused.problems)
        .unwrap_or_default();
    if let Err(error) = parsed {
        let joined = entries.join("; ");
        let others = error
            .details
            .iter()
            .map(|text| text.rsplit_once(" (code ").map_or(text.as_str(), |(text, _)| text));
        let found = std::iter::once(error.msg.as_str()).chain(others);
        texts.extend(found.filter(|text| *text != joined).map(str::to_owned));
    }
    texts.extend(entries);
    if let Ok(conf) = parsed {
        // The runtime's own name for the primary is known to nobody here, so it is none that anybody asks for.
        let names = IfName::parse("primary").ok().map(|primary| conf.interfaces(&primary));
        texts.extend(names.and_then(Result::err).map(|error| error.msg));
    }
    type Allows = fn(&Paths, &Path) -> bool;
    let allowed: [(&str, &str, Allows); 3] = [
        ("binDir", "bin", Paths::allows_bin),
        ("cniDir", "cache", Paths::allows_cache),
        ("logFile", "log", Paths::allows_log),
    ];
    for (key, list, allows) in allowed {
        let asked = member(conf, key).and_then(Value::as_str);
        // What is no absolute path has been told above.
        let Some(path) = asked.map(Path::new).filter(|path| path.is_absolute()) else { continue };
        if !allows(&node.paths, path) {
            texts.push(not_allowed(key, path, list).msg);
        }
    }
    texts
}

/// A plugin as the runtime sends it: name and version of the list, and the result of the plugins before it.
fn of_list(list: &Value, plugin: &Value) -> Value {
    let mut conf = plugin.clone();
    for key in ["cniVersion", "name"] {
        if let Some(value) = list.get(key) {
            conf[key] = value.clone();
        }
    }
    if conf.get("delegates").is_none() && conf.get("prevResult").is_none() {
        let version = list.get("cniVersion").cloned().unwrap_or_else(|| json!("1.0.0"));
        conf["prevResult"] = json!({ "cniVersion": version });
    }
    conf
}
