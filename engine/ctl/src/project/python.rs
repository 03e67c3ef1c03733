//! Python, with componentize-py.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::manifest::Manifest;
use super::{componentize as run, output};
use crate::error::Error;

pub(super) fn componentize(folder: &Path, manifest: &Manifest) -> Result<Vec<u8>, Error> {
    let tool = tool(folder)?;
    let output = output(folder)?;
    let mut command = Command::new(tool);
    // Without the stubs it would import most of WASI, which a stage has no use for and no grant.
    command
        .args(["--quiet", "--wit-path", "wit", "--world", &manifest.world])
        .args(["componentize", "--stub-wasi", &manifest.source, "--output"])
        .arg(&output);
    run(command, folder, &output, None, "componentize-py")
}

/// The project's own virtual environment first, then PATH.
fn tool(folder: &Path) -> Result<PathBuf, Error> {
    const TOOL: &str = "componentize-py";
    let own = folder.join(".venv/bin").join(TOOL);
    if own.is_file() {
        return own.canonicalize().map_err(|source| Error::Read { path: own, source });
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(TOOL)).find(|file| file.is_file()).ok_or_else(|| {
        Error::Refused(format!(
            "{TOOL} is neither in {} nor in PATH; in the project's folder, run: python3 -m venv .venv && \
             .venv/bin/pip install -r requirements.txt",
            own.display()
        ))
    })
}
