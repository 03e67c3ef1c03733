//! DEL: from the ledger where it has an entry, else from the config on stdin and the cache.

use std::path::Path;
use std::sync::Arc;

use catena_cni::identifier::NetworkName;
use catena_cni::version::SpecVersion;
use catena_cni::{json, result};
use serde_json::Value;

use crate::attach::add::{mode_of, unused};
use crate::attach::attachment::Attachment;
use crate::attach::delete::{self, Deletion};
use crate::attach::document::Delegated;
use crate::attach::entry::{Entry, Event, Intended, SCHEMA};
use crate::attach::key::Key;
use crate::attach::ledger::{Found, LedgerError, Slot};
use crate::attach::retry;
use crate::attach::session::{Session, boot_id, now};
use crate::cni::{CniError, Conf, Target};
use crate::delegate::cache;
use crate::routes::netns::Netns;
use crate::wasm::Mode;
use crate::{inject, panic};

/// Carries out DEL. `conf` may be an error: an entry of the ledger does not need it.
pub fn del(
    session: &mut Session<'_>,
    stdin: &[u8],
    conf: Result<&Conf, CniError>,
    target: &Target,
    netns: Option<&str>,
) -> Result<(), CniError> {
    let (network, mode) = match &conf {
        Ok(conf) => (conf.name.clone(), mode_of(conf)),
        Err(error) => envelope(stdin).ok_or_else(|| error.clone())?,
    };
    let key = Key { network, container_id: target.container_id.clone(), ifname: target.ifname.clone(), mode };
    let mut slot = session.lock_to_delete(key.stem(), session.until)?;
    let deletion = match deletion(session, &key, &mut slot, conf, netns) {
        Ok(deletion) => deletion,
        Err(error) => {
            return Err(unused(slot, error));
        }
    };
    let result = carry_out(session, slot, &deletion);
    retry::one(session, &key.stem());
    result
}

/// What there is to delete for a key.
fn deletion(
    session: &mut Session<'_>,
    key: &Key,
    slot: &mut Slot,
    conf: Result<&Conf, CniError>,
    netns: Option<&str>,
) -> Result<Deletion, CniError> {
    let netns = netns.map(str::to_owned);
    match slot.read()? {
        Found::Entry(entry) => {
            if let Err(error) = conf {
                session.record.notes.push(format!("the config on stdin was not needed: {}", error.msg));
            }
            return Ok(Deletion { entry: *entry, netns, open: None, recorded: true });
        }
        Found::Damaged(error) => {
            session.record.notes.push(format!("ledger: the entry of {key}: {error}; using stdin"));
        }
        Found::Nothing => {}
    }
    // What cannot be opened is judged when it is needed.
    let open = netns.as_deref().and_then(|path| Netns::open(path).ok()).map(Arc::new);
    from_config(session, key, conf?, netns, open)
}

/// What there is to delete as far as a config tells, where the ledger has no entry that can be read. `open` is the
/// namespace at `netns`, if it could be opened.
pub fn from_config(
    session: &mut Session<'_>,
    key: &Key,
    conf: &Conf,
    netns: Option<String>,
    open: Option<Arc<Netns>>,
) -> Result<Deletion, CniError> {
    let sandbox = netns.as_deref().unwrap_or_default();
    let target = Target { container_id: key.container_id.clone(), ifname: key.ifname.clone() };
    let devices = session.root.device_info();
    let attachments = Attachment::plan(conf, &session.invocation.args, &target, sandbox, &devices)?;
    let intended = Intended {
        schema: SCHEMA,
        network: key.network.as_str().to_owned(),
        container_id: key.container_id.as_str().to_owned(),
        ifname: key.ifname.as_str().to_owned(),
        mode: key.mode_word().to_owned(),
        boot_id: boot_id(),
        netns: sandbox.to_owned(),
        // Where there is none that can be opened, a later one under this path is somebody else's.
        netns_id: open.as_ref().map_or((0, 0), |netns| netns.id()),
        netns_cookie: open.as_ref().and_then(|netns| netns.cookie()),
        own_netns: session.invocation.own_netns_allowed,
        args: session.invocation.args.clone(),
        bin_dir: session.bin_dir(conf)?.map(|folder| folder.display().to_string()),
        cache_dir: session.cache_dir(conf)?.display().to_string(),
        time: now(),
        pipeline: Vec::new(),
        attachments: attachments.iter().map(Attachment::to_intended).collect(),
    };
    let events = told_by_stdin(session, conf, &intended);
    Ok(Deletion { entry: Entry { intended, events }, netns, open, recorded: false })
}

