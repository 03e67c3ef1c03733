//! Makes the recording of an ADD while it goes on. What goes wrong with it is told at the end and stops nothing.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::attach::entry::Intended;
use crate::attach::recording::{
    After, Before, Failure, RecordedAttachment, Recording, RecordingError, SCHEMA, now_ms,
};
use crate::cni::{CniError, Conf};
use crate::node::{NodeConfig, Root};
use crate::pipeline::bench::Bench;
use crate::pipeline::context::{POD_ANNOTATIONS, annotations};
use crate::pipeline::run::Work;
use crate::pipeline::selection::Pipeline;
use crate::wasm::Document;

/// What was seen so far.
#[derive(Debug)]
pub struct Recorder {
    time_ms: u64,
    cni_version: String,
    secondary_defaults: String,
    annotations: Map<String, Value>,
    admitted: bool,
    attachments: Vec<RecordedAttachment>,
    /// The first thing that could not be read.
    problem: Option<String>,
}

impl Recorder {
    /// A recorder for an ADD, where the node wants recordings.
    pub fn start(node: &NodeConfig, conf: &Conf, pipeline: &Pipeline) -> Option<Recorder> {
        node.record.as_ref()?;
        let granted = |key: &String| {
            pipeline.stages.iter().any(|stage| stage.module.grants().annotations.contains(key))
        };
        Some(Recorder {
            time_ms: now_ms(),
            cni_version: conf.cni_version.as_str().to_owned(),
            secondary_defaults: node.secondary_defaults.as_str().to_owned(),
            annotations: annotations(&conf.runtime_config)
                .into_iter()
                .filter(|(key, _)| granted(key))
                .collect(),
            admitted: false,
            attachments: Vec::new(),
            problem: None,
        })
    }

    /// The next attachment, with the config that `admit` is shown.
    pub fn attachment(&mut self, config: &str) {
        let config = self.read(config);
        self.attachments.push(RecordedAttachment { config, before: None, after: None });
    }

    /// All attachments were admitted.
    pub fn admitted(&mut self) {
        self.admitted = true;
    }

    /// An attachment is there, and its stages begin.
    pub fn before(
        &mut self,
        position: usize,
        document: &Document,
        device_info: Option<&Value>,
        links: &[u32],
        bench: &mut Bench,
    ) {
        let Some(namespace) = self.namespace(bench) else { return };
        let result = self.read(&document.text);
        let before = Before {
            format: document.format.clone(),
            result,
            device_info: device_info.cloned(),
            links: links.to_vec(),
            namespace,
        };
        if let Some(attachment) = self.attachments.get_mut(position) {
            attachment.before = Some(before);
        }
    }

    /// Its stages have ended.
    pub fn after(&mut self, position: usize, work: &Work, bench: &mut Bench) {
        let Some(namespace) = self.namespace(bench) else { return };
        let result = self.read(&work.document.text);
        let publications: BTreeMap<String, Value> =
            work.publications.iter().map(|(key, text)| (key.clone(), self.read(text))).collect();
        let after = After {
            format: work.document.format.clone(),
            result,
            tags: work.tags.clone(),
            publications,
            namespace,
        };
        if let Some(attachment) = self.attachments.get_mut(position) {
            attachment.after = Some(after);
        }
    }

    /// Writes the recording.
    ///
    /// # Errors
    /// In words, since nobody can do anything about it but read them.
    pub fn finish(
        self,
        mut intended: Intended,
        error: Option<&CniError>,
        root: &Root,
        node: &NodeConfig,
    ) -> Result<(), String> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let Some(rule) = &node.record else { return Ok(()) };
        for attachment in &mut intended.attachments {
            attachment.capability_args = without_annotations(&attachment.capability_args);
        }
        let recording = Recording {
            schema: SCHEMA,
            time_ms: self.time_ms,
            cni_version: self.cni_version,
            secondary_defaults: self.secondary_defaults,
            annotations: self.annotations,
            intended,
            admitted: self.admitted,
            attachments: self.attachments,
            error: error.map(|error| Failure { code: error.code, msg: error.msg.clone() }),
        };
        recording.store(root, rule).map_err(|error: RecordingError| error.to_string())
    }

    fn namespace(&mut self, bench: &mut Bench) -> Option<Value> {
        match bench.snapshot() {
            Ok(snapshot) => Some(snapshot.to_json()),
            Err(error) => {
                self.problem.get_or_insert(error.to_string());
                None
            }
        }
    }

    fn read(&mut self, text: &str) -> Value {
        match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                self.problem.get_or_insert(format!("a document that is no JSON: {error}"));
                Value::Null
            }
        }
    }
}

/// Capability arguments as JSON text, without the pod's annotations.
fn without_annotations(arguments: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(mut map) => {
            catena_cni::json::remove(&mut map, POD_ANNOTATIONS);
            Value::Object(map).to_string()
        }
        Err(_) => "{}".to_owned(),
    }
}
