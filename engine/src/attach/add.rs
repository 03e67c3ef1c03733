//! ADD: decides, attaches, runs the pipeline on each result, checks that every request was carried out;
//! and puts everything back when anything fails.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use catena_cni::error::code;
use catena_cni::list::NetworkList;
use catena_routes::Family;
use serde_json::Value;

use crate::attach::along::{Along, Done, Results, Started, spawned_event};
use crate::attach::attachment::Attachment;
use crate::attach::del;
use crate::attach::delete::{self, Deletion};
use crate::attach::document::{self, Delegated};
use crate::attach::entry::{Event, Intended, PipelineEntry, SCHEMA};
use crate::attach::key::Key;
use crate::attach::ledger::{Found, Slot};
use crate::attach::recorder::Recorder;
use crate::attach::sandbox;
use crate::attach::session::{Session, boot_id, now};
use crate::cni::{CniError, Conf, Role, Target};
use crate::delegate::{Chain, DelegateError, DeviceInfoError, DeviceInfoFile, Escort, Exec, Fault, Spawned};
use crate::node::NodeConfig;
use crate::pipeline::bench::Bench;
use crate::pipeline::context::{ArrangeContext, without_annotations};
use crate::pipeline::error::PipelineError;
use crate::pipeline::ownership::{self, Claim};
use crate::pipeline::run::{self, About, Caller, Work};
use crate::pipeline::selection::{Pipeline, SelectionError};
use crate::report::record::{AttachmentRecord, StageRecord};
use crate::report::status::NETWORK_STATUS;
use crate::routes::error::{ErrorKind, RouteError};
use crate::routes::journal::Journal;
use crate::routes::kernel::Scope;
use crate::routes::link::Link;
use crate::routes::netns::Netns;
use crate::wasm::{Command, Mode, Modules};
use crate::{inject, panic, timeline};

/// The routing table that requests are about.
const MAIN: u32 = 254;

impl From<PipelineError> for CniError {
    fn from(error: PipelineError) -> CniError {
        let mut converted = CniError::new(error.code(), error.message());
        for detail in error.details() {
            converted = converted.detail(detail);
        }
        converted
    }
}

impl From<SelectionError> for CniError {
    fn from(error: SelectionError) -> CniError {
        CniError::new(error.code(), error.to_string())
    }
}

/// Carries out ADD; the answer is a result's text in the version that was asked for.
pub fn add(
    session: &mut Session<'_>,
    conf: &Conf,
    target: &Target,
    netns_path: &str,
) -> Result<String, CniError> {
    // Who asks in a wrong way learns of all that is wrong at once.
    let mut problems = mem::take(&mut session.problems);
    let netns = problems.take(sandbox::open(netns_path, session.invocation.own_netns_allowed));
    let modules = problems.take(session.modules());
    let pipeline = modules.as_ref().and_then(|modules| {
        let selected = Pipeline::select(&conf.pipeline, session.node, modules);
        problems.take(selected.map_err(CniError::from))
    });
    // Meanwhile there is more to read, to lock and to ask the kernel.
    if let Some(pipeline) = &pipeline {
        pipeline.prepare();
        session.record.notes.extend(pipeline.notes.iter().cloned());
    }
    let cache_dir = problems.take(session.cache_dir(conf));
    let bin_dir = problems.take(session.bin_dir(conf));
    let devices = session.root.device_info();
    let attachments =
        problems.take(Attachment::plan(conf, &session.invocation.args, target, netns_path, &devices));
    let all = netns.zip(modules).zip(pipeline).zip(cache_dir).zip(bin_dir).zip(attachments);
    let (((((netns, modules), pipeline), cache_dir), bin_dir), attachments) = problems.or(all)?;
    timeline::mark("namespace, modules and pipeline are found");
    let mode = mode_of(conf);
    let key = Key {
        network: conf.name.clone(),
        container_id: target.container_id.clone(),
        ifname: target.ifname.clone(),
        mode,
    };
    let mut slot = session.ledger.lock(&key, session.until)?;
    clear(session, &modules, conf, &key, &mut slot, &netns, netns_path)?;
    let children = match session.children(&mut slot) {
        Ok(children) => children,
        Err(error) => return Err(unused(slot, error)),
    };
    timeline::mark("the locks are taken");

    let caller = Caller {
        command: Command::Add,
        mode,
        container_id: target.container_id.as_str().to_owned(),
        until: session.until,
    };
    session.record.attachments =
        attachments.iter().map(|attachment| AttachmentRecord::of(&attachment.subject)).collect();
    let recorder = Recorder::start(session.node, conf, &pipeline);
    let (until, undo_time) = (session.until, session.route_undo_time());
    let mut adding = Adding {
        recorder,
        children,
        session: &mut *session,
        conf,
        key,
        caller,
        pipeline,
        bench: Bench::of(Some(&netns), until, undo_time),
        slot,
        attachments,
        netns,
        netns_path: netns_path.to_owned(),
        bin_dir,
        begun: false,
        ran: Vec::new(),
        results: Results::new(cache_dir),
    };
    adding.ran.resize_with(adding.attachments.len(), Ran::default);
    let outcome = panic::caught(|| adding.carry_out()).unwrap_or_else(Err);
    let recording = adding.recorder.take().map(|recorder| (recorder, adding.intended()));
    let outcome = outcome.map_err(|error| adding.roll_back(error));
    if let Some((recorder, intended)) = recording {
        // That it cannot be kept stops nothing.
        let kept = recorder.finish(intended, outcome.as_ref().err(), session.root, session.node);
        session.record.notes.extend(kept.err().map(|problem| format!("recording: {problem}")));
    }
    outcome
}

