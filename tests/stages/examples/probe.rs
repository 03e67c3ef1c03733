//! Does what its config says, so that a test can see what the host makes of it: changes members of the result,
//! publishes, tags, rewrites members of a config, or denies with what it was shown.

use std::collections::BTreeMap;

use catena_sdk::{Admit, Call, Document, Error, Host, Module, Outcome, Stage, Verdict, export_stage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

struct Probe;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[derive(Default)]
struct Config {
    /// Members of the result and their new values.
    result: Map<String, Value>,
    /// Key and value of publications.
    publish: Map<String, Value>,
    tags: Vec<String>,
    /// JSON pointers into the attachment's config and their new values.
    rewrite: BTreeMap<String, Value>,
    /// Denies in `admit`, with this reason.
    deny: Option<String>,
    /// Denies in `admit` a config that has such a value at such a place.
    refuse: BTreeMap<String, Value>,
    /// Denies in `stage` with the context's member of this name as reason.
    show: Option<String>,
}

impl Module for Probe {
    type Config = Config;
    const LOG_PANICS: bool = false;
}

impl Admit for Probe {
    fn admit(call: &Call<Config>, config: &Value, _: &Host) -> Result<Verdict, Error> {
        if let Some(reason) = &call.config.deny {
            return Err(Error::Denied(reason.clone()));
        }
        for (pointer, value) in &call.config.refuse {
            if config.pointer(pointer) == Some(value) {
                return Err(Error::Denied(format!("{pointer} must not be {value}")));
            }
        }
        if call.config.rewrite.is_empty() {
            return Ok(Verdict::Allow);
        }
        let mut config = config.clone();
        for (pointer, value) in &call.config.rewrite {
            let place = config.pointer_mut(pointer);
            *place.ok_or_else(|| Error::InvalidConfig(format!("rewrite: there is no {pointer}")))? =
                value.clone();
        }
        Ok(Verdict::Rewrite(config))
    }
}

impl Stage for Probe {
    fn add(call: &Call<Config>, document: &Document, _: &Host) -> Result<Outcome, Error> {
        if let Some(member) = &call.config.show {
            return Err(Error::Denied(call.context.all.get(member).unwrap_or(&json!(null)).to_string()));
        }
        let mut outcome = Outcome::unchanged();
        if !call.config.result.is_empty() {
            let mut value = document.value()?;
            for (member, new) in &call.config.result {
                value[member] = new.clone();
            }
            outcome = Outcome::changed(Document { format: document.format.clone(), text: value.to_string() });
        }
        for (key, value) in &call.config.publish {
            outcome = outcome.publish(key, value);
        }
        Ok(call.config.tags.iter().fold(outcome, |outcome, tag| outcome.tag(tag)))
    }
}

export_stage!(Probe: admit, stage);
