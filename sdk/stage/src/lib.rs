//! What the author of a catena stage imports.

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
pub use export::bytes;
pub use host::{Host, Level};
pub use intent::{Action, Intent};
pub use outcome::{Outcome, Problem, Verdict};
pub use route::RoutesError;
pub use traits::{Admit, Arrange, Module, Settings, Stage};

// The types of CNI documents, so that an author needs no second dependency to name them.
pub use catena_cni as cni;
