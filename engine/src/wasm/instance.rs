//! One run: an export of a module, called in a store of its own.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use wasmtime::component::Instance;
use wasmtime::{Store, Trap, WasmBacktrace};

use super::bindings::catena::stage::types;
use super::bindings::exports::catena::stage::{admit, settings, stage};
use super::call::{Call, Command, Document, Export, Mode, Outcome, Usage, Verdict};
use super::error::{ModuleError, StageError};
use super::grants::{check_outcome, check_rewrite, check_tolerations};
use super::host::{Host, State};
use super::limits::{self, Exceeded, Late};
use super::module::{Linked, Module};
use super::spare::Made;
use super::text::plain;
use super::wasi::Wasi;
use crate::node::Limits;
use crate::{inject, panic};

/// The answer, the host as the run left it, and what the run has cost.
type Answer<T> = (Result<T, StageError>, Host, Usage);

impl Module {
    /// Asks who owns the default routes; the answer is the intents as JSON text.
    pub fn arrange(&self, call: &Call, attachments: &str, host: Host) -> Answer<String> {
        let linked = match self.linked() {
            Ok(linked) => linked,
            Err(error) => return unusable(error, host),
        };
        let Some(indices) = &linked.arrange else { return missing(Export::Arrange, host) };
        let bytes = call.bytes() + attachments.len();
        let (answer, host, usage) = self.call(linked, host, bytes, |store, instance| {
            indices.load(&mut *store, instance)?.call_arrange(store, &call.into(), attachments)
        });
        let answer = answer.and_then(|text| {
            if text.len() > self.limits.result {
                return Err(Exceeded::new("bytes of an answer", self.limits.result, "resultKiB").into());
            }
            Ok(text)
        });
        (answer, host, usage)
    }

    /// Asks whether an attachment may be.
    pub fn admit(&self, call: &Call, config: &str, host: Host) -> Answer<Verdict> {
        let linked = match self.linked() {
            Ok(linked) => linked,
            Err(error) => return unusable(error, host),
        };
        let Some(indices) = &linked.admit else { return missing(Export::Admit, host) };
        let bytes = call.bytes() + config.len();
        let (answer, host, usage) = self.call(linked, host, bytes, |store, instance| {
            indices.load(&mut *store, instance)?.call_admit(store, &call.into(), config)
        });
        let answer = answer.and_then(|verdict| match verdict {
            admit::Verdict::Allow => Ok(Verdict::Allow),
            admit::Verdict::Rewrite(text) => {
                check_rewrite(config, &text, &self.grants, &self.limits).map(Verdict::Rewrite)
            }
        });
        (answer, host, usage)
    }

    /// Works on a result. On check and del the outcome has neither result nor tags nor publications.
    pub fn run(&self, call: &Call, document: &Document, host: Host) -> Answer<Outcome> {
        let linked = match self.linked() {
            Ok(linked) => linked,
            Err(error) => return unusable(error, host),
        };
        let Some(indices) = &linked.stage else { return missing(Export::Stage, host) };
        let given = types::Document { format: document.format.clone(), text: document.text.clone() };
        let bytes = call.bytes() + document.text.len();
        let (answer, host, usage) = self.call(linked, host, bytes, |store, instance| {
            indices.load(&mut *store, instance)?.call_run(store, &call.into(), &given)
        });
        let answer = answer.and_then(|answered| {
            let mut outcome = Outcome::from(answered);
            if call.command != Command::Add {
                outcome.result = None;
                outcome.tags.clear();
                outcome.publications.clear();
            }
            check_outcome(document, &outcome, &self.grants, &self.limits)?;
            check_tolerations(&outcome.tolerated, &host.failed_calls)?;
            Ok(outcome)
        });
        (answer, host, usage)
    }

    /// Judges a config: the problems by JSON pointer.
    pub fn validate(&self, config: &str, host: Host) -> Answer<Vec<(String, String)>> {
        let linked = match self.linked() {
            Ok(linked) => linked,
            Err(error) => return unusable(error, host),
        };
        let Some(indices) = &linked.settings else { return missing(Export::Settings, host) };
        let (answer, host, usage) = self.call(linked, host, config.len(), |store, instance| {
            let judged = indices.load(&mut *store, instance)?.call_validate(store, config)?;
            let Err(problems) = judged else { return Ok(Ok(Vec::new())) };
            if problems.is_empty() {
                // Refused is refused, with reasons or without.
                let reason = "the stage refuses it and gives no reason".to_owned();
                return Ok(Ok(vec![(String::new(), reason)]));
            }
            let more = problems.len().saturating_sub(limits::PROBLEMS);
            let problem = |problem: settings::Problem| {
                (plain(&problem.path, limits::NAME), plain(&problem.message, limits::MESSAGE))
            };
            let mut told: Vec<_> = problems.into_iter().take(limits::PROBLEMS).map(problem).collect();
            if more > 0 {
                told.push((String::new(), format!("and {more} more problems")));
            }
            Ok(Ok(told))
        });
        (answer, host, usage)
    }

