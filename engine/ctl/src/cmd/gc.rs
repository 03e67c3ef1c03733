use std::collections::BTreeSet;

use catena::attach::ledger::{Found, Ledger};
use catena::node::{NodeConfig, OwnedDir, Root};
use catena::wasm::engine;
use serde_json::json;

use crate::error::Error;
use crate::output::{Report, line};
use crate::store::Store;

/// Remove installed modules that nothing needs any more
///
/// Kept are, of each name, the module in use and the one before it (for rollback), what node.json pins, and what a
/// pod was attached with: CHECK runs the modules of the ADD.
#[derive(Debug, clap::Args)]
pub(crate) struct Gc {
    /// Also remove what is compiled for other versions of catena; not while an older one is still in use
    #[arg(long)]
    other_engines: bool,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let root = Root::from_env();
        let node = NodeConfig::load(&root)?;
        if OwnedDir::open(&root.modules())?.is_none() {
            return Ok(Report::new("done       nothing is installed\n".into(), json!({ "removed": [] })));
        }
        let mut store = Store::open(&root)?;
        let mut text = String::new();
        let mut used: BTreeSet<String> =
            node.modules.values().filter_map(|rule| rule.digest.as_ref()).map(ToString::to_string).collect();
        // What an unreadable entry was attached with is not known, so nothing of what was before goes.
        let known = used_by_pods(&root, &mut used)?;
        if !known {
            line(&mut text, "warning", "an entry of the ledger is damaged, so all modules are kept");
        }
        for entry in store.lock.modules.values_mut() {
            let mut position = 0;
            entry.previous.retain(|installed| {
                position += 1;
                !known || position == 1 || used.contains(installed.digest.as_str())
            });
            for installed in entry.all_mut().filter(|_| self.other_engines) {
                installed.artifacts.retain(|engine, _| engine == engine::KEY);
            }
        }
        let needed = store.files();
        let mut removed: Vec<String> = store.dir.names()?;
        removed.retain(|file| !needed.contains(file));
        if !self.dry_run {
            store.commit()?;
            for file in &removed {
                store.dir.remove(file)?;
            }
        }
        let verb = if self.dry_run { "would go" } else { "removed" };
        for file in &removed {
            line(&mut text, verb, file);
        }
        if removed.is_empty() {
            line(&mut text, "done", "nothing is left over");
        }
        let json = json!({ "removed": removed, "dryRun": self.dry_run, "ledgerIsWhole": known });
        Ok(Report::new(text, json))
    }
}

/// Adds the digests that the ledger names; false where an entry could not be read.
fn used_by_pods(root: &Root, used: &mut BTreeSet<String>) -> Result<bool, Error> {
    let state = root.state();
    if !state.is_dir() {
        return Ok(true);
    }
    let ledger = Ledger::open(&state)?;
    let mut whole = true;
    for stem in ledger.stems()? {
        match ledger.read_stem(&stem)? {
            Found::Entry(entry) => used.extend(entry.intended.pipeline.into_iter().map(|stage| stage.digest)),
            Found::Damaged(_) => whole = false,
            Found::Nothing => {}
        }
    }
    Ok(whole)
}