/// Nothing has been done yet, so nothing is left in the ledger.
pub fn unused(slot: Slot, error: CniError) -> CniError {
    match slot.release() {
        Ok(()) => error,
        Err(leftover) if error.msg.contains(&leftover.to_string()) => error,
        Err(leftover) => error.detail(leftover.to_string()),
    }
}

/// How catena was called.
pub fn mode_of(conf: &Conf) -> Mode {
    match conf.role {
        Role::Meta(_) => Mode::Meta,
        Role::Chained => Mode::Chained,
    }
}

/// Makes sure that nothing of an earlier ADD of this key is there: a live attachment is left alone, and that
/// is an error; anything else is cleaned as DEL would.
fn clear(
    session: &mut Session<'_>,
    modules: &Modules,
    conf: &Conf,
    key: &Key,
    slot: &mut Slot,
    netns: &Arc<Netns>,
    netns_path: &str,
) -> Result<(), CniError> {
    let deletion = match slot.read()? {
        Found::Nothing => return Ok(()),
        Found::Entry(entry) => {
            if entry.is_finished() && entry.is_in(netns) {
                return Err(CniError::new(
                    code::INVALID_ENVIRONMENT,
                    format!(
                        "CNI_CONTAINERID, CNI_IFNAME: {key} is already attached, and was left as it is; \
                         DEL it before the next ADD"
                    ),
                ));
            }
            Deletion {
                netns: Some(netns_path.to_owned()),
                open: Some(Arc::clone(netns)),
                entry: *entry,
                recorded: true,
            }
        }
        Found::Damaged(error) => {
            session.record.notes.push(format!("ledger: the entry of {key}: {error}; using stdin"));
            del::from_config(session, key, conf, Some(netns_path.to_owned()), Some(Arc::clone(netns)))?
        }
    };
    let errors = delete::delete(session, slot, &deletion, Some(modules));
    match CniError::first_of(errors) {
        Some(error) => {
            let error = CniError {
                msg: format!("what is left of an earlier ADD of {key} could not be removed: {}", error.msg),
                ..error
            };
            let steps = if deletion.recorded { del::record_failure(slot, &error) } else { Vec::new() };
            let problems = steps.into_iter().filter_map(Result::err);
            Err(problems.fold(error, |error, problem| error.detail(problem.to_string())))
        }
        None => {
            delete::forget_files(session, &deletion)?;
            Ok(slot.discard()?)
        }
    }
}

struct Adding<'a, 's> {
    session: &'a mut Session<'s>,
    conf: &'a Conf,
    key: Key,
    caller: Caller,
    pipeline: Pipeline,
    bench: Bench,
    slot: Slot,
    attachments: Vec<Attachment>,
    netns: Arc<Netns>,
    netns_path: String,
    bin_dir: Option<PathBuf>,
    children: OwnedFd,
    /// Whether the ledger has the entry.
    begun: bool,
    /// By attachment.
    ran: Vec<Ran>,
    results: Results,
    /// What it shows the pipeline, where the node wants to keep it.
    recorder: Option<Recorder>,
}

/// What an attachment's delegates may have left.
#[derive(Debug, Default)]
struct Ran {
    /// Whether any was started.
    started: bool,
    /// A plugin that was missing, so that it cannot have left anything.
    missing: Option<String>,
    /// What they answered, for their DEL where the pipeline came to no result.
    result: Option<Value>,
}

/// How an attachment's delegates ended.
struct Ended {
    duration: Duration,
    result: Result<Value, DelegateError>,
}

