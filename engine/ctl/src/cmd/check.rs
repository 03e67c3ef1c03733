use std::collections::HashSet;
use std::path::{Path, PathBuf};

use catena::attach::session::not_allowed;
use catena::cni::{CniError, Conf, PipelineRef, Problems};
use catena::delegate::Command;
use catena::node::{At, Entry, ModuleName, NodeConfig, Paths, Refused, Root};
use catena::pipeline::selection::{Pipeline, SelectionError};
use catena::wasm::{Export, Host, ModuleError, Modules};
use catena_cni::identifier::IfName;
use catena_routes::Scope;
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::{Exit, Report, line};
use crate::problem::Problem;
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
        let mut told = HashSet::new();
        problems.retain(|problem| told.insert(problem.clone()));

        let mut text = String::new();
        for problem in &problems {
            problem.write(&mut text);
        }
        if problems.is_empty() {
            let files = self.files.iter().map(|file| file.display().to_string());
            let checked: Vec<String> = std::iter::once(path.display().to_string()).chain(files).collect();
            line(&mut text, "ok", &checked.join(", "));
        }
        let exit = Exit::negative(!problems.is_empty());
        Ok(Report {
            text,
            json: json!({ "problems": problems.iter().map(Problem::to_value).collect::<Value>() }),
            exit,
        })
    }

    /// What the node's file says. What is wrong in it is noted, and the rest is checked all the same.
    fn node_config(&self, root: &Root, path: &Path, problems: &mut Vec<Problem>) -> NodeConfig {
        let bytes = match &self.node {
            None => NodeConfig::bytes(root).map_err(|error| Problem::new(path, "", &error.to_string())),
            Some(file) => std::fs::read(file).map(Some).map_err(|error| unreadable(file, &error)),
        };
        let read = bytes.and_then(|bytes| match bytes {
            None => Ok(NodeConfig::default()),
            Some(bytes) => {
                let read = NodeConfig::parse_leniently(path, &bytes);
                let (node, found) = read.map_err(|error| Problem::new(path, "", &error.to_string()))?;
                problems.extend(found.iter().map(|found| Problem::new(path, &found.pointer, &found.text)));
                Ok(node)
            }
        });
        read.unwrap_or_else(|problem| {
            problems.push(problem);
            NodeConfig::default()
        })
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
        // What it would get is not known where that cannot be read.
        if problems.iter().any(|problem| problem.is_within(path, &at)) {
            continue;
        }
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
    // That none can be read has been told.
    if entry.stage.is_empty() {
        return;
    }
    match modules.get(&entry.stage) {
        Err(error) => problems.push(module_problem(path, &format!("{at}/stage"), &error)),
        Ok(_) => {
            // Where the entry has none, the node's own for the module is used, and that is judged at its place.
            let rule = node.modules.iter().find(|(name, _)| name.as_str() == entry.stage);
            if entry.config.is_none() && rule.is_some_and(|(_, rule)| rule.config.is_some()) {
                return;
            }
            let config = entry.config.clone().unwrap_or_else(|| json!({}));
            if problems.iter().any(|problem| problem.is_within(path, &format!("{at}/config"))) {
                return;
            }
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
        let place = |pointer: &str| {
            // These two a plugin has from its list.
            let of_list = !at.is_empty() && matches!(pointer, "/name" | "/cniVersion");
            if of_list { pointer.to_owned() } else { format!("{at}{pointer}") }
        };
        for error in refusals(&conf, node) {
            let pointer = error.pointer.as_deref().unwrap_or_default();
            problems.push(Problem::new(file, &place(pointer), &error.msg));
            problems.extend(error.details.iter().map(|text| Problem::new(file, &place(pointer), text)));
        }
        // Whatever else is wrong.
        let (Some(pipeline), Some(modules)) = (selected(&conf), modules) else { continue };
        let entries_at = spelt(&conf, "pipeline").pointer();
        if let PipelineRef::Inline(entries) = &pipeline {
            for (index, entry) in entries.iter().enumerate() {
                check_entry(file, &format!("{at}{entries_at}/{index}"), entry, node, modules, problems);
            }
        }
        match Pipeline::select(&pipeline, node, modules) {
            Ok(_) => {}
            Err(SelectionError::Entries(Refused(found))) => problems.extend(found.iter().map(|found| {
                let inside = found.pointer.strip_prefix("/pipeline").unwrap_or(&found.pointer);
                Problem::new(file, &place(&format!("{entries_at}{inside}")), &found.text)
            })),
            // What is wrong with a module has been said at its own place.
            Err(SelectionError::Modules { first, others }) => {
                for unusable in
                    std::iter::once(&first).chain(&others).filter(|unusable| !unusable.stage.is_empty())
                {
                    let text = unusable.source.to_string();
                    if !problems.iter().any(|problem| problem.whole() == text) {
                        problems.push(Problem::new(file, &place(&entries_at), &unusable.to_string()));
                    }
                }
            }
            Err(error) => problems.push(Problem::new(file, &place(&entries_at), &error.to_string())),
        }
    }
}

fn member<'a>(conf: &'a Value, key: &str) -> Option<&'a Value> {
    catena_cni::json::get(conf.as_object()?, key).filter(|value| !value.is_null())
}

/// Where a member of a config stands, as the config spells it.
fn spelt<'a>(conf: &'a Value, key: &'a str) -> At<'a> {
    let same = |other: &&String| catena_cni::json::same_name(other, key);
    let spelt = conf.as_object().and_then(|map| map.keys().rev().find(same));
    At::Member(&At::Document, spelt.map_or(key, String::as_str))
}

/// The pipeline that a config selects, as far as it can be read.
fn selected(conf: &Value) -> Option<PipelineRef> {
    match member(conf, "pipeline") {
        None => Some(PipelineRef::Default),
        Some(Value::Array(entries)) => {
            Some(PipelineRef::Inline(Entry::parse_each(&At::Document.member("pipeline"), entries).0))
        }
        Some(name) => name.as_str().map(|name| PipelineRef::Named(name.to_owned())),
    }
}

/// More than anybody mends before the next look.
const MOST: usize = 1000;

/// What ADD would say against a config, each problem for itself: of what it is, of what it asks this node for.
fn refusals(conf: &Value, node: &NodeConfig) -> Vec<CniError> {
    let mut problems = Problems::at_most(MOST);
    let parsed = Conf::read(conf.to_string().as_bytes(), Command::Add, &mut problems);
    if let Some(conf) = &parsed
        // The runtime's own name for the primary is known to nobody here, so it is none that anybody asks for.
        && let Ok(primary) = IfName::parse("primary")
    {
        problems.take(conf.interfaces(&primary));
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
            problems.add(not_allowed(&spelt(conf, key), path, list));
        }
    }
    problems.into_vec()
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
