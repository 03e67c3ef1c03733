use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::bindings::{Role, role};
use super::limits::{self, Exceeded, Late, Meter};
use super::text::plain;
use super::wasi::Wasi;
use crate::node::{Grants, Limits};
use crate::routes::backend::Backend;
use crate::routes::error::{ErrorKind, RouteError};
use crate::routes::journal::Journal;
use crate::routes::kernel::{ApplyFailure, Scope, Undo};
use crate::routes::link::Link;

/// What a run may touch, and what it leaves behind. It is moved into the store and comes back in every case.
pub struct Host {
    /// What the calls of `routes` and `links` act on.
    pub backend: Backend,
    /// The attachment's links. In which tables is the grant's alone to say.
    pub scope: Scope,
    /// Links as they were found last: by these names a module is told about routes. Where one is not among them, all are
    /// read again.
    pub links: Vec<Link>,
    /// What was changed there.
    pub journal: Journal,
    /// On check and del: route changes are refused.
    pub read_only: bool,
    /// When the whole call has to be over: what is asked of the host after it ends the run.
    pub until: Option<Instant>,
    /// Calls that did not succeed, in order.
    pub failed_calls: Vec<FailedCall>,
    /// What it logged, cut to the limits.
    pub logs: Vec<LogLine>,
    /// How many lines were not kept.
    pub dropped_lines: u32,
    /// Seeds the random numbers of a module that has no grant for real ones.
    pub container_id: String,
}

impl Host {
    /// A host without a namespace; set `backend` to give it one.
    pub fn new(container_id: &str, scope: Scope, read_only: bool) -> Self {
        Self {
            backend: Backend::Nowhere,
            scope,
            links: Vec::new(),
            journal: Journal::default(),
            read_only,
            until: None,
            failed_calls: Vec::new(),
            logs: Vec::new(),
            dropped_lines: 0,
            container_id: container_id.to_owned(),
        }
    }

    /// The host of a store in which nothing runs.
    pub(super) fn nowhere() -> Self {
        Self::new("", Scope::default(), true)
    }

    /// Whether the run may change anything outside of its answer: not on check and del, before the first delegate, in
    /// monitor mode, nor on a recorded table.
    pub(super) fn may_write(&self) -> bool {
        !self.read_only && self.backend.is_real()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("scope", &self.scope)
            .field("read_only", &self.read_only)
            .field("failed_calls", &self.failed_calls)
            .field("logs", &self.logs)
            .finish_non_exhaustive()
    }
}

/// A call of a capability that did not succeed.
#[derive(Debug, Clone)]
pub struct FailedCall {
    /// Its number in the run, from 1.
    pub call: u32,
    /// The first errors, in order: as many as the run had room for.
    pub errors: Vec<RouteError>,
    /// How many there were beside them.
    pub more: usize,
    /// Whether one of all was a refusal for lack of a grant.
    pub denied: bool,
    /// Whether it had changed anything.
    pub changed: bool,
    /// Whether everything is as it was.
    pub undo: Undo,
}

/// A line of a stage's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// The line, control characters escaped.
    pub text: String,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the author.
    Debug,
    /// For the record.
    Info,
    /// For attention.
    Warn,
    /// For action.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        })
    }
}

/// A store's data.
pub(super) struct State {
    pub(super) host: Host,
    pub(super) name: Arc<str>,
    pub(super) grants: Arc<Grants>,
    pub(super) meter: Meter,
    pub(super) wasi: Option<Wasi>,
    /// What the module itself logged last as an error, though there may have been no room for it: a panic's message,
    /// if there was one.
    pub(super) last_error: Option<String>,
    /// Which of the built-in stages runs.
    pub(super) role: Option<Role>,
    calls: u32,
    changes: usize,
    log_calls: usize,
    pub(super) wasi_calls: u32,
}

impl State {
    pub(super) fn new(
        host: Host,
        name: Arc<str>,
        grants: Arc<Grants>,
        limits: Limits,
        wasi: Option<Wasi>,
    ) -> Self {
        Self {
            host,
            name,
            grants,
            meter: Meter::new(limits),
            wasi,
            role: None,
            last_error: None,
            calls: 0,
            changes: 0,
            log_calls: 0,
            wasi_calls: 0,
        }
    }

