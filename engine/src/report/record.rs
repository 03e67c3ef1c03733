//! What one invocation did, for its line in the log and for `catenactl show`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::pipeline::run::Subject;
use crate::report::delegates::DelegateLog;

/// One call of a stage's export.
#[derive(Debug, Clone)]
pub struct StageRecord {
    /// The stage's name.
    pub stage: String,
    /// `sha256:…` of the module.
    pub digest: String,
    /// `settings`, `arrange`, `admit` or `stage`.
    pub export: &'static str,
    /// Wall time of the call.
    pub duration: Duration,
    /// Fuel that was used.
    pub fuel: u64,
    /// Most bytes of linear memory at once.
    pub memory: usize,
    /// `ok`, `skipped` (by a tag, or because nothing is asked of it), `failed`, `passed over` (failed under onError
    /// skip), `monitored` (without effect).
    pub outcome: &'static str,
    /// The error's text.
    pub error: Option<String>,
    /// The route changes that it made and that are there, as a person reads them.
    pub routes: Vec<String>,
    /// Those that were undone because it failed.
    pub undone: Vec<String>,
    /// The tags that it set.
    pub tags: Vec<String>,
    /// Its log lines.
    pub log: Vec<String>,
    /// The failed calls that it accepted, each with its reason.
    pub tolerated: Vec<String>,
    /// What it would have done, of a monitored stage, one line for each thing.
    pub would: Vec<String>,
}

impl StageRecord {
    /// As it stands in the log line and in the ledger.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "stage": self.stage,
            "digest": self.digest,
            "export": self.export,
            "durationUs": micros(self.duration),
            "fuel": self.fuel,
            "memory": self.memory,
            "outcome": self.outcome,
            "routeChanges": self.routes,
        });
        if let Some(error) = &self.error {
            value["error"] = Value::from(error.as_str());
        }
        for (member, lines) in [
            ("undone", &self.undone),
            ("tags", &self.tags),
            ("log", &self.log),
            ("tolerated", &self.tolerated),
            ("would", &self.would),
        ] {
            if !lines.is_empty() {
                value[member] = Value::from(lines.clone());
            }
        }
        value
    }
}

/// What happened to one attachment.
#[derive(Debug, Clone, Default)]
pub struct AttachmentRecord {
    /// Its network name.
    pub network: String,
    /// Its interface.
    pub ifname: String,
    /// What was arranged.
    pub intent: Value,
    /// Wall time of its delegates.
    pub delegates: Duration,
    /// The calls of its stages, in order.
    pub stages: Vec<StageRecord>,
}

/// What happened in one invocation.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// CNI_COMMAND.
    pub command: &'static str,
    /// catena's network name.
    pub network: String,
    /// CNI_CONTAINERID.
    pub container_id: String,
    /// CNI_IFNAME.
    pub ifname: String,
    /// `meta` or `chained`.
    pub mode: &'static str,
    /// The calls before any attachment.
    pub arrange: Vec<StageRecord>,
    /// The attachments in order.
    pub attachments: Vec<AttachmentRecord>,
    /// The processes of the delegates.
    pub delegates: Arc<DelegateLog>,
    /// What an operator should know although the call succeeded.
    pub notes: Vec<String>,
}

impl Record {
    /// Whether any stage was called.
    pub fn asked_any_stage(&self) -> bool {
        !self.arrange.is_empty() || self.attachments.iter().any(|attachment| !attachment.stages.is_empty())
    }

    /// The members of the log line.
    pub fn to_value(&self, duration: Duration) -> Value {
        let attachments: Vec<Value> = self.attachments.iter().map(AttachmentRecord::to_value).collect();
        let arrange: Vec<Value> = self.arrange.iter().map(StageRecord::to_value).collect();
        json!({
            "command": self.command,
            "containerId": self.container_id,
            "network": self.network,
            "ifname": self.ifname,
            "mode": self.mode,
            "durationUs": micros(duration),
            "arrange": arrange,
            "attachments": attachments,
            "delegates": self.delegates.to_value(),
            "notes": self.notes,
        })
    }
}

impl AttachmentRecord {
    /// Of an attachment to which nothing has happened yet.
    pub fn of(subject: &Subject) -> AttachmentRecord {
        AttachmentRecord {
            network: subject.network.clone(),
            ifname: subject.ifname.clone(),
            ..AttachmentRecord::default()
        }
    }

    /// As it stands in the log line and in the ledger.
    pub fn to_value(&self) -> Value {
        let stages: Vec<Value> = self.stages.iter().map(StageRecord::to_value).collect();
        json!({
            "network": self.network,
            "ifname": self.ifname,
            "intent": self.intent,
            "delegateUs": micros(self.delegates),
            "stages": stages,
        })
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
