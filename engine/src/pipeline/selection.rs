//! Which stages run, in which order: what stdin asks for, as far as the node lets it, within the node's baseline.

use std::sync::Arc;

use catena_cni::error::code;

use crate::cni::PipelineRef;
use crate::node::{
    At, Entry, EntryMode, ModuleName, ModuleRule, NodeConfig, OnError, Pipelines, Problem, Refused,
    StdinPipelines,
};
use crate::pipeline::intent::Intent;
use crate::wasm::{Command, Export, Module, ModuleError, Modules, preparer};

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
    #[error(
        "pipeline {name:?} is unknown; this node has {known}; leave `pipeline` out for the node's default, or write \
         the entries in place"
    )]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The node does not let stdin choose that.
    #[error(
        "pipeline = {asked}: this node allows {allowed}; the node's owner decides with stdinPipelines in /etc/catena/node.json"
    )]
    NotAllowed {
        /// What was asked for.
        asked: String,
        /// What may be.
        allowed: String,
    },
    /// Entries say what only the node may say.
    #[error(transparent)]
    Entries(#[from] Refused),
    /// Modules cannot be used; the first of them decides the code.
    #[error("{first}{}", .others.iter().map(|other| format!("; {other}")).collect::<String>())]
    Modules {
        /// The first entry's.
        first: Unusable,
        /// Those of further entries.
        others: Vec<Unusable>,
    },
}

/// Why the module of an entry cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place} ({stage}): {source}")]
pub struct Unusable {
    /// Where the entry stands.
    pub place: String,
    /// The stage's name.
    pub stage: String,
    /// The cause.
    pub source: Box<ModuleError>,
}

impl SelectionError {
    /// The CNI error code.
    pub fn code(&self) -> u32 {
        match self {
            Self::Unknown { .. } => code::INVALID_CONFIG,
            Self::NotAllowed { .. } | Self::Entries(_) => code::DENIED,
            Self::Modules { first, .. } => first.source.code(),
        }
    }
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
    /// Whether what it does takes effect.
    pub mode: EntryMode,
    /// Whether it is of the node's baseline: nothing of stdin reaches it, not even a tag.
    pub baseline: bool,
}

/// The stages in order.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// In the order in which they run on add.
    pub stages: Vec<Stage>,
    /// What in stdin's pipeline has no effect, for people.
    pub notes: Vec<String>,
}

/// An entry that was chosen, before its module is loaded.
#[derive(Debug, Clone, PartialEq)]
struct Chosen {
    place: String,
    entry: Entry,
    baseline: bool,
}

impl Pipeline {
    /// A pipeline as if the node had it, with the baseline around it: to be tried.
    pub fn of(entries: &[Entry], node: &NodeConfig, modules: &Modules) -> Result<Pipeline, SelectionError> {
        let chosen = around(chosen("pipeline", entries, false), node);
        Ok(Pipeline { stages: load(chosen.0, modules)?, notes: Vec::new() })
    }

    /// Chooses the entries and loads their modules.
    pub fn select(
        reference: &PipelineRef,
        node: &NodeConfig,
        modules: &Modules,
    ) -> Result<Pipeline, SelectionError> {
        let (chosen, notes) = choose(reference, node)?;
        Ok(Pipeline { stages: load(chosen, modules)?, notes })
    }

    /// Has the modules made ready for an ADD while the caller does something else, those first that are asked before any
    /// stage runs.
    pub fn prepare(&self) {
        for export in [Export::Arrange, Export::Admit, Export::Stage] {
            self.with(export).for_each(|stage| preparer::prepare(&stage.module));
        }
    }

    /// Makes the instances that the stages of an attachment need, while there is something to wait for.
    pub fn make_spares(&self, command: Command, intent: &Intent) {
        let stages = self.with(Export::Stage).filter(|stage| !stage.is_idle(command, intent));
        stages.for_each(|stage| stage.module.make_spare());
    }

    /// The stages that have an export, in order.
    pub fn with(&self, export: Export) -> impl DoubleEndedIterator<Item = &Stage> {
        self.stages.iter().filter(move |stage| stage.module.has(export))
    }
}

impl Stage {
    /// Whether the tags let this entry's `stage` export run.
    pub fn is_due(&self, tags: &[String]) -> bool {
        self.when.iter().all(|tag| tags.contains(tag)) && !self.unless.iter().any(|tag| tags.contains(tag))
    }

