//! The vectors in `tests/vectors` that concern this crate, run as data against it.
//!
//! A case is the same as the reference, or it is in [`ON_PURPOSE`] with our exact answer; the rules that say why are in
//! `tests/src/on_purpose.rs`.

#[path = "../../../tests/src/score.rs"]
#[allow(unreachable_pub, reason = "it is public in catena-tests, whose module it is")]
mod score;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use catena_cni::args::{ArgsError, CniArgs};
use catena_cni::confdir::{ConfDir, ConfDirError};
use catena_cni::identifier::{ContainerId, IdentifierError, IfName, NetworkName};
use catena_cni::json::{self, JsonError, Value};
use catena_cni::list::{ListError, NetworkList};
use catena_cni::result::{self, CniResult, ResultError};
use catena_cni::version::{
    ReplyError, SpecVersion, UnknownVersion, VersionError, VersionNumber, VersionReply,
};
use score::Score;
use serde_json::json;

enum Ours {
    /// JSON.
    Is(&'static str),
    /// The whole message.
    Fails(&'static str),
}
use Ours::{Fails, Is};

/// File, ids, our answer.
type OnPurpose = (&'static str, &'static [&'static str], Ours);

/// Every case that is answered differently on purpose.
const ON_PURPOSE: &[OnPurpose] = &[
    (
        "result-conversion",
        &["null-iface-same", "null-iface-110-100", "null-iface-110-040", "null-iface-040-031"],
        Fails("cannot read the CNI result: interfaces[0] is null"),
    ),
    (
        "result-conversion",
        &["null-ip-040-110", "null-ip-110-040"],
        Fails("cannot read the CNI result: ips[0] is null"),
    ),
    (
        "result-conversion",
        &["ifidx-neg", "ifidx-neg-down"],
        Fails(
            "cannot use the CNI result: ips[0].interface is -1, which names none of its 1 interfaces, counted from 0",
        ),
    ),
    (
        "result-conversion",
        &["ifidx-oob"],
        Fails(
            "cannot use the CNI result: ips[0].interface is 9, which names none of its 1 interfaces, counted from 0",
        ),
    ),
    (
        "result-conversion",
        &["ifidx-noifaces"],
        Fails(
            "cannot use the CNI result: ips[0].interface is 0, which names none of its 0 interfaces, counted from 0",
        ),
    ),
    (
        "result-conversion",
        &["addr-missing", "addr-missing-040"],
        Fails("cannot read the CNI result: ips[0].address is missing"),
    ),
    ("result-conversion", &["route-nodst"], Fails("cannot read the CNI result: routes[0].dst is missing")),
    ("result-conversion", &["ip4-noip"], Fails("cannot read the CNI result: ip4.ip is missing")),
    (
        "result-conversion",
        &["unknown-fields"],
        Is(r#"{"output": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "speed": 10}],
            "ips": [{"address": "192.0.2.5/24", "label": "l"}], "routes": [{"dst": "0.0.0.0/0", "via": "192.0.2.1"}],
            "dns": {"nameservers": ["192.0.2.53"], "extra": true}, "vendor": {"x": 1}}}"#),
    ),
    (
        "result-conversion",
        &["dup-interfaces"],
        Is(
            r#"{"output": {"cniVersion": "1.1.0", "interfaces": [{"name": "b"}]}, "parsed_version": "1.1.0"}"#,
        ),
    ),
    (
        "plugin-stdout",
        &["extra"],
        Is(r#"{"result_version": "1.1.0",
            "result": {"cniVersion": "1.1.0", "ips": [{"address": "192.0.2.5/24"}], "x": {"y": 1}}}"#),
    ),
    (
        "plugin-stdout",
        &["nover-ip4-11"],
        Is(r#"{"result_version": "0.2.0",
            "result": {"cniVersion": "0.2.0", "ip4": {"ip": "192.0.2.5/24"}, "dns": {}}}"#),
    ),
    (
        "conflist-parse",
        &["bignum"],
        Is(r#"{"name": "n", "cniVersion": "1.1.0", "disableCheck": false, "disableGC": false,
            "loadOnlyInlinedPlugins": false, "plugins": [{"type": "a", "capabilities": [],
            "json": {"type": "a", "big": 12345678901234567890, "i53": 9007199254740993, "f": 1.10}}]}"#),
    ),
];

/// An error of ours: its class in the words of the vectors, and its message.
struct Failure {
    class: &'static str,
    message: String,
}

trait Classified: Display {
    fn class(&self) -> &'static str;
}

impl<E: Classified> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { class: error.class(), message: error.to_string() }
    }
}

impl Classified for JsonError {
    fn class(&self) -> &'static str {
        match self {
            Self::Empty(_) | Self::Truncated(_) => "json-empty-or-truncated",
            Self::Syntax { .. } => "json-syntax",
            Self::TooDeep => "too-deep",
        }
    }
}

