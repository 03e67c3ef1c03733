use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::grants::is_plain_absolute;
use super::object::{Object, Problems};
use super::place::At;
use super::problem::Problem;
use super::{Digest, Grants, Limits, ModuleName, NodeError, OwnedDir, Pipelines, Root};
use crate::inject;

/// `/etc/catena/node.json`: what the node's owner says, which nothing on stdin can change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeConfig {
    /// Rules for modules, by name. A module that is named here gets exactly this, whatever install recorded.
    pub modules: BTreeMap<ModuleName, ModuleRule>,
    /// Which stages run, and what stdin may say about it.
    pub pipelines: Pipelines,
    /// How long things may take.
    pub deadlines: Deadlines,
    /// Which paths a config on stdin may name.
    pub paths: Paths,
    /// What happens to the default routes of secondaries where nobody asks.
    pub secondary_defaults: SecondaryDefaults,
    /// Whether each ADD leaves a recording.
    pub record: Option<RecordRule>,
}

/// What the node says about one module.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleRule {
    /// The only module that may run under the name.
    pub digest: Option<Digest>,
    /// All that it may do.
    pub grants: Grants,
    /// What a run of it may use.
    pub limits: Limits,
    /// Whether stdin may say `"onError": "skip"`.
    pub allow_skip: bool,
    /// Its config where a pipeline of the node says nothing else; then stdin may say nothing either.
    pub config: Option<Value>,
}

impl Default for ModuleRule {
    fn default() -> Self {
        Self {
            digest: None,
            grants: Grants::default(),
            limits: Limits::default(),
            // A policy that must not be passed over stands in the baseline, where stdin has no say at all; of
            // any other stage the one who asked for it knows best whether it matters.
            allow_skip: true,
            config: None,
        }
    }
}

/// How much recordings may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRule {
    /// Bytes of all recordings together; the oldest go first.
    pub max_bytes: u64,
    /// How old one may become.
    pub max_age: Duration,
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlines {
    /// One delegate.
    pub delegate: Duration,
    /// Undoing a failed ADD.
    pub rollback: Duration,
    /// The whole call.
    pub call: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        // The kubelet's own limit is two minutes for a whole sandbox and it retries, so a delegate that needs
        // a minute is broken; the call leaves room for two of them and the rollback.
        Self {
            delegate: Duration::from_secs(60),
            rollback: Duration::from_secs(60),
            call: Duration::from_secs(180),
        }
    }
}

/// Which paths a config on stdin may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Folders of delegate binaries.
    pub bin: Vec<PathBuf>,
    /// Folders for libcni's cache.
    pub cache: Vec<PathBuf>,
    /// Patterns of log files; `*` stands for anything but `/`.
    pub log: Vec<String>,
}

impl Default for Paths {
    fn default() -> Self {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
        Self {
            bin: paths(&[
                "/opt/cni/bin",
                "/usr/lib/cni",
                "/usr/libexec/cni",
                "/usr/local/lib/cni",
                "/var/lib/cni/bin",
            ]),
            cache: paths(&["/var/lib/cni/catena", "/var/lib/cni/multus"]),
            log: vec!["/var/log/*.log".to_owned()],
        }
    }
}

impl Paths {
    /// Whether stdin may name this folder of binaries.
    pub fn allows_bin(&self, dir: &Path) -> bool {
        is_plain_absolute(dir) && self.bin.iter().any(|allowed| allowed == dir)
    }

    /// Whether stdin may name this folder for the cache.
    pub fn allows_cache(&self, dir: &Path) -> bool {
        is_plain_absolute(dir) && self.cache.iter().any(|allowed| allowed == dir)
    }

    /// Whether stdin may name this log file.
    pub fn allows_log(&self, file: &Path) -> bool {
        let Some(text) = file.to_str() else { return false };
        is_plain_absolute(file)
            && self.log.iter().any(|pattern| matches_pattern(pattern.as_bytes(), text.as_bytes()))
    }
}

/// `*` stands for any number of bytes but `/`.
fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len())
            .take_while(|end| text.get(..*end).is_some_and(|skipped| !skipped.ends_with(b"/")))
            .any(|end| text.get(end..).is_some_and(|text| matches_pattern(rest, text))),
        Some((byte, rest)) => {
            text.split_first().is_some_and(|(first, text)| first == byte && matches_pattern(rest, text))
        }
    }
}

