//! Runs a pipeline over a recording: what would have come of that ADD. Nothing outside is read or changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_cni::version::SpecVersion;
use catena_routes::{Family, Route, Snapshot};
use serde::Serialize;
use serde_json::Value;

use crate::attach::add::{claim, rewrite, verify};
use crate::attach::attachment::{Attachment, Recorded};
use crate::attach::delete::{mode, stage};
use crate::attach::document;
use crate::attach::recording::{Before, Failure, RecordedAttachment, Recording};
use crate::cni::CniError;
use crate::pipeline::bench::Bench;
use crate::pipeline::context::ArrangeContext;
use crate::pipeline::ownership::Claim;
use crate::pipeline::run::{self, About, Caller, Work};
use crate::pipeline::selection::Pipeline;
use crate::report::record::{AttachmentRecord, StageRecord};
use crate::routes::backend::Backend;
use crate::routes::kernel::Scope;
use crate::wasm::{Command, Document, ModuleError, Modules};

/// A recording that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the recording cannot be replayed: {0}")]
pub struct ReplayError(String);

/// What came, or would have come, of an ADD: two of them can be compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Why it fails; none where it succeeds.
    pub error: Option<Failure>,
    /// Why it cannot be known how it ends; what is told then is what is known so far.
    pub unknown: Option<String>,
    /// The answer to the runtime.
    pub answer: Option<Value>,
    /// The attachments in order, as far as they come.
    pub attachments: Vec<AttachmentOutcome>,
    /// All routes in the end, as a person reads them; none where it fails, since all is undone then.
    pub routes: BTreeSet<String>,
}

/// What comes of one attachment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentOutcome {
    /// `network/interface`.
    pub name: String,
    /// What is arranged.
    pub intent: Value,
    /// The config that is sent to its delegates. Where another one was sent in the recorded ADD, the result is
    /// still the recorded one.
    pub config: Value,
    /// The result after the pipeline; none if it does not come so far.
    pub result: Option<Value>,
    /// The tags that are set.
    pub tags: Vec<String>,
    /// The publications.
    pub publications: BTreeMap<String, Value>,
}

/// A replay: its outcome, and what each stage did.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// How it ends.
    pub outcome: Outcome,
    /// The calls of `arrange`.
    pub arrange: Vec<StageRecord>,
    /// The calls for each attachment.
    pub attachments: Vec<AttachmentRecord>,
}

impl Recording {
    /// What really came of the ADD.
    ///
    /// # Errors
    /// The recording contradicts itself.
    pub fn outcome(&self) -> Result<Outcome, ReplayError> {
        let mut outcome = Outcome { error: self.error.clone(), ..Outcome::default() };
        for (intended, recorded) in self.intended.attachments.iter().zip(&self.attachments) {
            let config = match &intended.config {
                Some(text) => value(text, "a config")?,
                None => recorded.config.clone(),
            };
            let after = recorded.after.as_ref();
            outcome.attachments.push(AttachmentOutcome {
                name: format!("{}/{}", intended.network, intended.ifname),
                intent: intended.intent.clone(),
                config,
                result: after.map(|after| after.result.clone()),
                tags: after.map(|after| after.tags.clone()).unwrap_or_default(),
                publications: after.map(|after| after.publications.clone()).unwrap_or_default(),
            });
        }
        if self.error.is_none() {
            let mut afters = self.attachments.iter().filter_map(|recorded| recorded.after.as_ref());
            let Some(first) = afters.next() else {
                return Err(ReplayError("it succeeded without a result".to_owned()));
            };
            let primary = Document { format: first.format.clone(), text: first.result.to_string() };
            let answer = document::answer(&primary, self.asked()?);
            outcome.answer = Some(answer.map_err(|error| ReplayError(error.msg))?);
            outcome.routes = lines(&snapshot(&afters.next_back().unwrap_or(first).namespace)?);
        }
        Ok(outcome)
    }

    fn asked(&self) -> Result<SpecVersion, ReplayError> {
        SpecVersion::from_text(&self.cni_version)
            .ok_or_else(|| ReplayError(format!("cniVersion {:?} is unknown", self.cni_version)))
    }

