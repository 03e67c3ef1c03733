use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use catena::attach::delete::mode;
use catena::attach::entry::Entry;
use catena::attach::ledger::{Found, Ledger, Slot};
use catena::delegate::{DeviceInfoFile, cache};
use catena::node::Root;
use catena::report::status::StatusFile;
use catena::wasm::Mode;
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::{Exit, Report, line};

/// End what is recorded for a container whose DEL cannot succeed
///
/// The entry, the cached results, the device information and the status file go; no delegate is called, so what the
/// plugins hold (addresses, links outside the pod) stays and is yours to clean up. Where a file cannot be removed its
/// entry stays, what went and what is left is told, and running this again finishes. Exit status 3 then.
#[derive(Debug, clap::Args)]
pub(crate) struct Forget {
    /// The container's (sandbox's) whole id
    container: String,
    /// Also an attachment that is whole: CHECK and DEL will know nothing of it
    #[arg(long)]
    force: bool,
}

/// How long a call of the runtime may hold the entry before we give up.
const PATIENCE: Duration = Duration::from_secs(5);

impl Forget {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let root = Root::from_env();
        let nothing = || {
            Error::Refused(format!(
                "nothing is recorded for a container {:?}; give its whole id",
                self.container
            ))
        };
        if !root.state().is_dir() {
            return Err(nothing());
        }
        let ledger = Ledger::open(&root.state())?;
        // All or none: each is looked at, and locked, before the first one goes.
        let mut own = Vec::new();
        for stem in ledger.stems()? {
            let is_own = match ledger.read_stem(&stem)? {
                Found::Entry(entry) => entry.intended.container_id == self.container,
                // Whose it is can only be read from its name.
                Found::Damaged(_) => stem.split('@').next() == Some(&self.container),
                Found::Nothing => false,
            };
            if !is_own {
                continue;
            }
            let slot = ledger.lock_stem(stem, Instant::now() + PATIENCE)?;
            let found = slot.read()?;
            if let Found::Entry(entry) = &found
                && entry.is_finished()
                && !self.force
            {
                return Err(Error::Refused(format!(
                    "{} of network {} is attached; let the runtime DEL it, or say --force",
                    entry.intended.ifname, entry.intended.network
                )));
            }
            own.push((slot, found));
        }
        if own.is_empty() {
            return Err(nothing());
        }
        let (mut text, mut told) = (String::new(), Told::default());
        for (slot, found) in own {
            told.forget(&root, slot, &found, &mut text);
        }
        for (stem, errors) in &told.left {
            line(
                &mut text,
                "left",
                &format!("{stem}: its entry stays; mend what is told above, then run this again"),
            );
            errors.iter().for_each(|error| line(&mut text, "error", error));
        }
        let left = told.left.iter().map(|(stem, errors)| json!({ "entry": stem, "errors": errors }));
        let json =
            json!({ "forgotten": told.forgotten, "removed": told.removed, "left": left.collect::<Value>() });
        let exit = if told.left.is_empty() { Exit::Done } else { Exit::Unfinished };
        Ok(Report { text, json, exit })
    }
}

/// What was done, in whole or in part.
#[derive(Default)]
struct Told {
    /// Entries that are no more.
    forgotten: Vec<String>,
    /// Files that were there.
    removed: Vec<PathBuf>,
    /// Entries that stay, and what kept them.
    left: Vec<(String, Vec<String>)>,
}

impl Told {
    /// Removes an entry's files, and where none is left the entry: as long as it is there, the rest can be done again.
    fn forget(&mut self, root: &Root, slot: Slot, found: &Found, text: &mut String) {
        let stem = slot.stem().to_owned();
        let mut errors = match found {
            Found::Entry(entry) => self.remove_files(root, entry, text),
            Found::Damaged(_) | Found::Nothing => Vec::new(),
        };
        if errors.is_empty()
            && let Err(error) = slot.remove()
        {
            errors.push(error.to_string());
        }
        if !errors.is_empty() {
            self.left.push((stem, errors));
            return;
        }
        match found {
            Found::Entry(entry) => {
                let what = format!("{} of network {}", entry.intended.ifname, entry.intended.network);
                line(text, "forgotten", &what);
                for attachment in &entry.intended.attachments {
                    let left = format!("whatever {} made for {}", attachment.network, attachment.ifname);
                    line(text, "note", &format!("{left} was not deleted"));
                }
            }
            Found::Damaged(error) => line(text, "forgotten", &format!("{stem}, which was damaged: {error}")),
            Found::Nothing => {}
        }
        self.forgotten.push(stem);
    }

    /// The files beside the entry, each whatever becomes of the others. A cached result would make a later DEL take
    /// the attachment up again.
    fn remove_files(&mut self, root: &Root, entry: &Entry, text: &mut String) -> Vec<String> {
        let intended = &entry.intended;
        let mut errors = Vec::new();
        let mut removed = |path: &Path, was_there: bool, done: Result<(), String>| match done {
            Ok(()) if was_there => {
                line(text, "removed", &path.display().to_string());
                self.removed.push(path.to_owned());
            }
            Ok(()) => {}
            Err(error) => errors.push(error),
        };
        // In chained mode the status is the outer meta-plugin's.
        if mode(intended) == Mode::Meta {
            let folder = root.run().join("status");
            let file = StatusFile::new(&folder, &intended.network, &intended.container_id, &intended.ifname);
            let was_there = file.path().exists();
            removed(file.path(), was_there, file.remove().map_err(|error| error.to_string()));
        }
        for attachment in &intended.attachments {
            if let Some(path) = attachment.device_info.as_deref().map(Path::new) {
                let was_there = path.exists();
                let done = DeviceInfoFile::at(path).remove();
                removed(path, was_there, done.map_err(|error| error.to_string()));
            }
            if attachment.config.is_none() {
                continue;
            }
            let (folder, id) = (Path::new(&intended.cache_dir), &intended.container_id);
            let path = cache::path(folder, &attachment.network, id, &attachment.ifname);
            let was_there = path.exists();
            let done = cache::remove(folder, &attachment.network, id, &attachment.ifname);
            removed(&path, was_there, done.map_err(|error| error.to_string()));
        }
        errors
    }
}
