//! What stages are told beside the documents: the `context` of a call, an open JSON object.

use std::sync::Arc;

use catena_cni::args::CniArgs;
use catena_cni::json;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::node::Grants;
use crate::pipeline::intent::Intent;

/// The capability by which containerd gives a plugin the pod's annotations, all of them.
pub const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// The number in every context; it changes only if a member changes its meaning.
const SCHEMA: u32 = 1;

/// The facts about one attachment that stages see.
#[derive(Debug, Clone)]
pub struct Context {
    /// CNI_NETNS as it was given; empty where there is none.
    pub sandbox: String,
    /// Whether the attachment's result is the answer.
    pub primary: bool,
    /// The name in the network status.
    pub name: String,
    /// Namespace and name of the NetworkAttachmentDefinition.
    pub nad: Option<(Option<String>, String)>,
    /// CNI_ARGS.
    pub args: String,
    /// The attachment's capability arguments; of [`POD_ANNOTATIONS`] among them stages see nothing.
    pub runtime_config: Map<String, Value>,
    /// The pod's annotations, of which a stage sees those that it is granted.
    pub annotations: Arc<Map<String, Value>>,
    /// What the attachment asks for, as stages see it.
    pub request: Value,
    /// What was arranged.
    pub intent: Intent,
    /// How many attachments the sandbox has.
    pub attachments: usize,
    /// The `cniVersion` of the delegate's result, on add once it is there.
    pub delegate_version: Option<String>,
    /// What a delegate has written about the device that it attached, on add.
    pub device_info: Option<Value>,
}

impl Context {
    /// The JSON text for a call with these tags to a module with these grants.
    pub fn text(&self, tags: &[String], grants: &Grants) -> String {
        let shown = Shown {
            schema: SCHEMA,
            sandbox: &self.sandbox,
            primary: self.primary,
            attachments: self.attachments,
            name: &self.name,
            annotations: granted(&self.annotations, grants),
            runtime_config: WithoutAnnotations(&self.runtime_config),
            request: &self.request,
            intent: self.intent.to_value(),
            tags,
            attachment: self
                .nad
                .as_ref()
                .map(|(namespace, name)| Nad { namespace: namespace.as_deref(), name }),
            delegate_version: self.delegate_version.as_deref(),
            device_info: self.device_info.as_ref(),
            pod: pod(&self.args),
        };
        // It fails where a key is no text, and there is none; no stage takes an empty context.
        serde_json::to_string(&shown).unwrap_or_default()
    }

    /// The object for this attachment in `arrange`'s list.
    pub fn arrange_value(&self, position: usize, network: &str, ifname: &str) -> Value {
        let mut value = json!({
            "position": position,
            "network": network,
            "ifname": ifname,
            "primary": self.primary,
            "name": self.name,
            "request": self.request,
            "intent": self.intent.to_value(),
        });
        if let Some(nad) = &self.nad {
            value["attachment"] = nad_value(nad);
        }
        value
    }
}

/// A [`Context`] as one stage sees it. It is written four times for each attachment, so it borrows what it shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    schema: u32,
    sandbox: &'a str,
    primary: bool,
    attachments: usize,
    name: &'a str,
    annotations: Map<String, Value>,
    runtime_config: WithoutAnnotations<'a>,
    request: &'a Value,
    intent: Value,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    attachment: Option<Nad<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delegate_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_info: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Value>,
}

#[derive(Serialize)]
struct Nad<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    name: &'a str,
}

/// Capability arguments of which all but the annotations is shown.
struct WithoutAnnotations<'a>(&'a Map<String, Value>);

impl Serialize for WithoutAnnotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| !json::same_name(key, POD_ANNOTATIONS)))
    }
}

/// The facts that `arrange` is told, which are about no attachment in particular.
#[derive(Debug, Clone)]
pub struct ArrangeContext {
    /// CNI_NETNS as it was given.
    pub sandbox: String,
    /// CNI_ARGS.
    pub args: String,
    /// The node's `secondaryDefaults`.
    pub secondary_defaults: String,
    /// The pod's annotations, of which a stage sees those that it is granted.
    pub annotations: Arc<Map<String, Value>>,
}

