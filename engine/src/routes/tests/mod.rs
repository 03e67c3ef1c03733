//! The kernel side on real network namespaces: anonymous ones, each made by its test. They need root (or a user
//! namespace with all rights, `unshare -Urn`), and fail where that is not given.

mod advertisements;
mod backend;
mod concurrent;
mod connection;
mod fuzz;
mod gap;
mod layout;
mod namespace;
mod pod;
mod random;
#[path = "../../../../sdk/routes/tests/support/mod.rs"]
mod support;
mod traps;
mod twin;
mod undo;
