//! A module in the place of a built-in stage, installed as people do it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::case::ROOT_WITH_MODULE;
use crate::place::Place;
use crate::subject::Meta;

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