    fn caller(&self) -> Caller {
        Caller {
            command: Command::Add,
            mode: mode(&self.intended),
            container_id: self.intended.container_id.clone(),
            // Nobody waits for a replay but the person who asked for it.
            until: Instant::now() + Duration::from_secs(3600),
        }
    }
}

/// The recorded pipeline, carried out by the modules that have its stages' names now. Its notes tell what of it this
/// catena does not know.
///
/// # Errors
/// One of them cannot be used.
pub fn pipeline(recording: &Recording, modules: &Modules) -> Result<Pipeline, ModuleError> {
    let mut notes = Vec::new();
    let mut stages = Vec::new();
    for entry in &recording.intended.pipeline {
        stages.push(stage(entry, modules.get(&entry.stage)?, &mut notes));
    }
    Ok(Pipeline { stages, notes })
}

/// Runs a pipeline over a recording.
///
/// # Errors
/// The recording contradicts itself. What a stage says, a trap included, is part of the outcome.
pub fn replay(recording: &Recording, pipeline: &Pipeline) -> Result<Replayed, ReplayError> {
    let intended = &recording.intended;
    let mut attachments = Vec::new();
    let read = Recorded::of(intended);
    for position in 0..intended.attachments.len() {
        let mut attachment =
            read.attachment(position, &intended.netns).map_err(|error| ReplayError(error.msg))?;
        attachment.subject.context.annotations = recording.annotations.clone().into();
        attachment.subject.context.intent = Default::default();
        attachments.push(attachment);
    }
    let records = |attachment: &Attachment| AttachmentRecord::of(&attachment.subject);
    let mut replaying = Replaying {
        recording,
        pipeline,
        caller: recording.caller(),
        claims: Vec::new(),
        replayed: Replayed {
            outcome: Outcome::default(),
            arrange: Vec::new(),
            attachments: attachments.iter().map(records).collect(),
        },
        attachments,
    };
    match replaying.run() {
        Ok(()) => {}
        Err(End::Damaged(error)) => return Err(error),
        Err(End::Unknown(why)) => replaying.replayed.outcome.unknown = Some(why),
        Err(End::Failed(error)) => replaying.replayed.outcome.error = Some(error),
    }
    Ok(replaying.replayed)
}

/// Why a replay goes no further.
enum End {
    Failed(Failure),
    Unknown(String),
    Damaged(ReplayError),
}

impl From<ReplayError> for End {
    fn from(error: ReplayError) -> End {
        End::Damaged(error)
    }
}

impl<E: Into<CniError>> From<Said<E>> for End {
    fn from(Said(error): Said<E>) -> End {
        let error = error.into();
        End::Failed(Failure { code: error.code, msg: error.msg })
    }
}

/// An error that a runtime would be told.
struct Said<E>(E);

struct Replaying<'a> {
    recording: &'a Recording,
    pipeline: &'a Pipeline,
    caller: Caller,
    attachments: Vec<Attachment>,
    claims: Vec<Claim>,
    replayed: Replayed,
}

impl<'a> Replaying<'a> {
    fn run(&mut self) -> Result<(), End> {
        self.decide()?;
        let mut bench: Option<Bench> = None;
        let mut primary = None;
        for position in 0..self.attachments.len() {
            let (work, after) = self.attach(position, bench.as_mut())?;
            primary.get_or_insert(work.document.clone());
            bench = Some(after);
        }
        let Some(mut bench) = bench else { return Ok(()) };
        verify(&mut bench, &self.claims, &mut Vec::new()).map_err(Said)?;
        if let Some(primary) = primary {
            let answer = document::answer(&primary, self.recording.asked()?).map_err(Said)?;
            self.replayed.outcome.answer = Some(answer);
        }
        let end = bench.snapshot().map_err(|error| ReplayError(error.to_string()))?;
        self.replayed.outcome.routes = lines(&end);
        Ok(())
    }

