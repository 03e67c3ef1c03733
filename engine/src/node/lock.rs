use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::object::{Object, Problems, wrong};
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
    /// The one in use.
    pub current: Installed,
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
    /// What was compiled from it.
    pub artifact: ArtifactRecord,
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
    /// Name of the artifact's file beside `lock.json`.
    pub fn artifact_file(&self) -> String {
        format!("{}.cwasm", self.digest.hex())
    }

    /// Name of the component's file beside `lock.json`.
    pub fn module_file(&self) -> String {
        format!("{}.wasm", self.digest.hex())
    }
}

impl LockEntry {
    /// The module with that digest, be it current or earlier.
    pub fn find(&self, digest: &Digest) -> Option<&Installed> {
        std::iter::once(&self.current).chain(&self.previous).find(|installed| installed.digest == *digest)
    }
}

/// Names one version of the file's form.
const SCHEMA: u64 = 1;
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
            previous.push(old.current);
            previous.extend(old.previous);
            previous.retain(|other| other.digest != installed.digest);
        }
        self.modules.insert(name, LockEntry { current: installed, previous });
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
        let Some(mut object) = Object::new("", value, problems) else { return lock };
        object.read("schema", "1; run `catenactl install` of this version again", problems, |value| {
            value.as_u64().filter(|schema| *schema == SCHEMA)
        });
        if let Some(modules) = object.get("modules") {
            let Some(map) = modules.as_object() else {
                problems.value(wrong("modules", "an object of modules by name", modules));
                return lock;
            };
            for (name, entry) in map {
                let at = format!("modules.{name}");
                match (ModuleName::parse(name), LockEntry::read(&at, entry, problems)) {
                    (Some(name), Some(entry)) => drop(lock.modules.insert(name, entry)),
                    (None, _) => problems.value(format!("{at} is not a module's name")),
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
    fn read(at: &str, value: &Value, problems: &mut Problems) -> Option<Self> {
        let mut object = Object::new(at, value, problems)?;
        let current = object.read("current", "an object", problems, Some);
        let current = current.and_then(|value| Installed::read(&object.path("current"), value, problems));
        let previous = object.read("previous", "an array", problems, Value::as_array);
        let place = object.path("previous");
        let previous = previous.into_iter().flatten();
        let previous = previous.filter_map(|value| Installed::read(&place, value, problems)).collect();
        object.end(problems);
        if current.is_none() {
            problems.value(format!("{at} has no current module"));
        }
        Some(Self { current: current?, previous })
    }

    fn to_value(&self) -> Value {
        let previous: Vec<Value> = self.previous.iter().map(Installed::to_value).collect();
        json!({ "current": self.current.to_value(), "previous": previous })
    }
}

impl Installed {
    fn read(at: &str, value: &Value, problems: &mut Problems) -> Option<Self> {
        let mut object = Object::new(at, value, problems)?;
        let digest = |value: &Value| Digest::parse(value.as_str()?);
        let texts = |list: Option<Vec<&str>>| list.map(|list| list.into_iter().map(str::to_owned).collect());
        let component = object.read("digest", "a digest", problems, digest);
        let size = object.read("size", "a number of bytes", problems, Value::as_u64);
        let artifact = object.read("artifact", "an object", problems, Some);
        let artifact = artifact.and_then(|value| {
            let mut object = Object::new(&object.path("artifact"), value, problems)?;
            let record = object.read("digest", "a digest", problems, digest).zip(object.read(
                "size",
                "a number of bytes",
                problems,
                Value::as_u64,
            ));
            object.end(problems);
            record.map(|(digest, size)| ArtifactRecord { digest, size })
        });
        let exports = texts(object.strings("exports", problems));
        let imports = texts(object.strings("imports", problems));
        let contract =
            object.read("contract", "a version", problems, |value| value.as_str().map(str::to_owned));
        let mut grants = |key: &'static str| {
            let value = object.get(key)?;
            Some(Grants::read(&object.path(key), value, problems))
        };
        let (wants, granted) = (grants("wants"), grants("grants"));
        object.end(problems);
        let installed = (|| {
            Some(Self {
                digest: component?,
                size: size?,
                artifact: artifact?,
                exports: exports?,
                imports: imports?,
                contract: contract?,
                wants: wants?,
                grants: granted?,
            })
        })();
        if installed.is_none() {
            problems.value(format!("{at} is incomplete"));
        }
        installed
    }

    fn to_value(&self) -> Value {
        json!({
            "digest": self.digest.as_str(),
            "size": self.size,
            "artifact": { "digest": self.artifact.digest.as_str(), "size": self.artifact.size },
            "exports": self.exports,
            "imports": self.imports,
            "contract": self.contract,
            "wants": self.wants.to_value(),
            "grants": self.grants.to_value(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(content: &str) -> Installed {
        let grants = Grants::parse("", &json!({"log": true, "routes": {"ops": ["read"]}})).unwrap();
        Installed {
            digest: Digest::of(content.as_bytes()),
            size: 5,
            artifact: ArtifactRecord { digest: Digest::of(b"artifact"), size: 9 },
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
        assert_eq!((&entry.current, entry.previous.as_slice()), (&installed("one"), &[installed("two")][..]));
    }

    #[test]
    fn damage_is_named() {
        for (text, part) in [
            ("{", "not JSON"),
            (r#"{"schema": 2, "modules": {}}"#, "schema must be 1"),
            (r#"{"schema": 1, "modules": {"gw": {}}}"#, "modules.gw has no current"),
            (
                r#"{"schema": 1, "modules": {"gw": {"current": {"digest": "x"}}}}"#,
                "modules.gw.current.digest",
            ),
            (r#"{"schema": 1, "modules": {"../x": {}}}"#, "not a module's name"),
            (r#"{"schema": 1, "modules": {}, "modules": {}}"#, "modules is there more than once"),
        ] {
            let error = ModuleLock::parse(Path::new("lock.json"), text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