impl ArrangeContext {
    /// The JSON text for a call to a module with these grants.
    pub fn text(&self, grants: &Grants) -> String {
        let mut context = json!({
            "schema": SCHEMA,
            "sandbox": self.sandbox,
            "annotations": granted(&self.annotations, grants),
            "secondaryDefaults": self.secondary_defaults,
        });
        if let Some(pod) = pod(&self.args) {
            context["pod"] = pod;
        }
        context.to_string()
    }
}

/// The pod's annotations as capability arguments carry them; none where the runtime gives none.
pub fn annotations(runtime_config: &Map<String, Value>) -> Map<String, Value> {
    let all = json::get(runtime_config, POD_ANNOTATIONS).and_then(Value::as_object);
    let texts = all.into_iter().flatten().filter(|(_, value)| value.is_string());
    texts.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A config of catena as `admit` is shown it: annotations come with the context, as far as they are granted.
pub fn without_annotations(raw: &Map<String, Value>) -> Map<String, Value> {
    let mut raw = raw.clone();
    for (key, value) in &mut raw {
        if json::same_name(key, "runtimeConfig")
            && let Value::Object(arguments) = value
        {
            json::remove(arguments, POD_ANNOTATIONS);
        }
    }
    raw
}

fn granted(annotations: &Map<String, Value>, grants: &Grants) -> Map<String, Value> {
    // By the few that are granted: a pod may have many, and each of its attachments asks.
    let granted = grants.annotations.iter().filter_map(|key| Some((key, annotations.get(key)?)));
    granted.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn nad_value((namespace, name): &(Option<String>, String)) -> Value {
    match namespace {
        Some(namespace) => json!({ "namespace": namespace, "name": name }),
        None => json!({ "name": name }),
    }
}

/// The pod as Kubernetes runtimes name it in CNI_ARGS.
fn pod(args: &str) -> Option<Value> {
    let args = CniArgs::parse(args).ok()?;
    let mut pod = Map::new();
    for (member, key) in
        [("namespace", "K8S_POD_NAMESPACE"), ("name", "K8S_POD_NAME"), ("uid", "K8S_POD_UID")]
    {
        if let Some(value) = args.get(key) {
            pod.insert(member.to_owned(), Value::from(value));
        }
    }
    (!pod.is_empty()).then_some(Value::Object(pod))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::At;

    #[test]
    fn the_context_names_pod_and_attachment() {
        let context = Context {
            sandbox: "/run/netns/x".into(),
            primary: true,
            name: "ns/net".into(),
            nad: Some((Some("ns".into()), "net".into())),
            args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web".into(),
            runtime_config: Map::new(),
            annotations: Arc::default(),
            request: json!({ "defaultRoute": [] }),
            intent: Intent::default(),
            attachments: 2,
            delegate_version: Some("0.2.0".into()),
            device_info: Some(json!({"type": "pci"})),
        };
        let value: Value =
            serde_json::from_str(&context.text(&["empty".to_owned()], &Grants::default())).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["pod"], json!({ "namespace": "default", "name": "web" }));
        assert_eq!(value["attachment"], json!({ "namespace": "ns", "name": "net" }));
        assert_eq!(value["tags"], json!(["empty"]));
        assert_eq!(value["delegateVersion"], "0.2.0");
        assert_eq!(value["deviceInfo"], json!({"type": "pci"}));
        assert_eq!(value["intent"]["ipv4"]["action"], "leave");
    }

    #[test]
    fn of_annotations_a_stage_sees_what_it_is_granted() {
        let all = json!({
            "io.kubernetes.cri.pod-annotations": {"example.com/a": "1", "example.com/b": "2", "n": 3},
            "mac": "02:00:00:00:00:01"
        });
        let runtime_config = all.as_object().unwrap().clone();
        let context = ArrangeContext {
            sandbox: "/n".into(),
            args: String::new(),
            secondary_defaults: "keep".into(),
            annotations: Arc::new(annotations(&runtime_config)),
        };
        let grants = Grants::parse(At::Document, &json!({"annotations": ["example.com/a", "n"]})).unwrap();
        let value: Value = serde_json::from_str(&context.text(&grants)).unwrap();
        assert_eq!(value["annotations"], json!({"example.com/a": "1"}));
        let value: Value = serde_json::from_str(&context.text(&Grants::default())).unwrap();
        assert_eq!(value["annotations"], json!({}));
    }
}