impl Classified for ResultError {
    fn class(&self) -> &'static str {
        match self {
            Self::Json(error) => error.class(),
            Self::Type(_) => "json-type",
            Self::BadCidr { .. } => "bad-cidr",
            Self::BadIp { .. } => "bad-ip",
            Self::UnsupportedVersion { .. } => "unsupported-result-version",
            Self::VersionMismatch { .. } => "result-version-mismatch",
            Self::NoAddress { .. } => "no-ip-for-old-version",
            Self::Null { .. } | Self::BadIndex { .. } => "bad-ip-entry",
            Self::Missing { .. } => "missing-address",
        }
    }
}

impl Classified for UnknownVersion {
    fn class(&self) -> &'static str {
        "no-converter"
    }
}

impl Classified for ListError {
    fn class(&self) -> &'static str {
        match self {
            Self::Json(error) => error.class(),
            Self::Type(_) => "json-type",
            Self::MissingName => "missing-name",
            Self::MissingType(_) => "missing-type",
            Self::BadType { .. } => "bad-identifier",
            Self::EmptyPlugins => "empty-plugins",
            Self::InlinedOnlyWithoutPlugins => "inlined-only-without-plugins",
            Self::BadBool { .. } => "bad-bool-string",
            Self::BadVersion { .. } => "bad-version",
        }
    }
}

impl Classified for ConfDirError {
    fn class(&self) -> &'static str {
        match self {
            Self::NoConfigs => "no-configs",
            Self::NotFound(_) => "not-found",
            Self::File { error, .. } => error.class(),
            Self::NoPlugins { .. } => "no-plugins-anywhere",
        }
    }
}

impl Classified for ReplyError {
    fn class(&self) -> &'static str {
        match self {
            Self::Json(error) => error.class(),
            Self::Type(_) => "json-type",
            Self::Incomplete(_) => "incomplete-version-reply",
        }
    }
}

impl Classified for VersionError {
    fn class(&self) -> &'static str {
        "bad-version"
    }
}

impl Classified for ArgsError {
    fn class(&self) -> &'static str {
        "bad-args"
    }
}

impl Classified for IdentifierError {
    fn class(&self) -> &'static str {
        match self.code() {
            3 => "code 3",
            4 => "code 4",
            7 => "code 7",
            _ => "another code",
        }
    }
}

type Answer = Result<Value, Failure>;
/// Runs one case: our answer, and the reference's where that is no error.
type Run = fn(&Value) -> (Answer, Value);

const FILES: &[(&str, Run)] = &[
    ("result-conversion", conversion),
    ("plugin-stdout", stdout),
    ("prevresult-parse", prev_result),
    ("conflist-parse", conflist),
    ("confdir-load", confdir),
    ("confdir-load-containerd", confdir_containerd),
    ("identifiers", identifier),
    ("version-parse", version),
    ("version-compare", version_order),
    ("version-reply", version_reply),
    ("cni-args", args),
];

#[test]
fn the_reference_and_we_agree_or_differ_on_purpose() {
    let listed = ON_PURPOSE.iter().flat_map(|entry| entry.1.iter().map(move |id| ((entry.0, *id), entry)));
    let mut on_purpose: BTreeMap<(&str, &str), &OnPurpose> = listed.clone().collect();
    assert_eq!(on_purpose.len(), listed.count(), "a case is listed twice");
    for (file, run) in FILES {
        let document = load(file);
        let cases = document["cases"].as_array().expect("cases");
        assert_eq!(document["count"], json!(cases.len()), "{file}");
        let mut score = Score::of(*file);
        for case in cases {
            let id = case["id"].as_str().expect("id");
            let (ours, theirs) = run(case);
            let agree = agrees(case, &ours, &theirs);
            let listed = on_purpose.keys().find(|key| **key == (*file, id)).copied();
            let listed = listed.and_then(|key| on_purpose.remove(&key));
            let outcome = match listed {
                None if agree => Ok(()),
                None => Err(format!("{}\n    reference: {}", shown(&ours), reference(case, &theirs))),
                Some(_) if agree => Err("listed as different, but the same".to_owned()),
                Some((.., expected)) => match (expected, &ours) {
                    (Is(text), Ok(value)) if json::parse(text.as_bytes()).as_ref() == Ok(value) => Ok(()),
                    (Fails(message), Err(failure)) if *message == failure.message => Ok(()),
                    _ => Err(format!("not the answer that is listed: {}", shown(&ours))),
                },
            };
            score.add(id, listed.is_some(), outcome);
        }
        score.finish();
    }
    assert!(on_purpose.is_empty(), "listed, but there are no such cases: {:?}", on_purpose.keys());
}

