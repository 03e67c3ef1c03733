use std::path::{Path, PathBuf};

use catena::attach::recording::{self, Recording};
use catena::attach::replay;
use catena::node::Root;
use catena::pipeline::selection::Pipeline;
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::{Exit, Progress, Report, line};
use crate::trial::{Place, Trial, write_granted};

/// Run a changed pipeline over recorded ADDs, and tell where the outcome would differ from what came of them
///
/// Without --pipeline each recording's own pipeline is run, with the modules that have its stages' names now: what is
/// given with --module, else what is installed. Nothing of the machine is read or changed but the recordings; the
/// routes are those that were recorded. Exit status 1: something would differ, or cannot be known.
#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// Recordings, or folders of them [default: all that this node has]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    trial: Trial,
}

/// What is run over a recording.
enum Tried {
    /// One for all.
    One(Box<Pipeline>),
    /// Each one's own.
    Own(Box<Place>),
}

/// How a recording came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Same,
    Differs,
    Unknown,
    Unusable,
}

impl Verdict {
    const ALL: [Verdict; 4] = [Verdict::Same, Verdict::Differs, Verdict::Unknown, Verdict::Unusable];

    fn as_str(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Differs => "differs",
            Verdict::Unknown => "unknown",
            Verdict::Unusable => "unusable",
        }
    }
}

impl Replay {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let files = files(&self.recordings)?;
        let place = self.trial.place()?;
        let mut text = String::new();
        let granted = write_granted(place.granted(), &mut text);
        let tried = match self.trial.reference()? {
            Some(reference) => Tried::One(Box::new(place.ready(reference)?.pipeline)),
            None => Tried::Own(Box::new(place)),
        };
        let progress = Progress::start(format!("replaying {} recordings", files.len()));
        let mut found = Vec::new();
        for file in &files {
            found.push(one(file, &tried));
        }
        drop(progress);
        for outcome in &found {
            outcome.write(&mut text);
        }
        let count = |verdict| found.iter().filter(|outcome| outcome.verdict == verdict).count();
        let counts =
            Verdict::ALL.map(|verdict| format!("{} {}", count(verdict), verdict.as_str())).join(", ");
        line(&mut text, "replayed", &format!("{} recordings: {counts}", found.len()));
        let mut json = json!({
            "recordings": found.iter().map(Outcome::to_value).collect::<Value>(), "granted": granted,
        });
        for verdict in Verdict::ALL {
            json[verdict.as_str()] = Value::from(count(verdict));
        }
        let exit = Exit::negative(count(Verdict::Same) < found.len());
        Ok(Report { text, json, exit })
    }
}

/// The recordings that are meant, oldest first where they are a folder's.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let root = Root::from_env();
    if named.is_empty() {
        let files = recording::list(&root.records())?;
        if files.is_empty() {
            return Err(Error::Refused(format!(
                "there are no recordings in {}; switch them on with `record` in {}, or name files",
                root.records().display(),
                root.node_file().display()
            )));
        }
        return Ok(files);
    }
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() { files.extend(recording::list(path)?) } else { files.push(path.clone()) }
    }
    Ok(files)
}

/// What became of one recording.
struct Outcome {
    file: PathBuf,
    /// Container, interface and network, and what the pod is called; none where the file could not be read.
    about: Option<About>,
    verdict: Verdict,
    /// What differs, or why it is not known or not usable.
    lines: Vec<String>,
}

struct About {
    container: String,
    ifname: String,
    network: String,
    args: String,
    time_ms: u64,
}

fn one(file: &Path, tried: &Tried) -> Outcome {
    let mut outcome =
        Outcome { file: file.to_owned(), about: None, verdict: Verdict::Unusable, lines: Vec::new() };
    let recording = match Recording::load(file) {
        Ok(recording) => recording,
        Err(error) => {
            outcome.lines.push(error.to_string());
            return outcome;
        }
    };
    let intended = &recording.intended;
    outcome.about = Some(About {
        container: intended.container_id.clone(),
        ifname: intended.ifname.clone(),
        network: intended.network.clone(),
        args: intended.args.clone(),
        time_ms: recording.time_ms,
    });
    match compare(&recording, tried) {
        Ok((verdict, lines)) => (outcome.verdict, outcome.lines) = (verdict, lines),
        Err(why) => outcome.lines.push(why),
    }
    outcome
}

fn compare(recording: &Recording, tried: &Tried) -> Result<(Verdict, Vec<String>), String> {
    let own;
    let pipeline = match tried {
        Tried::One(pipeline) => &**pipeline,
        Tried::Own(place) => {
            own = replay::pipeline(recording, &place.modules).map_err(|error| error.to_string())?;
            if !own.notes.is_empty() {
                return Ok((Verdict::Unknown, own.notes));
            }
            &own
        }
    };
    let real = recording.outcome().map_err(|error| error.to_string())?;
    let would = replay::replay(recording, pipeline).map_err(|error| error.to_string())?.outcome;
    if let Some(why) = would.unknown {
        return Ok((Verdict::Unknown, vec![why]));
    }
    let differences = real.differences(&would);
    let verdict = if differences.is_empty() { Verdict::Same } else { Verdict::Differs };
    Ok((verdict, differences))
}

impl Outcome {
    /// What is as it was is only counted.
    fn write(&self, text: &mut String) {
        if self.verdict == Verdict::Same {
            return;
        }
        let what = match &self.about {
            Some(about) => format!("{} {} of network {}", about.container, about.ifname, about.network),
            None => self.file.display().to_string(),
        };
        line(text, self.verdict.as_str(), &what);
        for one in &self.lines {
            line(text, "", one);
        }
    }

    fn to_value(&self) -> Value {
        let about = self.about.as_ref();
        let reasons = if self.verdict == Verdict::Differs { "differences" } else { "reasons" };
        let mut value = json!({
            "file": self.file, "outcome": self.verdict.as_str(),
            "containerId": about.map(|about| &about.container), "ifname": about.map(|about| &about.ifname),
            "network": about.map(|about| &about.network), "args": about.map(|about| &about.args),
            "timeMs": about.map(|about| about.time_ms), "differences": [],
        });
        value[reasons] = json!(self.lines);
        value
    }
}