/// More names than delegates make links: all links are read once then, since a result may name any number.
const MANY_NAMES: usize = 32;

/// Stack of a thread that runs the delegates of one attachment.
const DELEGATE_STACK: usize = 512 << 10;

impl Adding<'_, '_> {
    fn carry_out(&mut self) -> Result<String, CniError> {
        // Here there still is something to wait for: the modules.
        let mut before = self.links()?;
        self.decide()?;
        if self.session.record.asked_any_stage() {
            // That may have taken long.
            before = self.links()?;
        }
        timeline::mark("the links are read, stages have decided");
        let answer = self.attach_all(before)?;
        inject::point("attach/finish");
        self.conclude()?;
        Ok(answer)
    }

    /// What happens before any side effect: arrange and admit.
    fn decide(&mut self) -> Result<(), CniError> {
        inject::point("attach/decide");
        let about = About {
            network: self.conf.name.as_str().to_owned(),
            ifname: self.key.ifname.as_str().to_owned(),
            context: ArrangeContext {
                sandbox: self.netns_path.clone(),
                args: self.session.invocation.args.clone(),
                secondary_defaults: self.session.node.secondary_defaults.as_str().to_owned(),
                annotations: self
                    .attachments
                    .first()
                    .map(|attachment| Arc::clone(&attachment.subject.context.annotations))
                    .unwrap_or_default(),
            },
        };
        let mut subjects: Vec<_> =
            self.attachments.iter_mut().map(|attachment| &mut attachment.subject).collect();
        let records = &mut self.session.record.arrange;
        run::arrange(&self.pipeline, &self.caller, &about, &mut subjects, &mut self.bench, records)?;
        for (attachment, record) in self.attachments.iter_mut().zip(&mut self.session.record.attachments) {
            record.intent = attachment.subject.context.intent.to_value();
            let config = match &attachment.chain {
                Some(chain) => Cow::Borrowed(chain.text()),
                None => Cow::Owned(Value::Object(without_annotations(&self.conf.raw)).to_string()),
            };
            if let Some(recorder) = &mut self.recorder {
                recorder.attachment(&config);
            }
            let rewritten = run::admit(
                &self.pipeline,
                &self.caller,
                &attachment.subject,
                &config,
                &mut self.bench,
                &mut record.stages,
            )?;
            if let Some(rewritten) = rewritten {
                rewrite(attachment, &rewritten)?;
            }
        }
        refuse_rivals(self.conf, &self.attachments, self.session.node)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.admitted();
        }
        Ok(())
    }

    fn intended(&self) -> Intended {
        Intended {
            schema: SCHEMA,
            network: self.key.network.as_str().to_owned(),
            container_id: self.key.container_id.as_str().to_owned(),
            ifname: self.key.ifname.as_str().to_owned(),
            mode: self.key.mode_word().to_owned(),
            boot_id: boot_id(),
            netns: self.netns_path.clone(),
            netns_id: self.netns.id(),
            netns_cookie: self.netns.cookie(),
            own_netns: self.session.invocation.own_netns_allowed,
            args: self.session.invocation.args.clone(),
            bin_dir: self.bin_dir.as_ref().map(|folder| folder.display().to_string()),
            cache_dir: self.results.folder.display().to_string(),
            time: now(),
            pipeline: self
                .pipeline
                .stages
                .iter()
                .map(|stage| PipelineEntry {
                    stage: stage.name.clone(),
                    digest: stage.module.digest().to_owned(),
                    config: stage.config.clone(),
                    when: stage.when.clone(),
                    unless: stage.unless.clone(),
                    on_error: stage.on_error.as_str().to_owned(),
                    mode: stage.mode.as_str().to_owned(),
                    baseline: stage.baseline,
                })
                .collect(),
            attachments: self.attachments.iter().map(Attachment::to_intended).collect(),
        }
    }

    /// From here on there may be side effects. `before` are the links that were there before.
    fn attach_all(&mut self, mut before: Vec<Link>) -> Result<String, CniError> {
        let count = self.attachments.len();
        let one_by_one = if self.conf.parallel { 1 } else { count };
        for position in 0..one_by_one {
            let delegated = match self.attachments[position].chain {
                Some(_) => self.run_delegates(position)?,
                None => self.chained()?,
            };
            let tells_its_links = delegated.interfaces.contains(&self.attachments[position].subject.ifname);
            self.finish(position, delegated, &before)?;
            timeline::mark("its attachment is recorded");
            // Whoever says nothing of its interface may have made others of which it says nothing either: a later
            // result that names them must not make them its own.
            if !tells_its_links && position + 1 < count {
                before = self.links()?;
            }
        }
        if one_by_one < count {
            self.attach_side_by_side(one_by_one, &before)?;
        }
        self.results.cache(&self.attachments, &self.caller.container_id, &self.netns_path)?;
        timeline::mark("its result is in libcni's cache");
        self.check_ownership()?;
        let asked = self.conf.cni_version;
        let primary = self.results.done.first().ok_or_else(|| {
            CniError::new(code::INVALID_CONFIG, "delegates is empty; name at least one network")
        })?;
        let answer = primary.answer(asked)?;
        self.write_status()?;
        timeline::mark("the answer is made, the network status is written");
        Ok(answer)
    }

    /// Runs the delegates of the attachments from `first` on at the same time, and then their pipelines in order.
    /// Where one fails the others are waited for, since a delegate that is killed leaves more than one that ends.
    fn attach_side_by_side(&mut self, first: usize, before: &[Link]) -> Result<(), CniError> {
        for position in first..self.attachments.len() {
            self.refuse_taken_name(position)?;
            self.prepare_device_info(position)?;
        }
        let exec = exec(self.session, &self.key, self.bin_dir.as_deref(), &self.children, self.session.until);
        let slot = Mutex::new(&mut self.slot);
        let (container_id, netns) = (self.caller.container_id.as_str(), self.netns_path.as_str());
        let run = |attachment: &Attachment, ran: &mut Ran| {
            inject::point("attach/beside");
            run_chain(attachment, &exec, container_id, netns, ran, &mut |spawned: &Spawned| {
                let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                let event = spawned_event(spawned, attachment.subject.position);
                slot.append(&event).map_err(|error| error.to_string())
            })
        };
        let (ended, cached) = thread::scope(|scope| {
            let run = &run;
            let start = |(attachment, ran)| {
                thread::Builder::new()
                    .stack_size(DELEGATE_STACK)
                    .spawn_scoped(scope, move || run(attachment, ran))
            };
            let threads: Vec<_> = self.attachments.iter().zip(&mut self.ran).skip(first).map(start).collect();
            let end = |thread: std::io::Result<thread::ScopedJoinHandle<'_, Ended>>| match thread {
                Ok(thread) => thread.join().map_err(|payload| CniError::from_panic(&*payload)),
                Err(error) => {
                    Err(CniError::new(code::IO, format!("a thread for delegates cannot be started: {error}")))
                }
            };
            let intent = &self.attachments[first].subject.context.intent;
            self.pipeline.make_spares(Command::Add, intent);
            let cached = self.results.cache(&self.attachments, container_id, netns);
            let ended: Vec<Result<Ended, CniError>> = threads.into_iter().map(end).collect();
            (ended, cached)
        });
        let mut all = Vec::new();
        let mut errors: Vec<CniError> = cached.err().into_iter().collect();
        for (position, ended) in (first..).zip(ended) {
            match ended.and_then(|ended| self.take(position, ended)) {
                Ok(delegated) => all.push(delegated),
                Err(error) => errors.push(error),
            }
        }
        if let Some(error) = CniError::first_of(errors) {
            return Err(error);
        }
        for (position, delegated) in (first..).zip(all) {
            self.finish(position, delegated, before)?;
        }
        Ok(())
    }

    fn links(&mut self) -> Result<Vec<Link>, CniError> {
        let first = self.attachments.first();
        self.bench.links().map_err(|error| unread_links(first, &error))
    }

    /// The link that has an attachment's name, and those of the names that its result claims. They are asked for one by
    /// one, since all of them each time would be more and more with each attachment; unless they are many.
    fn links_named(&mut self, position: usize, claimed: &[String]) -> Result<Vec<Link>, CniError> {
        let attachment = &self.attachments[position];
        let ifname = attachment.subject.ifname.as_str();
        let links = if claimed.len() > MANY_NAMES {
            self.bench.links()
        } else {
            self.bench.links_named(iter::once(ifname).chain(claimed.iter().map(String::as_str)))
        };
        links.map_err(|error| unread_links(Some(attachment), &error))
    }

    /// Runs the pipeline on what an attachment's delegates have answered and made, and records it.
    fn finish(&mut self, position: usize, delegated: Delegated, before: &[Link]) -> Result<(), CniError> {
        let Delegated { document, version, interfaces } = delegated;
        let after = self.links_named(position, &interfaces)?;
        timeline::mark("its result and its links are read");
        let attachment = &mut self.attachments[position];
        attachment.subject.context.delegate_version = version;
        if let Some(file) = &attachment.device_info {
            attachment.subject.context.device_info =
                file.read().map_err(|error| of_device(attachment, &error))?;
        }
        inject::point("attach/attached");
        let attachment = &self.attachments[position];
        let before = if attachment.chain.is_some() { before } else { &[] };
        let mut links = own_links(&attachment.subject.ifname, &interfaces, before, &after);
        // The links of another are new as well, and a result may name what is not its own.
        let others = self.attachments.iter().filter(|other| other.subject.position != position);
        let others: Vec<&str> = others.map(|other| other.subject.ifname.as_str()).collect();
        let is_anothers = |index: &u32| {
            self.results.done.iter().any(|done| done.links.contains(index))
                || after.iter().any(|link| link.index == *index && others.contains(&link.name.as_str()))
        };
        links.retain(|index| !is_anothers(index));
        let scope = Scope { links: links.clone(), tables: Vec::new() };
        self.bench.known = after;
        if let Some(recorder) = &mut self.recorder {
            let device = attachment.subject.context.device_info.as_ref();
            recorder.before(position, &document, device, &links, &mut self.bench);
        }
        let mut work = Work::new(document);
        let stages = &mut self.session.record.attachments[position].stages;
        run::add(
            &self.pipeline,
            &self.caller,
            &attachment.subject,
            &scope,
            &mut work,
            &mut self.bench,
            stages,
        )?;
        if let Some(recorder) = &mut self.recorder {
            recorder.after(position, &work, &mut self.bench);
        }
        let event = Event::Attached {
            position,
            format: work.document.format.clone(),
            result: work.document.text.clone(),
            tags: work.tags.clone(),
            baseline_tags: work.baseline_tags.clone(),
            links: Some(links.clone()),
            publications: work.publications.clone().into_iter().collect(),
            report: self.report(position),
        };
        self.slot.append(&event)?;
        self.results.done.push(Done::new(work, links));
        Ok(())
    }

    /// What the stages did, for people; what they arranged together stands with the first attachment.
    fn report(&self, position: usize) -> Value {
        let record = &self.session.record;
        let mut report = record.attachments[position].to_value();
        if position == 0 && !record.arrange.is_empty() {
            report["arrange"] = record.arrange.iter().map(StageRecord::to_value).collect();
        }
        report
    }

    fn refuse_taken_name(&mut self, position: usize) -> Result<(), CniError> {
        let taken = !self.links_named(position, &[])?.is_empty();
        let attachment = &self.attachments[position];
        let ifname = &attachment.subject.ifname;
        if taken {
            return Err(CniError::new(
                code::INVALID_CONFIG,
                format!(
                    "attachment {}: the sandbox already has a link named {ifname}, which was left alone; \
                     ask for another interface name",
                    attachment.name()
                ),
            ));
        }
        Ok(())
    }

    fn prepare_device_info(&self, position: usize) -> Result<(), CniError> {
        let attachment = &self.attachments[position];
        let prepared = attachment.device_info.as_ref().map_or(Ok(()), DeviceInfoFile::prepare);
        prepared.map_err(|error| of_device(attachment, &error))
    }

    /// Runs an attachment's delegates; the ledger knows of every process before it gets its input.
    fn run_delegates(&mut self, position: usize) -> Result<Delegated, CniError> {
        self.refuse_taken_name(position)?;
        self.prepare_device_info(position)?;
        let intended = if self.begun { None } else { Some(self.intended()) };
        let exec = exec(self.session, &self.key, self.bin_dir.as_deref(), &self.children, self.session.until);
        let (container_id, netns) = (self.caller.container_id.as_str(), self.netns_path.as_str());
        let mut along = Along {
            position,
            intended,
            begun: &mut self.begun,
            slot: &mut self.slot,
            pipeline: &self.pipeline,
            attachments: &self.attachments,
            results: &mut self.results,
            container_id,
            netns,
            outcome: Ok(()),
            own_share: Duration::ZERO,
        };
        let (attachment, ran) = (&self.attachments[position], &mut self.ran[position]);
        let mut ended = run_chain(attachment, &exec, container_id, netns, ran, &mut along);
        ended.duration = ended.duration.saturating_sub(along.own_share);
        let outcome = along.outcome;
        match (self.take(position, ended), outcome) {
            // That came first, and may be why there was no end.
            (Err(error), Err(mut problem)) => {
                problem.add(error);
                Err(problem)
            }
            (delegated, outcome) => outcome.and(delegated),
        }
    }

    /// Keeps what is known about an attachment's delegates, and reads their result.
    fn take(&mut self, position: usize, ended: Ended) -> Result<Delegated, CniError> {
        self.session.record.attachments[position].delegates = ended.duration;
        match ended.result {
            Ok(value) => {
                let delegated = Delegated::of(&value, &self.netns_path);
                self.ran[position].result = Some(value);
                Ok(delegated)
            }
            Err(error) => Err(CniError::from(error).of_network(&self.attachments[position].subject.network)),
        }
    }

    /// In chained mode the result is there; the ledger gets its entry before anything is changed.
    fn chained(&mut self) -> Result<Delegated, CniError> {
        let Some(previous) = &self.conf.prev_result else {
            return Err(CniError::new(
                code::INVALID_CONFIG,
                "prevResult is missing: catena without delegates is a chained plugin and works on the result \
                 of the plugins before it; put it behind one, or give it delegates",
            ));
        };
        let delegated = Delegated::of(previous, &self.netns_path);
        let intended = self.intended();
        self.slot.begin(&intended, &[])?;
        self.begun = true;
        Ok(delegated)
    }

    /// The host's own check of each request, whatever the pipeline was.
    fn check_ownership(&mut self) -> Result<(), CniError> {
        let each = self.attachments.iter().zip(&self.results.done);
        let claims: Vec<_> = each.map(|(attachment, done)| claim(attachment, &done.links)).collect();
        verify(&mut self.bench, &claims, &mut self.session.record.notes)
    }

    /// Records that all is there.
    fn conclude(&mut self) -> Result<(), CniError> {
        if !self.session.record.notes.is_empty() {
            self.slot.append(&Event::Noted { notes: self.session.record.notes.clone() })?;
        }
        self.slot.append(&Event::Finished)?;
        self.slot.end_children_lock()?;
        timeline::mark("the ledger says that it is finished");
        Ok(())
    }

    /// Collects the network status of all attachments into one list.
    fn write_status(&self) -> Result<(), CniError> {
        if self.caller.mode == Mode::Chained {
            return Ok(());
        }
        let Some(list) = status_list(self.results.done.iter().map(|done| &done.work.publications))? else {
            return Ok(());
        };
        let file = self.session.status_file(
            self.key.network.as_str(),
            self.key.container_id.as_str(),
            self.key.ifname.as_str(),
        );
        file.write(&list).map_err(|error| CniError::new(code::IO, error.to_string()))
    }

    /// Puts everything back; the error is the first one, with what else went wrong in its details. A step that brings
    /// catena down leaves the others to be done.
    fn roll_back(mut self, mut error: CniError) -> CniError {
        let until = self.session.undo_time().until();
        self.bench.set_until(self.session.route_undo_time().until());
        match panic::caught(|| undo_routes(&mut self.bench)) {
            Ok(details) => error = details.into_iter().fold(error, CniError::detail),
            Err(panic) => error.add(panic),
        }
        let exec = exec(self.session, &self.key, self.bin_dir.as_deref(), &self.children, until);
        let mut clean = true;
        for (position, (attachment, ran)) in self.attachments.iter().zip(&self.ran).enumerate().rev() {
            let Some(chain) = &attachment.chain else { continue };
            if !ran.started {
                continue;
            }
            let previous = self
                .results
                .done
                .get(position)
                .and_then(|done| document::cached(&done.work.document, &chain.list.cni_version))
                .or_else(|| ran.result.clone());
            let at = attachment.at(&self.caller.container_id, Some(&self.netns_path));
            let slot = &mut self.slot;
            let mut recorded = |spawned: &Spawned| {
                // The undo goes on even where the ledger cannot be written any more.
                drop(slot.append(&spawned_event(spawned, position)));
                Ok(())
            };
            let failed = panic::caught(|| {
                inject::point("attach/rollback");
                chain.del(&exec, &at, previous.as_ref(), &mut recorded)
            });
            let failed: Vec<CniError> = match failed {
                Ok(problems) => {
                    // What never ran for lack of its binary has left nothing.
                    let never_ran = |problem: &DelegateError| {
                        matches!(problem.fault, Fault::Missing { .. })
                            && ran.missing.as_ref() == Some(&problem.plugin)
                    };
                    let failed = problems.into_iter().filter(|problem| !never_ran(problem));
                    failed.map(CniError::from).collect()
                }
                Err(panic) => vec![panic],
            };
            if !failed.is_empty() {
                // The DEL that is tried again needs the files.
                clean = false;
                let network = &attachment.subject.network;
                failed.into_iter().for_each(|problem| error.add(problem.of_network(network)));
                continue;
            }
            for problem in attachment.remove_files(&self.results.folder, &self.caller.container_id) {
                error = error.detail(problem.msg);
            }
        }
        let file = self.session.status_file(
            self.key.network.as_str(),
            self.key.container_id.as_str(),
            self.key.ifname.as_str(),
        );
        if let Err(problem) = file.remove() {
            error = error.detail(problem.to_string());
        }
        let left =
            if clean { vec![self.slot.remove()] } else { del::record_rollback(&mut self.slot, &error) };
        let problems = left.into_iter().filter_map(Result::err);
        problems.fold(error, |error, problem| error.detail(problem.to_string()))
    }
}