    fn decide(&mut self) -> Result<(), End> {
        let intended = &self.recording.intended;
        let about = About {
            network: intended.network.clone(),
            ifname: intended.ifname.clone(),
            context: ArrangeContext {
                sandbox: intended.netns.clone(),
                args: intended.args.clone(),
                secondary_defaults: self.recording.secondary_defaults.clone(),
                annotations: Arc::new(self.recording.annotations.clone()),
            },
        };
        let mut subjects: Vec<_> =
            self.attachments.iter_mut().map(|attachment| &mut attachment.subject).collect();
        // Nobody has looked at the namespace before the first delegate ran.
        let mut bench = Bench::new(Backend::Nowhere);
        let records = &mut self.replayed.arrange;
        run::arrange(self.pipeline, &self.caller, &about, &mut subjects, &mut bench, records)
            .map_err(Said)?;
        for position in 0..self.attachments.len() {
            let recorded = self.recorded(position)?;
            let record = &mut self.replayed.attachments[position];
            let subject = &self.attachments[position].subject;
            record.intent = subject.context.intent.to_value();
            let shown = recorded.config.to_string();
            let stages = &mut record.stages;
            let rewritten =
                run::admit(self.pipeline, &self.caller, subject, &shown, &mut bench, stages).map_err(Said)?;
            if let Some(rewritten) = &rewritten {
                rewrite(&mut self.attachments[position], rewritten).map_err(Said)?;
            }
            let sent = rewritten.unwrap_or(shown);
            self.replayed.outcome.attachments.push(AttachmentOutcome {
                name: self.attachments[position].name(),
                intent: record.intent.clone(),
                config: value(&sent, "a config")?,
                result: None,
                tags: Vec::new(),
                publications: BTreeMap::new(),
            });
        }
        Ok(())
    }

    fn recorded(&self, position: usize) -> Result<&'a RecordedAttachment, End> {
        let recording = self.recording;
        let name = || self.attachments.get(position).map(Attachment::name).unwrap_or_default();
        let missing =
            || End::Unknown(format!("the recorded ADD was denied before {} was asked about", name()));
        recording.attachments.get(position).ok_or_else(missing)
    }

    /// Runs the stages of one attachment on the namespace as it would be then.
    fn attach(&mut self, position: usize, previous: Option<&mut Bench>) -> Result<(Work, Bench), End> {
        let recorded = self.recorded(position)?;
        let earlier = position.checked_sub(1).map(|earlier| self.recorded(earlier)).transpose()?;
        let earlier = earlier.and_then(|earlier| earlier.after.as_ref());
        let Some(before) = &recorded.before else {
            return Err(match &self.recording.error {
                // The delegate failed, whatever the pipeline had said.
                Some(error) if self.recording.admitted && (position == 0 || earlier.is_some()) => {
                    End::Failed(error.clone())
                }
                _ => End::Unknown(format!(
                    "no delegate of {} ran in the recorded ADD",
                    self.attachments[position].name()
                )),
            });
        };
        let namespace = match (previous, earlier) {
            (Some(previous), Some(earlier)) => {
                let reached = previous.snapshot().map_err(|error| ReplayError(error.to_string()))?;
                advance(&reached, &snapshot(&earlier.namespace)?, snapshot(&before.namespace)?)
            }
            _ => snapshot(&before.namespace)?,
        };
        let mut bench = Bench::new(Backend::recorded(namespace));
        let mut work = Work::new(document_of(before));
        let attachment = &mut self.attachments[position];
        attachment.subject.context.delegate_version = document::version(&work.document);
        attachment.subject.context.device_info = before.device_info.clone();
        let scope = Scope { links: before.links.clone(), tables: Vec::new() };
        let records = &mut self.replayed.attachments[position].stages;
        run::add(self.pipeline, &self.caller, &attachment.subject, &scope, &mut work, &mut bench, records)
            .map_err(Said)?;
        self.claims.push(claim(attachment, &before.links));
        let outcome = &mut self.replayed.outcome.attachments[position];
        outcome.result = Some(value(&work.document.text, "a result")?);
        outcome.tags.clone_from(&work.tags);
        for (key, text) in &work.publications {
            outcome.publications.insert(key.clone(), value(text, "a publication")?);
        }
        Ok((work, bench))
    }
}

fn document_of(before: &Before) -> Document {
    Document { format: before.format.clone(), text: before.result.to_string() }
}

fn value(text: &str, what: &str) -> Result<Value, ReplayError> {
    serde_json::from_str(text).map_err(|error| ReplayError(format!("{what} is not JSON: {error}")))
}

