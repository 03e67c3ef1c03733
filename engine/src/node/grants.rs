use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

pub use catena_contract::Member;
use serde_json::{Map, Value, json};

use super::object::{Object, Problems};
use super::place::At;
use super::problem::{Problem, Refused};

/// What the node allows a module, or what a module declares to want: both have the same form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Route operations in the attachment's namespace.
    pub routes: Option<RouteGrant>,
    /// Looking at links.
    pub links: bool,
    /// Writing log lines.
    pub log: bool,
    /// Exact keys of documents that it may publish.
    pub publish: BTreeSet<String>,
    /// Exact keys of pod annotations that it may see.
    pub annotations: BTreeSet<String>,
    /// Members of a result that it may change.
    pub result: BTreeSet<Member>,
    /// JSON pointers (RFC 6901) of what `admit` may rewrite in a config.
    pub config: BTreeSet<String>,
    /// Folders of the node that it may use through WASI.
    pub dirs: BTreeMap<PathBuf, DirAccess>,
    /// A clock that goes.
    pub clock: bool,
    /// Random numbers that nobody can foresee.
    pub random: bool,
}

/// Route operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteGrant {
    /// On which links.
    pub links: Vec<LinkGrant>,
    /// Which operations.
    pub ops: BTreeSet<RouteOp>,
    /// In which tables.
    pub tables: BTreeSet<u32>,
}

/// A link that a route grant names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkGrant {
    /// `@attachment`: the attachment's own links.
    Attachment,
    /// `@none`: routes without a link (blackhole, unreachable, prohibit, throw).
    NoLink,
    /// A link by name.
    Named(String),
}

/// A route operation that a grant names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteOp {
    /// List routes.
    Read,
    /// Delete default routes, and keep router advertisements from bringing them back.
    DeleteDefault,
    /// Delete any route.
    Delete,
    /// Add routes.
    Add,
    /// Replace a link's set of routes.
    Replace,
}

impl RouteOp {
    const ALL: [Self; 5] = [Self::Read, Self::DeleteDefault, Self::Delete, Self::Add, Self::Replace];

    /// The spelling in a grant.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::DeleteDefault => "delete-default",
            Self::Delete => "delete",
            Self::Add => "add",
            Self::Replace => "replace",
        }
    }
}

/// How a folder may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirAccess {
    /// `ro`
    Read,
    /// `rw`
    Write,
}

impl DirAccess {
    /// The spelling in a grant.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "ro",
            Self::Write => "rw",
        }
    }
}

/// The main routing table.
const MAIN_TABLE: u32 = 254;

/// Whether a key of a published document is another system's own: a stage that could write it would speak in
/// that system's name.
pub(crate) fn is_reserved_key(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    // The one document of this domain that a meta-plugin is asked to write.
    if domain == "k8s.v1.cni.cncf.io" {
        return !matches!(key, "k8s.v1.cni.cncf.io/network-status");
    }
    let inside =
        |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|d| d.ends_with('.'));
    ["kubernetes.io", "k8s.io", "k8s.ovn.org", "openshift.io"].into_iter().any(inside)
}

