//! What `run`, `bench` and `replay` share: modules that are not installed, and pipelines from files.

use std::path::{Path, PathBuf};

use catena::cni::PipelineRef;
use catena::node::{At, Entry, Grants, Limits, ModuleName, NodeConfig, Root, repeated};
use catena::pipeline::selection::Pipeline;
use catena::wasm::grants::required;
use catena::wasm::{Module, Modules};
use serde_json::{Value, json};

use crate::cmd::install::read;
use crate::compile::compile;
use crate::component;
use crate::error::Error;
use crate::output::line;
use crate::store;

/// The name of a pipeline that is only tried.
const TRIED: &str = "tried";

/// The pipeline to try, and modules for it that need not be installed.
#[derive(Debug, clap::Args)]
pub(crate) struct Trial {
    /// A pipeline: a file with an array of entries, or the name of one of the node's
    #[arg(long, value_name = "FILE or NAME")]
    pub(crate) pipeline: Option<String>,
    /// Let a file be the module of a name, whatever is installed under it; may be repeated, each name once
    #[arg(long = "module", value_name = "NAME=FILE", value_parser = name_and_file)]
    pub(crate) modules: Vec<(ModuleName, PathBuf)>,
}

/// JSON on the command line.
pub(crate) fn json(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match repeated_keys(text.as_bytes()).as_slice() {
        [] => Ok(value),
        repeated => Err(format!("{}; keep one of each", repeated.join(", "))),
    }
}

/// Each key that an object of a JSON text has more than once.
fn repeated_keys(json: &[u8]) -> Vec<String> {
    repeated(json).into_iter().map(|place| format!("{} is there more than once", place.text)).collect()
}

fn name_and_file(text: &str) -> Result<(ModuleName, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("it is not NAME=FILE")?;
    let name = ModuleName::parse(name).ok_or_else(|| format!("{name:?} cannot be a module's name"))?;
    Ok((name, PathBuf::from(file)))
}

/// What is tried, with the node's files as far as they are there.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) node: NodeConfig,
    pub(crate) pipeline: Pipeline,
    /// What each module from a file was granted: all that it asks for but folders.
    pub(crate) granted: Vec<(String, Grants)>,
}

/// The node's files, with the modules that are tried in their places.
#[derive(Debug)]
pub(crate) struct Place {
    node: NodeConfig,
    pub(crate) modules: Modules,
    granted: Vec<(String, Grants)>,
}

impl Place {
    /// Loads a pipeline. Who tries one stands for the node, so what stdin may select does not bind it; the baseline is
    /// around it.
    pub(crate) fn ready(mut self, reference: PipelineRef) -> Result<Ready, Error> {
        let default = match reference {
            PipelineRef::Named(name) => Some(name),
            PipelineRef::Inline(entries) => {
                self.node.pipelines.named.insert(TRIED.to_owned(), entries);
                Some(TRIED.to_owned())
            }
            PipelineRef::Default => self.node.pipelines.default.take(),
        };
        self.node.pipelines.default = default;
        let pipeline = Pipeline::select(&PipelineRef::Default, &self.node, &self.modules)
            .map_err(|error| Error::Refused(error.to_string()))?;
        Ok(Ready { node: self.node, pipeline, granted: self.granted })
    }

    /// What modules from files were granted, for both kinds of output.
    pub(crate) fn granted(&self) -> &[(String, Grants)] {
        &self.granted
    }
}

/// The lines and the JSON of what modules from files were granted.
pub(crate) fn write_granted(granted: &[(String, Grants)], text: &mut String) -> Value {
    granted
        .iter()
        .map(|(name, grants)| {
            line(text, "grants", &format!("{name}: {grants}"));
            (name.clone(), grants.to_value())
        })
        .collect()
}

