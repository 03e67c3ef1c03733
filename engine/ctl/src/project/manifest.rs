use std::path::Path;

use catena::node::{At, Grants, ModuleName};
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// `catena.json`: a project in a language whose own manifest does not say enough.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) lang: Lang,
    /// The module (Python) or file (JavaScript) with the exports.
    pub(super) source: String,
    /// The world in `wit/` that it implements.
    pub(super) world: String,
    /// Grants that no import stands for.
    pub(super) wants: Grants,
}

/// The language of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Lang {
    #[serde(rename = "python")]
    Python,
    #[serde(rename = "js")]
    JavaScript,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    version: String,
    lang: Lang,
    source: String,
    #[serde(default = "stage")]
    world: String,
    #[serde(default)]
    wants: Value,
}

fn stage() -> String {
    "stage".to_owned()
}

impl Manifest {
    /// Its name in a project's folder.
    pub(super) const FILE: &'static str = "catena.json";

    pub(super) fn load(path: &Path) -> Result<Manifest, Error> {
        let text = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let bad = |why: String| Error::Refused(format!("{}: {why}", path.display()));
        let raw: Raw = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if ModuleName::parse(&raw.name).is_none() {
            return Err(bad(format!("name {:?} is not 1 to 64 of a-z, 0-9, '.', '_', '-'", raw.name)));
        }
        let wants = match &raw.wants {
            Value::Null => Grants::default(),
            wants => Grants::parse(At::Document.member("wants"), wants)
                .map_err(|refused| bad(refused.to_string()))?,
        };
        Ok(Manifest {
            name: raw.name,
            version: raw.version,
            lang: raw.lang,
            source: raw.source,
            world: raw.world,
            wants,
        })
    }
}
