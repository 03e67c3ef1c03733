//! The request: a CNI config of type catena.

use std::path::PathBuf;

use catena_cni::error::code;
use catena_cni::identifier::{IfName, NetworkName};
use catena_cni::json::{self, Map};
use catena_cni::version::{SpecVersion, VersionNumber};
use serde_json::Value;

use super::attachment::AttachmentSpec;
use super::entry::{Entry, bad, member, unknown};
use super::error::CniError;
use crate::delegate::Command;

/// The `type` that catena is usually installed as.
const TYPE: &str = "catena";

/// Keys of Multus that need Kubernetes: without them a pod would silently lack a network.
const UNSUPPORTED: [&str; 9] = [
    "clusterNetwork",
    "defaultNetworks",
    "kubeconfig",
    "namespaceIsolation",
    "globalNamespaces",
    "systemNamespaces",
    "multusNamespace",
    "auxiliaryCNIChainName",
    "readinessindicatorfile",
];

/// A valid request.
#[derive(Debug, Clone)]
pub struct Conf {
    /// The version of the request, in which the answer has to be.
    pub cni_version: SpecVersion,
    /// Name of the network.
    pub name: NetworkName,
    /// Meta-plugin or chained plugin.
    pub role: Role,
    /// The pipeline that stdin selects.
    pub pipeline: PipelineRef,
    /// Whether delegates run at the same time.
    pub parallel: bool,
    /// Searched for delegates before CNI_PATH. Whether the node allows it is not checked here.
    pub bin_dir: Option<PathBuf>,
    /// Where the delegates' results are cached. Whether the node allows it is not checked here.
    pub cni_dir: Option<PathBuf>,
    /// Logging. Whether the node allows the file is not checked here.
    pub log: LogConf,
    /// Capability arguments of the runtime.
    pub runtime_config: Map,
    /// Capabilities that are declared `true`.
    pub capabilities: Vec<String>,
    /// `args`, for the stages.
    pub args: Option<Value>,
    /// Chained: the result so far, with its version filled in.
    pub prev_result: Option<Value>,
    /// GC: the attachments to keep.
    pub valid_attachments: ValidSet,
    /// Keys (with their values) that are accepted and have no effect, to be logged.
    pub ignored: Vec<String>,
    /// The request as it was sent.
    pub raw: Map,
}

/// How catena is called.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// With `delegates`, at least one; the first is the primary.
    Meta(Vec<AttachmentSpec>),
    /// At the end of somebody else's list.
    Chained,
}

/// `pipeline`.
#[derive(Debug, Clone, PartialEq)]
pub enum PipelineRef {
    /// Absent: the node's default.
    Default,
    /// One of the node's.
    Named(String),
    /// Written out.
    Inline(Vec<Entry>),
}

/// `logFile`, `logLevel`, `logToStderr`, as in Multus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConf {
    /// An absolute path.
    pub file: Option<PathBuf>,
    /// What is written.
    pub level: Level,
    /// Whether it goes to stderr too.
    pub to_stderr: bool,
}

/// `logLevel`, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "Multus's words")]
pub enum Level {
    Panic,
    Error,
    Verbose,
    Debug,
}

/// The attachments that GC has to keep, as (container id, interface).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidSet {
    /// The runtime said nothing, so nothing may be deleted.
    Unknown,
    /// These and no others; `null` in the request is the empty set.
    Known(Vec<(String, String)>),
}

impl Conf {
    /// Reads the request for `command`: code 6 if it is no JSON or an envelope member has the wrong type, 7 for a bad
    /// name, 1 for a version that is not spoken or older than the command, then what is wrong in our own keys (2, 7).
    pub fn parse(stdin: &[u8], command: Command) -> Result<Self, CniError> {
        let value = json::parse(stdin)
            .map_err(|error| CniError::new(code::DECODE, format!("the request on stdin: {error}")))?;
        let raw = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => return Err(undecodable("the request on stdin", &other, "a JSON object")),
        };
        let name = name(&raw)?;
        let cni_version = version(&raw, command)?;
        let own_type = member(&raw, "type").and_then(Value::as_str).unwrap_or(TYPE);

