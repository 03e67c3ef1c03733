//! A module in the place of a built-in stage, installed as people do it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::calls::life;
use crate::case::{Case, ROOT_WITH_MODULE};
use crate::place::Place;
use crate::subject::{Meta, Subject};

/// The stage that is replaced: the default pipeline runs it on every result.
const STAGE: &str = "empty-result";

/// Installs a component in catena's root of cases that have one.
pub(crate) fn install(place: &Place, catenactl: &Path, component: &Path) -> Result<(), String> {
    let root = place.root(ROOT_WITH_MODULE, Meta::CATENA);
    fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let output = Command::new(catenactl)
        .args(["install", STAGE])
        .arg(component)
        .env("CATENA_ROOT", &root)
        .output()
        .map_err(|error| format!("{}: {error}", catenactl.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} install {STAGE} {}: {}", catenactl.display(), component.display(), said.trim()))
}

/// Whether an ADD runs it: a row about a module that is passed over would cost nothing.
pub(crate) fn check(place: &Place, case: &Case, catena: &Meta) -> Result<(), String> {
    let root = place.root(ROOT_WITH_MODULE, Meta::CATENA);
    let modules = root.join("var/lib/catena/modules");
    let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut digests = Vec::new();
    for file in fs::read_dir(&modules).map_err(|error| at(&modules, error))? {
        let name = file.map_err(|error| at(&modules, error))?.file_name();
        digests.extend(name.to_str().and_then(|name| name.strip_suffix(".wasm")).map(str::to_owned));
    }
    let entry = root.join("var/lib/catena/state/bench@bench@meta@eth0.json");
    life(place, case, &Subject::Meta(catena), &mut |command, specs, outputs| {
        for spec in specs {
            place.runner.run(spec)?;
            outputs.push(place.runner.output());
        }
        if command != "ADD" {
            return Ok(());
        }
        let text = fs::read_to_string(&entry).map_err(|error| at(&entry, error))?;
        match digests.iter().find(|digest| text.contains(digest.as_str())) {
            Some(_) => Ok(()),
            None => {
                Err(format!("the module in the place of {STAGE} is not in the pipeline of an ADD: {text}"))
            }
        }
    })
}
