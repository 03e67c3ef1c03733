use catena::node::{NodeConfig, Root};
use catena::wasm::engine;
use serde_json::{Value, json};

use super::install::artifact_value;
use crate::error::Error;
use crate::output::{Report, bytes, line};
use crate::store;

/// List the modules that pipelines can name
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

impl List {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let root = Root::from_env();
        let node = NodeConfig::load(&root)?;
        let lock = store::installed(&root)?;
        let (mut text, mut modules) = (String::new(), Vec::new());
        for name in store::names(&lock) {
            let entry = lock.modules.iter().find(|(key, _)| key.as_str() == name).map(|(_, entry)| entry);
            let rule = node.modules.iter().find(|(key, _)| key.as_str() == name).map(|(_, rule)| rule);
            let previous: Vec<&str> =
                entry.iter().flat_map(|e| &e.previous).map(|installed| installed.digest.as_str()).collect();
            let mut value = match (entry.and_then(|entry| entry.current.as_ref()), store::builtin(&name)) {
                (Some(current), _) => {
                    let stale = !current.artifacts.contains_key(engine::KEY);
                    let grants = rule.map_or(&current.grants, |rule| &rule.grants);
                    let version = current.version.as_deref().unwrap_or("-");
                    let what = format!("installed  {version:8} {} {}", current.digest, bytes(current.size));
                    line(&mut text, &name, &format!("{what}  {}", current.exports.join(" ")));
                    if stale {
                        line(&mut text, "warning", "compiled for another catena; run: catenactl recompile");
                    }
                    json!({
                        "origin": "installed", "version": current.version, "digest": current.digest.as_str(),
                        "size": current.size, "exports": current.exports, "contract": current.contract,
                        "grants": grants.to_value(), "artifact": artifact_value(current), "stale": stale,
                    })
                }
                (None, Some(builtin)) => {
                    let version = env!("CARGO_PKG_VERSION");
                    let what =
                        format!("built-in   {version:8} {} {}", builtin.digest, bytes(builtin.size as u64));
                    line(&mut text, &name, &format!("{what}  {}", builtin.exports.join(" ")));
                    json!({
                        "origin": "built-in", "version": version, "digest": builtin.digest, "size": builtin.size,
                        "exports": builtin.exports, "contract": builtin.contract, "stale": false,
                    })
                }
                (None, None) => continue,
            };
            let pin = rule.and_then(|rule| rule.digest.as_ref());
            if let Some(pin) = pin.filter(|pin| value["digest"] != pin.as_str()) {
                line(&mut text, "note", &format!("node.json pins {name} to {pin}"));
            }
            value["name"] = Value::from(name);
            value["previous"] = json!(previous);
            value["pin"] = json!(pin.map(|pin| pin.as_str()));
            modules.push(value);
        }
        Ok(Report::new(text, json!({ "modules": modules, "engine": engine::KEY })))
    }
}
