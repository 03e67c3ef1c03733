use std::path::PathBuf;

use serde_json::json;

use crate::component;
use crate::error::Error;
use crate::output::{Report, line};
use crate::project;

/// Build a project as a module: a Rust crate, or what a catena.json describes
///
/// The result is a component that imports what the stage really uses. Needed are, for Rust, cargo and a standard
/// library for wasm32-unknown-unknown (it says how to get one); for Python, componentize-py; for JavaScript, Node 20
/// and componentize-js.
#[derive(Debug, clap::Args)]
pub(crate) struct Build {
    /// The project's folder
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The file to write [default: NAME.wasm in the project's folder]
    #[arg(short, long)]
    output: Option<PathBuf>,
}

impl Build {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let built = project::build(&self.folder)?;
        let description = component::describe(&built.component)
            .map_err(|why| Error::Refused(format!("{}: {why}", self.folder.display())))?;
        let path = self.output.unwrap_or_else(|| self.folder.join(format!("{}.wasm", built.name)));
        std::fs::write(&path, &built.component)
            .map_err(|source| Error::Write { path: path.clone(), source })?;
        let mut text = String::new();
        line(&mut text, "built", &path.display().to_string());
        line(&mut text, "digest", description.digest.as_str());
        line(&mut text, "size", &format!("{} bytes", description.size));
        line(&mut text, "exports", &description.exports.join(", "));
        let imports =
            if description.imports.is_empty() { "none".into() } else { description.imports.join(", ") };
        line(&mut text, "imports", &imports);
        let json = json!({
            "file": path, "name": built.name, "version": description.version,
            "digest": description.digest.as_str(), "size": description.size, "contract": description.contract,
            "exports": description.exports, "imports": description.imports,
            "wants": description.wants.to_value(),
        });
        Ok(Report::new(text, json))
    }
}
