//! Runs stages: finds their compiled modules, checks what they may do, and calls their exports under limits.
//!
//! This is one of the rooms with `unsafe` code: loading artifacts, and what `bindgen!` writes.

mod artifact;
mod bindings;
pub mod builtin;
mod call;
pub mod config;
pub mod engine;
mod error;
#[cfg(test)]
mod fuzz;
pub mod grants;
mod host;
mod instance;
pub mod limits;
mod links;
mod log;
mod module;
mod modules;
mod pointer;
pub mod preparer;
mod routes;
mod spare;
mod text;
mod wasi;

pub use call::{Call, Command, Document, Export, Mode, Outcome, Usage, Verdict};
pub use error::{ModuleError, StageError};
pub use host::{FailedCall, Host, Level, LogLine};
pub use module::{Facts, Module};
pub use modules::Modules;
pub use pointer::differences;
pub(crate) use pointer::is_within;
pub(crate) use text::plain;