    /// Whether its `stage` is known to do nothing: on this command, or for an attachment for which this was arranged.
    pub fn is_idle(&self, command: Command, intent: &Intent) -> bool {
        let nothing = self.config == "{}" && *intent == Intent::default();
        let unasked = self.module.waits_to_be_asked() && nothing && !self.is_monitored();
        unasked || !self.module.acts_on(command)
    }

    /// Whether it runs without effect.
    pub fn is_monitored(&self) -> bool {
        self.mode == EntryMode::Monitor
    }
}

fn load(chosen: Vec<Chosen>, modules: &Modules) -> Result<Vec<Stage>, SelectionError> {
    let (mut stages, mut unusable) = (Vec::with_capacity(chosen.len()), Vec::new());
    for Chosen { place, entry, baseline } in chosen {
        let module = match modules.get(&entry.stage) {
            Ok(module) => module,
            Err(source) => {
                unusable.push(Unusable { place, stage: entry.stage, source: Box::new(source) });
                continue;
            }
        };
        stages.push(Stage {
            name: entry.stage,
            module,
            config: entry.config.map_or_else(|| "{}".to_owned(), |config| config.to_string()),
            when: entry.when,
            unless: entry.unless,
            on_error: entry.on_error,
            mode: entry.mode,
            baseline,
        });
    }
    let mut unusable = unusable.into_iter();
    match unusable.next() {
        None => Ok(stages),
        Some(first) => Err(SelectionError::Modules { first, others: unusable.collect() }),
    }
}

/// The entries that a config selects, with the baseline around them and the configs that the node gives them, as far as
/// it can be told without their modules; none where the selection is refused.
pub fn selected(reference: &PipelineRef, node: &NodeConfig) -> Vec<Entry> {
    let chosen = choose(reference, node).map_or_else(|_| Vec::new(), |(chosen, _)| chosen);
    chosen.into_iter().map(|chosen| chosen.entry).collect()
}

/// The entries in order, the baseline around what was selected. A stage of the baseline runs once, as the baseline
/// says: where the selected pipeline names it as well, that entry is left out.
fn choose(reference: &PipelineRef, node: &NodeConfig) -> Result<(Vec<Chosen>, Vec<String>), SelectionError> {
    let pipelines = &node.pipelines;
    let selected = match reference {
        PipelineRef::Inline(entries) => {
            if pipelines.stdin != StdinPipelines::Inline {
                return Err(not_allowed(pipelines, "[…]"));
            }
            check_stdin(entries, node)?;
            chosen("pipeline", entries, false)
        }
        PipelineRef::Default => named(pipelines, pipelines.default.as_deref().unwrap_or(Pipelines::DEFAULT))?,
        PipelineRef::Named(name) => {
            let allowed = match &pipelines.stdin {
                StdinPipelines::None => false,
                StdinPipelines::These(names) => names.contains(name),
                StdinPipelines::Named | StdinPipelines::Inline => true,
            };
            if !allowed {
                return Err(not_allowed(pipelines, &format!("{name:?}")));
            }
            named(pipelines, name)?
        }
    };
    let (all, doubled) = around(selected, node);
    let notes = match reference {
        PipelineRef::Inline(_) => doubled.iter().filter_map(without_effect).collect(),
        _ => Vec::new(),
    };
    Ok((all, notes))
}

/// The baseline around what was selected, and what of that is left out because the baseline has the stage.
fn around(selected: Vec<Chosen>, node: &NodeConfig) -> (Vec<Chosen>, Vec<Chosen>) {
    let baseline = &node.pipelines.baseline;
    let (doubled, selected): (Vec<_>, Vec<_>) =
        selected.into_iter().partition(|chosen| baseline.has(&chosen.entry.stage));
    let mut all = chosen("baseline.before", &baseline.before, true);
    all.extend(selected);
    all.extend(chosen("baseline.after", &baseline.after, true));
    for Chosen { entry, .. } in &mut all {
        if entry.config.is_none() {
            entry.config = rule(node, &entry.stage).and_then(|rule| rule.config.clone());
        }
    }
    (all, doubled)
}

fn rule<'a>(node: &'a NodeConfig, stage: &str) -> Option<&'a ModuleRule> {
    node.modules.get(&ModuleName::parse(stage)?)
}

fn chosen(at: &str, entries: &[Entry], baseline: bool) -> Vec<Chosen> {
    let chosen = |(index, entry): (usize, &Entry)| Chosen {
        place: format!("{at}[{index}]"),
        entry: entry.clone(),
        baseline,
    };
    entries.iter().enumerate().map(chosen).collect()
}

