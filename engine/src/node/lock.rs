use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::object::{Object, Problems};
use super::place::At;
use super::problem::Problem;
use super::{Digest, Grants, ModuleName, NodeError, OwnedDir};

/// `lock.json`: what was installed, as `catenactl install` recorded it. Nobody else writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleLock {
    /// By name.
    pub modules: BTreeMap<ModuleName, LockEntry>,
}

/// A name's modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockEntry {
    /// The one in use; none where what was installed was rolled back to a built-in stage.
    pub current: Option<Installed>,
    /// Those before it, newest first. Attachments that were made with them are still checked with them.
    pub previous: Vec<Installed>,
}

/// An installed module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Digest of the component.
    pub digest: Digest,
    /// Size of the component in bytes.
    pub size: u64,
    /// The module's own version, where it says one.
    pub version: Option<String>,
    /// What was compiled from it, by the engine that it is for.
    pub artifacts: BTreeMap<String, ArtifactRecord>,
    /// The interfaces of catena:stage that it exports, by their short names.
    pub exports: Vec<String>,
    /// What it imports, with versions.
    pub imports: Vec<String>,
    /// The version of catena:stage that it was built for.
    pub contract: String,
    /// What it says it needs.
    pub wants: Grants,
    /// What it was granted at install.
    pub grants: Grants,
}

/// A compiled module's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRecord {
    /// Digest of the file.
    pub digest: Digest,
    /// Size of the file in bytes.
    pub size: u64,
}

impl Installed {
    /// Name of the file beside `lock.json` that has the artifact for an engine.
    pub fn artifact_file(&self, engine: &str) -> String {
        format!("{}-{engine}.cwasm", self.digest.hex())
    }

    /// Name of the component's file beside `lock.json`.
    pub fn module_file(&self) -> String {
        format!("{}.wasm", self.digest.hex())
    }
}

impl LockEntry {
    /// Every module of the name, the one in use first.
    pub fn all(&self) -> impl Iterator<Item = &Installed> {
        self.current.iter().chain(&self.previous)
    }

    /// The same, to change them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Installed> {
        self.current.iter_mut().chain(&mut self.previous)
    }

    /// The module with that digest, be it current or earlier.
    pub fn find(&self, digest: &Digest) -> Option<&Installed> {
        self.all().find(|installed| installed.digest == *digest)
    }
}

/// Names one version of the file's form.
const SCHEMA: u64 = 2;
/// A lock file larger than this is none.
const LIMIT: u64 = 4 << 20;

impl ModuleLock {
    /// The file's name in the folder of installed modules.
    pub const FILE: &'static str = "lock.json";

    /// Reads the file; nothing is installed if there is none.
    ///
    /// # Errors
    /// It cannot be read, others may write to it, or it is damaged.
    pub fn load(dir: &OwnedDir) -> Result<Self, NodeError> {
        match dir.read(Self::FILE, LIMIT)? {
            Some(bytes) => Self::parse(&dir.path().join(Self::FILE), &bytes),
            None => Ok(Self::default()),
        }
    }

    /// Replaces the file in one step.
    ///
    /// # Errors
    /// As [`OwnedDir::write`].
    pub fn store(&self, dir: &OwnedDir) -> Result<(), NodeError> {
        let mut text = format!("{:#}", self.to_value());
        text.push('\n');
        dir.write(Self::FILE, text.as_bytes(), 0o600)
    }

    /// Makes a module the current one of its name; the one before it is kept.
    pub fn install(&mut self, name: ModuleName, installed: Installed) {
        let old = self.modules.remove(&name);
        let mut previous: Vec<Installed> = Vec::new();
        if let Some(old) = old {
            previous.extend(old.current);
            previous.extend(old.previous);
            previous.retain(|other| other.digest != installed.digest);
        }
        self.modules.insert(name, LockEntry { current: Some(installed), previous });
    }

    /// Exchanges a name's module and the one before it, so that doing it twice changes nothing. Where there is none
    /// before it, a built-in stage of that name comes into use (`to_builtin`).
    ///
    /// Returns false, and changes nothing, where there is nothing to go back to.
    pub fn roll_back(&mut self, name: &ModuleName, to_builtin: bool) -> bool {
        let Some(entry) = self.modules.get_mut(name) else { return false };
        let before = if entry.previous.is_empty() { None } else { Some(entry.previous.remove(0)) };
        if before.is_none() && !to_builtin {
            return false;
        }
        if let Some(after) = std::mem::replace(&mut entry.current, before) {
            entry.previous.insert(0, after);
        }
        true
    }

