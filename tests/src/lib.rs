//! What the integration tests stand on: worlds (namespaces and folders of their own), a runtime that calls CNI
//! plugins in them, and readings of what was left.
//!
//! The binaries under test are named by environment variables; `make test` sets them.

pub mod acceptance;
pub mod binaries;
pub mod captures;
pub mod conf;
pub mod ground;
pub mod pair;
pub mod runtime;
pub mod sample;
pub mod score;
pub mod scripted;
pub mod state;
pub mod trace;
pub mod vectors;
pub mod world;