/// Undoes all route changes; what there is to say about it.
fn undo_routes(bench: &mut Bench) -> Vec<String> {
    inject::point("attach/undo");
    let changes = bench.changes_since(Journal::start());
    let undo = bench.undo(Journal::start());
    let mut details: Vec<String> = undo.errors.iter().map(|problem| format!("undo: {problem}")).collect();
    if !undo.exact {
        details.push(format!("undo of route changes is not exact: {}", undo.leftover.join("; ")));
    } else if !changes.is_empty() {
        let changes = changes.join("; ");
        details.push(format!("route changes of finished stages are undone exactly: {changes}"));
    }
    details
}

/// Takes over a config that `admit` has rewritten, if it still is one of this network.
pub fn rewrite(attachment: &mut Attachment, admitted: &str) -> Result<(), CniError> {
    let bad = |what: &str| {
        CniError::new(
            code::BAD_OUTCOME,
            format!("the config of {} that a stage has rewritten: {what}", attachment.name()),
        )
    };
    let Some(chain) = &attachment.chain else {
        return Err(bad("catena is a chained plugin here, so nothing is called with it"));
    };
    let list = NetworkList::parse(admitted.as_bytes()).map_err(|error| bad(&error.to_string()))?;
    if list.name != chain.list.name {
        return Err(bad(&format!("its name is {:?}, and names may not change", list.name)));
    }
    if list.plugins.is_empty() {
        return Err(bad("it has no plugins"));
    }
    attachment.chain = Some(Chain::new(list));
    Ok(())
}

