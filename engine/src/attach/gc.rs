//! GC: DEL for every entry of this network that the runtime does not list, then GC for the delegates, each
//! with its own attachments.

use std::collections::BTreeSet;
use std::time::Instant;

use catena_cni::error::code;

use crate::attach::del;
use crate::attach::delete::Deletion;
use crate::attach::entry::Entry;
use crate::attach::ledger::Found;
use crate::attach::retry;
use crate::attach::session::Session;
use crate::cni::{CniError, Conf, Role, ValidSet};
use crate::delegate::Chain;
use crate::inject;

/// Carries out GC. Without a list of valid attachments nothing is deleted, and no delegate is asked.
pub fn gc(session: &mut Session<'_>, conf: &Conf) -> Result<(), CniError> {
    let ValidSet::Known(valid) = &conf.valid_attachments else {
        session.record.notes.push(
            "cni.dev/valid-attachments is absent, so it is unknown which attachments are valid; nothing was deleted"
                .to_owned(),
        );
        return Ok(());
    };
    let valid: BTreeSet<(&str, &str)> =
        valid.iter().map(|(container, ifname)| (container.as_str(), ifname.as_str())).collect();
    inject::point("attach/gc");
    let mut errors = Vec::new();
    let mut kept = Vec::new();
    for stem in session.ledger.stems()? {
        match sweep(session, conf, &stem, &valid) {
            Ok(Some(entry)) => kept.push(entry),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    if let Role::Meta(specs) = &conf.role {
        let bin_dir = session.bin_dir(conf)?;
        let exec = session.exec(conf.name.as_str(), bin_dir.as_deref(), None, session.until);
        for spec in specs {
            let own: Vec<(String, String)> = kept
                .iter()
                .flat_map(|entry| {
                    entry.intended.attachments.iter().map(move |attachment| (entry, attachment))
                })
                .filter(|(_, attachment)| attachment.network == spec.list.name)
                .map(|(entry, attachment)| (entry.intended.container_id.clone(), attachment.ifname.clone()))
                .collect();
            let chain = Chain { list: spec.list.clone() };
            errors.extend(chain.gc(&exec, &own).into_iter().map(CniError::from));
        }
    }
    retry::one(session, "");
    match CniError::first_of(errors) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Deletes an entry of this network that is not valid; returns one that is.
fn sweep(
    session: &mut Session<'_>,
    conf: &Conf,
    stem: &str,
    valid: &BTreeSet<(&str, &str)>,
) -> Result<Option<Entry>, CniError> {
    let is_kept = |entry: &Entry| {
        valid.contains(&(entry.intended.container_id.as_str(), entry.intended.ifname.as_str()))
    };
    // Looking needs no lock, so an ADD of another network is never waited for.
    match session.ledger.read_stem(stem)? {
        Found::Entry(entry) if entry.intended.network != conf.name.as_str() => return Ok(None),
        Found::Entry(entry) if is_kept(&entry) => return Ok(Some(*entry)),
        Found::Entry(_) => {}
        Found::Nothing => return Ok(None),
        Found::Damaged(error) => {
            session.record.notes.push(format!("ledger: {stem}: {error}; left for its DEL"));
            return Ok(None);
        }
    }
    let until = session.until;
    let slot = session.ledger.lock_stem(stem.to_owned(), until)?;
    let Found::Entry(entry) = slot.read()? else {
        slot.release()?;
        return Ok(None);
    };
    if Instant::now() >= until {
        return Err(CniError::new(code::TRY_LATER, "the call's time is over; the next GC goes on from here"));
    }
    let netns = Some(entry.intended.netns.clone()).filter(|path| !path.is_empty());
    let deletion = Deletion { entry: *entry, netns, recorded: true };
    del::carry_out(session, slot, &deletion)?;
    Ok(None)
}
