//! Takes away what an ADD has made: for DEL, for GC, for an ADD that finds an old entry, and for the retry
//! of a failed one. It works from the ledger's entry, and goes on past everything that fails.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use catena_cni::error::code;

use crate::attach::along::spawned_event;
use crate::attach::attachment::{Attachment, Recorded};
use crate::attach::children;
use crate::attach::document;
use crate::attach::entry::{Entry, Event, Intended, PipelineEntry};
use crate::attach::ledger::Slot;
use crate::attach::sandbox;
use crate::attach::session::Session;
use crate::cni::CniError;
use crate::delegate::{Spawned, cache};
use crate::node::{EntryMode, OnError};
use crate::pipeline::bench::Bench;
use crate::pipeline::run::{self, Caller, Work};
use crate::pipeline::selection::{Pipeline, Stage};
use crate::report::record::AttachmentRecord;
use crate::routes::kernel::Scope;
use crate::routes::netns::Netns;
use crate::wasm::{Command, Document, Mode, Module, Modules};
use crate::{inject, panic};

/// What is to be taken away.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// The entry, or what one made from the config would be.
    pub entry: Entry,
    /// CNI_NETNS; what is there now need not be the namespace of the ADD.
    pub netns: Option<String>,
    /// The same, where it has been opened already.
    pub open: Option<Arc<Netns>>,
    /// Whether the ledger has this entry.
    pub recorded: bool,
}

/// Runs the stages' del and the delegates' DEL of every attachment in reverse order, and removes the cache
/// files of those that agreed. Stages are advisory: what they say is noted. Returns the delegates' errors.
pub fn delete(
    session: &mut Session<'_>,
    slot: &mut Slot,
    deletion: &Deletion,
    modules: Option<&Modules>,
) -> Vec<CniError> {
    // A call that is killed leaves the mark, so that later calls try again.
    let unmarked = if deletion.recorded { slot.mark_failed().err() } else { None };
    let mut errors = panic::caught(|| try_delete(session, slot, deletion, modules))
        .and_then(|tried| tried)
        .unwrap_or_else(|error| vec![error]);
    // Nobody will try again then.
    if !errors.is_empty() {
        errors.extend(unmarked.map(CniError::from));
    }
    errors
}

fn try_delete(
    session: &mut Session<'_>,
    slot: &mut Slot,
    deletion: &Deletion,
    modules: Option<&Modules>,
) -> Result<Vec<CniError>, CniError> {
    inject::point("attach/del");
    let intended = &deletion.entry.intended;
    if !matches!(intended.mode.as_str(), "meta" | "chained") {
        let word = &intended.mode;
        session.record.notes.push(format!("ledger: mode {word:?} is none that this catena knows"));
    }
    children::settle(session, slot, deletion.recorded.then_some(&deletion.entry))?;
    // DEL goes on where nothing can be written: a full disk must not keep a pod's interface.
    if deletion.recorded {
        let begun = slot.append(&Event::Deleting);
        note(session, begun);
    }
    let children = session.children(slot).map_err(|error| error.msg);
    let children = note(session, children);
    let netns = open_namespace(session, deletion)?;
    let netns_path = netns.as_ref().and(deletion.netns.as_deref());
    let pipeline = modules.map(|modules| recorded_pipeline(session, intended, modules));
    let mut stages = pipeline.map(|pipeline| Stages {
        pipeline,
        caller: Caller {
            command: Command::Del,
            mode: mode(intended),
            container_id: intended.container_id.clone(),
            until: session.until,
        },
        bench: Bench::of(netns.as_deref(), session.until, session.route_undo_time()),
    });

    let mut errors = Vec::new();
    let mut records = Vec::new();
    let (read, attached) = (Recorded::of(intended), deletion.entry.all_attached());
    for (position, recorded) in intended.attachments.iter().enumerate().rev() {
        let mut record = AttachmentRecord {
            network: recorded.network.clone(),
            ifname: recorded.ifname.clone(),
            ..AttachmentRecord::default()
        };
        // What brings catena down for one attachment leaves the others to be deleted.
        let failed = read.attachment(position, &intended.netns).and_then(|attachment| {
            let work = attached[position].and_then(work_of);
            if let (Some(stages), Some(work)) = (&mut stages, &work) {
                let told = panic::caught(|| stages.tell(&attachment, work, &mut record));
                session.record.notes.extend(told.unwrap_or_else(|error| vec![error.msg]));
            }
            let mut delegates =
                Delegates { slot, deletion, position, children: children.as_ref(), netns_path };
            panic::caught(|| delegates.delete(session, &attachment, work.as_ref(), &mut record))
        });
        errors.extend(failed.unwrap_or_else(|error| vec![error.of_network(&recorded.network)]));
        records.push(record);
    }
    records.reverse();
    session.record.attachments = records;
    Ok(errors)
}