impl Grants {
    /// The keys of a grant object.
    pub const KEYS: [&'static str; 10] =
        ["routes", "links", "log", "publish", "annotations", "result", "config", "dirs", "clock", "random"];

    /// Reads a grant object. `at` is where it stands.
    ///
    /// # Errors
    /// Every problem.
    pub fn parse(at: At<'_>, value: &Value) -> Result<Self, Refused> {
        let mut problems = Problems::default();
        let grants = Self::read(at, value, &mut problems);
        problems.refused().map(|()| grants)
    }

    pub(super) fn read(at: At<'_>, value: &Value, problems: &mut Problems) -> Self {
        let mut grants = Self::default();
        let Some(mut object) = Object::new(at, value, problems) else { return grants };
        if let Some(routes) = object.get("routes") {
            grants.routes = RouteGrant::read(object.at("routes"), routes, problems);
        }
        grants.links = object.flag("links", problems);
        grants.log = object.flag("log", problems);
        grants.clock = object.flag("clock", problems);
        grants.random = object.flag("random", problems);
        let publish = object.strings("publish", problems).unwrap_or_default();
        for (index, key) in publish.iter().enumerate().filter(|(_, key)| is_reserved_key(key)) {
            let at = object.at("publish");
            let text = format!("{at}: the key {key} is reserved for its own system and cannot be granted");
            problems.value(&at.element(index), text);
        }
        grants.publish = set(Some(publish));
        grants.annotations = set(object.strings("annotations", problems));
        for (index, name) in object.strings("result", problems).unwrap_or_default().into_iter().enumerate() {
            match Member::ALL.into_iter().find(|member| member.as_str() == name) {
                Some(member) => drop(grants.result.insert(member)),
                None => {
                    let at = object.at("result");
                    let text =
                        format!("{at}: unknown member {name:?}; known are routes, dns, ips, interfaces");
                    problems.value(&at.element(index), text);
                }
            }
        }
        for (index, pointer) in object.strings("config", problems).unwrap_or_default().into_iter().enumerate()
        {
            if pointer.is_empty() || pointer.starts_with('/') {
                grants.config.insert(pointer.to_owned());
            } else {
                let at = object.at("config");
                let text = format!("{at}: {pointer:?} is not a JSON pointer; it begins with /");
                problems.value(&at.element(index), text);
            }
        }
        if let Some(dirs) = object.get("dirs") {
            grants.dirs = read_dirs(object.at("dirs"), dirs, problems);
        }
        object.end(problems);
        grants
    }

    /// The grant object that gives exactly this.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        if let Some(routes) = &self.routes {
            map.insert("routes".into(), routes.to_value());
        }
        for (key, granted) in [("links", self.links), ("log", self.log)] {
            if granted {
                map.insert(key.into(), Value::Bool(true));
            }
        }
        for (key, names) in [("publish", &self.publish), ("annotations", &self.annotations)] {
            if !names.is_empty() {
                map.insert(key.into(), json!(names));
            }
        }
        if !self.result.is_empty() {
            map.insert(
                "result".into(),
                self.result.iter().map(|member| Value::from(member.as_str())).collect(),
            );
        }
        if !self.config.is_empty() {
            map.insert("config".into(), json!(self.config));
        }
        if !self.dirs.is_empty() {
            let dirs = self
                .dirs
                .iter()
                .map(|(path, access)| (path.display().to_string(), Value::from(access.as_str())));
            map.insert("dirs".into(), Value::Object(dirs.collect()));
        }
        for (key, granted) in [("clock", self.clock), ("random", self.random)] {
            if granted {
                map.insert(key.into(), Value::Bool(true));
            }
        }
        Value::Object(map)
    }

    /// Whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What of `wanted` is not granted here.
    pub fn missing(&self, wanted: &Self) -> Self {
        let difference =
            |want: &BTreeSet<String>, have: &BTreeSet<String>| want.difference(have).cloned().collect();
        Self {
            routes: match (&wanted.routes, &self.routes) {
                (Some(want), None) => Some(want.clone()),
                (Some(want), Some(have)) if !have.covers(want) => Some(want.clone()),
                _ => None,
            },
            links: wanted.links && !self.links,
            log: wanted.log && !self.log,
            publish: difference(&wanted.publish, &self.publish),
            annotations: difference(&wanted.annotations, &self.annotations),
            result: wanted.result.difference(&self.result).copied().collect(),
            config: wanted.config.iter().filter(|pointer| !self.covers_pointer(pointer)).cloned().collect(),
            dirs: wanted
                .dirs
                .iter()
                .filter(|(path, access)| self.dirs.get(*path).is_none_or(|have| have < access))
                .map(|(path, access)| (path.clone(), *access))
                .collect(),
            clock: wanted.clock && !self.clock,
            random: wanted.random && !self.random,
        }
    }

    fn covers_pointer(&self, pointer: &str) -> bool {
        self.config.iter().any(|granted| {
            pointer
                .strip_prefix(granted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// The JSON that would grant it, as a person would put it into node.json.
impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl RouteGrant {
    /// Operations on the attachment's links in the main table.
    pub fn new(ops: impl IntoIterator<Item = RouteOp>) -> Self {
        Self {
            links: vec![LinkGrant::Attachment],
            ops: ops.into_iter().collect(),
            tables: BTreeSet::from([MAIN_TABLE]),
        }
    }

    fn read(at: At<'_>, value: &Value, problems: &mut Problems) -> Option<Self> {
        let mut object = Object::new(at, value, problems)?;
        let links = object.strings("links", problems).unwrap_or_else(|| vec!["@attachment"]);
        let mut grant = Self { links: Vec::new(), ops: BTreeSet::new(), tables: BTreeSet::new() };
        for (index, link) in links.into_iter().enumerate() {
            let at = object.at("links");
            match link {
                "@attachment" => grant.links.push(LinkGrant::Attachment),
                "@none" => grant.links.push(LinkGrant::NoLink),
                "" => problems.value(&at.element(index), format!("{at}: a link's name cannot be empty")),
                other if other.starts_with('@') => {
                    let text = format!("{at}: unknown {other:?}; known are @attachment and @none");
                    problems.value(&at.element(index), text);
                }
                name => grant.links.push(LinkGrant::Named(name.to_owned())),
            }
        }
        for (index, name) in object.strings("ops", problems).unwrap_or_default().into_iter().enumerate() {
            match RouteOp::ALL.into_iter().find(|op| op.as_str() == name) {
                Some(op) => drop(grant.ops.insert(op)),
                None => {
                    let at = object.at("ops");
                    let text = format!(
                        "{at}: unknown operation {name:?}; known are read, delete-default, delete, add, replace"
                    );
                    problems.value(&at.element(index), text);
                }
            }
        }
        let tables = object.read("tables", "an array of table numbers from 1", problems, |value| {
            let number = |item: &Value| item.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
            value.as_array()?.iter().map(number).collect()
        });
        grant.tables = tables.unwrap_or_else(|| BTreeSet::from([MAIN_TABLE]));
        object.end(problems);
        Some(grant)
    }

    fn to_value(&self) -> Value {
        let links = self.links.iter().map(|link| match link {
            LinkGrant::Attachment => Value::from("@attachment"),
            LinkGrant::NoLink => Value::from("@none"),
            LinkGrant::Named(name) => Value::from(name.as_str()),
        });
        let ops = self.ops.iter().map(|op| Value::from(op.as_str()));
        json!({ "links": links.collect::<Value>(), "ops": ops.collect::<Value>(), "tables": self.tables })
    }

    /// Whether `op` is granted; the wider operation includes the narrower.
    pub fn allows(&self, op: RouteOp) -> bool {
        self.ops.contains(&op) || (op == RouteOp::DeleteDefault && self.ops.contains(&RouteOp::Delete))
    }

    fn covers(&self, want: &Self) -> bool {
        want.links.iter().all(|link| self.links.contains(link))
            && want.ops.iter().all(|op| self.allows(*op))
            && want.tables.is_subset(&self.tables)
    }
}

fn set(names: Option<Vec<&str>>) -> BTreeSet<String> {
    names.unwrap_or_default().into_iter().map(str::to_owned).collect()
}

fn read_dirs(at: At<'_>, value: &Value, problems: &mut Problems) -> BTreeMap<PathBuf, DirAccess> {
    let mut dirs = BTreeMap::new();
    let Some(map) = value.as_object() else {
        problems.add(Problem::wrong(&at, "an object of paths", value));
        return dirs;
    };
    for (path, access) in map {
        let access = match access.as_str() {
            Some("ro") => DirAccess::Read,
            Some("rw") => DirAccess::Write,
            _ => {
                problems.add(Problem::wrong(&at.member(path), "\"ro\" or \"rw\"", access));
                continue;
            }
        };
        if is_plain_absolute(Path::new(path)) {
            dirs.insert(PathBuf::from(path), access);
        } else {
            problems
                .value(&at.member(path), format!("{at}: {path:?} must be an absolute path without . and .."));
        }
    }
    dirs
}

/// Whether a path is absolute and says where it leads.
pub(super) fn is_plain_absolute(path: &Path) -> bool {
    use std::path::Component;
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AT: At<'_> = At::Member(&At::Document, "grants");

    fn grants(value: Value) -> Grants {
        Grants::parse(AT, &value).unwrap()
    }

    #[test]
    fn reads_and_writes_everything() {
        let value = json!({
            "routes": {"links": ["@attachment", "@none", "eth1"], "ops": ["read", "delete-default", "add"], "tables": [100, 254]},
            "links": true, "log": true,
            "publish": ["k8s.v1.cni.cncf.io/network-status"], "annotations": ["example.com/a"],
            "result": ["routes", "ips"], "config": ["/mtu"],
            "dirs": {"/etc/catena/data": "ro"}, "clock": true, "random": true
        });
        let read = grants(value.clone());
        assert_eq!(read.to_value(), value);
        assert_eq!(grants(read.to_value()), read);
    }

    #[test]
    fn defaults_of_routes_are_the_attachment_in_main() {
        let read = grants(json!({"routes": {"ops": ["read"]}}));
        assert_eq!(read.to_string(), r#"{"routes":{"links":["@attachment"],"ops":["read"],"tables":[254]}}"#);
    }

    #[test]
    fn every_problem_names_its_key() {
        let value = json!({
            "routes": {"ops": ["fly"], "tables": [0], "links": ["@all"], "table": 1},
            "links": 1, "publish": ["k8s.ovn.org/pod-networks"], "result": ["mac"], "config": ["mtu"],
            "dirs": {"../x": "ro", "/a": "rx"}, "sockets": true
        });
        let problems = Grants::parse(AT, &value).unwrap_err().to_string();
        for key in [
            "grants.routes.ops",
            "grants.routes.tables",
            "grants.routes.links",
            "grants.routes.table ",
            "grants.links",
            "grants.publish",
            "grants.result",
            "grants.config",
            "../x",
            "grants.dirs./a",
            "grants.sockets",
        ] {
            assert!(problems.contains(key), "{key} in\n{problems}");
        }
    }

    #[test]
    fn reserved_keys() {
        for key in [
            "k8s.ovn.org/pod-networks",
            "kubernetes.io/x",
            "a.kubernetes.io/x",
            "k8s.v1.cni.cncf.io/networks",
        ] {
            assert!(is_reserved_key(key), "{key}");
        }
        for key in ["k8s.v1.cni.cncf.io/network-status", "example.com/x", "plain", "notkubernetes.io/x"] {
            assert!(!is_reserved_key(key), "{key}");
        }
    }

    #[test]
    fn missing_is_exactly_the_rest() {
        let have = grants(
            json!({"log": true, "routes": {"ops": ["read", "delete"]}, "config": ["/a"], "dirs": {"/d": "ro"}}),
        );
        let want = grants(json!({
            "log": true, "links": true, "routes": {"ops": ["read", "delete-default"]}, "config": ["/a/b", "/ab"], "dirs": {"/d": "rw"}
        }));
        assert_eq!(
            have.missing(&want).to_value(),
            json!({"links": true, "config": ["/ab"], "dirs": {"/d": "rw"}})
        );
        assert!(want.missing(&want).is_empty());
        let add = grants(json!({"routes": {"ops": ["add"]}}));
        assert_eq!(have.missing(&add), add);
    }

    proptest! {
        #[test]
        fn any_json_is_an_answer(text in "[\\[\\]{}:,\"a-z0-9/@ ]{0,60}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text)
                && let Ok(read) = Grants::parse(AT, &value)
            {
                prop_assert_eq!(Grants::parse(AT, &read.to_value()), Ok(read));
            }
        }
    }
}
