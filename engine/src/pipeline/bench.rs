//! What stages work on in one network namespace: its kernel, and the journal of what they changed there.

use std::sync::Arc;

use crate::pipeline::error::describe_call;
use crate::routes::error::{ErrorKind, RouteError};
use crate::routes::journal::{Journal, Mark};
use crate::routes::kernel::{Kernel, Scope, Undo};
use crate::routes::link::Link;
use crate::routes::netns::Netns;
use crate::wasm::{FailedCall, Host};

/// Kept from call to call; lent to one stage at a time.
#[derive(Debug)]
pub struct Bench {
    netns: Option<Arc<Netns>>,
    kernel: Option<Kernel>,
    /// What was changed, in order, over all stages and attachments.
    pub journal: Journal,
}

/// What a stage left behind beside its answer.
#[derive(Debug, Default)]
pub struct Traces {
    failed: Vec<FailedCall>,
    /// Its log lines, `level: text`.
    pub log: Vec<String>,
    /// Its route changes, as a person reads them.
    pub changes: Vec<String>,
}

impl Bench {
    /// A bench for a namespace; none where the sandbox has gone, and then every route call fails.
    pub fn new(netns: Option<Arc<Netns>>) -> Bench {
        Bench { netns, kernel: None, journal: Journal::default() }
    }

    /// The namespace's kernel, connected on first use.
    pub fn kernel(&mut self) -> Result<Option<&mut Kernel>, RouteError> {
        if self.kernel.is_none()
            && let Some(netns) = &self.netns
        {
            self.kernel = Some(Kernel::open(netns)?);
        }
        Ok(self.kernel.as_mut())
    }

    /// All links of the namespace; none without one.
    pub fn links(&mut self) -> Result<Vec<Link>, RouteError> {
        match self.kernel()? {
            Some(kernel) => kernel.links(),
            None => Ok(Vec::new()),
        }
    }

    /// Lends kernel and journal to a stage.
    pub fn host(&mut self, container_id: &str, scope: Scope, read_only: bool) -> Host {
        Host {
            netns: self.netns.clone(),
            kernel: self.kernel.take(),
            journal: std::mem::take(&mut self.journal),
            ..Host::new(container_id, scope, read_only)
        }
    }

    /// Takes them back.
    pub fn take_back(&mut self, host: Host) -> Traces {
        self.kernel = host.kernel;
        self.journal = host.journal;
        let log: Vec<String> =
            host.logs.into_iter().map(|line| format!("{}: {}", line.level, line.text)).collect();
        Traces { failed: host.failed_calls, log, changes: Vec::new() }
    }

    /// Undoes everything since a mark.
    pub fn undo(&mut self, mark: Mark) -> Undo {
        if self.journal.mark() == mark {
            return Undo::default();
        }
        match self.kernel() {
            Ok(Some(_)) => {}
            Ok(None) => return Undo::default(),
            Err(error) => {
                let leftover = self.changes_since(mark);
                return Undo { exact: false, errors: vec![error], leftover, notes: Vec::new() };
            }
        }
        match self.kernel.as_mut() {
            Some(kernel) => kernel.undo(&mut self.journal, mark),
            None => Undo::default(),
        }
    }

    /// What was changed since a mark, as a person reads it.
    pub fn changes_since(&self, mark: Mark) -> Vec<String> {
        self.journal.clone().take_from(mark).describe()
    }
}

impl Traces {
    /// All failed calls in words.
    pub fn calls(&self) -> Vec<String> {
        self.untolerated(&[])
    }

    /// Whether a call that is not among `tolerated` was refused for lack of a grant.
    pub fn ungranted(&self, tolerated: &[(u32, String)]) -> bool {
        let counts = |failed: &&FailedCall| !tolerated.iter().any(|(call, _)| *call == failed.call);
        self.failed
            .iter()
            .filter(counts)
            .any(|failed| failed.errors.iter().any(|error| error.kind == ErrorKind::Denied))
    }

    /// The failed calls that are not among `tolerated`, in words.
    pub fn untolerated(&self, tolerated: &[(u32, String)]) -> Vec<String> {
        self.failed
            .iter()
            .filter(|failed| !tolerated.iter().any(|(call, _)| *call == failed.call))
            .flat_map(|failed| describe_call(failed.call, &failed.errors, &failed.undo))
            .collect()
    }

    /// The failed calls that are among `tolerated`, in words, with the reason.
    pub fn tolerated(&self, tolerated: &[(u32, String)]) -> Vec<String> {
        let mut lines = Vec::new();
        for (call, reason) in tolerated {
            for failed in self.failed.iter().filter(|failed| failed.call == *call) {
                let errors = describe_call(failed.call, &failed.errors, &failed.undo);
                lines.extend(errors.into_iter().map(|error| format!("{error} (tolerated: {reason})")));
            }
        }
        lines
    }

    /// Whether each failed call has left everything as it was.
    pub fn undone_exactly(&self) -> bool {
        self.failed.iter().all(|failed| failed.undo.exact)
    }

    /// What failed calls have left.
    pub fn leftover(&self) -> Vec<String> {
        self.failed.iter().flat_map(|failed| failed.undo.leftover.clone()).collect()
    }
}
