//! `catenactl` and the engine on modules that are made here, in WebAssembly text: no toolchain for wasm is
//! needed, and a module can do what no compiler would emit.

mod artifact;
mod check;
mod contract;
mod install;
mod limits;
mod new;
mod outcome;
mod run;
mod stage;
mod store;

mod usage;
mod wasi;