fn load(file: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/vectors")
        .join(file)
        .with_extension("json");
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    json::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn agrees(case: &Value, ours: &Answer, theirs: &Value) -> bool {
    match (case["expect"].as_str(), ours) {
        (Some("ok"), Ok(value)) => value == theirs,
        (Some("error"), Err(failure)) => match (&case["error_class"], &case["code"]) {
            (Value::String(class), _) => class == failure.class && stage(case, failure.class),
            (_, Value::Number(code)) => failure.class == format!("code {code}"),
            _ => true,
        },
        _ => false,
    }
}

/// Where the reference tells reading from converting, we must fail at the same of the two.
fn stage(case: &Value, class: &str) -> bool {
    let converting = matches!(class, "no-ip-for-old-version" | "no-converter");
    match case["stage"].as_str() {
        Some("convert") => converting,
        Some(_) => !converting,
        None => true,
    }
}

fn shown(answer: &Answer) -> String {
    match answer {
        Ok(value) => value.to_string(),
        Err(failure) => format!("error {}: {}", failure.class, failure.message),
    }
}

fn reference(case: &Value, theirs: &Value) -> String {
    match case["expect"].as_str() {
        Some("ok") => theirs.to_string(),
        _ => format!("error {} {}", case["error_class"], case["code"]),
    }
}

/// A member that is a JSON text, or a value in its place.
fn input(case: &Value) -> Result<Value, JsonError> {
    match &case["input_text"] {
        Value::String(text) => json::parse(text.as_bytes()),
        _ => Ok(case["input"].clone()),
    }
}

fn text<'a>(case: &'a Value, member: &str) -> &'a str {
    case[member].as_str().unwrap_or_else(|| panic!("{member} in {case}"))
}

fn conversion(case: &Value) -> (Answer, Value) {
    let run = || {
        let doc = input(case).map_err(ResultError::from)?;
        let (_, version) = match case["parse_as_version"].as_str() {
            Some(asked) => CniResult::read_as(&doc, asked.parse()?)?,
            None => CniResult::read(&doc)?,
        };
        let output = result::convert(&doc, text(case, "target").parse()?)?;
        let mut answer = json!({ "output": output });
        if case["parsed_version"].is_string() {
            answer["parsed_version"] = json!(version.as_str());
        }
        Ok(answer)
    };
    (run(), pick(case, &["output", "parsed_version"]))
}

fn stdout(case: &Value) -> (Answer, Value) {
    let run = || {
        let request = json::parse(text(case, "request").as_bytes()).map_err(ResultError::from)?;
        let version = result::request_version(&request)?;
        let doc = result::from_stdout(text(case, "stdout").as_bytes(), version)?;
        let version = result::check(&doc)?;
        Ok(json!({ "result_version": version.as_str(), "result": result::convert(&doc, version)? }))
    };
    (run(), pick(case, &["result_version", "result"]))
}

fn prev_result(case: &Value) -> (Answer, Value) {
    let run = || {
        let request = json::parse(text(case, "request_text").as_bytes()).map_err(ResultError::from)?;
        let Some(doc) = result::prev_result(&request)? else {
            return Ok(json!({ "prevResult": null }));
        };
        let version = result::check(&doc)?;
        Ok(json!({ "prevResult": result::convert(&doc, version)?, "version": version.as_str() }))
    };
    (run(), pick(case, &["prevResult", "version"]))
}

fn conflist(case: &Value) -> (Answer, Value) {
    let ours = NetworkList::parse(text(case, "input_text").as_bytes()).map(|list| network(&list));
    (ours.map_err(Failure::from), reference_network(case))
}

fn confdir(case: &Value) -> (Answer, Value) {
    let ours = folder(case).network(text(case, "lookup_name")).map(|list| network(&list));
    (ours.map_err(Failure::from), reference_network(case))
}

fn confdir_containerd(case: &Value) -> (Answer, Value) {
    let max = case["max_conf"].as_u64().and_then(|max| usize::try_from(max).ok()).expect("max_conf");
    let ours = folder(case).first_networks(max).map(|networks| {
        let networks = networks.iter().enumerate().map(|(i, list)| {
            let types: Vec<_> = list.plugins.iter().map(|plugin| plugin.kind.as_str()).collect();
            json!({ "cniVersion": list.cni_version, "ifName": format!("eth{i}"), "name": list.name, "types": types })
        });
        networks.collect()
    });
    (ours.map_err(Failure::from), case["networks"].clone())
}