fn named(pipelines: &Pipelines, name: &str) -> Result<Vec<Chosen>, SelectionError> {
    match pipelines.named.get(name) {
        Some(entries) => Ok(chosen(&format!("pipelines.{name}"), entries, false)),
        None if name == Pipelines::DEFAULT => Ok(chosen("the built-in pipeline", &default_entries(), false)),
        None => Err(SelectionError::Unknown { name: name.to_owned(), known: pipelines.names() }),
    }
}

fn not_allowed(pipelines: &Pipelines, asked: &str) -> SelectionError {
    let allowed = match &pipelines.stdin {
        StdinPipelines::None => "none; leave `pipeline` out for the node's default".to_owned(),
        StdinPipelines::These(names) => format!("{}, or none for the node's default", names.join(", ")),
        StdinPipelines::Named | StdinPipelines::Inline => {
            format!("its own by name ({}), or none for the node's default", pipelines.names())
        }
    };
    SelectionError::NotAllowed { asked: asked.to_owned(), allowed }
}

/// What an entry from stdin may not say of a stage.
fn check_stdin(entries: &[Entry], node: &NodeConfig) -> Result<(), SelectionError> {
    let (mut problems, pipeline) = (Vec::new(), At::Document.member("pipeline"));
    for (index, entry) in entries.iter().enumerate() {
        let (stage, at) = (&entry.stage, pipeline.element(index));
        let rule = rule(node, stage);
        if entry.config.is_some() {
            let decided = if node.pipelines.baseline.has(stage) {
                Some("the stage is in the node's baseline".to_owned())
            } else {
                let locked = rule.is_some_and(|rule| rule.config.is_some());
                locked.then(|| format!("modules.{stage}.config in /etc/catena/node.json is locked"))
            };
            if let Some(why) = decided {
                let at = at.member("config");
                let text = format!(
                    "{at} of stage {stage}: {why}, so the node alone decides its config; leave config out"
                );
                problems.push(Problem::value(&at, text));
            }
        }
        if entry.on_error == OnError::Skip && rule.is_some_and(|rule| !rule.allow_skip) {
            let at = at.member("onError");
            let text = format!(
                "{at} of stage {stage}: modules.{stage}.allowSkip in /etc/catena/node.json is false, so its failure \
                 cannot be skipped; leave onError out"
            );
            problems.push(Problem::value(&at, text));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Refused(problems).into()) }
}

/// What an entry said that a stage of the baseline does not hear.
fn without_effect(doubled: &Chosen) -> Option<String> {
    let Chosen { place, entry, .. } = doubled;
    let bare = *entry == Entry::of(&entry.stage);
    (!bare).then(|| {
        format!(
            "{place}: stage {} is in the node's baseline and runs there, once; when, unless, onError and mode of \
             this entry have no effect",
            entry.stage
        )
    })
}

