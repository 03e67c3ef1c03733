use serde_json::Value;

use crate::link::LinkError;
use crate::{Document, RoutesError};

/// What a stage says after an add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The changed result; none leaves it as it was.
    pub result: Option<Document>,
    /// Tags for `when` and `unless` of the entries that follow.
    pub tags: Vec<String>,
    /// Documents for the world outside: key and JSON text. The key must be granted.
    pub publications: Vec<(String, String)>,
    /// Failed calls that the stage accepts: their number and why.
    pub tolerated: Vec<(u32, String)>,
}

impl Outcome {
    /// Nothing to say: the result stays.
    pub fn unchanged() -> Outcome {
        Outcome::default()
    }

    /// Another result.
    pub fn changed(result: Document) -> Outcome {
        Outcome { result: Some(result), ..Outcome::default() }
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: &str) -> Outcome {
        self.tags.push(tag.to_owned());
        self
    }

    /// Publishes a document.
    pub fn publish(mut self, key: &str, value: &Value) -> Outcome {
        self.publications.push((key.to_owned(), crate::json::text(value)));
        self
    }

    /// Accepts that a call failed, with the reason.
    pub fn tolerate(mut self, error: &impl FailedCall, reason: &str) -> Outcome {
        self.tolerated.push((error.call(), reason.to_owned()));
        self
    }
}

/// The error of a call that can be tolerated.
pub trait FailedCall {
    /// The number of the call.
    fn call(&self) -> u32;
}

impl FailedCall for RoutesError {
    fn call(&self) -> u32 {
        self.call
    }
}

impl FailedCall for LinkError {
    fn call(&self) -> u32 {
        self.call
    }
}

/// What `admit` says about an attachment.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Allow,
    /// The whole config as the delegates shall get it; only members that the module's `config` grant names may
    /// differ. An error in chained mode, where there is no delegate.
    Rewrite(Value),
}

/// One fault of a stage's own configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer into the config (RFC 6901); empty for the whole.
    pub path: String,
    pub message: String,
}
