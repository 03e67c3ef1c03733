//! Carries a pipeline out: arrange, admit, and the stages of one attachment.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use catena_cni::json;
use serde_json::Value;

use crate::inject;
use crate::node::{OnError, SecondaryDefaults};
use crate::pipeline::bench::{Bench, Traces};
use crate::pipeline::context::{ArrangeContext, Context};
use crate::pipeline::error::{Blame, PipelineError};
use crate::pipeline::intent::Intent;
use crate::pipeline::monitor;
use crate::pipeline::selection::{Pipeline, Stage};
use crate::report::record::StageRecord;
use crate::routes::kernel::Scope;
use crate::timeline;
use crate::wasm::{Call, Command, Document, Export, Host, Mode, Outcome, StageError, Usage, Verdict};

/// What every call of one invocation shares.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The CNI command.
    pub command: Command,
    /// Meta or chained.
    pub mode: Mode,
    /// CNI_CONTAINERID.
    pub container_id: String,
    /// When the call has to be over: each run of a stage is short, but configs decide how many there are.
    pub until: Instant,
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
    fn in_time(&self, blame: &Blame) -> Result<(), PipelineError> {
        if Instant::now() < self.until {
            return Ok(());
        }
        Err(PipelineError::Late { blame: Box::new(blame.clone()) })
    }

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
        undone: Vec::new(),
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

/// Keeps the record of a call with effect. Its answer; none of a failure that the pipeline's entry lets pass.
fn settled<T>(
    stage: &Stage,
    mut entry: StageRecord,
    result: Result<T, PipelineError>,
    records: &mut Vec<StageRecord>,
) -> Result<Option<T>, PipelineError> {
    let passed_over =
        result.as_ref().is_err_and(|error| stage.on_error == OnError::Skip && error.is_skippable());
    if passed_over {
        entry.outcome = "passed over";
    }
    records.push(entry);
    if passed_over { Ok(None) } else { result.map(Some) }
}

/// Asks each stage that has a config whether it is right, so that a bad one is found before any side effect. One that
/// has none is not asked: most pipelines cost nothing here.
fn judge_configs(
    pipeline: &Pipeline,
    caller: &Caller,
    records: &mut Vec<StageRecord>,
) -> Result<(), PipelineError> {
    let mut fitting = BTreeSet::new();
    for stage in pipeline.with(Export::Settings).filter(|stage| stage.config != "{}") {
        let key = (stage.module.digest(), stage.config.as_str());
        if fitting.contains(&key) {
            continue;
        }
        let blame = blame(stage, "settings", None);
        caller.in_time(&blame)?;
        let host =
            Host { until: Some(caller.until), ..Host::new(&caller.container_id, Scope::default(), true) };
        let (problems, host, usage) = stage.module.validate(&stage.config, host);
        let traces = Traces::of(host);
        let result = problems.and_then(|problems| match problems.is_empty() {
            true => Ok(()),
            false => Err(StageError::InvalidConfig(wrong(stage, &problems))),
        });
        let result = result.map_err(|source| failed(&blame, source, &traces));
        if result.is_ok() {
            fitting.insert(key);
        }
        if stage.is_monitored() {
            let would = result.as_ref().map(|()| Vec::new());
            records.push(monitored(&blame, &usage, &traces, would));
            continue;
        }
        let entry = record(&blame, &usage, &traces, result.as_ref().err());
        settled(stage, entry, result, records)?;
    }
    Ok(())
}

/// The problems of a config with their places, and what to do.
fn wrong(stage: &Stage, problems: &[(String, String)]) -> String {
    let texts: Vec<String> = problems.iter().map(|(place, text)| format!("config{place}: {text}")).collect();
    let name = &stage.name;
    format!(
        "{}; correct it in the pipeline's entry of stage {name}, or in modules.{name}.config of \
         /etc/catena/node.json",
        texts.join("; ")
    )
}