    /// Reads the bytes of a lock.json; `path` is for messages.
    ///
    /// # Errors
    /// It is not JSON or damaged; every problem is named.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, NodeError> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| NodeError::Json { path: path.to_owned(), cause: error.to_string() })?;
        let mut problems = Problems::default();
        problems.repeated_keys(bytes);
        let lock = Self::read(&value, &mut problems);
        problems.finish(path)?;
        Ok(lock)
    }

    fn read(value: &Value, problems: &mut Problems) -> Self {
        let mut lock = Self::default();
        let Some(mut object) = Object::new(At::Document, value, problems) else { return lock };
        object.read("schema", "2; run `catenactl install` of this version again", problems, |value| {
            value.as_u64().filter(|schema| *schema == SCHEMA)
        });
        if let Some(modules) = object.get("modules") {
            let at = At::Document.member("modules");
            let Some(map) = modules.as_object() else {
                problems.add(Problem::wrong(&at, "an object of modules by name", modules));
                return lock;
            };
            for (name, entry) in map {
                let at = at.member(name);
                match (ModuleName::parse(name), LockEntry::read(at, entry, problems)) {
                    (Some(name), Some(entry)) => drop(lock.modules.insert(name, entry)),
                    (None, _) => problems.value(&at, format!("{at} is not a module's name")),
                    (_, None) => {}
                }
            }
        }
        object.end(problems);
        lock
    }

    fn to_value(&self) -> Value {
        let modules: Map<String, Value> =
            self.modules.iter().map(|(name, entry)| (name.to_string(), entry.to_value())).collect();
        json!({ "schema": SCHEMA, "modules": modules })
    }
}

impl LockEntry {
    fn read(at: At<'_>, value: &Value, problems: &mut Problems) -> Option<Self> {
        let mut object = Object::new(at, value, problems)?;
        let current = object.read("current", "an object", problems, Some);
        let current = current.and_then(|value| Installed::read(object.at("current"), value, problems));
        let previous = object.read("previous", "an array", problems, Value::as_array);
        let place = object.at("previous");
        let previous = previous.into_iter().flatten().enumerate();
        let read = |(index, value)| Installed::read(place.element(index), value, problems);
        let previous = previous.filter_map(read).collect();
        object.end(problems);
        Some(Self { current, previous })
    }

    fn to_value(&self) -> Value {
        let previous: Vec<Value> = self.previous.iter().map(Installed::to_value).collect();
        match &self.current {
            Some(current) => json!({ "current": current.to_value(), "previous": previous }),
            None => json!({ "previous": previous }),
        }
    }
}