        for key in UNSUPPORTED {
            if let Some(value) = member(&raw, key) {
                return Err(unknown(
                    key,
                    value,
                    "catena knows this key of Multus but does not support it yet, because it needs the Kubernetes \
                     API; list the networks in delegates",
                ));
            }
        }
        let role = match member(&raw, "delegates") {
            None => Role::Chained,
            Some(Value::Array(entries)) if entries.is_empty() => {
                return Err(CniError::new(
                    code::INVALID_CONFIG,
                    "delegates is empty; list at least one network, or leave delegates out to be a chained plugin",
                ));
            }
            Some(Value::Array(entries)) => Role::Meta(
                entries
                    .iter()
                    .enumerate()
                    .map(|(index, entry)| {
                        AttachmentSpec::read(entry, &format!("delegates[{index}]"), own_type)
                    })
                    .collect::<Result<_, _>>()?,
            ),
            Some(other) => return Err(bad("delegates", other, "a list")),
        };
        let prev_result = prev_result(&raw, cni_version)?;
        if role == Role::Chained && prev_result.is_none() && matches!(command, Command::Add | Command::Check)
        {
            return Err(CniError::new(
                code::INVALID_CONFIG,
                format!(
                    "there are neither delegates nor a prevResult: with delegates catena runs them, without it has to \
                     stand after another plugin in a list ({command} of network {name})"
                ),
            ));
        }
        Ok(Self {
            pipeline: pipeline(&raw)?,
            parallel: flag(&raw, "parallel")?.unwrap_or(false),
            bin_dir: path(&raw, "binDir")?,
            cni_dir: path(&raw, "cniDir")?,
            log: log(&raw)?,
            runtime_config: object(&raw, "runtimeConfig")?,
            capabilities: capabilities(&raw)?,
            args: member(&raw, "args").cloned(),
            valid_attachments: match command {
                Command::Gc => valid_set(&raw)?,
                _ => ValidSet::Unknown,
            },
            ignored: ignored(&raw)?,
            cni_version,
            name,
            role,
            prev_result,
            raw,
        })
    }

    /// The interface of each delegate, in order: as asked for, else `ifname` for the primary, else `net1`, `net2`, …
    /// by position. Empty for a chained plugin. Two of one name are an error (code 7).
    pub fn interfaces(&self, ifname: &IfName) -> Result<Vec<IfName>, CniError> {
        let Role::Meta(specs) = &self.role else { return Ok(Vec::new()) };
        let mut names: Vec<IfName> = Vec::with_capacity(specs.len());
        for (position, spec) in specs.iter().enumerate() {
            let name = match (&spec.interface, position) {
                (Some(asked), _) => asked.clone(),
                (None, 0) => ifname.clone(),
                (None, position) => IfName::parse(&format!("net{position}"))
                    .map_err(|error| CniError::new(code::INVALID_CONFIG, error.to_string()))?,
            };
            if let Some(earlier) = names.iter().position(|other| *other == name) {
                return Err(CniError::new(
                    code::INVALID_CONFIG,
                    format!(
                        "delegates[{earlier}] and delegates[{position}] would both get the interface {name}; give one \
                         of them another name with \"interface\""
                    ),
                ));
            }
            names.push(name);
        }
        Ok(names)
    }

    /// A meta-plugin below a meta-plugin is refused; `outer` is [`super::Invocation::nested`].
    pub fn refuse_nested(&self, outer: Option<&str>) -> Result<(), CniError> {
        match (&self.role, outer) {
            (Role::Meta(_), Some(outer)) => Err(CniError::new(
                code::INVALID_CONFIG,
                format!(
                    "network {} has delegates, but is itself run as a delegate of the catena network {outer:?}; list \
                     its delegates in {outer:?}",
                    self.name
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// An envelope member of the wrong type; libcni's decoder fails on it too (code 6).
fn undecodable(place: &str, value: &Value, expected: &str) -> CniError {
    let mut error = bad(place, value, expected);
    error.code = code::DECODE;
    error
}

fn name(raw: &Map) -> Result<NetworkName, CniError> {
    let text = match member(raw, "name") {
        None => "",
        Some(Value::String(text)) => text,
        Some(other) => return Err(undecodable("name", other, "a text")),
    };
    if text.is_empty() {
        return Err(CniError::new(code::INVALID_CONFIG, "the network configuration has no name"));
    }
    NetworkName::parse(text)
        .map_err(|error| CniError::new(code::INVALID_CONFIG, format!("bad network name: {error}")))
}

fn version(raw: &Map, command: Command) -> Result<SpecVersion, CniError> {
    let text = match member(raw, "cniVersion") {
        None => "",
        Some(Value::String(text)) => text,
        Some(other) => return Err(undecodable("cniVersion", other, "a text")),
    };
    let since = match command {
        Command::Check => SpecVersion::V0_4_0,
        Command::Gc | Command::Status => SpecVersion::V1_1_0,
        Command::Add | Command::Del | Command::Version => SpecVersion::V0_1_0,
    };
    // Only where versions are compared as numbers is one that has none undecodable to Go plugins.
    if since > SpecVersion::V0_1_0 {
        text.parse::<VersionNumber>()
            .map_err(|error| CniError::new(code::DECODE, format!("cniVersion: {error}")))?;
    }
    let all = || SpecVersion::ALL.map(SpecVersion::as_str).join(", ");
    let version = SpecVersion::from_text(text).ok_or_else(|| {
        CniError::new(
            code::INCOMPATIBLE_VERSION,
            format!("cniVersion {text:?} is not supported; catena speaks {}", all()),
        )
    })?;
    if version < since {
        return Err(CniError::new(
            code::INCOMPATIBLE_VERSION,
            format!("cniVersion {version} has no {command}, which exists since {since}"),
        ));
    }
    Ok(version)
}

fn prev_result(raw: &Map, version: SpecVersion) -> Result<Option<Value>, CniError> {
    match member(raw, "prevResult") {
        None => Ok(None),
        Some(Value::Object(result)) => {
            let mut result = result.clone();
            if json::get(&result, "cniVersion").is_none() {
                result.insert("cniVersion".to_owned(), Value::String(version.as_str().to_owned()));
            }
            Ok(Some(Value::Object(result)))
        }
        Some(other) => Err(undecodable("prevResult", other, "an object")),
    }
}

fn pipeline(raw: &Map) -> Result<PipelineRef, CniError> {
    match member(raw, "pipeline") {
        None => Ok(PipelineRef::Default),
        Some(Value::String(name)) if !name.is_empty() => Ok(PipelineRef::Named(name.clone())),
        Some(Value::Array(entries)) => Ok(PipelineRef::Inline(Entry::read_all(entries, "pipeline")?)),
        Some(other) => Err(bad("pipeline", other, "the name of a pipeline or a list of entries")),
    }
}

fn flag(raw: &Map, key: &str) -> Result<Option<bool>, CniError> {
    match member(raw, key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(bad(key, other, "true or false")),
    }
}

/// An absolute path; an empty text is an absent one, as in Multus.
fn path(raw: &Map, key: &str) -> Result<Option<PathBuf>, CniError> {
    match member(raw, key) {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.starts_with('/') => Ok(Some(PathBuf::from(text))),
        Some(other) => Err(bad(key, other, "an absolute path")),
    }
}

fn log(raw: &Map) -> Result<LogConf, CniError> {
    let file = path(raw, "logFile")?;
    let to_stderr = flag(raw, "logToStderr")?.unwrap_or(false);
    let words = [
        ("panic", Level::Panic),
        ("error", Level::Error),
        ("verbose", Level::Verbose),
        ("debug", Level::Debug),
    ];
    let level = match member(raw, "logLevel") {
        None => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(value) => Some(
            words
                .iter()
                .find(|(word, _)| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(word)))
                .map(|(_, level)| *level)
                .ok_or_else(|| bad("logLevel", value, "panic, error, verbose or debug"))?,
        ),
    };
    let asked = file.is_some() || to_stderr;
    Ok(LogConf { level: level.unwrap_or(if asked { Level::Verbose } else { Level::Panic }), file, to_stderr })
}

fn object(raw: &Map, key: &str) -> Result<Map, CniError> {
    match member(raw, key) {
        None => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(other) => Err(undecodable(key, other, "an object")),
    }
}

fn capabilities(raw: &Map) -> Result<Vec<String>, CniError> {
    let mut declared = Vec::new();
    for (name, value) in object(raw, "capabilities")? {
        match value {
            Value::Bool(true) => declared.push(name),
            Value::Bool(false) | Value::Null => {}
            other => return Err(undecodable(&format!("capabilities.{name}"), &other, "true or false")),
        }
    }
    Ok(declared)
}

/// Both names that the key ever had; libcni sends both, with the same value.
fn valid_set(raw: &Map) -> Result<ValidSet, CniError> {
    let mut known: Option<Vec<(String, String)>> = None;
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        let expected = "a list of objects with containerID and ifname";
        let items = match json::get(raw, key) {
            None => continue,
            Some(Value::Null) => &[][..],
            Some(Value::Array(items)) => items,
            Some(other) => return Err(undecodable(key, other, expected)),
        };
        let set = known.get_or_insert_default();
        for item in items {
            let text = |name| item.as_object().and_then(|map| member(map, name)).and_then(Value::as_str);
            let pair =
                text("containerID").zip(text("ifname")).ok_or_else(|| undecodable(key, item, expected))?;
            let pair = (pair.0.to_owned(), pair.1.to_owned());
            if !set.contains(&pair) {
                set.push(pair);
            }
        }
    }
    Ok(known.map_or(ValidSet::Unknown, ValidSet::Known))
}

fn ignored(raw: &Map) -> Result<Vec<String>, CniError> {
    let mut ignored = Vec::new();
    if flag(raw, "retryDeleteOnError")? == Some(false) {
        ignored.push("retryDeleteOnError is false, but catena always retries".to_owned());
    }
    for key in ["confDir", "logOptions"] {
        if let Some(value) = member(raw, key) {
            ignored.push(format!("{key} has no effect (its value is {})", super::entry::brief(value)));
        }
    }
    Ok(ignored)
}
