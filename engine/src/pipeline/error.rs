//! A stage that said no, failed, or was stopped.

use std::fmt;

use catena_cni::error::code;

use crate::routes::error::RouteError;
use crate::wasm::{FailedCall, StageError, plain};

/// The lowest code of a stage's own, which the SDK gives a failure without one.
const OWN: u32 = 200;

/// What an error tells at most: lines, bytes of each, and bytes of all. Nobody reads more, and a runtime keeps all of
/// it.
const LINES: usize = 64;
const LINE: usize = 4096;
const TEXT: usize = 16 << 10;
/// Bytes of one error of a route call: a route may have many hops.
const ERROR: usize = 1024;

/// Whose failure it is: what every text of a stage's failure names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// The stage's name.
    pub stage: String,
    /// `sha256:…` of the module.
    pub digest: String,
    /// `settings`, `arrange`, `admit` or `stage`.
    pub export: &'static str,
    /// The attachment: network and interface; absent in `settings` and `arrange`.
    pub attachment: Option<(String, String)>,
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first digits tell modules apart; the log has the whole digest.
        let digest = self.digest.get(..19).unwrap_or(&self.digest);
        write!(f, "stage {} ({digest})", self.stage)?;
        match &self.attachment {
            Some((network, ifname)) => write!(f, " on {network}/{ifname}"),
            None => write!(f, " in {}", self.export),
        }
    }
}

/// Why the pipeline stopped.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A stage failed, or a policy said no.
    #[error("{blame}: {source}")]
    Stage {
        /// Whose failure it is.
        blame: Box<Blame>,
        /// What it said, or what stopped it.
        source: StageError,
        /// What the kernel said to its calls.
        calls: Vec<String>,
        /// Whether one of them was refused for lack of a grant.
        ungranted: bool,
    },
    /// A stage returned ok although a call of its failed.
    #[error("{blame}: returned ok although a call failed: {first}")]
    Swallowed {
        /// Whose failure it is.
        blame: Box<Blame>,
        /// The first failed call.
        first: String,
        /// All failed calls.
        calls: Vec<String>,
        /// Whether one of them was refused for lack of a grant.
        ungranted: bool,
    },
    /// The call's time was over before it could run.
    #[error(
        "{blame}: was not run, since the call's time is over (deadlines.callSeconds); use fewer stages or networks"
    )]
    Late {
        /// Whose turn it was.
        blame: Box<Blame>,
    },
    /// Its answer cannot be used.
    #[error("{blame}: {what}")]
    Outcome {
        /// Whose failure it is.
        blame: Box<Blame>,
        /// What is wrong with it.
        what: String,
    },
    /// What it had changed could not be put back.
    #[error("{blame}: undo of its route changes is not exact: {}", limited(leftover).join("; "))]
    Undo {
        /// Whose failure it is.
        blame: Box<Blame>,
        /// What is left.
        leftover: Vec<String>,
        /// Why it was undone.
        cause: Box<PipelineError>,
    },
}

impl PipelineError {
    /// The CNI error code (formats.md, error codes).
    pub fn code(&self) -> u32 {
        match self {
            // A stage that hands on what the kernel said has no code of its own for it.
            PipelineError::Stage {
                source: StageError::Failed { code: OWN, .. }, calls, ungranted, ..
            } if !calls.is_empty() => {
                if *ungranted {
                    code::DENIED
                } else {
                    code::ROUTE
                }
            }
            PipelineError::Stage { source, .. } => source.code(),
            PipelineError::Swallowed { ungranted: true, .. } => code::DENIED,
            PipelineError::Swallowed { .. } => code::ROUTE,
            PipelineError::Late { .. } => code::TRY_LATER,
            PipelineError::Outcome { .. } => code::BAD_OUTCOME,
            PipelineError::Undo { .. } => code::UNDO,
        }
    }