impl Installed {
    fn read(at: At<'_>, value: &Value, problems: &mut Problems) -> Option<Self> {
        let mut object = Object::new(at, value, problems)?;
        let digest = |value: &Value| Digest::parse(value.as_str()?);
        let texts = |list: Option<Vec<&str>>| list.map(|list| list.into_iter().map(str::to_owned).collect());
        let component = object.read("digest", "a digest", problems, digest);
        let size = object.read("size", "a number of bytes", problems, Value::as_u64);
        let version = object.read("version", "a text", problems, |value| value.as_str().map(str::to_owned));
        let artifacts = object.read("artifacts", "an object by engine", problems, Value::as_object);
        let place = object.at("artifacts");
        let artifacts = artifacts.map(|map| {
            let record = |(engine, value): (&String, &Value)| {
                let mut object = Object::new(place.member(engine), value, problems)?;
                let record = object.read("digest", "a digest", problems, digest).zip(object.read(
                    "size",
                    "a number of bytes",
                    problems,
                    Value::as_u64,
                ));
                object.end(problems);
                record.map(|(digest, size)| (engine.clone(), ArtifactRecord { digest, size }))
            };
            map.iter().filter_map(record).collect()
        });
        let exports = texts(object.strings("exports", problems));
        let imports = texts(object.strings("imports", problems));
        let contract =
            object.read("contract", "a version", problems, |value| value.as_str().map(str::to_owned));
        let mut grants = |key: &'static str| {
            let value = object.get(key)?;
            Some(Grants::read(object.at(key), value, problems))
        };
        let (wants, granted) = (grants("wants"), grants("grants"));
        object.end(problems);
        let installed = (|| {
            Some(Self {
                digest: component?,
                size: size?,
                version,
                artifacts: artifacts?,
                exports: exports?,
                imports: imports?,
                contract: contract?,
                wants: wants?,
                grants: granted?,
            })
        })();
        if installed.is_none() {
            problems.value(&at, format!("{at} is incomplete"));
        }
        installed
    }

    fn to_value(&self) -> Value {
        let artifact = |(engine, artifact): (&String, &ArtifactRecord)| {
            (engine.clone(), json!({ "digest": artifact.digest.as_str(), "size": artifact.size }))
        };
        let mut value = json!({
            "digest": self.digest.as_str(),
            "size": self.size,
            "artifacts": self.artifacts.iter().map(artifact).collect::<Map<_, _>>(),
            "exports": self.exports,
            "imports": self.imports,
            "contract": self.contract,
            "wants": self.wants.to_value(),
            "grants": self.grants.to_value(),
        });
        if let Some(version) = &self.version {
            value["version"] = Value::from(version.as_str());
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(content: &str) -> Installed {
        let grants = Grants::parse(At::Document, &json!({"log": true, "routes": {"ops": ["read"]}})).unwrap();
        Installed {
            digest: Digest::of(content.as_bytes()),
            size: 5,
            version: Some("1.2.3".into()),
            artifacts: BTreeMap::from([(
                "0123".into(),
                ArtifactRecord { digest: Digest::of(b"artifact"), size: 9 },
            )]),
            exports: vec!["stage".into()],
            imports: vec!["catena:stage/log@0.1.0".into()],
            contract: "0.1.0".into(),
            wants: grants.clone(),
            grants,
        }
    }

    fn name(text: &str) -> ModuleName {
        ModuleName::parse(text).unwrap()
    }

    #[test]
    fn survives_a_round_trip() {
        let temp = tempfile::tempdir().unwrap();
        let dir = OwnedDir::create(&temp.path().join("modules"), 0o700).unwrap();
        assert_eq!(ModuleLock::load(&dir).unwrap(), ModuleLock::default());
        let mut lock = ModuleLock::default();
        lock.install(name("gw"), installed("one"));
        lock.install(name("gw"), installed("two"));
        lock.install(name("x"), installed("three"));
        lock.store(&dir).unwrap();
        assert_eq!(ModuleLock::load(&dir).unwrap(), lock);
        let entry = lock.modules.get(&name("gw")).unwrap();
        assert_eq!(entry.previous, [installed("one")]);
        assert!(entry.find(&Digest::of(b"one")).is_some() && entry.find(&Digest::of(b"three")).is_none());
    }

    #[test]
    fn going_back_keeps_each_once() {
        let mut lock = ModuleLock::default();
        for content in ["one", "two", "one"] {
            lock.install(name("gw"), installed(content));
        }
        let entry = lock.modules.get(&name("gw")).unwrap();
        let current = installed("one");
        assert_eq!((&entry.current, entry.previous.as_slice()), (&Some(current), &[installed("two")][..]));
    }

    #[test]
    fn rolling_back_twice_changes_nothing() {
        let mut lock = ModuleLock::default();
        assert!(!lock.roll_back(&name("gw"), true), "nothing is installed");
        lock.install(name("gw"), installed("one"));
        assert!(!lock.roll_back(&name("gw"), false), "nothing was before it");
        assert!(lock.roll_back(&name("gw"), true));
        let entry = lock.modules.get(&name("gw")).unwrap().clone();
        assert_eq!((&entry.current, entry.previous.as_slice()), (&None, &[installed("one")][..]));
        assert_eq!(LockEntry::read(At::Document, &entry.to_value(), &mut Problems::default()), Some(entry));
        assert!(lock.roll_back(&name("gw"), true));
        lock.install(name("gw"), installed("two"));
        let before = lock.clone();
        assert!(lock.roll_back(&name("gw"), false));
        assert_eq!(lock.modules.get(&name("gw")).unwrap().current, Some(installed("one")));
        assert!(lock.roll_back(&name("gw"), false));
        assert_eq!(lock, before);
    }

    #[test]
    fn damage_is_named() {
        for (text, part) in [
            ("{", "not JSON"),
            (r#"{"schema": 9, "modules": {}}"#, "schema must be 2"),
            (r#"{"schema": 2, "modules": {"gw": {"current": {}}}}"#, "modules.gw.current is incomplete"),
            (
                r#"{"schema": 2, "modules": {"gw": {"current": {"digest": "x"}}}}"#,
                "modules.gw.current.digest",
            ),
            (r#"{"schema": 2, "modules": {"../x": {}}}"#, "not a module's name"),
            (r#"{"schema": 2, "modules": {}, "modules": {}}"#, "modules is there more than once"),
        ] {
            let error = ModuleLock::parse(Path::new("lock.json"), text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
