use std::path::Path;
use std::time::{Duration, Instant};

use catena::attach::delete::mode;
use catena::attach::entry::Entry;
use catena::attach::ledger::{Found, Ledger};
use catena::delegate::{DeviceInfoFile, cache};
use catena::node::Root;
use catena::report::status::StatusFile;
use catena::wasm::Mode;
use serde_json::json;

use crate::error::Error;
use crate::output::{Report, line};

/// End what is recorded for a container whose DEL cannot succeed
///
/// The entry, the cached results, the device information and the status file go; no delegate is called, so what the
/// plugins hold (addresses, links outside the pod) stays and is yours to clean up.
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
        let (mut text, mut forgotten) = (String::new(), Vec::new());
        for (slot, found) in own {
            let stem = slot.stem().to_owned();
            match found {
                Found::Entry(entry) => {
                    remove_files(&root, &entry)?;
                    let what = format!("{} of network {}", entry.intended.ifname, entry.intended.network);
                    line(&mut text, "forgotten", &what);
                    for attachment in &entry.intended.attachments {
                        let left = format!("whatever {} made for {}", attachment.network, attachment.ifname);
                        line(&mut text, "note", &format!("{left} was not deleted"));
                    }
                }
                Found::Damaged(error) => {
                    line(&mut text, "forgotten", &format!("{stem}, which was damaged: {error}"))
                }
                Found::Nothing => {}
            }
            slot.remove()?;
            forgotten.push(stem);
        }
        if forgotten.is_empty() {
            return Err(nothing());
        }
        Ok(Report::new(text, json!({ "forgotten": forgotten })))
    }
}

/// The files beside the entry. A cached result would make a later DEL take the attachment up again.
fn remove_files(root: &Root, entry: &Entry) -> Result<(), Error> {
    let intended = &entry.intended;
    let failed = |error: &dyn std::fmt::Display| Error::NodeFile(error.to_string());
    // In chained mode the status is the outer meta-plugin's.
    if mode(intended) == Mode::Meta {
        let status = root.run().join("status");
        let status = StatusFile::new(&status, &intended.network, &intended.container_id, &intended.ifname);
        status.remove().map_err(|error| failed(&error))?;
    }
    for attachment in &intended.attachments {
        if let Some(file) = &attachment.device_info {
            DeviceInfoFile::at(file).remove().map_err(|error| failed(&error))?;
        }
        if attachment.config.is_none() {
            continue;
        }
        let folder = Path::new(&intended.cache_dir);
        let path = cache::path(folder, &attachment.network, &intended.container_id, &attachment.ifname);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(&format_args!("remove {}: {error}", path.display())));
            }
            _ => {}
        }
    }
    Ok(())
}
