use std::path::PathBuf;

use catena::attach::rehearse::{Given, Rehearsal, Rehearsed, rehearse};
use catena::cni::CniError;
use catena::report::record::StageRecord;
use serde_json::{Value, json};

use crate::diff::diff;
use crate::entries::embedded;
use crate::error::Error;
use crate::fixture::Fixture;
use crate::output::{Exit, Report, line};
use crate::record::write_stages;
use crate::trial::{Ready, Trial, write_granted};

/// Try a module or a pipeline on a pod that is not there
///
/// The fixture says what catena would get on stdin, what the delegates would answer, and which links and routes the
/// pod would have. Route changes are made on a table that behaves as the kernel's; nothing of the machine is read or
/// changed. Without a module, and without --pipeline, the fixture's own pipeline is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// [MODULE] FIXTURE: a component's file or an installed module's name, and the fixture's file
    #[arg(num_args = 1..=2, required = true, value_name = "MODULE> <FIXTURE")]
    paths: Vec<String>,
    /// The module's own config, instead of the fixture's
    #[arg(long, value_name = "JSON", value_parser = crate::trial::json)]
    config: Option<Value>,
    #[command(flatten)]
    trial: Trial,
}

/// What is run, on what, and what of it has no effect.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) given: Given,
    pub(crate) ready: Ready,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn prepare(paths: &[String], config: Option<Value>, mut trial: Trial) -> Result<Prepared, Error> {
    let (module, fixture) = match paths {
        [fixture] => (None, fixture),
        [module, fixture] if trial.pipeline.is_none() => (Some(module), fixture),
        _ => return Err(Error::Usage("with --pipeline, name the fixture alone".into())),
    };
    if module.is_none() && config.is_some() {
        return Err(Error::Usage(
            "--config is the config of a module that is tried alone; name one before the fixture, or write the config \
             into the pipeline's entry"
                .into(),
        ));
    }
    let Fixture { given, config: own } = Fixture::load(&PathBuf::from(fixture))?;
    let mut notes = Vec::new();
    if module.is_none() && own.is_some() {
        notes.push(format!("config in {fixture} has no effect: it is for a module that is tried alone"));
    }
    let reference = match module {
        Some(module) => trial.of_module(module, config.or(own).as_ref())?,
        None => given.conf.pipeline.clone(),
    };
    let ready = trial.ready(&reference)?;
    Ok(Prepared { given, ready, notes })
}

impl Run {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let Prepared { given, ready, notes } = prepare(&self.paths, self.config, self.trial)?;
        let mut rehearsal =
            rehearse(&given, &ready.pipeline, &ready.node).map_err(|error| Error::Refused(error.msg))?;
        rehearsal.record.notes.extend(notes);
        let mut text = String::new();
        let granted = write_granted(&ready.granted, &mut text);
        write(&mut text, &rehearsal);
        let mut json = document(&rehearsal);
        json["granted"] = granted;
        Ok(Report { text, json, exit: Exit::negative(rehearsal.answer.is_err()) })
    }
}

fn stages(records: &[StageRecord]) -> Value {
    records.iter().map(StageRecord::to_value).collect()
}

fn write(text: &mut String, rehearsal: &Rehearsal) {
    if !rehearsal.record.arrange.is_empty() {
        line(text, "arrange", "");
        write_stages(text, &stages(&rehearsal.record.arrange));
    }
    for (position, (attachment, record)) in
        rehearsal.attachments.iter().zip(&rehearsal.record.attachments).enumerate()
    {
        line(text, "attachment", &format!("{position}: {} as {}", attachment.network, attachment.ifname));
        if !record.intent.is_null() {
            line(text, "  intent", &record.intent.to_string());
        }
        write_stages(text, &stages(&record.stages));
        for (what, lines) in [("config", config_diff(attachment)), ("result", result_diff(attachment))] {
            if !lines.is_empty() {
                line(text, &format!("  {what}"), "");
                lines.iter().for_each(|one| text.push_str(&format!("    {}\n", one.replace('\n', "\\n"))));
            }
        }
        if let Some(work) = &attachment.work {
            if !work.tags.is_empty() {
                line(text, "  tags", &work.tags.join(", "));
            }
            for (key, value) in &work.publications {
                line(text, "  publishes", &format!("{key} = {value}"));
            }
        }
    }
    for change in &rehearsal.changes {
        line(text, "routes", change);
    }
    for note in &rehearsal.record.notes {
        line(text, "note", note);
    }
    match &rehearsal.answer {
        Ok(result) => line(text, "answer", &result.to_string()),
        Err(error) => {
            line(text, "error", &format!("code {}: {}", error.code, error.msg));
            error.details.iter().for_each(|fact| line(text, "", fact));
        }
    }
}

fn config_diff(attachment: &Rehearsed) -> Vec<String> {
    attachment.config.as_ref().map(|(before, after)| diff(before, after)).unwrap_or_default()
}

fn result_diff(attachment: &Rehearsed) -> Vec<String> {
    let after = attachment.work.as_ref().map(|work| embedded(&work.document.text));
    after.map(|after| diff(&embedded(&attachment.before.text), &after)).unwrap_or_default()
}

/// What became of an ADD, for programs.
pub(crate) fn document(rehearsal: &Rehearsal) -> Value {
    let attachments = rehearsal.attachments.iter().zip(&rehearsal.record.attachments).map(|(one, record)| {
        let work = one.work.as_ref();
        let publications = work.map(|work| &work.publications).into_iter().flatten();
        json!({
            "network": one.network, "ifname": one.ifname, "intent": record.intent,
            "stages": stages(&record.stages), "configChanges": config_diff(one), "resultChanges": result_diff(one),
            "result": work.map(|work| embedded(&work.document.text)), "tags": work.map(|work| &work.tags),
            "publications": publications.map(|(key, text)| (key.clone(), embedded(text))).collect::<Value>(),
        })
    });
    let (answer, error) = match &rehearsal.answer {
        Ok(answer) => (answer.clone(), Value::Null),
        Err(error) => (Value::Null, error_value(error)),
    };
    json!({
        "arrange": stages(&rehearsal.record.arrange), "attachments": attachments.collect::<Value>(),
        "routeChanges": rehearsal.changes, "notes": rehearsal.record.notes, "answer": answer, "error": error,
    })
}

fn error_value(error: &CniError) -> Value {
    json!({ "code": error.code, "msg": error.msg, "details": error.details })
}
