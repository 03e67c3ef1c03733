//! Contract 0.2 beside 0.1: its interfaces are the host's own, translated.

use super::bindings::catena::stage::{log as old_log, types as old};
use super::bindings::next::catena::stage::{log, types};
use super::bindings::next::exports::catena::stage::stage;
use super::call::{Call, Document, Outcome};
use super::error::StageError;
use super::grants::{check_outcome, check_tolerations};
use super::host::{Host, State};
use super::call::Usage;
use super::module::{Linked, Module};

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Debug => old_log::Level::Debug,
            log::Level::Info => old_log::Level::Info,
            log::Level::Warn => old_log::Level::Warn,
            log::Level::Error => old_log::Level::Error,
        };
        old_log::Host::write(self, level, message)
    }
}

impl types::Host for State {}

impl Module {
    pub(super) fn run_next(
        &self,
        linked: &Linked,
        indices: &stage::GuestIndices,
        call: &Call,
        document: &Document,
        host: Host,
    ) -> (Result<Outcome, StageError>, Host, Usage) {
        let given = types::Document { format: document.format.clone(), text: document.text.clone() };
        let bytes = call.bytes() + document.text.len();
        let call = next_call(call);
        let (answer, host, usage) = self.call(linked, host, bytes, |store, instance| {
            let answer = indices.load(&mut *store, instance)?.call_run(store, &call, &given)?;
            Ok(answer.map_err(old_error))
        });
        let answer = answer.and_then(|answered| {
            let outcome = Outcome {
                result: answered.result.map(|document| Document { format: document.format, text: document.text }),
                tags: answered.tags,
                publications: answered.publications.into_iter().map(|one| (one.key, one.value)).collect(),
                tolerated: answered.tolerated.into_iter().map(|one| (one.call, one.reason)).collect(),
            };
            check_outcome(document, &outcome, &self.grants, &self.limits)?;
            check_tolerations(&outcome.tolerated, &host.failed_calls)?;
            Ok(outcome)
        });
        (answer, host, usage)
    }
}

fn next_call(call: &Call) -> types::Call {
    let old::Call { command, mode, container_id, network, ifname, position, config, context } = call.into();
    types::Call {
        command: match command {
            old::Command::Add => types::Command::Add,
            old::Command::Check => types::Command::Check,
            old::Command::Del => types::Command::Del,
        },
        mode: match mode {
            old::Mode::Meta => types::Mode::Meta,
            old::Mode::Chained => types::Mode::Chained,
        },
        container_id,
        network,
        ifname,
        position,
        config,
        context,
        attempt: 7,
    }
}

fn old_error(error: types::Error) -> old::Error {
    match error {
        types::Error::InvalidConfig(text) => old::Error::InvalidConfig(text),
        types::Error::InvalidResult(text) => old::Error::InvalidResult(text),
        types::Error::Denied(text) => old::Error::Denied(text),
        types::Error::TryLater(text) => old::Error::TryLater(text),
        types::Error::Failed(types::Failure { code, message, details }) => {
            old::Error::Failed(old::Failure { code, message, details })
        }
    }
}
