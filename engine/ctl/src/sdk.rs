//! What this program carries for authors: the SDK's source, the contract, and the versions of the crates that all of
//! it was tested with.

use std::path::Path;

use crate::error::Error;

/// Paths in the source tree, and texts.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sdk.rs"));
/// The workspace that the SDK's crates inherit from.
static WORKSPACE: &str = include_str!(concat!(env!("OUT_DIR"), "/workspace.toml"));
/// The contract's folder.
const CONTRACT: &str = "wit/0.1.0/";

/// Writes the SDK as a folder that a crate can depend on by path.
pub(crate) fn write(folder: &Path) -> Result<(), Error> {
    write_file(&folder.join("Cargo.toml"), WORKSPACE)?;
    for (name, text) in FILES.iter().filter(|(name, _)| *name != "Cargo.lock") {
        write_file(&folder.join(name), text)?;
    }
    Ok(())
}

/// Versions of the crates. cargo takes out what a project does not use.
pub(crate) fn lock_file() -> &'static str {
    FILES.iter().find(|(name, _)| *name == "Cargo.lock").map(|(_, text)| *text).unwrap_or_default()
}

/// Writes the contract's WIT files.
pub(crate) fn write_contract(folder: &Path) -> Result<(), Error> {
    for (name, text) in FILES {
        if let Some(name) = name.strip_prefix(CONTRACT) {
            write_file(&folder.join(name), text)?;
        }
    }
    Ok(())
}

/// Writes a file and the folders that it is in. One that has this content already is left alone.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    if std::fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    let failed = |source| Error::Write { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}