fn snapshot(json: &Value) -> Result<Snapshot, ReplayError> {
    Snapshot::from_json(json).map_err(|error| ReplayError(error.to_string()))
}

/// The namespace that a delegate would have left: what it really left (`next`), but for what the replayed stages
/// before it had made other (`reached`) than the recorded ones (`recorded`).
fn advance(reached: &Snapshot, recorded: &Snapshot, next: Snapshot) -> Snapshot {
    let mut routes = next.routes;
    // A route that only the recorded stages removed is still there; one that they alone made is not.
    routes.retain(|route| !recorded.routes.contains(route) || reached.routes.contains(route));
    let kept = reached.routes.iter().filter(|route| !recorded.routes.contains(route));
    let mut kept: Vec<Route> = kept.filter(|route| !routes.contains(route)).cloned().collect();
    // The kernel's order is by family first.
    routes.append(&mut kept);
    routes.sort_by_key(|route| route.family != Family::V4);
    let mut sysctls = next.sysctls;
    for (key, value) in &reached.sysctls {
        if recorded.sysctls.get(key) != Some(value) && sysctls.contains_key(key) {
            sysctls.insert(key.clone(), value.clone());
        }
    }
    Snapshot { routes, sysctls, ..next }
}

/// The routes of a namespace, one line each. What the kernel makes by itself is left out.
fn lines(snapshot: &Snapshot) -> BTreeSet<String> {
    let name = |index: u32| {
        let link = snapshot.links.iter().find(|link| link.index == index);
        link.map_or_else(|| format!("if{index}"), |link| link.name.clone())
    };
    let local = |route: &&Route| route.table != 255;
    snapshot.routes.iter().filter(local).map(|route| route.text(&name)).collect()
}

impl Outcome {
    /// Where `other` differs, one line for each thing; nothing where they are the same. Of two ADDs that fail only
    /// the errors count, since all else is undone.
    pub fn differences(&self, other: &Outcome) -> Vec<String> {
        let (ours, theirs) = (self.ending(), other.ending());
        if ours != theirs {
            return vec![format!("{ours} -> {theirs}")];
        }
        if self.error.is_some() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for (one, two) in self.attachments.iter().zip(&other.attachments) {
            one.differences(two, &mut lines);
        }
        compare("answer", self.answer.as_ref(), other.answer.as_ref(), &mut lines);
        lines.extend(self.routes.difference(&other.routes).map(|route| format!("route gone: {route}")));
        lines.extend(other.routes.difference(&self.routes).map(|route| format!("route added: {route}")));
        lines
    }

    fn ending(&self) -> String {
        match (&self.error, &self.unknown) {
            (Some(error), _) => format!("fails with code {}: {}", error.code, error.msg),
            (None, Some(why)) => format!("unknown: {why}"),
            (None, None) => "succeeds".to_owned(),
        }
    }
}

impl AttachmentOutcome {
    fn differences(&self, other: &AttachmentOutcome, lines: &mut Vec<String>) {
        let name = &self.name;
        compare(&format!("{name}: intent"), Some(&self.intent), Some(&other.intent), lines);
        compare(&format!("{name}: config"), Some(&self.config), Some(&other.config), lines);
        compare(&format!("{name}: result"), self.result.as_ref(), other.result.as_ref(), lines);
        if self.tags != other.tags {
            lines.push(format!("{name}: tags: {} -> {}", self.tags.join(", "), other.tags.join(", ")));
        }
        let keys: BTreeSet<&String> = self.publications.keys().chain(other.publications.keys()).collect();
        for key in keys {
            let (one, two) = (self.publications.get(key), other.publications.get(key));
            compare(&format!("{name}: publication {key}"), one, two, lines);
        }
    }
}

