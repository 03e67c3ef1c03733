//! catena: a CNI plugin that runs other CNI plugins and, after each, a chain of sandboxed WebAssembly stages.
//!
//! The modules are rooms; the way of an ADD is their order, and each knows only those after it:
//! [`call`], [`cni`], [`attach`], [`pipeline`], [`wasm`], [`routes`], [`delegate`], [`report`]; all of them
//! may ask [`node`] what the node's owner says. [`inject`] is for tests, [`timeline`] for benchmarks.

pub mod attach;
pub mod call;
pub mod cni;
pub mod delegate;
pub mod heap;
pub mod inject;
pub mod node;
pub mod panic;
pub mod pipeline;
pub mod report;
pub mod routes;
pub mod timeline;
pub mod wasm;

#[cfg(test)]
#[path = "../tests/fuzz/driver.rs"]
mod fuzz_driver;
