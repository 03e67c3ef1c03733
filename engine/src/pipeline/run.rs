//! Carries a pipeline out: arrange, admit, and the stages of one attachment.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::inject;
use crate::node::OnError;
use crate::pipeline::bench::{Bench, Traces};
use crate::pipeline::context::{ArrangeContext, Context};
use crate::pipeline::error::{Blame, PipelineError};
use crate::pipeline::intent::Intent;
use crate::pipeline::monitor;
use crate::pipeline::selection::{Pipeline, Stage};
use crate::report::record::StageRecord;
use crate::routes::kernel::Scope;
use crate::wasm::{Call, Command, Document, Export, Mode, Outcome, StageError, Usage, Verdict};

/// What every call of one invocation shares.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The CNI command.
    pub command: Command,
    /// Meta or chained.
    pub mode: Mode,
    /// CNI_CONTAINERID.
    pub container_id: String,
}

/// One attachment, as its stages are told about it.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Its index.
    pub position: usize,
    /// Its network name.
    pub network: String,
    /// Its interface.
    pub ifname: String,
    /// The rest.
    pub context: Context,
    /// What monitored stages arranged, by their names: each goes on from its own decision.
    pub monitored: BTreeMap<String, Intent>,
}

/// What `arrange` is about.
#[derive(Debug, Clone)]
pub struct About {
    /// catena's own network name.
    pub network: String,
    /// CNI_IFNAME.
    pub ifname: String,
    /// The rest.
    pub context: ArrangeContext,
}

/// What goes through the stages of one attachment.
#[derive(Debug, Clone)]
pub struct Work {
    /// The result.
    pub document: Document,
    /// The tags that were set.
    pub tags: Vec<String>,
    /// Those of them that stages of the baseline set, which are all that the baseline knows.
    pub baseline_tags: Vec<String>,
    /// The publications, by key.
    pub publications: BTreeMap<String, String>,
}

impl Work {
    /// What the stages of an attachment begin with.
    pub fn new(document: Document) -> Work {
        Work { document, tags: Vec::new(), baseline_tags: Vec::new(), publications: BTreeMap::new() }
    }

    /// The tags that count for a stage.
    fn tags(&self, stage: &Stage) -> &[String] {
        if stage.baseline { &self.baseline_tags } else { &self.tags }
    }

    fn take(&mut self, stage: &Stage, outcome: Outcome) {
        if let Some(document) = outcome.result {
            self.document = document;
        }
        for tag in outcome.tags {
            if stage.baseline && !self.baseline_tags.contains(&tag) {
                self.baseline_tags.push(tag.clone());
            }
            if !self.tags.contains(&tag) {
                self.tags.push(tag);
            }
        }
        self.publications.extend(outcome.publications);
    }
}

impl Caller {
    fn call(&self, stage: &Stage, subject: &Subject, tags: &[String]) -> Call {
        Call {
            command: self.command,
            mode: self.mode,
            container_id: self.container_id.clone(),
            network: subject.network.clone(),
            ifname: subject.ifname.clone(),
            position: u32::try_from(subject.position).unwrap_or(u32::MAX),
            config: stage.config.clone(),
            context: match subject.monitored.get(&stage.name).filter(|_| stage.is_monitored()) {
                Some(intent) => Context { intent: intent.clone(), ..subject.context.clone() }
                    .text(tags, stage.module.grants()),
                None => subject.context.text(tags, stage.module.grants()),
            },
        }
    }
}

fn blame(stage: &Stage, export: &'static str, subject: Option<&Subject>) -> Box<Blame> {
    Box::new(Blame {
        stage: stage.name.clone(),
        digest: stage.module.digest().to_owned(),
        export,
        attachment: subject.map(|subject| (subject.network.clone(), subject.ifname.clone())),
    })
}

fn record(blame: &Blame, usage: &Usage, traces: &Traces, error: Option<&PipelineError>) -> StageRecord {
    StageRecord {
        stage: blame.stage.clone(),
        digest: blame.digest.clone(),
        export: blame.export,
        duration: usage.duration,
        fuel: usage.fuel,
        memory: usage.memory,
        outcome: if error.is_some() { "failed" } else { "ok" },
        error: error.map(ToString::to_string),
        routes: traces.changes.clone(),
        tags: Vec::new(),
        log: traces.log.clone(),
        tolerated: Vec::new(),
        would: Vec::new(),
    }
}

