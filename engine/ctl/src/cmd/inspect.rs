use std::path::Path;

use catena::node::{At, Grants, Installed, LockEntry, ModuleName, ModuleRule, NodeConfig, Root};
use catena::wasm::builtin::Builtin;
use catena::wasm::engine;
use catena::wasm::grants::{required, unknown_export};
use serde_json::{Value, json};

use super::install::{artifact_value, options, read};
use crate::component::{self, Description};
use crate::error::Error;
use crate::output::{Report, line};
use crate::store;

/// Show what a module is, imports, exports and wants; it is never run
#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    /// A component's file, or the name of an installed or built-in module
    module: String,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let path = Path::new(&self.module);
        if path.is_file() || self.module.contains('/') {
            let description = component::describe(&read(path)?)
                .map_err(|why| Error::Refused(format!("{}: {why}", path.display())))?;
            return Ok(of_file(path, &description));
        }
        let root = Root::from_env();
        let node = NodeConfig::load(&root)?;
        let lock = store::installed(&root)?;
        let name = ModuleName::parse(&self.module);
        let entry = name.as_ref().and_then(|name| lock.modules.get(name));
        let builtin = store::builtin(&self.module);
        let rule = name.as_ref().and_then(|name| node.modules.get(name));
        let current = entry.and_then(|entry| Some((entry, entry.current.as_ref()?)));
        match (current, builtin) {
            (Some((entry, installed)), _) => Ok(of_entry(&self.module, entry, installed, rule)),
            (None, Some(builtin)) => of_builtin(builtin, rule),
            (None, None) => Err(Error::Refused(format!(
                "there is neither a file nor a module {:?}; modules are {}",
                self.module,
                store::names(&lock).join(", ")
            ))),
        }
    }
}

/// What every kind of module has.
struct Facts<'a> {
    origin: &'a str,
    name: &'a str,
    digest: &'a str,
    size: u64,
    version: Option<&'a str>,
    contract: &'a str,
    exports: Vec<&'a str>,
    imports: Vec<&'a str>,
    wants: &'a Grants,
}

impl Facts<'_> {
    fn write(&self, text: &mut String) -> Value {
        let list = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        line(text, "module", &format!("{} ({})", self.name, self.origin));
        line(text, "digest", self.digest);
        line(text, "size", &format!("{} bytes", self.size));
        if let Some(version) = self.version {
            line(text, "version", version);
        }
        line(text, "contract", &format!("catena:stage {}", self.contract));
        line(text, "exports", &list(&self.exports));
        line(text, "imports", &list(&self.imports));
        json!({
            "origin": self.origin,
            "name": self.name,
            "digest": self.digest,
            "size": self.size,
            "version": self.version,
            "contract": self.contract,
            "exports": self.exports,
            "imports": self.imports,
            "wants": self.wants.to_value(),
        })
    }
}

fn texts(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

fn of_file(path: &Path, description: &Description) -> Report {
    let mut text = String::new();
    let name = path.display().to_string();
    let mut json = Facts {
        origin: "file",
        name: &name,
        digest: description.digest.as_str(),
        size: description.size,
        version: description.version.as_deref(),
        contract: &description.contract,
        exports: texts(&description.exports),
        imports: texts(&description.imports),
        wants: &description.wants,
    }
    .write(&mut text);
    let needs = match unknown_export(&description.contract, &texts(&description.exports)) {
        None => required(description.imports.iter().map(String::as_str), &description.wants),
        Some(why) => Err(why),
    };
    match &needs {
        Ok(needs) => {
            line(&mut text, "needs", &needs.to_string());
            line(&mut text, "install", &format!("catenactl install NAME {name}{}", options(needs)));
        }
        Err(why) => line(&mut text, "refused", why),
    }
    json["needs"] = needs.as_ref().map(Grants::to_value).unwrap_or_default();
    json["refused"] = needs.err().map(Value::from).unwrap_or_default();
    Report::new(text, json)
}

fn of_entry(name: &str, entry: &LockEntry, installed: &Installed, rule: Option<&ModuleRule>) -> Report {
    let mut text = String::new();
    let mut json = Facts {
        origin: "installed",
        name,
        digest: installed.digest.as_str(),
        size: installed.size,
        version: installed.version.as_deref(),
        contract: &installed.contract,
        exports: texts(&installed.exports),
        imports: texts(&installed.imports),
        wants: &installed.wants,
    }
    .write(&mut text);
    match installed.artifacts.get(engine::KEY) {
        Some(artifact) => artifact_size(&mut text, artifact.size),
        None => line(&mut text, "warning", "it is compiled for another catena; run: catenactl recompile"),
    }
    json["artifact"] = artifact_value(installed);
    granted(&mut text, &mut json, rule, &installed.grants);
    pinned(&mut text, &mut json, rule);
    let previous: Vec<&str> = entry.previous.iter().map(|installed| installed.digest.as_str()).collect();
    for digest in &previous {
        line(&mut text, "before", digest);
    }
    json["previous"] = json!(previous);
    Report::new(text, json)
}

fn of_builtin(builtin: &Builtin, rule: Option<&ModuleRule>) -> Result<Report, Error> {
    let wants = serde_json::from_str(builtin.wants)
        .map_err(|error| error.to_string())
        .and_then(|value| {
            Grants::parse(At::Document.member("wants"), &value).map_err(|refused| refused.to_string())
        })
        .map_err(|why| Error::Refused(format!("built-in {}: {why}", builtin.name)))?;
    let mut text = String::new();
    let mut json = Facts {
        origin: "built-in",
        name: builtin.name,
        digest: builtin.digest,
        size: builtin.size as u64,
        version: Some(env!("CARGO_PKG_VERSION")),
        contract: builtin.contract,
        exports: builtin.exports.to_vec(),
        imports: builtin.imports.to_vec(),
        wants: &wants,
    }
    .write(&mut text);
    artifact_size(&mut text, builtin.artifact.len() as u64);
    json["artifact"] = json!({ "size": builtin.artifact.len() });
    granted(&mut text, &mut json, rule, &wants);
    pinned(&mut text, &mut json, rule);
    Ok(Report::new(text, json))
}

/// Artifacts above this size make the first ADD after a boot slow: they have to come from the disk.
const LARGE: u64 = 5 << 20;

fn artifact_size(text: &mut String, size: u64) {
    line(text, "artifact", &format!("{size} bytes"));
    if size > LARGE {
        line(text, "note", "an artifact of more than 5 MB costs each ADD some milliseconds");
    }
}

/// Where the node's file names the module, it decides alone.
fn granted(text: &mut String, json: &mut Value, rule: Option<&ModuleRule>, recorded: &Grants) {
    let grants = rule.map_or(recorded, |rule| &rule.grants);
    let source = if rule.is_some() { " (node.json)" } else { "" };
    line(text, "grants", &format!("{grants}{source}"));
    json["grants"] = grants.to_value();
    json["decidedByNodeFile"] = Value::Bool(rule.is_some());
}

/// A word where another module than the one that is shown would run.
fn pinned(text: &mut String, json: &mut Value, rule: Option<&ModuleRule>) {
    let pin = rule.and_then(|rule| rule.digest.as_ref());
    if let Some(pin) = pin.filter(|pin| json["digest"] != pin.as_str()) {
        let name = json["name"].as_str().unwrap_or_default();
        line(text, "note", &format!("node.json pins {name} to {pin}"));
    }
    json["pin"] = json!(pin.map(|pin| pin.as_str()));
}