/// Objects are compared member by member, so that a line shows only what differs.
fn compare(what: &str, one: Option<&Value>, two: Option<&Value>, lines: &mut Vec<String>) {
    if one == two {
        return;
    }
    if let (Some(Value::Object(one)), Some(Value::Object(two))) = (one, two) {
        let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
        for key in keys {
            compare(&format!("{what}.{key}"), one.get(key), two.get(key), lines);
        }
        return;
    }
    let text = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
    lines.push(format!("{what}: {} -> {}", text(one), text(two)));
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use serde_json::{Map, json};

    use super::*;
    use crate::attach::entry::tests::intended;
    use crate::attach::recording::{After, SCHEMA};
    use crate::node::{Entry, NodeConfig, Root};

    fn link(index: u32, name: &str) -> Value {
        json!({
            "index": index, "name": name, "altNames": [], "mac": format!("02:00:00:00:00:{index:02x}"), "mtu": 1500,
            "up": true, "carrier": true, "kind": "veth"
        })
    }

    /// The routes of network 10.N.0.0/24 on a link, with a default route if there is a gateway.
    fn routes(link: u32, n: u32, default: bool) -> Vec<Value> {
        let subnet = json!({
            "family": "ipv4", "table": 254, "dst": format!("10.{n}.0.0/24"), "metric": 0, "kind": "unicast",
            "scope": 253, "protocol": 2, "hops": [{"link": link}], "source": format!("10.{n}.0.9")
        });
        let gateway = json!({
            "family": "ipv4", "table": 254, "dst": "0.0.0.0/0", "metric": 0, "kind": "unicast", "scope": 0,
            "protocol": 3, "hops": [{"link": link, "gateway": format!("10.{n}.0.1")}]
        });
        if default { vec![subnet, gateway] } else { vec![subnet] }
    }

    fn namespace(links: Vec<Value>, routes: Vec<Value>) -> Value {
        json!({"namespace": "/run/netns/x", "links": links, "routes": routes, "sysctls": []})
    }

    fn result(ifname: &str, n: u32) -> Value {
        json!({
            "cniVersion": "1.0.0", "interfaces": [{"name": ifname, "sandbox": "/run/netns/x"}],
            "ips": [{"address": format!("10.{n}.0.9/24"), "gateway": format!("10.{n}.0.1"), "interface": 0}],
            "routes": [{"dst": "0.0.0.0/0", "gw": format!("10.{n}.0.1")}]
        })
    }

    /// Two networks with default routes; the second asks for the pod's. `after` the first, the default pipeline had
    /// taken its default route away.
    fn recording() -> Recording {
        let mut intended = intended();
        let mut second = intended.attachments[0].clone();
        second.ifname = "net1".into();
        second.network = "m".into();
        second.config = Some(r#"{"cniVersion":"1.0.0","name":"m","plugins":[{"type":"p"}]}"#.into());
        second.request = json!({"defaultRoute": ["10.2.0.1"]});
        intended.attachments[0].config =
            Some(r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"p"}]}"#.into());
        intended.attachments[0].request = json!({});
        intended.attachments.push(second);
        for attachment in &mut intended.attachments {
            attachment.intent = json!({"ipv4": {"action": "leave"}, "ipv6": {"action": "leave"}});
        }
        let (eth0, net1) = (link(2, "eth0"), link(3, "net1"));
        let config = |attachment: &crate::attach::entry::IntendedAttachment| {
            serde_json::from_str(attachment.config.as_ref().unwrap()).unwrap()
        };
        let before = |links: Vec<u32>, result: Value, namespace: Value| {
            Some(Before { format: "cni/1.0.0".into(), result, device_info: None, links, namespace })
        };
        let after = After {
            format: "cni/1.1.0".into(),
            result: json!({}),
            tags: Vec::new(),
            publications: BTreeMap::new(),
            namespace: namespace(vec![eth0.clone()], routes(2, 1, false)),
        };
        let attachments = vec![
            RecordedAttachment {
                config: config(&intended.attachments[0]),
                before: before(vec![2], result("eth0", 1), namespace(vec![eth0.clone()], routes(2, 1, true))),
                after: Some(after),
            },
            RecordedAttachment {
                config: config(&intended.attachments[1]),
                before: before(
                    vec![3],
                    result("net1", 2),
                    namespace(vec![eth0, net1], [routes(2, 1, false), routes(3, 2, true)].concat()),
                ),
                after: None,
            },
        ];
        Recording {
            schema: SCHEMA,
            time_ms: 1,
            cni_version: "1.0.0".into(),
            secondary_defaults: "keep".into(),
            annotations: Map::new(),
            intended,
            admitted: true,
            attachments,
            error: None,
        }
    }

    fn outcome(recording: &Recording, entries: Value) -> Outcome {
        let temp = tempfile::tempdir().unwrap();
        let node = NodeConfig::default();
        let modules = Modules::open(&Root::from_value(Some(OsStr::new(temp.path()))), &node).unwrap();
        let entries =
            Entry::parse_all(&crate::node::At::Document.member("pipeline"), entries.as_array().unwrap())
                .unwrap();
        let pipeline = Pipeline::of(&entries, &node, &modules).unwrap();
        replay(recording, &pipeline).unwrap().outcome
    }

    fn default_pipeline() -> Value {
        json!([
            {"stage": "result-conversion"}, {"stage": "empty-result"},
            {"stage": "default-gateway", "unless": ["empty"]}, {"stage": "network-status"}
        ])
    }

    fn defaults(outcome: &Outcome) -> Vec<&String> {
        outcome.routes.iter().filter(|route| route.contains("default")).collect()
    }

    #[test]
    fn a_pipeline_does_to_a_recording_what_it_does_to_a_pod() {
        let outcome = outcome(&recording(), default_pipeline());
        assert_eq!((&outcome.error, &outcome.unknown), (&None, &None));
        let defaults = defaults(&outcome);
        assert!(defaults.len() == 1 && defaults[0].contains("10.2.0.1"), "{defaults:?}");
        assert_eq!(outcome.attachments[0].intent["ipv4"]["action"], "filter");
        assert_eq!(outcome.attachments[1].intent["ipv4"]["action"], "override");
        assert_eq!(outcome.answer.as_ref().unwrap()["routes"], Value::Null);
        assert!(outcome.attachments[1].publications.contains_key("k8s.v1.cni.cncf.io/network-status"));
    }

    #[test]
    fn what_only_the_recorded_pipeline_did_has_not_happened() {
        let mut recording = recording();
        recording.intended.attachments[1].request = json!({});
        let outcome = outcome(&recording, json!([{"stage": "result-conversion"}]));
        assert_eq!(outcome.error, None);
        assert_eq!(defaults(&outcome).len(), 2, "the first one's is still there: {:?}", outcome.routes);
    }

    #[test]
    fn a_request_that_is_not_carried_out_fails_as_it_would() {
        let outcome = outcome(&recording(), json!([{"stage": "result-conversion"}]));
        assert_eq!(outcome.error.map(|error| error.code), Some(107));
    }

    #[test]
    fn what_never_ran_is_unknown_and_what_failed_fails_again() {
        let mut recording = recording();
        recording.attachments[1].before = None;
        recording.error = Some(Failure { code: 300, msg: "the delegate said no".into() });
        let failed = outcome(&recording, default_pipeline());
        assert_eq!(failed.error, recording.error);
        // The first attachment's pipeline had failed, so the second's delegate never ran.
        recording.attachments[0].after = None;
        let unknown = outcome(&recording, default_pipeline());
        assert!(unknown.error.is_none() && unknown.unknown.unwrap().contains("no delegate of m/net1"));
    }

    #[test]
    fn differences_are_told_member_by_member() {
        let (one, two) = (outcome(&recording(), default_pipeline()), Outcome::default());
        assert_eq!(one.differences(&one), [""; 0]);
        let mut other = one.clone();
        other.attachments[0].tags.push("x".into());
        other.attachments[1].result.as_mut().unwrap()["dns"] = json!({"domain": "d"});
        other.routes.clear();
        let lines = one.differences(&other);
        assert!(lines.contains(&"n/eth0: tags:  -> x".to_owned()), "{lines:?}");
        assert!(lines.contains(&r#"m/net1: result.dns: absent -> {"domain":"d"}"#.to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("route gone: default via 10.2.0.1")), "{lines:?}");
        let failed = Outcome { error: Some(Failure { code: 105, msg: "no".into() }), ..two };
        assert_eq!(one.differences(&failed), ["succeeds -> fails with code 105: no"]);
        let same = Outcome { attachments: one.attachments.clone(), ..failed.clone() };
        assert_eq!(failed.differences(&same), [""; 0], "all is undone");
    }
}
