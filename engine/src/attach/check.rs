//! CHECK: the delegates' own, then the stages', with intent and tags of the ADD; then the host's check of
//! what was requested.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use catena_cni::error::code;

use crate::attach::add::{mode_of, own_links, verify};
use crate::attach::attachment::Recorded;
use crate::attach::children;
use crate::attach::delete::{self, recorded_pipeline};
use crate::attach::document;
use crate::attach::entry::{Entry, Event};
use crate::attach::key::Key;
use crate::attach::ledger::Found;
use crate::attach::sandbox;
use crate::attach::session::Session;
use crate::cni::{CniError, Conf, Target};
use crate::delegate::{Escort, Spawned};
use crate::pipeline::bench::Bench;
use crate::pipeline::intent::Intent;
use crate::pipeline::ownership::Claim;
use crate::pipeline::run::{self, Caller};
use crate::pipeline::selection::Pipeline;
use crate::report::record::AttachmentRecord;
use crate::routes::kernel::Scope;
use crate::routes::netns::Netns;
use crate::wasm::{Command, Mode, Modules};
use crate::{inject, panic};

/// Carries out CHECK.
pub fn check(
    session: &mut Session<'_>,
    conf: &Conf,
    target: &Target,
    netns_path: &str,
) -> Result<(), CniError> {
    let mode = mode_of(conf);
    if mode == Mode::Chained && conf.prev_result.is_none() {
        return Err(CniError::new(
            code::INVALID_CONFIG,
            "prevResult is missing: CHECK needs the ADD's result",
        ));
    }
    // CHECK changes nothing, so our own namespace is as good as any, as for Go plugins.
    let netns = sandbox::open(netns_path, true)?;
    let modules = session.modules()?;
    let key = Key {
        network: conf.name.clone(),
        container_id: target.container_id.clone(),
        ifname: target.ifname.clone(),
        mode,
    };
    let mut slot = session.ledger.lock(&key, session.until)?;
    inject::point("attach/check");
    let entry = match slot.read()? {
        Found::Entry(entry) if entry.is_finished() => *entry,
        Found::Entry(_) => {
            return Err(CniError::new(
                // Not "unknown container", which would tell the runtime that no DEL is needed.
                code::IO,
                format!("{key}: its ADD never finished, or a DEL has begun; DEL it and ADD it again"),
            ));
        }
        Found::Nothing => {
            slot.release()?;
            return Err(CniError::new(
                code::UNKNOWN_CONTAINER,
                format!("{key} is not in the ledger; it was never added, or its DEL is done"),
            ));
        }
        Found::Damaged(error) => {
            return Err(CniError::new(code::IO, format!("ledger: the entry of {key}: {error}")));
        }
    };
    children::settle(session, &mut slot, Some(&entry))?;
    // Where nothing can be written, what is there can be looked at all the same.
    let children = session.children_of_check(&mut slot);
    let children = children.map_err(|error| session.record.notes.push(error.msg)).ok();
    let looked = panic::caught(|| look(session, &modules, &entry, &netns, netns_path, children.as_ref()));
    // This CHECK has ended: what its delegates have left, they have left on purpose.
    let ended = slot.end_children_lock();
    session.record.notes.extend(ended.err().map(|error| error.to_string()));
    looked.unwrap_or_else(Err)
}

/// Checks what an entry says.
fn look(
    session: &mut Session<'_>,
    modules: &Modules,
    entry: &Entry,
    netns: &Arc<Netns>,
    netns_path: &str,
    children: Option<&OwnedFd>,
) -> Result<(), CniError> {
    let intended = &entry.intended;
    let pipeline = recorded_pipeline(session, intended, modules);
    let caller = Caller {
        command: Command::Check,
        mode: delete::mode(intended),
        container_id: intended.container_id.clone(),
        until: session.until,
    };
    let exec =
        session.exec(&intended.network, intended.bin_dir.as_deref().map(Path::new), children, session.until);
    let mut bench = Bench::of(Some(netns), session.until, session.route_undo_time());
    let links = bench.links().map_err(|error| CniError::new(code::INVALID_NETNS, error.to_string()))?;
    let mut claims = Vec::new();
    let (read, attached) = (Recorded::of(intended), entry.all_attached());
    for (position, recorded) in intended.attachments.iter().enumerate() {
        let attachment = read.attachment(position, netns_path)?;
        let work = attached[position].and_then(delete::work_of).ok_or_else(|| {
            CniError::new(code::IO, format!("ledger: {}: its result is missing", attachment.name()))
        })?;
        if let Some(chain) = &attachment.chain {
            let at = attachment.at(&caller.container_id, Some(netns_path));
            let previous = document::cached(&work.document, &chain.list.cni_version);
            let mut ahead = Ahead { pipeline: &pipeline, intent: &attachment.subject.context.intent };
            chain
                .check(&exec, &at, previous.as_ref(), &mut ahead)
                .map_err(|error| CniError::from(error).of_network(&recorded.network))?;
        }
        let own = match attached[position].and_then(Event::links) {
            Some(own) => own.to_vec(),
            None => {
                let claimed = document::sandbox_interfaces(&work.document, netns_path);
                own_links(&recorded.ifname, &claimed, &[], &links)
            }
        };
        bench.known = links.iter().filter(|link| own.contains(&link.index)).cloned().collect();
        let scope = Scope { links: own.clone(), tables: Vec::new() };
        let mut record = AttachmentRecord {
            network: recorded.network.clone(),
            ifname: recorded.ifname.clone(),
            ..AttachmentRecord::default()
        };
        let failures =
            run::look(&pipeline, &caller, &attachment.subject, &scope, &work, &mut bench, &mut record.stages);
        session.record.attachments.push(record);
        if let Some(error) = CniError::first_of(failures.into_iter().map(CniError::from)) {
            return Err(noted(error, session));
        }
        claims.push(Claim {
            network: recorded.network.clone(),
            ifname: recorded.ifname.clone(),
            request: attachment.request.clone(),
            links: own,
        });
    }
    let verified = verify(&mut bench, &claims, &mut session.record.notes);
    verified.map_err(|error| noted(error, session))
}

/// Makes ready what the stages need while the delegates work.
struct Ahead<'a> {
    pipeline: &'a Pipeline,
    intent: &'a Intent,
}

impl Escort for Ahead<'_> {
    fn spawned(&mut self, _: &Spawned) -> Result<(), String> {
        Ok(())
    }

    fn waiting(&mut self) {
        self.pipeline.make_spares(Command::Check, self.intent);
    }
}

/// A failure says so if the check had to do without a module of the ADD.
fn noted(mut error: CniError, session: &Session<'_>) -> CniError {
    error.details.extend(session.record.notes.iter().cloned());
    error
}
