//! Recordings: what the pipeline saw in an ADD and what came of it, so that another pipeline can be tried on it.
//!
//! A recording is one JSON document (mode 0600) in `/var/lib/catena/records`, made only where node.json has
//! `record`. Of the pod's annotations it holds those that a module of the pipeline was granted.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::attach::entry::Intended;
use crate::node::{NodeError, OwnedDir, RecordRule, Root};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// What one ADD showed its pipeline, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recording {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Milliseconds since 1970 at the ADD's start.
    pub time_ms: u64,
    /// The `cniVersion` that was asked for.
    pub cni_version: String,
    /// The node's `secondaryDefaults`.
    pub secondary_defaults: String,
    /// The pod's annotations, as far as a module of the pipeline was granted them.
    pub annotations: Map<String, Value>,
    /// What the ledger has of it: identity, pipeline, and of each attachment its config as it was sent, what it
    /// asked for and what was decided. Its capability arguments are without annotations.
    pub intended: Intended,
    /// Whether `arrange` and `admit` let the attachments be made.
    pub admitted: bool,
    /// The attachments in order.
    pub attachments: Vec<RecordedAttachment>,
    /// Why the ADD failed; absent where it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// What the pipeline saw of one attachment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedAttachment {
    /// The config that `admit` was shown.
    pub config: Value,
    /// What its stages began with; absent if it did not come so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// What its stages ended with; absent if one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
}

/// What the stages of an attachment began with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Before {
    /// `cni/VERSION` or `raw`.
    pub format: String,
    /// The delegate's result.
    pub result: Value,
    /// What a delegate wrote about the device that it attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_info: Option<Value>,
    /// The indices of the attachment's own links.
    pub links: Vec<u32>,
    /// Links and routes of the namespace (a route snapshot).
    pub namespace: Value,
}

/// What the stages of an attachment ended with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct After {
    /// `cni/VERSION` or `raw`.
    pub format: String,
    /// The result.
    pub result: Value,
    /// The tags that were set.
    pub tags: Vec<String>,
    /// The publications.
    pub publications: BTreeMap<String, Value>,
    /// Links and routes of the namespace (a route snapshot).
    pub namespace: Value,
}

/// Why an ADD failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The CNI error code.
    pub code: u32,
    /// The CNI error's msg.
    pub msg: String,
}

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Its folder or file cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// It alone is more than the node gives to all.
    #[error("the recording has {size} bytes, more than record.maxBytes {most} in node.json; it was not kept")]
    TooBig {
        /// Its size.
        size: u64,
        /// What all may have together.
        most: u64,
    },
    /// The operating system said no.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is not a recording of this version.
    #[error("{} is not a recording that this catena reads: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

impl Recording {
    /// Reads one.
    ///
    /// # Errors
    /// It cannot be read, or is none of this version.
    pub fn load(path: &Path) -> Result<Recording, RecordingError> {
        let failed = |source| RecordingError::Io { operation: "read", path: path.to_owned(), source };
        Recording::parse(path, &std::fs::read(path).map_err(failed)?)
    }

    /// Reads the text of the file `path`.
    ///
    /// # Errors
    /// It is none of this version.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Recording, RecordingError> {
        let unreadable = |cause: String| RecordingError::Unreadable { path: path.to_owned(), cause };
        let value: Value = serde_json::from_slice(bytes).map_err(|error| unreadable(error.to_string()))?;
        match value.get("schema").and_then(Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(other) => return Err(unreadable(format!("its schema is {other}, not {SCHEMA}"))),
            None => return Err(unreadable("it has no schema".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))
    }