    /// The CNI error's msg: of a denial the bare reason.
    pub fn message(&self) -> String {
        match self {
            PipelineError::Stage { source: StageError::Denied(reason), .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// The CNI error's details, in order.
    pub fn details(&self) -> Vec<String> {
        limited(&self.all_details())
    }

    fn all_details(&self) -> Vec<String> {
        match self {
            PipelineError::Stage { blame, source, calls, .. } => {
                let mut details = match source {
                    // The message is the bare reason, so stage and attachment stand here.
                    StageError::Denied(_) => vec![format!("denied by {blame}")],
                    _ => Vec::new(),
                };
                details.push(format!("module {}", blame.digest));
                details.extend(source.details());
                // What the stage has handed on as its own message is not said twice.
                let said = source.to_string();
                let is_new =
                    |call: &&String| !call.split_once(": ").is_some_and(|(_, text)| said.contains(text));
                details.extend(calls.iter().filter(is_new).cloned());
                details
            }
            PipelineError::Swallowed { blame, calls, .. } => {
                let mut details = vec![format!("module {}", blame.digest)];
                details.extend(calls.iter().cloned());
                details
            }
            PipelineError::Late { blame } | PipelineError::Outcome { blame, .. } => {
                vec![format!("module {}", blame.digest)]
            }
            PipelineError::Undo { cause, .. } => {
                let mut details = vec![cause.to_string()];
                details.extend(cause.all_details());
                details
            }
        }
    }

    /// Says that the route changes before the failure are undone.
    pub fn undone(mut self, changes: &[String]) -> PipelineError {
        match &mut self {
            PipelineError::Stage { calls, .. } | PipelineError::Swallowed { calls, .. }
                if !changes.is_empty() =>
            {
                let changes = limited(changes).join("; ");
                calls.push(format!("earlier route changes are undone exactly: {changes}"));
            }
            _ => {}
        }
        self
    }

    /// Whether `onError: skip` may pass it over: never a denial, what no grant allows, an error of our own, nor an
    /// undo that is not exact.
    pub fn is_skippable(&self) -> bool {
        match self {
            PipelineError::Stage { ungranted: true, .. }
            | PipelineError::Swallowed { ungranted: true, .. } => false,
            PipelineError::Stage { source, .. } => !matches!(
                source,
                StageError::Denied(_)
                    | StageError::Ungranted(_)
                    | StageError::Internal(_)
                    | StageError::Late
                    | StageError::Unusable { .. }
            ),
            PipelineError::Swallowed { .. } | PipelineError::Outcome { .. } => true,
            PipelineError::Undo { .. } | PipelineError::Late { .. } => false,
        }
    }
}

/// A failed call of `routes` or `links` in words, with what the kernel said and whether it was undone.
pub(crate) fn describe_call(failed: &FailedCall) -> Vec<String> {
    let call = failed.call;
    let told = |error: &RouteError| format!("call {call}: {}", plain(&error.to_string(), ERROR));
    let mut lines: Vec<String> = failed.errors.iter().map(told).collect();
    if failed.more > 0 {
        lines.push(format!("call {call}: {} more errors, which were not kept", failed.more));
    }
    if !failed.undo.exact {
        let leftover = limited(&failed.undo.leftover).join("; ");
        lines.push(format!("call {call}: its undo is not exact: {leftover}"));
    } else if failed.changed {
        lines.push(format!("call {call}: what it had changed is undone exactly"));
    }
    lines
}

/// As many lines, and as much of each, as an error may have.
fn limited(lines: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut room = TEXT;
    for line in lines.iter().take(LINES) {
        let line = plain(line, LINE.min(room));
        room = room.saturating_sub(line.len());
        kept.push(line);
        if room == 0 {
            break;
        }
    }
    if lines.len() > kept.len() {
        kept.push(format!("and {} more", lines.len() - kept.len()));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_bounded() {
        let few = ["a\n".to_owned(), "b".to_owned()];
        assert_eq!(limited(&few), ["a\\n", "b"]);
        let many: Vec<String> = (0..100_000).map(|i| format!("line {i}")).collect();
        let told = limited(&many);
        assert_eq!((told.len(), told.last().map(String::as_str)), (65, Some("and 99936 more")));
        let long = vec!["x".repeat(1 << 20); 60];
        let told = limited(&long);
        assert!(told.iter().map(String::len).sum::<usize>() < TEXT + LINE, "{}", told.len());
        assert!(told.last().unwrap().starts_with("and "));
    }
}
