//! The contract with modules that are out there: what was released of a version never changes.

use std::path::{Path, PathBuf};

use catena::node::Digest;
use serde_json::{Value, json};

/// Each version's folder and the digest of what is closed in it: the WIT files, and the schema of what modules answer. A
/// new version gets a line of its own; no line ever changes.
const VERSIONS: [(&str, &str); 1] =
    [("0.1.0", "sha256:c5fb6cd39f98fc449495e21639e06d221555e1a7db6e9bf19c3236b31ae3b913")];

/// Schemas of what modules are told, to which members may be added. `tests/frozen` has them as they were released.
const OPEN: [&str; 2] = ["attachments.schema.json", "context.schema.json"];

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Of the names and texts of a version's closed files.
fn digest(folder: &Path) -> Digest {
    let mut all = Vec::new();
    for name in names(folder).into_iter().filter(|name| !OPEN.contains(&name.as_str())) {
        let text = std::fs::read(folder.join(&name)).unwrap();
        all.extend(format!("{name} {}\n", text.len()).bytes());
        all.extend(text);
    }
    Digest::of(&all)
}

#[test]
fn a_released_version_is_as_it_was() {
    for (version, frozen) in VERSIONS {
        let found = digest(&wit().join(version));
        assert_eq!(
            found.as_str(),
            frozen,
            "wit/{version} was changed; modules are built against it, so put it back, and make a new version of what \
             has to be new (see sdk/COMPATIBILITY.md)"
        );
    }
    let known = VERSIONS.map(|(version, _)| version);
    assert_eq!(names(&wit()), known, "each version of the contract has its digest here");
}

#[test]
fn what_a_module_is_told_is_told_to_the_next_one_too() {
    for (version, _) in VERSIONS {
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(version);
        for name in OPEN {
            let read = |folder: &Path| -> Value {
                serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
            };
            let missing = missing(&read(&frozen), &read(&wit().join(version)));
            assert_eq!(
                missing, [""; 0],
                "{name} of {version}: only members may be added (see sdk/COMPATIBILITY.md)"
            );
        }
    }
}

/// Where a schema does not say what the released one said. Texts for people may change, members be added.
fn missing(released: &Value, now: &Value) -> Vec<String> {
    match (released, now) {
        (Value::Object(released), Value::Object(now)) => {
            let said = released.iter().filter(|(key, value)| {
                !(matches!(key.as_str(), "description" | "title") && value.is_string())
            });
            let inside = |(key, value): (&String, &Value)| {
                let missing = now.get(key).map_or_else(|| vec![String::new()], |now| missing(value, now));
                missing.into_iter().map(|place| format!("/{key}{place}")).collect::<Vec<_>>()
            };
            said.flat_map(inside).collect()
        }
        _ if released == now => Vec::new(),
        _ => vec![String::new()],
    }
}

#[test]
fn a_change_is_seen() {
    let released = json!({"description": "x", "required": ["a"], "properties": {"a": {"type": "string"}}});
    let with = |pointer: &str, value: Value| {
        let mut now = released.clone();
        *now.pointer_mut(pointer).unwrap() = value;
        missing(&released, &now)
    };
    assert_eq!(with("/description", json!("y")), [""; 0]);
    assert_eq!(with("/properties", json!({"a": {"type": "string"}, "b": {}})), [""; 0]);
    assert_eq!(with("/properties", json!({"b": {}})), ["/properties/a"]);
    assert_eq!(with("/properties/a/type", json!("number")), ["/properties/a/type"]);
    assert_eq!(with("/required", json!([])), ["/required"]);
}
