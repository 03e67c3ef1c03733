//! JavaScript, with componentize-js on Node.

use std::path::Path;
use std::process::Command;

use super::manifest::Manifest;
use super::{componentize as run, output};
use crate::error::Error;

/// The oldest major version of Node that componentize-js works on.
const OLDEST: u32 = 20;
const PACKAGE: &str = "@bytecodealliance/componentize-js";
/// Its command line of today does not work on Node 20; its API does. With every feature off the component imports
/// nothing of WASI.
const SCRIPT: &str = include_str!("componentize.mjs");

pub(super) fn componentize(folder: &Path, manifest: &Manifest) -> Result<Vec<u8>, Error> {
    check_node()?;
    if !folder.join("node_modules").join(PACKAGE).is_dir() {
        return Err(Error::Refused(format!(
            "{PACKAGE} is not in {}; in the project's folder, run: npm install",
            folder.join("node_modules").display()
        )));
    }
    let output = output(folder)?;
    let mut command = Command::new("node");
    command.args(["--input-type=module", "-", &manifest.source, &manifest.world]).arg(&output);
    run(command, folder, &output, Some(SCRIPT), "componentize-js")
}

fn check_node() -> Result<(), Error> {
    let help = format!("install Node {OLDEST} or newer");
    let found = Command::new("node").arg("--version").output();
    let found = found.map_err(|error| Error::Refused(format!("cannot run node: {error}; {help}")))?;
    let version = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let major = version.strip_prefix('v').and_then(|text| text.split('.').next()?.parse::<u32>().ok());
    match major {
        Some(major) if major >= OLDEST => Ok(()),
        _ => Err(Error::Refused(format!("node is {version}; {help}"))),
    }
}
