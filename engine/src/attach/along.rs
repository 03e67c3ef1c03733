//! What goes on while delegates run: their processes are made known, what was attached before them is put into libcni's
//! cache, and what comes after them is made ready.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use catena_cni::error::code;
use catena_cni::version::SpecVersion;
use serde_json::value::RawValue;

use crate::attach::attachment::Attachment;
use crate::attach::document::Final;
use crate::attach::entry::{Event, Intended};
use crate::attach::ledger::Slot;
use crate::cni::CniError;
use crate::delegate::{Escort, Spawned, cache, own_share};
use crate::pipeline::run::Work;
use crate::pipeline::selection::Pipeline;
use crate::wasm::Command;

/// An attachment that is there.
pub(super) struct Done {
    /// Its result after the pipeline.
    pub(super) work: Work,
    /// Its links, by their indices.
    pub(super) links: Vec<u32>,
    /// The result, once it was read.
    read: OnceCell<Final>,
}

impl Done {
    /// After its pipeline.
    pub(super) fn new(work: Work, links: Vec<u32>) -> Done {
        Done { work, links, read: OnceCell::new() }
    }

    fn read(&self) -> Result<&Final, CniError> {
        match self.read.get() {
            Some(read) => Ok(read),
            None => Final::read(&self.work.document).map(|read| self.read.get_or_init(|| read)),
        }
    }

    /// The answer's text.
    pub(super) fn answer(&self, asked: SpecVersion) -> Result<String, CniError> {
        self.read()?.answer(asked)
    }

    /// What libcni's cache shall hold; none where the list's version cannot say it.
    fn for_cache(&self, list_version: &str) -> Option<Box<RawValue>> {
        let document = &self.work.document;
        let text = match document.format.strip_prefix("cni/") {
            Some(version) if version == list_version => document.text.clone(),
            _ => self.read().ok()?.in_list(list_version)?,
        };
        RawValue::from_string(text).ok()
    }
}

/// The attachments whose pipeline has ended well, from the first on, and libcni's cache, which gets their results when
/// there is time.
pub(super) struct Results {
    /// The attachments.
    pub(super) done: Vec<Done>,
    /// How many are in the cache.
    cached: usize,
    /// The cache.
    pub(super) folder: PathBuf,
}

impl Results {
    /// None yet.
    pub(super) fn new(folder: PathBuf) -> Results {
        Results { done: Vec::new(), cached: 0, folder }
    }

    /// Puts into the cache what is not there.
    pub(super) fn cache(
        &mut self,
        attachments: &[Attachment],
        container_id: &str,
        netns: &str,
    ) -> Result<(), CniError> {
        for (attachment, done) in attachments.iter().zip(&self.done).skip(self.cached) {
            if let Some(chain) = &attachment.chain
                && let Some(result) = done.for_cache(&chain.list.cni_version)
            {
                let at = attachment.at(container_id, Some(netns));
                cache::store(&self.folder, &chain.list.name, chain.text().as_bytes(), &at, &result)
                    .map_err(|error| CniError::new(code::IO, error.to_string()))?;
            }
            self.cached += 1;
        }
        Ok(())
    }
}

/// Goes along with the delegates of one attachment: makes each known to the ledger, and does meanwhile what the
/// attachment before has left to do and what this one's stages need.
pub(super) struct Along<'a> {
    /// Of the attachment.
    pub(super) position: usize,
    /// The first lines of an entry, where there is none yet.
    pub(super) intended: Option<Intended>,
    /// Whether the ledger has the entry.
    pub(super) begun: &'a mut bool,
    /// The entry.
    pub(super) slot: &'a mut Slot,
    /// The attachment's stages.
    pub(super) pipeline: &'a Pipeline,
    /// All attachments.
    pub(super) attachments: &'a [Attachment],
    /// Of those before this one.
    pub(super) results: &'a mut Results,
    /// CNI_CONTAINERID.
    pub(super) container_id: &'a str,
    /// CNI_NETNS.
    pub(super) netns: &'a str,
    /// What went wrong meanwhile.
    pub(super) outcome: Result<(), CniError>,
    /// How much of the delegates' time was spent on this; see [`own_share`].
    pub(super) own_share: Duration,
}

impl Escort for Along<'_> {
    fn spawned(&mut self, spawned: &Spawned) -> Result<(), String> {
        if self.outcome.is_err() {
            return Err("this ADD has failed while the plugin before it ran".to_owned());
        }
        let event = spawned_event(spawned, self.position);
        let written = match (&self.intended, *self.begun) {
            (Some(intended), false) => self.slot.begin(intended, &[event]),
            _ => self.slot.append(&event),
        };
        *self.begun = true;
        written.map_err(|error| error.to_string())
    }

    fn waiting(&mut self) {
        let start = Instant::now();
        let intent = &self.attachments[self.position].subject.context.intent;
        self.pipeline.make_spares(Command::Add, intent);
        if self.outcome.is_ok() {
            self.outcome = self.results.cache(self.attachments, self.container_id, self.netns);
        }
        self.own_share += own_share(start.elapsed());
    }
}

/// Notes that a process was started.
pub(super) struct Started<'a> {
    /// Whether any was.
    pub(super) started: &'a mut bool,
    /// Who goes along with it beside.
    pub(super) escort: &'a mut dyn Escort,
}

impl Escort for Started<'_> {
    fn spawned(&mut self, spawned: &Spawned) -> Result<(), String> {
        *self.started = true;
        self.escort.spawned(spawned)
    }

    fn waiting(&mut self) {
        self.escort.waiting();
    }
}

/// The event that makes a process known.
pub(super) fn spawned_event(spawned: &Spawned, position: usize) -> Event {
    Event::Spawned { group: spawned.pgid, start_time: spawned.start_time.unwrap_or(0), position }
}