/// The record of a call without effect, and what it would have done.
fn monitored(
    blame: &Blame,
    usage: &Usage,
    traces: &Traces,
    would: Result<Vec<String>, &PipelineError>,
) -> StageRecord {
    let error = would.as_ref().err().copied();
    let base = record(blame, usage, &Traces::default(), error);
    let would = would.unwrap_or_else(monitor::error);
    StageRecord { outcome: "monitored", log: traces.log.clone(), would, ..base }
}

/// Asks every exporter of `arrange` in turn; each sees the intents of those before it.
pub fn arrange(
    pipeline: &Pipeline,
    caller: &Caller,
    about: &About,
    subjects: &mut [Subject],
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Result<(), PipelineError> {
    for stage in pipeline.with(Export::Arrange) {
        let blame = blame(stage, "arrange", None);
        let call = Call {
            command: caller.command,
            mode: caller.mode,
            container_id: caller.container_id.clone(),
            network: about.network.clone(),
            ifname: about.ifname.clone(),
            position: 0,
            config: stage.config.clone(),
            context: about.context.text(stage.module.grants()),
        };
        let list: Vec<Value> = subjects
            .iter()
            .map(|subject| subject.context.arrange_value(subject.position, &subject.network, &subject.ifname))
            .collect();
        let host = bench.host(&caller.container_id, Scope::default(), true);
        let (result, host, usage) = stage.module.arrange(&call, &Value::from(list).to_string(), host);
        let traces = bench.take_back(host);
        inject::point("pipeline/arrange");
        let intents = result.map_err(|source| failed(&blame, source, &traces)).and_then(|text| {
            Intent::read_all(&text, subjects.len())
                .map_err(|error| PipelineError::Outcome { blame: blame.clone(), what: error.to_string() })
        });
        if stage.is_monitored() {
            let would = intents.as_ref().map(|intents| monitor::arrangement(subjects, intents));
            records.push(monitored(&blame, &usage, &traces, would));
            for (subject, intent) in subjects.iter_mut().zip(intents.unwrap_or_default()) {
                subject.monitored.insert(stage.name.clone(), intent);
            }
            continue;
        }
        records.push(record(&blame, &usage, &traces, intents.as_ref().err()));
        for (subject, intent) in subjects.iter_mut().zip(intents?) {
            subject.context.intent = intent;
        }
    }
    Ok(())
}

/// Asks every exporter of `admit` about one attachment's config; returns the config as it shall be sent.
pub fn admit(
    pipeline: &Pipeline,
    caller: &Caller,
    subject: &Subject,
    mut config: String,
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Result<String, PipelineError> {
    for stage in pipeline.with(Export::Admit) {
        let blame = blame(stage, "admit", Some(subject));
        let call = caller.call(stage, subject, &[]);
        let host = bench.host(&caller.container_id, Scope::default(), true);
        let (result, host, usage) = stage.module.admit(&call, &config, host);
        let traces = bench.take_back(host);
        inject::point("pipeline/admit");
        let result = result.map_err(|source| failed(&blame, source, &traces));
        if stage.is_monitored() {
            let would = result.as_ref().map(|verdict| match verdict {
                Verdict::Allow => Vec::new(),
                Verdict::Rewrite(text) => monitor::rewrite(&config, text),
            });
            records.push(monitored(&blame, &usage, &traces, would));
            continue;
        }
        records.push(record(&blame, &usage, &traces, result.as_ref().err()));
        if let Verdict::Rewrite(text) = result? {
            config = text;
        }
    }
    Ok(config)
}

/// Runs the stages of one attachment on add. Whatever a failing stage did to routes is undone here; what
/// the stages before it did stays in the bench's journal for the caller to undo.
pub fn add(
    pipeline: &Pipeline,
    caller: &Caller,
    subject: &Subject,
    scope: &Scope,
    work: &mut Work,
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Result<(), PipelineError> {
    for stage in pipeline.with(Export::Stage) {
        let blame = blame(stage, "stage", Some(subject));
        if !stage.is_due(work.tags(stage)) {
            records.push(StageRecord {
                outcome: "skipped",
                ..record(&blame, &Usage::default(), &Traces::default(), None)
            });
            continue;
        }
        let call = caller.call(stage, subject, work.tags(stage));
        if stage.is_monitored() {
            let host = bench.dry_host(&caller.container_id, scope.clone());
            let (result, host, usage) = stage.module.run(&call, &work.document, host);
            let traces = bench.take_back(host);
            inject::point("pipeline/monitor");
            let outcome = judge(&blame, result, &traces);
            let would =
                outcome.as_ref().map(|outcome| monitor::outcome(&work.document, outcome, &traces.changes));
            records.push(monitored(&blame, &usage, &traces, would));
            continue;
        }
        let mark = bench.journal.mark();
        let host = bench.host(&caller.container_id, scope.clone(), false);
        let (result, host, usage) = stage.module.run(&call, &work.document, host);
        let mut traces = bench.take_back(host);
        inject::point("pipeline/stage");
        traces.changes = bench.changes_since(mark);
        let result = judge(&blame, result, &traces).map_err(|cause| {
            let undo = bench.undo(mark);
            if undo.exact && traces.undone_exactly() {
                return cause.undone(&traces.changes);
            }
            let mut leftover = traces.leftover();
            leftover.extend(undo.leftover);
            leftover.extend(undo.errors.iter().map(ToString::to_string));
            PipelineError::Undo { blame: blame.clone(), leftover, cause: Box::new(cause) }
        });
        let mut entry = record(&blame, &usage, &traces, result.as_ref().err());
        match result {
            Ok(outcome) => {
                entry.tags.clone_from(&outcome.tags);
                entry.tolerated = traces.tolerated(&outcome.tolerated);
                work.take(stage, outcome);
                records.push(entry);
            }
            Err(error) if stage.on_error == OnError::Skip && error.is_skippable() => {
                entry.outcome = "passed over";
                records.push(entry);
            }
            Err(error) => {
                records.push(entry);
                return Err(error);
            }
        }
    }
    Ok(())
}

fn failed(blame: &Blame, source: StageError, traces: &Traces) -> PipelineError {
    let ungranted = traces.ungranted(&[]);
    PipelineError::Stage { blame: Box::new(blame.clone()), source, calls: traces.calls(), ungranted }
}

/// A stage's answer counts only if none of its calls failed without a reason to accept it.
fn judge(
    blame: &Blame,
    result: Result<Outcome, StageError>,
    traces: &Traces,
) -> Result<Outcome, PipelineError> {
    let outcome = result.map_err(|source| failed(blame, source, traces))?;
    let calls = traces.untolerated(&outcome.tolerated);
    match calls.first() {
        None => Ok(outcome),
        Some(first) => Err(PipelineError::Swallowed {
            blame: Box::new(blame.clone()),
            first: first.clone(),
            calls,
            ungranted: traces.ungranted(&outcome.tolerated),
        }),
    }
}

/// Runs the stages of one attachment on check, in order, or on del, in reverse. They may only look; all
/// failures are returned, since on del they are advisory and on check the first one counts.
pub fn look(
    pipeline: &Pipeline,
    caller: &Caller,
    subject: &Subject,
    scope: &Scope,
    work: &Work,
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Vec<PipelineError> {
    let stages: Vec<&Stage> = match caller.command {
        Command::Del => pipeline.with(Export::Stage).rev().collect(),
        _ => pipeline.with(Export::Stage).collect(),
    };
    let mut failures = Vec::new();
    for stage in stages {
        // A monitored stage has made nothing that could be looked at.
        if stage.is_monitored() || !stage.is_due(work.tags(stage)) {
            continue;
        }
        let blame = blame(stage, "stage", Some(subject));
        let call = caller.call(stage, subject, work.tags(stage));
        let host = bench.host(&caller.container_id, scope.clone(), true);
        let (result, host, usage) = stage.module.run(&call, &work.document, host);
        let traces = bench.take_back(host);
        inject::point("pipeline/look");
        let result = judge(&blame, result, &traces);
        let mut entry = record(&blame, &usage, &traces, result.as_ref().err());
        if let Err(error) = result {
            if stage.on_error == OnError::Skip && error.is_skippable() {
                entry.outcome = "passed over";
            } else {
                failures.push(error);
            }
        }
        records.push(entry);
    }
    failures
}
