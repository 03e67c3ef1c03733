//! The request: a CNI config of type catena.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use catena_cni::error::code;
use catena_cni::identifier::{IfName, NetworkName};
use catena_cni::json::{self, Map};
use catena_cni::result::{self, ResultError};
use catena_cni::version::{SpecVersion, VersionNumber};
use serde_json::{Value, json};

use super::attachment::AttachmentSpec;
use super::error::{CniError, Problems};
use super::member::{bad, brief, member, spelt, unknown};
use crate::delegate::Command;
use crate::inject;
use crate::node::{At, Entry, Problem};

/// The `type` that catena is usually installed as.
const TYPE: &str = "catena";

static ROOT: At<'static> = At::Document;

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
    /// Whether the delegates of secondary attachments run side by side on ADD.
    pub parallel: bool,
    /// Searched for delegates before CNI_PATH. Whether the node allows it is not checked here.
    pub bin_dir: Option<PathBuf>,
    /// Where the delegates' results are cached. Whether the node allows it is not checked here.
    pub cni_dir: Option<PathBuf>,
    /// Logging. Whether the node allows the file is not checked here.
    pub log: LogConf,
    /// Capability arguments of the runtime.
    pub runtime_config: Map,
    /// Chained: the result so far, with its version filled in.
    pub prev_result: Option<Value>,
    /// GC: the attachments to keep.
    pub valid_attachments: ValidSet,
    /// Keys with their values that are accepted and have no effect, to be logged.
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
    /// All problems are named in one error, the first of this order leading.
    pub fn parse(stdin: &[u8], command: Command) -> Result<Self, CniError> {
        let mut problems = Problems::default();
        let conf = Self::read(stdin, command, &mut problems);
        problems.or(conf)
    }

    /// The same for who tells each problem by itself; absent only where there is one.
    pub fn read(stdin: &[u8], command: Command, problems: &mut Problems) -> Option<Self> {
        inject::point("cni/conf");
        let value = json::parse(stdin)
            .map_err(|error| CniError::new(code::DECODE, format!("the request on stdin: {error}")).at(&ROOT));
        let mut raw = match problems.take(value)? {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => {
                let text = format!("the request on stdin must be a JSON object, not {}", brief(&other));
                problems.add(CniError::new(code::DECODE, text).at(&ROOT));
                return None;
            }
        };
        let earlier = problems.count();
        let name = problems.take(name(&raw));
        let cni_version = problems.take(version(&raw, command));
        let own_type = own_type(&raw);
        for key in UNSUPPORTED {
            if let Some(value) = member(&raw, key) {
                problems.add(unknown(
                    &place(&raw, key),
                    value,
                    "catena knows this key of Multus but does not support it yet, because it needs the Kubernetes \
                     API; list the networks in delegates",
                ));
            }
        }
        let role = match member(&raw, "delegates") {
            None => Role::Chained,
            Some(Value::Array(entries)) => {
                if entries.is_empty() {
                    problems.add(Problem::value(
                        &place(&raw, "delegates"),
                        "delegates is empty; list at least one network, or leave delegates out to be a chained plugin",
                    ));
                }
                let (at, earlier) = (place(&raw, "delegates"), problems.len());
                let read =
                    |(index, entry)| AttachmentSpec::read(entry, &at.element(index), own_type, problems);
                let specs = entries.iter().enumerate().filter_map(read).collect();
                if let Some(name) = &name {
                    problems.of_network(earlier, name.as_str());
                }
                Role::Meta(specs)
            }
            Some(other) => {
                problems.add(bad(&place(&raw, "delegates"), other, "a list"));
                Role::Meta(Vec::new())
            }
        };
        // A meta-plugin has no use for it, and DEL has to get on with whatever there is.
        let works_on_it = role == Role::Chained && matches!(command, Command::Add | Command::Check);
        let prev_result = match cni_version {
            Some(version) if works_on_it => prev_result_as(&raw, version),
            version => prev_result(&mut raw, version.unwrap_or(SpecVersion::NEWEST)),
        };
        if works_on_it && matches!(prev_result, Ok(None)) {
            problems.add(Problem::value(
                &ROOT,
                format!(
                    "there are neither delegates nor a prevResult: with delegates catena runs them, without it has to \
                     stand after another plugin in a list ({command})"
                ),
            ));
        }
        let prev_result = problems.take(prev_result).flatten();
        let pipeline = pipeline(&raw, problems);
        let parallel = problems.take(flag(&raw, "parallel")).flatten().unwrap_or(false);
        if let (true, Command::Add, Role::Meta(specs)) = (parallel, command, &role) {
            problems.take(super::parallel::refuse_rivals(&raw, specs));
        }
        let bin_dir = problems.take(path(&raw, "binDir")).flatten();
        let cni_dir = problems.take(path(&raw, "cniDir")).flatten();
        let log = log(&raw, problems);
        let runtime_config = problems.take(object(&raw, "runtimeConfig")).unwrap_or_default();
        capabilities(&raw, problems);
        let valid_attachments = match command {
            Command::Gc => problems.take(valid_set(&raw)).unwrap_or(ValidSet::Unknown),
            _ => ValidSet::Unknown,
        };
        let ignored = problems.take(ignored(&raw)).unwrap_or_default();
        if problems.count() > earlier {
            return None;
        }
        name.zip(cni_version).map(|(name, cni_version)| Self {
            pipeline,
            parallel,
            bin_dir,
            cni_dir,
            log,
            runtime_config,
            valid_attachments,
            ignored,
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
        let mut taken: HashMap<IfName, usize> = HashMap::with_capacity(specs.len());
        for (position, spec) in specs.iter().enumerate() {
            let name = match (&spec.interface, position) {
                (Some(asked), _) => asked.clone(),
                (None, 0) => ifname.clone(),
                (None, position) => IfName::parse(&format!("net{position}"))
                    .map_err(|error| CniError::new(code::INVALID_CONFIG, error.to_string()))?,
            };
            if let Some(earlier) = taken.insert(name.clone(), position) {
                let delegates = place(&self.raw, "delegates");
                let (one, other) = (delegates.element(earlier), delegates.element(position));
                let text = format!(
                    "{one} and {other} would both get the interface {name}; give one of them another name with \
                     \"interface\""
                );
                return Err(Problem::value(&one, text).into());
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
fn undecodable(at: &At<'_>, value: &Value, expected: &str) -> Problem {
    Problem { code: code::DECODE, ..bad(at, value, expected) }
}

/// Where a member of the request stands, as the request spells it.
fn place<'a>(raw: &'a Map, key: &'a str) -> At<'a> {
    At::Member(&ROOT, spelt(raw, key))
}

/// The `type` that catena is called by.
pub(super) fn own_type(raw: &Map) -> &str {
    member(raw, "type").and_then(Value::as_str).unwrap_or(TYPE)
}

fn name(raw: &Map) -> Result<NetworkName, Problem> {
    let at = place(raw, "name");
    let text = match member(raw, "name") {
        None => "",
        Some(Value::String(text)) => text,
        Some(other) => return Err(undecodable(&at, other, "a text")),
    };
    if text.is_empty() {
        return Err(Problem::value(&at, "the network configuration has no name"));
    }
    NetworkName::parse(text).map_err(|error| Problem::value(&at, format!("bad network name: {error}")))
}

fn version(raw: &Map, command: Command) -> Result<SpecVersion, Problem> {
    let at = place(raw, "cniVersion");
    let problem = |code, text| Problem { code, ..Problem::value(&at, text) };
    let text = match member(raw, "cniVersion") {
        None => "",
        Some(Value::String(text)) => text,
        Some(other) => return Err(undecodable(&at, other, "a text")),
    };
    let since = match command {
        Command::Check => SpecVersion::V0_4_0,
        Command::Gc | Command::Status => SpecVersion::V1_1_0,
        Command::Add | Command::Del | Command::Version => SpecVersion::V0_1_0,
    };
    // Only where versions are compared as numbers is one that has none undecodable to Go plugins.
    if since > SpecVersion::V0_1_0 {
        text.parse::<VersionNumber>()
            .map_err(|error| problem(code::DECODE, format!("cniVersion: {error}")))?;
    }
    let all = || SpecVersion::ALL.map(SpecVersion::as_str).join(", ");
    let version = SpecVersion::from_text(text).ok_or_else(|| {
        problem(
            code::INCOMPATIBLE_VERSION,
            format!("cniVersion {text:?} is not supported; catena speaks {}", all()),
        )
    })?;
    if version < since {
        return Err(problem(
            code::INCOMPATIBLE_VERSION,
            format!("cniVersion {version} has no {command}, which exists since {since}"),
        ));
    }
    Ok(version)
}

/// Taken out of the config, since it may be large.
fn prev_result(raw: &mut Map, version: SpecVersion) -> Result<Option<Value>, Problem> {
    match member(raw, "prevResult") {
        None | Some(Value::Object(_)) => {}
        Some(other) => return Err(undecodable(&place(raw, "prevResult"), other, "an object")),
    }
    let Some(Value::Object(mut result)) = json::take(raw, "prevResult") else { return Ok(None) };
    if member(&result, "cniVersion").is_none() {
        json::set(&mut result, "cniVersion", version.as_str().into());
    }
    Ok(Some(Value::Object(result)))
}

/// The same where it is what we work on: of another version's format it would be read as if it were empty, and the
/// pod's addresses would be lost.
fn prev_result_as(raw: &Map, version: SpecVersion) -> Result<Option<Value>, Problem> {
    let Some(previous) = member(raw, "prevResult") else { return Ok(None) };
    if !previous.is_object() {
        return Err(undecodable(&place(raw, "prevResult"), previous, "an object"));
    }
    let request = json!({ "cniVersion": version.as_str(), "prevResult": previous });
    result::prev_result(&request).map_err(|error| {
        let code = match error {
            ResultError::VersionMismatch { .. } | ResultError::UnsupportedVersion { .. } => {
                code::INCOMPATIBLE_VERSION
            }
            _ => code::DECODE,
        };
        Problem { code, ..Problem::value(&place(raw, "prevResult"), format!("prevResult: {error}")) }
    })
}

/// What its pipeline is.
pub(super) fn pipeline(raw: &Map, problems: &mut Problems) -> PipelineRef {
    let at = place(raw, "pipeline");
    match member(raw, "pipeline") {
        None => PipelineRef::Default,
        Some(Value::String(name)) if !name.is_empty() => PipelineRef::Named(name.clone()),
        Some(Value::Array(entries)) => {
            let (entries, found) = Entry::parse_each(&at, entries);
            found.into_iter().for_each(|problem| problems.add(problem));
            PipelineRef::Inline(entries)
        }
        Some(other) => {
            problems.add(bad(&at, other, "the name of a pipeline or a list of entries"));
            PipelineRef::Default
        }
    }
}

fn flag(raw: &Map, key: &str) -> Result<Option<bool>, Problem> {
    match member(raw, key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(bad(&place(raw, key), other, "true or false")),
    }
}

/// An absolute path; an empty text is an absent one, as in Multus.
fn path(raw: &Map, key: &str) -> Result<Option<PathBuf>, Problem> {
    match member(raw, key) {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.starts_with('/') => Ok(Some(PathBuf::from(text))),
        Some(other) => Err(bad(&place(raw, key), other, "an absolute path")),
    }
}

fn log(raw: &Map, problems: &mut Problems) -> LogConf {
    let file = problems.take(path(raw, "logFile")).flatten();
    let to_stderr = problems.take(flag(raw, "logToStderr")).flatten().unwrap_or(false);
    let asked = file.is_some() || to_stderr;
    let level = problems.take(level(raw)).flatten();
    LogConf { level: level.unwrap_or(if asked { Level::Verbose } else { Level::Panic }), file, to_stderr }
}

fn level(raw: &Map) -> Result<Option<Level>, Problem> {
    let words = [
        ("panic", Level::Panic),
        ("error", Level::Error),
        ("verbose", Level::Verbose),
        ("debug", Level::Debug),
    ];
    match member(raw, "logLevel") {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(value) => words
            .iter()
            .find(|(word, _)| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(word)))
            .map(|(_, level)| Some(*level))
            .ok_or_else(|| bad(&place(raw, "logLevel"), value, "panic, error, verbose or debug")),
    }
}

fn object(raw: &Map, key: &str) -> Result<Map, Problem> {
    match member(raw, key) {
        None => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(other) => Err(undecodable(&place(raw, key), other, "an object")),
    }
}

/// What runtimes read them for is their own business; they have to be readable.
fn capabilities(raw: &Map, problems: &mut Problems) {
    let at = place(raw, "capabilities");
    for (name, value) in problems.take(object(raw, "capabilities")).unwrap_or_default() {
        if !matches!(value, Value::Bool(_) | Value::Null) {
            problems.add(undecodable(&at.member(&name), &value, "true or false"));
        }
    }
}

/// Both names that the key ever had; libcni sends both, with the same value.
fn valid_set(raw: &Map) -> Result<ValidSet, Problem> {
    let mut known: Option<Vec<(String, String)>> = None;
    let mut seen = HashSet::new();
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        let expected = "a list of objects with containerID and ifname";
        let items = match json::get(raw, key) {
            None => continue,
            Some(Value::Null) => &[][..],
            Some(Value::Array(items)) => items,
            Some(other) => return Err(undecodable(&place(raw, key), other, expected)),
        };
        let set = known.get_or_insert_default();
        for (index, item) in items.iter().enumerate() {
            let at = place(raw, key);
            let text = |name| item.as_object().and_then(|map| member(map, name)).and_then(Value::as_str);
            let pair = text("containerID").zip(text("ifname"));
            let pair = pair.ok_or_else(|| undecodable(&at.element(index), item, expected))?;
            let pair = (pair.0.to_owned(), pair.1.to_owned());
            if seen.insert(pair.clone()) {
                set.push(pair);
            }
        }
    }
    Ok(known.map_or(ValidSet::Unknown, ValidSet::Known))
}

fn ignored(raw: &Map) -> Result<Vec<String>, Problem> {
    let mut ignored = Vec::new();
    if flag(raw, "retryDeleteOnError")? == Some(false) {
        ignored.push("retryDeleteOnError: false (a failed DEL is always retried)".to_owned());
    }
    for key in ["confDir", "logOptions"] {
        if let Some(value) = member(raw, key) {
            ignored.push(format!("{key}: {}", super::member::brief(value)));
        }
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::node::{EntryMode, OnError};

    fn parse(value: &Value) -> Result<Conf, CniError> {
        Conf::parse(value.to_string().as_bytes(), Command::Add)
    }

    /// A request with these delegates.
    fn meta(delegates: &Value) -> Value {
        json!({ "cniVersion": "1.0.0", "name": "outer", "type": "catena", "delegates": delegates })
    }

    fn with(key: &str, value: Value) -> Value {
        let mut request = meta(&json!([{ "type": "p", "name": "n" }]));
        request[key] = value;
        request
    }

    fn selection(key: &str, value: Value) -> Result<AttachmentSpec, CniError> {
        let config = json!({
            "name": "n", "type": "p",
            "capabilities": { "ips": true, "mac": true, "portMappings": true, "bandwidth": true, "infinibandGUID": true },
        });
        let mut object = json!({ "config": config });
        object[key] = value;
        let conf = parse(&meta(&json!([object])))?;
        match conf.role {
            Role::Meta(mut specs) => Ok(specs.remove(0)),
            Role::Chained => panic!("there are delegates"),
        }
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(parsed: Result<T, CniError>, code: u32, parts: &[&str]) {
        let error = parsed.unwrap_err();
        assert_eq!(error.code, code, "{}", error.msg);
        for part in parts {
            assert!(error.msg.contains(part), "{part:?} is not in {:?}", error.msg);
        }
    }

    #[test]
    fn the_three_kinds_of_delegates_are_told_apart() {
        let text = r#"{ "cniVersion": "0.4.0", "name": "c", "plugins": [{ "type": "p" }, { "type": "q" }] }"#;
        let conf = parse(&meta(&json!([
            { "cniVersion": "0.3.1", "name": "a", "type": "p" },
            { "cniVersion": "0.4.0", "name": "b", "plugins": [{ "type": "p" }] },
            { "name": "nad", "namespace": "ns", "interface": "data0", "config": text },
            { "name": "nad", "config": { "name": "d", "type": "p" }, "example.org/x": 1 },
        ])))
        .unwrap();
        let Role::Meta(specs) = &conf.role else { panic!("there are delegates") };
        let names: Vec<String> = specs.iter().map(AttachmentSpec::status_name).collect();
        assert_eq!(names, ["a", "b", "ns/nad", "nad"]);
        assert_eq!(specs[2].list.name, "c");
        assert_eq!(specs[2].list.plugins.len(), 2);
        let interfaces = conf.interfaces(&IfName::parse("eth0").unwrap()).unwrap();
        let interfaces: Vec<&str> = interfaces.iter().map(IfName::as_str).collect();
        assert_eq!(interfaces, ["eth0", "net1", "data0", "net3"]);
    }

    #[test]
    fn an_interface_is_given_once() {
        let conf = parse(&meta(&json!([
            { "interface": "net1", "config": { "name": "a", "type": "p" } },
            { "name": "b", "type": "p" },
        ])))
        .unwrap();
        let error = conf.interfaces(&IfName::parse("eth0").unwrap());
        refused(error, 7, &["delegates[0]", "delegates[1]", "net1"]);
    }

    #[test]
    fn delegates_are_there_or_not() {
        refused(parse(&meta(&json!([]))), 7, &["delegates is empty"]);
        refused(parse(&meta(&json!({}))), 7, &["delegates"]);
        let chained = json!({ "cniVersion": "1.0.0", "name": "n", "type": "catena" });
        refused(parse(&chained), 7, &["prevResult"]);
        let text = chained.to_string();
        assert_eq!(Conf::parse(text.as_bytes(), Command::Del).unwrap().role, Role::Chained);
        let mut chained = chained;
        chained["prevResult"] = json!({ "ips": [] });
        let conf = parse(&chained).unwrap();
        assert_eq!(conf.prev_result.unwrap()["cniVersion"], "1.0.0");
    }

    /// tests/vectors/prevresult-parse.json, as the chained plugin reads it.
    #[test]
    fn a_chained_plugin_reads_its_prev_result_as_a_go_plugin_does() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/prevresult-parse.json");
        let vectors: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let cases = vectors["cases"].as_array().unwrap();
        assert_eq!(Some(cases.len() as u64), vectors["count"].as_u64());
        for case in cases {
            let mut request: Value = serde_json::from_str(case["request_text"].as_str().unwrap()).unwrap();
            request["name"] = json!("n");
            for command in [Command::Add, Command::Check] {
                if command == Command::Check && request["cniVersion"].as_str().is_none_or(|v| v < "0.4.0") {
                    continue;
                }
                let parsed = Conf::parse(request.to_string().as_bytes(), command);
                let id = &case["id"];
                match (case["expect"] == "ok", case["prevResult"].is_null()) {
                    // Where there is none, there is nothing to work on.
                    (true, true) => refused(parsed, 7, &["neither delegates nor a prevResult"]),
                    (true, false) => {
                        let read =
                            parsed.unwrap_or_else(|error| panic!("{id}: {error:?}")).prev_result.unwrap();
                        let version = result::check(&read).unwrap();
                        assert_eq!(result::convert(&read, version).unwrap(), case["prevResult"], "{id}");
                        assert_eq!(version.as_str(), case["version"].as_str().unwrap_or("0.1.0"), "{id}");
                    }
                    (false, _) if case["error_class"] == "result-version-mismatch" => {
                        refused(parsed, 1, &["prevResult", "another format"]);
                    }
                    (false, _) => refused(parsed, 6, &["prevResult"]),
                }
            }
        }
    }

    #[test]
    fn a_prev_result_without_a_version_is_of_the_requests() {
        let chained = |version: &str, previous: Value| json!({ "cniVersion": version, "name": "n", "type": "catena", "prevResult": previous });
        let address = || json!([{ "address": "192.0.2.5/24" }]);
        for spelled in ["cniVersion", "CNIVERSION"] {
            let request = chained("1.0.0", json!({ spelled: null, "ips": address() }));
            for command in [Command::Add, Command::Del] {
                let conf = Conf::parse(request.to_string().as_bytes(), command).unwrap();
                let expected = json!({ "ips": address(), "cniVersion": "1.0.0" });
                assert_eq!(conf.prev_result, Some(expected), "{command}");
            }
        }
        let future = chained("1.1.0", json!({ "cniVersion": "9.0.0", "ips": address() }));
        refused(parse(&future), 1, &["prevResult", "9.0.0"]);
        // DEL gets on, and a meta-plugin does not look at it.
        assert!(Conf::parse(future.to_string().as_bytes(), Command::Del).is_ok());
        let old = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "192.0.2.5/24" } });
        assert!(parse(&with("prevResult", old)).is_ok());
    }

    #[test]
    fn keys_that_need_kubernetes_are_refused_by_name() {
        for key in UNSUPPORTED {
            refused(parse(&with(key, json!("x"))), 2, &[key, "\"x\""]);
        }
        // Go matches names without regard to case, so this would have worked there.
        refused(parse(&with("KubeConfig", json!("/k"))), 2, &["KubeConfig", "/k"]);
        assert!(parse(&with("kubeconfig", json!(null))).is_ok());
        assert!(parse(&with("somebodysKey", json!(1))).is_ok(), "the envelope is open");
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let mut request = meta(&json!([
            { "name": "a", "type": "p" },
            { "ips": [], "mac": 1, "config": { "name": "b", "type": "p" } },
            { "name": "c", "plugins": [] },
        ]));
        request["cniVersion"] = json!("9.9.9");
        request["kubeconfig"] = json!("/k");
        request["binDir"] = json!("relative");
        request["logLevel"] = json!("loud");
        let error = parse(&request).unwrap_err();
        assert_eq!(error.code, 1, "the first leads: {error:?}");
        let text = format!("{}; {}", error.msg, error.details.join("; "));
        for part in [
            "9.9.9",
            "kubeconfig",
            "delegates[1].ips",
            "delegates[1].mac",
            "delegates[2]",
            "binDir",
            "logLevel",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        request["name"] = json!("a/b");
        let error = parse(&request).unwrap_err();
        assert_eq!((error.code, error.details.len()), (7, 7), "{error:?}");
    }

    #[test]
    fn keys_without_effect_are_listed() {
        let mut request = with("retryDeleteOnError", json!(false));
        request["confDir"] = json!("/etc/x");
        let ignored = parse(&request).unwrap().ignored;
        assert_eq!(
            ignored,
            ["retryDeleteOnError: false (a failed DEL is always retried)", "confDir: \"/etc/x\""]
        );
        assert!(parse(&with("retryDeleteOnError", json!(true))).unwrap().ignored.is_empty());
    }

    #[test]
    fn unknown_keys_of_ours_are_errors() {
        refused(selection("ip", json!(["192.0.2.1"])), 2, &["delegates[0].ip", "192.0.2.1"]);
        refused(selection("pipeline", json!([])), 2, &["delegates[0].pipeline", "beside delegates"]);
        refused(
            parse(&meta(&json!([{ "name": "n", "type": "p", "pipeline": "x" }]))),
            2,
            &["delegates[0].pipeline"],
        );
        let inner =
            json!({ "name": "n", "plugins": [{ "type": "p" }, { "type": "catena", "pipeline": [] }] });
        assert!(parse(&meta(&json!([inner]))).is_ok(), "a chained catena has its own");
        refused(parse(&with("pipeline", json!([{ "stage": "a", "conf": {} }]))), 2, &["pipeline[0].conf"]);
    }

    #[test]
    fn a_meta_plugin_in_a_meta_plugin_is_refused() {
        let inner = json!({ "name": "inner", "plugins": [{ "type": "catena", "delegates": [] }] });
        refused(parse(&meta(&json!([inner]))), 7, &["inner", "delegates of its own"]);
        let conf = parse(&meta(&json!([{ "name": "n", "type": "p" }]))).unwrap();
        assert!(conf.refuse_nested(None).is_ok());
        refused(conf.refuse_nested(Some("around")), 7, &["outer", "around"]);
    }

    #[test]
    fn a_pipeline_is_named_or_written() {
        let pipeline = |value: Value| parse(&with("pipeline", value)).map(|conf| conf.pipeline);
        assert_eq!(pipeline(json!(null)).unwrap(), PipelineRef::Default);
        assert_eq!(pipeline(json!("p")).unwrap(), PipelineRef::Named("p".to_owned()));
        let entry = json!({
            "stage": "s", "config": { "a": 12345678901234567890_u64 }, "when": ["x"], "unless": ["y"],
            "onError": "skip", "mode": "monitor", "example.org/note": true,
        });
        let PipelineRef::Inline(entries) = pipeline(json!([entry, { "stage": "t" }])).unwrap() else {
            panic!("it is written out")
        };
        assert_eq!(entries[0].when, ["x"]);
        assert_eq!((entries[0].on_error, entries[0].mode), (OnError::Skip, EntryMode::Monitor));
        assert_eq!(entries[0].config.as_ref().unwrap()["a"].to_string(), "12345678901234567890");
        assert_eq!((entries[1].on_error, entries[1].mode), (OnError::Fail, EntryMode::Enforce));
        for bad in [json!(1), json!(""), json!([1]), json!([{}]), json!([{ "stage": "" }])] {
            refused(pipeline(bad), 7, &["pipeline"]);
        }
        refused(
            pipeline(json!([{ "stage": "s", "onError": "ignore" }])),
            7,
            &["pipeline[0].onError", "skip"],
        );
        refused(pipeline(json!([{ "stage": "s", "when": "tag" }])), 7, &["pipeline[0].when"]);
    }

    #[test]
    fn requests_of_an_attachment_are_checked() {
        let good = [
            ("ips", json!(["192.0.2.5", "2001:db8::5/64"])),
            ("mac", json!("02:00:00:00:00:01")),
            ("mac", json!("0200.0000.0001")),
            ("infiniband-guid", json!("c2:11:22:33:44:55:66:77")),
            ("interface", json!("data0")),
            (
                "portMappings",
                json!([{ "HostPort": 80, "containerPort": 8080, "protocol": "SCTP", "hostIP": "" }]),
            ),
            ("bandwidth", json!({ "ingressRate": 1, "ingressBurst": 4294967295_u64, "EgressRate": 0 })),
            ("default-route", json!([])),
            ("default-route", json!(["192.0.2.1", "fe80::1"])),
            ("catena.dev/default-route", json!("none")),
            ("cni-args", json!({ "a": 1 })),
        ];
        for (key, value) in good {
            selection(key, value.clone()).unwrap_or_else(|error| panic!("{key} {value}: {}", error.msg));
        }
        let bad = [
            ("ips", json!([])),
            ("ips", json!("192.0.2.5")),
            ("ips", json!(["192.0.2.256"])),
            ("ips", json!(["192.0.2.5/33"])),
            ("mac", json!("02:00:00:00:00")),
            ("mac", json!("02:00:00:00:00:0g")),
            ("mac", json!("02:00:00-00:00:01")),
            ("infiniband-guid", json!("02:00:00:00:00:01")),
            ("interface", json!("")),
            ("interface", json!("a/b")),
            ("interface", json!("sixteen-letters-")),
            ("portMappings", json!([{ "hostPort": 0, "containerPort": 80 }])),
            ("portMappings", json!([{ "hostPort": 80 }])),
            ("portMappings", json!([{ "hostPort": 80, "containerPort": 65536 }])),
            ("portMappings", json!([{ "hostPort": 80, "containerPort": 80, "protocol": "icmp" }])),
            ("portMappings", json!([{ "hostPort": 80, "containerPort": 80, "hostIP": "x" }])),
            ("bandwidth", json!({ "ingressBurst": 1 })),
            ("bandwidth", json!({ "ingressRate": -1 })),
            ("default-route", json!("192.0.2.1")),
            ("default-route", json!(["192.0.2.1/24"])),
            ("default-route", json!(["0.0.0.0"])),
            ("default-route", json!(["192.0.2.1", "192.0.2.1"])),
            ("catena.dev/default-route", json!("all")),
            ("cni-args", json!([])),
            ("namespace", json!("ns")),
        ];
        for (key, value) in bad {
            let error = selection(key, value.clone()).err().unwrap_or_else(|| panic!("{key} {value} passed"));
            assert_eq!(error.code, 7, "{key} {value}: {}", error.msg);
            assert!(error.msg.contains("delegates[0]"), "{}", error.msg);
        }
        let both = json!({
            "config": { "name": "n", "type": "p" }, "default-route": [], "catena.dev/default-route": "none",
        });
        refused(parse(&meta(&json!([both]))), 7, &["use one of the two"]);
    }

    #[test]
    fn a_request_that_no_plugin_can_meet_is_refused() {
        let entry = |capabilities: Value| {
            json!({ "mac": "02:00:00:00:00:01", "config": { "name": "n", "plugins": [
                { "type": "p" }, { "type": "q", "capabilities": capabilities } ] } })
        };
        assert!(parse(&meta(&json!([entry(json!({ "mac": true }))]))).is_ok());
        refused(parse(&meta(&json!([entry(json!({ "mac": false }))]))), 7, &["delegates[0]", "mac", "\"n\""]);
    }

    #[test]
    fn capability_arguments_of_the_runtime_go_to_the_primary_only() {
        let spec = selection("mac", json!("02:00:00:00:00:01")).unwrap();
        let runtime = json!({ "portMappings": [{ "HostPort": 80 }], "mac": "02:00:00:00:00:02" });
        let args = |primary| Value::Object(spec.capability_args(primary, runtime.as_object().unwrap()));
        assert_eq!(args(true), json!({ "portMappings": [{ "HostPort": 80 }], "mac": "02:00:00:00:00:01" }));
        assert_eq!(args(false), json!({ "mac": "02:00:00:00:00:01" }));
    }

    #[test]
    fn cni_args_reach_every_plugin_and_win() {
        let entry = json!({ "cni-args": { "a": 1 }, "config": { "name": "n", "plugins": [
            { "type": "p" }, { "type": "q", "args": { "cni": { "a": 2, "b": 3 }, "x": 4 } } ] } });
        let conf = parse(&meta(&json!([entry.clone()]))).unwrap();
        let Role::Meta(specs) = &conf.role else { panic!("there are delegates") };
        let plugins = &specs[0].list.plugins;
        assert_eq!(plugins[0].raw["args"], json!({ "cni": { "a": 1 } }));
        assert_eq!(plugins[1].raw["args"], json!({ "cni": { "a": 1, "b": 3 }, "x": 4 }));
    }

    #[test]
    fn bad_networks_are_named() {
        for (entry, part) in [
            (json!(1), "delegates[0]"),
            (json!({ "name": "n" }), "neither type"),
            (json!({ "type": "p" }), "bad network name"),
            (json!({ "name": "n", "plugins": [] }), "delegates[0]"),
            (json!({ "config": "{" }), "delegates[0].config"),
            (json!({ "config": "[]" }), "delegates[0].config"),
            (json!({ "config": { "name": "n", "type": "a/b" } }), "delegates[0].config"),
        ] {
            refused(parse(&meta(&json!([entry]))), 7, &[part]);
        }
    }

    #[test]
    fn logging_is_as_in_multus() {
        let log = |key: &str, value: Value| parse(&with(key, value)).map(|conf| conf.log);
        let quiet = LogConf { file: None, level: Level::Panic, to_stderr: false };
        assert_eq!(log("x", json!(1)).unwrap(), quiet);
        let file = log("logFile", json!("/var/log/catena.log")).unwrap();
        assert_eq!((file.file, file.level), (Some(PathBuf::from("/var/log/catena.log")), Level::Verbose));
        assert_eq!(log("logLevel", json!("DEBUG")).unwrap().level, Level::Debug);
        refused(log("logLevel", json!("info")), 7, &["logLevel", "verbose"]);
        refused(log("logFile", json!("here.log")), 7, &["logFile", "absolute"]);
    }

    #[test]
    fn the_valid_set_is_known_empty_or_unknown() {
        let set = |key: &str, value: Value| {
            let mut request = with(key, value);
            request["cniVersion"] = json!("1.1.0");
            Conf::parse(request.to_string().as_bytes(), Command::Gc).map(|conf| conf.valid_attachments)
        };
        let one = || ValidSet::Known(vec![("c".to_owned(), "eth0".to_owned())]);
        let list = || json!([{ "containerID": "c", "ifname": "eth0" }]);
        assert_eq!(set("x", json!(1)).unwrap(), ValidSet::Unknown);
        for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
            assert_eq!(set(key, json!(null)).unwrap(), ValidSet::Known(Vec::new()));
            assert_eq!(set(key, json!([])).unwrap(), ValidSet::Known(Vec::new()));
            assert_eq!(set(key, list()).unwrap(), one());
            refused(set(key, json!([{ "containerID": "c" }])), 6, &[key]);
        }
        let mut both = with("cni.dev/valid-attachments", list());
        both["cni.dev/attachments"] = list();
        both["cniVersion"] = json!("1.1.0");
        let conf = Conf::parse(both.to_string().as_bytes(), Command::Gc).unwrap();
        assert_eq!(conf.valid_attachments, one());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop_oneof![
            "[a-z]{0,4}",
            proptest::sample::select(vec![
                "name",
                "type",
                "plugins",
                "config",
                "capabilities",
                "mac",
                "ips",
                "default-route",
                "stage",
                "args",
                "pipeline",
                "delegates",
                "interface",
                "portMappings",
                "bandwidth",
                "cni-args",
                "cniVersion",
                "ipam",
            ])
            .prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            "[ -~]{0,8}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                proptest::collection::vec((key.clone(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_request_panics(text in ".{0,64}", value in any_json()) {
            for command in [Command::Add, Command::Del, Command::Check, Command::Gc, Command::Status] {
                let _ = Conf::parse(text.as_bytes(), command);
                let _ = Conf::parse(value.to_string().as_bytes(), command);
                for key in ["delegates", "pipeline", "runtimeConfig", "prevResult", "cni.dev/valid-attachments"] {
                    let mut request = with(key, value.clone());
                    request["cniVersion"] = json!("1.1.0");
                    let _ = Conf::parse(request.to_string().as_bytes(), command);
                    let entry = with("delegates", json!([value]));
                    let _ = Conf::parse(entry.to_string().as_bytes(), command);
                }
            }
        }
    }
}
