//! What the exports of a module do: read, call the author's trait, answer. For [`export_stage!`](crate::export_stage).

use serde::de::DeserializeOwned;

use crate::bindings::types;
use crate::bindings::{
    admitter::exports::catena::stage::admit as admit_export,
    configurable::exports::catena::stage::settings as settings_export,
    runner::exports::catena::stage::stage as stage_export,
};
use crate::call::read_config;
use crate::imports::Calls;
use crate::{
    Admit, Arrange, Call, Candidate, Command, Context, Error, Host, Intent, Module, Outcome, Settings, Stage,
    Verdict, convert, json, panic,
};

const HOST: Host = Host { calls: Calls };

pub fn arrange<M: Arrange>(call: types::Call, attachments: String) -> Result<String, types::Error> {
    enter::<M, _>(call, |call| {
        let intents = M::arrange(call, &Candidate::read_all(&attachments)?, &HOST)?;
        Ok(json::text(&intents.iter().map(Intent::to_value).collect()))
    })
}

pub fn admit<M: Admit>(call: types::Call, config: String) -> Result<admit_export::Verdict, types::Error> {
    enter::<M, _>(call, |call| {
        let config =
            json::parse(&config).map_err(|e| Error::failed(format!("the attachment's config: {e}")))?;
        Ok(match M::admit(call, &config, &HOST)? {
            Verdict::Allow => admit_export::Verdict::Allow,
            Verdict::Rewrite(config) => admit_export::Verdict::Rewrite(json::text(&config)),
        })
    })
}

pub fn run<M: Stage>(
    call: types::Call,
    result: types::Document,
) -> Result<stage_export::Outcome, types::Error> {
    let result = convert::document_from(result);
    enter::<M, _>(call, |call| {
        let outcome = match call.command {
            Command::Add => M::add(call, &result, &HOST)?,
            Command::Check => M::check(call, &result, &HOST).map(|()| Outcome::unchanged())?,
            Command::Del => M::del(call, &result, &HOST).map(|()| Outcome::unchanged())?,
        };
        let publication = |(key, value)| stage_export::Publication { key, value };
        let toleration = |(call, reason)| stage_export::Toleration { call, reason };
        Ok(stage_export::Outcome {
            result: outcome.result.map(convert::document),
            tags: outcome.tags,
            publications: outcome.publications.into_iter().map(publication).collect(),
            tolerated: outcome.tolerated.into_iter().map(toleration).collect(),
        })
    })
}

pub fn validate<M: Settings>(config: String) -> Result<(), Vec<settings_export::Problem>> {
    panic::install::<M>();
    let problem = |path, message| settings_export::Problem { path, message };
    let config: M::Config = read_config(&config).map_err(|e| vec![problem(String::new(), e.to_string())])?;
    let problems: Vec<_> = M::validate(&config).into_iter().map(|p| problem(p.path, p.message)).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn enter<M: Module, T>(
    call: types::Call,
    work: impl FnOnce(&Call<M::Config>) -> Result<T, Error>,
) -> Result<T, types::Error> {
    panic::install::<M>();
    read_call(call).and_then(|call| work(&call)).map_err(convert::error)
}

fn read_call<C: DeserializeOwned>(call: types::Call) -> Result<Call<C>, Error> {
    Ok(Call {
        command: convert::command(call.command),
        mode: convert::mode(call.mode),
        container_id: call.container_id,
        network: call.network,
        ifname: call.ifname,
        position: call.position,
        config: read_config(&call.config)?,
        context: Context::read(&call.context)?,
    })
}
