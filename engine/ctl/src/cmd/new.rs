use std::path::{Path, PathBuf};

use serde_json::json;

use crate::error::Error;
use crate::output::{Report, line};
use crate::sdk::{self, write_file};
use crate::store;
use crate::template::{self, Lang};

/// Make a project of a stage, with tests and fixtures, that builds and runs as it is
#[derive(Debug, clap::Args)]
pub(crate) struct New {
    /// The project's name, and its folder's
    name: String,
    #[arg(long, value_enum, default_value = "rust")]
    lang: Lang,
    /// Rust: use the SDK of this checkout of catena instead of the copy that is put into the project
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

/// Where a Rust project has the SDK.
const OWN_SDK: &str = "catena";

impl New {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let name = store::name(&self.name)?;
        if self.lang == Lang::Rust && !is_crate_name(&self.name) {
            return Err(Error::Refused(format!(
                "{name} cannot be a crate's name: a letter, then letters, digits, '_' and '-'"
            )));
        }
        if self.sdk.is_some() && self.lang != Lang::Rust {
            return Err(Error::Refused("--sdk is for Rust; other languages need only the contract".into()));
        }
        let sdk = match &self.sdk {
            None => format!("{OWN_SDK}/sdk/stage"),
            Some(checkout) => crate_in(checkout)?,
        };
        let folder = PathBuf::from(&self.name);
        // A folder that is there is somebody's.
        std::fs::create_dir(&folder)
            .map_err(|error| Error::Refused(format!("make {}: {error}", folder.display())))?;
        let mut written = Vec::new();
        for (path, text) in template::files(self.lang, &self.name, &sdk) {
            write_file(&folder.join(path), &text)?;
            written.push(path);
        }
        match self.lang {
            Lang::Rust => {
                // The crates' versions that the SDK was tested with; cargo drops what is not needed.
                write_file(&folder.join("Cargo.lock"), sdk::lock_file())?;
                if self.sdk.is_none() {
                    sdk::write(&folder.join(OWN_SDK))?;
                }
            }
            Lang::Python | Lang::Js => sdk::write_contract(&folder.join("wit/deps/catena-stage"))?,
        }
        written.sort_unstable();

        let mut text = String::new();
        line(&mut text, "made", &format!("{}: {}", folder.display(), written.join(", ")));
        line(&mut text, "next", &format!("cd {name}"));
        let wasm = format!("catenactl run {name}.wasm fixtures/denied.json");
        for command in self.lang.set_up().into_iter().chain(["catenactl build", &wasm]) {
            line(&mut text, "", command);
        }
        let json = json!({ "folder": folder, "lang": self.lang.as_str(), "files": written, "sdk": sdk });
        Ok(Report::new(text, json))
    }
}

fn is_crate_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains('.')
}

/// The SDK's crate in a checkout of catena.
fn crate_in(checkout: &Path) -> Result<String, Error> {
    let path = checkout.join("sdk/stage");
    if !path.join("Cargo.toml").is_file() {
        return Err(Error::Refused(format!(
            "{} is no checkout of catena: it has no sdk/stage",
            checkout.display()
        )));
    }
    let path = path.canonicalize().map_err(|source| Error::Read { path, source })?;
    Ok(path.display().to_string())
}