/// What happens to the default routes of secondaries where nobody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecondaryDefaults {
    /// They stay.
    #[default]
    Keep,
    /// They are removed.
    Filter,
}

impl SecondaryDefaults {
    /// The spelling in node.json and in a call's context.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Filter => "filter",
        }
    }
}

/// A node file larger than this is none.
const LIMIT: u64 = 1 << 20;

impl NodeConfig {
    /// Reads `/etc/catena/node.json`; all defaults if there is none.
    ///
    /// # Errors
    /// It cannot be read, others may write to it or its folder, or it says something unknown.
    pub fn load(root: &Root) -> Result<Self, NodeError> {
        inject::point("node/config");
        match Self::bytes(root)? {
            Some(bytes) => Self::parse(&root.node_file(), &bytes),
            None => Ok(Self::default()),
        }
    }

    /// The text of `/etc/catena/node.json`, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or others may write to it or its folder.
    pub fn bytes(root: &Root) -> Result<Option<Vec<u8>>, NodeError> {
        let path = root.node_file();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Ok(None);
        };
        match OwnedDir::open(parent)? {
            Some(dir) => dir.read(name, LIMIT),
            None => Ok(None),
        }
    }

    /// Reads the bytes of a node.json; `path` is for messages.
    ///
    /// # Errors
    /// It is not JSON or says something unknown; every problem is named.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, NodeError> {
        let (config, problems) = Self::parse_leniently(path, bytes)?;
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(NodeError::Content { path: path.to_owned(), problems })
        }
    }

    /// The same for who looks for more that is wrong: what is known in spite of the problems, and the problems.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn parse_leniently(path: &Path, bytes: &[u8]) -> Result<(Self, Vec<Problem>), NodeError> {
        let json = |cause: String| NodeError::Json { path: path.to_owned(), cause };
        let value: Value = serde_json::from_slice(bytes).map_err(|error| json(error.to_string()))?;
        let mut problems = Problems::default();
        problems.repeated_keys(bytes);
        let config = Self::read(&value, &mut problems);
        Ok((config, problems.into_vec()))
    }

    fn read(value: &Value, problems: &mut Problems) -> Self {
        let mut config = Self::default();
        let Some(mut object) = Object::new(At::Document, value, problems) else { return config };
        if let Some(modules) = object.get("modules") {
            config.modules = read_modules(modules, problems);
        }
        if let Some(deadlines) = object.get("deadlines") {
            config.deadlines = Deadlines::read(deadlines, problems);
        }
        if let Some(paths) = object.get("paths") {
            config.paths = Paths::read(paths, problems);
        }
        let choice =
            object.read("secondaryDefaults", "\"keep\" or \"filter\"", problems, |value| {
                match value.as_str()? {
                    "keep" => Some(SecondaryDefaults::Keep),
                    "filter" => Some(SecondaryDefaults::Filter),
                    _ => None,
                }
            });
        config.secondary_defaults = choice.unwrap_or_default();
        config.pipelines = Pipelines::read(&mut object, problems);
        if let Some(record) = object.get("record") {
            config.record = RecordRule::read(record, problems);
        }
        object.end(problems);
        config
    }
}

fn read_modules(value: &Value, problems: &mut Problems) -> BTreeMap<ModuleName, ModuleRule> {
    let (mut modules, all) = (BTreeMap::new(), At::Document.member("modules"));
    let Some(map) = value.as_object() else {
        problems.add(Problem::wrong(&all, "an object of modules by name", value));
        return modules;
    };
    for (name, rule) in map {
        let at = all.member(name);
        let Some(name) = ModuleName::parse(name) else {
            problems.value(&at, format!("{at}: a module's name is 1 to 64 of a-z, 0-9, '.', '_', '-'"));
            continue;
        };
        let Some(mut object) = Object::new(at, rule, problems) else { continue };
        let digest =
            object.read("digest", "sha256: and 64 lower-case hexadecimal digits", problems, |value| {
                Digest::parse(value.as_str()?)
            });
        let grants = object.get("grants").map(|grants| Grants::read(at.member("grants"), grants, problems));
        let limits = object.get("limits").map(|limits| Limits::read(at.member("limits"), limits, problems));
        let default = ModuleRule::default();
        let allow_skip = object.read("allowSkip", "true or false", problems, Value::as_bool);
        let config =
            object.read("config", "an object", problems, |value| value.is_object().then(|| value.clone()));
        object.end(problems);
        modules.insert(
            name,
            ModuleRule {
                digest,
                grants: grants.unwrap_or_default(),
                limits: limits.unwrap_or_default(),
                allow_skip: allow_skip.unwrap_or(default.allow_skip),
                config,
            },
        );
    }
    modules
}