/// Refuses delegates that must not run side by side, now that their configs are those that they will get.
pub fn refuse_rivals(conf: &Conf, attachments: &[Attachment], node: &NodeConfig) -> Result<(), CniError> {
    let chains = attachments.iter().filter_map(|attachment| attachment.chain.as_ref());
    let lists: Vec<&NetworkList> = chains.map(|chain| &chain.list).collect();
    conf.refuse_rivals(&lists, node)
}

/// Runs ADD of one attachment's delegates.
fn run_chain(
    attachment: &Attachment,
    exec: &Exec<'_>,
    container_id: &str,
    netns: &str,
    ran: &mut Ran,
    escort: &mut dyn Escort,
) -> Ended {
    let start = Instant::now();
    let result = match &attachment.chain {
        Some(chain) => {
            let at = attachment.at(container_id, Some(netns));
            chain.add(exec, &at, &mut Started { started: &mut ran.started, escort })
        }
        None => Ok(Value::Null),
    };
    if let Err(DelegateError { fault: Fault::Missing { .. }, plugin, .. }) = &result {
        ran.missing = Some(plugin.clone());
    }
    Ended { duration: start.elapsed(), result }
}

fn unread_links(attachment: Option<&Attachment>, error: &RouteError) -> CniError {
    let name = attachment.map_or_else(String::new, Attachment::name);
    CniError::new(code_of(error, code::INVALID_NETNS), format!("attachment {name}: {error}"))
}

