use catena::attach::entry::{Entry, Event};
use catena::attach::ledger::{Found, Ledger};
use catena::node::Root;
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::{Report, line};

/// Show what the ledger has about a container: attachments, decisions, results, publications
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The container's (sandbox's) id, or its beginning
    container: String,
}

impl Show {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let state = Root::from_env().state();
        let nothing = || Error::Refused(format!("nothing is recorded for a container {:?}", self.container));
        if !state.is_dir() {
            return Err(nothing());
        }
        let ledger = Ledger::open(&state)?;
        let (mut text, mut entries) = (String::new(), Vec::new());
        let mut damaged = Vec::new();
        for stem in ledger.stems()? {
            match ledger.read_stem(&stem)? {
                Found::Entry(entry) if entry.intended.container_id.starts_with(&self.container) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    write(&mut text, &entry);
                    entries.push(document(&entry));
                }
                // Whose it is can only be read from its name.
                Found::Damaged(error) if stem.starts_with(&self.container) => {
                    line(&mut text, "damaged", &format!("{stem}: {error}"));
                    damaged.push(json!({ "entry": stem, "error": error.to_string() }));
                }
                _ => {}
            }
        }
        if entries.is_empty() && damaged.is_empty() {
            return Err(nothing());
        }
        Ok(Report { text, json: json!({ "entries": entries, "damaged": damaged }) })
    }
}

fn state(entry: &Entry) -> &'static str {
    if entry.is_finished() {
        return "attached";
    }
    match entry.events.last() {
        Some(Event::DeleteFailed { .. }) => "delete failed; it will be tried again",
        Some(Event::Deleting) => "being deleted",
        _ => "not finished",
    }
}

fn write(text: &mut String, entry: &Entry) {
    let intended = &entry.intended;
    line(text, "container", &intended.container_id);
    line(text, "network", &format!("{} {} ({})", intended.network, intended.ifname, intended.mode));
    line(text, "state", state(entry));
    line(text, "namespace", &intended.netns);
    for stage in &intended.pipeline {
        line(text, "stage", &format!("{} {} {}", stage.stage, stage.digest, stage.config));
    }
    for (position, attachment) in intended.attachments.iter().enumerate() {
        line(
            text,
            "attachment",
            &format!("{position}: {} as {} on {}", attachment.name, attachment.ifname, attachment.network),
        );
        line(text, "  request", &attachment.request.to_string());
        line(text, "  intent", &attachment.intent.to_string());
        if let Some(Event::Attached { format, result, tags, publications, report, .. }) =
            entry.attached(position)
        {
            line(text, "  tags", &tags.join(", "));
            line(text, "  result", &format!("{format} {result}"));
            for (key, value) in publications {
                line(text, "  publishes", &format!("{key} = {value}"));
            }
            line(text, "  report", &report.to_string());
        }
    }
    if let Some(Event::DeleteFailed { errors, .. }) = entry.events.last() {
        for error in errors {
            line(text, "error", error);
        }
    }
}

/// JSON text of the ledger as JSON, and as text where it is none.
fn embedded(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn document(entry: &Entry) -> Value {
    let intended = &entry.intended;
    let pipeline = intended.pipeline.iter().map(|stage| {
        json!({
            "stage": stage.stage, "digest": stage.digest, "config": embedded(&stage.config),
            "when": stage.when, "unless": stage.unless, "onError": stage.on_error,
        })
    });
    let attachments = intended.attachments.iter().enumerate().map(|(position, attachment)| {
        let mut value = json!({
            "name": attachment.name, "ifname": attachment.ifname, "network": attachment.network,
            "config": attachment.config.as_deref().map(embedded),
            "request": attachment.request, "intent": attachment.intent,
        });
        if let Some(Event::Attached { format, result, tags, publications, report, .. }) =
            entry.attached(position)
        {
            let published = publications.iter().map(|(key, text)| (key.clone(), embedded(text)));
            value["attached"] = json!({
                "format": format, "result": embedded(result), "tags": tags,
                "publications": Value::Object(published.collect()), "report": report,
            });
        }
        value
    });
    let errors = match entry.events.last() {
        Some(Event::DeleteFailed { errors, .. }) => errors.as_slice(),
        _ => &[],
    };
    json!({
        "containerId": intended.container_id, "network": intended.network, "ifname": intended.ifname,
        "mode": intended.mode, "state": state(entry), "netns": intended.netns, "time": intended.time,
        "cacheDir": intended.cache_dir,
        "pipeline": pipeline.collect::<Value>(), "attachments": attachments.collect::<Value>(), "errors": errors,
    })
}