fn default_entries() -> Vec<Entry> {
    let entry = |(stage, unless): &(&str, &[&str])| Entry {
        unless: unless.iter().map(|tag| (*tag).to_owned()).collect(),
        ..Entry::of(stage)
    };
    DEFAULT.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    fn node(value: Value) -> NodeConfig {
        NodeConfig::parse(Path::new("node.json"), value.to_string().as_bytes()).unwrap()
    }

    fn inline(entries: Value) -> PipelineRef {
        PipelineRef::Inline(
            Entry::parse_all(&At::Document.member("pipeline"), entries.as_array().unwrap()).unwrap(),
        )
    }

    /// `place stage config` of each.
    fn places(reference: &PipelineRef, node: &NodeConfig) -> Vec<String> {
        let (all, _) = choose(reference, node).unwrap();
        let text = |chosen: Chosen| {
            let config = chosen.entry.config.map_or_else(String::new, |config| format!(" {config}"));
            format!("{} {}{config}", chosen.place, chosen.entry.stage)
        };
        all.into_iter().map(text).collect()
    }

    fn refusal(reference: &PipelineRef, node: &NodeConfig) -> (u32, String) {
        let error = choose(reference, node).unwrap_err();
        (error.code(), error.to_string())
    }

    fn by_name(name: &str) -> PipelineRef {
        PipelineRef::Named(name.to_owned())
    }

    #[test]
    fn the_baseline_stands_around_whatever_is_selected() {
        let node = node(json!({
            "pipelines": {"x": [{"stage": "a"}]},
            "baseline": {"before": [{"stage": "p", "config": {"k": 1}}], "after": [{"stage": "q", "unless": ["t"]}]}
        }));
        for reference in [
            PipelineRef::Default,
            by_name("x"),
            by_name("default"),
            inline(json!([])),
            inline(json!([{"stage": "a", "config": {"b": 1}, "onError": "skip"}])),
            inline(
                json!([{"stage": "p", "onError": "skip", "when": ["never"], "mode": "monitor"}, {"stage": "q"}]),
            ),
        ] {
            let (all, _) = choose(&reference, &node).unwrap();
            let (first, last) = (&all[0], &all[all.len() - 1]);
            assert!(first.baseline && last.baseline && all.iter().filter(|one| one.baseline).count() == 2);
            let expected = Entry { config: Some(json!({"k": 1})), ..Entry::of("p") };
            assert_eq!(first.entry, expected, "{reference:?}");
            assert_eq!(last.entry, Entry { unless: vec!["t".into()], ..Entry::of("q") }, "{reference:?}");
        }
    }

    #[test]
    fn a_stage_of_the_baseline_runs_once_as_the_node_says() {
        let node = node(json!({"baseline": {"before": [{"stage": "network-status"}, {"stage": "p"}]}}));
        let names = places(&PipelineRef::Default, &node);
        assert_eq!(names.iter().filter(|place| place.contains("network-status")).count(), 1, "{names:?}");
        let doubled = inline(json!([{"stage": "p", "onError": "skip"}, {"stage": "p"}, {"stage": "a"}]));
        let (all, notes) = choose(&doubled, &node).unwrap();
        assert_eq!(all.iter().filter(|one| one.entry.stage == "p").count(), 1);
        assert!(notes.len() == 1 && notes[0].contains("pipeline[0]"), "{notes:?}");
        let (code, text) = refusal(&inline(json!([{"stage": "p", "config": {}}])), &node);
        assert!(code == 105 && text.contains("pipeline[0].config") && text.contains("baseline"), "{text}");
    }

    #[test]
    fn what_stdin_may_choose() {
        let with = |stdin: Value| {
            node(json!({
                "pipelines": {"x": [{"stage": "a"}], "y": []}, "defaultPipeline": "y", "stdinPipelines": stdin
            }))
        };
        let written = inline(json!([{"stage": "a"}]));
        for (stdin, x, default, inlined) in [
            (json!("none"), false, false, false),
            (json!(["x"]), true, false, false),
            (json!("named"), true, true, false),
            (json!("inline"), true, true, true),
        ] {
            let node = with(stdin.clone());
            assert!(places(&PipelineRef::Default, &node).is_empty(), "y is the default");
            for (reference, allowed) in
                [(by_name("x"), x), (by_name("default"), default), (written.clone(), inlined)]
            {
                match choose(&reference, &node) {
                    Ok(_) => assert!(allowed, "{stdin} {reference:?}"),
                    Err(error) => {
                        assert!(!allowed, "{stdin} {reference:?}");
                        assert_eq!(error.code(), 105);
                        assert!(error.to_string().contains("stdinPipelines"), "{error}");
                    }
                }
            }
        }
        let (code, text) = refusal(&by_name("z"), &with(json!("inline")));
        assert!(code == 7 && text.contains("\"z\"") && text.contains("x, y, default"), "{text}");
    }

    #[test]
    fn the_default_has_a_name_that_the_node_may_take() {
        assert_eq!(places(&PipelineRef::Default, &node(json!({}))).len(), 4);
        assert_eq!(places(&by_name("default"), &node(json!({}))).len(), 4);
        let own = node(json!({"pipelines": {"default": [{"stage": "a"}]}}));
        assert_eq!(places(&PipelineRef::Default, &own), ["pipelines.default[0] a"]);
    }

    #[test]
    fn a_locked_config_is_the_nodes() {
        let node = node(json!({
            "modules": {"a": {"config": {"k": 1}, "allowSkip": false}}, "pipelines": {"x": [{"stage": "a"}]}
        }));
        assert_eq!(places(&by_name("x"), &node), ["pipelines.x[0] a {\"k\":1}"]);
        assert_eq!(places(&inline(json!([{"stage": "a"}])), &node), ["pipeline[0] a {\"k\":1}"]);
        let both = inline(
            json!([{"stage": "b", "onError": "skip"}, {"stage": "a", "config": {}, "onError": "skip"}]),
        );
        let (code, text) = refusal(&both, &node);
        assert_eq!(code, 105);
        for part in ["pipeline[1].config", "modules.a.config", "pipeline[1].onError", "modules.a.allowSkip"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("pipeline[0]"), "{text}");
    }
}
