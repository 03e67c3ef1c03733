//! Entries of the ledger by container.

use catena::attach::entry::Entry;
use catena::attach::ledger::{Found, Ledger};
use catena::node::Root;

use crate::error::Error;

/// What is recorded for containers whose id begins with a text.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) whole: Vec<Entry>,
    /// Names of entries that cannot be read, and why.
    pub(crate) damaged: Vec<(String, String)>,
}

impl Entries {
    /// Reads them; it is an error if there is none.
    pub(crate) fn find(root: &Root, container: &str) -> Result<Entries, Error> {
        let state = root.state();
        let nothing = || Error::Refused(format!("nothing is recorded for a container {container:?}"));
        if !state.is_dir() {
            return Err(nothing());
        }
        let ledger = Ledger::open(&state)?;
        let mut entries = Entries::default();
        for stem in ledger.stems()? {
            match ledger.read_stem(&stem)? {
                Found::Entry(entry) if entry.intended.container_id.starts_with(container) => {
                    entries.whole.push(*entry);
                }
                // Whose it is can only be read from its name.
                Found::Damaged(error) if stem.starts_with(container) => {
                    entries.damaged.push((stem, error.to_string()));
                }
                _ => {}
            }
        }
        if entries.whole.is_empty() && entries.damaged.is_empty() {
            return Err(nothing());
        }
        Ok(entries)
    }
}

/// JSON text of the ledger as JSON, and as text where it is none.
pub(crate) fn embedded(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::from(text))
}
