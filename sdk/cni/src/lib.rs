//! CNI documents as values: versions, identifiers, arguments, error objects, results of every version and their
//! conversion, configuration lists and folders.
//!
//! Pure: no I/O, no clock, no environment. It compiles natively and to wasm32. Documents are [`json::Value`]s, read
//! by hand with the rules of the Go library that every runtime links: member names match without regard to case, the
//! last duplicate wins, numbers stay as they were written.

pub mod args;
pub mod confdir;
pub mod error;
pub mod identifier;
pub mod json;
pub mod list;
mod members;
pub mod net;
mod old;
pub mod result;
mod text;
mod tree;
pub mod version;
mod write;