    /// Writes it, then removes what is too old or too much.
    ///
    /// # Errors
    /// Nothing was written, or something could not be removed.
    pub fn store(&self, root: &Root, rule: &RecordRule) -> Result<(), RecordingError> {
        let text = serde_json::to_vec(self)
            .map_err(|error| RecordingError::Unreadable { path: root.records(), cause: error.to_string() })?;
        let size = text.len() as u64;
        if size > rule.max_bytes {
            return Err(RecordingError::TooBig { size, most: rule.max_bytes });
        }
        let dir = OwnedDir::create(&root.records(), 0o700)?;
        // The digits of the time come first and are always as many, so that names sort by time.
        let Intended { container_id, ifname, .. } = &self.intended;
        let id: String = container_id.chars().take(100).collect();
        dir.write(&format!("{:013}-{id}-{ifname}.json", self.time_ms), &text, 0o600)?;
        prune(&root.records(), rule, now_ms())
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The recordings in a folder, oldest first.
///
/// # Errors
/// The folder is there and cannot be read.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, RecordingError> {
    Ok(entries(folder)?.into_iter().filter(|entry| entry.complete).map(|entry| entry.path).collect())
}

/// A file of the folder that is ours.
struct Kept {
    time_ms: u64,
    path: PathBuf,
    /// Else it is what a killed writer left.
    complete: bool,
}

fn entries(folder: &Path) -> Result<Vec<Kept>, RecordingError> {
    let failed = |source| RecordingError::Io { operation: "list", path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut kept = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let time = name.trim_start_matches('.').split('-').next().and_then(|time| time.parse().ok());
        if let Some(time_ms) = time {
            let complete = !name.starts_with('.') && name.ends_with(".json");
            kept.push(Kept { time_ms, path, complete });
        }
    }
    kept.sort_by(|a, b| (a.time_ms, &a.path).cmp(&(b.time_ms, &b.path)));
    Ok(kept)
}

/// How long a file that is being written may take.
const UNFINISHED: Duration = Duration::from_secs(600);

/// Removes the oldest until the rest is young and small enough. Another call may do the same at the same time.
fn prune(folder: &Path, rule: &RecordRule, now_ms: u64) -> Result<(), RecordingError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut total = 0u64;
    for Kept { time_ms, path, complete } in entries(folder)?.into_iter().rev() {
        let age = now_ms.saturating_sub(time_ms);
        let keep = if complete {
            let Ok(data) = path.symlink_metadata() else { continue };
            total = total.saturating_add(data.len());
            age <= millis(rule.max_age) && total <= rule.max_bytes
        } else {
            age <= millis(UNFINISHED)
        };
        if keep {
            continue;
        }
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(RecordingError::Io { operation: "remove", path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    pub(crate) fn recording(time_ms: u64) -> Recording {
        Recording {
            schema: SCHEMA,
            time_ms,
            cni_version: "1.0.0".into(),
            secondary_defaults: "keep".into(),
            annotations: Map::new(),
            intended: crate::attach::entry::tests::intended(),
            attachments: Vec::new(),
            admitted: true,
            error: Some(Failure { code: 7, msg: "x".into() }),
        }
    }

    fn rule(max_bytes: u64, max_age: Duration) -> RecordRule {
        RecordRule { max_bytes, max_age }
    }

    const LONG: Duration = Duration::from_secs(3600);

    fn root(temp: &tempfile::TempDir) -> Root {
        Root::from_value(Some(OsStr::new(temp.path())))
    }

    #[test]
    fn is_read_back_as_written_and_private() {
        let temp = tempfile::tempdir().unwrap();
        let root = root(&temp);
        assert!(list(&root.records()).unwrap().is_empty());
        recording(now_ms()).store(&root, &rule(1 << 20, LONG)).unwrap();
        let found = list(&root.records()).unwrap();
        assert_eq!(found.len(), 1);
        let read = Recording::load(&found[0]).unwrap();
        assert_eq!(read, recording(read.time_ms));
        assert_eq!(found[0].metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(root.records().metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    }

    #[test]
    fn the_oldest_go_first() {
        let temp = tempfile::tempdir().unwrap();
        let root = root(&temp);
        let now = now_ms();
        let size = serde_json::to_vec(&recording(now)).unwrap().len() as u64;
        for age in [5, 4, 3, 2, 1] {
            recording(now - age).store(&root, &rule(3 * size, LONG)).unwrap();
        }
        let times = |root: &Root| -> Vec<u64> {
            list(&root.records()).unwrap().iter().map(|path| Recording::load(path).unwrap().time_ms).collect()
        };
        assert_eq!(times(&root), [now - 3, now - 2, now - 1]);
        // By age.
        recording(now - 20_000).store(&root, &rule(100 * size, LONG)).unwrap();
        recording(now).store(&root, &rule(100 * size, Duration::from_secs(10))).unwrap();
        assert_eq!(times(&root), [now - 3, now - 2, now - 1, now]);
        let error = recording(now).store(&root, &rule(size - 1, LONG)).unwrap_err().to_string();
        assert!(error.contains("record.maxBytes"), "{error}");
        assert_eq!(times(&root).len(), 4);
    }

    #[test]
    fn what_is_not_ours_stays_and_what_was_left_goes() {
        let temp = tempfile::tempdir().unwrap();
        let root = root(&temp);
        let now = now_ms();
        recording(now).store(&root, &rule(1 << 20, LONG)).unwrap();
        let left = root.records().join(format!(".{:013}-c-eth0.json.7", now - 700_000));
        let writing = root.records().join(format!(".{now:013}-c-eth0.json.8"));
        let foreign = root.records().join("notes.txt");
        for path in [&left, &writing, &foreign] {
            std::fs::write(path, "x").unwrap();
        }
        recording(now + 1).store(&root, &rule(1 << 20, LONG)).unwrap();
        assert!(!left.exists() && writing.exists() && foreign.exists());
        assert_eq!(list(&root.records()).unwrap().len(), 2);
    }

    #[test]
    fn another_version_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x.json");
        for (text, part) in [
            ("{", "EOF"),
            (r#"{"schema": 2}"#, "schema is 2, not 1"),
            ("{}", "no schema"),
            (r#"{"schema": 1, "more": 1}"#, "more"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Recording::load(&path).unwrap_err().to_string();
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
