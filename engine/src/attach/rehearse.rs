//! ADD without side effects: the pipeline decides and works as in a pod's ADD, but what the delegates answer is
//! given, and the routes are those of a table that was recorded or made up.

use std::sync::Arc;
use std::time::Instant;

use catena_cni::error::code;
use catena_routes::{Link, SimulatedTable};
use serde_json::Value;

use crate::attach::add::{claim, mode_of, own_links, refuse_rivals, rewrite, verify};
use crate::attach::attachment::Attachment;
use crate::attach::document::{self, Delegated};
use crate::cni::{CniError, Conf, Role, Target};
use crate::node::{NodeConfig, Root};
use crate::pipeline::bench::Bench;
use crate::pipeline::context::{ArrangeContext, annotations, without_annotations};
use crate::pipeline::run::{self, About, Caller, Work};
use crate::pipeline::selection::Pipeline;
use crate::report::record::{AttachmentRecord, Record};
use crate::routes::backend::Backend;
use crate::routes::kernel::Scope;
use crate::wasm::{Command, Document};

/// What an ADD finds.
#[derive(Debug, Clone)]
pub struct Given {
    /// The request.
    pub conf: Conf,
    /// CNI_CONTAINERID and CNI_IFNAME.
    pub target: Target,
    /// CNI_ARGS.
    pub args: String,
    /// CNI_NETNS, as results name it.
    pub sandbox: String,
    /// Links and routes of the sandbox, as they are when all delegates have run.
    pub table: SimulatedTable,
    /// What the delegates of each attachment answer, in order; where there is none, a result with nothing in it.
    pub results: Vec<Value>,
}

/// What became of one attachment.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    /// Its network name.
    pub network: String,
    /// Its interface.
    pub ifname: String,
    /// Its config as it came, and as it would be sent; none in chained mode.
    pub config: Option<(Value, Value)>,
    /// The result of the delegates.
    pub before: Document,
    /// What the stages made of it; none where it did not get that far.
    pub work: Option<Work>,
}

/// What became of an ADD.
#[derive(Debug)]
pub struct Rehearsal {
    /// The calls of the stages.
    pub record: Record,
    /// The attachments in order.
    pub attachments: Vec<Rehearsed>,
    /// What would be answered: a result, or why the ADD fails.
    pub answer: Result<Value, CniError>,
    /// The route changes in order, as a person reads them; none where the ADD fails.
    pub changes: Vec<String>,
    /// The links of the sandbox.
    pub links: Vec<Link>,
}

/// Carries it out.
pub fn rehearse(given: &Given, pipeline: &Pipeline, node: &NodeConfig) -> Result<Rehearsal, CniError> {
    // Nothing is read from there: no delegate runs that could have written it.
    let devices = Root::from_value(None).device_info();
    let attachments = Attachment::plan(&given.conf, &given.args, &given.target, &given.sandbox, &devices)?;
    let mut bench = Bench::new(Backend::Recorded(Box::new(given.table.clone())));
    let links = bench.links().map_err(|error| CniError::new(code::IO, error.to_string()))?;
    let mut stage = Stage {
        given,
        pipeline,
        caller: Caller {
            command: Command::Add,
            mode: mode_of(&given.conf),
            container_id: given.target.container_id.as_str().to_owned(),
            until: Instant::now() + node.deadlines.call,
        },
        bench,
        links,
        record: record(given, &attachments),
        rehearsed: attachments
            .iter()
            .zip(0..)
            .map(|(attachment, position)| rehearsed(given, attachment, position))
            .collect(),
        attachments,
    };
    let start = stage.bench.journal.mark();
    let answer = stage.decide(node).and_then(|()| stage.attach_all());
    let changes = if answer.is_ok() { stage.bench.changes_since(start) } else { Vec::new() };
    Ok(Rehearsal { record: stage.record, attachments: stage.rehearsed, answer, changes, links: stage.links })
}

struct Stage<'a> {
    given: &'a Given,
    pipeline: &'a Pipeline,
    caller: Caller,
    bench: Bench,
    links: Vec<Link>,
    record: Record,
    attachments: Vec<Attachment>,
    rehearsed: Vec<Rehearsed>,
}

fn record(given: &Given, attachments: &[Attachment]) -> Record {
    Record {
        command: "ADD",
        network: given.conf.name.as_str().to_owned(),
        container_id: given.target.container_id.as_str().to_owned(),
        ifname: given.target.ifname.as_str().to_owned(),
        mode: if matches!(given.conf.role, Role::Chained) { "chained" } else { "meta" },
        attachments: attachments.iter().map(|attachment| AttachmentRecord::of(&attachment.subject)).collect(),
        ..Record::default()
    }
}

