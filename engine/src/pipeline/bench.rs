//! What stages work on in one network namespace: its routes, and the journal of what they changed there.

use std::collections::BTreeSet;
use std::time::Instant;

use catena_routes::{Snapshot, Table};

use crate::pipeline::error::describe_call;
use crate::routes::backend::Backend;
use crate::routes::error::RouteError;
use crate::routes::journal::{Journal, Mark};
use crate::routes::kernel::{Kernel, Scope, Undo, UndoTime};
use crate::routes::link::Link;
use crate::routes::netns::Netns;
use crate::wasm::{FailedCall, Host, LogLine};

/// Kept from call to call; lent to one stage at a time.
#[derive(Debug)]
pub struct Bench {
    backend: Backend,
    /// The links of which the next stages are told, as they are known to the host.
    pub known: Vec<Link>,
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
    /// A bench on a namespace's kernel, or on a recorded table.
    pub fn new(backend: Backend) -> Bench {
        Bench { backend, known: Vec::new(), journal: Journal::default() }
    }

    /// Where a sandbox's routes are, for a call that has to be over at `until`; where the sandbox has gone every
    /// route call fails.
    pub fn of(netns: Option<&Netns>, until: Instant, undo: UndoTime) -> Bench {
        let Some(netns) = netns else { return Bench::new(Backend::Nowhere) };
        let mut kernel = Kernel::of(netns);
        kernel.set_until(Some(until));
        kernel.set_undo(undo);
        Bench::new(Backend::Kernel(Box::new(kernel)))
    }

    /// When the answers that the host itself waits for have to be there.
    pub fn set_until(&mut self, until: Instant) {
        self.backend.set_until(Some(until));
    }

    /// What stages work on, for the host's own look; `operation` is what a failure is called.
    pub fn table(&mut self, operation: &'static str) -> Result<&mut dyn Table, RouteError> {
        self.backend.table(operation)
    }

    /// All links of the namespace; none without one.
    pub fn links(&mut self) -> Result<Vec<Link>, RouteError> {
        match &mut self.backend {
            Backend::Nowhere => Ok(Vec::new()),
            backend => backend.table("links")?.links(),
        }
    }

    /// Those of them that have one of these names, or have it as an alternative name; each once.
    pub fn links_named<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Vec<Link>, RouteError> {
        let table = match &mut self.backend {
            Backend::Nowhere => return Ok(Vec::new()),
            backend => backend.table("links")?,
        };
        let mut links: Vec<Link> = Vec::new();
        for name in names.into_iter().collect::<BTreeSet<_>>() {
            let link = table.link(name)?;
            links.extend(link.filter(|link| links.iter().all(|other| other.index != link.index)));
        }
        Ok(links)
    }

    /// All links, routes and settings as they are now, to be recorded.
    pub fn snapshot(&mut self) -> Result<Snapshot, RouteError> {
        self.backend.snapshot("record")
    }

    /// Lends all to a stage, for a call that has to be over at `until`.
    pub fn host(&mut self, container_id: &str, until: Instant, scope: Scope, read_only: bool) -> Host {
        self.backend.set_until(Some(until));
        Host {
            backend: std::mem::take(&mut self.backend),
            links: self.known.clone(),
            journal: std::mem::take(&mut self.journal),
            until: Some(until),
            ..Host::new(container_id, scope, read_only)
        }
    }

    /// Lends a copy to a stage that shall change nothing (monitor mode). What it would have changed is in the
    /// traces that [`Bench::take_back`] returns, and nowhere else.
    pub fn dry_host(&mut self, container_id: &str, until: Instant, scope: Scope) -> Host {
        let backend = std::mem::take(&mut self.backend).dry_run();
        Host {
            backend,
            links: self.known.clone(),
            until: Some(until),
            ..Host::new(container_id, scope, false)
        }
    }

    /// Takes back what was lent.
    pub fn take_back(&mut self, mut host: Host) -> Traces {
        let changes = if host.backend.is_dry_run() {
            host.journal.describe()
        } else {
            self.journal = std::mem::take(&mut host.journal);
            Vec::new()
        };
        self.backend = std::mem::take(&mut host.backend).original();
        Traces { changes, ..Traces::of(host) }
    }

    /// Undoes everything since a mark.
    pub fn undo(&mut self, mark: Mark) -> Undo {
        if self.journal.mark() == mark {
            return Undo::default();
        }
        match self.backend.table("undo") {
            Ok(table) => table.undo(&mut self.journal, mark),
            Err(error) => {
                let leftover = self.changes_since(mark);
                Undo { exact: false, errors: vec![error], leftover, notes: Vec::new() }
            }
        }
    }

    /// What was changed since a mark, as a person reads it.
    pub fn changes_since(&self, mark: Mark) -> Vec<String> {
        self.journal.clone().take_from(mark).describe()
    }
}

impl Traces {
    /// What a run left in a host that nobody else needs any more.
    pub fn of(host: Host) -> Traces {
        let line = |line: LogLine| format!("{}: {}", line.level, line.text);
        Traces {
            failed: host.failed_calls,
            log: host.logs.into_iter().map(line).collect(),
            changes: Vec::new(),
        }
    }

    /// All failed calls in words.
    pub fn calls(&self) -> Vec<String> {
        self.untolerated(&[])
    }

    /// Whether a call that is not among `tolerated` was refused for lack of a grant.
    pub fn ungranted(&self, tolerated: &[(u32, String)]) -> bool {
        let counts = |failed: &&FailedCall| !tolerated.iter().any(|(call, _)| *call == failed.call);
        self.failed.iter().filter(counts).any(|failed| failed.denied)
    }

    /// The failed calls that are not among `tolerated`, in words.
    pub fn untolerated(&self, tolerated: &[(u32, String)]) -> Vec<String> {
        self.failed
            .iter()
            .filter(|failed| !tolerated.iter().any(|(call, _)| *call == failed.call))
            .flat_map(describe_call)
            .collect()
    }

    /// The failed calls that are among `tolerated`, in words, with the reason.
    pub fn tolerated(&self, tolerated: &[(u32, String)]) -> Vec<String> {
        let mut lines = Vec::new();
        for failed in &self.failed {
            // Each once, however often a stage names it.
            if let Some((_, reason)) = tolerated.iter().find(|(call, _)| *call == failed.call) {
                let errors = describe_call(failed);
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