/// The stages of the ADD, which hear of DEL.
struct Stages {
    pipeline: Pipeline,
    caller: Caller,
    bench: Bench,
}

impl Stages {
    /// Tells them of one attachment; what they say against it.
    fn tell(&mut self, attachment: &Attachment, work: &Work, record: &mut AttachmentRecord) -> Vec<String> {
        let failures = run::look(
            &self.pipeline,
            &self.caller,
            &attachment.subject,
            &Scope::default(),
            work,
            &mut self.bench,
            &mut record.stages,
        );
        failures.iter().map(ToString::to_string).collect()
    }
}

/// One attachment's delegates.
struct Delegates<'a> {
    slot: &'a mut Slot,
    deletion: &'a Deletion,
    position: usize,
    children: Option<&'a OwnedFd>,
    netns_path: Option<&'a str>,
}

impl Delegates<'_> {
    /// Runs their DEL, and removes the attachment's files where all agreed.
    fn delete(
        &mut self,
        session: &mut Session<'_>,
        attachment: &Attachment,
        work: Option<&Work>,
        record: &mut AttachmentRecord,
    ) -> Vec<CniError> {
        let Some(chain) = &attachment.chain else { return Vec::new() };
        let intended = &self.deletion.entry.intended;
        let cache_dir = Path::new(&intended.cache_dir);
        let start = Instant::now();
        let previous = match work {
            Some(work) => document::cached(&work.document, &chain.list.cni_version),
            None => cached(session, cache_dir, attachment, &intended.container_id),
        };
        let bin_dir = intended.bin_dir.as_deref().map(Path::new);
        let exec = session.exec(&intended.network, bin_dir, self.children, session.until);
        let at = attachment.at(&intended.container_id, self.netns_path);
        let mut ledger_errors = Vec::new();
        let mut recorder = |spawned: &Spawned| {
            if self.deletion.recorded
                && let Err(error) = self.slot.append(&spawned_event(spawned, self.position))
            {
                ledger_errors.push(error.to_string());
            }
            Ok(())
        };
        let failed = chain.del(&exec, &at, previous.as_ref(), &mut recorder);
        session.record.notes.extend(ledger_errors);
        record.delegates = start.elapsed();
        if !failed.is_empty() {
            let network = &attachment.subject.network;
            return failed.into_iter().map(|error| CniError::from(error).of_network(network)).collect();
        }
        attachment.remove_files(cache_dir, &intended.container_id)
    }
}

/// The sandbox's namespace. Another one under the same path (a process id that was used again, or another
/// boot) is somebody else's: then ours has gone.
fn open_namespace(session: &mut Session<'_>, deletion: &Deletion) -> Result<Option<Arc<Netns>>, CniError> {
    let intended = &deletion.entry.intended;
    // What was added with the override is there all the same, whoever deletes it.
    let own_allowed = intended.own_netns || session.invocation.own_netns_allowed;
    let (netns, gone) = match &deletion.open {
        Some(open) => sandbox::unless_own(Arc::clone(open), own_allowed),
        None => sandbox::open_if_there(deletion.netns.as_deref(), own_allowed)?,
    };
    session.record.notes.extend(gone);
    let Some(netns) = netns else { return Ok(None) };
    if deletion.recorded && !deletion.entry.is_in(&netns) {
        session.record.notes.push(format!(
            "{} is another namespace than the one that was attached, which has gone",
            netns.path().display()
        ));
        return Ok(None);
    }
    Ok(Some(netns))
}

/// Removes the files of a sandbox that are neither the delegates' nor the ledger's.
pub fn forget_files(session: &Session<'_>, deletion: &Deletion) -> Result<(), CniError> {
    let intended = &deletion.entry.intended;
    if mode(intended) == Mode::Chained {
        return Ok(());
    }
    session
        .status_file(&intended.network, &intended.container_id, &intended.ifname)
        .remove()
        .map_err(|error| CniError::new(code::IO, error.to_string()))
}

/// `meta` or `chained`, as recorded.
pub fn mode(intended: &Intended) -> Mode {
    match intended.mode.as_str() {
        "chained" => Mode::Chained,
        "meta" => Mode::Meta,
        // An unknown word loses no DEL: only a meta-plugin has delegates to call.
        _ if intended.attachments.iter().all(|attachment| attachment.config.is_none()) => Mode::Chained,
        _ => Mode::Meta,
    }
}