fn of_device(attachment: &Attachment, error: &DeviceInfoError) -> CniError {
    CniError::new(error.code(), format!("network {}: {error}", attachment.subject.network))
}

fn exec<'l>(
    session: &Session<'_>,
    key: &Key,
    bin_dir: Option<&Path>,
    children: &'l OwnedFd,
    until: Instant,
) -> Exec<'l> {
    session.exec(key.network.as_str(), bin_dir, Some(children), until)
}

/// The links that belong to an attachment: its interface and what its result claims in this sandbox, unless
/// they were there before the ADD. (What an attachment before has made, and told, is that one's.)
pub fn own_links(ifname: &str, claimed: &[String], before: &[Link], after: &[Link]) -> Vec<u32> {
    after
        .iter()
        .filter(|link| link.name == ifname || claimed.contains(&link.name))
        .filter(|link| !before.iter().any(|old| old.index == link.index))
        .map(|link| link.index)
        .collect()
}

/// What an attachment asks for, and the links that it is about.
pub fn claim(attachment: &Attachment, links: &[u32]) -> Claim {
    Claim {
        network: attachment.subject.network.clone(),
        ifname: attachment.subject.ifname.clone(),
        request: attachment.request.clone(),
        links: links.to_vec(),
    }
}

/// The code of what could not be read; what took too long may work the next time.
fn code_of(error: &RouteError, otherwise: u32) -> u32 {
    if error.kind == ErrorKind::Timeout { code::TRY_LATER } else { otherwise }
}

