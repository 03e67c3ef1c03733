use catena::node::{Digest, Installed, OwnedDir, Root};
use catena::wasm::engine;
use serde_json::json;

use crate::compile::compile;
use crate::component::LIMIT;
use crate::error::Error;
use crate::output::{Exit, Report, line};
use crate::store::Store;

/// Compile everything that is installed for this version of catena
///
/// After an upgrade, or before it with the new catenactl: what the old catena runs stays beside it. A missing or
/// damaged artifact is made anew as well.
#[derive(Debug, clap::Args)]
pub(crate) struct Recompile {}

impl Recompile {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let root = Root::from_env();
        let (mut text, mut compiled, mut failures) = (String::new(), Vec::new(), Vec::new());
        // Nothing installed, nothing to do; no folder is made for it.
        if OwnedDir::open(&root.modules())?.is_some() {
            let mut store = Store::open(&root)?;
            let Store { dir, lock, .. } = &mut store;
            for (name, entry) in &mut lock.modules {
                for installed in entry.all_mut() {
                    if is_whole(dir, installed)? {
                        continue;
                    }
                    let digest = installed.digest.as_str().to_owned();
                    match again(dir, installed) {
                        Ok(()) => {
                            line(&mut text, "compiled", &format!("{name} {digest}"));
                            compiled.push(json!({ "name": name.as_str(), "digest": digest }));
                        }
                        Err(why) => {
                            line(&mut text, "error", &format!("{name} {digest}: {why}"));
                            let error = json!({ "name": name.as_str(), "digest": digest, "error": why });
                            failures.push(error);
                        }
                    }
                }
            }
            if !compiled.is_empty() {
                store.commit()?;
            }
        }
        if compiled.is_empty() && failures.is_empty() {
            line(&mut text, "done", "everything is compiled for this catena");
        }
        let exit = Exit::negative(!failures.is_empty());
        let json = json!({ "engine": engine::KEY, "compiled": compiled, "failures": failures });
        Ok(Report { text, json, exit })
    }
}

/// Whether the artifact for this engine is the one of record.
fn is_whole(dir: &OwnedDir, installed: &Installed) -> Result<bool, Error> {
    let Some(record) = installed.artifacts.get(engine::KEY) else { return Ok(false) };
    let Some((mut file, _)) = dir.file(&installed.artifact_file(engine::KEY))? else { return Ok(false) };
    Ok(Digest::of_file(&mut file).is_ok_and(|digest| digest == record.digest))
}

fn again(dir: &OwnedDir, installed: &mut Installed) -> Result<(), String> {
    let file = installed.module_file();
    let module = dir.read(&file, LIMIT).map_err(|error| error.to_string())?;
    let gone = "install it again with `catenactl install NAME FILE`";
    let module = module.ok_or_else(|| format!("its module {file} is gone; {gone}"))?;
    if Digest::of(&module) != installed.digest {
        return Err(format!("its module {file} was changed; {gone}"));
    }
    let compiled = compile(&module)?;
    dir.write(&installed.artifact_file(engine::KEY), &compiled.artifact, 0o600)
        .map_err(|error| error.to_string())?;
    installed.artifacts.insert(engine::KEY.to_owned(), compiled.record);
    Ok(())
}