fn rehearsed(given: &Given, attachment: &Attachment, position: usize) -> Rehearsed {
    let result = match &attachment.chain {
        Some(_) => given.results.get(position),
        None => given.conf.prev_result.as_ref(),
    };
    let nothing = Value::from_iter([("cniVersion", "1.1.0")]);
    let config = attachment.chain.as_ref().map(|chain| chain.list.to_value());
    Rehearsed {
        network: attachment.subject.network.clone(),
        ifname: attachment.subject.ifname.clone(),
        config: config.map(|config| (config.clone(), config.clone())),
        before: Delegated::of(result.unwrap_or(&nothing), &given.sandbox).document,
        work: None,
    }
}

impl Stage<'_> {
    /// See [`crate::attach::add`]: arrange for all, then admit for each.
    fn decide(&mut self, node: &NodeConfig) -> Result<(), CniError> {
        let about = About {
            network: self.record.network.clone(),
            ifname: self.record.ifname.clone(),
            context: ArrangeContext {
                sandbox: self.given.sandbox.clone(),
                args: self.given.args.clone(),
                secondary_defaults: node.secondary_defaults.as_str().to_owned(),
                annotations: Arc::new(annotations(&self.given.conf.runtime_config)),
            },
        };
        let mut subjects: Vec<_> = self.attachments.iter_mut().map(|one| &mut one.subject).collect();
        let records = &mut self.record.arrange;
        run::arrange(self.pipeline, &self.caller, &about, &mut subjects, &mut self.bench, records)?;
        let each = self.attachments.iter_mut().zip(&mut self.record.attachments).zip(&mut self.rehearsed);
        for ((attachment, record), rehearsed) in each {
            record.intent = attachment.subject.context.intent.to_value();
            let config = match &rehearsed.config {
                Some((config, _)) => config.to_string(),
                None => Value::Object(without_annotations(&self.given.conf.raw)).to_string(),
            };
            let (bench, stages) = (&mut self.bench, &mut record.stages);
            let rewritten =
                run::admit(self.pipeline, &self.caller, &attachment.subject, &config, bench, stages)?;
            let Some(rewritten) = rewritten else { continue };
            rewrite(attachment, &rewritten)?;
            if let (Some(chain), Some((_, sent))) = (&attachment.chain, &mut rehearsed.config) {
                *sent = chain.list.to_value().clone();
            }
        }
        refuse_rivals(&self.given.conf, &self.attachments, node)
    }

    fn attach_all(&mut self) -> Result<Value, CniError> {
        let mut links = Vec::new();
        for position in 0..self.attachments.len() {
            links.push(self.attach(position)?);
        }
        let claims: Vec<_> =
            self.attachments.iter().zip(links).map(|(attachment, links)| claim(attachment, &links)).collect();
        verify(&mut self.bench, &claims, &mut self.record.notes)?;
        let primary = self.rehearsed.first().and_then(|first| first.work.as_ref());
        let primary = primary.ok_or_else(|| CniError::new(code::INVALID_CONFIG, "there is no attachment"))?;
        document::answer(&primary.document, self.given.conf.cni_version)
    }

    /// Runs the stages on one attachment; its links are the answer.
    fn attach(&mut self, position: usize) -> Result<Vec<u32>, CniError> {
        let at = |what: &str| CniError::new(code::INTERNAL, format!("{what} {position} is not there"));
        let attachment = self.attachments.get_mut(position).ok_or_else(|| at("attachment"))?;
        let rehearsed = self.rehearsed.get_mut(position).ok_or_else(|| at("attachment"))?;
        let record = self.record.attachments.get_mut(position).ok_or_else(|| at("record"))?;
        attachment.subject.context.delegate_version = document::version(&rehearsed.before);
        let claimed = document::sandbox_interfaces(&rehearsed.before, &self.given.sandbox);
        let links = own_links(&rehearsed.ifname, &claimed, &[], &self.links);
        let scope = Scope { links: links.clone(), tables: Vec::new() };
        let mut work = Work::new(rehearsed.before.clone());
        let (subject, bench) = (&attachment.subject, &mut self.bench);
        let done =
            run::add(self.pipeline, &self.caller, subject, &scope, &mut work, bench, &mut record.stages);
        rehearsed.work = Some(work);
        done?;
        Ok(links)
    }
}