    /// Instantiates, calls with so many bytes of text, and takes everything back out of the store.
    fn call<T>(
        &self,
        linked: &Linked,
        mut host: Host,
        bytes: usize,
        call: impl FnOnce(&mut Store<State>, &Instance) -> wasmtime::Result<Result<T, types::Error>>,
    ) -> Answer<T> {
        let start = Instant::now();
        let wasi = if linked.wasi {
            match Wasi::new(&self.name, &self.grants, &host) {
                Ok(wasi) => Some(wasi),
                Err(error) => {
                    let usage = Usage { duration: start.elapsed(), ..Usage::default() };
                    return (Err(error), host, usage);
                }
            }
        } else {
            None
        };
        let runtime = wasi.as_ref().map(Wasi::runtime);
        // What earlier runs left is not this run's.
        host.failed_calls.clear();
        let limits = limits::of_call(self.limits, bytes);
        let Made { mut store, instance } = self.store(linked, host, limits, wasi);
        // wasmtime catches a host function's panic before the guest's frames and goes on with it behind them. It must
        // not take the journal with it.
        let answer = catch_unwind(AssertUnwindSafe(|| {
            let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
            inject::point("wasm/call");
            let instance = match instance {
                Some(made) => made,
                None => linked.pre.instantiate(&mut store)?,
            };
            call(&mut store, &instance)
        }));
        let fuel = limits.fuel.saturating_sub(store.get_fuel().unwrap_or_default());
        let state = store.data_mut();
        for (level, line) in state.wasi.as_ref().map(Wasi::lines).unwrap_or_default() {
            state.log(level, &line);
        }
        let usage = Usage { fuel, duration: start.elapsed(), memory: state.meter.peak };
        let host = mem::replace(&mut state.host, Host::nowhere());
        let answer = match answer {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(said(error)),
            Ok(Err(error)) => {
                let stderr = || state.wasi.as_ref().and_then(Wasi::last_words);
                let last_words = state.last_error.take().or_else(stderr);
                Err(classify(&error, &limits, last_words.as_deref()))
            }
            Err(payload) => Err(StageError::Internal(panic::text(&*payload).to_owned())),
        };
        self.put_away(store);
        (answer, host, usage)
    }
}

fn unusable<T>(error: &ModuleError, host: Host) -> Answer<T> {
    let error = StageError::Unusable { code: error.code(), message: error.to_string() };
    (Err(error), host, Usage::default())
}

fn missing<T>(export: Export, host: Host) -> Answer<T> {
    (Err(StageError::NoExport(export.as_str())), host, Usage::default())
}

/// What the stage itself said.
fn said(error: types::Error) -> StageError {
    let text = |text: String| plain(&text, limits::MESSAGE);
    match error {
        types::Error::InvalidConfig(reason) => StageError::InvalidConfig(text(reason)),
        types::Error::InvalidResult(reason) => StageError::InvalidResult(text(reason)),
        types::Error::Denied(reason) => StageError::Denied(text(reason)),
        types::Error::TryLater(reason) => StageError::TryLater(text(reason)),
        types::Error::Failed(failure) => StageError::Failed {
            // Lower codes are the host's, the specification's and libcni's.
            code: failure.code.max(200),
            message: text(failure.message),
            details: failure.details.map(text),
        },
    }
}

/// Why a run ended without an answer. `last_words` is what the module logged last as an error, or wrote last to
/// standard error: a panic's message, since a panic ends as a bare trap.
fn classify(error: &wasmtime::Error, limits: &Limits, last_words: Option<&str>) -> StageError {
    let backtrace = backtrace(error);
    if let Some(exceeded) = error.downcast_ref::<Exceeded>() {
        return (*exceeded).into();
    }
    if error.downcast_ref::<Late>().is_some() {
        return StageError::Late;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return StageError::Fuel { most: limits.fuel, backtrace },
        Some(Trap::StackOverflow) => return Exceeded::fixed("bytes of stack", limits::STACK).into(),
        _ => {}
    }
    let root = error.root_cause().to_string();
    // wasmtime has no types for these two.
    if root.starts_with("resource limit exceeded") {
        let (what, most) = match root.as_str() {
            text if text.contains("instance") => ("instances", limits.instances),
            text if text.contains("memory") => ("memories", limits.memories),
            _ => ("tables", limits.tables),
        };
        return Exceeded::new(what, most, what).into();
    }
    if root.contains("fuel allocated for hostcalls has been exhausted") {
        return Exceeded::new("bytes in one call", limits::transfer(limits), "resultKiB").into();
    }
    let message = match error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        Some(exit) => format!("it exited with status {}", exit.0),
        None => root,
    };
    let message = match last_words {
        Some(words) => format!("{message}; it had logged: {words}"),
        None => message,
    };
    StageError::Trap { message: plain(&message, limits::MESSAGE), backtrace }
}

/// Frames that are shown.
const FRAMES: usize = 8;

fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let name = |frame: &wasmtime::FrameInfo| match frame.func_name() {
        Some(name) => plain(name, 200),
        None => format!("function {}", frame.func_index()),
    };
    backtrace.frames().iter().take(FRAMES).map(name).collect()
}

impl From<&Call> for types::Call {
    fn from(call: &Call) -> Self {
        Self {
            command: match call.command {
                Command::Add => types::Command::Add,
                Command::Check => types::Command::Check,
                Command::Del => types::Command::Del,
            },
            mode: match call.mode {
                Mode::Meta => types::Mode::Meta,
                Mode::Chained => types::Mode::Chained,
            },
            container_id: call.container_id.clone(),
            network: call.network.clone(),
            ifname: call.ifname.clone(),
            position: call.position,
            config: call.config.clone(),
            context: call.context.clone(),
        }
    }
}

impl From<stage::Outcome> for Outcome {
    fn from(outcome: stage::Outcome) -> Self {
        let text = |text: String| plain(&text, limits::MESSAGE);
        Self {
            result: outcome.result.map(|document| Document { format: document.format, text: document.text }),
            tags: outcome.tags,
            publications: outcome
                .publications
                .into_iter()
                .map(|document| (document.key, document.value))
                .collect(),
            tolerated: outcome.tolerated.into_iter().map(|one| (one.call, text(one.reason))).collect(),
        }
    }
}
