//! An author's project, and how a component is made of it.

mod manifest;
mod node;
mod python;
mod rust;

use std::path::{Path, PathBuf};
use std::process::Command;

use catena::node::Grants;

use crate::error::Error;
use crate::output::Progress;
use crate::stages::component::{VERSION, WANTS, with_section};
use manifest::{Lang, Manifest};

/// A component, and what it is called.
#[derive(Debug)]
pub(crate) struct Built {
    /// Of the crate or the manifest.
    pub(crate) name: String,
    pub(crate) component: Vec<u8>,
}

/// Builds the project in a folder: a crate, or what a `catena.json` describes.
pub(crate) fn build(folder: &Path) -> Result<Built, Error> {
    if folder.join("Cargo.toml").is_file() {
        return rust::build(folder);
    }
    let file = folder.join(Manifest::FILE);
    if !file.is_file() {
        return Err(Error::Refused(format!(
            "{} has neither a Cargo.toml nor a {}, so it is no project of a stage; make one with `catenactl new NAME`",
            folder.display(),
            Manifest::FILE
        )));
    }
    let manifest = Manifest::load(&file)?;
    crate::sdk::write_contract(&folder.join("wit/deps/catena-stage"))?;
    let component = {
        let _progress = Progress::start(format!("making a component of {}", manifest.source));
        match manifest.lang {
            Lang::Python => python::componentize(folder, &manifest)?,
            Lang::JavaScript => node::componentize(folder, &manifest)?,
        }
    };
    let mut component = with_section(component, VERSION, manifest.version.as_bytes());
    if manifest.wants != Grants::default() {
        component = with_section(component, WANTS, manifest.wants.to_value().to_string().as_bytes());
    }
    Ok(Built { name: manifest.name, component })
}

/// Runs a language's tool, which writes the component to a file that is read and removed. `what` is for messages.
fn componentize(
    mut command: Command,
    folder: &Path,
    output: &Path,
    input: Option<&str>,
    what: &str,
) -> Result<Vec<u8>, Error> {
    use std::io::Write as _;
    use std::process::Stdio;

    let fail = |why: String| Error::Refused(format!("{what} in {}: {why}", folder.display()));
    let program = command.get_program().to_owned();
    let cannot = |error: std::io::Error| fail(format!("cannot run {}: {error}", program.display()));
    let mut child = command
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.unwrap_or_default().as_bytes()).map_err(|error| fail(error.to_string()))?;
    }
    let done = child.wait_with_output().map_err(|error| fail(error.to_string()))?;
    if !done.status.success() {
        let said =
            format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.len().saturating_sub(12);
        return Err(fail(format!("{}: {}", done.status, lines.get(last..).unwrap_or_default().join(" | "))));
    }
    let component =
        std::fs::read(output).map_err(|source| Error::Read { path: output.to_owned(), source })?;
    std::fs::remove_file(output).map_err(|source| Error::Write { path: output.to_owned(), source })?;
    Ok(component)
}

/// Where a language's tool writes the component of a project.
fn output(folder: &Path) -> Result<PathBuf, Error> {
    let folder = folder.canonicalize().map_err(|source| Error::Read { path: folder.to_owned(), source })?;
    Ok(folder.join(format!(".component-{}.wasm", std::process::id())))
}
