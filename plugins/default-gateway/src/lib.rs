//! The built-in stage `default-gateway`: who owns the default route, per family, and making it so.
//!
//! `arrange` decides from what the attachments ask for, the stage's own config and the node's policy. On add the
//! decision becomes one atomic change of the kernel's routes, and the result then says what the kernel does; on
//! check kernel and decision are compared. An attachment with nothing decided is left alone.

mod arrange;
mod config;
mod defaults;
mod links;
mod result;
mod stage;

use catena_sdk::Module;

pub use config::Config;

/// The module.
#[derive(Debug)]
pub struct DefaultGateway;

impl Module for DefaultGateway {
    type Config = Config;
}

#[cfg(feature = "component")]
catena_sdk::export_stage!(DefaultGateway: arrange, stage, settings; wants = r#"{
    "log": true, "links": true,
    "routes": {"links": ["@attachment"], "ops": ["read", "delete-default", "add"], "tables": [254]},
    "result": ["routes"]
}"#);
