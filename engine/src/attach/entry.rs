//! One entry of the ledger: what an ADD was going to do, and what it did.
//!
//! An entry is a file of JSON lines. The first, the intent, is synced before anything happens; each later
//! line is one append. A line that a crash or a full disk has cut off is ignored, since DEL copes with the
//! loss of everything after the intent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attach::session::boot_id;
use crate::routes::netns::Netns;

/// The version of the file format.
pub const SCHEMA: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Intended {
    /// [`SCHEMA`].
    pub schema: u32,
    /// catena's network name.
    pub network: String,
    /// CNI_CONTAINERID.
    pub container_id: String,
    /// CNI_IFNAME.
    pub ifname: String,
    /// `meta` or `chained`.
    pub mode: String,
    /// The kernel's boot id (proc(5), /proc/sys/kernel/random/boot_id).
    pub boot_id: String,
    /// CNI_NETNS as given.
    pub netns: String,
    /// Device and inode of the namespace.
    pub netns_id: (u64, u64),
    /// The kernel's cookie of the namespace, where it gives one: the inode of one that has gone is given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns_cookie: Option<u64>,
    /// Whether it may be catena's own (CNI_NETNS_OVERRIDE).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_netns: bool,
    /// CNI_ARGS.
    pub args: String,
    /// `binDir` of the config.
    pub bin_dir: Option<String>,
    /// The folder of the delegates' libcni cache.
    pub cache_dir: String,
    /// Seconds since 1970.
    pub time: u64,
    /// The pipeline as it was resolved.
    pub pipeline: Vec<PipelineEntry>,
    /// The attachments in order; one without a config in chained mode.
    pub attachments: Vec<IntendedAttachment>,
}

/// A pipeline entry with the module that carried it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PipelineEntry {
    /// The stage's name.
    pub stage: String,
    /// `sha256:…` of the module.
    pub digest: String,
    /// JSON text of its config.
    pub config: String,
    /// Tags that must all be there.
    pub when: Vec<String>,
    /// Tags of which none may be there.
    pub unless: Vec<String>,
    /// `fail` or `skip`.
    pub on_error: String,
    /// `enforce` or `monitor`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// Whether it is of the node's baseline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
}

/// An attachment as it was going to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IntendedAttachment {
    /// CNI_IFNAME of the attachment.
    pub ifname: String,
    /// The delegate's network name.
    pub network: String,
    /// The name in the network status.
    pub name: String,
    /// `namespace` and `name` of the NetworkAttachmentDefinition.
    pub nad: Option<(Option<String>, String)>,
    /// The config list as it was sent, as JSON text; absent in chained mode.
    pub config: Option<String>,
    /// Capability arguments as JSON text.
    pub capability_args: String,
    /// The file for device information that catena chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_info: Option<String>,
    /// What it asked for, as stages see it.
    pub request: Value,
    /// What `arrange` decided.
    pub intent: Value,
}

/// A later line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Event {
    /// A process was started for an attachment; it gets its input after this line was written.
    Spawned {
        /// Process group.
        group: i32,
        /// Field 22 of proc(5) /proc/PID/stat of the group's leader.
        start_time: u64,
        /// The attachment.
        position: usize,
    },
    /// An attachment is there, and its pipeline has run.
    Attached {
        /// The attachment.
        position: usize,
        /// The final result as JSON text, with what it is (`cni/1.1.0`).
        format: String,
        /// See `format`.
        result: String,
        /// The tags that were set.
        tags: Vec<String>,
        /// Those of them that the baseline set.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        baseline_tags: Vec<String>,
        /// The indices of its own links; none was written before they were recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        links: Option<Vec<u32>>,
        /// Publications as key and JSON text.
        publications: Vec<(String, String)>,
        /// What the stages did: for people.
        report: Value,
    },
    /// What an operator should know although the ADD succeeds: for people.
    Noted {
        /// One text each.
        notes: Vec<String>,
    },
    /// The ADD has succeeded.
    Finished,
    /// A DEL has begun.
    Deleting,
    /// A DEL has failed.
    DeleteFailed {
        /// Seconds since 1970.
        time: u64,
        /// Its errors.
        errors: Vec<String>,
    },
}

/// An entry as read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The first line.
    pub intended: Intended,
    /// The lines that could be read, in order.
    pub events: Vec<Event>,
}

/// Why an entry cannot be used. DEL then works from the config on stdin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The first line is cut off or not ours.
    #[error("the first line is damaged: {0}")]
    Damaged(String),
    /// What is in it may be anybody's word.
    #[error("the file belongs to another user or can be written by others")]
    Foreign,
    /// A link, a folder, a fifo, a device: none is followed, read or waited for.
    #[error("it is no regular file")]
    NoFile,
    /// Written by another version.
    #[error("schema {found} is not {SCHEMA}, which this catena reads")]
    Schema {
        /// The number in the file.
        found: String,
    },
}

