//! Rust, with cargo and a standard library for wasm.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Built;
use crate::error::Error;
use crate::stages::component::{VERSION, encode, with_section};
use crate::stages::toolchain::{Request, TARGET, Toolchain};

/// Builds the crate's library as a component.
pub(super) fn build(folder: &Path) -> Result<Built, Error> {
    let metadata = metadata(folder)?;
    let package = Package::find(&metadata, folder)?;
    // A folder of its own, so that native builds (tests) and this one do not evict each other.
    let built = Toolchain::find()
        .and_then(|toolchain| {
            toolchain.build(&Request {
                workspace: &package.workspace,
                target_dir: &package.target_dir,
                profile: package.profile,
                args: &["--lib", "-p", &package.name],
                remap: &package.elsewhere,
                show: true,
            })
        })
        .map_err(|why| Error::Refused(why.trim_end().to_owned()))?;
    let path = built.join(format!("{}.wasm", package.library.replace('-', "_")));
    let core = std::fs::read(&path).map_err(|source| Error::Read { path, source })?;
    let component = encode(&core).map_err(|why| {
        Error::Refused(format!("{}: {why}; does the crate call export_stage!?", package.name))
    })?;
    let component = with_section(component, VERSION, package.version.as_bytes());
    Ok(Built { name: package.name, component })
}

#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    /// The name of its cdylib.
    library: String,
    workspace: PathBuf,
    target_dir: PathBuf,
    /// `stage` where the workspace has it, else `release`.
    profile: &'static str,
    /// Folders of other crates outside the workspace, and what they are called in the module.
    elsewhere: Vec<(PathBuf, String)>,
}

/// What cargo knows about the crate, as `cargo metadata` prints it.
fn metadata(folder: &Path) -> Result<Value, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .args(["metadata", "--format-version", "1", "--filter-platform", TARGET, "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .output();
    let output = output.map_err(|error| {
        Error::Refused(format!("cannot run {}: {error}; get Rust with rustup", cargo.display()))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Refused(format!("cargo metadata: {}", said.trim().replace('\n', " | "))));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| Error::Refused(format!("cargo metadata: {error}")))
}

impl Package {
    fn find(metadata: &Value, folder: &Path) -> Result<Package, Error> {
        let manifest = folder.join("Cargo.toml");
        let manifest = manifest.canonicalize().map_err(|source| Error::Read { path: manifest, source })?;
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let package = packages.iter().find(|package| Path::new(&text(package, "manifest_path")) == manifest);
        let package = package.ok_or_else(|| {
            Error::Refused(format!(
                "{} is a workspace without a crate of its own; name a crate's folder",
                folder.display()
            ))
        })?;
        let is_cdylib = |target: &&Value| {
            target["crate_types"].as_array().is_some_and(|types| types.iter().any(|kind| kind == "cdylib"))
        };
        let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let library = targets.iter().find(is_cdylib).ok_or_else(|| {
            Error::Refused(format!(
                "{} makes no module; add to its Cargo.toml: [lib] crate-type = [\"cdylib\", \"rlib\"]",
                text(package, "name")
            ))
        })?;
        let workspace = PathBuf::from(text(metadata, "workspace_root"));
        let elsewhere = packages.iter().filter(|package| package["source"].is_null()).filter_map(|package| {
            let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
            let outside = !folder.starts_with(&workspace);
            outside.then(|| (folder.to_owned(), format!("/{}", text(package, "name"))))
        });
        let elsewhere = elsewhere.collect();
        let root = std::fs::read_to_string(workspace.join("Cargo.toml")).unwrap_or_default();
        let profile = if root.contains("[profile.stage]") { "stage" } else { "release" };
        Ok(Package {
            name: text(package, "name"),
            version: text(package, "version"),
            library: text(library, "name"),
            target_dir: Path::new(&text(metadata, "target_directory")).join("stages"),
            workspace,
            profile,
            elsewhere,
        })
    }
}
