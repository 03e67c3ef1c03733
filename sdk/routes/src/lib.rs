//! Routes as values: normalising, comparing, validating, planning and undoing, without any input or output.
//!
//! The engine runs these on a real kernel, the SDK's test host and every dry run on a [`SimulatedTable`] that
//! behaves as the kernel was measured to. Both are a [`Wire`], and every [`Wire`] is a [`Table`], which is what a
//! stage's `routes` capability calls: list, apply, replace, undo.

#![warn(missing_docs)]

mod apply;
mod context;
mod draft;
mod errno;
mod error;
mod family;
mod fib;
mod gateway;
mod hop;
mod index;
mod journal;
mod json;
mod kind;
mod link;
mod plan;
mod prefix;
mod request;
mod resolve;
mod revert;
mod route;
mod run;
mod scope;
mod simulate;
mod slot;
mod snapshot;
mod spec;
mod table;
mod text;
mod undo;
mod wire;

#[doc(hidden)]
pub use draft::Draft;
pub use errno::Errno;
pub use error::{ErrorDetails, ErrorKind, RouteError};
pub use family::Family;
pub use hop::Hop;
pub use journal::{Entry, Journal, Mark, RouteChange, Sysctl};
pub use json::JsonError;
pub use kind::Kind;
pub use link::{Link, LinkRef};
pub use prefix::{Prefix, PrefixError};
pub use request::{Action, Mode, Request, Via};
pub use route::{Attribute, Expiry, Route};
pub use scope::Scope;
pub use simulate::SimulatedTable;
pub use slot::Slot;
pub use snapshot::Snapshot;
pub use spec::{Change, RouteSpec};
pub use table::{Applied, ApplyFailure, Table, Undo};
#[doc(hidden)]
pub use undo::undo_once;
pub use wire::{Echo, Failure, Wire};
