use catena_plugin_default_gateway::DefaultGateway;
use catena_plugin_empty_result::EmptyResult;
use catena_plugin_network_status::NetworkStatus;
use catena_plugin_result_conversion::ResultConversion;
use catena_sdk::bindings::arranger::exports::catena::stage::arrange;
use catena_sdk::bindings::configurable::exports::catena::stage::settings;
use catena_sdk::bindings::runner::exports::catena::stage::stage;
use catena_sdk::bindings::types::{Call, Document, Error, Failure};
use catena_sdk::bindings::{arranger, configurable, runner};
use catena_sdk::glue;

use self::role::{Stage, which};

#[allow(unsafe_code, missing_debug_implementations, unreachable_pub, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "builtins" });
}

use bindings::catena::builtins::role;

struct Exports;

impl arrange::Guest for Exports {
    fn arrange(call: Call, attachments: String) -> Result<String, Error> {
        match which() {
            Stage::DefaultGateway => glue::arrange::<DefaultGateway>(call, attachments),
            // The host knows what each exports, and does not call what is not there.
            Stage::EmptyResult | Stage::NetworkStatus | Stage::ResultConversion => {
                Err(Error::Failed(Failure {
                    code: 999,
                    message: "this stage does not arrange".to_owned(),
                    details: None,
                }))
            }
        }
    }
}

impl stage::Guest for Exports {
    fn run(call: Call, result: Document) -> Result<stage::Outcome, Error> {
        match which() {
            Stage::DefaultGateway => glue::run::<DefaultGateway>(call, result),
            Stage::EmptyResult => glue::run::<EmptyResult>(call, result),
            Stage::NetworkStatus => glue::run::<NetworkStatus>(call, result),
            Stage::ResultConversion => glue::run::<ResultConversion>(call, result),
        }
    }
}

impl settings::Guest for Exports {
    fn validate(config: String) -> Result<(), Vec<settings::Problem>> {
        match which() {
            Stage::DefaultGateway => glue::validate::<DefaultGateway>(config),
            Stage::EmptyResult => glue::validate::<EmptyResult>(config),
            Stage::NetworkStatus => glue::validate::<NetworkStatus>(config),
            Stage::ResultConversion => glue::validate::<ResultConversion>(config),
        }
    }
}

arranger::export_arranger!(Exports with_types_in arranger);
runner::export_runner!(Exports with_types_in runner);
configurable::export_configurable!(Exports with_types_in configurable);