/// Compares the requests with the kernel: code 107 where one is not carried out.
pub fn verify(bench: &mut Bench, claims: &[Claim], notes: &mut Vec<String>) -> Result<(), CniError> {
    if claims.len() < 2 && !Family::ALL.iter().any(|family| ownership::is_asked(*family, claims)) {
        return Ok(());
    }
    let unread = |error: RouteError| {
        let text = format!("the default routes could not be read back: {error}");
        CniError::new(code_of(&error, code::OWNERSHIP), text)
    };
    let table = bench.table("verify").map_err(unread)?;
    let mut unmet = Vec::new();
    let mut tables = Vec::new();
    for family in Family::ALL {
        let main = table.routes(family, MAIN).map_err(unread)?;
        unmet.extend(ownership::unmet(family, &main, claims));
        let rivals = ownership::rivals(family, &main, claims);
        if !rivals.is_empty() {
            notes.push(format!(
                "more than one attachment has {family} default routes, and none asked for them: {}; the kernel chooses by \
                 metric; ask with default-route on one of them",
                rivals.join(", ")
            ));
        }
        tables.push(main);
    }
    if let [v4, v6] = tables.as_slice() {
        unmet.extend(ownership::unowned([v4, v6], claims));
    }
    let mut unmet = unmet.into_iter();
    match unmet.next() {
        None => Ok(()),
        Some(first) => {
            let mut error = CniError::new(
                code::OWNERSHIP,
                format!(
                    "a requested default route was not carried out: {first}; \
                     the pipeline needs a stage that does it, such as default-gateway"
                ),
            );
            error.details.extend(unmet);
            Err(error)
        }
    }
}