impl Trial {
    /// Reads the node's files and compiles the modules that are named on the command line.
    pub(crate) fn place(&self) -> Result<Place, Error> {
        let root = Root::from_env();
        let node = NodeConfig::load(&root)?;
        let mut modules = Modules::open(&root, &node)?;
        let mut granted = Vec::new();
        for (position, (name, file)) in self.modules.iter().enumerate() {
            if let Some((_, other)) = self.modules.iter().take(position).find(|(earlier, _)| earlier == name)
            {
                return Err(Error::Usage(format!(
                    "module {name} is to be {} and {}; name it once",
                    other.display(),
                    file.display()
                )));
            }
            let limits = node.modules.get(name).map(|rule| rule.limits).unwrap_or_default();
            let (module, grants) = from_file(name, file, limits)?;
            granted.push((name.to_string(), grants));
            modules.provide(module);
        }
        Ok(Place { node, modules, granted })
    }

    /// What `--pipeline` says; none without it.
    pub(crate) fn reference(&self) -> Result<Option<PipelineRef>, Error> {
        self.pipeline.as_deref().map(pipeline).transpose()
    }

    /// Loads what `--pipeline` says, and without it `otherwise`.
    pub(crate) fn ready(&self, otherwise: &PipelineRef) -> Result<Ready, Error> {
        let chosen = self.reference()?.unwrap_or_else(|| otherwise.clone());
        self.place()?.ready(chosen)
    }

    /// The pipeline that tries one module: a file, or the name of one. Its result comes converted, as in any
    /// pipeline.
    pub(crate) fn of_module(&mut self, module: &str, config: Option<&Value>) -> Result<PipelineRef, Error> {
        let path = Path::new(module);
        let name = if path.is_file() || module.contains('/') || module.ends_with(".wasm") {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let name = ModuleName::parse(stem).or_else(|| ModuleName::parse("module"));
            let name = name.ok_or_else(|| Error::Refused(format!("{module} has no name")))?;
            self.modules.push((name.clone(), path.to_owned()));
            name
        } else {
            store::name(module)?
        };
        let mut entries = vec![json!({ "stage": "result-conversion" })];
        if name.as_str() != "result-conversion" {
            entries.push(json!({ "stage": name.as_str(), "config": config }));
        }
        inline(&entries)
    }
}

fn pipeline(text: &str) -> Result<PipelineRef, Error> {
    let path = Path::new(text);
    if !path.is_file() && !text.contains('/') {
        return Ok(if text == "default" {
            PipelineRef::Default
        } else {
            PipelineRef::Named(text.to_owned())
        });
    }
    let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let bad = |why: String| Error::Refused(format!("{}: {why}", path.display()));
    let entries: Vec<Value> = serde_json::from_slice(&bytes)
        .map_err(|error| bad(format!("it is not an array of pipeline entries: {error}")))?;
    if let repeated @ [_, ..] = repeated_keys(&bytes).as_slice() {
        return Err(bad(format!("{}; keep one of each", repeated.join(", "))));
    }
    inline(&entries)
}

fn inline(entries: &[Value]) -> Result<PipelineRef, Error> {
    let entries = Entry::parse_all(&At::Document.member("pipeline"), entries);
    Ok(PipelineRef::Inline(entries.map_err(|refused| Error::Refused(refused.to_string()))?))
}

/// A module that is not installed, with the limits that the node has for its name. On a table that is made up it may do
/// all that it asks for; folders are real, so it finds none.
fn from_file(name: &ModuleName, file: &Path, limits: Limits) -> Result<(Module, Grants), Error> {
    let refused = |why: String| Error::Refused(format!("{}: {why}", file.display()));
    let bytes = read(file)?;
    let mut description = component::describe(&bytes).map_err(refused)?;
    description.wants.dirs.clear();
    let grants =
        required(description.imports.iter().map(String::as_str), &description.wants).map_err(refused)?;
    let compiled = compile(&bytes).map_err(refused)?;
    let module = Module::of_component(description.facts(name, &grants), limits, &compiled.component);
    Ok((module.map_err(|error| refused(error.to_string()))?, grants))
}