impl RecordRule {
    /// 64 MiB hold some thousand recordings.
    const MAX_BYTES: u64 = 64 << 20;
    /// A week.
    const MAX_AGE_HOURS: u64 = 168;

    fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let mut object = Object::new(At::Member(&At::Document, "record"), value, problems)?;
        let bytes = object.read("maxBytes", "a number of bytes from 1", problems, |value| {
            value.as_u64().filter(|bytes| *bytes > 0)
        });
        let hours = object.read("maxAgeHours", "a number of hours from 1 to 87600", problems, |value| {
            value.as_u64().filter(|hours| (1..=87_600).contains(hours))
        });
        object.end(problems);
        Some(Self {
            max_bytes: bytes.unwrap_or(Self::MAX_BYTES),
            max_age: Duration::from_secs(hours.unwrap_or(Self::MAX_AGE_HOURS) * 3600),
        })
    }
}

impl Deadlines {
    fn read(value: &Value, problems: &mut Problems) -> Self {
        let mut deadlines = Self::default();
        let Some(mut object) = Object::new(At::Member(&At::Document, "deadlines"), value, problems) else {
            return deadlines;
        };
        for (key, slot) in [
            ("delegateSeconds", &mut deadlines.delegate),
            ("rollbackSeconds", &mut deadlines.rollback),
            ("callSeconds", &mut deadlines.call),
        ] {
            let seconds = object.read(key, "a number of seconds from 1 to 3600", problems, |value| {
                value.as_u64().filter(|seconds| (1..=3600).contains(seconds))
            });
            if let Some(seconds) = seconds {
                *slot = Duration::from_secs(seconds);
            }
        }
        object.end(problems);
        deadlines
    }
}

impl Paths {
    fn read(value: &Value, problems: &mut Problems) -> Self {
        let mut paths = Self::default();
        let Some(mut object) = Object::new(At::Member(&At::Document, "paths"), value, problems) else {
            return paths;
        };
        for (key, slot) in [("bin", &mut paths.bin), ("cache", &mut paths.cache)] {
            let dirs = object.read(key, "an array of absolute paths without . and ..", problems, |value| {
                let dir =
                    |item: &Value| item.as_str().map(PathBuf::from).filter(|path| is_plain_absolute(path));
                value.as_array()?.iter().map(dir).collect::<Option<Vec<_>>>()
            });
            if let Some(dirs) = dirs {
                *slot = dirs;
            }
        }
        let log = object.read(
            "log",
            "an array of absolute paths, where * stands for anything but /",
            problems,
            |value| {
                let pattern = |item: &Value| {
                    item.as_str().filter(|text| is_plain_absolute(Path::new(text))).map(str::to_owned)
                };
                value.as_array()?.iter().map(pattern).collect::<Option<Vec<_>>>()
            },
        );
        if let Some(log) = log {
            paths.log = log;
        }
        object.end(problems);
        paths
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> Result<NodeConfig, NodeError> {
        NodeConfig::parse(Path::new("/etc/catena/node.json"), value.to_string().as_bytes())
    }

    #[test]
    fn absent_is_defaults() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::from_value(Some(temp.path().as_os_str()));
        assert_eq!(NodeConfig::load(&root).unwrap(), NodeConfig::default());
        std::fs::create_dir_all(temp.path().join("etc/catena")).unwrap();
        assert_eq!(NodeConfig::load(&root).unwrap(), NodeConfig::default());
        std::fs::write(root.node_file(), r#"{"secondaryDefaults": "filter"}"#).unwrap();
        assert_eq!(NodeConfig::load(&root).unwrap().secondary_defaults, SecondaryDefaults::Filter);
    }

    #[test]
    fn everything() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let config = parse(json!({
            "modules": {"gw": {
                "digest": digest, "grants": {"links": true}, "limits": {"fuel": 5}, "allowSkip": false,
                "config": {"filter": ["ipv6"]}
            }},
            "pipelines": {"p": [{"stage": "gw"}]}, "defaultPipeline": "p", "stdinPipelines": "none",
            "baseline": {"after": [{"stage": "policy"}]}, "record": {"maxBytes": 5, "maxAgeHours": 2},
            "deadlines": {"delegateSeconds": 5, "callSeconds": 20},
            "paths": {"bin": ["/a"], "log": ["/x/*"]},
            "secondaryDefaults": "keep"
        }))
        .unwrap();
        let rule = config.modules.get(&ModuleName::parse("gw").unwrap()).unwrap();
        assert_eq!(rule.digest.as_ref().unwrap().as_str(), digest);
        assert!(rule.grants.links && !rule.allow_skip);
        assert_eq!((rule.limits.fuel, rule.limits.memory), (5, Limits::default().memory));
        assert_eq!(rule.config, Some(json!({"filter": ["ipv6"]})));
        assert!(config.pipelines.baseline.has("policy"));
        assert_eq!(config.pipelines.default.as_deref(), Some("p"));
        let record = RecordRule { max_bytes: 5, max_age: Duration::from_secs(7200) };
        assert_eq!(config.record, Some(record));
        assert_eq!(config.deadlines.delegate, Duration::from_secs(5));
        assert_eq!(config.deadlines.rollback, Duration::from_secs(60));
        assert_eq!(config.paths.bin, [PathBuf::from("/a")]);
        assert_eq!(config.paths.cache, Paths::default().cache);
    }

