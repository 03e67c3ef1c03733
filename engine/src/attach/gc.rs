//! GC: DEL for every entry of this network that the runtime does not list, then GC for the delegates, each
//! with its own attachments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use catena_cni::error::code;

use crate::attach::add::{mode_of, unused};
use crate::attach::del;
use crate::attach::delete::{Deletion, mode};
use crate::attach::entry::{Entry, Intended};
use crate::attach::key::Key;
use crate::attach::ledger::{Found, LedgerError, Slot};
use crate::attach::lock::LockError;
use crate::attach::retry;
use crate::attach::session::Session;
use crate::cni::{AttachmentSpec, CniError, Conf, Role, ValidSet};
use crate::delegate::Chain;
use crate::{inject, panic};

/// How long one entry may keep the others waiting.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Carries out GC. Without a list of valid attachments nothing is deleted, and no delegate is asked.
pub fn gc(session: &mut Session<'_>, conf: &Conf) -> Result<(), CniError> {
    let ValidSet::Known(valid) = &conf.valid_attachments else {
        session.record.notes.push(
            "cni.dev/valid-attachments is absent, so it is unknown which attachments are valid; nothing was deleted"
                .to_owned(),
        );
        retry::one(session, "");
        return Ok(());
    };
    let valid: BTreeSet<(&str, &str)> =
        valid.iter().map(|(container, ifname)| (container.as_str(), ifname.as_str())).collect();
    inject::point("attach/gc");
    let mut errors = Vec::new();
    let mut kept = Kept::new(conf, &valid);
    for stem in session.ledger.stems()? {
        // Looking needs no lock, so an ADD of another network is never waited for.
        match session.ledger.read_stem(&stem) {
            Ok(Found::Nothing) => {}
            Ok(Found::Entry(entry)) if is_kept(&entry, conf, &valid) => kept.note(&entry.intended, conf),
            Ok(Found::Entry(_)) => match lock(session, &stem) {
                // What brings catena down for one entry leaves the others to be deleted.
                Ok(slot) => {
                    let swept = panic::caught(|| sweep(session, slot)).unwrap_or_else(Err);
                    errors.extend(swept.err());
                }
                // Somebody is at work on it, perhaps an ADD.
                Err(error) => {
                    kept.unknown.push(stem);
                    errors.push(error);
                }
            },
            Ok(Found::Damaged(error)) => {
                let dead = Key::of_stem(&stem).filter(|key| is_dead(key, conf, &valid));
                let what = if dead.is_some() { "using the config of this call" } else { "left for its DEL" };
                session.record.notes.push(format!("ledger: {stem}: {error}; {what}"));
                match dead.map(|key| lock(session, &stem).and_then(|slot| rebuild(session, slot, &key, conf)))
                {
                    Some(Ok(())) => {}
                    other => {
                        kept.unknown.push(stem);
                        errors.extend(other.and_then(Result::err));
                    }
                }
            }
            Err(error) => {
                kept.unknown.push(stem);
                errors.push(error.into());
            }
        }
    }
    if let Err(error) = sweep_locks(session) {
        errors.push(error.into());
    }
    if let Role::Meta(specs) = &conf.role {
        match kept.missing() {
            None => errors.extend(ask_delegates(session, conf, specs, &kept.attachments)),
            Some(why) => session.record.notes.push(format!(
                "no delegate was sent GC, since it would take for dead what it is not told of: {why}"
            )),
        }
    }
    retry::one(session, "");
    match CniError::first_of(errors) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Sends GC to each network's delegates with all of its attachments, whichever of our networks made them.
fn ask_delegates(
    session: &Session<'_>,
    conf: &Conf,
    specs: &[AttachmentSpec],
    kept: &BTreeMap<&str, Vec<(String, String)>>,
) -> Vec<CniError> {
    let bin_dir = match session.bin_dir(conf) {
        Ok(folder) => folder,
        Err(error) => return vec![error],
    };
    let exec = session.exec(conf.name.as_str(), bin_dir.as_deref(), None, session.until);
    let mut errors = Vec::new();
    for spec in specs {
        let own = kept.get(spec.list.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let failed = Chain::new(spec.list.clone()).gc(&exec, own).into_iter();
        errors.extend(failed.map(|error| CniError::from(error).of_network(&spec.list.name)));
    }
    errors
}

/// What the ledger says is there, as far as somebody has to be told of it.
#[derive(Debug)]
struct Kept<'a> {
    /// By the network of a delegate: container id and interface.
    attachments: BTreeMap<&'a str, Vec<(String, String)>>,
    /// What the runtime lists and no entry was found of: interfaces by container id.
    unseen: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// File names of entries of which it is not known.
    unknown: Vec<String>,
}

impl<'a> Kept<'a> {
    fn new(conf: &'a Conf, valid: &BTreeSet<(&'a str, &'a str)>) -> Self {
        let specs = match &conf.role {
            Role::Meta(specs) => specs.as_slice(),
            Role::Chained => &[],
        };
        let networks = specs.iter().map(|spec| (spec.list.name.as_str(), Vec::new()));
        let mut unseen: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (container, ifname) in valid {
            unseen.entry(*container).or_default().insert(*ifname);
        }
        Kept { attachments: networks.collect(), unseen, unknown: Vec::new() }
    }

    /// There may be a hundred thousand, so no more of each is kept than what is told.
    fn note(&mut self, intended: &Intended, conf: &Conf) {
        for attachment in &intended.attachments {
            if let Some(own) = self.attachments.get_mut(attachment.network.as_str()) {
                own.push((intended.container_id.clone(), attachment.ifname.clone()));
            }
        }
        if is_of(intended, conf)
            && let Some(ifnames) = self.unseen.get_mut(intended.container_id.as_str())
        {
            ifnames.remove(intended.ifname.as_str());
        }
    }

    /// Why this may not be everything; `None` if it is.
    fn missing(&self) -> Option<String> {
        if !self.unknown.is_empty() {
            return Some(format!("what is true of the ledger's {} is not known", self.unknown.join(", ")));
        }
        let mut unseen =
            self.unseen.iter().filter_map(|(container, ifnames)| Some((container, ifnames.first()?)));
        let (container, ifname) = unseen.next()?;
        Some(format!("the ledger has no entry of {container}/{ifname}, which the runtime lists"))
    }
}

/// Whether an entry is of this network. A list of the same name may have a chained catena with entries of its own.
fn is_of(intended: &Intended, conf: &Conf) -> bool {
    intended.network == conf.name.as_str() && mode(intended) == mode_of(conf)
}

/// Whether GC of this network is to leave an entry alone.
fn is_kept(entry: &Entry, conf: &Conf, valid: &BTreeSet<(&str, &str)>) -> bool {
    let intended = &entry.intended;
    !is_of(intended, conf) || valid.contains(&(intended.container_id.as_str(), intended.ifname.as_str()))
}

/// Whether an entry's file is one of this network that the runtime does not list.
fn is_dead(key: &Key, conf: &Conf, valid: &BTreeSet<(&str, &str)>) -> bool {
    key.network == conf.name
        && key.mode == mode_of(conf)
        && !valid.contains(&(key.container_id.as_str(), key.ifname.as_str()))
}

/// Deletes what the config tells of an entry that cannot be read.
fn rebuild(session: &mut Session<'_>, slot: Slot, key: &Key, conf: &Conf) -> Result<(), CniError> {
    let deletion = match del::from_config(session, key, conf, None, None) {
        Ok(deletion) => deletion,
        Err(error) => return Err(unused(slot, error)),
    };
    del::carry_out(session, slot, &deletion)
}

/// Takes an entry's lock while there is time to delete it.
fn lock(session: &mut Session<'_>, stem: &str) -> Result<Slot, CniError> {
    let now = Instant::now();
    if now >= session.until {
        return Err(CniError::new(
            code::TRY_LATER,
            format!("the time for this call (callSeconds) was over before {stem} was deleted; call GC again"),
        ));
    }
    Ok(session.lock_to_delete(stem.to_owned(), session.until.min(now + LOCK_WAIT))?)
}

/// Deletes an entry.
fn sweep(session: &mut Session<'_>, slot: Slot) -> Result<(), CniError> {
    inject::point("attach/sweep");
    let Found::Entry(entry) = slot.read()? else { return Ok(slot.release()?) };
    let netns = Some(entry.intended.netns.clone()).filter(|path| !path.is_empty());
    let deletion = Deletion { entry: *entry, netns, open: None, recorded: true };
    del::carry_out(session, slot, &deletion)
}

/// Removes the locks of calls that were killed before they had an entry, of any network: they say nothing of one.
fn sweep_locks(session: &Session<'_>) -> Result<(), LedgerError> {
    for stem in session.ledger.stems_without_entry()? {
        match session.ledger.lock_stem(stem, Instant::now()) {
            Ok(slot) => slot.release()?,
            // A call that runs.
            Err(LedgerError::Lock(LockError::Held { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