/// The published elements of all attachments as one JSON list; none if nobody published.
fn status_list<'a>(
    publications: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> Result<Option<String>, CniError> {
    let mut list: Vec<String> = Vec::new();
    let mut any = false;
    for published in publications {
        let Some(text) = published.get(NETWORK_STATUS) else { continue };
        any = true;
        match catena_cni::json::parse(text.as_bytes()) {
            Ok(Value::Array(elements)) => list.extend(elements.iter().map(Value::to_string)),
            _ => {
                return Err(CniError::new(
                    code::BAD_OUTCOME,
                    format!("a stage published {NETWORK_STATUS} that is not a JSON list"),
                ));
            }
        }
    }
    Ok(any.then(|| format!("[{}]", list.join(","))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn link(index: u32, name: &str) -> Link {
        Link {
            index,
            name: name.to_owned(),
            alt_names: Vec::new(),
            mac: None,
            mtu: 1500,
            up: true,
            carrier: true,
            kind: None,
        }
    }

    #[test]
    fn only_new_links_in_this_sandbox_are_an_attachments_own() {
        let result = json!({
            "cniVersion": "1.1.0",
            "interfaces": [
                {"name": "veth1"}, {"name": "net1", "sandbox": "/n"},
                {"name": "eth0", "sandbox": "/n"}, {"name": "x", "sandbox": "/other"}
            ]
        });
        let claimed = Delegated::of(&result, "/n").interfaces;
        assert_eq!(claimed, ["net1", "eth0"]);
        let before = [link(1, "lo"), link(2, "eth0")];
        let after = [link(1, "lo"), link(2, "eth0"), link(3, "net1"), link(4, "x"), link(5, "veth1")];
        assert_eq!(own_links("net1", &claimed, &before, &after), [3]);
        assert_eq!(own_links("net1", &claimed, &[], &after), [2, 3]);
    }

    #[test]
    fn the_status_of_all_attachments_is_one_list() {
        let one = BTreeMap::from([(NETWORK_STATUS.to_owned(), r#"[{"name":"a"}]"#.to_owned())]);
        let none = BTreeMap::new();
        assert_eq!(
            status_list([&one, &none, &one].into_iter()).unwrap().unwrap(),
            r#"[{"name":"a"},{"name":"a"}]"#
        );
        assert_eq!(status_list([&none].into_iter()).unwrap(), None);
        let bad = BTreeMap::from([(NETWORK_STATUS.to_owned(), "{}".to_owned())]);
        assert_eq!(status_list([&bad].into_iter()).unwrap_err().code, 106);
    }
}
