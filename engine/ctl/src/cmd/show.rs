use catena::attach::entry::{Entry, Event};
use catena::node::{EntryMode, Root};
use serde_json::{Value, json};

use crate::entries::{Entries, embedded};
use crate::error::Error;
use crate::namespace::{Namespace, interfaces};
use crate::output::{Report, line};
use crate::record::{routes_before, write_stages};

/// Show what was done to a container: attachments, decisions, each stage's time and outcome, route changes, results
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The container's (sandbox's) id, or its beginning
    container: String,
}

impl Show {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let entries = Entries::find(&Root::from_env(), &self.container)?;
        let (mut text, mut documents, mut damaged) = (String::new(), Vec::new(), Vec::new());
        for entry in &entries.whole {
            if !text.is_empty() {
                text.push('\n');
            }
            let now = Namespace::read(entry);
            write(&mut text, entry, now.as_ref().ok());
            // A container that has gone is looked up as well, so this is worth a line and no failure.
            if let Err(why) = &now {
                line(&mut text, "routes", &format!("not known: {why}"));
            }
            let mut document = document(entry, now.as_ref().ok());
            document["routesUnknown"] = now.err().into();
            documents.push(document);
        }
        for (stem, error) in &entries.damaged {
            line(&mut text, "damaged", &format!("{stem}: {error}"));
            damaged.push(json!({ "entry": stem, "error": error }));
        }
        Ok(Report::new(text, json!({ "entries": documents, "damaged": damaged })))
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

/// An attachment's routes now, and as they were before its stages; none where the namespace cannot be looked at.
fn routes(
    now: Option<&Namespace>,
    ifname: &str,
    sandbox: &str,
    result: &str,
    report: &Value,
) -> Option<[Vec<String>; 2]> {
    let now = now?;
    let names = interfaces(ifname, Some(&embedded(result)), sandbox);
    let after: Vec<String> = now.on(&names).map(|route| now.text(route)).collect();
    Some([routes_before(report, &after), after])
}

fn write(text: &mut String, entry: &Entry, now: Option<&Namespace>) {
    let intended = &entry.intended;
    line(text, "container", &intended.container_id);
    line(text, "network", &format!("{} {} ({})", intended.network, intended.ifname, intended.mode));
    line(text, "state", state(entry));
    line(text, "namespace", &intended.netns);
    for stage in &intended.pipeline {
        let mode = if stage.mode == EntryMode::Monitor.as_str() { " (monitor)" } else { "" };
        line(text, "stage", &format!("{} {} {}{mode}", stage.stage, stage.digest, stage.config));
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
            if let Some(time) = report["delegateUs"].as_u64() {
                line(text, "  delegate", &format!("{time} µs"));
            }
            write_stages(text, &report["arrange"]);
            write_stages(text, &report["stages"]);
            if let Some([before, after]) = routes(now, &attachment.ifname, &intended.netns, result, report) {
                before.iter().for_each(|route| line(text, "  before", route));
                after.iter().for_each(|route| line(text, "  now", route));
            }
        }
    }
    for note in entry.notes() {
        line(text, "note", note);
    }
    if let Some(Event::DeleteFailed { errors, .. }) = entry.events.last() {
        for error in errors {
            line(text, "error", error);
        }
    }
}

/// Entries of before there was another mode do not name it; any other word is told as it stands.
fn mode(word: &str) -> &str {
    if word.is_empty() { EntryMode::default().as_str() } else { word }
}

fn document(entry: &Entry, now: Option<&Namespace>) -> Value {
    let intended = &entry.intended;
    let pipeline = intended.pipeline.iter().map(|stage| {
        json!({
            "stage": stage.stage, "digest": stage.digest, "config": embedded(&stage.config),
            "when": stage.when, "unless": stage.unless, "onError": stage.on_error,
            "mode": mode(&stage.mode), "baseline": stage.baseline,
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
            if let Some([before, after]) = routes(now, &attachment.ifname, &intended.netns, result, report) {
                value["attached"]["routesBefore"] = json!(before);
                value["attached"]["routesNow"] = json!(after);
            }
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
        "notes": entry.notes().collect::<Vec<_>>(),
    })
}
