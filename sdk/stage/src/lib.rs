//! What the author of a catena stage imports.
//!
//! A stage is a type that implements [`Module`] and one or more of [`Arrange`], [`Admit`], [`Stage`] and
//! [`Settings`]; [`export_stage!`] makes those that it lists exports of a WebAssembly component. What a stage asks
//! of the host is a method of [`Host`]; of `links` and `routes`, what its code never uses is not among its component's
//! imports, so it needs no grant. `log` always is, for the message of a panic, unless [`Module::LOG_PANICS`] says no.
//!
//! A whole stage, which keeps pods off networks that their namespace has no part in:
//!
//! ```
//! use catena_sdk::{Admit, Call, Error, Host, Module, Problem, Settings, Verdict, export_stage};
//! use serde::Deserialize;
//! use serde_json::{Value, json};
//!
//! struct OwnNetworks;
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Config {
//!     prefix: String,
//! }
//!
//! impl Module for OwnNetworks {
//!     type Config = Config;
//! }
//!
//! impl Admit for OwnNetworks {
//!     fn admit(call: &Call<Config>, _config: &Value, _host: &Host) -> Result<Verdict, Error> {
//!         let Some(pod) = &call.context.pod else { return Ok(Verdict::Allow) };
//!         if call.network.starts_with(&format!("{}{}", call.config.prefix, pod.namespace)) {
//!             return Ok(Verdict::Allow);
//!         }
//!         Err(Error::Denied(format!("network {} is not one of {}", call.network, pod.namespace)))
//!     }
//! }
//!
//! impl Settings for OwnNetworks {
//!     fn validate(config: &Config) -> Vec<Problem> {
//!         let empty = config.prefix.is_empty();
//!         empty.then(|| Problem { path: "/prefix".into(), message: "is empty".into() }).into_iter().collect()
//!     }
//! }
//!
//! export_stage!(OwnNetworks: admit, settings);
//!
//! // In a test, without wasm and without root:
//! use catena_sdk::testing::{TestCall, TestHost};
//! let call = TestCall::new("net1").config(json!({"prefix": "tenant-"})).with("pod", json!({"namespace": "blue"}));
//! let verdict = TestHost::new(&[]).admit::<OwnNetworks>(&call, &json!({}));
//! assert!(matches!(verdict, Err(Error::Denied(_))));
//! ```
//!
//! The crate is a `cdylib`, built for `wasm32-unknown-unknown` and wrapped into a component (`wit-component`).

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod glue;

mod call;
mod context;
#[cfg(target_family = "wasm")]
mod convert;
mod document;
mod error;
mod export;
mod host;
#[cfg(target_family = "wasm")]
mod imports;
mod intent;
mod json;
pub mod link;
mod outcome;
#[cfg(target_family = "wasm")]
mod panic;
pub mod route;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod traits;

#[cfg(target_family = "wasm")]
use imports::Calls;
#[cfg(not(target_family = "wasm"))]
use testing::Calls;

pub use call::{Call, Command, Mode};
pub use context::{Candidate, Context, Definition, Pod, Request};
pub use document::Document;
pub use error::Error;
#[doc(hidden)]
pub use export::{Exports, bytes};
pub use host::{Host, Level};
pub use intent::{Action, Intent};
pub use outcome::{FailedCall, Outcome, Problem, Verdict};
pub use route::RoutesError;
pub use traits::{Admit, Arrange, Module, Settings, Stage};

// The types of CNI documents, so that an author needs no second dependency to name them.
pub use catena_cni as cni;