impl Entry {
    /// Reads a file's content.
    pub fn read(bytes: &[u8]) -> Result<Entry, EntryError> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let value: Value =
            serde_json::from_slice(first).map_err(|error| EntryError::Damaged(error.to_string()))?;
        match value.get("schema") {
            Some(schema) if schema.as_u64() == Some(u64::from(SCHEMA)) => {}
            other => {
                let found = other.map_or_else(|| "(none)".to_owned(), Value::to_string);
                return Err(EntryError::Schema { found });
            }
        }
        let intended: Intended =
            serde_json::from_value(value).map_err(|error| EntryError::Damaged(error.to_string()))?;
        let events = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok(Entry { intended, events })
    }

    /// Whether the ADD was recorded as finished and no DEL has begun since.
    pub fn is_finished(&self) -> bool {
        self.events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::Finished => Some(true),
                Event::Deleting | Event::DeleteFailed { .. } => Some(false),
                _ => None,
            })
            .unwrap_or(false)
    }

    /// Whether this is the namespace of the ADD.
    pub fn is_in(&self, netns: &Netns) -> bool {
        let intended = &self.intended;
        let same_cookie = match (intended.netns_cookie, netns.cookie()) {
            (Some(then), Some(now)) => then == now,
            // One of an entry that an older catena has written, or of an older kernel.
            _ => true,
        };
        intended.netns_id == netns.id() && same_cookie && intended.boot_id == boot_id()
    }

    /// Whether a delegate's children may still be at work: the last call was never recorded as ended.
    pub fn may_have_children(&self) -> bool {
        !matches!(self.events.last(), Some(Event::Finished | Event::DeleteFailed { .. }))
    }

    /// The last final result of each attachment, as an [`Event::Attached`].
    pub fn all_attached(&self) -> Vec<Option<&Event>> {
        let mut attached = vec![None; self.intended.attachments.len()];
        for event in &self.events {
            if let Event::Attached { position, .. } = event
                && let Some(last) = attached.get_mut(*position)
            {
                *last = Some(event);
            }
        }
        attached
    }

    /// The same of one.
    pub fn attached(&self, position: usize) -> Option<&Event> {
        self.events
            .iter()
            .rev()
            .find(|event| matches!(event, Event::Attached { position: at, .. } if *at == position))
    }
}

impl Entry {
    /// What an operator should know although the ADD has succeeded.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let notes = self.events.iter().filter_map(|event| match event {
            Event::Noted { notes } => Some(notes),
            _ => None,
        });
        notes.flatten().map(String::as_str)
    }
}

impl Event {
    /// The links that the ADD took for an attachment's own.
    pub fn links(&self) -> Option<&[u32]> {
        match self {
            Event::Attached { links, .. } => links.as_deref(),
            _ => None,
        }
    }
}

/// Any JSON value as one line.
pub fn line<T: Serialize>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn intended() -> Intended {
        Intended {
            schema: SCHEMA,
            network: "net".into(),
            container_id: "c1".into(),
            ifname: "eth0".into(),
            mode: "meta".into(),
            boot_id: "b".into(),
            netns: "/run/netns/x".into(),
            netns_id: (4, 4026532000),
            netns_cookie: None,
            own_netns: false,
            args: String::new(),
            bin_dir: None,
            cache_dir: "/var/lib/cni/catena/results".into(),
            time: 1,
            pipeline: Vec::new(),
            attachments: vec![IntendedAttachment {
                ifname: "eth0".into(),
                network: "n".into(),
                name: "n".into(),
                nad: None,
                config: Some(r#"{"name":"n","big":12345678901234567890123}"#.into()),
                capability_args: "{}".into(),
                device_info: None,
                request: Value::Null,
                intent: Value::Null,
            }],
        }
    }

    fn attached() -> Event {
        Event::Attached {
            position: 0,
            format: "cni/1.1.0".into(),
            result: "{}".into(),
            tags: vec!["empty".into()],
            baseline_tags: Vec::new(),
            links: Some(vec![3]),
            publications: Vec::new(),
            report: Value::Null,
        }
    }

    #[test]
    fn an_entry_is_read_back_as_written() {
        let events = [Event::Spawned { group: 7, start_time: 8, position: 0 }, attached(), Event::Finished];
        let mut bytes = line(&intended()).unwrap();
        for event in &events {
            bytes.extend(line(event).unwrap());
        }
        let entry = Entry::read(&bytes).unwrap();
        assert_eq!(entry.intended, intended());
        assert_eq!(entry.events, events);
        assert!(entry.is_finished() && !entry.may_have_children());
        assert!(entry.attached(0).is_some() && entry.attached(1).is_none());
        assert_eq!(entry.all_attached(), [Some(&events[1])]);
    }

    #[test]
    fn every_cut_is_either_damaged_or_a_shorter_entry() {
        let mut bytes = line(&intended()).unwrap();
        let first = bytes.len() - 1;
        bytes.extend(line(&attached()).unwrap());
        bytes.extend(line(&Event::Finished).unwrap());
        for cut in 0..bytes.len() {
            match Entry::read(&bytes[..cut]) {
                Err(_) => assert!(cut < first, "cut at {cut}"),
                Ok(entry) => {
                    assert!(cut >= first);
                    assert_eq!(entry.intended, intended());
                    assert!(!entry.is_finished() || cut >= bytes.len() - 1);
                }
            }
        }
    }

    #[test]
    fn an_unfinished_delete_is_not_finished() {
        let mut bytes = line(&intended()).unwrap();
        for event in [Event::Finished, Event::Deleting] {
            bytes.extend(line(&event).unwrap());
        }
        let entry = Entry::read(&bytes).unwrap();
        assert!(!entry.is_finished() && entry.may_have_children());
    }
}