/// What an attachment's pipeline ended with.
pub fn work_of(event: &Event) -> Option<Work> {
    match event {
        Event::Attached { format, result, tags, baseline_tags, publications, .. } => Some(Work {
            document: Document { format: format.clone(), text: result.clone() },
            tags: tags.clone(),
            baseline_tags: baseline_tags.clone(),
            publications: publications.iter().cloned().collect(),
        }),
        _ => None,
    }
}

/// The result in libcni's cache; a damaged file is noted, and DEL goes on without.
fn cached(
    session: &mut Session<'_>,
    folder: &Path,
    attachment: &Attachment,
    container_id: &str,
) -> Option<serde_json::Value> {
    match cache::load(folder, &attachment.subject.network, container_id, &attachment.subject.ifname) {
        Ok(result) => result,
        Err(error) => {
            session.record.notes.push(error.to_string());
            None
        }
    }
}

/// The pipeline of the ADD, as far as its modules are still there; another digest is used and noted.
pub fn recorded_pipeline(session: &mut Session<'_>, intended: &Intended, modules: &Modules) -> Pipeline {
    let mut stages = Vec::new();
    for entry in &intended.pipeline {
        let same = modules.get_digest(&entry.stage, &entry.digest);
        match same.or_else(|_| modules.get(&entry.stage)) {
            Ok(module) => {
                if module.digest() != entry.digest {
                    session.record.notes.push(format!(
                        "stage {}: the attachment was made with {}, which is no longer installed; {} stands in",
                        entry.stage,
                        entry.digest,
                        module.digest()
                    ));
                }
                stages.push(stage(entry, module, &mut session.record.notes));
            }
            Err(error) => session.record.notes.push(format!("stage {}: {error}", entry.stage)),
        }
    }
    Pipeline { stages, notes: Vec::new() }
}

/// A recorded pipeline's entry, to be carried out by a module.
pub(super) fn stage(entry: &PipelineEntry, module: Arc<Module>, notes: &mut Vec<String>) -> Stage {
    Stage {
        name: entry.stage.clone(),
        module,
        config: entry.config.clone(),
        when: entry.when.clone(),
        unless: entry.unless.clone(),
        on_error: known(entry, "onError", &entry.on_error, OnError::parse, notes),
        mode: match entry.mode.as_str() {
            // Of the time before there was another.
            "" => EntryMode::default(),
            word => known(entry, "mode", word, EntryMode::parse, notes),
        },
        baseline: entry.baseline,
    }
}

/// A word of an entry. One that this catena does not know counts as the default, which is the strict one, and is
/// noted: DEL has to go on, and a CHECK that fails says what it had to guess.
fn known<T: Default>(
    entry: &PipelineEntry,
    key: &str,
    word: &str,
    parse: impl Fn(&str) -> Option<T>,
    notes: &mut Vec<String>,
) -> T {
    parse(word).unwrap_or_else(|| {
        notes.push(format!(
            "the record of stage {}: {key} {word:?} is none that this catena knows; it counts as absent",
            entry.stage
        ));
        T::default()
    })
}

/// The value; an error becomes a note.
fn note<T, E: std::fmt::Display>(session: &mut Session<'_>, result: Result<T, E>) -> Option<T> {
    result.map_err(|error| session.record.notes.push(error.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_noted_and_the_strict_one_holds() {
        let entry = PipelineEntry {
            stage: "gw".into(),
            digest: String::new(),
            config: "{}".into(),
            when: Vec::new(),
            unless: Vec::new(),
            on_error: "sometimes".into(),
            mode: "skip".into(),
            baseline: false,
        };
        let mut notes = Vec::new();
        let on_error = known(&entry, "onError", &entry.on_error, OnError::parse, &mut notes);
        assert_eq!((on_error, notes.len()), (OnError::Fail, 1));
        assert!(notes[0].contains("gw") && notes[0].contains("onError \"sometimes\""), "{notes:?}");
        assert_eq!(known(&entry, "onError", "skip", OnError::parse, &mut notes), OnError::Skip);
        assert_eq!(known(&entry, "mode", &entry.mode, EntryMode::parse, &mut notes), EntryMode::Enforce);
        assert_eq!(notes.len(), 2);
    }

    #[test]
    fn a_mode_that_is_unknown_loses_no_delegate() {
        let mut intended = crate::attach::entry::tests::intended();
        intended.mode = "other".into();
        assert_eq!(mode(&intended), Mode::Meta);
        intended.attachments[0].config = None;
        assert_eq!(mode(&intended), Mode::Chained);
    }
}