/// Judges the stages' configs, then asks every exporter of `arrange` in turn; each sees the intents of those before it.
/// What a stage of the baseline has decided, no later stage decides otherwise: it is asked again, and has the last word.
pub fn arrange(
    pipeline: &Pipeline,
    caller: &Caller,
    about: &About,
    subjects: &mut [&mut Subject],
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Result<(), PipelineError> {
    judge_configs(pipeline, caller, records)?;
    let stages =
        pipeline.with(Export::Arrange).filter(|stage| !has_nothing_to_arrange(stage, about, subjects));
    let stages: Vec<&Stage> = stages.collect();
    // The last stage outside of the baseline that has decided anything.
    let mut last = 0;
    for (place, stage) in stages.iter().enumerate() {
        if decide(stage, caller, about, subjects, bench, records)? && !stage.baseline {
            last = place;
        }
    }
    for stage in stages.iter().take(last).filter(|stage| stage.baseline && !stage.is_monitored()) {
        decide(stage, caller, about, subjects, bench, records)?;
    }
    Ok(())
}

/// Whether it is known of a stage that its `arrange` would leave everything as it is: nobody asks for anything, nor does
/// its config or the node.
fn has_nothing_to_arrange(stage: &Stage, about: &About, subjects: &[&mut Subject]) -> bool {
    let keeps = subjects.len() < 2 || about.context.secondary_defaults == SecondaryDefaults::Keep.as_str();
    let asks = |subject: &Subject| {
        ["defaultRoute", "defaultRouteNone"].iter().any(|key| subject.context.request.get(key).is_some())
    };
    let knows = stage.module.waits_to_be_asked() && stage.config == "{}" && !stage.is_monitored();
    knows && keeps && !subjects.iter().any(|subject| asks(subject))
}

/// Asks one stage; whether it has changed an intent.
fn decide(
    stage: &Stage,
    caller: &Caller,
    about: &About,
    subjects: &mut [&mut Subject],
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Result<bool, PipelineError> {
    let blame = blame(stage, "arrange", None);
    caller.in_time(&blame)?;
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
    let host = bench.host(&caller.container_id, caller.until, Scope::default(), true);
    let (result, host, usage) = stage.module.arrange(&call, &Value::from(list).to_string(), host);
    let traces = bench.take_back(host);
    inject::point("pipeline/arrange");
    let intents = judge(&blame, result, &traces, |_| &[]).and_then(|text| {
        Intent::read_all(&text, subjects.len())
            .map_err(|error| PipelineError::Outcome { blame: blame.clone(), what: error.to_string() })
    });
    if stage.is_monitored() {
        let would = intents.as_ref().map(|intents| monitor::arrangement(subjects, intents));
        records.push(monitored(&blame, &usage, &traces, would));
        for (subject, intent) in subjects.iter_mut().zip(intents.unwrap_or_default()) {
            subject.monitored.insert(stage.name.clone(), intent);
        }
        return Ok(false);
    }
    let entry = record(&blame, &usage, &traces, intents.as_ref().err());
    let mut changed = false;
    for (subject, intent) in
        subjects.iter_mut().zip(settled(stage, entry, intents, records)?.unwrap_or_default())
    {
        changed |= subject.context.intent != intent;
        subject.context.intent = intent;
    }
    Ok(changed)
}

/// Asks every exporter of `admit` about one attachment's config; what it has become, if that is another. What a stage
/// of the baseline has admitted, no later stage changes behind its back: it is asked again.
pub fn admit(
    pipeline: &Pipeline,
    caller: &Caller,
    subject: &Subject,
    shown: &str,
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Result<Option<String>, PipelineError> {
    let stages: Vec<&Stage> = pipeline.with(Export::Admit).collect();
    let mut config = Cow::Borrowed(shown);
    // The last stage outside of the baseline that has changed the config.
    let mut last = None;
    for (place, stage) in stages.iter().enumerate() {
        let Some(text) = ask(stage, caller, subject, &config, bench, records)? else { continue };
        if !stage.baseline && is_other(&config, &text) {
            last = Some((place, stage));
        }
        config = Cow::Owned(text);
    }
    let changed = |config: Cow<'_, str>| (config != shown).then(|| config.into_owned());
    let Some((place, last)) = last else { return Ok(changed(config)) };
    for stage in stages.iter().take(place).filter(|stage| stage.baseline && !stage.is_monitored()) {
        let Some(text) = ask(stage, caller, subject, &config, bench, records)? else { continue };
        if is_other(&config, &text) {
            let reason = format!(
                "stage {} changed the config after stage {} of the node's baseline had admitted it, and that one would \
                 change it again ({}); leave what it decides as it is",
                last.name,
                stage.name,
                monitor::rewrite(&config, &text).join("; ")
            );
            let blame = blame(stage, "admit", Some(subject));
            return Err(failed(&blame, StageError::Denied(reason), &Traces::default()));
        }
    }
    Ok(changed(config))
}

/// What one stage makes of a config; none if it leaves it as it is.
fn ask(
    stage: &Stage,
    caller: &Caller,
    subject: &Subject,
    config: &str,
    bench: &mut Bench,
    records: &mut Vec<StageRecord>,
) -> Result<Option<String>, PipelineError> {
    let blame = blame(stage, "admit", Some(subject));
    caller.in_time(&blame)?;
    let call = caller.call(stage, subject, &[]);
    let host = bench.host(&caller.container_id, caller.until, Scope::default(), true);
    let (result, host, usage) = stage.module.admit(&call, config, host);
    let traces = bench.take_back(host);
    inject::point("pipeline/admit");
    let result = judge(&blame, result, &traces, |_| &[]);
    if stage.is_monitored() {
        let would = result.as_ref().map(|verdict| match verdict {
            Verdict::Allow => Vec::new(),
            Verdict::Rewrite(text) => monitor::rewrite(config, text),
        });
        records.push(monitored(&blame, &usage, &traces, would));
        return Ok(None);
    }
    let entry = record(&blame, &usage, &traces, result.as_ref().err());
    Ok(match settled(stage, entry, result, records)? {
        Some(Verdict::Rewrite(text)) => Some(text),
        Some(Verdict::Allow) | None => None,
    })
}

/// Whether two texts are different documents.
fn is_other(before: &str, after: &str) -> bool {
    before != after && json::parse(before.as_bytes()) != json::parse(after.as_bytes())
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
        if !stage.is_due(work.tags(stage)) || stage.is_idle(caller.command, &subject.context.intent) {
            records.push(StageRecord {
                outcome: "skipped",
                ..record(&blame, &Usage::default(), &Traces::default(), None)
            });
            continue;
        }
        caller.in_time(&blame)?;
        let call = caller.call(stage, subject, work.tags(stage));
        if stage.is_monitored() {
            let host = bench.dry_host(&caller.container_id, caller.until, scope.clone());
            let (result, host, usage) = stage.module.run(&call, &work.document, host);
            let traces = bench.take_back(host);
            inject::point("pipeline/monitor");
            let outcome = judge(&blame, result, &traces, tolerated);
            let would =
                outcome.as_ref().map(|outcome| monitor::outcome(&work.document, outcome, &traces.changes));
            records.push(monitored(&blame, &usage, &traces, would));
            continue;
        }
        let mark = bench.journal.mark();
        let host = bench.host(&caller.container_id, caller.until, scope.clone(), false);
        let (result, host, usage) = stage.module.run(&call, &work.document, host);
        let mut traces = bench.take_back(host);
        inject::point("pipeline/stage");
        timeline::mark("a stage has run");
        traces.changes = bench.changes_since(mark);
        let result = judge(&blame, result, &traces, tolerated).map_err(|cause| {
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
        match &result {
            Ok(outcome) => {
                entry.tags.clone_from(&outcome.tags);
                entry.tolerated = traces.tolerated(&outcome.tolerated);
            }
            // Something of them is left.
            Err(PipelineError::Undo { .. }) => {}
            Err(_) => entry.undone = std::mem::take(&mut entry.routes),
        }
        if let Some(outcome) = settled(stage, entry, result, records)? {
            work.take(stage, outcome);
        }
    }
    Ok(())
}

fn failed(blame: &Blame, source: StageError, traces: &Traces) -> PipelineError {
    let ungranted = traces.ungranted(&[]);
    PipelineError::Stage { blame: Box::new(blame.clone()), source, calls: traces.calls(), ungranted }
}

/// A stage's answer counts only if none of its calls failed without a reason to accept it. `tolerated` finds these
/// reasons in the answer; only that of `stage` has any.
fn judge<T>(
    blame: &Blame,
    result: Result<T, StageError>,
    traces: &Traces,
    tolerated: fn(&T) -> &[(u32, String)],
) -> Result<T, PipelineError> {
    let answer = result.map_err(|source| failed(blame, source, traces))?;
    let tolerated = tolerated(&answer);
    let calls = traces.untolerated(tolerated);
    match calls.first() {
        None => Ok(answer),
        Some(first) => Err(PipelineError::Swallowed {
            blame: Box::new(blame.clone()),
            first: first.clone(),
            ungranted: traces.ungranted(tolerated),
            calls,
        }),
    }
}

fn tolerated(outcome: &Outcome) -> &[(u32, String)] {
    &outcome.tolerated
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
        // A monitored stage has made nothing that could be looked at, and a built-in one may have nothing to look at.
        let is_idle = stage.is_monitored() || stage.is_idle(caller.command, &subject.context.intent);
        if is_idle || !stage.is_due(work.tags(stage)) {
            continue;
        }
        let blame = blame(stage, "stage", Some(subject));
        if let Err(late) = caller.in_time(&blame) {
            failures.push(late);
            break;
        }
        let call = caller.call(stage, subject, work.tags(stage));
        let host = bench.host(&caller.container_id, caller.until, scope.clone(), true);
        let (result, host, usage) = stage.module.run(&call, &work.document, host);
        let traces = bench.take_back(host);
        inject::point("pipeline/look");
        let result = judge(&blame, result, &traces, tolerated);
        let entry = record(&blame, &usage, &traces, result.as_ref().err());
        failures.extend(settled(stage, entry, result, records).err());
    }
    failures
}
