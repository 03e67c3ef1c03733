//! Which stages run, in which order.

use std::sync::Arc;

use crate::cni::{Entry, EntryMode, OnError, PipelineRef};
use crate::wasm::{Export, Module, ModuleError, Modules};

/// The pipeline that runs where nothing else is said.
const DEFAULT: [(&str, &[&str]); 4] = [
    ("result-conversion", &[]),
    ("empty-result", &[]),
    ("default-gateway", &["empty"]),
    ("network-status", &[]),
];

/// Why a pipeline cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The config names a pipeline that the node does not have.
    #[error("pipeline {0:?} is unknown; leave `pipeline` out for the default or write the entries in place")]
    Unknown(String),
    /// A module cannot be used.
    #[error("pipeline entry {position} ({stage}): {source}")]
    Module {
        /// Index of the entry.
        position: usize,
        /// The stage's name.
        stage: String,
        /// The cause.
        source: ModuleError,
    },
    /// A mode that this version does not have.
    #[error("pipeline entry {position} ({stage}): mode \"monitor\" is not supported yet; leave `mode` out")]
    Monitor {
        /// Index of the entry.
        position: usize,
        /// The stage's name.
        stage: String,
    },
}

/// One entry with its module.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The module's name.
    pub name: String,
    /// The module.
    pub module: Arc<Module>,
    /// JSON text of the entry's config.
    pub config: String,
    /// Tags that must all be there.
    pub when: Vec<String>,
    /// Tags of which none may be there.
    pub unless: Vec<String>,
    /// What a failure means.
    pub on_error: OnError,
}

/// The stages in order.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// In the order in which they run on add.
    pub stages: Vec<Stage>,
}

impl Pipeline {
    /// Loads the modules of a pipeline.
    pub fn select(reference: &PipelineRef, modules: &Modules) -> Result<Pipeline, SelectionError> {
        let default;
        let entries = match reference {
            PipelineRef::Named(name) if name != "default" => {
                return Err(SelectionError::Unknown(name.clone()));
            }
            PipelineRef::Default | PipelineRef::Named(_) => {
                default = default_entries();
                &default
            }
            PipelineRef::Inline(entries) => entries,
        };
        let load = |(position, entry): (usize, &Entry)| {
            let stage = entry.stage.clone();
            if entry.mode == EntryMode::Monitor {
                return Err(SelectionError::Monitor { position, stage });
            }
            let module = modules.get(&entry.stage).map_err(|source| SelectionError::Module {
                position,
                stage: stage.clone(),
                source,
            })?;
            Ok(Stage {
                name: stage,
                module,
                config: entry.config.as_ref().map_or_else(|| "{}".to_owned(), ToString::to_string),
                when: entry.when.clone(),
                unless: entry.unless.clone(),
                on_error: entry.on_error,
            })
        };
        let stages = entries.iter().enumerate().map(load).collect::<Result<_, _>>()?;
        Ok(Pipeline { stages })
    }

    /// The stages that have an export, in order.
    pub fn with(&self, export: Export) -> impl DoubleEndedIterator<Item = &Stage> {
        self.stages.iter().filter(move |stage| stage.module.has(export))
    }
}

fn default_entries() -> Vec<Entry> {
    DEFAULT
        .iter()
        .map(|(stage, unless)| Entry {
            stage: (*stage).to_owned(),
            config: None,
            when: Vec::new(),
            unless: unless.iter().map(|tag| (*tag).to_owned()).collect(),
            on_error: OnError::Fail,
            mode: EntryMode::Enforce,
        })
        .collect()
}

impl Stage {
    /// Whether the tags let this entry's `stage` export run.
    pub fn is_due(&self, tags: &[String]) -> bool {
        self.when.iter().all(|tag| tags.contains(tag)) && !self.unless.iter().any(|tag| tags.contains(tag))
    }
}