    #[test]
    fn every_problem_names_its_key() {
        let error = parse(json!({
            "modules": {
                "gw": {"digest": "abc", "limits": {"cpu": 1}, "grant": {}, "allowSkip": "no", "config": []}, "B": {}
            },
            "deadlines": {"delegateSeconds": 0}, "paths": {"bin": ["../x"]}, "secondaryDefaults": "drop",
            "pipelines": {"x": 1}, "record": {"maxBytes": 0, "maxAge": 1}, "speed": 1
        }))
        .unwrap_err();
        let text = error.to_string();
        for key in [
            "/etc/catena/node.json",
            "modules.gw.digest",
            "unknown key modules.gw.limits.cpu",
            "modules.gw.allowSkip must be true or false",
            "modules.gw.config must be an object",
            "unknown key modules.gw.grant",
            "modules.B",
            "deadlines.delegateSeconds",
            "paths.bin",
            "secondaryDefaults",
            "pipelines.x must be an array",
            "record.maxBytes",
            "unknown key record.maxAge",
            "unknown key speed = 1",
        ] {
            assert!(text.contains(key), "{key} in {text}");
        }
        assert_eq!(error.code(), 2);
        assert_eq!(parse(json!({"deadlines": 1})).unwrap_err().code(), 7);
        assert_eq!(NodeConfig::parse(Path::new("x"), b"{").unwrap_err().code(), 6);
        assert_eq!(parse(json!([])).unwrap_err().code(), 7);
    }

    #[test]
    fn a_repeated_key_is_refused() {
        let twice = br#"{"modules": {"gw": {"grants": {"links": true}, "grants": {}}, "gw": {}}, "record": {}, "record": {}}"#;
        let error = NodeConfig::parse(Path::new("node.json"), twice).unwrap_err();
        assert_eq!(error.code(), 7);
        let text = error.to_string();
        for place in ["modules.gw.grants is there more than once", "modules.gw is", "record is"] {
            assert!(text.contains(place), "{place} in {text}");
        }
    }

    #[test]
    fn paths_of_stdin() {
        let paths = Paths::default();
        assert!(paths.allows_bin(Path::new("/opt/cni/bin")) && paths.allows_bin(Path::new("/opt/cni/bin/")));
        assert!(
            !paths.allows_bin(Path::new("/tmp")) && !paths.allows_bin(Path::new("/opt/cni/bin/../../../tmp"))
        );
        assert!(
            paths.allows_cache(Path::new("/var/lib/cni/catena"))
                && !paths.allows_cache(Path::new("/var/lib/cni/results"))
        );
        assert!(paths.allows_log(Path::new("/var/log/multus.log")));
        for bad in
            ["/var/log/a/b.log", "/var/log/../../etc/x.log", "/var/log/x", "var/log/x.log", "/etc/passwd"]
        {
            assert!(!paths.allows_log(Path::new(bad)), "{bad}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("*", "a", true),
            ("*", "a/b", false),
            ("a*c", "abbc", true),
            ("a*c", "ab/c", false),
            ("/x/*/y", "/x/1/y", true),
            ("**", "ab", true),
            ("a", "b", false),
            ("*.log", ".log", true),
        ] {
            assert_eq!(matches_pattern(pattern.as_bytes(), text.as_bytes()), matches, "{pattern} {text}");
        }
    }
}
