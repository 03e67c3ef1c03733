use catena::node::{Grants, Installed, ModuleName, NodeConfig, Root};
use catena::wasm::{Facts, engine};
use serde_json::json;

use crate::error::Error;
use crate::output::{Report, line};
use crate::store::{self, Store};

/// Make the module that had a name before the one that it gets again
///
/// Pods that are attached meanwhile get the one or the other. A second rollback goes forth again. Where nothing was
/// installed before, the built-in stage of that name comes back.
#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// The name in pipelines
    name: String,
}

impl Rollback {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let name = store::name(&self.name)?;
        let root = Root::from_env();
        let node = NodeConfig::load(&root)?;
        let builtin = store::builtin(&self.name);
        let mut store = Store::open(&root)?;
        let before = store.lock.modules.get(&name).and_then(|entry| entry.current.as_ref());
        let before = before.map(|installed| installed.digest.to_string());
        let nothing = || {
            Error::Refused(format!(
                "nothing had the name {name} before, so there is nothing to go back to; take the stage out of the \
                 pipelines that name it, or install another module under the name"
            ))
        };
        if !store.lock.roll_back(&name, builtin.is_some()) {
            return Err(nothing());
        }
        let current = store.lock.modules.get(&name).and_then(|entry| entry.current.as_ref());
        if let Some(current) = current {
            let rule = node.modules.get(&name).map(|rule| &rule.grants);
            runnable(&name, current, rule)?;
        }
        let (origin, digest) = match (current, builtin) {
            (Some(installed), _) => ("installed", installed.digest.to_string()),
            (None, Some(builtin)) => ("built-in", builtin.digest.to_owned()),
            (None, None) => return Err(nothing()),
        };
        store.commit()?;

        let mut text = String::new();
        line(&mut text, "current", &format!("{name} ({origin})"));
        line(&mut text, "digest", &digest);
        line(&mut text, "before", before.as_deref().unwrap_or("the built-in one"));
        let pinned = store::pinned(&root, &node, &name);
        if let Some(note) = &pinned {
            line(&mut text, "warning", note);
        }
        let json = json!({
            "name": name.as_str(), "origin": origin, "digest": digest, "before": before, "warning": pinned,
        });
        Ok(Report::new(text, json))
    }
}

/// Whether it would run if a pod came now.
fn runnable(name: &ModuleName, installed: &Installed, rule: Option<&Grants>) -> Result<(), Error> {
    if !installed.artifacts.contains_key(engine::KEY) {
        return Err(Error::Refused(format!(
            "{name} stays as it is: the module before it ({}) is compiled for another catena; run `catenactl \
             recompile`, then this again",
            installed.digest
        )));
    }
    let facts = Facts {
        name: name.as_str(),
        digest: installed.digest.as_str(),
        contract: &installed.contract,
        exports: installed.exports.iter().map(String::as_str).collect(),
        imports: installed.imports.iter().map(String::as_str).collect(),
        wants: installed.wants.clone(),
        grants: rule.unwrap_or(&installed.grants).clone(),
    };
    facts.check().map_err(|error| Error::Refused(format!("{name} stays as it is: {error}")))
}