    fn in_time(&self) -> Result<(), Late> {
        if self.host.until.is_some_and(|until| Instant::now() >= until) { Err(Late) } else { Ok(()) }
    }

    /// Whether a run that calls WASI has still time and calls.
    pub(super) fn go_on(&self) -> wasmtime::Result<()> {
        self.in_time()?;
        let most = limits::wasi_calls(&self.meter.limits);
        if self.wasi_calls > most {
            let key = Some("hostCalls");
            return Err(Exceeded { what: "calls of WASI", most: u64::from(most), key }.into());
        }
        Ok(())
    }

    /// Numbers a call of `routes` or `links`, from 1. What it waits for ends with the call's time.
    pub(super) fn begin(&mut self) -> wasmtime::Result<u32> {
        self.in_time()?;
        let most = self.meter.limits.host_calls;
        if self.calls >= most {
            let key = Some("hostCalls");
            return Err(Exceeded { what: "host calls", most: u64::from(most), key }.into());
        }
        self.host.backend.set_until(self.host.until);
        self.calls += 1;
        Ok(self.calls)
    }

    /// Counts the routes that a call shall change, each by its next hops, before anything is made of them.
    pub(super) fn begin_changes(
        &mut self,
        routes: impl ExactSizeIterator<Item = usize>,
    ) -> Result<(), Exceeded> {
        let count = routes.len();
        if count > limits::CHANGES {
            return Err(Exceeded::fixed("route changes in one call", limits::CHANGES));
        }
        self.changes += count;
        if self.changes > limits::CHANGES_OF_RUN {
            return Err(Exceeded::fixed("route changes in one run", limits::CHANGES_OF_RUN));
        }
        if routes.max().is_some_and(|hops| hops > limits::NEXT_HOPS) {
            return Err(Exceeded::fixed("next hops of a route", limits::NEXT_HOPS));
        }
        Ok(())
    }

    /// Counts a call of `log`.
    pub(super) fn begin_log(&mut self) -> Result<(), Exceeded> {
        let most = limits::log_calls(&self.meter.limits);
        if self.log_calls >= most {
            return Err(Exceeded::new("calls of log", most, "logLines"));
        }
        self.log_calls += 1;
        Ok(())
    }

    /// Keeps a log line if there is room.
    pub(super) fn log(&mut self, level: Level, text: &str) {
        if level == Level::Error {
            self.last_error = Some(plain(text, limits::LOG_LINE));
        }
        if self.host.logs.len() < self.meter.limits.log_lines {
            self.host.logs.push(LogLine { level, text: plain(text, limits::LOG_LINE) });
        } else {
            self.host.dropped_lines += 1;
        }
    }

    /// Records a failed call, with as many of its errors as there is room for. Where the time has run out meanwhile, that
    /// is why, and the run ends here.
    pub(super) fn failed(&mut self, call: u32, failure: ApplyFailure) -> wasmtime::Result<()> {
        let ApplyFailure { mut errors, mut undo, changed } = failure;
        let kept: usize = self.host.failed_calls.iter().map(|failed| failed.errors.len()).sum();
        let room = limits::ERRORS.saturating_sub(kept);
        let more = errors.len().saturating_sub(room);
        let denied = errors.iter().any(|error| error.kind == ErrorKind::Denied);
        errors.truncate(room);
        for error in &mut errors {
            error.route = error.route.take().map(|route| plain(&route, limits::ROUTE));
        }
        undo.errors.truncate(room);
        if undo.leftover.len() > limits::ERRORS {
            let left = undo.leftover.len() - limits::ERRORS;
            undo.leftover.truncate(limits::ERRORS);
            undo.leftover.push(format!("and {left} more"));
        }
        self.host.failed_calls.push(FailedCall { call, errors, more, denied, changed, undo });
        Ok(self.in_time()?)
    }
}

impl role::Host for State {
    fn which(&mut self) -> wasmtime::Result<Role> {
        self.role.ok_or_else(|| wasmtime::Error::msg("this module is none of the built-in stages"))
    }
}