fn folder(case: &Value) -> ConfDir {
    let files = case["files"].as_object().expect("files").iter();
    let files = files.filter(|(path, _)| !path.ends_with('/'));
    ConfDir::new(files.map(|(path, text)| (path.clone(), text.as_str().expect("text").as_bytes().to_vec())))
}

fn network(list: &NetworkList) -> Value {
    let plugins = list.plugins.iter().map(|plugin| {
        let mut capabilities = plugin.capabilities();
        capabilities.sort_unstable();
        json!({ "type": plugin.kind.as_str(), "capabilities": capabilities, "json": plugin.raw })
    });
    json!({
        "name": list.name, "cniVersion": list.cni_version, "disableCheck": list.disable_check,
        "disableGC": list.disable_gc, "loadOnlyInlinedPlugins": list.load_only_inlined,
        "plugins": plugins.collect::<Vec<_>>(),
    })
}

/// As [`network`] puts it: of the capabilities those that are true.
fn reference_network(case: &Value) -> Value {
    let members = ["name", "cniVersion", "disableCheck", "disableGC", "loadOnlyInlinedPlugins", "plugins"];
    let mut network = pick(case, &members);
    for plugin in network["plugins"].as_array_mut().into_iter().flatten() {
        let declared = plugin["capabilities"].as_object().into_iter().flatten();
        let declared: Vec<_> =
            declared.filter(|(_, value)| **value == json!(true)).map(|(name, _)| name).collect();
        plugin["capabilities"] = json!(declared);
    }
    network
}

fn identifier(case: &Value) -> (Answer, Value) {
    let value = text(case, "value");
    let ours = match text(case, "kind") {
        "containerid" => ContainerId::parse(value).map(|id| id.to_string()),
        "network" => NetworkName::parse(value).map(|name| name.to_string()),
        "ifname" => IfName::parse(value).map(|name| name.to_string()),
        kind => panic!("kind {kind}"),
    };
    (ours.map(Value::from).map_err(Failure::from), case["value"].clone())
}

fn version(case: &Value) -> (Answer, Value) {
    let ours = text(case, "value").parse::<VersionNumber>();
    let ours = ours.map(|version| json!([version.major, version.minor, version.micro]));
    (ours.map_err(Failure::from), case["version"].clone())
}

fn version_order(case: &Value) -> (Answer, Value) {
    let run = || {
        let (a, b): (VersionNumber, VersionNumber) = (text(case, "a").parse()?, text(case, "b").parse()?);
        Ok(json!({ "gt": a > b, "gte": a >= b }))
    };
    (run(), pick(case, &["gt", "gte"]))
}

fn version_reply(case: &Value) -> (Answer, Value) {
    let ours = VersionReply::parse(text(case, "stdout").as_bytes()).map(|reply| json!(reply.supported));
    (ours.map_err(Failure::from), case["supportedVersions"].clone())
}

fn args(case: &Value) -> (Answer, Value) {
    let run = || {
        let args = CniArgs::parse(text(case, "value"))?;
        args.check_known(&["IP", "FOO"])?;
        let (flag, ignore) = (args.flag("FOO")?, args.flag("IgnoreUnknown")?);
        Ok(json!({ "IP": args.get("IP").unwrap_or_default(), "FOO": flag, "IgnoreUnknown": ignore }))
    };
    (run(), pick(case, &["IP", "FOO", "IgnoreUnknown"]))
}

/// The members of a case that tell its answer.
fn pick(case: &Value, members: &[&str]) -> Value {
    let members = members.iter().filter_map(|name| Some(((*name).to_owned(), case.get(*name)?.clone())));
    Value::Object(members.collect())
}

/// What real plugins print is read, and written again as it was; every other version can say it.
#[test]
fn results_of_real_plugins_survive() {
    let document = load("plugin-results-by-version");
    let results = document["cases"].as_array().expect("cases").iter().filter_map(|case| case.get("result"));
    let mut count = 0;
    for doc in results {
        let version = result::check(doc).expect("readable");
        let mut expected = doc.clone();
        // Plugins built with older libraries write an empty dns in 1.0.0 too.
        if version >= SpecVersion::V1_0_0 && doc["dns"] == json!({}) {
            json::remove(expected.as_object_mut().expect("an object"), "dns");
        }
        assert_eq!(result::convert(doc, version), Ok(expected));
        for target in SpecVersion::ALL {
            assert!(result::convert(doc, target).is_ok(), "{doc} to {target}");
        }
        count += 1;
    }
    assert_eq!(count, 54);
}