/// The runtime's `prevResult` is the answer that the ADD gave, which is the primary's result. It stands in where
/// libcni's cache has none.
fn told_by_stdin(session: &mut Session<'_>, conf: &Conf, intended: &Intended) -> Vec<Event> {
    let (Some(previous), Some(primary)) = (&conf.prev_result, intended.attachments.first()) else {
        return Vec::new();
    };
    let folder = Path::new(&intended.cache_dir);
    let kept = cache::load(folder, &primary.network, &intended.container_id, &primary.ifname);
    if primary.config.is_none() || matches!(kept, Ok(Some(_))) {
        return Vec::new();
    }
    session.record.notes.push("the primary's delegates get the prevResult of stdin".to_owned());
    // Every delegate's version can be had of this one.
    let newest = result::convert(previous, SpecVersion::NEWEST);
    let Delegated { document, .. } = Delegated::of(newest.as_ref().unwrap_or(previous), &intended.netns);
    vec![Event::Attached {
        position: 0,
        format: document.format,
        result: document.text,
        tags: Vec::new(),
        baseline_tags: Vec::new(),
        links: None,
        publications: Vec::new(),
        report: Value::Null,
    }]
}

/// Deletes, and leaves nothing where everybody agreed; a failed entry is kept for later calls.
pub fn carry_out(session: &mut Session<'_>, mut slot: Slot, deletion: &Deletion) -> Result<(), CniError> {
    // A chained catena has no delegates, so its stages are all there is; without an entry there is no work.
    let modules = match session.modules() {
        Ok(modules) => Some(modules),
        Err(error) => {
            session.record.notes.push(error.msg);
            None
        }
    };
    let mut errors = delete::delete(session, &mut slot, deletion, modules.as_ref());
    if errors.is_empty() {
        let forgotten = panic::caught(|| {
            inject::point("attach/deleted");
            delete::forget_files(session, deletion)
        });
        errors.extend(forgotten.and_then(|forgotten| forgotten).err());
    }
    let Some(error) = CniError::first_of(errors) else {
        return slot.remove().map_err(|error| {
            let error = CniError::from(error);
            let msg = format!(
                "all was deleted but what the ledger has of it, which the next DEL removes: {}",
                error.msg
            );
            CniError { msg, ..error }
        });
    };
    let problems = if deletion.recorded || was_attached(deletion) {
        keep_failed(&mut slot, deletion, &error)
    } else {
        // Nothing says that there ever was anything, so there is nothing to come back to.
        vec![slot.remove()]
    };
    let problems = problems.into_iter().filter_map(Result::err);
    Err(problems.fold(error, |error, problem| error.detail(problem.to_string())))
}

/// Whether libcni's cache or stdin's `prevResult` says that an attachment without an entry was made once.
fn was_attached(deletion: &Deletion) -> bool {
    let intended = &deletion.entry.intended;
    !deletion.entry.events.is_empty()
        || intended.attachments.iter().any(|attachment| {
            let folder = Path::new(&intended.cache_dir);
            cache::path(folder, &attachment.network, &intended.container_id, &attachment.ifname).exists()
        })
}

/// Keeps the entry, made from the config where the ledger has none.
fn keep_failed(slot: &mut Slot, deletion: &Deletion, error: &CniError) -> Vec<Result<(), LedgerError>> {
    let mut steps = Vec::new();
    if !deletion.recorded {
        let entry = &deletion.entry;
        steps.push(slot.discard().and_then(|()| slot.begin(&entry.intended, &entry.events)));
        steps.push(slot.mark_failed());
    }
    steps.extend(record_failure(slot, error));
    steps
}

/// Records the failure in an entry that is marked as one to try again. Each step is tried whatever became of those
/// before it.
pub fn record_failure(slot: &mut Slot, error: &CniError) -> Vec<Result<(), LedgerError>> {
    let event = Event::DeleteFailed { time: now(), errors: vec![error.msg.clone()] };
    vec![slot.append(&event), slot.end_children_lock()]
}

/// Records that an ADD could not be undone, so that later calls try again: CRI-O never does.
pub fn record_rollback(slot: &mut Slot, error: &CniError) -> Vec<Result<(), LedgerError>> {
    let marked = slot.mark_failed();
    let mut steps = record_failure(slot, error);
    steps.push(marked);
    steps
}

/// Name and mode of a config that is otherwise unusable.
fn envelope(stdin: &[u8]) -> Option<(NetworkName, Mode)> {
    let value = json::parse(stdin).ok()?;
    let map = value.as_object()?;
    let name = json::get(map, "name").and_then(Value::as_str)?;
    let mode = if json::get(map, "delegates").is_some() { Mode::Meta } else { Mode::Chained };
    Some((NetworkName::parse(name).ok()?, mode))
}
